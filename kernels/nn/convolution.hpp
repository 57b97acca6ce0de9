// Convolutions over the frames of sequences or the pixels of images, transposed ones (Conv1d, Conv2d,
// ConvTranspose1d) and dense layers (one tap, one frame), as products of matrices. Samples lie over the
// lanes, 32 to a tile, so that a frame of a tile, [channel][32], is what a product wants to read: nothing is
// gathered, padded or copied but blocks of weights. Each number is a sum in one order, whatever the number of
// tiles or workers: by taps, then by channels; in gradients by frames, then by samples.
#pragma once

#include <cstring>

#include "kernels/nn/dense.hpp"
#include "kernels/nn/feature_map.hpp"

namespace maniple {

// How two maps meet along one axis: place c of the coarse one meets places stride * c + tap - padding of the
// fine one.
struct TapAxis {
  int taps = 1, stride = 1, padding = 0;

  // The place of the other map, of `places`, that a place of one meets at a tap; negative: none.
  MANIPLE_FUNCTION int partner(bool of_fine, int place, int tap, int places) const {
    int other = 0;
    if (of_fine) {
      const int reach = place + padding - tap;
      if (reach < 0 || reach % stride != 0) return -1;
      other = reach / stride;
    } else {
      other = stride * place + tap - padding;
    }
    return other < places ? other : -1;
  }
  // Places of the coarse map, where the fine one has `places`.
  MANIPLE_FUNCTION int coarse(int places) const { return (places + 2 * padding - taps) / stride + 1; }
};

// Weights [tap][coarse channel][fine channel] between two maps. A convolution goes from fine to coarse, a
// transposed one from coarse to fine; derivatives by what went in go the other way. The frames of an image
// are its pixels, row by row: rows meet as `y` says, places of a row as `x` does, and taps are counted
// likewise. A sequence has one frame to a row.
struct TapLayer {
  int coarse = 0, fine = 0;  // channels
  TapAxis y, x;
  int coarse_width = 1, fine_width = 1;  // frames of a row
  std::int64_t weight = 0, bias = 0;     // first parameters
  bool transposed = false;               // its outputs are the fine map

