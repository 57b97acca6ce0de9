// When a run must stop or write a checkpoint before its end: signals, trigger files, wall time. All
// ranks learn the same answer from one small reduction, so that no rank stops alone.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "src/config/config.hpp"
#include "src/parallel/collectives.hpp"

namespace maniple {

class StopRequest {
 public:
  struct Decision {
    bool checkpoint = false;  // write one now and go on
    bool stop = false;        // write a checkpoint and leave with exit code 75
    std::string reason;       // of rank 0's choice, for the log; "" when nothing is asked
  };

  // SIGTERM, SIGINT and SIGUSR1 ask for a stop from here on, until the destructor; a second SIGINT ends
  // the process at once. <output.directory>/checkpoint_now and stop_now are looked for at most once a
  // second and removed when seen. run.wall_time counts from `started`.
  StopRequest(const Config& config, std::chrono::steady_clock::time_point started);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // Collective, once per iteration. The wall time is up when the longest time between two calls so far
  // (which includes the checkpoints written in between), once more, would not fit into what is left.
  Decision agree(Collectives& collectives);

 private:
  struct Handlers;
  std::unique_ptr<Handlers> handlers_;
  std::string directory_;
  double wall_time_;
  std::chrono::steady_clock::time_point started_, last_call_, last_look_;
  double longest_interval_ = 0;  // s
};

}  // namespace maniple
