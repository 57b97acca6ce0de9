// One minibatch: forward pass, loss, backward pass and gradient of each tile while it lies in the cache, then
// the tile's sums go into the totals. What is learned is a type, the loss (kernels/nn/ppo_loss.hpp is one).
// Minibatches take the steps of a tile in an order drawn for the tile, so the numbers do not depend on the
// ranks.
#pragma once

#include "kernels/nn/acting.hpp"

namespace maniple {

// order[tile][horizon]: the steps of a tile in random order (Fisher and Yates), the same for any number
// of ranks. Minibatch m takes the positions m, m + minibatches, ...
MANIPLE_FUNCTION void minibatch_order(std::uint32_t seed, std::int64_t global_tile, std::uint32_t iteration,
                                      int epoch, int horizon, std::int32_t* order) {
  for (int i = 0; i < horizon; ++i) order[i] = i;
  const int blocks = (horizon + 3) / 4;
  for (int i = horizon - 1; i > 0; --i) {
    const PhiloxBlock random =
        random_block(seed, RandomPurpose::minibatch, static_cast<std::uint64_t>(global_tile), iteration,
                     static_cast<std::uint32_t>(epoch * blocks + i / 4));
    const std::uint64_t product =
        static_cast<std::uint64_t>(random.word[i % 4]) * static_cast<std::uint64_t>(i + 1);
    const int other = static_cast<int>(product >> 32);
    const std::int32_t kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
}

// Which positions in the order of which tiles a minibatch takes. Up to `horizon` minibatches take whole steps
// of all tiles; more take contiguous parts of the list of all positions, which goes through the tiles of a
// position in a spread order, so that ranks share the work of each minibatch.
struct MinibatchDeal {
  std::int64_t num_tiles = 1;  // of all ranks
  std::int64_t spread = 1;     // coprime to num_tiles
  std::int64_t rotation = 0;   // drawn for the epoch
  int horizon = 1, minibatches = 1;

  MANIPLE_FUNCTION bool takes(int minibatch, std::int64_t global_tile, int position) const {
    if (minibatches <= horizon) return position % minibatches == minibatch;
    const std::int64_t place =
        position * num_tiles + (global_tile * spread + rotation * (position + 1)) % num_tiles;
    return place * minibatches / (num_tiles * horizon) == minibatch;
  }
  // Samples of a minibatch, of all ranks.
  std::int64_t samples(int minibatch, std::int64_t num_envs) const {
    if (minibatches <= horizon) return (horizon - minibatch + minibatches - 1) / minibatches * num_envs;
    const std::int64_t places = num_tiles * horizon;
    const std::int64_t first = (minibatch * places + minibatches - 1) / minibatches;
    const std::int64_t after = ((minibatch + 1) * places + minibatches - 1) / minibatches;
    std::int64_t count = (after - first) * kTileWidth;
    // the last tile is padded
    for (int position = 0; position < horizon; ++position)
      if (takes(minibatch, num_tiles - 1, position)) count -= num_tiles * kTileWidth - num_envs;
    return count;
  }
};

// Parameters outside of the layers, whose gradient a loss adds up itself.
struct ParameterRange {
  std::int64_t first = 0;
  int count = 0;
};

// What a loss reads and writes of one pack of samples.
template <class V>
struct SampleView {
  Varying<V> stored;           // [Loss::layout.elements]: the block of the samples
  Varying<V> output;           // [network.units]: activations
  Varying<V> delta;            // [network.units]: set those of the heads: derivatives by their outputs
  Varying<V> parameter_delta;  // [own_parameters().count]: add derivatives
  Varying<V> metrics;          // [num_metrics]: add what is reported, unscaled
};

// Totals of a minibatch: gradient of every parameter, the loss metrics, the number of inexact terms.
MANIPLE_FUNCTION std::int64_t minibatch_totals(const Network& network, int num_metrics) {
  return network.parameters + num_metrics + 1;
}

// A Loss is plain data with
//   static constexpr int num_metrics       sums over samples that are reported
//   layout                                 of a sample's block; of its members: elements, observation (what
//   the
//                                          network is given) and weight (0: the sample counts nothing)
//   own_parameters(network)                ParameterRange
//   operator()(network, parameters, index, view, real, scale)
//                                          derivatives of scale * loss of the samples in block `index`, zero
//                                          where a lane is not real
//   after(team, network, parameters, index)
//                                          called once the block's deltas have gone down the network
template <class T, class Dense, class Loss>
struct TrainMinibatch {
  Network network;
  TileScratch scratch;
  Loss loss;
  const T* parameters = nullptr;
  T* memory = nullptr;                  // [worker][scratch.elements]
  T* blocks = nullptr;                  // [step][tile][layout.elements][32]
  const std::int32_t* order = nullptr;  // [tile][horizon]
  std::int64_t tiles = 0, envs = 0;
  std::int64_t first_tile = 0;  // of this rank
  MinibatchDeal deal;
  int minibatch = 0;
  double scale = 0;  // 1 / samples of the minibatch, over all ranks
  bool exact = true;
  double* totals = nullptr;  // [worker][minibatch_totals]

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int worker) const {
    int positions = 0;
    for (int position = 0; position < deal.horizon; ++position)
      positions += deal.takes(minibatch, first_tile + tile, position) ? 1 : 0;
    if (positions == 0) return;
    T* const local = memory + static_cast<std::int64_t>(worker) * scratch.elements;
    T* const rows = local + scratch.rows;
    T* const gradient = local + scratch.gradient;
    const ParameterRange own = loss.own_parameters(network);
    const int num_rows = own.count + Loss::num_metrics;
    const std::int64_t num_sums = network.parameters + Loss::num_metrics;
    team.items(num_rows * kTileWidth, [&](std::int64_t i) { rows[i] = T(0); });
    team.items(num_sums, [&](std::int64_t i) { gradient[i] = T(0); });
    team.barrier();
    for (int position = 0; position < deal.horizon; ++position) {
      if (!deal.takes(minibatch, first_tile + tile, position)) continue;
      const std::int64_t step = order[tile * deal.horizon + position];
      sample_block(team, tile, step * tiles + tile, local);
    }
    // gradients of the loss's own parameters and metrics were kept per lane
    team.items(num_rows, [&](std::int64_t row) {
      T sum(0);
      for (int lane = 0; lane < kTileWidth; ++lane) sum += rows[row * kTileWidth + lane];
      if (row < own.count)
        gradient[own.first + row] += sum;
      else
        gradient[network.parameters + row - own.count] = sum * static_cast<T>(scale);
    });
    team.barrier();
    double* const total = totals + static_cast<std::int64_t>(worker) * (num_sums + 1);
    if constexpr (kScalarLanes) {
      team.items(num_sums, [&](std::int64_t i) {
        if (!exact)
          add_fast(gradient + i, 1, total + i);
        else if (add_exactly(gradient + i, 1, total + i) > 0)
          Kokkos::atomic_add(total + num_sums, 1.0);
      });
    } else {
      total[num_sums] += exact ? add_exactly(gradient, num_sums, total) : add_fast(gradient, num_sums, total);
    }
  }

  // Forward and backward pass of one block of samples; adds to the gradient and the rows.
  MANIPLE_FUNCTION void sample_block(const TileTeam& team, std::int64_t tile, std::int64_t index,
                                     T* local) const {
    using V = Lanes<T>;
    T* const block = blocks + index * loss.layout.elements * kTileWidth;
    T* const activations = local + scratch.activations;
    T* const deltas = local + scratch.deltas;
    T* const rows = local + scratch.rows;
    const T* const input = block + loss.layout.observation * kTileWidth;
    network_forward<Dense>(team, network, parameters, input, activations);
    team.lanes<V, 1>([&](int lane) {
      const Varying<V> row = tile_field<V>(rows, 0, lane);
      const SampleView<V> view{tile_field<V>(block, 0, lane), tile_field<V>(activations, 0, lane),
                               tile_field<V>(deltas, 0, lane), row,
                               row.from(loss.own_parameters(network).count)};
      const MaskOf<V> real =
          real_lanes<V>(tile * kTileWidth + lane, envs) && view.stored[loss.layout.weight] != V(T(0));
      loss(network, parameters, index, view, real, static_cast<T>(scale));
    });
    for (int l = network.num_layers - 1; l >= 0; --l) {
      const DenseLayer& layer = network.layers[l];
      if (layer.source >= 0)
        Dense::backward(team, layer, parameters, deltas + layer.target * kTileWidth,
                        activations + layer.source * kTileWidth, deltas + layer.source * kTileWidth);
    }
    team.barrier();
    loss.after(team, network, parameters, index);
    for (int l = network.num_layers - 1; l >= 0; --l) {
      const DenseLayer& layer = network.layers[l];
      Dense::gradient(team, layer, network.source_of<T>(layer, input, activations),
                      deltas + layer.target * kTileWidth, local + scratch.transposed,
                      local + scratch.gradient);
    }
    team.barrier();
  }
};

}  // namespace maniple
