// The policy in the rollout: observations are clipped and normalized, the network gives mean actions and
// values, actions are drawn; what learning needs is kept in one block [element][32] per tile and step.
#pragma once

#include "kernels/base/tiles.hpp"
#include "kernels/nn/exact_totals.hpp"
#include "kernels/nn/gae.hpp"
#include "kernels/nn/gaussian.hpp"
#include "kernels/nn/layers.hpp"
#include "kernels/nn/mixture.hpp"

namespace maniple {

// First element of each quantity in a block.
struct SampleLayout {
  int observation = 0;       // and that of the critic, as the network takes them
  int action = 0, mean = 0;  // before they are squashed
  int log_prob = 0;
  int value = 0;      // of the observation: as the critic gives it, in the unit of rewards once estimated
  int reward = 0;     // multiplied by learning.reward_scale
  int done = 0;       // 1: the episode ended, however
  int cut = 0;        // 1: it ran out of time, and `bootstrap` stands for what would have followed
  int bootstrap = 0;  // as the critic gives it
  int advantage = 0, target = 0;
  int weight = 0;   // 1, or 0: an invalid step, which is not learned from
  int log_std = 0;  // where the network gives one
  int elements = 0;

  SampleLayout() = default;
  explicit SampleLayout(const PolicySizes& sizes)
      : action(sizes.inputs()),
        mean(action + sizes.actions),
        log_prob(mean + sizes.actions),
        value(log_prob + 1),
        reward(log_prob + 2),
        done(log_prob + 3),
        cut(log_prob + 4),
        bootstrap(log_prob + 5),
        advantage(log_prob + 6),
        target(log_prob + 7),
        weight(log_prob + 8),
        log_std(log_prob + 9),
        elements(log_std + sizes.deviations) {}
};

// Where a worker keeps what one tile needs; elements are counted in scalars.
struct TileScratch {
  std::int64_t activations = 0, deltas = 0, rows = 0, transposed = 0, gradient = 0, block = 0, carry = 0;
  std::int64_t elements = 0;

  TileScratch() = default;
  // `steps`: whose activations are kept at a time; `by_blocks`: and whose deltas, for gradients by blocks.
  TileScratch(const Network& network, const SampleLayout& layout, int num_rows, std::int64_t num_totals,
              std::int64_t steps = 1, bool by_blocks = false) {
    const auto take = [this](std::int64_t count) {
      const std::int64_t first = elements;
      elements += padded_parameters(count);
      return first;
    };
    activations = take(steps * network.units * kTileWidth);
    deltas = take((by_blocks ? steps : 1) * network.units * kTileWidth);
    rows = take(num_rows * kTileWidth);
    transposed = take(by_blocks ? 0 : padded_parameters(network.widest) * kTileWidth);
    gradient = take(by_blocks ? 0 : num_totals);
    block = take(layout.elements * kTileWidth);
    carry = take(network.state_units * kTileWidth);
  }
};

// One control step's decisions for all tiles of this rank.
template <class T, class Dense>
struct Act {
  static constexpr int kThreads = kDenseThreads;
  Network network;
  SampleLayout layout;
  TileScratch scratch;
  const T* parameters = nullptr;
  T* memory = nullptr;                           // [worker][scratch.elements]
  TiledView<T> observation, critic_observation;  // the latter where the critic has its own
  TiledView<T> action;                           // none where only values are asked for
  TiledView<T> state;                            // of recurrent cells, before the step
  bool moves_state = false;                      // to that after it
  T* blocks = nullptr;                           // [tile][layout.elements][32] of this step; null: not kept
  std::uint32_t seed = 0, control_step = 0;
  RandomPurpose purpose = RandomPurpose::action;
  std::int64_t first_env = 0, envs = 0;  // of this rank, without padding
  int block_size = kTileWidth;           // environments whose moments are summed by themselves
  bool deterministic = false;            // the mean action; of a mixture that of its likeliest mode
  // Draws of a mixture are about a drawn mode's mean, with this log standard deviation in place of the mode's
  // own.
  bool low_noise = false;
  T low_noise_log_std = 0;
  bool squash_actions = false;
  T clip_observations = 0, clip_actions = 0;  // 0: off
  const T* action_mean = nullptr;             // per action, with action_scale: an action is
  const T* action_scale = nullptr;            // mean + scale * what the network gives; null: that itself
  const T* normal_mean = nullptr;             // per observation; null: not normalized
  const T* normal_scale = nullptr;            // 1 / standard deviation
  T clip_normalized = 5;
  // [worker][2 inputs * kBins + 1]: exact sums of z, then of z^2, and whether one was inexact
  double* moments = nullptr;
  double moment_scale = 0;  // 1 / samples of the rollout, of all ranks

