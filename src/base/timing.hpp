// Times of a run's stages: named stages that accumulate wall-clock seconds, entered by RAII. Regions also
// show up in Kokkos profiling tools under the same names.
#pragma once

#include <Kokkos_Core.hpp>
#include <chrono>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "src/base/activity.hpp"

namespace maniple {

// Seconds since an arbitrary moment, steadily rising.
inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds for which a core has run this thread.
inline double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class StageClock {
 public:
  // `fence`: wait for the device when a region ends, so that its kernels count where they were
  // launched; costs nothing on a CPU, and the overlap of stages on a GPU.
  explicit StageClock(bool fence = true) : fence_(fence) {}

  void add(const std::string& stage, double seconds) { find(stage) += seconds; }
  // Seconds per stage, in order of first use.
  const std::vector<std::pair<std::string, double>>& seconds() const { return seconds_; }
  double seconds(const std::string& stage) const {
    for (const auto& entry : seconds_)
      if (entry.first == stage) return entry.second;
    return 0;
  }

  // Counts the time from construction to destruction.
  class Region {
   public:
    // `stage` lives as long as the program: the watchdog reads it at any time.
    Region(StageClock& clock, const char* stage)
        : clock_(clock), stage_(stage), activity_(stage), start_(wall_seconds()) {
      Kokkos::Profiling::pushRegion(stage_);
    }
    ~Region() {
      if (clock_.fence_) Kokkos::fence();
      Kokkos::Profiling::popRegion();
      clock_.add(stage_, wall_seconds() - start_);
    }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

   private:
    StageClock& clock_;
    const char* stage_;
    ActivityStage activity_;
    double start_;
  };

 private:
  double& find(const std::string& stage) {
    for (auto& entry : seconds_)
      if (entry.first == stage) return entry.second;
    return seconds_.emplace_back(stage, 0.0).second;
  }
  bool fence_;
  std::vector<std::pair<std::string, double>> seconds_;
};

}  // namespace maniple
