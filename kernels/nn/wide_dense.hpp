// Dense layers of small batches on a CPU (kernels/nn/block_gradient.hpp), equal to the bit to the lane
// kernels of kernels/nn/dense.hpp, but fast also where no cache holds the weights: these are read once for a
// tile. A vendor's library is fast, too, but its result for a sample may depend on the sample's place in the
// tile, and so on the number of ranks.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/nn/dense.hpp"

namespace maniple {

#ifndef MANIPLE_SCALAR_LANES
// sums[column][32] += sum over outputs of block[output][column] delta[output][32], for Columns columns of a
// block of weights and Packs packs of samples.
template <class V, int Packs, int Columns, int Stride>
void dense_backward_part(const ScalarOf<V>* block, int outputs, const V* delta, V* sums, bool begins) {
  constexpr int lane_stride = kTileWidth / lane_width<V>;
  V sum[Columns][Packs];
  MANIPLE_UNROLL
  for (int column = 0; column < Columns; ++column) {
    MANIPLE_UNROLL
    for (int pack = 0; pack < Packs; ++pack)
      sum[column][pack] = begins ? V(ScalarOf<V>(0)) : sums[column * lane_stride + pack];
  }
  add_backward_product(block, outputs, Stride, delta, sum);
  MANIPLE_UNROLL
  for (int column = 0; column < Columns; ++column) {
    MANIPLE_UNROLL
    for (int pack = 0; pack < Packs; ++pack) sums[column * lane_stride + pack] = sum[column][pack];
  }
}

// The operations of LaneDense without the gradient.
struct WideDense {
  template <class T>
  static void forward(const TileTeam& team, const DenseLayer& layer, const T* parameters, const T* source,
                      T* target) {
    constexpr int rows = 8 * kDenseRows;
    for (int first = 0; first < layer.outputs; first += rows)
      for_lanes<T>(team, [&](auto packs, int lane) {
        dense_forward<Lanes<T>, packs()>(layer, parameters, source, target, lane, first,
                                         std::min(first + rows, layer.outputs));
      });
  }
  template <class T>
  static void backward(const TileTeam& team, const DenseLayer& layer, const T* parameters, const T* delta,
                       const T* source, T* source_delta) {
    using V = Lanes<T>;
    constexpr int lane_stride = kTileWidth / lane_width<V>, columns = 16, depth = 128;
    alignas(64) T block[depth * columns];
    for (int column = 0; column < layer.inputs; column += columns) {
      const int there = std::min(columns, layer.inputs - column);
      for (int first = 0; first < layer.outputs; first += depth) {
        const int outputs = std::min(depth, layer.outputs - first);
        for (int o = 0; o < outputs; ++o)  // (rows are padded to whole blocks)
          std::copy_n(parameters + layer.weight + (first + o) * layer.stride() + column, columns,
                      block + o * columns);
        for_lanes<T>(team, [&](auto packs, int lane) {
          const V* const d = reinterpret_cast<const V*>(delta + first * kTileWidth + lane);
          V* const sums = reinterpret_cast<V*>(source_delta + column * kTileWidth + lane);
          int i = 0;
          for (; i + kDenseRows <= there; i += kDenseRows)
            dense_backward_part<V, packs(), kDenseRows, columns>(block + i, outputs, d,
                                                                 sums + i * lane_stride, first == 0);
          for (; i < there; ++i)
            dense_backward_part<V, packs(), 1, columns>(block + i, outputs, d, sums + i * lane_stride,
                                                        first == 0);
        });
      }
    }
    team.lanes<V, 1>([&](int lane) {
      V* const out = reinterpret_cast<V*>(source_delta + lane);
      const V* const y = reinterpret_cast<const V*>(source + lane);
      for (int i = 0; i < layer.inputs * lane_stride; i += lane_stride)
        out[i] = out[i] * activation_derivative(layer.source_activation, y[i]);
    });
  }

 private:
  static_assert(kParameterPadding == 16);
  // body(packs, lane) for each group of so many packs; a tile with samples in one alone has no second.
  template <class T, class Body>
  static void for_lanes(const TileTeam& team, const Body& body) {
    using V = Lanes<T>;
    if (team.width() == lane_width<V>)
      body(std::integral_constant<int, 1>(), 0);
    else
      team.lanes<V, kTilePacks>([&](int lane) { body(std::integral_constant<int, kTilePacks>(), lane); });
  }
};
#endif

}  // namespace maniple
