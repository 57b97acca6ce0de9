#include "src/driver/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "src/base/log.hpp"

namespace maniple {
namespace {

std::string clock_text(double seconds) {
  const std::int64_t s = std::llround(std::max(0.0, seconds));
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

// Whether somebody looks at stdout. mpirun gives its ranks a terminal of its own, wherever its output goes;
// what counts then is where the parent writes.
bool on_terminal() {
  if (isatty(STDOUT_FILENO) == 0) return false;
  std::error_code unknown;
  const std::string parents =
      std::filesystem::read_symlink(fmt::format("/proc/{}/fd/1", getppid()), unknown).string();
  return unknown || parents.rfind("/dev/pts/", 0) == 0 || parents.rfind("/dev/tty", 0) == 0 ||
         parents == "/dev/console";
}

}  // namespace

Progress::Progress(std::int64_t total, ProgressStyle style, bool active)
    : total_(std::max<std::int64_t>(1, total)),
      active_(active && style != ProgressStyle::none),
      bar_(style == ProgressStyle::bar || (style == ProgressStyle::automatic && on_terminal())),
      start_(Clock::now()),
      last_(start_) {}

void Progress::update(std::int64_t done, const std::string& text) {
  if (!active_) return;
  const auto now = Clock::now();
  if (first_ < 0) first_ = std::max<std::int64_t>(0, done - 1);
  // (nothing in the first moment either: a rate over it is one of warming up)
  if (done < total_ && now - last_ < std::chrono::milliseconds(bar_ ? 100 : 1000)) return;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double left =
      done > first_ ? elapsed * static_cast<double>(total_ - done) / static_cast<double>(done - first_) : 0;
  if (bar_) {
    constexpr int width = 24;
    const int filled = static_cast<int>(width * std::min(done, total_) / total_);
    std::string bar;
    for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
    live_line(fmt::format("{} {:3}%  {}/{}  {}  eta {}", bar, 100 * done / total_, done, total_, text,
                          clock_text(left)));
  } else {
    info(fmt::format("{}/{}  {}  eta {}", done, total_, text, clock_text(left)));
  }
}

void Progress::finish() {
  if (active_ && bar_) live_line("");
}

std::string resident_memory() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return fmt::format("{} MB", resident * sysconf(_SC_PAGESIZE) / 1000000);
}

std::string human_rate(double per_second) {
  if (per_second >= 1e9) return fmt::format("{:.2f} G", per_second / 1e9);
  if (per_second >= 1e6) return fmt::format("{:.2f} M", per_second / 1e6);
  if (per_second >= 1e3) return fmt::format("{:.1f} k", per_second / 1e3);
  return fmt::format("{:.1f} ", per_second);
}

}  // namespace maniple
