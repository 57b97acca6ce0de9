// One minibatch: forward pass, loss, backward pass and gradient of each tile while it lies in the cache, then
// the tile's sums go into the totals; those of a small batch go there later, by blocks of fewer samples
// (kernels/nn/block_gradient.hpp). What is learned is a type, the loss (kernels/nn/ppo_loss.hpp is one).
// Minibatches take the steps of a tile in an order drawn for the tile, so the numbers do not depend on the
// ranks.
#pragma once

#include "kernels/nn/acting.hpp"
#include "kernels/nn/block_gradient.hpp"

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
// position in a spread order, so that ranks share the work of each minibatch. A recurrent network learns from
// the steps of a tile in their order: its deal has one position, which stands for all of them.
struct MinibatchDeal {
  std::int64_t num_tiles = 1;  // of all ranks
  std::int64_t spread = 1;     // coprime to num_tiles
  std::int64_t rotation = 0;   // drawn for the epoch
  int horizon = 1, minibatches = 1;
  int steps = 1;  // of a tile that a position stands for

  MANIPLE_FUNCTION int minibatch_of(std::int64_t global_tile, int position) const {
    if (minibatches <= horizon) return position % minibatches;
    const std::int64_t place =
        position * num_tiles + (global_tile * spread + rotation * (position + 1)) % num_tiles;
    return static_cast<int>(place * minibatches / (num_tiles * horizon));
  }
  MANIPLE_FUNCTION bool takes(int minibatch, std::int64_t global_tile, int position) const {
    return minibatch_of(global_tile, position) == minibatch;
  }
  // Samples of a minibatch, of all ranks.
  std::int64_t samples(int minibatch, std::int64_t num_envs) const {
    if (minibatches <= horizon)
      return (horizon - minibatch + minibatches - 1) / minibatches * num_envs * steps;
    const std::int64_t places = num_tiles * horizon;
    const std::int64_t first = (minibatch * places + minibatches - 1) / minibatches;
    const std::int64_t after = ((minibatch + 1) * places + minibatches - 1) / minibatches;
    std::int64_t count = (after - first) * kTileWidth;
    // the last tile is padded
    for (int position = 0; position < horizon; ++position)
      if (takes(minibatch, num_tiles - 1, position)) count -= num_tiles * kTileWidth - num_envs;
    return count * steps;
  }
};

// Moments of the advantages of each minibatch's valid samples: sums of x and x^2 times moment_scale, with
// x = (advantage - shift) * scale, and the number of samples times sample_share.
template <class T>
struct MinibatchMoments {
  static constexpr int columns = 3;
  static constexpr double sample_share = 0x1p-20;  // of a sample in the sums, so that many are exact
  SampleLayout layout;
  const T* blocks = nullptr;            // [step][tile][layout.elements][32]
  const std::int32_t* order = nullptr;  // [tile][horizon]
  std::int64_t tiles = 0, envs = 0;
  int block_size = kTileWidth;  // environments whose samples are summed by themselves
  std::int64_t first_tile = 0;  // of this rank
  MinibatchDeal deal;
  T shift = 0, scale = 1;
  double moment_scale = 0;
  double* totals = nullptr;  // [worker][columns * minibatches + 1], the last: sums that are not exact

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int worker) const {
    using V = Lanes<T>;
    double* const total = totals + worker * (columns * deal.minibatches + 1);
    team.items(deal.minibatches, [&](std::int64_t minibatch) {
      double partial[columns] = {};
      const auto add_block = [&] {
        if (add_exactly(partial, columns, total + columns * minibatch) > 0)
          total[columns * deal.minibatches] = 1;  // any thread writes the same
        for (double& sum : partial) sum = 0;
      };
      for (int lane = 0; lane < kTileWidth; lane += lane_width<V>) {
        const MaskOf<V> real = real_lanes<V>(tile * kTileWidth + lane, envs);
        V sum(T(0)), squares(T(0)), valid(T(0));
        for (int position = 0; position < deal.horizon; ++position) {
          if (!deal.takes(static_cast<int>(minibatch), first_tile + tile, position)) continue;
          for (int i = 0; i < deal.steps; ++i) {
            const std::int64_t step = deal.steps > 1 ? i : order[tile * deal.horizon + position];
            const T* const sample = blocks + (step * tiles + tile) * layout.elements * kTileWidth + lane;
            const auto element = [&](int e) { return *reinterpret_cast<const V*>(sample + e * kTileWidth); };
            const V weight = select(real, element(layout.weight), V(T(0)));
            const V x = select(weight != V(T(0)), (element(layout.advantage) - V(shift)) * V(scale), V(T(0)));
            sum += x;
            squares = multiply_add(x, x, squares);
            valid += weight;
          }
        }
        for (int i = 0; i < lane_width<V>; ++i) {
          partial[0] += static_cast<double>(get_lane(sum, i)) * moment_scale;
          partial[1] += static_cast<double>(get_lane(squares, i)) * moment_scale;
          partial[2] += static_cast<double>(get_lane(valid, i)) * sample_share;
          if ((lane + i + 1) % block_size == 0) add_block();
        }
      }
    });
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
  int lane = 0;                // of the tile, the pack's first
};

