// The identity of this process, in words that other processes can check: for names of temporary files and for
// the lock of a run's directory.
#pragma once

#include <cstdint>
#include <string>

namespace maniple {

std::string host_name();

// The scheduler's job that this process belongs to.
struct Job {
  std::string id;     // letters and digits; "": none
  std::string query;  // the command that tells how that job is doing
  // Counts the starts of one job: MANIPLE_JOB_START (the job scripts set it to the time), else
  // SLURM_RESTART_COUNT, else 0.
  std::int64_t start = 0;
};
Job job();

// Clock ticks from boot to the start of a process of this host, which tells it from a later one with the
// same number; -1: no such process, or a dead one that nobody has waited for.
std::int64_t process_start(long pid);

// Process numbers mean the same to two processes when these are equal.
std::string process_namespace();

}  // namespace maniple
