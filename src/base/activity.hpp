// The current activity of this process, which the watchdog's thread may read at any moment: the stage of the
// main thread, the iterations done, the collective operations it has entered, and a counter that rises with
// every step forward. Recording costs a few stores.
#pragma once

#include <atomic>
#include <cstdint>

namespace maniple {

inline constexpr const char* kStartStage = "start";  // outside of other stages, until the first note_done()
inline constexpr const char* kRunStage = "run";      // and afterwards

struct Activity {
  std::atomic<const char*> stage{kStartStage};    // text that lives as long as the program
  std::atomic<const char*> counted{"iteration"};  // what is counted: "iteration", "control step"
  std::atomic<std::int64_t> done{-1};             // this many of them; -1: still starting
  std::atomic<std::int64_t> collectives{0};       // entered so far: the same number on all ranks in step
  std::atomic<bool> waiting{false};               // inside a collective operation
  std::atomic<std::int64_t> part{-1};             // of the job that this process works for; -1: for the whole
  std::atomic<std::uint64_t> progress{0};         // steps forward so far
};
inline constinit Activity activity;

// The main thread moved on: a block was written, a stage began.
inline void note_progress() {
  activity.progress.fetch_add(1, std::memory_order_relaxed);
}
// This many iterations (or control steps) are done; the first call ends the start.
inline void note_done(const char* counted, std::int64_t done) {
  activity.counted.store(counted, std::memory_order_relaxed);
  activity.done.store(done, std::memory_order_relaxed);
  const char* start = kStartStage;
  activity.stage.compare_exchange_strong(start, kRunStage, std::memory_order_relaxed);
  note_progress();
}

// Another run begins in this process: what is counted starts again.
inline void note_start(std::int64_t part) {
  activity.part.store(part, std::memory_order_relaxed);
  activity.done.store(-1, std::memory_order_relaxed);
  activity.stage.store(kStartStage, std::memory_order_relaxed);
  note_progress();
}

// A stage from construction to destruction; stages nest.
class ActivityStage {
 public:
  explicit ActivityStage(const char* stage)
      : before_(activity.stage.exchange(stage, std::memory_order_relaxed)) {
    note_progress();
  }
  ~ActivityStage() {
    activity.stage.store(before_, std::memory_order_relaxed);
    note_progress();
  }
  ActivityStage(const ActivityStage&) = delete;
  ActivityStage& operator=(const ActivityStage&) = delete;

 private:
  const char* before_;
};

// A collective operation from construction to destruction.
class ActivityCollective {
 public:
  ActivityCollective() {
    activity.collectives.fetch_add(1, std::memory_order_relaxed);
    activity.waiting.store(true, std::memory_order_relaxed);
    note_progress();
  }
  ~ActivityCollective() {
    activity.waiting.store(false, std::memory_order_relaxed);
    note_progress();
  }
  ActivityCollective(const ActivityCollective&) = delete;
  ActivityCollective& operator=(const ActivityCollective&) = delete;
};

}  // namespace maniple
