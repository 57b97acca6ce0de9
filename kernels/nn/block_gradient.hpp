// Gradients of a network by blocks of fewer samples than a tile has, so that the samples of a small batch are
// shared evenly by ranks. What a block of samples gives to a parameter, over all steps of a sequence, is
// summed, rounded and added to the totals: it depends on these samples alone, not on the tile in which they
// lie. As many more sums are rounded, each total is fetched once for all tiles, whose activations and deltas
// (kernels/nn/training.hpp leaves them) are kept till then.
#pragma once

#include "kernels/nn/acting.hpp"
#include "kernels/nn/convolution.hpp"
#include "kernels/nn/exact_totals.hpp"
#include "kernels/nn/layers.hpp"

namespace maniple {

// Sums of blocks, rounded one by one and then added.
struct BlockSum {
  double sum = 0, lost = 0;  // lost: terms that were not exact

  template <class T>
  MANIPLE_FUNCTION void add(T partial, bool exact) {
    lost += exact ? add_exactly(&partial, 1, &sum) : add_fast(&partial, 1, &sum);
  }
  // To totals that others add to as well on a GPU.
  MANIPLE_FUNCTION void to(double* total, double* inexact) const {
    if constexpr (kSharedTotals)
      Kokkos::atomic_add(total, sum);
    else
      *total += sum;
    if (lost > 0) Kokkos::atomic_add(inexact, lost);
  }
};

// Work items are groups of rows (outputs) of the layers with parameters; each has totals of its own.
template <class T, int Block>
struct BlockGradient {
  static constexpr int group_rows = kScalarLanes ? 8 : 64;
  Network network;
  TileScratch scratch;
  const T* memory = nullptr;                   // [tile][scratch.elements]
  const T* inputs = nullptr;                   // of the network
  std::int64_t next_input = 0, next_step = 0;  // from tile to tile, and from step to step
  int tiles = 0, steps = 1;                    // whose activations are kept
  // The step in the inputs of kept step k is order[every k], for all tiles; null: k itself.
  const std::int32_t* order = nullptr;
  int every = 1;
  TileSamples samples;  // whose block is this one
  bool exact = true;
  double* totals = nullptr;   // of all parameters
  double* inexact = nullptr;  // += terms that are not exact
  T* panels = nullptr;        // [worker][tile][step][32][32]; none on a GPU

  static MANIPLE_FUNCTION int groups(const Layer& layer) {
    const bool learns = layer.is_dense() || layer.kind == LayerKind::layer_norm;
    return learns ? (layer.outputs + group_rows - 1) / group_rows : 0;
  }
  MANIPLE_FUNCTION std::int64_t items() const {
    std::int64_t count = 0;
    for (int l = 0; l < network.num_layers; ++l) count += groups(network.layers[l]);
    return count;
  }
  static std::int64_t panel_elements(std::int64_t tiles, int steps) {
    return kScalarLanes ? 0 : tiles * steps * kTileWidth * kTileWidth;
  }

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int worker) const {
    int l = 0;
    while (item >= groups(network.layers[l])) item -= groups(network.layers[l++]);
    const Layer& layer = network.layers[l];
    const int first = static_cast<int>(item) * group_rows;
    const int rows = layer.outputs - first < group_rows ? layer.outputs - first : group_rows;
    const bool dense = layer.is_dense();
    if (dense) add_weights(team, layer, first, rows, worker);
    team.items(rows, [&](std::int64_t i) {
      const std::int64_t unit = layer.target + first + i;
      add_units(layer.bias + first + i, unit, -1);
      if (!dense) add_units(layer.weight + first + i, unit, unit + layer.outputs);
    });
  }

 private:
  MANIPLE_FUNCTION const T* units_of(std::int64_t part, int tile, int step) const {
    return memory + tile * scratch.elements + part +
           static_cast<std::int64_t>(step) * network.units * kTileWidth;
  }
  MANIPLE_FUNCTION Lanes<T> pack_of(std::int64_t part, int tile, int step, std::int64_t unit,
                                    int lane) const {
    return *reinterpret_cast<const Lanes<T>*>(units_of(part, tile, step) + unit * kTileWidth + lane);
  }
  MANIPLE_FUNCTION const T* source(const Layer& layer, int tile, int step) const {
    const std::int64_t place = order == nullptr ? step : order[every * step];
    return network.source_of(layer, inputs + place * next_step + tile * next_input,
                             units_of(scratch.activations, tile, step));
  }
  MANIPLE_FUNCTION const T* delta(const Layer& layer, int tile, int step) const {
    return units_of(scratch.deltas, tile, step) + layer.target * kTileWidth;
  }
  // How many samples of a tile are summed, in whole blocks.
  MANIPLE_FUNCTION int samples_of(int tile) const { return samples.blocks(tile) * Block; }

