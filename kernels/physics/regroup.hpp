// Which environments share a pack of lanes. A pack pays for the most contacts and iterations of its lanes, so
// environments that asked the solver for as much in the step before are stepped together: their state is
// copied from the tiles into a pack of its own, and back after the step. No bit of an environment depends on
// its lane or its neighbours, hence none on this order.
#pragma once

#include "kernels/base/tiles.hpp"
#include "kernels/model/data.hpp"

namespace maniple {

// Environments that are regrouped among each other: what one worker's cache holds.
inline constexpr int kRegroupTiles = 8;
inline constexpr int kRegroupWidth = kRegroupTiles * kTileWidth;

// Whether it pays: where a step costs much more than the copies. On a GPU a lane is a thread of its own.
inline bool regroups(const ModelSizes& sizes) {
  return !kScalarLanes && sizes.ncandidate > 0 && sizes.nv > kFewDofs;
}

// What the constraints of an environment cost in its last step, as a key to sort by: rows, then iterations.
inline constexpr int kWorkKeys = 256;
template <class V>
MANIPLE_FUNCTION int work_key(const Data<V>& d, int lane) {
  const int blocks = (static_cast<int>(get_lane(V(d.solver_rows[0]), lane)) + 2) / 3;
  const int niter = static_cast<int>(get_lane(V(d.solver_niter[0]), lane));
  return (blocks < 31 ? blocks : 31) * 8 + (niter < 7 ? niter : 7);
}

// The environments of a pack, counted from the rank's first: lane i holds first + order[i]; without an order
// they follow each other.
struct PackEnvironments {
  std::int64_t first;
  const std::uint8_t* order = nullptr;

  MANIPLE_FUNCTION std::int64_t operator[](int lane) const {
    return first + (order == nullptr ? lane : order[lane]);
  }
};

// Numbers 0 .. count - 1 in ascending order of their keys; equal keys stay in order.
MANIPLE_FUNCTION void sort_by_key(const std::uint8_t* keys, int count, std::uint8_t* order) {
  std::int16_t place[kWorkKeys + 1] = {};
  for (int i = 0; i < count; ++i) ++place[keys[i] + 1];
  for (int k = 0; k < kWorkKeys; ++k) place[k + 1] = static_cast<std::int16_t>(place[k + 1] + place[k]);
  for (int i = 0; i < count; ++i) order[place[keys[i]]++] = static_cast<std::uint8_t>(i);
}

// Lane values of a state that has the layout of a tile, for the pack that is being stepped.
template <class V>
int pack_state_elements(const ModelSizes& sizes) {
  return state_elements(sizes) * (kTileWidth / lane_width<V>);
}

// Copies the states of a pack's environments from the tiles to the lanes of `pack` ([element][kTileWidth]).
template <class V, class T>
MANIPLE_FUNCTION void gather_state(const TiledView<T>& state, const PackEnvironments& environments, T* pack) {
  for (int lane = 0; lane < lane_width<V>; ++lane) {
    const T* const from = &state.at(environments[lane], 0);
    for (int i = 0; i < state.elements; ++i) pack[i * kTileWidth + lane] = from[i * kTileWidth];
  }
}
// And back.
template <class V, class T>
MANIPLE_FUNCTION void scatter_state(const T* pack, const PackEnvironments& environments,
                                    const TiledView<T>& state) {
  for (int lane = 0; lane < lane_width<V>; ++lane) {
    T* const to = &state.at(environments[lane], 0);
    for (int i = 0; i < state.elements; ++i) to[i * kTileWidth] = pack[i * kTileWidth + lane];
  }
}

}  // namespace maniple
