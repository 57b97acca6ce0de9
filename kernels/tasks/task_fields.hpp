// The tables of a task: its own state of each environment, and the arrays that each control step exchanges
// with a policy. The one place that lists what exists: tiles, checkpoints, files and learning are driven by
// these lines, like the tables of kernels/model.
#pragma once

#include <cstdint>

#include "kernels/base/varying.hpp"

namespace maniple {

// Numbers that the compiled task decides, by which the tables below are sized.
#define MANIPLE_TASK_SIZES(SIZE)                                                                \
  SIZE(num_actions, "components of the action")                                                 \
  SIZE(num_observations, "components of the observation")                                       \
  SIZE(num_critic_observations, "components of the observation that the critic has for itself") \
  SIZE(num_terrains, "1: the task has a terrain")                                               \
  SIZE(num_motions, "1: the task has a reference motion")                                       \
  SIZE(num_memory, "values that prev() keeps")                                                  \
  SIZE(num_kept, "values of variables, timers and histories")                                   \
  SIZE(num_reward_terms, "rewards that make up the reward")                                     \
  SIZE(num_metrics, "numbers that say how an episode went, beside its rewards")                 \
  SIZE(num_success, "1: the task says what success is")

// Persistent state, real numbers in the precision of the physics.
//      name              size                unit        description
#define MANIPLE_TASK_FIELDS(FIELD)                                                                  \
  FIELD(action, num_actions, "1", "action of this control step, as the policy gave it")             \
  FIELD(last_action, num_actions, "1", "action of the control step before")                         \
  FIELD(terrain_level, num_terrains, "1", "row of the environment's cell of the terrain")           \
  FIELD(terrain_type, num_terrains, "1", "number of the cell's sub-terrain, from 0")                \
  FIELD(terrain_origin, 3 * num_terrains, "m", "where robots stand in the cell")                    \
  FIELD(motion_frame, num_motions, "1", "frame of the reference motion, from 0")                    \
  FIELD(memory, num_memory, "task", "values at the previous control step that prev() reads")        \
  FIELD(kept, num_kept, "task", "variables, timers, biases and histories of the task")              \
  FIELD(episode_return, 1, "reward", "sum of rewards since the reset")                              \
  FIELD(episode_reward_term, num_reward_terms, "reward", "sum of each reward term since the reset") \
  FIELD(episode_metric, num_metrics, "task", "each metric since the reset; of a mean the sum")

// Counters, 32-bit integers in both precisions: a float would stop counting at 2^24.
//      name                unit      description
#define MANIPLE_TASK_COUNTERS(FIELD)                                                                   \
  FIELD(episode_step, "1", "control steps since the reset")                                            \
  FIELD(reset_count, "1", "resets so far; the step of the reset's random numbers")                     \
  FIELD(observation_count, "1", "observations so far; the step of the random numbers outside resets")  \
  FIELD(clipped_actions, "1", "components of actions that the task's clip changed so far")             \
  FIELD(bad_values, "1", "rewards and observations beyond 1e10 or not finite, which became 0, so far") \
  FIELD(first_bad_value, "1",                                                                          \
        "which one was the first: 1 + its place among reward terms, observations, the critic's and "   \
        "metrics; 0: none")                                                                            \
  FIELD(refused_resets, "1", "resets whose last draw task.reset_until still refused, so far")

// A control step as files see it, and learning (in single precision whatever the physics uses): the action
// that it takes and everything that it answers with.
//      name               size               use         unit      description
#define MANIPLE_TRANSITION_FIELDS(FIELD)                                                                \
  FIELD(action, num_actions, each_step, "1", "action of the control step")                              \
  FIELD(observation, num_observations, saved, "task",                                                   \
        "observation that the next action answers; where the episode ended, the first one of the next " \
        "episode")                                                                                      \
  FIELD(final_observation, num_observations, on_request, "task",                                        \
        "observation of the state that the control step led to, also where the episode ended in it")    \
  FIELD(critic_observation, num_critic_observations, saved, "task",                                     \
        "what the critic sees in place of the observation; no components: the same")                    \
  FIELD(final_critic_observation, num_critic_observations, on_request, "task",                          \
        "critic_observation of the state that the control step led to")                                 \
  FIELD(reward, 1, each_step, "reward", "reward of the control step")                                   \
  FIELD(reward_term, num_reward_terms, each_step, "reward",                                             \
        "each reward term, weighted; their sum is the "                                                 \
        "reward")                                                                                       \
  FIELD(terminated, 1, each_step, "1", "1: the episode ended by failure or success")                    \
  FIELD(truncated, 1, each_step, "1", "1: the episode ran out of time (and may have failed as well)")   \
  FIELD(success, num_success, each_step, "1",                                                           \
        "1: the termination success held in the step (no components: the task has none)")               \
  FIELD(invalid, 1, each_step, "1",                                                                     \
        "1: the state or a reward was not finite or too large; not to be learned from")                 \
  FIELD(episode_return, 1, each_step, "reward", "sum of the rewards of the step's episode so far")      \
  FIELD(episode_length, 1, each_step, "1", "control steps of the step's episode so far")                \
  FIELD(episode_reward_term, num_reward_terms, each_step, "reward",                                     \
        "sum of each reward term of the step's episode so far")                                         \
  FIELD(episode_metric, num_metrics, each_step, "task",                                                 \
        "each metric of the step's episode so far; of terminations, whether they held in the step")

struct TaskSizes {
#define MANIPLE_SIZE(name, meaning) int name = 0;
  MANIPLE_TASK_SIZES(MANIPLE_SIZE)
#undef MANIPLE_SIZE
};

// The sizes by name, as the tables expect them.
#define MANIPLE_LOCAL_TASK_SIZE(name, meaning) [[maybe_unused]] const int name = sizes.name;

// Real elements of one environment's persistent state.
MANIPLE_FUNCTION int task_elements(const TaskSizes& sizes) {
  MANIPLE_TASK_SIZES(MANIPLE_LOCAL_TASK_SIZE)
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
  MANIPLE_TASK_SIZES(MANIPLE_LOCAL_TASK_SIZE)
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

// When a field of a transition exists, and whether it outlives the run.
enum class TransitionUse {
  each_step,   // always
  saved,       // always, and in checkpoints
  on_request,  // where a file asks for it
};

// The fields of a transition, each a Field: tiles of a batch, or the part of one pack in them.
template <class Field>
struct Transition {
#define MANIPLE_FIELD(name, size, use, unit, description) Field name{};
  MANIPLE_TRANSITION_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
};

// Calls visit(members...) for every field in the order of the table: pointers to the member of Transition of
// each of Fields.
template <class... Fields, class Visit>
MANIPLE_FUNCTION void for_each_transition_field(const Visit& visit) {
#define MANIPLE_FIELD(name, ...) visit(&Transition<Fields>::name...);
  MANIPLE_TRANSITION_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
}

}  // namespace maniple
