// Definitions of kernels/physics/batch.hpp, included by the two files that instantiate them.
#pragma once

#include <algorithm>

#include "kernels/base/philox.hpp"
#include "kernels/physics/batch.hpp"
#include "kernels/physics/constraint/contact_answers.hpp"
#include "kernels/physics/regroup.hpp"
#include "kernels/physics/step.hpp"

namespace maniple {

// Copies what files ask for from the scratch of a pack to its environments' tiles.
template <class T>
MANIPLE_FUNCTION void export_fields(const PhysicsBatch<T>& batch, const PackEnvironments& environments,
                                    int worker) {
  using V = Lanes<T>;
  const V* const scratch = batch.scratch.base(worker);
  const std::ptrdiff_t stride = batch.scratch.stride();
  for (std::size_t r = 0; r < batch.exports.extent(0); ++r) {
    const ExportRange range = batch.exports(r);
    for (int lane = 0; lane < lane_width<V>; ++lane) {
      T* const to = &batch.exported.at(environments[lane], range.to);
      for (int i = 0; i < range.size; ++i)
        to[i * kTileWidth] = get_lane(scratch[(range.from + i) * stride], lane);
    }
  }
}

// Adds to the records of the lanes in `where`: a count, and the control step of the last incident.
template <class V>
MANIPLE_FUNCTION void count_incidents(const TiledView<std::int32_t>& records,
                                      const PackEnvironments& environments, MaskOf<V> where, V count,
                                      std::int32_t control_step) {
  for_each_lane(where, [&](int lane) {
    records.at(environments[lane], 0) += static_cast<std::int32_t>(get_lane(count, lane));
    records.at(environments[lane], 1) = control_step;
  });
}

// A substep of a worker.
struct Substep {
  int worker;
  std::int32_t control_step;
  int left = 0;                 // substeps that follow in the control step; the last one exports
  bool contacts_known = false;  // see StepRequest
};

// Answers what is asked about the contacts of a substep that a pack has just made.
template <class T>
MANIPLE_FUNCTION void answer_substep(const PhysicsBatch<T>& batch, const Data<Lanes<T>>& data,
                                     const PackEnvironments& environments, const Substep& substep) {
  using V = Lanes<T>;
  const ContactQueries& queries = batch.contact_queries;
  const Varying<V> answers{batch.contact_answer_scratch.base(substep.worker),
                           batch.contact_answer_scratch.stride()};
  answer_contact_queries(batch.model, data, queries, answers);
  for (int lane = 0; lane < lane_width<V>; ++lane)
    for (int query = 0; query < queries.count; ++query)
      for (int k = 0; k < kContactAnswers; ++k)
        batch.contact_answers.at(environments[lane],
                                 answer_place(query, substep.left, batch.contact_steps, k)) =
            get_lane(answers[query * kContactAnswers + k], lane);
}

// One substep of the environments of a pack, whose state is in `state`.
template <class T>
MANIPLE_FUNCTION void step_pack(const PhysicsBatch<T>& batch, const State<Lanes<T>>& state,
                                const Data<Lanes<T>>& data, const PackEnvironments& environments,
                                const Substep& substep) {
  using V = Lanes<T>;
  const bool exports = substep.left == 0 && batch.exports.extent(0) > 0;
  const MaskOf<V> bad =
      step(batch.model, state, data, {.all_fields = exports, .contacts_known = substep.contacts_known});
  if (data.team.leads()) {
    count_incidents(batch.bad_states, environments, bad, V(1), substep.control_step);
    const V dropped = data.contact_dropped[0];
    count_incidents(batch.dropped_contacts, environments, dropped > V(0), dropped, substep.control_step);
  }
  if (substep.left < batch.contact_steps)
    data.team.once([&] { answer_substep(batch, data, environments, substep); });
  if (exports) export_fields(batch, environments, substep.worker);
}

// The scratch of a worker that begins its turn.
template <class T>
MANIPLE_FUNCTION Data<Lanes<T>> data_of_worker(const PhysicsBatch<T>& batch, int worker) {
  Data<Lanes<T>> data = data_of_scratch<Lanes<T>>(batch.model, batch.scratch.base(worker),
                                                  batch.scratch.stride(), batch.scratch.offset(worker));
  data.times = begin_stages(batch.stage_times, worker);
  return data;
}

#ifdef MANIPLE_SCALAR_LANES
// `substeps` without exports, which `left` others follow, each environment stepped by a team of its own.
template <class T>
void step_by_teams(const PhysicsBatch<T>& batch, int substeps, int left, std::int32_t control_step) {
  for_each_item_by_team<T>(
      "maniple::physics::step_by_teams", batch.envs, batch.scratch.workers(),
      MANIPLE_LAMBDA(const Team<T>& team, T* shared, std::int64_t environment, int worker) {
        const State<T> state = state_of_tile<T>(batch.model, batch.state.tile(environment / kTileWidth),
                                                static_cast<int>(environment % kTileWidth));
        Data<T> data = data_of_scratch<T>(batch.model, batch.scratch.team_base(worker), 1);
        place_in_shared(batch.model, data, shared,
                        (kTeamBytes - kTeamExchangeBytes) / static_cast<int>(sizeof(T)));
        data.team = team;
        for (int substep = 0; substep < substeps; ++substep)
          step_pack(batch, state, data, PackEnvironments{environment},
                    {.worker = worker,
                     .control_step = control_step,
                     .left = left + substeps - 1 - substep,
                     .contacts_known = false});
      });
}
#else
// One substep of `count` environments in `records`, grouped by the work that they will cost. The first of
// them is environment `first` of the rank; `pack` holds the states of one pack.
template <class T>
MANIPLE_FUNCTION void step_regrouped(const PhysicsBatch<T>& batch, const Data<Lanes<T>>& data,
                                     const Records<Lanes<T>>& records,
                                     const ContactRecords<Lanes<T>>& contacts, std::int64_t first, int count,
                                     T* pack, const Substep& substep) {
  using V = Lanes<T>;
  const State<V> state = state_of_tile<V>(batch.model, pack, 0);
  // contacts need qpos, which comes first in a record, and what else places geoms
  const bool placed_by_qpos = batch.model.nmocap == 0 && !varies_places(batch.model);
  const int placing = placed_by_qpos ? batch.model.nq : records.elements;
  std::uint8_t keys[kRegroupWidth], order[kRegroupWidth];
  for (int i = 0; i < count; ++i) order[i] = static_cast<std::uint8_t>(i);
  for (int begin = 0; begin < count; begin += lane_width<V>) {
    records.gather(order + begin, pack, placing);
    end_stage(data, PhysicsStage::regrouping);
    contacts.find(batch.model, state, data, order + begin);
    const V key = work_key(batch.model, state, data);
    for (int lane = 0; lane < lane_width<V>; ++lane)
      keys[begin + lane] = static_cast<std::uint8_t>(get_lane(key, lane));
  }
  sort_by_key(keys, count, order);
  for (int begin = 0; begin < count; begin += lane_width<V>) {
    records.gather(order + begin, pack, records.elements);
    contacts.gather(data, order + begin);
    end_stage(data, PhysicsStage::regrouping);
    step_pack(batch, state, data, PackEnvironments{first, order + begin}, substep);
    records.scatter(pack, order + begin);
    end_stage(data, PhysicsStage::regrouping);
  }
}

// `substeps` of environments that are regrouped.
template <class T>
void step_by_regrouping(const PhysicsBatch<T>& batch, int substeps, std::int32_t control_step) {
  using V = Lanes<T>;
  // a turn takes as many tiles as fit a worker's cache, but few enough that every worker gets some
  const int turn = static_cast<int>(
      std::clamp<std::int64_t>(batch.state.tiles / (4 * batch.scratch.workers()), 1, kRegroupTiles));
  for_each_item(
      "maniple::physics::step", (batch.state.tiles + turn - 1) / turn, batch.scratch.workers(),
      MANIPLE_LAMBDA(std::int64_t item, int worker) {
        const std::int64_t first = item * turn, left = batch.envs - first * kTileWidth;
        const int count = left < turn * kTileWidth ? static_cast<int>(left) : turn * kTileWidth;
        const int tiles = (count + kTileWidth - 1) / kTileWidth;
        const Data<V> data = data_of_worker(batch, worker);
        T* const pack = reinterpret_cast<T*>(batch.regroup_scratch.base(worker));
        const int elements = batch.state.elements;
        const Records<V> records{pack + record_elements<V>(elements) * kTileWidth, elements};
        const ContactRecords<V> contacts{records.of(kRegroupWidth), contact_record_elements(batch.model)};
        records.load(batch.state.tile(first), tiles);
        for (int substep = 0; substep < substeps; ++substep)
          step_regrouped(batch, data, records, contacts, first * kTileWidth, whole_packs<V>(count), pack,
                         {.worker = worker,
                          .control_step = control_step,
                          .left = substeps - 1 - substep,
                          .contacts_known = true});
        records.store(batch.state.tile(first), tiles);
      });
}
#endif

template <class T>
void step_batch(const PhysicsBatch<T>& batch, int substeps, std::int32_t control_step) {
  using V = Lanes<T>;
#ifdef MANIPLE_SCALAR_LANES
  if (is_for_teams(batch.model)) {
    // a step that writes all fields is for one thread
    const int last = batch.exports.extent(0) > 0 ? 1 : 0;
    if (substeps > last) step_by_teams(batch, substeps - last, last, control_step);
    if (last == 0) return;
    substeps = last;
  }
#else
  if (regroups(batch.model)) return step_by_regrouping(batch, substeps, control_step);
#endif
  for_each_pack<V>(
      "maniple::physics::step", batch.envs, batch.scratch.workers(),
      MANIPLE_LAMBDA(std::int64_t tile, int lane, int worker) {
        const State<V> state = state_of_tile<V>(batch.model, batch.state.tile(tile), lane);
        const Data<V> data = data_of_worker(batch, worker);
        const PackEnvironments environments{tile * kTileWidth + lane};
        for (int substep = 0; substep < substeps; ++substep)
          step_pack(batch, state, data, environments,
                    {.worker = worker,
                     .control_step = control_step,
                     .left = substeps - 1 - substep,
                     .contacts_known = false});
      });
}

template <class T>
void forward_batch(const PhysicsBatch<T>& batch, bool inverse) {
  using V = Lanes<T>;
  for_each_pack<V>(
      "maniple::physics::forward", batch.envs, batch.scratch.workers(),
      MANIPLE_LAMBDA(std::int64_t tile, int lane, int worker) {
        forward(batch.model, state_of_tile<V>(batch.model, batch.state.tile(tile), lane),
                data_of_scratch<V>(batch.model, batch.scratch.base(worker), batch.scratch.stride(),
                                   batch.scratch.offset(worker)),
                inverse);
        export_fields(batch, PackEnvironments{tile * kTileWidth + lane}, worker);
      });
}

template <class T>
void random_control_batch(const PhysicsBatch<T>& batch, std::uint32_t seed, std::int64_t first_env,
                          std::int64_t control_step) {
  using V = Lanes<T>;
  for_each_pack<V>(
      "maniple::physics::random_control", batch.envs, batch.scratch.workers(),
      MANIPLE_LAMBDA(std::int64_t tile, int lane, int) {
        const State<V> state = state_of_tile<V>(batch.model, batch.state.tile(tile), lane);
        const std::uint64_t env = static_cast<std::uint64_t>(first_env + tile * kTileWidth + lane);
        PhiloxBlock block[lane_width<V>];
        for (int j = 0; j < batch.model.nu; ++j) {
          if (j % 4 == 0)
            for (int i = 0; i < lane_width<V>; ++i)
              block[i] =
                  random_block(seed, RandomPurpose::control, env + static_cast<std::uint64_t>(i),
                               static_cast<std::uint32_t>(control_step), static_cast<std::uint32_t>(j / 4));
          const bool limited = batch.model.actuator_ctrllimited[j] != 0;
          const T low = limited ? batch.model.actuator_ctrlrange[2 * j] : T(-1);
          const T high = limited ? batch.model.actuator_ctrlrange[2 * j + 1] : T(1);
          V value;
          for (int i = 0; i < lane_width<V>; ++i)
            set_lane(value, i, low + (high - low) * uniform01<T>(block[i].word[j % 4]));
          state.ctrl[j] = value;
        }
      });
}

template <class T>
void default_state_batch(const PhysicsBatch<T>& batch) {
  using V = Lanes<T>;
  for_each_pack<V>(
      "maniple::physics::default_state", batch.envs, batch.scratch.workers(),
      MANIPLE_LAMBDA(std::int64_t tile, int lane, int) {
        reset_to_default(batch.model, state_of_tile<V>(batch.model, batch.state.tile(tile), lane),
                         MaskOf<V>(true));
      });
}

#define MANIPLE_INSTANTIATE_PHYSICS_BATCH(T)                              \
  template void step_batch<T>(const PhysicsBatch<T>&, int, std::int32_t); \
  template void default_state_batch<T>(const PhysicsBatch<T>&);           \
  template void forward_batch<T>(const PhysicsBatch<T>&, bool);           \
  template void random_control_batch<T>(const PhysicsBatch<T>&, std::uint32_t, std::int64_t, std::int64_t);

}  // namespace maniple