  // Adds the sums of a unit's deltas, or where another unit is given of their products with its activations.
  MANIPLE_FUNCTION void add_units(std::int64_t parameter, std::int64_t unit, std::int64_t factor) const {
    BlockSum all;
    for (int tile = 0; tile < tiles; ++tile) {
      using V = Lanes<T>;
      alignas(V) T of_sample[kTileWidth];
      for (int lane = 0; lane < kTileWidth; lane += lane_width<V>) {
        V sum(T(0));
        for (int step = 0; step < steps; ++step) {
          const V d = pack_of(scratch.deltas, tile, step, unit, lane);
          sum += factor < 0 ? d : d * pack_of(scratch.activations, tile, step, factor, lane);
        }
        *reinterpret_cast<V*>(of_sample + lane) = sum;
      }
      for (int first = 0; first < samples_of(tile); first += Block) {
        T sum(0);
        for (int sample = first; sample < first + Block; ++sample) sum += of_sample[sample];
        all.add(sum, exact);
      }
    }
    all.to(totals + parameter, inexact);
  }

  MANIPLE_FUNCTION void add_weights(const TileTeam& team, const Layer& layer, int first_row, int num_rows,
                                    int worker) const {
    double* const weights = totals + layer.weight + first_row * layer.stride();
    if constexpr (kScalarLanes) {
      team.items(static_cast<std::int64_t>(num_rows) * layer.inputs, [&](std::int64_t i) {
        const std::int64_t row = i / layer.inputs, column = i % layer.inputs;
        BlockSum all;
        for (int tile = 0; tile < tiles; ++tile)
          for (int first = 0; first < samples_of(tile); first += Block) {
            T sum(0);
            for (int step = 0; step < steps; ++step) {
              const T* const d = delta(layer, tile, step) + (first_row + row) * kTileWidth;
              const T* const x = source(layer, tile, step) + column * kTileWidth;
              for (int sample = first; sample < first + Block; ++sample)
                sum = multiply_add(d[sample], x[sample], sum);
            }
            all.add(sum, exact);
          }
        all.to(weights + row * layer.stride() + column, inexact);
      });
    } else {
      T* const own = panels + worker * panel_elements(tiles, steps);
      double lost = 0;
      for (int column = 0; column < layer.inputs; column += kTileWidth) {
        const int columns = layer.inputs - column < kTileWidth ? layer.inputs - column : kTileWidth;
        for (int tile = 0; tile < tiles; ++tile)
          for (int step = 0; step < steps; ++step)
            transpose_tile(source(layer, tile, step) + column * kTileWidth, columns, kTileWidth,
                           panel(own, tile, step));
        for (int row = 0; row < num_rows; row += kDenseRows)
          lost += add_panels(layer, own, first_row + row,
                             num_rows - row < kDenseRows ? num_rows - row : kDenseRows, columns,
                             weights + row * layer.stride() + column);
      }
      if (lost > 0) Kokkos::atomic_add(inexact, lost);
    }
  }
  MANIPLE_FUNCTION T* panel(T* own, int tile, int step) const {
    return own + (tile * steps + step) * kTileWidth * kTileWidth;
  }
  // What at most kDenseRows rows and 32 columns of weights are given.
  MANIPLE_FUNCTION double add_panels(const Layer& layer, T* own, int row, int rows, int columns,
                                     double* weights) const {
    using V = Lanes<T>;
    constexpr int packs = kTileWidth / lane_width<V>, both = packs < 2 ? 1 : 2;
    double lost = 0;
    for (int pack = 0; pack * lane_width<V> < columns; pack += both) {
      const int first = pack * lane_width<V>, most = both * lane_width<V>;
      const int count = columns - first < most ? columns - first : most;
      for (int tile = 0; tile < tiles; ++tile)
        for (int sample = 0; sample < samples_of(tile); sample += Block) {
          V sum[kDenseRows][both];
          for (auto& row_sums : sum)
            for (V& part : row_sums) part = V(T(0));
          for (int step = 0; step < steps; ++step)
            add_outer_products<V, Block>(
                delta(layer, tile, step) + row * kTileWidth + sample, rows,
                reinterpret_cast<const V*>(panel(own, tile, step) + sample * kTileWidth) + pack, sum);
          lost += add_sums(sum, rows, count, layer.stride(), exact, weights + first);
        }
    }
    return lost;
  }
};

}  // namespace maniple