// Totals of a minibatch: gradient of every parameter, the loss metrics, the number of inexact terms.
MANIPLE_FUNCTION std::int64_t minibatch_totals(const Network& network, int num_metrics) {
  return network.parameters + num_metrics + 1;
}

// A Loss is plain data with
//   static constexpr int num_metrics       sums over samples that are reported
//   layout                                 of a sample's block; of its members: elements, observation (what
//                                          the network is given) and weight (0: the sample counts nothing)
//   own_parameters(network)                ParameterRange
//   operator()(network, parameters, index, view, real, scale)
//                                          derivatives of scale * loss of the samples in block `index`, zero
//                                          where a lane is not real
//   after(team, network, parameters, index)
//                                          called once the block's deltas have gone down the network
//
// Block: samples whose gradient is summed by itself. Where it is less than a tile, memory is each tile's own;
// activations and deltas are left there, for BlockGradient and ReplaceInputs. A launch takes no more of a
// minibatch's positions then than there is memory for.
template <class T, class Dense, class Loss, int Block = kTileWidth>
struct TrainMinibatch {
  static constexpr int kThreads = kDenseThreads;
  static constexpr bool kWholeTiles = Block == kTileWidth;
  Network network;
  TileScratch scratch;
  Loss loss;
  const T* parameters = nullptr;
  T* memory = nullptr;                  // [worker][scratch.elements], or [tile]
  T* blocks = nullptr;                  // [step][tile][layout.elements][32]
  const std::int32_t* order = nullptr;  // [tile][horizon]
  std::int64_t tiles = 0, envs = 0;
  std::int64_t first_tile = 0;  // of this rank
  TiledView<T> first_state;     // of recurrent cells, before the first step
  MinibatchDeal deal;
  int minibatch = 0;
  // A launch by blocks takes this rank's tiles from the first of the launch on, and these of the minibatch's
  // positions.
  std::int64_t first_of_launch = 0;
  int first_kept = 0, kept = 1;
  double scale = 0;  // 1 / samples of the minibatch, over all ranks, times Optimizer::scale()
  bool exact = true;
  double* totals = nullptr;  // [totals_workers()][minibatch_totals]
  // Derivatives by these of the observations take their place in the blocks.
  int first_wanted = 0, wanted = 0;