  MANIPLE_FUNCTION int inputs() const { return transposed ? coarse : fine; }
  MANIPLE_FUNCTION int outputs() const { return transposed ? fine : coarse; }
  MANIPLE_FUNCTION int taps() const { return y.taps * x.taps; }
  // The frame of the other map that a frame of one meets at a tap; negative: none.
  MANIPLE_FUNCTION int partner(bool of_fine, int frame, int tap, int frames) const {
    const int own = of_fine ? fine_width : coarse_width, others = of_fine ? coarse_width : fine_width;
    if (own == 1 && others == 1 && x.taps == 1) return y.partner(of_fine, frame, tap, frames);
    const int row = y.partner(of_fine, frame / own, tap / x.taps, frames / others);
    const int place = x.partner(of_fine, frame % own, tap % x.taps, others);
    return row < 0 || place < 0 ? -1 : row * others + place;
  }
};

// What a sum begins with.
enum class SumStart : int { zero, bias, target };

// Rows and depth of the block of weights that a worker packs for a product.
inline constexpr int kProductRows = kScalarLanes ? 8 : 128, kProductDepth = 128;

// target[row][32] += sum over k of packed[k][row] source[k][32], for Packs packs of V and the first `rows` of
// Rows rows.
template <class V, int Rows, int Packs>
MANIPLE_FUNCTION void add_product(const ScalarOf<V>* __restrict__ packed, int depth,
                                  const V* __restrict__ source, V* __restrict__ target, int rows) {
  constexpr int lane_stride = kTileWidth / lane_width<V>;
  V sum[Rows][Packs];
  MANIPLE_UNROLL
  for (int row = 0; row < Rows; ++row) {
    const int there = row < rows ? row : 0;
    MANIPLE_UNROLL
    for (int pack = 0; pack < Packs; ++pack) sum[row][pack] = target[there * lane_stride + pack];
  }
  for (int k = 0; k < depth; ++k) {
    V x[Packs];
    MANIPLE_UNROLL
    for (int pack = 0; pack < Packs; ++pack) x[pack] = source[k * lane_stride + pack];
    MANIPLE_UNROLL
    for (int row = 0; row < Rows; ++row) {
      const V w(packed[k * Rows + row]);
      MANIPLE_UNROLL
      for (int pack = 0; pack < Packs; ++pack) sum[row][pack] = multiply_add(w, x[pack], sum[row][pack]);
    }
  }
  MANIPLE_UNROLL
  for (int row = 0; row < Rows; ++row) {
    if (row >= rows) break;
    MANIPLE_UNROLL
    for (int pack = 0; pack < Packs; ++pack) target[row * lane_stride + pack] = sum[row][pack];
  }
}

// sum[row][column] += sum over `Samples` samples of delta[row][sample] x[sample][column], of the first `rows`
// rows of Rows (`All`: these are all, at constant distances).
template <bool All, class V, int Samples, int Rows, int Columns>
MANIPLE_FUNCTION void add_outer_products_of(const ScalarOf<V>* __restrict__ delta, int rows,
                                            const V* __restrict__ x, V (&sum)[Rows][Columns]) {
  for (int sample = 0; sample < Samples; ++sample) {
    V b[Columns];
    MANIPLE_UNROLL
    for (int column = 0; column < Columns; ++column)
      b[column] = x[sample * (kTileWidth / lane_width<V>)+column];
    MANIPLE_UNROLL
    for (int row = 0; row < Rows; ++row) {
      const V d(delta[(All || row < rows ? row : 0) * kTileWidth + sample]);
      MANIPLE_UNROLL
      for (int column = 0; column < Columns; ++column)
        sum[row][column] = multiply_add(d, b[column], sum[row][column]);
    }
  }
}
template <class V, int Samples, int Rows, int Columns>
MANIPLE_FUNCTION void add_outer_products(const ScalarOf<V>* delta, int rows, const V* x,
                                         V (&sum)[Rows][Columns]) {
  if (rows == Rows)
    add_outer_products_of<true, V, Samples>(delta, rows, x, sum);
  else
    add_outer_products_of<false, V, Samples>(delta, rows, x, sum);
}

// total[i] += rounded partial[i] for Count numbers, of whole packs.
template <int Count, class T>
MANIPLE_FUNCTION void add_rounded(const T* __restrict__ partial, double* __restrict__ total) {
#ifdef MANIPLE_SCALAR_LANES
  for (int i = 0; i < Count; ++i) total[i] += exact_round(static_cast<double>(partial[i]));
#else
  // (spelled out: compilers mix up the halves of the packs)
  using Wide = Lanes<double>;
  using Narrow = Pack<T, lane_width<Wide>>;
  const Wide shift(1.5 * kExactLimit);  // as exact_round()
  MANIPLE_UNROLL
  for (int i = 0; i < Count; i += lane_width<Wide>) {
    Narrow x;
    Wide sum;
    std::memcpy(&x, partial + i, sizeof(x));
    std::memcpy(&sum, total + i, sizeof(sum));
    sum += (Wide(__builtin_convertvector(x.value, typename Wide::Register)) + shift) - shift;
    std::memcpy(total + i, &sum, sizeof(sum));
  }
#endif
}

// totals[row * stride + column] += rounded sum[row][column] for `rows` rows and `columns` columns of them.
// Returns how many rows had terms that were too large to be added exactly (one that is no number stays so in
// the total).
template <class V, int Rows, int Packs>
MANIPLE_FUNCTION double add_sums(const V (&sum)[Rows][Packs], int rows, int columns, std::int64_t stride,
                                 bool exact, double* __restrict__ totals) {
  using T = ScalarOf<V>;
  constexpr int all = Packs * lane_width<V>;
  double lost = 0;
  if (!exact || columns != all) {
    for (int row = 0; row < rows; ++row) {
      const T* const partial = reinterpret_cast<const T*>(sum[row]);
      double* const total = totals + row * stride;
      lost += exact ? add_exactly(partial, columns, total) : add_fast(partial, columns, total);
    }
    return lost;
  }
  V largest(T(0));
  for (int row = 0; row < rows; ++row) {
    MANIPLE_UNROLL
    for (int pack = 0; pack < Packs; ++pack) largest = max(largest, abs(sum[row][pack]));
    add_rounded<all>(reinterpret_cast<const T*>(sum[row]), totals + row * stride);
  }
  return any_lane(largest > V(T(kExactLimit / 2))) ? 1 : 0;
}

// What is multiplied, and how: numbers as they are. BfloatFactors (kernels/nn/bfloat16.hpp) rounds them.
template <class T>
struct PlainFactors {
  using Stored = T;
  static constexpr int paired = 1;             // numbers of a sum that lie side by side
  static constexpr int depth = kProductDepth;  // of the block of weights

