// The persistent state of a task, one environment each: the one place that lists what exists. Tiles,
// checkpoints and output by name are driven by these lines, like the tables of kernels/model.
#pragma once

#include <cstdint>

#include "kernels/base/varying.hpp"

namespace maniple {

// Real numbers, in the precision of the physics.
//      name              size                unit        description
#define MANIPLE_TASK_FIELDS(FIELD)                                                           \
  FIELD(action, num_actions, "1", "action of this control step, as the policy gave it")      \
  FIELD(last_action, num_actions, "1", "action of the control step before")                  \
  FIELD(memory, num_memory, "task", "values at the previous control step that prev() reads") \
  FIELD(episode_return, 1, "reward", "sum of rewards since the reset")                       \
  FIELD(episode_reward_term, num_reward_terms, "reward", "sum of each reward term since the reset")

// Counters, 32-bit integers in both precisions: a float would stop counting at 2^24.
//      name                unit      description
#define MANIPLE_TASK_COUNTERS(FIELD)                                                       \
  FIELD(episode_step, "1", "control steps since the reset")                                \
  FIELD(reset_count, "1", "resets so far; the step of the reset's random numbers")         \
  FIELD(clipped_actions, "1", "components of actions that the task's clip changed so far") \
  FIELD(bad_values, "1", "rewards and observations beyond 1e10 or not finite, which became 0, so far")

// Number of elements of each size that the table names.
struct TaskSizes {
  int num_actions = 0;
  int num_memory = 0;
  int num_reward_terms = 0;
};

// Real elements of one environment.
MANIPLE_FUNCTION int task_elements(const TaskSizes& sizes) {
  [[maybe_unused]] const auto [num_actions, num_memory, num_reward_terms] = sizes;
  int count = 0;
#define MANIPLE_FIELD(name, size, unit, description) count += size;
  MANIPLE_TASK_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return count;
}

// First element of each field in an environment's part of the tile.
struct TaskLayout {
#define MANIPLE_FIELD(name, size, unit, description) int name = 0;
  MANIPLE_TASK_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
};
MANIPLE_FUNCTION TaskLayout task_layout(const TaskSizes& sizes) {
  [[maybe_unused]] const auto [num_actions, num_memory, num_reward_terms] = sizes;
  TaskLayout layout;
  int next = 0;
#define MANIPLE_FIELD(name, size, unit, description) \
  layout.name = next;                                \
  next += size;
  MANIPLE_TASK_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return layout;
}

// Elements of the counters' tile.
enum TaskCounter : int {
#define MANIPLE_FIELD(name, unit, description) counter_##name,
  MANIPLE_TASK_COUNTERS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
      kTaskCounters
};

}  // namespace maniple