  MANIPLE_FUNCTION void operator()(const TileTeam& whole, std::int64_t item, int worker) const {
    const std::int64_t tile = first_of_launch + item;
    int positions = 0;
    for (int position = 0; position < deal.horizon; ++position)
      positions += deal.takes(minibatch, first_tile + tile, position) ? 1 : 0;
    if (positions == 0) return;
    const TileTeam team = kWholeTiles ? whole : whole.of_lanes(real_samples().template width<Lanes<T>>(tile));
    T* const local = memory + (kWholeTiles ? worker : item) * scratch.elements;
    T* const rows = local + scratch.rows;
    T* const gradient = local + scratch.gradient;
    const ParameterRange own = loss.own_parameters(network);
    const int num_rows = own.count + Loss::num_metrics;
    const std::int64_t num_sums = network.parameters + Loss::num_metrics;
    team.items(num_rows * kTileWidth, [&](std::int64_t i) { rows[i] = T(0); });
    if constexpr (kWholeTiles) team.items(num_sums, [&](std::int64_t i) { gradient[i] = T(0); });
    team.barrier();
    double* const total = totals_of_worker(totals, num_sums + 1, worker);
    int taken = 0;
    for (int position = 0; position < deal.horizon; ++position) {
      if (!deal.takes(minibatch, first_tile + tile, position)) continue;
      const int place = kWholeTiles ? 0 : taken++ - first_kept;
      if (place < 0 || (!kWholeTiles && place >= kept)) continue;
      if (network.recurrent()) {
        sequence(team, tile, local);
        continue;
      }
      const std::int64_t index = order[tile * deal.horizon + position] * tiles + tile;
      network_forward<Dense>(team, network, parameters, input_of(index), activations_of(place, local));
      learn(team, tile, index, place, local);
    }
    // gradients of the loss's own parameters and metrics were kept per lane
    if constexpr (!kWholeTiles) {
      add_rows_by_blocks(team, tile, rows, total);
      return;
    }
    team.items(num_rows, [&](std::int64_t row) {
      T sum(0);
      for (int lane = 0; lane < kTileWidth; ++lane) sum += rows[row * kTileWidth + lane];
      if (row < own.count)
        gradient[own.first + row] += sum;
      else
        gradient[network.parameters + row - own.count] = sum * static_cast<T>(scale);
    });
    team.barrier();
    if constexpr (kSharedTotals) {
      // (rounded also where the sums need not be exact: their order is anybody's)
      team.items(num_sums, [&](std::int64_t i) {
        if (add_shared(gradient[i], total + i) && exact) Kokkos::atomic_add(total + num_sums, 1.0);
      });
    } else {
      total[num_sums] += exact ? add_exactly(gradient, num_sums, total) : add_fast(gradient, num_sums, total);
    }
  }

  MANIPLE_FUNCTION TileSamples real_samples() const {
    return {.block = Block, .samples = envs, .first = 0, .maps = 1};
  }
  // The gradient by the loss's own parameters, and the metrics.
  MANIPLE_FUNCTION void add_rows_by_blocks(const TileTeam& team, std::int64_t tile, const T* rows,
                                           double* total) const {
    const ParameterRange own = loss.own_parameters(network);
    team.items(own.count + Loss::num_metrics, [&](std::int64_t row) {
      const T factor = row < own.count ? T(1) : static_cast<T>(scale);
      BlockSum all;
      for (int first = 0; first < real_samples().blocks(tile) * Block; first += Block) {
        T sum(0);
        for (int lane = first; lane < first + Block; ++lane) sum += rows[row * kTileWidth + lane];
        all.add(sum * factor, exact);
      }
      all.to(total + (row < own.count ? own.first : network.parameters - own.count) + row,
             total + network.parameters + Loss::num_metrics);
    });
    team.barrier();
  }

  MANIPLE_FUNCTION T* block_of(std::int64_t index) const {
    return blocks + index * loss.layout.elements * kTileWidth;
  }
  MANIPLE_FUNCTION const T* input_of(std::int64_t index) const {
    return block_of(index) + loss.layout.observation * kTileWidth;
  }

  // All steps of a tile in their order, with back-propagation through time to the first of them. Where an
  // episode ends, the state of the next one begins with zeros.
  MANIPLE_FUNCTION void sequence(const TileTeam& team, std::int64_t tile, T* local) const {
    using V = Lanes<T>;
    const auto activations = [&](int step) { return activations_of(step, local); };
    T* const carry = local + scratch.carry;
    const T* const first = first_state.tile(tile);
    team.items(network.state_units * kTileWidth, [&](std::int64_t i) {
      activations(0)[i] = first[i];
      carry[i] = T(0);
    });
    team.barrier();
    const auto forget = [&](int step, T* states) {  // what the end of an episode in this step undoes
      const T* const done = block_of(step * tiles + tile) + loss.layout.done * kTileWidth;
      team.lanes<V, 1>([&](int lane) {
        const MaskOf<V> ended = *reinterpret_cast<const V*>(done + lane) != V(T(0));
        for (int k = 0; k < network.state_units; ++k) {
          V& state = *reinterpret_cast<V*>(states + k * kTileWidth + lane);
          state = select(ended, V(T(0)), state);
        }
      });
    };
    for (int step = 0; step < deal.steps; ++step) {
      network_forward<Dense>(team, network, parameters, input_of(step * tiles + tile), activations(step));
      if (step + 1 == deal.steps) break;
      copy_state(team, network, activations(step), activations(step + 1));
      forget(step, activations(step + 1));
    }
    for (int step = deal.steps - 1; step >= 0; --step) {
      learn(team, tile, step * tiles + tile, step, local);
      if (step > 0) forget(step - 1, carry);
    }
  }

