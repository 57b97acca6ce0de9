// Definitions of kernels/physics/batch.hpp, included by the two files that instantiate them.
#pragma once

#include "kernels/base/philox.hpp"
#include "kernels/physics/batch.hpp"
#include "kernels/physics/step.hpp"

namespace maniple {

template <class T>
MANIPLE_FUNCTION void export_fields(const PhysicsBatch<T>& batch, const Lanes<T>* scratch, int stride,
                                    std::int64_t tile, int lane) {
  using V = Lanes<T>;
  for (std::size_t r = 0; r < batch.exports.extent(0); ++r) {
    const ExportRange range = batch.exports(r);
    const Varying<V> to = tile_field<V>(batch.exported.tile(tile), range.to, lane);
    for (int i = 0; i < range.size; ++i) to[i] = scratch[(range.from + i) * stride];
  }
}

// Adds to the records of the lanes in `where`: a count, and the control step of the last incident.
template <class V>
MANIPLE_FUNCTION void count_incidents(std::int32_t* records, MaskOf<V> where, V count,
                                      std::int32_t control_step) {
  for (std::uint32_t lanes = lane_bits(where); lanes != 0; lanes &= lanes - 1) {
    const int lane = lowest_bit(lanes);
    records[lane] += static_cast<std::int32_t>(get_lane(count, lane));
    records[kTileWidth + lane] = control_step;
  }
}

template <class T>
void step_batch(const PhysicsBatch<T>& batch, int substeps, std::int32_t control_step) {
  using V = Lanes<T>;
  for_each_pack<V>(
      "maniple::physics::step", batch.state.tiles, KOKKOS_LAMBDA(std::int64_t tile, int lane, int worker) {
        V* const scratch = batch.scratch.base(worker);
        const int stride = batch.scratch.stride();
        const State<V> state = state_of_tile<V>(batch.model, batch.state.tile(tile), lane);
        const Data<V> data = data_of_scratch<V>(batch.model, scratch, stride);
        for (int substep = 0; substep < substeps; ++substep) {
          // files ask for fields of the last step
          const bool all_fields = substep + 1 == substeps && batch.exports.extent(0) > 0;
          const MaskOf<V> bad = step(batch.model, state, data, all_fields);
          count_incidents(batch.bad_states.tile(tile) + lane, bad, V(1), control_step);
          const V dropped = data.contact_dropped[0];
          count_incidents(batch.dropped_contacts.tile(tile) + lane, dropped > V(0), dropped, control_step);
        }
        export_fields(batch, scratch, stride, tile, lane);
      });
}

template <class T>
void forward_batch(const PhysicsBatch<T>& batch) {
  using V = Lanes<T>;
  for_each_pack<V>(
      "maniple::physics::forward", batch.state.tiles, KOKKOS_LAMBDA(std::int64_t tile, int lane, int worker) {
        V* const scratch = batch.scratch.base(worker);
        const int stride = batch.scratch.stride();
        forward(batch.model, state_of_tile<V>(batch.model, batch.state.tile(tile), lane),
                data_of_scratch<V>(batch.model, scratch, stride));
        export_fields(batch, scratch, stride, tile, lane);
      });
}

template <class T>
void random_control_batch(const PhysicsBatch<T>& batch, std::uint32_t seed, std::int64_t first_env,
                          std::int64_t control_step) {
  using V = Lanes<T>;
  for_each_pack<V>(
      "maniple::physics::random_control", batch.state.tiles, KOKKOS_LAMBDA(std::int64_t tile, int lane, int) {
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

#define MANIPLE_INSTANTIATE_PHYSICS_BATCH(T)                              \
  template void step_batch<T>(const PhysicsBatch<T>&, int, std::int32_t); \
  template void forward_batch<T>(const PhysicsBatch<T>&);                 \
  template void random_control_batch<T>(const PhysicsBatch<T>&, std::uint32_t, std::int64_t, std::int64_t);

}  // namespace maniple