  MANIPLE_FUNCTION void operator()(const TileTeam& whole, std::int64_t tile, int worker) const {
    using V = Lanes<T>;
    const TileTeam team = whole.of_lanes(real_samples().template width<V>(tile));
    T* const local = memory + static_cast<std::int64_t>(worker) * scratch.elements;
    T* const block = blocks ? blocks + tile * layout.elements * kTileWidth : local + scratch.block;
    T* const activations = local + scratch.activations;
    T* const rows = local + scratch.rows;  // z of every observation, before it is clipped
    take_observation(team, tile, block, rows);
    const T* const before = state.tile(tile);
    team.lanes<V, 1>([&](int lane) {
      for (int k = 0; k < network.state_units; ++k)
        *reinterpret_cast<V*>(activations + k * kTileWidth + lane) =
            *reinterpret_cast<const V*>(before + k * kTileWidth + lane);
    });
    network_forward<Dense>(team, network, parameters, block + layout.observation * kTileWidth, activations);
    if (moves_state) copy_state(team, network, activations, state.tile(tile));
    choose_action(team, tile, block, activations);
    if (normal_mean && moments) add_moments(team, tile, worker, rows);
  }

 private:
  MANIPLE_FUNCTION TileSamples real_samples() const {
    return {.block = block_size, .samples = envs, .first = 0, .maps = 1};
  }
  MANIPLE_FUNCTION void take_observation(const TileTeam& team, std::int64_t tile, T* block, T* rows) const {
    using V = Lanes<T>;
    const T* const observed = observation.tile(tile);
    const T* const critic_observed = critic_observation.tile(tile);
    team.lanes<V, 1>([&](int lane) {
      const int own = network.sizes.observations;
      for (int i = 0; i < network.sizes.inputs(); ++i) {
        V x = *reinterpret_cast<const V*>(
            (i < own ? observed + i * kTileWidth : critic_observed + (i - own) * kTileWidth) + lane);
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
  }

  MANIPLE_FUNCTION void choose_action(const TileTeam& team, std::int64_t tile, T* block,
                                      T* activations) const {
    using V = Lanes<T>;
    T* const chosen = action.tile(tile);
    team.lanes<V, 1>([&](int lane) {
      const Varying<V> output = tile_field<V>(activations, 0, lane), out = tile_field<V>(block, 0, lane);
      const LogStd<V> log_stds{network.deviation.units > 0 ? nullptr : parameters + network.log_std,
                               output.from(network.deviation.first)};
      const Mixture<V> mixture(network, output, squash_actions);
      const bool mixes = mixture.modes > 0;
      V log_prob(T(0)), mode(T(0));
      if (mixes)
        mode = deterministic
                   ? mixture.likeliest_mode()
                   : mixture.drawn_mode(action_choice<V>(seed, purpose, first_env + tile * kTileWidth + lane,
                                                         control_step, mixture.actions));
      for (int k = 0; k < network.sizes.actions; ++k) {
        const V log_std = !mixes      ? log_stds[k]
                          : low_noise ? V(low_noise_log_std)
                                      : mixture.log_std_in(mode, k);
        const V mean = mixes ? mixture.mean_in(mode, k) : output[network.actor.first + k];
        V z(T(0));
        if (!deterministic)
          z = action_noise<V>(seed, purpose, first_env + tile * kTileWidth + lane, control_step, k);
        const V a = multiply_add(exp(log_std), z, mean);
        log_prob += gaussian_log_density(z, log_std);
        out[layout.action + k] = a;
        out[layout.mean + k] = mean;
        if (network.sizes.deviations > 0) out[layout.log_std + k] = log_std;
        V does = squash_actions && !mixes ? tanh(a) : a;
        if (action_scale) does = multiply_add(V(action_scale[k]), does, V(action_mean[k]));
        if (action.elements > 0)
          *reinterpret_cast<V*>(chosen + k * kTileWidth + lane) =
              clip_actions > 0 ? clamp(does, V(-clip_actions), V(clip_actions)) : does;
      }
      out[layout.log_prob] = log_prob;
      out[layout.value] = output[network.critic.first];
    });
  }

  MANIPLE_FUNCTION void add_moments(const TileTeam& team, std::int64_t tile, int worker,
                                    const T* rows) const {
    team.barrier();
    const int lanes = real_samples().blocks(tile) * block_size;
    const int n = network.sizes.inputs();
    double* const total = moments + static_cast<std::int64_t>(worker) * (2 * n * kBins + 1);
    team.items(n, [&](std::int64_t i) {
      for (int first = 0; first < lanes; first += block_size) {
        double sum = 0, squares = 0;
        for (int lane = first; lane < first + block_size; ++lane) {
          const auto z = static_cast<double>(rows[i * kTileWidth + lane]);
          sum += z;
          squares += z * z;
        }
        const bool sum_lost = add_to_bins(sum, block_size, moment_scale, total + i * kBins);
        const bool squares_lost = add_to_bins(squares, block_size, moment_scale, total + (n + i) * kBins);
        if (sum_lost || squares_lost) total[2 * n * kBins] = 1;  // any thread writes the same
      }
    });
  }
};

// What stands for the rewards that would have followed the end of an episode by its time limit.
enum class Bootstrap : int {
  none,               // nothing: a time-out counts as a failure
  value,              // the value of the observation before the step (rsl_rl, rl_games)
  final_observation,  // the value of the observation that the step led to
};

// The statistics of episodes, each a sum in bins: of the episodes that ended how many, and the sums of what
// they returned, then what was left out of them, and whether a sum was inexact.
struct EpisodeColumns {
  int terms = 0, metrics = 0;  // of the task: reward terms and metrics

  MANIPLE_FUNCTION static constexpr int count() { return 0; }
  MANIPLE_FUNCTION static constexpr int episode_return() { return 1; }
  MANIPLE_FUNCTION static constexpr int length() { return 2; }
  MANIPLE_FUNCTION static constexpr int first_term() { return 3; }
  MANIPLE_FUNCTION constexpr int first_metric() const { return first_term() + terms; }
  MANIPLE_FUNCTION constexpr int invalid() const { return first_metric() + metrics; }  // control steps
  MANIPLE_FUNCTION constexpr int inexact() const { return invalid() + 1; }
  // Numbers in a row.
  MANIPLE_FUNCTION constexpr int size() const { return (inexact() + 1) * kBins; }
};

// After a control step: rewards, ends of episodes with the bootstrap of time-outs, and statistics of
// episodes. What an invalid step returned is unknown: the rollout of its environment stops before it, with
// the value of its observation for all that would have followed, and its episode is no part of the
// statistics.
template <class T, class Dense>
struct Record {
  static constexpr int kThreads = kDenseThreads;
  SampleLayout layout;
  T* blocks = nullptr;  // of this step
  TiledView<T> reward, terminated, truncated, invalid;
  TiledView<T> episode_return, episode_length, episode_reward_term, episode_metric;
  T reward_scale = 1;
  Bootstrap bootstrap = Bootstrap::none;
  Act<T, Dense> final;  // to value final observations: deterministic, nothing kept
  std::int64_t envs = 0;
  int block_size = kTileWidth;   // environments whose statistics are summed by themselves
  double* statistics = nullptr;  // [worker][EpisodeColumns::size()]
  double statistics_scale = 0;   // 1 / samples of the rollout, of all ranks; a power of two
  // Control steps since training began. An episode that counts more began with some of its steps taken
  // (random_initial_episode_length): it is none that the task would have, and no part of the statistics.
  T steps = 0;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int worker) const {
    using V = Lanes<T>;
    constexpr int lane_stride = kTileWidth / lane_width<V>;
    T* const block = blocks + tile * layout.elements * kTileWidth;
    team.lanes<V, 1>([&](int lane) {
      V* const out = reinterpret_cast<V*>(block + lane);
      const V zero(T(0)), one(T(1));
      const V end = *reinterpret_cast<const V*>(terminated.tile(tile) + lane);
      const V cut = *reinterpret_cast<const V*>(truncated.tile(tile) + lane);
      const V r = *reinterpret_cast<const V*>(reward.tile(tile) + lane) * V(reward_scale);
      const MaskOf<V> left_out = *reinterpret_cast<const V*>(invalid.tile(tile) + lane) != zero;
      out[layout.reward * lane_stride] = select(left_out, zero, r);
      out[layout.done * lane_stride] = select(left_out, one, max(end, cut));
      // an episode that fails at its last step fails
      out[layout.cut * lane_stride] =
          bootstrap == Bootstrap::none ? zero : select(left_out || end != zero, zero, cut);
      out[layout.bootstrap * lane_stride] = out[layout.value * lane_stride];
      out[layout.weight * lane_stride] = select(left_out, zero, one);
    });
    team.barrier();
    if (bootstrap == Bootstrap::final_observation) value_final_observations(team, tile, worker, block);
    const T* const done = block + layout.done * kTileWidth;
    const T* const weight = block + layout.weight * kTileWidth;
    const int lanes = static_cast<int>(envs - tile * kTileWidth < kTileWidth ? envs - tile * kTileWidth
                                                                             : std::int64_t{kTileWidth});
    T any(0);
    for (int lane = 0; lane < lanes; ++lane) any = any + done[lane];
    if (any == T(0)) return;
    const EpisodeColumns columns = episode_columns();
    double* const total = statistics + static_cast<std::int64_t>(worker) * columns.size();
    team.items(columns.inexact(), [&](std::int64_t column) {
      double sum = 0;
      for (int lane = 0; lane < lanes; ++lane) {
        sum += static_cast<double>(counted(column, tile, lane, done[lane] != T(0), weight[lane] == T(0)));
        if ((lane + 1) % block_size != 0 && lane + 1 < lanes) continue;
        if (add_to_bins(sum, block_size, statistics_scale, total + column * kBins))
          total[columns.inexact() * kBins] = 1;  // any thread writes the same
        sum = 0;
      }
    });
  }

 private:
  MANIPLE_FUNCTION EpisodeColumns episode_columns() const {
    return {.terms = episode_reward_term.elements, .metrics = episode_metric.elements};
  }
  // What a lane adds to a column of the statistics.
  MANIPLE_FUNCTION T counted(std::int64_t column, std::int64_t tile, int lane, bool ends,
                             bool left_out) const {
    const EpisodeColumns columns = episode_columns();
    const bool counts_invalid = column == columns.invalid();
    if (!ends || left_out != counts_invalid) return T(0);
    if (counts_invalid) return T(1);
    if (episode_length.tile(tile)[lane] > steps) return T(0);
    if (column == columns.count()) return T(1);
    if (column == columns.episode_return()) return episode_return.tile(tile)[lane];
    if (column == columns.length()) return episode_length.tile(tile)[lane];
    if (column < columns.first_metric())
      return episode_reward_term.tile(tile)[(column - columns.first_term()) * kTileWidth + lane];
    return episode_metric.tile(tile)[(column - columns.first_metric()) * kTileWidth + lane];
  }

  // Few tiles have a time-out in a step; only they are valued.
  MANIPLE_FUNCTION void value_final_observations(const TileTeam& team, std::int64_t tile, int worker,
                                                 T* block) const {
    const T* const cut = block + layout.cut * kTileWidth;
    T any(0);
    for (int lane = 0; lane < kTileWidth; ++lane) any = any + cut[lane];
    if (any == T(0)) return;
    final(team, tile, worker);
    team.barrier();
    const T* const valued =
        final.memory + static_cast<std::int64_t>(worker) * final.scratch.elements + final.scratch.block;
    team.items(kTileWidth, [&](std::int64_t lane) {
      block[layout.bootstrap * kTileWidth + lane] = valued[layout.value * kTileWidth + lane];
    });
    team.barrier();
  }
};

// Rewards and values in one unit: a reward counts reward * reward_scale, clipped, and the critic's output
// stands for value_mean + value_scale * output.
template <class T>
struct ValueUnits {
  T reward_scale = 1, clip_reward = 0;  // clip 0: off
  T value_mean = 0, value_scale = 1;
};

// Discounted sums of rewards within an episode, by which rewards may be scaled (Engstrom et al. 2020): that
// of each step goes where its advantage will be.
template <class T>
struct DiscountedReturns {
  SampleLayout layout;
  T* blocks = nullptr;   // [step][tile][layout.elements][32]
  TiledView<T> running;  // at the end of the last step, 0 after an episode's end
  std::int64_t tiles = 0;
  int horizon = 0;
  T gamma = 0;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int) const {
    using V = Lanes<T>;
    constexpr int lane_stride = kTileWidth / lane_width<V>;
    team.lanes<V, 1>([&](int lane) {
      V& carried = *reinterpret_cast<V*>(running.tile(tile) + lane);
      V sum = carried;
      for (int step = 0; step < horizon; ++step) {
        V* const x =
            reinterpret_cast<V*>(blocks + (step * tiles + tile) * layout.elements * kTileWidth + lane);
        sum = multiply_add(V(gamma), sum, x[layout.reward * lane_stride]);
        x[layout.advantage * lane_stride] = sum;
        sum = select(x[layout.done * lane_stride] != V(T(0)), V(T(0)), sum);
      }
      carried = sum;
    });
  }
};

// Advantages and value targets of a tile's steps, backwards from the value of the last observation.
template <class T, class Dense>
struct EstimateAdvantages {
  static constexpr int kThreads = kDenseThreads;
  Act<T, Dense> act;    // to value the observation after the last step: deterministic, nothing kept
  T* blocks = nullptr;  // [step][tile][layout.elements][32]
  std::int64_t tiles = 0;
  int horizon = 0;
  T gamma = 0, lambda = 0;
  ValueUnits<T> units;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int worker) const {
    using V = Lanes<T>;
    constexpr int lane_stride = kTileWidth / lane_width<V>;
    act(team, tile, worker);
    const SampleLayout& layout = act.layout;
    const T* const last =
        act.memory + static_cast<std::int64_t>(worker) * act.scratch.elements + act.scratch.block;
    team.lanes<V, 1>([&](int lane) {
      const auto valued = [&](V output) {
        return multiply_add(V(units.value_scale), output, V(units.value_mean));
      };
      V next_value = valued(*reinterpret_cast<const V*>(last + layout.value * kTileWidth + lane));
      V advantage(T(0));
      for (int step = horizon - 1; step >= 0; --step) {
        V* const x =
            reinterpret_cast<V*>(blocks + (step * tiles + tile) * layout.elements * kTileWidth + lane);
        const V value = valued(x[layout.value * lane_stride]);
        V reward = x[layout.reward * lane_stride] * V(units.reward_scale);
        if (units.clip_reward > 0) reward = clamp(reward, V(-units.clip_reward), V(units.clip_reward));
        reward = multiply_add(V(gamma) * valued(x[layout.bootstrap * lane_stride]),
                              x[layout.cut * lane_stride], reward);
        advantage =
            gae_step(reward, x[layout.done * lane_stride], value, next_value, advantage, gamma, lambda);
        // nothing is known of what an invalid step led to
        advantage = select(x[layout.weight * lane_stride] != V(T(0)), advantage, V(T(0)));
        x[layout.advantage * lane_stride] = advantage;
        x[layout.target * lane_stride] = advantage + value;
        x[layout.value * lane_stride] = value;
        next_value = value;
      }
    });
  }
};

// Moments of quantities of a rollout's valid samples. First the largest size, which makes the sums exact
// whatever the unit, then the sums.
inline constexpr int kMostMoments = 2;
template <class T>
struct SampleMoments {
  SampleLayout layout;
  const T* blocks = nullptr;  // [step][tile][layout.elements][32]
  std::int64_t tiles = 0, envs = 0;
  int block_size = kTileWidth;  // environments whose samples are summed by themselves
  int horizon = 0;
  int count = 0;
  int element[kMostMoments] = {};  // of the layout
  T shift[kMostMoments] = {};      // x = (element - shift) * scale
  T scale[kMostMoments] = {1, 1};
  bool sums = false;         // false: sizes[worker][count] = max |x|; true: the moments
  double* totals = nullptr;  // of x and x^2 times moment_scale: [worker][2 count + 2], invalid, inexact
  double moment_scale = 0;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int worker) const {
    // a quantity is one thread's: the tile's samples are read in order
    team.items(count + (sums ? 1 : 0), [&](std::int64_t which) {
      using V = Lanes<T>;
      constexpr int packs = kTileWidth / lane_width<V>;
      const int k = static_cast<int>(which);
      double* const total = totals + worker * (2 * count + 2);
      double sum = 0, squares = 0, largest = 0, invalid = 0;
      const auto add_block = [&] {
        const double partial[2] = {k == count ? invalid : sum * moment_scale, squares * moment_scale};
        double inexact = add_exactly(partial, 1, total + (k == count ? 2 * count : k));
        if (k < count) inexact += add_exactly(partial + 1, 1, total + count + k);
        if (inexact > 0) total[2 * count + 1] = 1;  // any thread writes the same
        sum = squares = invalid = 0;
      };
      for (int pack = 0; pack < packs; ++pack) {
        const int lane = pack * lane_width<V>;
        const MaskOf<V> real = real_lanes<V>(tile * kTileWidth + lane, envs);
        const V zero(T(0)), one(T(1));
        V lane_sum = zero, lane_squares = zero, lane_largest = zero, lane_invalid = zero;
        for (int step = 0; step < horizon; ++step) {
          const V* const sample = reinterpret_cast<const V*>(
              blocks + (step * tiles + tile) * layout.elements * kTileWidth + lane);
          const V weight = sample[layout.weight * packs];
          if (k == count) {
            lane_invalid += select(real, one - weight, zero);
            continue;
          }
          const V x =
              select(real && weight != zero, (sample[element[k] * packs] - V(shift[k])) * V(scale[k]), zero);
          lane_sum += x;
          lane_squares = multiply_add(x, x, lane_squares);
          lane_largest = max(lane_largest, abs(x));
        }
        for (int i = 0; i < lane_width<V>; ++i) {
          sum += static_cast<double>(get_lane(lane_sum, i));
          squares += static_cast<double>(get_lane(lane_squares, i));
          invalid += static_cast<double>(get_lane(lane_invalid, i));
          const double size = static_cast<double>(get_lane(lane_largest, i));
          largest = size > largest ? size : largest;
          if (sums && (lane + i + 1) % block_size == 0) add_block();
        }
      }
      if (sums) return;
      double& size = totals[worker * count + k];
      size = largest > size ? largest : size;
    });
  }
};

}  // namespace maniple
