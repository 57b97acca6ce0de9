// Where an installed Python package lies, found from paths alone: starting Python on every rank of a
// large job would load a parallel file system with thousands of small reads.
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "src/config/deck.hpp"

namespace maniple {
namespace {

namespace fs = std::filesystem;

// Virtual environments in the order of preference.
std::vector<fs::path> environments() {
  std::vector<fs::path> roots;
  if (const char* active = std::getenv("VIRTUAL_ENV"); active && *active) roots.emplace_back(active);
  // build/maniple and test programs deeper in the build folder: .venv beside any folder above
  std::error_code problem;
  fs::path folder = fs::read_symlink("/proc/self/exe", problem).parent_path();
  for (int level = 0; level < 4 && folder.has_relative_path(); ++level, folder = folder.parent_path())
    roots.push_back(folder / ".venv");
  roots.push_back(fs::current_path(problem) / ".venv");
  return roots;
}

}  // namespace

std::string python_package_directory(const std::string& package) {
  if (package.empty()) return "";
  for (const char c : package)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return "";
  std::error_code problem;
  for (const fs::path& root : environments())
    for (const char* library : {"lib", "lib64"})
      for (fs::directory_iterator entry(root / library, problem), end; !problem && entry != end;
           entry.increment(problem)) {
        if (entry->path().filename().string().rfind("python", 0) != 0) continue;
        const fs::path directory = entry->path() / "site-packages" / package;
        std::error_code missing;
        if (fs::is_directory(directory, missing)) return directory.string();
      }
  return "";
}

}  // namespace maniple
