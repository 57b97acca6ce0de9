// Views of lane values in memory. State lies in tiles of 32 environments, [tile][element][32], on
// every backend; scratch lies as [element][lanes]. Varying addresses both with one stride, so a
// stage cannot tell (and need not know) where its operands live.
#pragma once

#include "kernels/base/pack.hpp"

namespace maniple {

// Environments in one memory tile, on every backend and on disk before un-tiling.
inline constexpr int kTileWidth = 32;

// One field of the environments of one pack: element i is base[i * stride], a lane value.
template <class V>
struct Varying {
  V* base = nullptr;
  int stride = 1;

  MANIPLE_FUNCTION V& operator[](int i) const { return base[i * stride]; }
  // The same field from element `first` on.
  MANIPLE_FUNCTION Varying from(int first) const { return {base + first * stride, stride}; }
};

// Field `element` of the pack that starts at lane `lane` of a tile ([element][kTileWidth] scalars).
template <class V>
MANIPLE_FUNCTION Varying<V> tile_field(ScalarOf<V>* tile, int element, int lane) {
  return {reinterpret_cast<V*>(tile + element * kTileWidth + lane), kTileWidth / lane_width<V>};
}

}  // namespace maniple