  MANIPLE_FUNCTION T* activations_of(int step, T* local) const {
    return local + scratch.activations + static_cast<std::int64_t>(step) * network.units * kTileWidth;
  }
  // (of whole tiles those of one step at a time)
  MANIPLE_FUNCTION T* deltas_of(int step, T* local) const {
    const int place = kWholeTiles ? 0 : step;
    return local + scratch.deltas + static_cast<std::int64_t>(place) * network.units * kTileWidth;
  }

  // The loss of one block of samples, whose activations are there, and the backward pass; adds to the rows,
  // and of whole tiles to the gradient.
  MANIPLE_FUNCTION void learn(const TileTeam& team, std::int64_t tile, std::int64_t index, int step,
                              T* local) const {
    using V = Lanes<T>;
    T* const block = block_of(index);
    T* const activations = activations_of(step, local);
    T* const deltas = deltas_of(step, local);
    T* const rows = local + scratch.rows;
    team.lanes<V, 1>([&](int lane) {
      const Varying<V> row = tile_field<V>(rows, 0, lane);
      const SampleView<V> view{.stored = tile_field<V>(block, 0, lane),
                               .output = tile_field<V>(activations, 0, lane),
                               .delta = tile_field<V>(deltas, 0, lane),
                               .parameter_delta = row,
                               .metrics = row.from(loss.own_parameters(network).count),
                               .lane = lane};
      const MaskOf<V> real =
          real_lanes<V>(tile * kTileWidth + lane, envs) && view.stored[loss.layout.weight] != V(T(0));
      loss(network, parameters, index, view, real, static_cast<T>(scale));
    });
    network_backward<Dense>(team, network, parameters, activations, deltas, local + scratch.carry);
    team.barrier();
    loss.after(team, network, parameters, index);
    if constexpr (kWholeTiles) {
      network_gradient<Dense>(team, network, input_of(index), activations, deltas, local + scratch.transposed,
                              local + scratch.gradient);
      team.barrier();
      if (wanted > 0) replace_inputs(team, block, deltas, local + scratch.block);
    }
  }
  // Replaces the inputs of all steps of a tile, after the launch that has learned from them.
  MANIPLE_FUNCTION void replace_inputs(const TileTeam& team, std::int64_t tile) const {
    T* const local = memory + tile * scratch.elements;
    for (int step = 0; step < deal.steps; ++step)
      replace_inputs(team, block_of(step * tiles + tile), deltas_of(step, local), local + scratch.block);
  }

  // `own`: memory for the derivatives by all inputs.
  MANIPLE_FUNCTION void replace_inputs(const TileTeam& team, T* block, const T* deltas, T* own) const {
    T* const input = block + loss.layout.observation * kTileWidth;
    for (int l = 0; l < network.num_layers; ++l) {
      const Layer& layer = network.layers[l];
      if (layer.is_dense() && layer.source == kObservation)  // the one chain's first
        Dense::backward(team, layer, parameters, deltas + layer.target * kTileWidth, input, own);
    }
    team.barrier();
    const std::int64_t first = static_cast<std::int64_t>(first_wanted) * kTileWidth;
    team.items(std::int64_t{wanted} * kTileWidth, [&](std::int64_t i) { input[first + i] = own[first + i]; });
    team.barrier();
  }
};

// After the gradient by blocks: derivatives by what is wanted of the observations take its place.
template <class Training>
struct ReplaceInputs {
  static constexpr int kThreads = kDenseThreads;
  Training training;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int) const {
    training.replace_inputs(team, tile);
  }
};

}  // namespace maniple
