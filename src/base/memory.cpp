// Reads /proc and the files of control groups: Documentation/admin-guide/cgroup-v1/memory.rst and
// cgroup-v2.rst of Linux, proc(5) for mountinfo.
#include "src/base/memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>

namespace maniple {
namespace {

// The first number of a file; nothing when it holds none ("max") or cannot be read.
std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// The number after `name` in a file of lines "name number".
std::uint64_t read_entry(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string first;
    std::uint64_t number = 0;
    if (words >> first >> number && first == name) return number;
  }
  return 0;
}

bool lists(const std::string& items, const std::string& item) {
  std::istringstream in(items);
  for (std::string each; std::getline(in, each, ',');)
    if (each == item) return true;
  return false;
}

struct Hierarchy {
  bool version2 = false;
  std::string mount;  // directory at which it is mounted
  std::string top;    // the group that is mounted there
};

// Where groups that account for memory are mounted.
std::vector<Hierarchy> hierarchies(const std::string& root) {
  std::vector<Hierarchy> found;
  std::ifstream mounts(root + "/proc/self/mountinfo");
  std::string line;
  while (std::getline(mounts, line)) {
    // id parent device root mount options [optional ...] - type source options
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line), after(line.substr(dash + 3));
    std::string id, parent, device, top, mount, type, source, options;
    before >> id >> parent >> device >> top >> mount;
    after >> type >> source >> options;
    if (type == "cgroup2" || (type == "cgroup" && lists(options, "memory")))
      found.push_back({type == "cgroup2", mount, top});
  }
  return found;
}

// The group of this process in a hierarchy, from its root; nothing when it has none.
std::optional<std::string> own_group(const std::string& root, bool version2) {
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    // number:controllers:path; version 2: 0::path
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version2 ? controllers.empty() : lists(controllers, "memory")) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The memory left in one group, by its own limit.
std::optional<std::size_t> left_in_group(const std::string& directory, bool version2) {
  const auto limit = read_number(directory + (version2 ? "/memory.max" : "/memory.limit_in_bytes"));
  const auto used = read_number(directory + (version2 ? "/memory.current" : "/memory.usage_in_bytes"));
  constexpr std::uint64_t unlimited = std::uint64_t{1} << 60;  // version 1 has a number for "none"
  if (!limit || !used || *limit >= unlimited) return std::nullopt;
  const std::string statistics = directory + "/memory.stat", prefix = version2 ? "" : "total_";
  const std::uint64_t cache =
      read_entry(statistics, prefix + "active_file") + read_entry(statistics, prefix + "inactive_file");
  const std::uint64_t held = *used - std::min(*used, cache);
  return *limit - std::min(*limit, held);
}

void add_groups(const std::string& root, std::vector<MemoryLimit>& limits) {
  for (const Hierarchy& hierarchy : hierarchies(root)) {
    const auto group = own_group(root, hierarchy.version2);
    if (!group) continue;
    // a container may see its own group mounted as the top, by a path that only its host knows
    std::string below = *group;
    const std::string& top = hierarchy.top;
    if (top != "/" && below.compare(0, top.size(), top) == 0) below.erase(0, top.size());
    const auto directory = [&] { return hierarchy.mount + (below == "/" ? "" : below); };
    if (access((root + directory()).c_str(), F_OK) != 0) below.clear();
    for (;;) {
      if (const auto left = left_in_group(root + directory(), hierarchy.version2))
        limits.push_back({directory(), *left, false});
      if (below.empty() || below == "/") break;
      below.erase(below.rfind('/'));
    }
  }
}

}  // namespace

std::vector<MemoryLimit> memory_limits(const std::string& root) {
  std::vector<MemoryLimit> limits;
  if (const std::uint64_t kilobytes = read_entry(root + "/proc/meminfo", "MemAvailable:"))
    limits.push_back({"host", kilobytes * 1024, false});
  add_groups(root, limits);
  struct rlimit space {};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    const auto pages = read_number(root + "/proc/self/statm");
    const std::size_t used = pages.value_or(0) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    limits.push_back({"ulimit -v", space.rlim_cur - std::min<std::size_t>(space.rlim_cur, used), true});
  }
  return limits;
}

}  // namespace maniple
