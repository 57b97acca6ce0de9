// Times of the stages of physics, for `maniple bench`: a timed worker reads the clock at the end of every
// stage of a step, and of the computations that a task adds. An untimed worker pays one comparison per stage;
// devices are not timed.
#pragma once

#include <chrono>
#include <cstdint>

#include "kernels/model/data.hpp"

namespace maniple {

// The stages of a step, in order, of which RK4 repeats those up to the solver; then what tasks ask for.
//      name                 what it does
#define MANIPLE_PHYSICS_STAGES(STAGE)                                      \
  STAGE(kinematics, "poses of bodies and geoms")                           \
  STAGE(inertia_and_bias, "qM and qfrc_bias")                              \
  STAGE(collision, "contacts")                                             \
  STAGE(smooth_acceleration, "factor of qM, actuators, passive forces")    \
  STAGE(constraint_rows, "limits, dry friction and Jacobians of contacts") \
  STAGE(solver, "constraint forces")                                       \
  STAGE(integrator, "the new state")                                       \
  STAGE(regrouping, "states to packs of like environments, and back")      \
  STAGE(forward, "what a task reads of a state that no step has seen yet")

enum class PhysicsStage {
#define MANIPLE_STAGE_NAME(name, meaning) name,
  MANIPLE_PHYSICS_STAGES(MANIPLE_STAGE_NAME)
#undef MANIPLE_STAGE_NAME
      count
};

inline constexpr int kPhysicsStages = static_cast<int>(PhysicsStage::count);
inline constexpr const char* kPhysicsStageNames[] = {
#define MANIPLE_STAGE_NAME(name, meaning) #name,
    MANIPLE_PHYSICS_STAGES(MANIPLE_STAGE_NAME)
#undef MANIPLE_STAGE_NAME
};

// Nanoseconds that one worker has spent in each stage.
struct StageTimes {
  std::int64_t nanoseconds[kPhysicsStages] = {};
  std::int64_t previous = 0;  // the clock at the end of the stage before

  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  // Whatever runs until the next stage ends counts towards that stage.
  void begin() { previous = now(); }
  __attribute__((noinline, cold)) void end(PhysicsStage stage) {
    const std::int64_t time = now();
    nanoseconds[static_cast<int>(stage)] += time - previous;
    previous = time;
  }
};

// Counts the time since the last stage ended towards `stage`, if the pack's worker is timed.
template <class V>
MANIPLE_FUNCTION void end_stage([[maybe_unused]] const Data<V>& d, [[maybe_unused]] PhysicsStage stage) {
  if constexpr (!kScalarLanes)
    if (d.times != nullptr) d.times->end(stage);
}

// The times of a worker that begins to work; null where nobody asked for them.
#ifdef MANIPLE_SCALAR_LANES
MANIPLE_FUNCTION StageTimes* begin_stages(const Kokkos::View<StageTimes*, MemorySpace>&, int) {
  return nullptr;
}
#else
MANIPLE_FUNCTION StageTimes* begin_stages(const Kokkos::View<StageTimes*, MemorySpace>& workers, int worker) {
  if (workers.extent(0) == 0) return nullptr;
  workers(worker).begin();
  return &workers(worker);
}
#endif

}  // namespace maniple