  // Weights of row r and column k at r * row_step + k * column_step: [block of kDenseRows rows][column][row],
  // zeros beyond the last row.
  static MANIPLE_FUNCTION void pack(const T* from, int num_rows, int columns, std::int64_t row_step,
                                    std::int64_t column_step, T* block) {
    for (int first_row = 0; first_row < num_rows; first_row += kDenseRows) {
      T* const to = block + first_row * columns;
      for (int row = 0; row < kDenseRows; ++row)
        if (first_row + row < num_rows)
          for (int k = 0; k < columns; ++k)
            to[k * kDenseRows + row] = from[(first_row + row) * row_step + k * column_step];
        else
          for (int k = 0; k < columns; ++k) to[k * kDenseRows + row] = T(0);
    }
  }
  // target[row][32] += sum over columns of packed weights[row][column] source[column][32], of the first
  // lanes.
  static MANIPLE_FUNCTION void add_product(const T* block, int num_rows, int columns,
                                           std::int64_t /*column_step*/, const T* source, T* target,
                                           int lanes) {
    using V = Lanes<T>;
    const int packs = lanes / lane_width<V>;
    int pack = 0;
    for (; pack + 2 <= packs; pack += 2) add_packs<2>(block, num_rows, columns, source, target, pack);
    if (pack < packs) add_packs<1>(block, num_rows, columns, source, target, pack);
  }
  template <int Packs>
  static MANIPLE_FUNCTION void add_packs(const T* block, int num_rows, int columns, const T* source,
                                         T* target, int pack) {
    using V = Lanes<T>;
    constexpr int packs = kTileWidth / lane_width<V>;
    const V* const from = reinterpret_cast<const V*>(source) + pack;
    V* const to = reinterpret_cast<V*>(target) + pack;
    int row = 0;
    for (; row + kDenseRows <= num_rows; row += kDenseRows)
      maniple::add_product<V, kDenseRows, Packs>(block + row * columns, columns, from, to + row * packs,
                                                 kDenseRows);
    if (row < num_rows)
      maniple::add_product<V, kDenseRows, Packs>(block + row * columns, columns, from, to + row * packs,
                                                 num_rows - row);
  }

  // [channel][32] -> [sample][32 channels]
  static MANIPLE_FUNCTION void store_transposed(const T* from, int channels, T* to) {
    transpose_tile(from, channels, kTileWidth, to);
  }

  // Rows [row][sample] of some frames.
  template <int MostFrames>
  struct Deltas {
    const T* frames[MostFrames];

    MANIPLE_FUNCTION void set(int frame, const T* from, int /*num_rows*/) { frames[frame] = from; }
    // sum[row][column] += sum over Samples samples from `sample` on of delta[row][sample] x[sample][column].
    template <int Samples, class V, int Packs>
    MANIPLE_FUNCTION void add_outer_products(int frame, int num_rows, int sample, const T* x,
                                             V (&sum)[kDenseRows][Packs]) const {
      maniple::add_outer_products<V, Samples>(frames[frame] + sample, num_rows,
                                              reinterpret_cast<const V*>(x + sample * kTileWidth), sum);
    }
  };
};

// The frames of `target`, each a sum over taps and the channels of `source`: a layer's outputs, or with
// `backward` the derivatives by its inputs. Work items are blocks of rows (channels of the target) times runs
// of the target's frames.
template <class T, class Factors = PlainFactors<T>>
struct TapProduct {
  using Stored = typename Factors::Stored;
  TapLayer layer;
  bool backward = false;
  SumStart start = SumStart::bias;
  const T* parameters = nullptr;
  FeatureMap<const Stored> source;
  FeatureMap<T> target;
  int tiles = 0;
  TileSamples samples;
  int runs = 1;              // of the tiles' frames
  Stored* packed = nullptr;  // [worker][kProductRows * kProductDepth]

