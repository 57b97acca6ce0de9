// Launches of a task over all environments of a rank: what a control step does before and after the
// physics. The order of a step is apply_actions_batch, step_batch (kernels/physics), finish_step_batch.
#pragma once

#include "kernels/physics/batch.hpp"
#include "kernels/tasks/program.hpp"

namespace maniple {

// What the launches work on; T is the precision of the physics.
template <class T>
struct TaskBatch {
  Task<T> task;
  std::uint32_t seed = 0;
  std::int64_t first_env = 0;              // global index of this rank's first environment
  Derived evaluate_needs = Derived::none;  // of terminations and rewards
  Derived observe_needs = Derived::none;   // of observations and prev()
  // What Bank::stepped has: the exports of the physics from this one on, and the element of the exported
  // tiles at which they begin. Observations need so much of them after a reset, which no physics step
  // precedes.
  std::size_t first_stepped_export = 0;
  int first_stepped = 0;
  Derived stepped_needs = Derived::none;
  Derived accept_needs = Derived::none;
  // The model without actuators, where forces before an episode's first step are those without (as dm_control
  // leaves them); otherwise empty.
  Kokkos::View<Model<T>*, MemorySpace> released_model;

  TiledView<T> fields;               // MANIPLE_TASK_FIELDS
  TiledView<std::int32_t> counters;  // MANIPLE_TASK_COUNTERS
  Scratch<Lanes<T>> scratch;         // Task::scratch_elements()
  Scratch<Lanes<T>> settle_scratch;  // settle_elements(), where fresh states settle

  Transition<TiledView<T>> transition;  // fields on request without elements: not asked for
};

// Actions into the controls of the state.
template <class T>
void apply_actions_batch(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics);
// Actions without a policy, uniform in ActionTarget's range: Philox(seed, control; environment, step, draw).
template <class T>
void random_actions_batch(const TaskBatch<T>& batch, std::int64_t control_step);
// Terminations, rewards, resets of finished environments, observations. Environments have failed whose state
// the physics had to reset in `control_step`, or has left as one that must be; the latter are reset and
// counted here.
template <class T>
void finish_step_batch(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics, std::int32_t control_step);
// Lane values of a worker in which the states of one pack settle. They are laid out as in a tile, of which
// scalars that are neighbours have one lane each: so such workers are whole tiles of them.
template <class V>
int settle_elements(int state_elements) {
  return kScalarLanes ? state_elements : state_elements * kTileWidth / lane_width<V>;
}
inline int settle_workers(int workers) {
  return kScalarLanes ? (workers + kTileWidth - 1) / kTileWidth * kTileWidth : workers;
}
// Of a task whose fresh states settle, after each call of finish_step_batch() or reset_batch(), which leave
// observations to it: Task::settle_steps for environments whose episode begins, then observations of all.
template <class T>
void settle_batch(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics, std::int32_t control_step);
// Every environment into a fresh episode, with its observation.
template <class T>
void reset_batch(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics);
// Observations of the current state, as after a reset: for states that were set from outside.
template <class T>
void observe_batch(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics);
// Episode steps uniformly in [0, max_steps).
template <class T>
void randomize_episode_steps_batch(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics,
                                   std::int64_t max_steps);
// The same numbers in another precision, of tiles of equal shape.
template <class From, class To>
void convert_tiles_batch(const TiledView<From>& from, const TiledView<To>& to);

}  // namespace maniple
