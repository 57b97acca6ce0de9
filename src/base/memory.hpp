// The memory that this process may still take: that of the host, less what control groups (of a job under
// SLURM or PBS, of a container) and limits of the process forbid.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace maniple {

// The memory that one limit leaves.
struct MemoryLimit {
  std::string name;           // "host", the directory of a control group, or "ulimit -v"
  std::size_t available = 0;  // B
  bool of_process = false;    // not shared with other processes of the host
};

// All limits that hold for this process, the host's first. Control groups of version 1 and 2 count with
// those above them; the page cache counts as available, because it gives way. What cannot be read is left
// out. `root` stands before /proc and /sys: for tests.
std::vector<MemoryLimit> memory_limits(const std::string& root = "");

}  // namespace maniple
