// The policy in the rollout: observations are clipped and normalised, the network gives mean actions and
// values, actions are drawn; what learning needs is kept in one block [element][32] per tile and step.
#pragma once

#include "kernels/base/tiles.hpp"
#include "kernels/nn/dense.hpp"
#include "kernels/nn/exact_totals.hpp"
#include "kernels/nn/gae.hpp"
#include "kernels/nn/gaussian.hpp"

namespace maniple {

// First element of each quantity in a block.
struct SampleLayout {
  int observation = 0, action = 0, mean = 0;
  int log_prob = 0, value = 0, reward = 0, done = 0, advantage = 0, target = 0;
  int weight = 0;  // 1, or 0: an invalid step, which is not learned from
  int elements = 0;

  SampleLayout() = default;
  SampleLayout(int observations, int actions)
      : action(observations),
        mean(observations + actions),
        log_prob(observations + 2 * actions),
        value(log_prob + 1),
        reward(log_prob + 2),
        done(log_prob + 3),
        advantage(log_prob + 4),
        target(log_prob + 5),
        weight(log_prob + 6),
        elements(log_prob + 7) {}
};

// Where a worker keeps what one tile needs; elements are counted in scalars.
struct TileScratch {
  std::int64_t activations = 0, deltas = 0, rows = 0, transposed = 0, gradient = 0, block = 0;
  std::int64_t elements = 0;

  TileScratch() = default;
  TileScratch(const Network& network, const SampleLayout& layout, int num_rows, std::int64_t num_totals) {
    const auto take = [this](std::int64_t count) {
      const std::int64_t first = elements;
      elements += padded_parameters(count);
      return first;
    };
    activations = take(network.units * kTileWidth);
    deltas = take(network.units * kTileWidth);
    rows = take(num_rows * kTileWidth);
    transposed = take(padded_parameters(network.widest) * kTileWidth);
    gradient = take(num_totals);
    block = take(layout.elements * kTileWidth);
  }
};

// Activations of all layers for the observations of one tile.
template <class Dense, class T>
MANIPLE_FUNCTION void network_forward(const TileTeam& team, const Network& network, const T* parameters,
                                      const T* observation, T* activations) {
  for (int l = 0; l < network.num_layers; ++l) {
    const DenseLayer& layer = network.layers[l];
    const T* source = layer.source < 0 ? observation : activations + layer.source * kTileWidth;
    Dense::forward(team, layer, parameters, source, activations + layer.target * kTileWidth);
    // a layer mixes units, never samples: on a GPU a thread reads only what it wrote
  }
}

// One control step's decisions for all tiles of this rank.
template <class T, class Dense>
struct Act {
  Network network;
  SampleLayout layout;
  TileScratch scratch;
  const T* parameters = nullptr;
  T* memory = nullptr;  // [worker][scratch.elements]
  TiledView<T> observation, action;
  T* blocks = nullptr;  // [tile][layout.elements][32] of this step; null: not kept
  std::uint32_t seed = 0, control_step = 0;
  RandomPurpose purpose = RandomPurpose::action;
  std::int64_t first_env = 0, envs = 0;  // of this rank, without padding
  bool deterministic = false;
  T clip_observations = 0, clip_actions = 0;  // 0: off
  const T* normal_mean = nullptr;             // per observation; null: not normalised
  const T* normal_scale = nullptr;            // 1 / standard deviation
  T clip_normalized = 5;
  double* moments = nullptr;  // [worker][2 observations + 1]: exact sums of z and z^2, inexact terms
  double moment_scale = 0;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int worker) const {
    using V = Lanes<T>;
    constexpr int unit = kTileWidth / lane_width<V>;
    T* const local = memory + static_cast<std::int64_t>(worker) * scratch.elements;
    T* const block = blocks ? blocks + tile * layout.elements * kTileWidth : local + scratch.block;
    T* const activations = local + scratch.activations;
    const T* const observed = observation.tile(tile);
    T* const chosen = action.tile(tile);
    T* const rows = local + scratch.rows;  // z of every observation, before it is clipped

    team.lanes<V, 1>([&](int lane) {
      for (int i = 0; i < network.num_observations; ++i) {
        V x = *reinterpret_cast<const V*>(observed + i * kTileWidth + lane);
        if (clip_observations > 0) x = clamp(x, V(-clip_observations), V(clip_observations));
        if (normal_mean) {
          x = (x - V(normal_mean[i])) * V(normal_scale[i]);
          const MaskOf<V> real = real_lanes<V>(tile * kTileWidth + lane, envs);
          *reinterpret_cast<V*>(rows + i * kTileWidth + lane) = select(real, x, V(T(0)));
          x = clamp(x, V(-clip_normalized), V(clip_normalized));
        }
        *reinterpret_cast<V*>(block + (layout.observation + i) * kTileWidth + lane) = x;
      }
    });
    network_forward<Dense>(team, network, parameters, block + layout.observation * kTileWidth, activations);
    team.lanes<V, 1>([&](int lane) {
      const V* const mean = reinterpret_cast<const V*>(activations + network.actor.first * kTileWidth + lane);
      V* const out = reinterpret_cast<V*>(block + lane);
      V log_prob(T(0));
      for (int k = 0; k < network.num_actions; ++k) {
        const T log_std = parameters[network.log_std + k];
        V z(T(0));
        if (!deterministic)
          z = action_noise<V>(seed, purpose, first_env + tile * kTileWidth + lane, control_step, k);
        const V a = multiply_add(exp(V(log_std)), z, mean[k * unit]);
        log_prob += gaussian_log_density(z, log_std);
        out[(layout.action + k) * unit] = a;
        out[(layout.mean + k) * unit] = mean[k * unit];
        *reinterpret_cast<V*>(chosen + k * kTileWidth + lane) =
            clip_actions > 0 ? clamp(a, V(-clip_actions), V(clip_actions)) : a;
      }
      out[layout.log_prob * unit] = log_prob;
      out[layout.value * unit] =
          *reinterpret_cast<const V*>(activations + network.critic.first * kTileWidth + lane);
    });
    if (normal_mean && moments) {
      team.barrier();
      const int n = network.num_observations;
      double* const total = moments + static_cast<std::int64_t>(worker) * (2 * n + 1);
      team.items(n, [&](std::int64_t i) {
        double sum = 0, squares = 0;
        for (int lane = 0; lane < kTileWidth; ++lane) {
          const double z = static_cast<double>(rows[i * kTileWidth + lane]);
          sum += z;
          squares += z * z;
        }
        const double partial[2] = {sum * moment_scale, squares * moment_scale};
        if (add_exactly(partial, 1, total + i) + add_exactly(partial + 1, 1, total + n + i) > 0)
          total[2 * n] = 1;  // any thread writes the same
      });
    }
  }
};

