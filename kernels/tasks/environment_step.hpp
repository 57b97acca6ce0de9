// The part of a control step beyond the physics, for the environments of one pack, in the order of a step:
//   apply_actions -> decimation x physics -> evaluate -> reset (of finished environments) -> disturb ->
//   observe.
// The functions read and write the lanes that they are given and nothing else; what the terms compute is
// in the programs of the task (kernels/tasks/program.hpp).
#pragma once

#include <cstdint>

#include "kernels/base/philox.hpp"
#include "kernels/base/varying.hpp"
#include "kernels/tasks/interpreter.hpp"
#include "kernels/tasks/program.hpp"
#include "kernels/tasks/task_fields.hpp"

namespace maniple {

// Everything that belongs to the environments of one pack. Pointers into tiles stand at the pack's first
// lane: element e of lane i is pointer[e * kTileWidth + i].
template <class V>
struct TaskLanes {
  Varying<V> state;                  // MANIPLE_STATE_FIELDS
  Varying<V> data;                   // MANIPLE_DATA_FIELDS
  Varying<V> stepped;                // those that Bank::stepped has
  Varying<V> stepped_contact;        // PhysicsBatch::contact_answers
  Varying<V> fields;                 // MANIPLE_TASK_FIELDS
  Varying<V> scratch;                // Task::scratch_elements()
  std::int32_t* counters = nullptr;  // MANIPLE_TASK_COUNTERS
  std::uint64_t first_env = 0;       // global index of the first lane's environment
  std::uint32_t seed = 0;
  Transition<ScalarOf<V>*> transition;  // what a control step takes and answers with
};

// Numbers of one pack in a tile of another type than the lanes'.
template <class V, class Number>
MANIPLE_FUNCTION V load_lanes(const Number* first) {
  V value;
  ScalarOf<V> lanes[lane_width<V>];
  for (int i = 0; i < lane_width<V>; ++i) lanes[i] = static_cast<ScalarOf<V>>(first[i]);
  memcpy(&value, lanes, sizeof(V));
  return value;
}
template <class V, class Number>
MANIPLE_FUNCTION void store_lanes(Number* first, V value) {
  ScalarOf<V> lanes[lane_width<V>];
  memcpy(lanes, &value, sizeof(V));
  for (int i = 0; i < lane_width<V>; ++i) first[i] = static_cast<Number>(lanes[i]);
}

// Adds one to a counter where the mask is true.
template <class V>
MANIPLE_FUNCTION void count_lanes(std::int32_t* counters, TaskCounter counter, MaskOf<V> where) {
  for (int i = 0; i < lane_width<V>; ++i) counters[counter * kTileWidth + i] += get_lane(where, i) ? 1 : 0;
}

// x where it is a number that a state could have (is_bad); 0, and counted, elsewhere: one bad expression must
// not spoil a whole policy. `place` says which value it is (first_bad_value).
template <class V>
MANIPLE_FUNCTION V usable_or_zero(const TaskLanes<V>& lanes, V x, int place) {
  const MaskOf<V> bad = is_bad(x);
  if (!any_lane(bad)) return x;
  count_lanes<V>(lanes.counters, counter_bad_values, bad);
  std::int32_t* const first = lanes.counters + counter_first_bad_value * kTileWidth;
  for (int i = 0; i < lane_width<V>; ++i)
    if (get_lane(bad, i) && first[i] == 0) first[i] = 1 + place;
  return select(bad, V(0), x);
}

// The memory that a program of the task works on.
template <class V>
MANIPLE_FUNCTION Banks<V> banks_of(const Task<ScalarOf<V>>& task, const TaskLanes<V>& lanes) {
  constexpr int constant_stride = lane_width<Lanes<ScalarOf<V>>> / lane_width<V>;
  Banks<V> banks;
  banks[Bank::registers] = lanes.scratch;
  // Programs read constants and never write them.
  banks[Bank::constants] = {reinterpret_cast<V*>(const_cast<ScalarOf<V>*>(task.constants)), constant_stride};
  banks[Bank::state] = lanes.state;
  banks[Bank::data] = lanes.data;
  banks[Bank::stepped] = lanes.stepped;
  banks[Bank::stepped_contact] = lanes.stepped_contact;
  banks[Bank::task] = lanes.fields;
  banks[Bank::kept] = lanes.fields.from(task_layout(task).kept);
  banks[Bank::output] = lanes.scratch.from(task.num_registers);
  banks[Bank::random] = lanes.scratch.from(task.first_random());
  banks[Bank::contact] = lanes.scratch.from(task.first_contact());
  banks[Bank::ray] = lanes.scratch.from(task.first_ray());
  banks[Bank::motion] = lanes.scratch;  // never read
  banks.motion = task.motion;
  return banks;
}

// The program's draws, in the lanes of `which`; 0 elsewhere. Draw k of a lane is word k % 4 of
// Philox(seed, purpose; environment, step of the lane, k / 4).
template <class V>
MANIPLE_FUNCTION void draw_random(const ProgramView& program, const TaskLanes<V>& lanes,
                                  const Banks<V>& banks, RandomPurpose purpose, const std::int32_t* steps,
                                  MaskOf<V> which) {
  using T = ScalarOf<V>;
  if (program.num_random == 0) return;
  const Varying<V> random = banks[Bank::random];
  for (int draw = 0; draw < program.num_random; ++draw) random[draw] = V(0);
  for (int i = 0; i < lane_width<V>; ++i) {
    if (!get_lane(which, i)) continue;
    for (int block = 0; 4 * block < program.num_random; ++block) {
      const PhiloxBlock words =
          random_block(lanes.seed, purpose, lanes.first_env + static_cast<std::uint64_t>(i),
                       static_cast<std::uint32_t>(steps[i]), static_cast<std::uint32_t>(block));
      for (int k = 0; k < 4 && 4 * block + k < program.num_random; ++k)
        set_lane(random[4 * block + k], i, uniform01<T>(words.word[k]));
    }
  }
}

// Sets the controls from the actions and remembers the actions.
template <class V>
MANIPLE_FUNCTION void apply_actions(const Task<ScalarOf<V>>& task, const TaskLanes<V>& lanes) {
  const TaskLayout layout = task_layout(task);
  for (int k = 0; k < task.num_actions; ++k) {
    const ActionTarget<ScalarOf<V>> target = task.actions[k];
    const V action = load_lanes<V>(lanes.transition.action + k * kTileWidth);
    lanes.fields[layout.last_action + k] = lanes.fields[layout.action + k];
    lanes.fields[layout.action + k] = action;
    if (target.element < 0) continue;
    V control = action * V(target.scale) + V(target.offset);
    if (target.clipped) {
      const V inside = clamp(control, V(target.low), V(target.high));
      const MaskOf<V> changed = inside != control;
      if (any_lane(changed)) count_lanes<V>(lanes.counters, counter_clipped_actions, changed);
      control = inside;
    }
    lanes.state[target.element] = control;
  }
  if (task.act.count == 0) return;
  const V steps = load_lanes<V>(lanes.counters + counter_episode_step * kTileWidth);
  lanes.scratch[register_episode_step] = steps;
  // an episode's first control step; randomize_episode_steps() leaves no zeros for that of the very first one
  const V observations = load_lanes<V>(lanes.counters + counter_observation_count * kTileWidth);
  lanes.scratch[register_flag] = truth<V>(steps == V(0) || observations == V(1));
  const Banks<V> banks = banks_of(task, lanes);
  draw_random(task.act, lanes, banks, RandomPurpose::task_action,
              lanes.counters + counter_observation_count * kTileWidth, MaskOf<V>(true));
  run_program(task.act, banks);
  const V clipped = banks.at(Bank::output, 0);
  for (int i = 0; i < lane_width<V>; ++i)
    lanes.counters[counter_clipped_actions * kTileWidth + i] +=
        static_cast<std::int32_t>(get_lane(clipped, i));
}

// Actions of one environment drawn from their ranges; component k at action[k * kTileWidth].
template <class T>
MANIPLE_FUNCTION void random_actions(const Task<T>& task, std::uint32_t seed, std::uint64_t env,
                                     std::uint32_t control_step, T* action) {
  PhiloxBlock block;
  for (int k = 0; k < task.num_actions; ++k) {
    if (k % 4 == 0)
      block =
          random_block(seed, RandomPurpose::control, env, control_step, static_cast<std::uint32_t>(k / 4));
    const float low = task.actions[k].random_low, high = task.actions[k].random_high;
    action[k * kTileWidth] = low + (high - low) * uniform01<float>(block.word[k % 4]);
  }
}

// A metric of the episode after one more control step; `first`: its first one.
template <class V>
MANIPLE_FUNCTION V accumulated(EpisodeStatistic statistic, V so_far, V value, MaskOf<V> first) {
  switch (statistic) {
    case EpisodeStatistic::min:
      return select(first, value, min(so_far, value));
    case EpisodeStatistic::max:
      return select(first, value, max(so_far, value));
    case EpisodeStatistic::last:
      return value;
    default:
      return so_far + value;
  }
}

// Ends the control step: counts it, then terminations, rewards and the sums of the episode, of the state
// that the physics left. `bad`: environments whose state was not finite or too large and has been reset; they
// fail, without a reward. Their step is invalid, as is one with a reward that is no usable number: what such
// a step says of actions is not to be learned. Returns the environments whose episode is over.
template <class V>
MANIPLE_FUNCTION MaskOf<V> evaluate(const Task<ScalarOf<V>>& task, const TaskLanes<V>& lanes, MaskOf<V> bad) {
  std::int32_t* const episode_step = lanes.counters + counter_episode_step * kTileWidth;
  for (int i = 0; i < lane_width<V>; ++i) ++episode_step[i];
  const V steps = load_lanes<V>(episode_step);
  lanes.scratch[register_episode_step] = steps;
  lanes.scratch[register_flag] = truth<V>(bad);
  const Banks<V> banks = banks_of(task, lanes);
  draw_random(task.evaluate, lanes, banks, RandomPurpose::task_step,
              lanes.counters + counter_observation_count * kTileWidth, MaskOf<V>(true));
  run_program(task.evaluate, banks);

  const V terminated = banks.at(Bank::output, 0), truncated = banks.at(Bank::output, 1);
  store_lanes(lanes.transition.terminated, terminated);
  store_lanes(lanes.transition.truncated, truncated);
  if (task.num_success > 0)
    store_lanes(lanes.transition.success,
                V(banks.at(Bank::output, kFirstRewardOutput + task.num_reward_terms)));
  const TaskLayout layout = task_layout(task);
  V reward(0);
  MaskOf<V> invalid = bad;
  for (int k = 0; k < task.num_reward_terms; ++k) {
    const V value = select(bad, V(0), V(banks.at(Bank::output, kFirstRewardOutput + k)));
    invalid = invalid || is_bad(value);
    const V term = usable_or_zero(lanes, value, k);
    V& sum = lanes.fields[layout.episode_reward_term + k];
    sum += term;
    reward += term;
    store_lanes(lanes.transition.reward_term + k * kTileWidth, term);
    store_lanes(lanes.transition.episode_reward_term + k * kTileWidth, sum);
  }
  V& episode_return = lanes.fields[layout.episode_return];
  episode_return += reward;
  store_lanes(lanes.transition.reward, reward);
  store_lanes(lanes.transition.invalid, truth<V>(invalid));
  store_lanes(lanes.transition.episode_return, episode_return);
  store_lanes(lanes.transition.episode_length, steps);
  const int first_place = task.num_reward_terms + task.num_observations + task.num_critic_observations;
  for (int k = 0; k < task.num_metrics; ++k) {
    const V found = select(bad, V(0), V(banks.at(Bank::output, task.first_metric_output() + k)));
    const V value = usable_or_zero(lanes, found, first_place + k);
    V& kept = lanes.fields[layout.episode_metric + k];
    kept = accumulated(task.metrics[k], kept, value, steps == V(1));
    store_lanes(lanes.transition.episode_metric + k * kTileWidth,
                task.metrics[k] == EpisodeStatistic::mean ? kept / steps : kept);
  }
  return terminated != V(0) || truncated != V(0);
}

// By how many rows of the terrain evaluate() says that environments whose episode is over move; 0 for bad
// states.
template <class V>
MANIPLE_FUNCTION V terrain_move(const Task<ScalarOf<V>>& task, const TaskLanes<V>& lanes, MaskOf<V> bad) {
  if (task.num_terrains == 0 || task.terrain.holds) return V(0);
  return select(bad, V(0), V(banks_of(task, lanes).at(Bank::output, task.first_terrain_output())));
}

// Gives environments that are being reset their cell of the terrain: at first a random row of the first ones,
// later the row of before moved by `move`; not below the first one, and beyond the last one a random row
// (Isaac Lab's TerrainImporter). The column is that of the environment for good. Where the terrain
// randomizes, both are drawn for each episode.
template <class V>
MANIPLE_FUNCTION void place_on_terrain(const Task<ScalarOf<V>>& task, const TaskLanes<V>& lanes,
                                       MaskOf<V> which, V move) {
  using T = ScalarOf<V>;
  if (task.num_terrains == 0) return;
  const TerrainView<T>& terrain = task.terrain;
  const TaskLayout layout = task_layout(task);
  for (int i = 0; i < lane_width<V>; ++i) {
    if (!get_lane(which, i)) continue;
    const std::uint64_t env = lanes.first_env + static_cast<std::uint64_t>(i);
    const std::int32_t resets = lanes.counters[counter_reset_count * kTileWidth + i];
    const PhiloxBlock drawn =
        random_block(lanes.seed, RandomPurpose::terrain_level, env, static_cast<std::uint32_t>(resets), 0);
    const auto draw = [&](int first, int last, int word = 0) {
      const float share = uniform01<float>(drawn.word[word]);
      const int place = first + static_cast<int>(share * static_cast<float>(last - first + 1));
      return place > last ? last : place;
    };
    int level = static_cast<int>(get_lane(V(lanes.fields[layout.terrain_level]), i) + get_lane(move, i));
    if (resets == 0 || terrain.randomizes)
      level = draw(terrain.first_init_level, terrain.last_init_level);
    else if (level >= terrain.num_rows)
      level = draw(0, terrain.num_rows - 1);
    else if (level < 0)
      level = 0;
    // lanes beyond the last environment of the run have the last column
    const std::uint64_t share =
        env * static_cast<std::uint64_t>(terrain.num_cols) / static_cast<std::uint64_t>(terrain.num_envs);
    const int last = terrain.num_cols - 1;
    const int kept = share > static_cast<std::uint64_t>(last) ? last : static_cast<int>(share);
    const int place = level * terrain.num_cols + (terrain.randomizes ? draw(0, last, 1) : kept);
    const T* const cell = terrain.cells + kTerrainCellElements * place;
    set_lane(lanes.fields[layout.terrain_level], i, static_cast<T>(level));
    set_lane(lanes.fields[layout.terrain_type], i, cell[0]);
    for (int k = 0; k < 3; ++k) set_lane(lanes.fields[layout.terrain_origin + k], i, cell[1 + k]);
  }
}

// What environments that are being reset have of the model for themselves. Returns the lanes where it has
// changed: the physics' set_const() is then due.
template <class V>
MANIPLE_FUNCTION MaskOf<V> vary_model(const Task<ScalarOf<V>>& task, const TaskLanes<V>& lanes,
                                      MaskOf<V> which) {
  if (task.vary.count == 0) return MaskOf<V>(false);
  const std::int32_t* const resets = lanes.counters + counter_reset_count * kTileWidth;
  const MaskOf<V> first = which && load_lanes<V>(resets) == V(0);
  const MaskOf<V> changed = task.varies_at_resets ? which : first;
  if (!any_lane(changed)) return changed;
  const Banks<V> banks = banks_of(task, lanes);
  draw_random(task.vary, lanes, banks, RandomPurpose::task_model, resets, which);
  lanes.scratch[register_episode_step] = V(0);
  lanes.scratch[register_flag] = truth<V>(which);
  lanes.scratch[register_first] = truth<V>(first);
  run_program(task.vary, banks);
  return changed;
}

// Draws fresh states where the mask is true: the task's reset terms on top of the model's default state,
// which the caller has set (reset_to_default). Other environments keep their bits.
template <class V>
MANIPLE_FUNCTION void draw_state(const Task<ScalarOf<V>>& task, const TaskLanes<V>& lanes, MaskOf<V> which) {
  const Banks<V> banks = banks_of(task, lanes);
  draw_random(task.reset, lanes, banks, RandomPurpose::reset,
              lanes.counters + counter_reset_count * kTileWidth, which);
  lanes.scratch[register_episode_step] = V(0);
  lanes.scratch[register_flag] = truth<V>(which);
  run_program(task.reset, banks);
}

// Starts new episodes where the mask is true: fresh states and fresh counters.
template <class V>
MANIPLE_FUNCTION void reset(const Task<ScalarOf<V>>& task, const TaskLanes<V>& lanes, MaskOf<V> which) {
  draw_state(task, lanes, which);
  const TaskLayout layout = task_layout(task);
  const auto clear = [&](int first, int size) {
    for (int k = first; k < first + size; ++k) lanes.fields[k] = select(which, V(0), lanes.fields[k]);
  };
  clear(layout.action, task.num_actions);
  clear(layout.last_action, task.num_actions);
  clear(layout.episode_return, 1);
  clear(layout.episode_reward_term, task.num_reward_terms);
  clear(layout.episode_metric, task.num_metrics);
  for (int i = 0; i < lane_width<V>; ++i)
    if (get_lane(which, i)) lanes.counters[counter_episode_step * kTileWidth + i] = 0;
  count_lanes<V>(lanes.counters, counter_reset_count, which);
}

// The lanes whose fresh state is drawn again. Data must belong to it.
template <class V>
MANIPLE_FUNCTION MaskOf<V> refuses(const Task<ScalarOf<V>>& task, const TaskLanes<V>& lanes) {
  lanes.scratch[register_episode_step] = V(0);
  lanes.scratch[register_flag] = V(1);
  const Banks<V> banks = banks_of(task, lanes);
  run_program(task.accept, banks);
  return V(banks.at(Bank::output, 0)) == V(0);
}

// The lanes whose state, or whose model, events in intervals have changed.
template <class V>
struct Disturbed {
  MaskOf<V> any, model;
};

// Events in intervals: after the resets and before the observations, which show what they did, as in Isaac
// Lab and mjlab.
template <class V>
MANIPLE_FUNCTION Disturbed<V> disturb(const Task<ScalarOf<V>>& task, const TaskLanes<V>& lanes) {
  if (task.interval.count == 0) return {MaskOf<V>(false), MaskOf<V>(false)};
  const V steps = load_lanes<V>(lanes.counters + counter_episode_step * kTileWidth);
  lanes.scratch[register_episode_step] = steps;
  lanes.scratch[register_flag] = truth<V>(steps == V(0));
  const Banks<V> banks = banks_of(task, lanes);
  draw_random(task.interval, lanes, banks, RandomPurpose::task_interval,
              lanes.counters + counter_observation_count * kTileWidth, MaskOf<V>(true));
  run_program(task.interval, banks);
  return {V(banks.at(Bank::output, 0)) != V(0),
          task.varies_in_intervals ? V(banks.at(Bank::output, 1)) != V(0) : MaskOf<V>(false)};
}

// Runs the program that observes, with `fresh` environments in a new episode.
template <class V>
MANIPLE_FUNCTION void run_observation(const Task<ScalarOf<V>>& task, const TaskLanes<V>& lanes,
                                      const Banks<V>& banks, MaskOf<V> fresh) {
  const V observations = load_lanes<V>(lanes.counters + counter_observation_count * kTileWidth);
  lanes.scratch[register_episode_step] = load_lanes<V>(lanes.counters + counter_episode_step * kTileWidth);
  lanes.scratch[register_flag] = truth<V>(fresh);
  lanes.scratch[register_first] = truth<V>(fresh && observations == V(0));
  draw_random(task.observe, lanes, banks, RandomPurpose::task_observation,
              lanes.counters + counter_observation_count * kTileWidth, MaskOf<V>(true));
  run_program(task.observe, banks);
}

// Writes the observations of the state that ended a step, before any reset, and nothing else: the next
// control step's prev() follows what observe() stores.
template <class V>
MANIPLE_FUNCTION void observe_final(const Task<ScalarOf<V>>& task, const TaskLanes<V>& lanes) {
  const Varying<V> copy = lanes.scratch.from(task.first_copy());
  for (int i = 0; i < task_elements(task); ++i) copy[i] = lanes.fields[i];
  // the frame that the next action would have been for
  if (task.num_motions > 0) copy[task_layout(task).motion_frame] += V(1);
  Banks<V> banks = banks_of(task, lanes);
  banks[Bank::task] = copy;
  banks[Bank::kept] = copy.from(task_layout(task).kept);
  run_observation(task, lanes, banks, MaskOf<V>(false));
  const auto write = [&](ScalarOf<V>* observation, int first, int size) {
    for (int k = 0; observation != nullptr && k < size; ++k) {
      const V value = banks.at(Bank::output, first + k);
      store_lanes(observation + k * kTileWidth, select(is_bad(value), V(0), value));
    }
  };
  write(lanes.transition.final_observation, 0, task.num_observations);
  write(lanes.transition.final_critic_observation, task.num_observations, task.num_critic_observations);
}

// Writes the observations of the current state and what prev() will read in the next control step.
// `fresh`: environments that were just reset, whose previous control step is the reset itself.
template <class V>
MANIPLE_FUNCTION void observe(const Task<ScalarOf<V>>& task, const TaskLanes<V>& lanes, MaskOf<V> fresh) {
  const Banks<V> banks = banks_of(task, lanes);
  run_observation(task, lanes, banks, fresh);
  const auto write = [&](ScalarOf<V>* observation, int first, int size) {
    for (int k = 0; k < size; ++k)
      store_lanes(observation + k * kTileWidth, usable_or_zero(lanes, V(banks.at(Bank::output, first + k)),
                                                               task.num_reward_terms + first + k));
  };
  write(lanes.transition.observation, 0, task.num_observations);
  write(lanes.transition.critic_observation, task.num_observations, task.num_critic_observations);
  std::int32_t* const count = lanes.counters + counter_observation_count * kTileWidth;
  for (int i = 0; i < lane_width<V>; ++i) ++count[i];
}

// Episode steps uniformly in [0, max_steps), as if the episodes had started at different times.
template <class V>
MANIPLE_FUNCTION void randomize_episode_steps(const TaskLanes<V>& lanes, std::int64_t max_steps) {
  for (int i = 0; i < lane_width<V>; ++i) {
    const std::uint32_t word = random_block(lanes.seed, RandomPurpose::episode_offset,
                                            lanes.first_env + static_cast<std::uint64_t>(i), 0, 0)
                                   .word[0];
    lanes.counters[counter_episode_step * kTileWidth + i] = static_cast<std::int32_t>(
        (static_cast<std::uint64_t>(word) * static_cast<std::uint64_t>(max_steps)) >> 32);
  }
}

}  // namespace maniple
