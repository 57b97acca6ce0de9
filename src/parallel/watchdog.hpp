// The watchdog ends a job in which nothing moves, and says why. A rank that was stopped, lost its host or
// hangs in a file system leaves the others waiting in a collective operation, and MPI does not notice.
//
// Each rank has a thread that calls no MPI (only the main thread may) and talks to the others' by UDP
// datagrams. In a healthy job it sends its state to two other ranks now and then, whatever the number of
// ranks; nothing else happens. When its main thread has not moved for the time-out, the lowest rank that
// answers asks all ranks for their state. If any of them has moved, all is well: someone works and the
// others wait. Otherwise it names who is to blame and ends the job through fail_without_mpi():
//   - ranks that do not answer, with what their neighbours heard last,
//   - else ranks that entered fewer collective operations than the others (of their part of the job, where
//     parts do different work; ranks that are done with theirs are not to blame),
//   - else ranks outside of a collective operation while others are inside.
// Time in which the process itself did not run (a suspended job, a sleeping machine) does not count.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/parallel/collectives.hpp"

namespace maniple {

// Until the first iteration is done the time-out is longer by this factor: models are compiled, memory is
// touched for the first time, files come over a network.
inline constexpr double kStartPatience = 3;

// The state that a rank reports.
struct RankState {
  char stage[32] = {}, counted[16] = {};
  std::int64_t done = -1, collectives = 0;
  std::int64_t part = -1;  // of the job that the rank works for; -1: for the whole
  bool waiting = false;
  double still = 0;      // s since its main thread moved
  double remaining = 0;  // s until that is too long; infinity: never
};

// The facts about a rank when a job hangs.
struct RankRecord {
  std::string host;
  int pid = 0;
  bool answers = false;
  bool heard = false;    // state is known, from its answer or from what it sent before
  double heard_ago = 0;  // s
  std::string process;   // of a silent process of this host: "stopped", "gone" ...; "": unknown
  RankState state;
};

// Seconds until the job must be looked at again because someone may still be moving; nothing: it hangs.
std::optional<double> seconds_to_hang(const std::vector<RankRecord>& ranks, double limit);
// The message that names the ranks to blame for a job that hangs.
std::string describe_hang(const std::vector<RankRecord>& ranks, double limit);

class Watchdog {
 public:
  // Collective: ranks exchange addresses over `collectives`. `hosts`: of every rank. The thread starts with
  // the default time-out.
  Watchdog(Collectives& collectives, const std::vector<std::string>& hosts);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // run.hang_timeout in s, the same on all ranks; 0: off.
  void set_timeout(double seconds);

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace maniple