// After a control step: rewards with the bootstrap of time-outs, ends of episodes and their statistics. What
// an invalid step returned is unknown: the rollout of its environment stops before it, with the value of its
// observation for all that would have followed, and its episode is no part of the statistics.
template <class T>
struct Record {
  SampleLayout layout;
  T* blocks = nullptr;  // of this step
  TiledView<T> reward, terminated, truncated, invalid;
  TiledView<T> episode_return, episode_length, episode_reward_term;
  T reward_scale = 1, gamma = 0;
  bool bootstrap = false;
  std::int64_t envs = 0;
  double* statistics = nullptr;  // [worker][count, return, length, terms ..., invalid, inexact]
  double statistics_scale = 0;
  // Control steps since training began. An episode that counts more began with some of its steps taken
  // (random_initial_episode_length): it is none that the task would have, and no part of the statistics.
  T steps = 0;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int worker) const {
    using V = Lanes<T>;
    constexpr int unit = kTileWidth / lane_width<V>;
    T* const block = blocks + tile * layout.elements * kTileWidth;
    team.lanes<V, 1>([&](int lane) {
      V* const out = reinterpret_cast<V*>(block + lane);
      const V end = *reinterpret_cast<const V*>(terminated.tile(tile) + lane);
      const V cut = *reinterpret_cast<const V*>(truncated.tile(tile) + lane);
      V r = *reinterpret_cast<const V*>(reward.tile(tile) + lane) * V(reward_scale);
      if (bootstrap) r = multiply_add(V(gamma) * out[layout.value * unit], cut, r);
      const MaskOf<V> left_out = *reinterpret_cast<const V*>(invalid.tile(tile) + lane) != V(T(0));
      out[layout.reward * unit] = select(left_out, V(out[layout.value * unit]), r);
      out[layout.done * unit] = select(left_out, V(T(1)), max(end, cut));
      out[layout.weight * unit] = select(left_out, V(T(0)), V(T(1)));
    });
    team.barrier();
    const T* const done = block + layout.done * kTileWidth;
    const T* const weight = block + layout.weight * kTileWidth;
    const int lanes = static_cast<int>(envs - tile * kTileWidth < kTileWidth ? envs - tile * kTileWidth
                                                                             : std::int64_t{kTileWidth});
    T any(0);
    for (int lane = 0; lane < lanes; ++lane) any = any + done[lane];
    if (any == T(0)) return;
    const int terms = episode_reward_term.elements;
    double* const total = statistics + static_cast<std::int64_t>(worker) * (terms + 5);
    team.items(terms + 4, [&](std::int64_t row) {
      const bool counts_invalid = row == terms + 3;
      double sum = 0;
      for (int lane = 0; lane < lanes; ++lane) {
        if (done[lane] == T(0) || (weight[lane] == T(0)) != counts_invalid) continue;
        if (!counts_invalid && episode_length.tile(tile)[lane] > steps) continue;
        T x(1);
        if (row == 1) x = episode_return.tile(tile)[lane];
        if (row == 2) x = episode_length.tile(tile)[lane];
        if (row > 2 && !counts_invalid) x = episode_reward_term.tile(tile)[(row - 3) * kTileWidth + lane];
        sum += static_cast<double>(x);
      }
      if (!counts_invalid) sum *= statistics_scale;
      if (add_exactly(&sum, 1, total + row) > 0) total[terms + 4] = 1;
    });
  }
};

