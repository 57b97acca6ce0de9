// Handlers only set flags; everything else happens in agree(). One process has one set of flags, because
// signals belong to the process.
#include "src/driver/stop.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace maniple {

namespace {

using Clock = std::chrono::steady_clock;

volatile sig_atomic_t received_signal = 0;

void note_signal(int number) {
  // whoever interrupts twice means it
  if (number == SIGINT && received_signal == SIGINT) {
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
  received_signal = number;
}

constexpr std::array<int, 3> kSignals{SIGTERM, SIGINT, SIGUSR1};

// What a rank saw, in order of weight.
enum Cause : std::int64_t { nothing = 0, wall_time = 1, stop_file = 2, first_signal = 16 };

const char* name_of_signal(std::int64_t number) {
  if (number == SIGTERM) return "SIGTERM";
  if (number == SIGINT) return "SIGINT";
  return "SIGUSR1";
}

bool take_trigger(const std::string& path) {
  return access(path.c_str(), F_OK) == 0 && unlink(path.c_str()) == 0;
}

}  // namespace

struct StopRequest::Handlers {
  std::array<struct sigaction, kSignals.size()> before{};

  Handlers() {
    received_signal = 0;
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before[i]);
  }
  ~Handlers() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
  }
};

StopRequest::StopRequest(const Config& config, Clock::time_point started)
    : handlers_(std::make_unique<Handlers>()),
      directory_(config.output.directory),
      wall_time_(config.run.wall_time),
      started_(started),
      last_call_(Clock::now()),
      last_look_(Clock::now() - std::chrono::hours(1)) {}

StopRequest::~StopRequest() = default;

StopRequest::Decision StopRequest::agree(Collectives& collectives) {
  const auto now = Clock::now();
  longest_interval_ = std::max(longest_interval_, std::chrono::duration<double>(now - last_call_).count());
  last_call_ = now;

  std::int64_t cause = nothing, checkpoint = 0;
  if (wall_time_ > 0) {
    // what the next iteration with its checkpoint may take, and a little for leaving
    const double margin = 1.5 * longest_interval_ + std::min(5.0, 0.02 * wall_time_);
    if (std::chrono::duration<double>(now - started_).count() + margin >= wall_time_) cause = wall_time;
  }
  // one rank looks at the file system, and not in every short iteration
  if (collectives.rank() == 0 && now - last_look_ >= std::chrono::seconds(1)) {
    last_look_ = now;
    if (take_trigger(directory_ + "/stop_now")) cause = stop_file;
    checkpoint = take_trigger(directory_ + "/checkpoint_now");
  }
  if (received_signal != 0) cause = first_signal + received_signal;

  std::int64_t seen[2] = {cause, checkpoint};
  collectives.max(seen, 2);
  Decision decision;
  decision.stop = seen[0] != nothing;
  decision.checkpoint = seen[1] != 0 || decision.stop;
  if (seen[1] != 0) decision.reason = "checkpoint_now";
  if (seen[0] == wall_time) decision.reason = "run.wall_time";
  if (seen[0] == stop_file) decision.reason = "stop_now";
  if (seen[0] > first_signal) decision.reason = name_of_signal(seen[0] - first_signal);
  return decision;
}

}  // namespace maniple
