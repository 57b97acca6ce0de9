// The progress line on rank 0: a bar that rewrites itself on a terminal, plain lines otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "src/config/config.hpp"

namespace maniple {

class Progress {
 public:
  // Silent unless `active` (rank 0).
  Progress(std::int64_t total, ProgressStyle style, bool active);
  // Shows `done` of `total`; `text` stands behind the bar (rate, reward, memory).
  void update(std::int64_t done, const std::string& text);
  // Ends the line.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  std::int64_t total_;
  std::int64_t first_ = -1;  // done at the first update, for the ETA after a resume
  bool active_, bar_;
  Clock::time_point start_, last_;
};

// Resident memory of this process, "123 MB".
std::string resident_memory();
// "1.25 M", "830 k": a rate in three digits.
std::string human_rate(double per_second);

}  // namespace maniple
