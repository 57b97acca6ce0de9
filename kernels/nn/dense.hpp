// Dense layers over tiles of 32 samples, [unit][32]: samples lie over the lanes and weights are
// broadcast, so that small networks run near the machine's peak without packing anything. A tile is the
// unit of work: its sums have a fixed order, whatever the number of tiles, threads or ranks.
#pragma once

#include "kernels/nn/activations.hpp"
#include "kernels/nn/tile_team.hpp"

#if defined(__GNUC__) && !defined(__CUDACC__)
#define MANIPLE_UNROLL _Pragma("GCC unroll 32")
#define MANIPLE_UNROLL_SUM
#else
#define MANIPLE_UNROLL _Pragma("unroll")
// (a thread of a GPU waits for a load: let there be several)
#define MANIPLE_UNROLL_SUM _Pragma("unroll 8")
#endif

namespace maniple {

// Rows of a weight matrix that one block of registers holds.
inline constexpr int kDenseRows = lane_width<Lanes<float>> >= 16 ? 8 : 4;

// Sum over a tile's samples, of which number(pack) gives those of one pack, in a binary tree that is the same
// for any width of packs: sample i is added to sample i + 16, then to i + 8, and so on. So the bits of a
// training do not depend on the vector registers of the machine.
template <class V, int Packs = kTileWidth / lane_width<V>, class Number>
MANIPLE_FUNCTION V sum_packs(const Number& number, int first = 0) {
  if constexpr (Packs == 1) {
    return number(first);
  } else {
    constexpr int stride = kTileWidth / lane_width<V> / Packs;
    return sum_packs<V, Packs / 2>(number, first) + sum_packs<V, Packs / 2>(number, first + stride);
  }
}
template <class V, class Number>
MANIPLE_FUNCTION ScalarOf<V> sum_samples(const Number& number) {
  return sum_lanes(sum_packs<V>(number));
}

// target = activation(weight source + bias) for Rows outputs of Packs packs of samples.
template <class V, int Packs, int Rows>
MANIPLE_FUNCTION void dense_forward_block(const ScalarOf<V>* weight, const ScalarOf<V>* bias, int inputs,
                                          std::int64_t stride, const V* source, V* target,
                                          Activation activation) {
  constexpr int lane_stride = kTileWidth / lane_width<V>;
  V sum[Rows][Packs];
  MANIPLE_UNROLL
  for (int row = 0; row < Rows; ++row) {
    MANIPLE_UNROLL
    for (int pack = 0; pack < Packs; ++pack) sum[row][pack] = V(bias[row]);
  }
  MANIPLE_UNROLL_SUM
  for (int i = 0; i < inputs; ++i) {
    V x[Packs];
    MANIPLE_UNROLL
    for (int pack = 0; pack < Packs; ++pack) x[pack] = source[i * lane_stride + pack];
    MANIPLE_UNROLL
    for (int row = 0; row < Rows; ++row) {
      const V w(weight[row * stride + i]);
      MANIPLE_UNROLL
      for (int pack = 0; pack < Packs; ++pack) sum[row][pack] = multiply_add(w, x[pack], sum[row][pack]);
    }
  }
  MANIPLE_UNROLL
  for (int row = 0; row < Rows; ++row) {
    MANIPLE_UNROLL
    for (int pack = 0; pack < Packs; ++pack)
      target[row * lane_stride + pack] = activate(activation, sum[row][pack]);
  }
}

// Outputs `first` to `last` of a layer for Packs packs of samples from `lane` on; source and target are tiles
// [unit][32].
template <class V, int Packs>
MANIPLE_FUNCTION void dense_forward(const DenseLayer& layer, const ScalarOf<V>* parameters,
                                    const ScalarOf<V>* source, ScalarOf<V>* target, int lane, int first,
                                    int last) {
  constexpr int lane_stride = kTileWidth / lane_width<V>;
  const V* in = reinterpret_cast<const V*>(source + lane);
  V* out = reinterpret_cast<V*>(target + lane);
  const ScalarOf<V>* weight = parameters + layer.weight;
  const ScalarOf<V>* bias = parameters + layer.bias;
  const std::int64_t stride = layer.stride();
  int row = first;
  for (; row + kDenseRows <= last; row += kDenseRows)
    dense_forward_block<V, Packs, kDenseRows>(weight + row * stride, bias + row, layer.inputs, stride, in,
                                              out + row * lane_stride, layer.activation);
  for (; row + 2 <= last; row += 2)
    dense_forward_block<V, Packs, 2>(weight + row * stride, bias + row, layer.inputs, stride, in,
                                     out + row * lane_stride, layer.activation);
  for (; row < last; ++row)
    dense_forward_block<V, Packs, 1>(weight + row * stride, bias + row, layer.inputs, stride, in,
                                     out + row * lane_stride, layer.activation);
}

// sum[column][32] += sum over outputs of weight[output][column] delta[output][32], for Packs packs of
// samples.
template <class V, int Packs, int Columns>
MANIPLE_FUNCTION void add_backward_product(const ScalarOf<V>* weight, int outputs, std::int64_t stride,
                                           const V* delta, V (&sum)[Columns][Packs]) {
  MANIPLE_UNROLL_SUM
  for (int o = 0; o < outputs; ++o) {
    V d[Packs];
    MANIPLE_UNROLL
    for (int pack = 0; pack < Packs; ++pack) d[pack] = delta[o * (kTileWidth / lane_width<V>)+pack];
    MANIPLE_UNROLL
    for (int column = 0; column < Columns; ++column) {
      const V w(weight[o * stride + column]);
      MANIPLE_UNROLL
      for (int pack = 0; pack < Packs; ++pack)
        sum[column][pack] = multiply_add(w, d[pack], sum[column][pack]);
    }
  }
}

// source_delta = (transposed weight target_delta) * derivative of the source, for Columns inputs.
template <class V, int Packs, int Columns>
MANIPLE_FUNCTION void dense_backward_block(const ScalarOf<V>* weight, int outputs, std::int64_t stride,
                                           const V* delta, const V* source, V* source_delta,
                                           Activation activation) {
  constexpr int lane_stride = kTileWidth / lane_width<V>;
  V sum[Columns][Packs];
  MANIPLE_UNROLL
  for (int column = 0; column < Columns; ++column) {
    MANIPLE_UNROLL
    for (int pack = 0; pack < Packs; ++pack) sum[column][pack] = V(ScalarOf<V>(0));
  }
  add_backward_product(weight, outputs, stride, delta, sum);
  MANIPLE_UNROLL
  for (int column = 0; column < Columns; ++column) {
    MANIPLE_UNROLL
    for (int pack = 0; pack < Packs; ++pack)
      source_delta[column * lane_stride + pack] =
          sum[column][pack] * activation_derivative(activation, source[column * lane_stride + pack]);
  }
}

// Carries the derivatives of a loss from a layer's outputs (before their activation) to outputs `first` to
// `last` of the layer below, for Packs packs of samples from `lane` on. `source` holds that layer's outputs.
template <class V, int Packs>
MANIPLE_FUNCTION void dense_backward(const DenseLayer& layer, const ScalarOf<V>* parameters,
                                     const ScalarOf<V>* delta, const ScalarOf<V>* source,
                                     ScalarOf<V>* source_delta, int lane, int first, int last) {
  constexpr int lane_stride = kTileWidth / lane_width<V>;
  const V* d = reinterpret_cast<const V*>(delta + lane);
  const V* y = reinterpret_cast<const V*>(source + lane);
  V* out = reinterpret_cast<V*>(source_delta + lane);
  const ScalarOf<V>* weight = parameters + layer.weight;
  const std::int64_t stride = layer.stride();
  int i = first;
  for (; i + kDenseRows <= last; i += kDenseRows)
    dense_backward_block<V, Packs, kDenseRows>(weight + i, layer.outputs, stride, d, y + i * lane_stride,
                                               out + i * lane_stride, layer.source_activation);
  for (; i < last; ++i)
    dense_backward_block<V, Packs, 1>(weight + i, layer.outputs, stride, d, y + i * lane_stride,
                                      out + i * lane_stride, layer.source_activation);
}

// [unit][32] -> [32][stride], units beyond `units` filled with zeros.
template <class T>
MANIPLE_FUNCTION void transpose_tile(const T* source, int units, std::int64_t stride, T* transposed) {
  int unit = 0;
#if defined(MANIPLE_X86_INTRINSICS)
  if constexpr (std::is_same_v<T, float>) {
    for (; unit + 8 <= units; unit += 8) {
      for (int lane = 0; lane < kTileWidth; lane += 8) {
        const float* in = source + unit * kTileWidth + lane;
        float* out = transposed + lane * stride + unit;
        // halves of rows k and k + 4 side by side, then 4 x 4 transposes in each half
        __m256 row[8];
        for (int k = 0; k < 4; ++k) {
          row[k] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(in + k * kTileWidth)),
                                        _mm_loadu_ps(in + (k + 4) * kTileWidth), 1);
          row[k + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(in + k * kTileWidth + 4)),
                                            _mm_loadu_ps(in + (k + 4) * kTileWidth + 4), 1);
        }
        for (int half = 0; half < 8; half += 4) {
          const __m256 low01 = _mm256_unpacklo_ps(row[half], row[half + 1]);
          const __m256 high01 = _mm256_unpackhi_ps(row[half], row[half + 1]);
          const __m256 low23 = _mm256_unpacklo_ps(row[half + 2], row[half + 3]);
          const __m256 high23 = _mm256_unpackhi_ps(row[half + 2], row[half + 3]);
          _mm256_storeu_ps(out + half * stride, _mm256_shuffle_ps(low01, low23, 0x44));
          _mm256_storeu_ps(out + (half + 1) * stride, _mm256_shuffle_ps(low01, low23, 0xee));
          _mm256_storeu_ps(out + (half + 2) * stride, _mm256_shuffle_ps(high01, high23, 0x44));
          _mm256_storeu_ps(out + (half + 3) * stride, _mm256_shuffle_ps(high01, high23, 0xee));
        }
      }
    }
  }
