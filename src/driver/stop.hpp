// Requests to stop a run or to write a checkpoint before its end: signals, trigger files, wall time. All
// ranks learn the same answer from one small reduction, so that no rank stops alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "src/config/config.hpp"
#include "src/parallel/collectives.hpp"

namespace maniple {

// Notes signals from construction to destruction, from before MPI starts, so that none that asks for a
// clean end kills the program while it sets itself up: SIGTERM, SIGINT, SIGUSR1 and SIGHUP ask for a stop (a
// second SIGINT ends the process at once), SIGCONT for a checkpoint, because Open MPI's mpirun, when it is to
// end a job, sends it long before SIGTERM. Signals that were ignored (nohup) stay ignored.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

// Says from here on which signal ends the process, where a launcher or batch system sends it to a verb that
// does not end in order; the process then ends by it as it would have, without its lock of the run's
// directory. `says`: on one rank of a job.
void tell_ending_signals(const char* verb, bool says);

// Whether a StopRequest of this process has found a reason to stop that holds for the whole job: a signal or
// the wall time, not the file in one run's directory.
bool job_stops();

class StopRequest {
 public:
  struct Decision {
    bool checkpoint = false;  // write one now and go on
    bool stop = false;        // write a checkpoint and leave with exit code 75
    std::string reason;       // the weightiest that any rank has, for the log; "" when nothing is asked
  };

  // Signals count that came since the first StopSignals that still lives, or since here.
  // <output.directory>/checkpoint_now and stop_now are looked for at most once a second and removed when
  // seen. run.wall_time counts from `started`.
  StopRequest(const Config& config, std::chrono::steady_clock::time_point started);
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // Collective, once per iteration. The wall time is up when the longest iteration so far, once more, and
  // what output then takes would not fit into what is left.
  Decision agree(Collectives& collectives);
  // Collective, within an iteration, on every rank equally often: what cannot wait for its end, signals and a
  // wall time that leaves just enough for the output. Most calls return at once; about ten a second agree.
  Decision poll(Collectives& collectives);
  // Output took so long, which is no part of the iteration, and is to be expected again.
  void note_output(double seconds);
  // The output at the end takes so long, or twice that.
  void expect_output(double seconds);

 private:
  Decision decide(Collectives& collectives, bool within_iteration);

  StopSignals signals_;
  std::string directory_;
  double wall_time_;
  std::chrono::steady_clock::time_point started_, last_call_, last_look_, last_poll_;
  double longest_iteration_ = 0, longest_output_ = 0, output_since_call_ = 0;  // s
  std::int64_t calls_ = 0, calls_per_poll_ = 1;
};

}  // namespace maniple