  MANIPLE_FUNCTION bool to_fine() const { return layer.transposed != backward; }
  MANIPLE_FUNCTION int rows() const { return to_fine() ? layer.fine : layer.coarse; }
  MANIPLE_FUNCTION int row_blocks() const { return (rows() + kProductRows - 1) / kProductRows; }
  MANIPLE_FUNCTION std::int64_t items() const { return static_cast<std::int64_t>(row_blocks()) * runs; }

  MANIPLE_FUNCTION T start_of(int row, T there) const {
    return start == SumStart::target ? there : start == SumStart::bias ? parameters[layer.bias + row] : T(0);
  }

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int worker) const {
    const int first_row = static_cast<int>(item % row_blocks()) * kProductRows;
    const int num_rows = rows() - first_row < kProductRows ? rows() - first_row : kProductRows;
    const int depth = to_fine() ? layer.coarse : layer.fine;
    const std::int64_t run = item / row_blocks(), panels = static_cast<std::int64_t>(tiles) * target.frames;
    const std::int64_t first = panels * run / runs, after = panels * (run + 1) / runs;
    // weight of row r and column k of a tap: at r * row_step + k * column_step
    const std::int64_t row_step = to_fine() ? 1 : layer.fine, column_step = to_fine() ? layer.fine : 1;
    const auto weights = [&](int tap) {
      return parameters + layer.weight + static_cast<std::int64_t>(tap) * layer.coarse * layer.fine +
             first_row * row_step;
    };
    if constexpr (kScalarLanes) {
      team.lanes<T, 1>([&](int lane) {
        for (std::int64_t panel = first; panel < after; ++panel) {
          const std::int64_t tile = panel / target.frames;
          const int frame = static_cast<int>(panel % target.frames);
          T* const to = target.at(tile, frame) + first_row * kTileWidth + lane;
          for (int row = 0; row < num_rows; ++row) {
            T sum = start_of(first_row + row, to[row * kTileWidth]);
            for (int tap = 0; tap < layer.taps(); ++tap) {
              const int other = layer.partner(to_fine(), frame, tap, source.frames);
              if (other < 0) continue;
              const T* const from = source.at(tile, other) + lane;
              const T* const w = weights(tap) + row * row_step;
              for (int k = 0; k < depth; ++k)
                sum = multiply_add(w[k * column_step], from[k * kTileWidth], sum);
            }
            to[row * kTileWidth] = sum;
          }
        }
      });
    } else {
      using V = Lanes<T>;
      constexpr int packs = kTileWidth / lane_width<V>;
      if (start != SumStart::target)
        for (std::int64_t panel = first; panel < after; ++panel) {
          V* const to =
              reinterpret_cast<V*>(target.at(panel / target.frames, static_cast<int>(panel % target.frames)) +
                                   first_row * kTileWidth);
          for (int row = 0; row < num_rows; ++row)
            for (int pack = 0; pack < packs; ++pack)
              to[row * packs + pack] = V(start_of(first_row + row, T(0)));
        }
      Stored* const block = packed + static_cast<std::int64_t>(worker) * kProductRows * kProductDepth;
      for (int tap = 0; tap < layer.taps(); ++tap)
        for (int k = 0; k < depth; k += Factors::depth) {
          const int part = depth - k < Factors::depth ? depth - k : Factors::depth;
          Factors::pack(weights(tap) + k * column_step, num_rows, part, row_step, column_step, block);
          for (std::int64_t panel = first; panel < after; ++panel) {
            const std::int64_t tile = panel / target.frames;
            const int frame = static_cast<int>(panel % target.frames);
            const int other = layer.partner(to_fine(), frame, tap, source.frames);
            if (other < 0) continue;
            Factors::add_product(block, num_rows, part, column_step,
                                 source.at(tile, other) + k / Factors::paired * kTileWidth,
                                 target.at(tile, frame) + first_row * kTileWidth, samples.width<V>(tile));
          }
        }
    }
  }
};