#endif
  for (; unit < units; ++unit)
    for (int lane = 0; lane < kTileWidth; ++lane)
      transposed[lane * stride + unit] = source[unit * kTileWidth + lane];
  for (; unit < stride; ++unit)
    for (int lane = 0; lane < kTileWidth; ++lane) transposed[lane * stride + unit] = T(0);
}

// gradient[row][column] += sum over the samples of delta[row][sample] transposed[sample][column].
template <class V, int Rows, int Columns>
MANIPLE_FUNCTION void dense_gradient_block(const ScalarOf<V>* delta, const ScalarOf<V>* transposed,
                                           std::int64_t stride, ScalarOf<V>* gradient) {
  V sum[Rows][Columns];
  MANIPLE_UNROLL
  for (int row = 0; row < Rows; ++row) {
    MANIPLE_UNROLL
    for (int column = 0; column < Columns; ++column)
      sum[row][column] = reinterpret_cast<const V*>(gradient + row * stride)[column];
  }
  for (int sample = 0; sample < kTileWidth; ++sample) {
    V x[Columns];
    MANIPLE_UNROLL
    for (int column = 0; column < Columns; ++column)
      x[column] = reinterpret_cast<const V*>(transposed + sample * stride)[column];
    MANIPLE_UNROLL
    for (int row = 0; row < Rows; ++row) {
      const V d(delta[row * kTileWidth + sample]);
      MANIPLE_UNROLL
      for (int column = 0; column < Columns; ++column)
        sum[row][column] = multiply_add(d, x[column], sum[row][column]);
    }
  }
  MANIPLE_UNROLL
  for (int row = 0; row < Rows; ++row) {
    MANIPLE_UNROLL
    for (int column = 0; column < Columns; ++column)
      reinterpret_cast<V*>(gradient + row * stride)[column] = sum[row][column];
  }
}