// Advantages and value targets of a tile's steps, backwards from the value of the last observation.
template <class T, class Dense>
struct EstimateAdvantages {
  Act<T, Dense> act;    // to value the observation after the last step: deterministic, nothing kept
  T* blocks = nullptr;  // [step][tile][layout.elements][32]
  std::int64_t tiles = 0;
  int horizon = 0;
  T gamma = 0, lambda = 0;
  double* moments = nullptr;  // [worker][4]: exact sums of A and A^2 times moment_scale, invalid, inexact
  double moment_scale = 0;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int worker) const {
    using V = Lanes<T>;
    constexpr int unit = kTileWidth / lane_width<V>;
    act(team, tile, worker);
    const SampleLayout& layout = act.layout;
    const T* const last =
        act.memory + static_cast<std::int64_t>(worker) * act.scratch.elements + act.scratch.block;
    T* const rows = act.memory + static_cast<std::int64_t>(worker) * act.scratch.elements + act.scratch.rows;
    team.lanes<V, 1>([&](int lane) {
      V next_value = *reinterpret_cast<const V*>(last + layout.value * kTileWidth + lane);
      V advantage(T(0)), sum(T(0)), squares(T(0)), invalid(T(0));
      const MaskOf<V> real = real_lanes<V>(tile * kTileWidth + lane, act.envs);
      for (int step = horizon - 1; step >= 0; --step) {
        V* const x =
            reinterpret_cast<V*>(blocks + (step * tiles + tile) * layout.elements * kTileWidth + lane);
        const V value = x[layout.value * unit];
        advantage = gae_step(x[layout.reward * unit], x[layout.done * unit], value, next_value, advantage,
                             gamma, lambda);
        x[layout.advantage * unit] = advantage;
        x[layout.target * unit] = advantage + value;
        next_value = value;
        // (the advantage of an invalid step is zero)
        const V counted = select(real, advantage, V(T(0)));
        sum += counted;
        squares = multiply_add(counted, counted, squares);
        invalid += select(real, V(T(1)) - x[layout.weight * unit], V(T(0)));
      }
      *reinterpret_cast<V*>(rows + lane) = sum;
      *reinterpret_cast<V*>(rows + kTileWidth + lane) = squares;
      *reinterpret_cast<V*>(rows + 2 * kTileWidth + lane) = invalid;
    });
    team.barrier();
    team.items(3, [&](std::int64_t row) {
      double sum = 0;
      for (int lane = 0; lane < kTileWidth; ++lane) sum += static_cast<double>(rows[row * kTileWidth + lane]);
      if (row < 2) sum *= moment_scale;
      double* const total = moments + worker * 4;
      if (add_exactly(&sum, 1, total + row) > 0) total[3] = 1;
    });
  }
};

}  // namespace maniple