// A map by samples, for gradients: [tile][block of 32 channels][frame][sample][32 channels], zeros beyond the
// last channel. Work items are blocks of tiles.
template <class T, class Factors = PlainFactors<T>>
struct TransposeMap {
  using Stored = typename Factors::Stored;
  FeatureMap<const T> map;
  Stored* transposed = nullptr;

  static MANIPLE_FUNCTION int blocks_of(int channels) { return (channels + kTileWidth - 1) / kTileWidth; }
  MANIPLE_FUNCTION int blocks() const { return blocks_of(map.channels); }

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int) const {
    const std::int64_t tile = item / blocks();
    const int first = static_cast<int>(item % blocks()) * kTileWidth;
    const int channels = map.channels - first < kTileWidth ? map.channels - first : kTileWidth;
    for (int frame = 0; frame < map.frames; ++frame) {
      const T* const from = map.at(tile, frame) + first * kTileWidth;
      Stored* const to =
          transposed + (item * map.frames + frame) * (kTileWidth * kTileWidth / Factors::paired);
      if constexpr (kScalarLanes)
        team.items(kTileWidth * kTileWidth, [&](std::int64_t i) {
          const std::int64_t channel = i % kTileWidth, sample = i / kTileWidth;
          to[i] = channel < channels ? from[channel * kTileWidth + sample] : T(0);
        });
      else
        Factors::store_transposed(from, channels, to);
    }
  }
};

// Adds each tile's gradient by a layer's weights to the totals, that of each Block samples by itself. One of
// the maps holds the layer's inputs, the other the derivatives by its outputs. A large map's frames are
// summed, rounded and added by blocks: these lie in a cache while all taps and channels use them, and their
// sums lose less to rounding. Work items are groups of coarse channels times blocks of 32 fine ones.
template <class T, class Factors = PlainFactors<T>, int Block = kTileWidth>
struct TapGradient {
  using Stored = typename Factors::Stored;
  static constexpr int group_rows = kScalarLanes ? 8 : 64;
  static constexpr int block_frames = 64;
  TapLayer layer;
  FeatureMap<const T> coarse;
  const Stored* transposed = nullptr;  // the fine map, as TransposeMap leaves it
  int fine_frames = 1;
  int tiles = 0;
  TileSamples samples;  // whose block is this one
  bool exact = true;
  double* totals = nullptr;   // of all parameters
  double* inexact = nullptr;  // += terms that are not exact