template <class V, int Columns>
MANIPLE_FUNCTION void dense_gradient_columns(const DenseLayer& layer, const ScalarOf<V>* delta,
                                             const ScalarOf<V>* transposed, ScalarOf<V>* gradient) {
  const std::int64_t stride = layer.stride();
  int row = 0;
  for (; row + kDenseRows <= layer.outputs; row += kDenseRows)
    dense_gradient_block<V, kDenseRows, Columns>(delta + row * kTileWidth, transposed, stride,
                                                 gradient + row * stride);
  for (; row < layer.outputs; ++row)
    dense_gradient_block<V, 1, Columns>(delta + row * kTileWidth, transposed, stride,
                                        gradient + row * stride);
}

// Adds a layer's gradient over a tile: vectors run over the inputs, the samples are summed in order, so
// no sums across lanes are needed. `transposed` is scratch of 32 * layer.stride(), as aligned as a V.
template <class V>
MANIPLE_FUNCTION void dense_gradient(const DenseLayer& layer, const ScalarOf<V>* source,
                                     const ScalarOf<V>* delta, ScalarOf<V>* transposed,
                                     ScalarOf<V>* gradient) {
  constexpr int width = lane_width<V>;
  const std::int64_t stride = layer.stride();
  transpose_tile(source, layer.inputs, stride, transposed);
  ScalarOf<V>* weight = gradient + layer.weight;
  int column = 0;
  for (; column + 2 * width <= layer.inputs + width - 1; column += 2 * width)
    dense_gradient_columns<V, 2>(layer, delta, transposed + column, weight + column);
  for (; column < layer.inputs; column += width)
    dense_gradient_columns<V, 1>(layer, delta, transposed + column, weight + column);
  for (int o = 0; o < layer.outputs; ++o) {
    const V* const packs = reinterpret_cast<const V*>(delta + o * kTileWidth);
    gradient[layer.bias + o] += sum_samples<V>([&](int pack) { return packs[pack]; });
  }
}

