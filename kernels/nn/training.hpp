// One minibatch of PPO: forward pass, losses, backward pass and gradient of each tile while it lies in
// the cache, then the tile's sums go into the totals. A minibatch takes the same number of steps from
// every tile, in an order drawn for the tile, so neither the work nor the numbers depend on the ranks.
#pragma once

#include "kernels/nn/acting.hpp"
#include "kernels/nn/losses.hpp"

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

// Steps of each tile that minibatch m of `minibatches` takes.
MANIPLE_FUNCTION int minibatch_steps(int horizon, int minibatches, int m) {
  return (horizon - m + minibatches - 1) / minibatches;
}

// Totals of a minibatch: gradient of every parameter, the loss metrics, the number of inexact terms.
MANIPLE_FUNCTION std::int64_t minibatch_totals(const Network& network) {
  return network.parameters + kNumLossMetrics + 1;
}

template <class T, class Dense>
struct TrainMinibatch {
  Network network;
  SampleLayout layout;
  TileScratch scratch;
  LossSettings settings;
  const T* parameters = nullptr;
  T* memory = nullptr;                  // [worker][scratch.elements]
  T* blocks = nullptr;                  // [step][tile][layout.elements][32]
  T* reference_log_std = nullptr;       // [step][tile][actions]: of the policy that KL is measured from
  const std::int32_t* order = nullptr;  // [tile][horizon]
  std::int64_t tiles = 0, envs = 0;
  int horizon = 0, minibatches = 1, minibatch = 0;
  double scale = 0;             // 1 / samples of the minibatch, over all ranks
  bool move_reference = false;  // KL from the previous epoch instead of the rollout
  bool exact = true;
  double* totals = nullptr;  // [worker][minibatch_totals]

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int worker) const {
    T* const local = memory + static_cast<std::int64_t>(worker) * scratch.elements;
    T* const rows = local + scratch.rows;
    T* const gradient = local + scratch.gradient;
    const int num_rows = network.num_actions + kNumLossMetrics;
    const std::int64_t num_sums = network.parameters + kNumLossMetrics;
    team.items(num_rows * kTileWidth, [&](std::int64_t i) { rows[i] = T(0); });
    team.items(num_sums, [&](std::int64_t i) { gradient[i] = T(0); });
    team.barrier();
    for (int position = minibatch; position < horizon; position += minibatches) {
      const std::int64_t step = order[tile * horizon + position];
      sample_block(team, tile, step * tiles + tile, local);
    }
    // log standard deviations and metrics were kept per lane
    team.items(num_rows, [&](std::int64_t row) {
      T sum(0);
      for (int lane = 0; lane < kTileWidth; ++lane) sum += rows[row * kTileWidth + lane];
      if (row < network.num_actions)
        gradient[network.log_std + row] += sum;
      else
        gradient[network.parameters + row - network.num_actions] = sum * static_cast<T>(scale);
    });
    team.barrier();
    double* const total = totals + static_cast<std::int64_t>(worker) * minibatch_totals(network);
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
    constexpr int unit = kTileWidth / lane_width<V>;
    T* const block = blocks + index * layout.elements * kTileWidth;
    T* const activations = local + scratch.activations;
    T* const deltas = local + scratch.deltas;
    T* const rows = local + scratch.rows;
    T* const log_std_before = reference_log_std + index * network.num_actions;
    const T* const observation = block + layout.observation * kTileWidth;
    network_forward<Dense>(team, network, parameters, observation, activations);
    team.lanes<V, 1>([&](int lane) {
      V* const stored = reinterpret_cast<V*>(block + lane);
      V* const output = reinterpret_cast<V*>(activations + lane);
      V* const delta = reinterpret_cast<V*>(deltas + lane);
      V* const row = reinterpret_cast<V*>(rows + lane);
      const LossOperands<V> x{{stored + layout.action * unit, unit}, {stored + layout.mean * unit, unit},
                              {output + network.mean * unit, unit},  stored[layout.log_prob * unit],
                              stored[layout.value * unit],           stored[layout.advantage * unit],
                              stored[layout.target * unit],          output[network.value * unit],
                              parameters + network.log_std,          log_std_before};
      const MaskOf<V> real =
          real_lanes<V>(tile * kTileWidth + lane, envs) && stored[layout.weight * unit] != V(T(0));
      ppo_loss<V>(settings, network.num_actions, x, real, static_cast<T>(scale),
                  {delta + network.mean * unit, unit}, delta[network.value * unit], {row, unit},
                  {row + network.num_actions * unit, unit});
      if (move_reference)
        for (int k = 0; k < network.num_actions; ++k)
          stored[(layout.mean + k) * unit] = output[(network.mean + k) * unit];
    });
    for (int l = network.num_layers - 1; l >= 0; --l) {
      const DenseLayer& layer = network.layers[l];
      if (layer.source >= 0)
        Dense::backward(team, layer, parameters, deltas + layer.target * kTileWidth,
                        activations + layer.source * kTileWidth, deltas + layer.source * kTileWidth);
    }
    team.barrier();
    if (move_reference)
      team.items(network.num_actions,
                 [&](std::int64_t k) { log_std_before[k] = parameters[network.log_std + k]; });
    for (int l = network.num_layers - 1; l >= 0; --l) {
      const DenseLayer& layer = network.layers[l];
      const T* source = layer.source < 0 ? observation : activations + layer.source * kTileWidth;
      Dense::gradient(team, layer, source, deltas + layer.target * kTileWidth, local + scratch.transposed,
                      local + scratch.gradient);
    }
    team.barrier();
  }
};

}  // namespace maniple
