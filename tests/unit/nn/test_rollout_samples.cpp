// Samples of a rollout for learning, against plain loops: actions and their probabilities, rewards and ends
// of episodes, advantages with time-outs and steps that are left out, and moments of samples.
#include "kernels/base/macros.hpp"

#ifndef MANIPLE_SCALAR_LANES
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/unit/learning/network_by_hand.hpp"
#include "tests/unit/nn/random_training.hpp"

namespace maniple {
namespace {

// What a policy does over a few steps, against plain loops: means, deviations, values and the states that it
// carries from step to step; with one draw of noise, the action that acts.
TEST(Act, FollowsTheDefinitions) {
  for (const auto& [name, config] : kinds_of_networks()) {
    SCOPED_TRACE(name);
    Training t(config);
    std::mt19937_64 generator(3);
    std::uniform_real_distribution<double> draw(-1, 1);
    for (std::int64_t i = 0; i < t.network.parameters; ++i)  // layer_norm's weights and all biases, too
      if (t.parameters[i] != 0 || i % 3 == 0) t.parameters[i] += 0.3 * draw(generator);
    const TiledView<double> observation("observation", 1, 3), action("action", 1, 2);
    Buffer<double> block(t.layout.elements * 32);
    Act<double, LaneDense> act;
    act.network = t.network;
    act.layout = t.layout;
    act.scratch = t.scratch;
    act.parameters = t.parameters.data();
    act.memory = t.memory.data();
    act.observation = observation;
    act.action = action;
    act.blocks = block.data();
    act.state = t.first_state;
    act.moves_state = t.network.recurrent();
    act.squash_actions = config.squash_actions;
    act.envs = 32;
    std::vector<std::vector<double>> states(32);
    for (std::size_t env = 0; env < 32; ++env)
      for (int k = 0; k < t.network.state_units; ++k)
        states[env].push_back(t.first_state.at(static_cast<std::int64_t>(env), k));
    for (int step = 0; step < 3; ++step) {
      for (int i = 0; i < 3 * 32; ++i) observation.at(i % 32, i / 32) = 2 * draw(generator);
      act.control_step = static_cast<std::uint32_t>(step);
      for (int i = 0; i < t.layout.elements * 32; ++i) block[i] = std::nan("");
      act(TileTeam(), 0, 0);
      for (int env = 0; env < 32; ++env) {
        const std::vector<double> seen{observation.at(env, 0), observation.at(env, 1),
                                       observation.at(env, 2)};
        const testing_learning::Heads expected = testing_learning::heads_by_hand(
            config, t.network, t.parameters.data(), seen, states[static_cast<std::size_t>(env)]);
        const auto kept = [&](int element) { return block[element * 32 + env]; };
        ASSERT_NEAR(kept(t.layout.value), expected.value, 1e-12);
        double log_prob = 0;
        for (int k = 0; k < 2; ++k) {
          ASSERT_NEAR(kept(t.layout.mean + k), expected.mean[static_cast<std::size_t>(k)], 1e-12);
          double log_std = t.network.own_deviations() > 0 ? t.parameters[t.network.log_std + k] : 0;
          if (config.state_dependent_std) {
            log_std = expected.log_std[static_cast<std::size_t>(k)];
            ASSERT_NEAR(kept(t.layout.log_std + k), log_std, 1e-12);
          }
          const double z = get_lane(
              action_noise<Lanes<double>>(0, RandomPurpose::action, env, static_cast<std::uint32_t>(step), k),
              0);
          const double chosen = kept(t.layout.action + k);
          ASSERT_NEAR(chosen, kept(t.layout.mean + k) + std::exp(log_std) * z, 1e-12);
          ASSERT_NEAR(action.at(env, k), config.squash_actions ? std::tanh(chosen) : chosen, 1e-14);
          log_prob -= 0.5 * z * z + log_std + 0.5 * std::log(2 * M_PI);
        }
        ASSERT_NEAR(kept(t.layout.log_prob), log_prob, 1e-12);
        for (int k = 0; k < t.network.state_units; ++k)
          ASSERT_NEAR(t.first_state.at(env, k),
                      states[static_cast<std::size_t>(env)][static_cast<std::size_t>(k)], 1e-12);
      }
    }
  }
}

// An act whose critic gives `value` for every observation.
Act<double, LaneDense> constant_critic(Training& t, Buffer<double>& memory, double value) {
  const DenseLayer& last = t.network.layers[t.network.num_layers - 1];
  for (std::int64_t i = last.weight; i < last.bias; ++i) t.parameters[i] = 0;
  t.parameters[last.bias] = value;
  Act<double, LaneDense> act;
  act.network = t.network;
  act.layout = t.layout;
  act.scratch = t.scratch;
  act.parameters = t.parameters.data();
  act.memory = memory.data();
  act.deterministic = true;
  act.envs = 32;
  return act;
}

// The rollout of a tile whose environments 3 and 40 break in step 2: what their rewards say does not matter,
// the advantages before are those of a rollout that stops there with the value of its last observation.
TEST(InvalidSteps, CutTheRolloutBeforeThem) {
  constexpr int horizon = 4, broken = 3, elements = 3;
  constexpr double gamma = 0.9, lambda = 0.8, last_value = 0.7;
  const SampleLayout layout({elements, 0, 2});
  Buffer<double> blocks(horizon * layout.elements * 32), statistics(8 * kBins);
  std::mt19937_64 generator(5);
  fill(blocks, horizon * layout.elements * 32, generator);
  const auto at = [&](int step, int element, int lane) -> double& {
    return blocks[(step * layout.elements + element) * 32 + lane];
  };
  Record<double, LaneDense> record;
  record.layout = layout;
  const auto tile = [](int count) { return TiledView<double>("record", 1, count); };
  record.reward = tile(1);
  record.terminated = tile(1);
  record.truncated = tile(1);
  record.invalid = tile(1);
  record.episode_return = tile(1);
  record.episode_length = tile(1);
  record.episode_reward_term = tile(2);
  record.episode_metric = tile(1);
  record.envs = 30;
  record.statistics = statistics.data();
  record.statistics_scale = 1;
  record.steps = 7;
  for (int i = 0; i < 8 * kBins; ++i) statistics[i] = 0;
  const auto reward = [](int step, int lane) { return 0.1 * step - 0.02 * lane; };
  for (int step = 0; step < horizon; ++step) {
    for (int lane = 0; lane < 32; ++lane) {
      const bool breaks = step == 2 && (lane == broken || lane == 31);  // 31 is padding
      record.reward.at(lane, 0) = breaks ? 1e12 : reward(step, lane);
      record.invalid.at(lane, 0) = record.terminated.at(lane, 0) = breaks;
      if (step == 1 && lane == 8) record.terminated.at(lane, 0) = 1;
      record.episode_return.at(lane, 0) = breaks ? std::nan("") : 5;
      record.episode_length.at(lane, 0) = 7;
      if (step == 1 && lane == 9) {  // an episode that is older than the training
        record.terminated.at(lane, 0) = 1;
        record.episode_length.at(lane, 0) = 8;
      }
      record.episode_reward_term.at(lane, 0) = breaks ? 1e300 : 2;
      record.episode_reward_term.at(lane, 1) = 3;
      record.episode_metric.at(lane, 0) = breaks ? 1e300 : 4;
    }
    record.blocks = blocks.data() + step * layout.elements * 32;
    record(TileTeam(), 0, 0);
  }
  // episodes, their return, length, terms and metrics; invalid steps; sums that are not exact
  const double expected[] = {1, 5, 7, 2, 3, 4, 1, 0};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(sum_of_bins(statistics.data() + i * kBins), expected[i]) << i;
  // a network whose every value is the bias of the last layer
  Training t(false);
  Buffer<double> memory(t.scratch.elements);
  EstimateAdvantages<double, LaneDense> estimate;
  estimate.act = constant_critic(t, memory, last_value);
  const TiledView<double> observation("observation", 1, 3);
  estimate.act.observation = observation;
  estimate.act.layout = layout;
  estimate.blocks = blocks.data();
  estimate.tiles = 1;
  estimate.horizon = horizon;
  estimate.gamma = gamma;
  estimate.lambda = lambda;
  estimate(TileTeam(), 0, 0);
  for (const int lane : {broken, broken + 1}) {
    double advantage[horizon];
    for (int step = 0; step < horizon; ++step) {
      advantage[step] = at(step, layout.advantage, lane);
      EXPECT_EQ(at(step, layout.target, lane), advantage[step] + at(step, layout.value, lane));
      EXPECT_EQ(at(step, layout.weight, lane), lane == broken && step == 2 ? 0.0 : 1.0);
    }
    const auto difference = [&](int step) {
      const double after = step + 1 < horizon ? at(step + 1, layout.value, lane) : last_value;
      return reward(step, lane) + gamma * after - at(step, layout.value, lane);
    };
    double sum = difference(1);
    if (lane != broken) sum += gamma * lambda * (difference(2) + gamma * lambda * difference(3));
    EXPECT_NEAR(advantage[1], sum, 1e-14);
    EXPECT_NEAR(advantage[0], difference(0) + gamma * lambda * sum, 1e-14);
    EXPECT_NEAR(advantage[3], difference(3), 1e-14);
    if (lane == broken) {
      EXPECT_EQ(advantage[2], 0);
    }
  }
}

// Rewards in their unit, time-outs with the value of what they led to: each advantage is the sum of temporal
// differences up to the end of its episode, written out.
TEST(Advantages, CountTimeOutsAndUnits) {
  constexpr int horizon = 5;
  constexpr double gamma = 0.9, lambda = 0.8, last = 0.7, mean = 3, deviation = 2, reward_scale = 0.5;
  Training t(false);
  Buffer<double> memory(t.scratch.elements);
  const SampleLayout& layout = t.layout;
  Buffer<double> blocks(horizon * layout.elements * 32);
  std::mt19937_64 generator(6);
  fill(blocks, horizon * layout.elements * 32, generator);
  const auto at = [&](int step, int element, int lane) -> double& {
    return blocks[(step * layout.elements + element) * 32 + lane];
  };
  for (int step = 0; step < horizon; ++step)
    for (int lane = 0; lane < 32; ++lane) {
      at(step, layout.weight, lane) = 1;
      at(step, layout.done, lane) = at(step, layout.cut, lane) = 0;
    }
  at(2, layout.done, 0) = at(2, layout.cut, 0) = 1;  // environment 0 runs out of time
  at(2, layout.done, 1) = 1;                         // environment 1 fails
  at(3, layout.reward, 2) = 50;                      // environment 2 meets the clip
  const std::vector<double> before(blocks.data(), blocks.data() + horizon * layout.elements * 32);
  const auto stored = [&](int step, int element, int lane) {
    return before[static_cast<std::size_t>((step * layout.elements + element) * 32 + lane)];
  };
  const TiledView<double> observation("observation", 1, 3);
  EstimateAdvantages<double, LaneDense> estimate;
  estimate.act = constant_critic(t, memory, last);
  estimate.act.observation = observation;
  estimate.blocks = blocks.data();
  estimate.tiles = 1;
  estimate.horizon = horizon;
  estimate.gamma = gamma;
  estimate.lambda = lambda;
  estimate.units = {reward_scale, 10, mean, deviation};
  estimate(TileTeam(), 0, 0);
  const auto value = [&](double output) { return mean + deviation * output; };
  for (const int lane : {0, 1, 2}) {
    const auto difference = [&](int step) {
      const double reward = std::min(10.0, reward_scale * stored(step, layout.reward, lane));
      double after = step + 1 < horizon ? value(stored(step + 1, layout.value, lane)) : value(last);
      if (step == 2 && lane == 0) after = value(stored(2, layout.bootstrap, 0));
      if (step == 2 && lane == 1) after = 0;
      return reward + gamma * after - value(stored(step, layout.value, lane));
    };
    for (int step = 0; step < horizon; ++step) {
      double expected = 0, factor = 1;
      for (int later = step; later < horizon; ++later) {
        expected += factor * difference(later);
        factor *= gamma * lambda;
        if (stored(later, layout.done, lane) != 0) break;
      }
      EXPECT_NEAR(at(step, layout.advantage, lane), expected, 1e-13) << lane << " " << step;
      EXPECT_NEAR(at(step, layout.value, lane), value(stored(step, layout.value, lane)), 1e-14);
      EXPECT_NEAR(at(step, layout.target, lane), expected + at(step, layout.value, lane), 1e-13);
    }
  }
}

// What a time-out is worth: nothing, the value of the observation before the step, or that of the one after.
TEST(Advantages, TimeOutsAreValuedAsAsked) {
  Training t(false);
  Buffer<double> memory(t.scratch.elements), statistics(5 * kBins);
  const SampleLayout& layout = t.layout;
  Buffer<double> block(layout.elements * 32);
  const auto tile = [](int count) { return TiledView<double>("record", 1, count); };
  for (const Bootstrap bootstrap : {Bootstrap::none, Bootstrap::value, Bootstrap::final_observation}) {
    Record<double, LaneDense> record;
    record.layout = layout;
    record.reward = tile(1);
    record.terminated = tile(1);
    record.truncated = tile(1);
    record.invalid = tile(1);
    record.episode_return = record.episode_length = tile(1);
    record.bootstrap = bootstrap;
    const TiledView<double> last = tile(3);
    record.final = constant_critic(t, memory, 0.7);
    record.final.observation = last;
    record.blocks = block.data();
    record.envs = 32;
    record.statistics = statistics.data();
    for (int lane = 0; lane < 32; ++lane) {
      block[layout.value * 32 + lane] = 0.25;
      record.truncated.at(lane, 0) = lane % 2;
      record.terminated.at(lane, 0) = lane % 4 == 3;  // fails in its last step
    }
    record(TileTeam(), 0, 0);
    for (int lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(block[layout.done * 32 + lane], lane % 2);
      EXPECT_EQ(block[layout.cut * 32 + lane], bootstrap != Bootstrap::none && lane % 4 == 1 ? 1 : 0);
    }
    EXPECT_EQ(block[layout.bootstrap * 32 + 1], bootstrap == Bootstrap::final_observation ? 0.7 : 0.25);
  }
}

// Moments of a rollout's valid samples, and discounted returns across two rollouts, in plain loops.
TEST(SampleMoments, AreThoseOfTheValidSamples) {
  constexpr int horizon = 6, envs = 45, tiles = 2;
  constexpr double gamma = 0.9;
  const SampleLayout layout({1, 0, 1});
  Buffer<double> blocks(horizon * tiles * layout.elements * 32), totals(8);
  std::mt19937_64 generator(9);
  const auto at = [&](int step, int element, int env) -> double& {
    return blocks[((step * tiles + env / 32) * layout.elements + element) * 32 + env % 32];
  };
  const TiledView<double> running("running", tiles, 1);
  std::vector<double> expected(64, 0.0);
  for (int rollout = 0; rollout < 2; ++rollout) {
    fill(blocks, horizon * tiles * layout.elements * 32, generator);
    for (int step = 0; step < horizon; ++step)
      for (int env = 0; env < 64; ++env) {
        at(step, layout.reward, env) *= 1e6;
        at(step, layout.done, env) = (step + env) % 5 == 0;
        at(step, layout.weight, env) = (step * env) % 7 != 3;
      }
    DiscountedReturns<double> discount;
    discount.layout = layout;
    discount.blocks = blocks.data();
    discount.running = running;
    discount.tiles = tiles;
    discount.horizon = horizon;
    discount.gamma = gamma;
    for (int tile = 0; tile < tiles; ++tile) discount(TileTeam(), tile, 0);
    double count = 0, sum = 0, squares = 0, largest = 0;
    for (int step = 0; step < horizon; ++step)
      for (int env = 0; env < 64; ++env) {
        double& value = expected[static_cast<std::size_t>(env)];
        value = gamma * value + at(step, layout.reward, env);
        EXPECT_NEAR(at(step, layout.advantage, env), value, 1e-9 * std::abs(value));
        if (env < envs && at(step, layout.weight, env) != 0) {
          const double x = value - 1000;
          count += 1;
          sum += x;
          squares += x * x;
          largest = std::max(largest, std::abs(x));
        }
        if (at(step, layout.done, env) != 0) value = 0;
      }
    SampleMoments<double> moments;
    moments.layout = layout;
    moments.blocks = blocks.data();
    moments.tiles = tiles;
    moments.envs = envs;
    moments.horizon = horizon;
    moments.count = 1;
    moments.element[0] = layout.advantage;
    moments.shift[0] = 1000;
    moments.totals = totals.data();
    totals[0] = 0;
    for (int tile = 0; tile < tiles; ++tile) moments(TileTeam(), tile, 0);
    EXPECT_NEAR(totals[0], largest, 1e-9 * largest);
    moments.scale[0] = 1 / largest;
    moments.sums = true;
    moments.moment_scale = 1.0 / (envs * horizon);
    for (int i = 0; i < 4; ++i) totals[i] = 0;
    for (int tile = 0; tile < tiles; ++tile) moments(TileTeam(), tile, 0);
    EXPECT_NEAR(totals[0], sum / largest / (envs * horizon), 1e-11);
    EXPECT_NEAR(totals[1], squares / largest / largest / (envs * horizon), 1e-11);
    EXPECT_EQ(totals[2], envs * horizon - count);
    EXPECT_EQ(totals[3], 0);
  }
}

}  // namespace
}  // namespace maniple
#endif