// The same, to the bit, by a team: each thread takes a few rows of a column.
template <class T>
MANIPLE_FUNCTION void dense_gradient_by_team(const TileTeam& team, const DenseLayer& layer, const T* source,
                                             const T* delta, T* transposed, T* gradient) {
  const std::int64_t stride = layer.stride(), inputs = layer.inputs;
  team.barrier();
  team.items(inputs * kTileWidth,
             [&](std::int64_t i) { transposed[i % kTileWidth * stride + i / kTileWidth] = source[i]; });
  team.barrier();
  const std::int64_t blocks = (layer.outputs + kDenseRows - 1) / kDenseRows;
  team.items(blocks * inputs, [&](std::int64_t i) {
    const std::int64_t column = i % inputs, row = i / inputs * kDenseRows;
    const T* const x = transposed + column;
    T* const weight = gradient + layer.weight + row * stride + column;
    if (row + kDenseRows <= layer.outputs) {
      dense_gradient_block<T, kDenseRows, 1>(delta + row * kTileWidth, x, stride, weight);
      return;
    }
    for (std::int64_t o = row; o < layer.outputs; ++o)
      dense_gradient_block<T, 1, 1>(delta + o * kTileWidth, x, stride, weight + (o - row) * stride);
  });
  team.items(layer.outputs, [&](std::int64_t o) {
    gradient[layer.bias + o] += sum_samples<T>([&](int lane) { return delta[o * kTileWidth + lane]; });
  });
}

// The three operations on whole tiles by a team, in lane kernels. src/learning/dense_blas.hpp offers the
// same through a vendor's library.
struct LaneDense {
  template <class T>
  static MANIPLE_FUNCTION void forward(const TileTeam& team, const DenseLayer& layer, const T* parameters,
                                       const T* source, T* target) {
    using V = Lanes<T>;
    share<V>(team, layer.outputs, [&](int lane, int first, int last) {
      dense_forward<V, kTilePacks>(layer, parameters, source, target, lane, first, last);
    });
  }
  template <class T>
  static MANIPLE_FUNCTION void backward(const TileTeam& team, const DenseLayer& layer, const T* parameters,
                                        const T* delta, const T* source, T* source_delta) {
    using V = Lanes<T>;
    share<V>(team, layer.inputs, [&](int lane, int first, int last) {
      dense_backward<V, kTilePacks>(layer, parameters, delta, source, source_delta, lane, first, last);
    });
  }
  template <class T>
  static MANIPLE_FUNCTION void gradient(const TileTeam& team, const DenseLayer& layer, const T* source,
                                        const T* delta, T* transposed, T* gradient) {
    if constexpr (kScalarLanes) {
      dense_gradient_by_team(team, layer, source, delta, transposed, gradient);
    } else {
      dense_gradient<Lanes<T>>(layer, source, delta, transposed, gradient);
    }
  }

 private:
  // body(lane, first, last) for units `first` to `last` of all lanes: on a CPU all units at once, on a GPU a
  // few for each thread, between barriers.
  template <class V, class Body>
  static MANIPLE_FUNCTION void share(const TileTeam& team, int units, const Body& body) {
#ifdef MANIPLE_SCALAR_LANES
    team.barrier();
    team.blocks((units + kDenseRows - 1) / kDenseRows, [&](int lane, int block) {
      const int first = block * kDenseRows, last = first + kDenseRows;
      body(lane, first, last < units ? last : units);
    });
    team.barrier();
#else
    team.lanes<V, kTilePacks>([&](int lane) { body(lane, 0, units); });
#endif
  }
};

}  // namespace maniple