  MANIPLE_FUNCTION int fine_blocks() const { return TransposeMap<T>::blocks_of(layer.fine); }
  MANIPLE_FUNCTION std::int64_t items() const {
    return static_cast<std::int64_t>((layer.coarse + group_rows - 1) / group_rows) * fine_blocks();
  }
  // Samples of a tile, in whole blocks.
  MANIPLE_FUNCTION int samples_of(std::int64_t tile) const {
    return Block == kTileWidth ? kTileWidth : samples.blocks(tile) * Block;
  }
  MANIPLE_FUNCTION const Stored* by_samples(std::int64_t tile, int block, int frame) const {
    return transposed + ((tile * fine_blocks() + block) * fine_frames + frame) *
                            (kTileWidth * kTileWidth / Factors::paired);
  }
  MANIPLE_FUNCTION double* total_of(int tap, int row, int column) const {
    return totals + layer.weight + (static_cast<std::int64_t>(tap) * layer.coarse + row) * layer.fine +
           column;
  }

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int) const {
    const int block = static_cast<int>(item % fine_blocks()), first_column = block * kTileWidth;
    const int columns = layer.fine - first_column < kTileWidth ? layer.fine - first_column : kTileWidth;
    const int first_row = static_cast<int>(item / fine_blocks()) * group_rows;
    const int after_row = layer.coarse < first_row + group_rows ? layer.coarse : first_row + group_rows;
    if constexpr (kScalarLanes) {
      team.items(static_cast<std::int64_t>(layer.taps()) * (after_row - first_row) * columns,
                 [&](std::int64_t i) {
                   const int column = static_cast<int>(i % columns);
                   const int row = first_row + static_cast<int>(i / columns % (after_row - first_row));
                   const int tap = static_cast<int>(i / columns / (after_row - first_row));
                   double* const total = total_of(tap, row, first_column + column);
                   for (int tile = 0; tile < tiles; ++tile)
                     for (int first = 0; first < coarse.frames; first += block_frames)
                       for (int from = 0; from < samples_of(tile); from += Block) {
                         T sum(0);
                         for (int frame = first; frame < end_of(first); ++frame) {
                           const int other = layer.partner(false, frame, tap, fine_frames);
                           if (other < 0) continue;
                           const T* const d = coarse.at(tile, frame) + row * kTileWidth;
                           const T* const x = by_samples(tile, block, other) + column;
                           for (int sample = from; sample < from + Block; ++sample)
                             sum = multiply_add(d[sample], x[sample * kTileWidth], sum);
                         }
                         if (!exact)
                           add_fast(&sum, 1, total);
                         else if (add_exactly(&sum, 1, total) > 0)
                           Kokkos::atomic_add(inexact, 1.0);
                       }
                 });
    } else {
      double lost = 0;
      for (int tile = 0; tile < tiles; ++tile)
        for (int first = 0; first < coarse.frames; first += block_frames)
          for (int row = first_row; row < after_row; row += kDenseRows) {
            const int num_rows = after_row - row < kDenseRows ? after_row - row : kDenseRows;
            Deltas deltas;
            for (int frame = first; frame < end_of(first); ++frame)
              deltas.set(frame - first, coarse.at(tile, frame) + row * kTileWidth, num_rows);
            for (int tap = 0; tap < layer.taps(); ++tap)
              lost += add_block(deltas, tile, first, row, num_rows, tap, block, columns);
          }
      if (lost > 0) Kokkos::atomic_add(inexact, lost);
    }
  }

 private:
  using Deltas = typename Factors::template Deltas<block_frames>;

  MANIPLE_FUNCTION int end_of(int first) const {
    return coarse.frames < first + block_frames ? coarse.frames : first + block_frames;
  }
  // What a block of frames gives to at most kDenseRows rows of a tap; the number of terms that are not exact.
  MANIPLE_FUNCTION double add_block(const Deltas& deltas, int tile, int first_frame, int row, int num_rows,
                                    int tap, int block, int columns) const {
    using V = Lanes<T>;
    constexpr int packs = kTileWidth / lane_width<V>, both = packs < 2 ? 1 : 2;
    double lost = 0;
    int frames[block_frames], count_frames = 0;  // that have a partner, which is there
    const Stored* partners[block_frames];
    for (int frame = first_frame; frame < end_of(first_frame); ++frame) {
      const int other = layer.partner(false, frame, tap, fine_frames);
      if (other < 0) continue;
      frames[count_frames] = frame - first_frame;
      partners[count_frames++] = by_samples(tile, block, other);
    }
    for (int pack = 0; pack * lane_width<V> < columns; pack += both)
      for (int sample = 0; sample < samples_of(tile); sample += Block) {
        V sum[kDenseRows][both];
        for (auto& row_sums : sum)
          for (V& part : row_sums) part = V(T(0));
        for (int i = 0; i < count_frames; ++i)
          deltas.template add_outer_products<Block>(frames[i], num_rows, sample,
                                                    partners[i] + pack * lane_width<V>, sum);
        const int first = pack * lane_width<V>, most = both * lane_width<V>;
        const int count = columns - first < most ? columns - first : most;
        lost +=
            add_sums(sum, num_rows, count, layer.fine, exact, total_of(tap, row, block * kTileWidth + first));
      }
    return lost;
  }
};

}  // namespace maniple
