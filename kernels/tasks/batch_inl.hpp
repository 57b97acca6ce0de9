// Definitions of kernels/tasks/batch.hpp, included by the two files that instantiate them.
#pragma once

#include "kernels/physics/constraint/contact_answers.hpp"
#include "kernels/physics/step.hpp"
#include "kernels/tasks/batch.hpp"
#include "kernels/tasks/environment_step.hpp"
#include "kernels/tasks/ray_queries.hpp"

namespace maniple {

MANIPLE_FUNCTION Derived max(Derived a, Derived b) {
  return a < b ? b : a;
}

// The lanes of one pack, with the physics' scratch as the fields of Data.
template <class T>
struct TaskPack {
  using V = Lanes<T>;
  State<V> state;
  Data<V> data;
  TaskLanes<V> lanes;
  int worker;

  MANIPLE_FUNCTION TaskPack(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics, std::int64_t tile,
                            int lane, int on_worker)
      : state(state_of_tile<V>(physics.model, physics.state.tile(tile), lane)),
        data(data_of_scratch<V>(physics.model, physics.scratch.base(on_worker), physics.scratch.stride(),
                                physics.scratch.offset(on_worker))),
        worker(on_worker) {
    lanes.state = tile_field<V>(physics.state.tile(tile), 0, lane);
    lanes.data = {physics.scratch.base(worker), physics.scratch.stride()};
    lanes.stepped = tile_field<V>(physics.exported.tile(tile), batch.first_stepped, lane);
    if (physics.contact_steps > 0)
      lanes.stepped_contact = tile_field<V>(physics.contact_answers.tile(tile), 0, lane);
    lanes.fields = tile_field<V>(batch.fields.tile(tile), 0, lane);
    lanes.scratch = {batch.scratch.base(worker), batch.scratch.stride()};
    lanes.counters = batch.counters.tile(tile) + lane;
    lanes.first_env = static_cast<std::uint64_t>(batch.first_env + tile * kTileWidth + lane);
    lanes.seed = batch.seed;
    for_each_transition_field<TiledView<T>, T*>([&](auto tiles, auto first) {
      const TiledView<T>& field = batch.transition.*tiles;
      if (field.elements > 0) lanes.transition.*first = field.tile(tile) + lane;
    });
  }

  // Adds to a record of the lanes in `where`: a count, and the control step of the last incident.
  MANIPLE_FUNCTION static void add_incidents(std::int32_t* record, MaskOf<V> where, V count,
                                             std::int32_t control_step) {
    for_each_lane(where, [&](int i) {
      record[i] += static_cast<std::int32_t>(get_lane(count, i));
      record[kTileWidth + i] = control_step;
    });
  }

  // The lanes that the physics of this control step failed. It has reset those that it found at the beginning
  // of a physics step; what the last one left is looked at here, and reset as well.
  MANIPLE_FUNCTION MaskOf<V> bad_states(const PhysicsBatch<T>& physics, std::int64_t tile, int lane,
                                        std::int32_t control_step) const {
    MaskOf<V> left(false);
    for (int i = 0; i < physics.model.nq; ++i) left = left || is_bad(V(state.qpos[i]));
    for (int i = 0; i < physics.model.nv; ++i) left = left || is_bad(V(state.qvel[i]));
    std::int32_t* const record = physics.bad_states.tile(tile) + lane;
    if (any_lane(left)) {
      reset_to_default(physics.model, state, left);
      add_incidents(record, left, V(1), control_step);
    }
    V bad(0);
    for (int i = 0; i < lane_width<V>; ++i)
      if (record[i] > 0 && record[kTileWidth + i] == control_step) set_lane(bad, i, T(1));
    return bad != V(0);
  }

