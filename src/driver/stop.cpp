// Handlers only set flags; everything else happens in decide(). One process has one set of flags, because
// signals belong to the process.
#include "src/driver/stop.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "src/io/run_directory.hpp"

namespace maniple {

namespace {

using Clock = std::chrono::steady_clock;

volatile sig_atomic_t received_signal = 0, continued = 0;

void note_signal(int number) {
  if (number == SIGCONT) {
    continued = 1;
    return;
  }
  // a second interrupt ends the process at once
  if (number == SIGINT && received_signal == SIGINT) {
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
  received_signal = number;
}

struct NotedSignal {
  int number;
  const char* name;
  struct sigaction before;
  std::string last_line{};  // what a verb without an end in order says of this signal
};
std::array<NotedSignal, 5> noted_signals{{{SIGTERM, "SIGTERM", {}},
                                          {SIGINT, "SIGINT", {}},
                                          {SIGUSR1, "SIGUSR1", {}},
                                          {SIGHUP, "SIGHUP", {}},
                                          {SIGCONT, "SIGCONT", {}}}};
int watchers = 0;
bool whole_job_stops = false;

// The request that a rank saw, in order of priority.
enum Cause : std::int64_t { nothing = 0, wall_time = 1, stop_file = 2, first_signal = 16 };
enum Wish : std::int64_t { no_checkpoint = 0, checkpoint_file = 1, checkpoint_signal = 2 };

constexpr double kSecondsBetweenPolls = 0.1;

const char* name_of_signal(std::int64_t number) {
  for (const NotedSignal& noted : noted_signals)
    if (noted.number == number) return noted.name;
  return "signal";
}

// (only functions that signal handlers may call; one write, so that lines of several ranks cannot mix)
void tell_signal(int number) {
  for (const NotedSignal& noted : noted_signals)
    if (noted.number == number && !noted.last_line.empty()) {
      const ssize_t written = write(STDERR_FILENO, noted.last_line.data(), noted.last_line.size());
      (void)written;
    }
  release_lock_at_signal();
  raise(number);
}

bool take_trigger(const std::string& path) {
  return access(path.c_str(), F_OK) == 0 && unlink(path.c_str()) == 0;
}

}  // namespace

StopSignals::StopSignals() {
  if (watchers++ > 0) return;
  received_signal = 0;
  whole_job_stops = false;
  continued = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (NotedSignal& noted : noted_signals) {
    sigaction(noted.number, nullptr, &noted.before);
    if (noted.before.sa_handler != SIG_IGN) sigaction(noted.number, &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  if (--watchers > 0) return;
  for (const NotedSignal& noted : noted_signals) sigaction(noted.number, &noted.before, nullptr);
}

void tell_ending_signals(const char* verb, bool says) {
  for (NotedSignal& noted : noted_signals) {
    // who presses Ctrl-C knows what ends it
    if (says && noted.number != SIGINT)
      noted.last_line =
          std::string("maniple: error: ") + verb + " was ended by " + noted.name + ", before it was done\n";
    struct sigaction before {};
    sigaction(noted.number, nullptr, &before);
    if (noted.number == SIGCONT || before.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = tell_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(noted.number, &action, nullptr);
  }
}

bool job_stops() {
  return whole_job_stops;
}

StopRequest::StopRequest(const Config& config, Clock::time_point started)
    : directory_(config.output.directory),
      wall_time_(config.run.wall_time),
      started_(started),
      last_call_(Clock::now()),
      last_look_(Clock::now() - std::chrono::hours(1)),
      last_poll_(last_call_) {}

void StopRequest::note_output(double seconds) {
  expect_output(seconds);
  output_since_call_ += seconds;
}

void StopRequest::expect_output(double seconds) {
  longest_output_ = std::max(longest_output_, seconds);
}

StopRequest::Decision StopRequest::agree(Collectives& collectives) {
  const auto now = Clock::now();
  longest_iteration_ = std::max(longest_iteration_,
                                std::chrono::duration<double>(now - last_call_).count() - output_since_call_);
  last_call_ = now;
  output_since_call_ = 0;
  return decide(collectives, false);
}

StopRequest::Decision StopRequest::poll(Collectives& collectives) {
  if (++calls_ < calls_per_poll_) return {};
  calls_ = 0;
  return decide(collectives, true);
}

StopRequest::Decision StopRequest::decide(Collectives& collectives, bool within_iteration) {
  const auto now = Clock::now();
  const auto since = [&](Clock::time_point then) {
    return std::chrono::duration<double>(now - then).count();
  };
  std::int64_t cause = nothing, wish = no_checkpoint;
  if (wall_time_ > 0) {
    // what is still to be done, and a little for leaving
    const double iteration = within_iteration ? 0 : 1.5 * longest_iteration_;
    const double margin = iteration + 2 * longest_output_ + std::min(5.0, 0.02 * wall_time_);
    if (since(started_) + margin >= wall_time_) cause = wall_time;
  }
  // one rank looks at the file system, and not in every short iteration
  if (!within_iteration && collectives.rank() == 0 && since(last_look_) >= 1) {
    last_look_ = now;
    if (take_trigger(directory_ + "/stop_now")) cause = stop_file;
    if (take_trigger(directory_ + "/checkpoint_now")) wish = checkpoint_file;
  }
  if (continued != 0) {
    continued = 0;
    wish = checkpoint_signal;
  }
  if (received_signal != 0) cause = first_signal + received_signal;

  std::int64_t seen[3] = {cause, wish, static_cast<std::int64_t>(1e6 * since(last_poll_))};
  collectives.max(seen, 3);
  last_poll_ = now;
  if (within_iteration) {
    // the same number on every rank, because all know the same time
    const double calls = static_cast<double>(calls_per_poll_) * 1e6 * kSecondsBetweenPolls /
                         static_cast<double>(std::max<std::int64_t>(1, seen[2]));
    calls_per_poll_ = std::clamp<std::int64_t>(static_cast<std::int64_t>(calls), 1, 2 * calls_per_poll_);
  }
  Decision decision;
  decision.stop = seen[0] != nothing;
  decision.checkpoint = seen[1] != no_checkpoint || decision.stop;
  if (seen[1] == checkpoint_file) decision.reason = "checkpoint_now";
  if (seen[1] == checkpoint_signal) decision.reason = "SIGCONT";
  whole_job_stops |= seen[0] == wall_time || seen[0] > first_signal;
  if (seen[0] == wall_time) decision.reason = "run.wall_time";
  if (seen[0] == stop_file) decision.reason = "stop_now";
  if (seen[0] > first_signal) decision.reason = name_of_signal(seen[0] - first_signal);
  return decision;
}

}  // namespace maniple
