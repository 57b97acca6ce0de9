#include "src/parallel/shared_memory.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>

#include "src/base/process.hpp"

namespace maniple {

namespace fs = std::filesystem;

namespace {

constexpr std::time_t kYoung = 60;  // s

// Takes out of `paths` what a process of this user has mapped.
void remove_mapped(std::set<std::string>& paths) {
  std::error_code ignored;
  for (fs::directory_iterator entry("/proc", ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c); })) continue;
    std::ifstream maps(entry->path() / "maps");
    for (std::string line; !paths.empty() && std::getline(maps, line);)
      if (const std::size_t at = line.find('/'); at != std::string::npos) paths.erase(line.substr(at));
  }
}

}  // namespace

void remove_abandoned_segments(const std::string& directory) {
  // "vader_segment.<host without domain>.<user>.<job>.<rank>"
  const std::string host = host_name();
  const std::string ours =
      "vader_segment." + host.substr(0, host.find('.')) + "." + std::to_string(geteuid()) + ".";
  std::set<std::string> candidates;
  std::error_code ignored;
  for (fs::directory_iterator entry(directory, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    struct stat status {};
    const std::string path = entry->path().string();
    if (entry->path().filename().string().starts_with(ours) && stat(path.c_str(), &status) == 0 &&
        std::time(nullptr) - status.st_mtime >= kYoung)
      candidates.insert(path);
  }
  if (!candidates.empty()) remove_mapped(candidates);
  for (const std::string& path : candidates) unlink(path.c_str());
}

}  // namespace maniple