  // Brings Data up to the current state, as far as a program reads it.
  MANIPLE_FUNCTION void refresh(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics,
                                Derived needs) const {
    refresh(batch, physics, physics.model, needs);
  }
  MANIPLE_FUNCTION void refresh(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics,
                                const Model<T>& model, Derived needs) const {
    if (needs == Derived::none) return;
    [[maybe_unused]] StageTimes* const times = begin_stages(physics.stage_times, worker);
    if (needs == Derived::kinematics) forward_kinematics(model, state, data);
    if (needs == Derived::forward) forward(model, state, data);
    if constexpr (!kScalarLanes)
      if (times != nullptr) times->end(PhysicsStage::forward);
    if (batch.task.num_ray_queries > 0)
      answer_ray_queries(model, state, data, batch.task, lanes.scratch.from(batch.task.first_ray()));
    if (needs == Derived::forward && batch.task.contact_queries.count > 0)
      answer_contact_queries(model, data, batch.task.contact_queries,
                             lanes.scratch.from(batch.task.first_contact()));
  }

  // Where no physics step has led to the state, Data stands in for what it would have left, and its contacts
  // for those of each step.
  MANIPLE_FUNCTION void keep_stepped(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics,
                                     MaskOf<V> which) const {
    if (batch.stepped_needs == Derived::none) return;
    for (std::size_t r = batch.first_stepped_export; r < physics.exports.extent(0); ++r) {
      const ExportRange range = physics.exports(r);
      const Varying<V> from = lanes.data.from(range.from),
                       to = lanes.stepped.from(range.to - batch.first_stepped);
      for (int i = 0; i < range.size; ++i) to[i] = select(which, from[i], to[i]);
    }
    const Varying<V> answers = lanes.scratch.from(batch.task.first_contact());
    for (int i = 0; i < batch.task.contact_queries.answers(); ++i)
      for (int step = 0; step < physics.contact_steps; ++step) {
        V& stepped = lanes.stepped_contact[answer_place(i / kContactAnswers, step, physics.contact_steps,
                                                        i % kContactAnswers)];
        stepped = select(which, V(answers[i]), stepped);
      }
  }

  // Data of the current state, and what stands in for a last physics step in the lanes of `which`: where the
  // task says so, without actuators, as dm_control leaves MuJoCo's data after a reset.
  MANIPLE_FUNCTION void refresh_first(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics,
                                      MaskOf<V> which) const {
    const bool released = batch.released_model.extent(0) > 0 && batch.stepped_needs == Derived::forward;
    if (released) {
      refresh(batch, physics, batch.released_model(0), batch.stepped_needs);
    } else {
      refresh(batch, physics, max(batch.observe_needs, batch.stepped_needs));
    }
    keep_stepped(batch, physics, which);
    if (released) refresh(batch, physics, batch.observe_needs);
  }

  // Moves the free joints of the lanes of `which` up [m].
  MANIPLE_FUNCTION void raise(const Model<T>& model, MaskOf<V> which, T by) const {
    for (int joint = 0; joint < model.njnt; ++joint) {
      if (model.jnt_type[joint] != joint_free) continue;
      V& z = state.qpos[model.jnt_qposadr[joint] + 2];
      z = select(which, z + V(by), z);
    }
  }

  // Fresh states in the lanes of `which`: the model's default and the task's reset terms, drawn until the
  // task accepts them, or drawn once and raised until it does.
  MANIPLE_FUNCTION void reset_states(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics,
                                     MaskOf<V> which) const {
    if (any_lane(vary_model(batch.task, lanes, which))) set_const(physics.model, state, data);
    const bool may_refuse = batch.task.accept.count > 0;
    for (int draw = 1; any_lane(which); ++draw) {
      if (draw > 1 && batch.task.reset_raise > T(0)) {
        raise(physics.model, which, batch.task.reset_raise);
      } else {
        reset_to_default(physics.model, state, which);
        reset(batch.task, lanes, which);
      }
      if (!may_refuse) break;
      refresh(batch, physics, batch.accept_needs);
      keep_stepped(batch, physics, which);
      which = which && refuses(batch.task, lanes);
      if (draw < kMostDraws) continue;
      count_lanes<V>(lanes.counters, counter_refused_resets, which);
      break;
    }
  }

