// Products of matrices whose factors are rounded to bfloat16 (a float's first 16 bits; to the nearest, ties
// to even) and whose terms are summed in single precision. The instruction of AVX512_BF16 sums the products
// of two numbers and two others at once, so what is summed over lies in pairs. As with other factors each
// number is a sum in one order: by pairs.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/nn/dense.hpp"
#include "kernels/nn/feature_map.hpp"

#if defined(__AVX512BF16__) && !defined(MANIPLE_SCALAR_LANES)
#define MANIPLE_BFLOAT16
#endif

namespace maniple {

// Whether this was compiled for CPUs that multiply bfloat16.
#ifdef MANIPLE_BFLOAT16
inline constexpr bool kMultipliesBfloat16 = true;
#else
inline constexpr bool kMultipliesBfloat16 = false;
#endif

// Two bfloat16, the first in the lower half.
using BfloatPair = std::uint32_t;

#ifdef MANIPLE_BFLOAT16

// to[i] = (first[i], second[i]); without a second: zeros. Writes up to the next multiple of 16.
inline void round_across(const float* first, const float* second, int count, BfloatPair* to) {
  alignas(64) static constexpr std::uint16_t order[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                          21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                          11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i interleave = _mm512_load_si512(order);
  for (int i = 0; i < count; i += 16) {
    const auto there = static_cast<__mmask16>(count - i < 16 ? (1 << (count - i)) - 1 : 0xffff);
    const __m512 a = _mm512_maskz_loadu_ps(there, first + i);
    const __m512 b = second ? _mm512_maskz_loadu_ps(there, second + i) : _mm512_setzero_ps();
    const __m512bh rounded = _mm512_cvtne2ps_pbh(b, a);
    __m512i bits;
    std::memcpy(&bits, &rounded, sizeof(bits));
    _mm512_storeu_si512(to + i, _mm512_permutexvar_epi16(interleave, bits));
  }
}

// to[i] = (from[2 i], from[2 i + 1]), zeros beyond the last. Writes up to the next multiple of 16.
inline void round_along(const float* from, int count, BfloatPair* to) {
  for (int i = 0; i < count; i += 32) {
    const std::uint32_t there = count - i < 32 ? (std::uint32_t{1} << (count - i)) - 1 : 0xffffffffu;
    const __m512 a = _mm512_maskz_loadu_ps(static_cast<__mmask16>(there), from + i);
    const __m512 b = _mm512_maskz_loadu_ps(static_cast<__mmask16>(there >> 16), from + i + 16);
    const __m512bh rounded = _mm512_cvtne2ps_pbh(b, a);
    std::memcpy(to + i / 2, &rounded, sizeof(rounded));
  }
}

// sum[row][lane] += sum over pairs of left[row][pair] . right[pair][lane], both numbers of a pair.
template <int Rows, int Packs, int RowGap, int PairGap>
inline void add_pairs(const BfloatPair* __restrict__ left, int pairs, const BfloatPair* __restrict__ right,
                      std::int64_t right_gap, Lanes<float> (&sum)[Rows][Packs]) {
  static_assert(lane_width<Lanes<float>> == 16);
  for (int pair = 0; pair < pairs; ++pair) {
    __m512bh x[Packs];
    MANIPLE_UNROLL
    for (int pack = 0; pack < Packs; ++pack)
      std::memcpy(&x[pack], right + pair * right_gap + 16 * pack, sizeof(x[pack]));
    MANIPLE_UNROLL
    for (int row = 0; row < Rows; ++row) {
      const __m512i bits = _mm512_set1_epi32(static_cast<int>(left[row * RowGap + pair * PairGap]));
      __m512bh w;
      std::memcpy(&w, &bits, sizeof(w));
      MANIPLE_UNROLL
      for (int pack = 0; pack < Packs; ++pack)
        sum[row][pack].value = _mm512_dpbf16_ps(sum[row][pack].value, w, x[pack]);
    }
  }
}

// The factors of TapProduct, TransposeMap and TapGradient: what is multiplied is in pairs, channels of what a
// product reads and samples of what a gradient does.
struct BfloatFactors {
  using Stored = BfloatPair;
  static constexpr int paired = 2;
  static constexpr int rows = 8, pairs = 128, depth = paired * pairs;
  static constexpr int block = rows * pairs;  // of packed weights

  // Weights of row r and column k at r * row_step + k * column_step: by blocks of rows, in which they lie
  // [row][pair] where a row's are consecutive, else [pair][row].
  static void pack(const float* from, int num_rows, int columns, std::int64_t row_step,
                   std::int64_t column_step, BfloatPair* to) {
    if (column_step == 1) {
      for (int row = 0; row < num_rows; ++row) round_along(from + row * row_step, columns, to + row * pairs);
      return;
    }
    alignas(64) BfloatPair both[2 * rows];  // blocks
    for (int row = 0; row < num_rows; row += 2 * rows) {
      const int there = num_rows - row < 2 * rows ? num_rows - row : 2 * rows;
      BfloatPair* const first = to + row * pairs;
      for (int k = 0; k < columns; k += 2) {
        const float* const at = from + row + k * column_step;
        round_across(at, k + 1 < columns ? at + column_step : nullptr, there, both);
        std::memcpy(first + k / 2 * rows, both, sizeof(both) / 2);
        if (there > rows) std::memcpy(first + block + k / 2 * rows, both + rows, sizeof(both) / 2);
      }
    }
  }

  template <int Rows, bool Consecutive>
  static void add_rows(const BfloatPair* packed, int columns, const BfloatPair* source, float* target) {
    using V = Lanes<float>;
    V* const to = reinterpret_cast<V*>(target);
    V sum[Rows][2];
    MANIPLE_UNROLL
    for (int row = 0; row < Rows; ++row)
      for (int pack = 0; pack < 2; ++pack) sum[row][pack] = to[row * 2 + pack];
    add_pairs<Rows, 2, Consecutive ? pairs : 1, Consecutive ? 1 : rows>(packed, (columns + 1) / 2, source,
                                                                        kTileWidth, sum);
    MANIPLE_UNROLL
    for (int row = 0; row < Rows; ++row)
      for (int pack = 0; pack < 2; ++pack) to[row * 2 + pack] = sum[row][pack];
  }
  template <bool Consecutive>
  static void add_blocks(const BfloatPair* packed, int num_rows, int columns, const BfloatPair* source,
                         float* target) {
    int row = 0;
    for (; row + rows <= num_rows; row += rows)
      add_rows<rows, Consecutive>(packed + row * pairs, columns, source, target + row * kTileWidth);
    const BfloatPair* const last = packed + row * pairs;
    for (int i = 0; row < num_rows; ++i, ++row)
      add_rows<1, Consecutive>(last + i * (Consecutive ? pairs : 1), columns, source,
                               target + row * kTileWidth);
  }
  // target[row][32] += sum over columns of weights[row][column] source[column][32], of all lanes.
  static void add_product(const BfloatPair* packed, int num_rows, int columns, std::int64_t column_step,
                          const BfloatPair* source, float* target, int /*lanes*/) {
    if (column_step == 1)
      add_blocks<true>(packed, num_rows, columns, source, target);
    else
      add_blocks<false>(packed, num_rows, columns, source, target);
  }

  // [sample][32 numbers] as pairs of samples.
  static void store_transposed(const float* from, int columns, BfloatPair* to) {
    alignas(64) float tile[kTileWidth * kTileWidth];
    transpose_tile(from, columns, kTileWidth, tile);
    for (int sample = 0; sample < kTileWidth; sample += 2)
      round_across(tile + sample * kTileWidth, tile + (sample + 1) * kTileWidth, kTileWidth,
                   to + sample / 2 * kTileWidth);
  }

  // Rows [row][sample] of at most MostFrames frames.
  template <int MostFrames>
  struct Deltas {
    alignas(64) BfloatPair numbers[MostFrames * rows * kTileWidth / 2];

    void set(int frame, const float* from, int num_rows) {
      BfloatPair* const to = numbers + frame * rows * kTileWidth / 2;
      for (int row = 0; row < num_rows; ++row)
        round_along(from + row * kTileWidth, kTileWidth, to + row * kTileWidth / 2);
      std::memset(to + num_rows * kTileWidth / 2, 0,
                  static_cast<std::size_t>((rows - num_rows) * kTileWidth / 2) * sizeof(BfloatPair));
    }
    // sum[row][column] += sum over the samples of delta[row][sample] x[sample][column].
    template <int Samples, class V, int Packs>
    void add_outer_products(int frame, int /*num_rows*/, int /*sample*/, const BfloatPair* x,
                            V (&sum)[rows][Packs]) const {
      static_assert(Samples == kTileWidth);
      add_pairs<rows, Packs, kTileWidth / 2, 1>(numbers + frame * rows * kTileWidth / 2, kTileWidth / 2, x,
                                                kTileWidth, sum);
    }
  };
};

// A map of pairs of channels. Work items are frames of tiles.
struct RoundMap {
  FeatureMap<const float> map;
  FeatureMap<BfloatPair> rounded;

  void operator()(const TileTeam&, std::int64_t item, int) const {
    const std::int64_t tile = item / map.frames;
    const int frame = static_cast<int>(item % map.frames);
    const float* const from = map.at(tile, frame);
    BfloatPair* const to = rounded.at(tile, frame);
    for (int channel = 0; channel < map.channels; channel += 2) {
      const float* const first = from + channel * kTileWidth;
      round_across(first, channel + 1 < map.channels ? first + kTileWidth : nullptr, kTileWidth,
                   to + channel / 2 * kTileWidth);
    }
  }
};

// The operations of LaneDense.
struct BfloatDense {
  using Factors = BfloatFactors;

  static void forward(const TileTeam&, const DenseLayer& layer, const float* parameters, const float* source,
                      float* target) {
    using V = Lanes<float>;
    V* const out = reinterpret_cast<V*>(target);
    for (int o = 0; o < layer.outputs; ++o) out[2 * o] = out[2 * o + 1] = V(parameters[layer.bias + o]);
    add_product(parameters + layer.weight, layer.outputs, layer.inputs, layer.stride(), 1, source, target);
    for (int i = 0; i < 2 * layer.outputs; ++i) out[i] = activate(layer.activation, out[i]);
  }
  static void backward(const TileTeam&, const DenseLayer& layer, const float* parameters, const float* delta,
                       const float* source, float* source_delta) {
    using V = Lanes<float>;
    V* const out = reinterpret_cast<V*>(source_delta);
    const V* const y = reinterpret_cast<const V*>(source);
    for (int i = 0; i < 2 * layer.inputs; ++i) out[i] = V(0.0f);
    add_product(parameters + layer.weight, layer.inputs, layer.outputs, 1, layer.stride(), delta,
                source_delta);
    for (int i = 0; i < 2 * layer.inputs; ++i) out[i] *= activation_derivative(layer.source_activation, y[i]);
  }
  static void gradient(const TileTeam&, const DenseLayer& layer, const float* source, const float* delta,
                       float* transposed, float* gradient) {
    const std::int64_t stride = layer.stride();
    transpose_tile(source, layer.inputs, stride, transposed);
    auto* const x = reinterpret_cast<BfloatPair*>(transposed);  // each pair before what is not yet rounded
    for (int sample = 0; sample < kTileWidth; sample += 2)
      round_across(transposed + sample * stride, transposed + (sample + 1) * stride, static_cast<int>(stride),
                   x + sample / 2 * stride);
    Factors::Deltas<1> deltas;
    for (int row = 0; row < layer.outputs; row += Factors::rows) {
      const int num_rows = layer.outputs - row < Factors::rows ? layer.outputs - row : Factors::rows;
      deltas.set(0, delta + row * kTileWidth, num_rows);
      float* const to = gradient + layer.weight + row * stride;
      std::int64_t column = 0;
      for (; column + 32 <= stride; column += 32)
        add_columns<2>(deltas, num_rows, x + column, stride, to + column);
      if (column < stride) add_columns<1>(deltas, num_rows, x + column, stride, to + column);
    }
    for (int o = 0; o < layer.outputs; ++o) {
      const auto* const packs = reinterpret_cast<const Lanes<float>*>(delta + o * kTileWidth);
      gradient[layer.bias + o] += sum_samples<Lanes<float>>([&](int pack) { return packs[pack]; });
    }
  }

 private:
  // target[row][32] += sum over columns of weights[row][column] source[column][32].
  static void add_product(const float* weights, int num_rows, int columns, std::int64_t row_step,
                          std::int64_t column_step, const float* source, float* target) {
    constexpr int most_rows = 4 * Factors::rows;
    alignas(64) BfloatPair packed[most_rows * Factors::pairs], rounded[Factors::pairs * kTileWidth];
    for (int k = 0; k < columns; k += Factors::depth) {
      const int part = columns - k < Factors::depth ? columns - k : Factors::depth;
      for (int i = 0; i < part; i += 2) {
        const float* const first = source + (k + i) * kTileWidth;
        round_across(first, i + 1 < part ? first + kTileWidth : nullptr, kTileWidth,
                     rounded + i / 2 * kTileWidth);
      }
      for (int row = 0; row < num_rows; row += most_rows) {
        const int there = num_rows - row < most_rows ? num_rows - row : most_rows;
        Factors::pack(weights + row * row_step + k * column_step, there, part, row_step, column_step, packed);
        Factors::add_product(packed, there, part, column_step, rounded, target + row * kTileWidth,
                             kTileWidth);
      }
    }
  }
  template <int Packs>
  static void add_columns(const Factors::Deltas<1>& deltas, int num_rows, const BfloatPair* x,
                          std::int64_t stride, float* gradient) {
    using V = Lanes<float>;
    V sum[Factors::rows][Packs];
    for (int row = 0; row < Factors::rows; ++row)
      for (int pack = 0; pack < Packs; ++pack)
        sum[row][pack] = row < num_rows ? reinterpret_cast<const V*>(gradient + row * stride)[pack] : V(0.0f);
    add_pairs<Factors::rows, Packs, kTileWidth / 2, 1>(deltas.numbers, kTileWidth / 2, x, stride, sum);
    for (int row = 0; row < num_rows; ++row)
      for (int pack = 0; pack < Packs; ++pack)
        reinterpret_cast<V*>(gradient + row * stride)[pack] = sum[row][pack];
  }
};

#endif

}  // namespace maniple