  // Events in intervals, then observations; Data must belong to the states of all lanes but those of `fresh`,
  // which have been reset.
  MANIPLE_FUNCTION void observe_fresh(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics,
                                      MaskOf<V> fresh) const {
    const Disturbed<V> disturbed = disturb(batch.task, lanes);
    if (any_lane(disturbed.model)) set_const(physics.model, state, data);
    if (any_lane(fresh || disturbed.any)) refresh_first(batch, physics, fresh);
    observe(batch.task, lanes, fresh);
  }

  // Physics steps of the lanes of `which` with the controls that they have, after which the clock stands as
  // before. States that physics fails are drawn once more and do not settle.
  MANIPLE_FUNCTION void settle(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics, MaskOf<V> which,
                               std::int64_t tile, int lane, std::int32_t control_step) const {
    const int place = kScalarLanes ? worker % kTileWidth : 0;
    T* const memory = reinterpret_cast<T*>(batch.settle_scratch.team_base(worker - place));
    const State<V> copy = state_of_tile<V>(physics.model, memory, place);
    const Varying<V> to = tile_field<V>(memory, 0, place);
    for (int i = 0; i < physics.state.elements; ++i) to[i] = lanes.state[i];
    const V began = state.time[0], residual = state.time_residual[0];
    MaskOf<V> failed(false);
    for (int k = 0; k < batch.task.settle_steps; ++k) {
      const MaskOf<V> bad = step(physics.model, copy, data);
      failed = failed || (which && bad);
      add_incidents(physics.bad_states.tile(tile) + lane, which && bad, V(1), control_step);
      const V dropped = data.contact_dropped[0];
      add_incidents(physics.dropped_contacts.tile(tile) + lane, which && dropped > V(0), dropped,
                    control_step);
    }
    for (int i = 0; i < physics.state.elements; ++i) lanes.state[i] = select(which, to[i], lanes.state[i]);
    state.time[0] = select(which, began, V(state.time[0]));
    state.time_residual[0] = select(which, residual, V(state.time_residual[0]));
    if (!any_lane(failed)) return;
    reset_to_default(physics.model, state, failed);
    draw_state(batch.task, lanes, failed);
  }
};

template <class T>
void apply_actions_batch(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics) {
  for_each_pack<Lanes<T>>(
      "maniple::tasks::apply_actions", physics.envs, physics.scratch.workers(),
      MANIPLE_LAMBDA(std::int64_t tile, int lane, int worker) {
        const TaskPack<T> pack(batch, physics, tile, lane, worker);
        apply_actions(batch.task, pack.lanes);
      });
}

template <class T>
void random_actions_batch(const TaskBatch<T>& batch, std::int64_t control_step) {
  for_each_item(
      "maniple::tasks::random_actions", batch.transition.action.tiles, batch.scratch.workers(),
      MANIPLE_LAMBDA(std::int64_t tile, int) {
        for (int lane = 0; lane < kTileWidth; ++lane)
          random_actions(batch.task, batch.seed,
                         static_cast<std::uint64_t>(batch.first_env + tile * kTileWidth + lane),
                         static_cast<std::uint32_t>(control_step), batch.transition.action.tile(tile) + lane);
      });
}

template <class T>
void finish_step_batch(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics, std::int32_t control_step) {
  using V = Lanes<T>;
  for_each_pack<V>(
      "maniple::tasks::finish_step", physics.envs, physics.scratch.workers(),
      MANIPLE_LAMBDA(std::int64_t tile, int lane, int worker) {
        TaskPack<T> pack(batch, physics, tile, lane, worker);
        const MaskOf<V> bad = pack.bad_states(physics, tile, lane, control_step);
        // one pass for both programs: few packs have an environment to reset
        pack.refresh(batch, physics, max(batch.observe_needs, batch.evaluate_needs));
        const MaskOf<V> done = evaluate(batch.task, pack.lanes, bad);
        const V move = terrain_move(batch.task, pack.lanes, bad);
        if (batch.transition.final_observation.elements + batch.transition.final_critic_observation.elements >
            0)
          observe_final(batch.task, pack.lanes);
        place_on_terrain(batch.task, pack.lanes, done, move);
        pack.reset_states(batch, physics, done);
        if (batch.task.settle_steps == 0) pack.observe_fresh(batch, physics, done);
      });
}

template <class T>
void reset_batch(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics) {
  using V = Lanes<T>;
  for_each_pack<V>(
      "maniple::tasks::reset", physics.envs, physics.scratch.workers(),
      MANIPLE_LAMBDA(std::int64_t tile, int lane, int worker) {
        const TaskPack<T> pack(batch, physics, tile, lane, worker);
        const MaskOf<V> all(true);
        place_on_terrain(batch.task, pack.lanes, all, V(0));
        pack.reset_states(batch, physics, all);
        if (batch.task.settle_steps == 0) pack.observe_fresh(batch, physics, all);
      });
}

template <class T>
void settle_batch(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics, std::int32_t control_step) {
  using V = Lanes<T>;
  for_each_pack<V>(
      "maniple::tasks::settle", physics.envs, physics.scratch.workers(),
      MANIPLE_LAMBDA(std::int64_t tile, int lane, int worker) {
        const TaskPack<T> pack(batch, physics, tile, lane, worker);
        const V steps = load_lanes<V>(pack.lanes.counters + counter_episode_step * kTileWidth);
        const MaskOf<V> fresh = steps == V(0);
        if (any_lane(fresh))
          pack.settle(batch, physics, fresh, tile, lane, control_step);
        else
          pack.refresh(batch, physics, batch.observe_needs);
        pack.observe_fresh(batch, physics, fresh);
      });
}

template <class T>
void observe_batch(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics) {
  using V = Lanes<T>;
  for_each_pack<V>(
      "maniple::tasks::observe", physics.envs, physics.scratch.workers(),
      MANIPLE_LAMBDA(std::int64_t tile, int lane, int worker) {
        TaskPack<T> pack(batch, physics, tile, lane, worker);
        pack.refresh_first(batch, physics, V(0) == V(0));
        observe(batch.task, pack.lanes, V(0) == V(0));
      });
}

template <class T>
void randomize_episode_steps_batch(const TaskBatch<T>& batch, const PhysicsBatch<T>& physics,
                                   std::int64_t max_steps) {
  for_each_pack<Lanes<T>>(
      "maniple::tasks::randomize_episode_steps", physics.envs, physics.scratch.workers(),
      MANIPLE_LAMBDA(std::int64_t tile, int lane, int worker) {
        randomize_episode_steps(TaskPack<T>(batch, physics, tile, lane, worker).lanes, max_steps);
      });
}

template <class From, class To>
void convert_tiles_batch(const TiledView<From>& from, const TiledView<To>& to) {
  const int numbers = from.elements * kTileWidth;
  for_each_item(
      "maniple::tasks::convert_tiles", from.tiles, thread_count(), MANIPLE_LAMBDA(std::int64_t tile, int) {
        for (int i = 0; i < numbers; ++i) to.tile(tile)[i] = static_cast<To>(from.tile(tile)[i]);
      });
}

#define MANIPLE_INSTANTIATE_TASK_BATCH(T)                                                        \
  template void apply_actions_batch<T>(const TaskBatch<T>&, const PhysicsBatch<T>&);             \
  template void random_actions_batch<T>(const TaskBatch<T>&, std::int64_t);                      \
  template void finish_step_batch<T>(const TaskBatch<T>&, const PhysicsBatch<T>&, std::int32_t); \
  template void settle_batch<T>(const TaskBatch<T>&, const PhysicsBatch<T>&, std::int32_t);      \
  template void reset_batch<T>(const TaskBatch<T>&, const PhysicsBatch<T>&);                     \
  template void observe_batch<T>(const TaskBatch<T>&, const PhysicsBatch<T>&);                   \
  template void randomize_episode_steps_batch<T>(const TaskBatch<T>&, const PhysicsBatch<T>&, std::int64_t);

}  // namespace maniple
