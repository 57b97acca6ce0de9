// The kernel of a minibatch: its gradient against finite differences of its own loss for every kind of
// network, sums by tiles and by blocks, samples that count nothing, and which samples a minibatch takes.
#include "kernels/base/macros.hpp"

#ifndef MANIPLE_SCALAR_LANES
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/nn/cloning_loss.hpp"
#include "tests/unit/learning/network_by_hand.hpp"
#include "tests/unit/nn/random_training.hpp"

namespace maniple {
namespace {

TEST(TrainMinibatch, GradientIsThatOfTheLoss) {
  for (const auto& [name, config] : kinds_of_networks()) {
    SCOPED_TRACE(name);
    Training t(config);
    t.loss();
    std::vector<double> gradient(t.totals.data(), t.totals.data() + t.network.parameters);
    double size = 0;
    int used = 0, wrong = 0;
    for (int i = 0; i < t.network.parameters; ++i) {
      constexpr double h = 1e-6;
      const double kept = t.parameters[i];
      t.parameters[i] = kept + h;
      const double up = t.loss();
      t.parameters[i] = kept - h;
      const double down = t.loss();
      t.parameters[i] = kept;
      const double found = gradient[static_cast<std::size_t>(i)];
      if (!(std::abs(found - (up - down) / (2 * h)) <= 2e-7) && ++wrong <= 3)
        ADD_FAILURE() << "parameter " << i << ": " << found << ", by differences " << (up - down) / (2 * h);
      size += std::abs(found);
      used += found != 0.0;
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(size, 0.5);
    EXPECT_GT(used, config.shared ? 70 : 100);
  }
}

// The same minibatch, whose gradient is summed by blocks.
template <int Block, class Dense>
void compare_with_tiles(Training& t) {
  t.train.deal.horizon = t.train.deal.minibatches = 1;  // one position
  const std::int64_t count = minibatch_totals(t.network, kNumLossMetrics);
  const TileScratch scratch(t.network, t.layout, 2 + kNumLossMetrics, count, t.horizon, true);
  Buffer<double> memory(t.tiles * scratch.elements), totals(count);
  for (std::int64_t i = 0; i < t.tiles * scratch.elements; ++i)
    memory[i] = std::nan("");  // of lanes without samples, too
  for (std::int64_t i = 0; i < count; ++i) totals[i] = 0;
  TrainMinibatch<double, Dense, PpoLoss<double>, Block> train;
  train.network = t.network;
  train.scratch = scratch;
  train.loss = t.train.loss;
  train.parameters = t.train.parameters;
  train.memory = memory.data();
  train.blocks = t.train.blocks;
  std::vector<std::int32_t> first_step(t.tiles, 0);
  t.train.order = train.order = first_step.data();
  train.tiles = t.train.tiles;
  train.envs = t.train.envs;
  train.first_state = t.train.first_state;
  train.deal = t.train.deal;
  train.scale = t.train.scale;
  train.totals = totals.data();
  t.loss();
  for (int tile = 0; tile < t.tiles; ++tile) train(TileTeam(), tile, 0);
  BlockGradient<double, Block> gradient;
  gradient.network = t.network;
  gradient.scratch = scratch;
  gradient.memory = memory.data();
  gradient.inputs = train.input_of(0);
  gradient.next_input = t.layout.elements * 32;
  gradient.next_step = t.tiles * gradient.next_input;
  gradient.tiles = t.tiles;
  gradient.steps = train.deal.steps;
  gradient.samples = {.block = Block, .samples = t.envs, .first = 0, .maps = 1};
  gradient.totals = totals.data();
  gradient.inexact = totals.data() + count - 1;
  Buffer<double> panels(1 + BlockGradient<double, Block>::panel_elements(t.tiles, t.horizon));
  gradient.panels = panels.data();
  for (std::int64_t item = 0; item < gradient.items(); ++item) gradient(TileTeam(), item, 0);
  int wrong = 0;
  for (std::int64_t i = 0; i < count; ++i)
    if (!(std::abs(totals[i] - t.totals[i]) <= 1e-10) && ++wrong <= 3)
      ADD_FAILURE() << "total " << i << " by blocks of " << Block << ": " << totals[i] << ", by tiles "
                    << t.totals[i];
  EXPECT_EQ(wrong, 0);
}
TEST(TrainMinibatch, BlocksSumUpToTiles) {
  for (const auto& [name, config] : kinds_of_networks()) {
    SCOPED_TRACE(name);
    Training t(config);
    compare_with_tiles<8, LaneDense>(t);
    compare_with_tiles<2, LaneDense>(t);
#ifndef MANIPLE_SCALAR_LANES
    compare_with_tiles<8, WideDense>(t);
#endif
  }
}

// The entropy that squashed actions are given credit for: its mean over many draws is the integral of -p ln
// p, with p the density of tanh(u).
TEST(Losses, EntropyOfSquashedActionsIsThatOfTheirDensity) {
  const double mean[1] = {0.4}, log_std[1] = {std::log(0.7)}, nothing[1] = {0};
  LossSettings settings;
  settings.squash_actions = true;
  double found = 0;
  constexpr int draws = 20000;
  for (int i = 0; i < draws; ++i) {
    // the quantiles of the normal distribution, by bisection
    const double p = (i + 0.5) / draws;
    double low = -9, high = 9;
    while (high - low > 1e-12)
      (std::erfc(-(low + high) / 2 / std::sqrt(2.0)) / 2 < p ? low : high) = (low + high) / 2;
    double a[1] = {0}, m[1] = {mean[0]}, old[1] = {0}, deltas[3] = {}, value_delta = 0,
           metrics[kNumLossMetrics] = {};
    const LossOperands<double> x{{a, 1}, {old, 1}, {m, 1}, 0, 0, 0, 0, 0, {log_std, {}}, {nothing, {}}};
    ppo_loss<double>(settings, 1, x, [&](int) { return low; }, true, 1.0, {deltas, 1}, value_delta,
                     {deltas + 1, 1}, {metrics, 1});
    found += metrics[kEntropy] / draws;
  }
  double expected = 0;
  constexpr int points = 400000;
  for (int i = 0; i < points; ++i) {
    const double y = -1 + (i + 0.5) * 2.0 / points, u = std::atanh(y), z = (u - mean[0]) / 0.7;
    const double p = std::exp(-0.5 * z * z) / (0.7 * std::sqrt(2 * M_PI)) / (1 - y * y);
    if (p > 0) expected -= p * std::log(p) * 2.0 / points;
  }
  EXPECT_NEAR(found, expected, 2e-4);
}

// Half the squared distance of the actor's output from the stored action: a loss without parameters of its
// own, which asks nothing of the critic.
struct SquaredError {
  static constexpr int num_metrics = 1;
  SampleLayout layout;
  ParameterRange own_parameters(const Network&) const { return {}; }
  template <class V>
  void operator()(const Network& network, const double*, std::int64_t, const SampleView<V>& view,
                  MaskOf<V> real, double scale) const {
    for (int k = 0; k < network.actor.units; ++k) {
      const V error = view.output[network.actor.first + k] - view.stored[layout.action + k];
      view.delta[network.actor.first + k] = select(real, V(scale) * error, V(0.0));
      view.metrics[0] += select(real, V(0.5) * error * error, V(0.0));
    }
    view.delta[network.critic.first] = V(0.0);
  }
  void after(const TileTeam&, const Network&, const double*, std::int64_t) const {}
};

// The actor's head for one sample, whose observations lie 32 numbers apart, in plain loops.
std::vector<double> actor_output(const Network& network, const double* parameters,
                                 const double* observation) {
  std::vector<double> units(static_cast<std::size_t>(network.units));
  for (int l = 0; l < network.num_layers; ++l) {
    const DenseLayer& layer = network.layers[l];
    for (int o = 0; o < layer.outputs; ++o) {
      double sum = parameters[layer.bias + o];
      for (int i = 0; i < layer.inputs; ++i)
        sum += parameters[layer.weight + o * layer.stride() + i] *
               (layer.source < 0 ? observation[i * 32] : units[static_cast<std::size_t>(layer.source + i)]);
      if (layer.activation == Activation::elu) sum = sum > 0 ? sum : std::expm1(sum);
      units[static_cast<std::size_t>(layer.target + o)] = sum;
    }
  }
  return {units.begin() + network.actor.first, units.begin() + network.actor.first + network.actor.units};
}

TEST(TrainMinibatch, TakesAnyLoss) {
  for (const bool shared : {true, false}) {
    const Training t(shared);
    const Network& network = t.network;
    const std::int64_t count = minibatch_totals(network, SquaredError::num_metrics);
    Buffer<double> totals(count);
    TrainMinibatch<double, LaneDense, SquaredError> train;
    train.network = network;
    train.scratch = t.scratch;
    train.loss.layout = t.layout;
    train.parameters = t.parameters.data();
    train.memory = t.memory.data();
    train.blocks = t.blocks.data();
    train.order = t.order.data();
    train.tiles = t.tiles;
    train.envs = t.envs;
    train.deal.num_tiles = t.tiles;
    train.deal.horizon = t.horizon;
    train.scale = 1.0 / (t.envs * t.horizon);
    train.exact = false;
    train.totals = totals.data();
    const auto loss = [&] {
      for (std::int64_t i = 0; i < count; ++i) totals[i] = 0;
      for (int tile = 0; tile < t.tiles; ++tile) train(TileTeam(), tile, 0);
      return totals[network.parameters];
    };
    // the metric by hand
    double expected = 0;
    for (int step = 0; step < t.horizon; ++step)
      for (int env = 0; env < t.envs; ++env) {
        const double* block =
            t.blocks.data() + (step * t.tiles + env / 32) * t.layout.elements * 32 + env % 32;
        if (block[t.layout.weight * 32] == 0) continue;
        const std::vector<double> mean = actor_output(network, t.parameters.data(), block);
        for (int k = 0; k < 2; ++k) {
          const double error = mean[static_cast<std::size_t>(k)] - block[(t.layout.action + k) * 32];
          expected += 0.5 * error * error / (t.envs * t.horizon);
        }
      }
    EXPECT_NEAR(loss(), expected, 1e-12);
    const std::vector<double> gradient(totals.data(), totals.data() + network.parameters);
    int used = 0;
    for (int i = 0; i < network.parameters; ++i) {
      constexpr double h = 1e-6;
      const double kept = t.parameters[i];
      t.parameters[i] = kept + h;
      const double up = loss();
      t.parameters[i] = kept - h;
      const double down = loss();
      t.parameters[i] = kept;
      EXPECT_NEAR(gradient[static_cast<std::size_t>(i)], (up - down) / (2 * h), 2e-8) << i;
      used += gradient[static_cast<std::size_t>(i)] != 0.0;
    }
    EXPECT_GT(used, 50);
  }
}

TEST(TrainMinibatch, PaddedEnvironmentsCountNothing) {
  Training t(true);
  const double loss = t.loss();
  const std::vector<double> before(t.totals.data(),
                                   t.totals.data() + minibatch_totals(t.network, kNumLossMetrics));
  // environment 45 is lane 13 of the second tile
  for (int step = 0; step < t.horizon; ++step)
    for (int element = 3; element < t.layout.elements; ++element)
      for (int lane = 13; lane < 32; ++lane)
        t.blocks[((step * t.tiles + 1) * t.layout.elements + element) * 32 + lane] = 1e30;
  EXPECT_EQ(t.loss(), loss);
  for (int i = 0; i < minibatch_totals(t.network, kNumLossMetrics); ++i) EXPECT_EQ(t.totals[i], before[i]);
}

TEST(TrainMinibatch, SamplesWithoutWeightCountNothing) {
  Training t(false);
  const auto set = [&](int first, int last, double value) {
    for (int step = 0; step < t.horizon; ++step)
      for (int element = first; element < last; ++element)
        for (const int lane : {0, 7, 31})
          t.blocks[(step * t.tiles * t.layout.elements + element) * 32 + lane] = value;
  };
  const double all = t.loss();
  set(t.layout.weight, t.layout.weight + 1, 0);
  const double loss = t.loss();
  EXPECT_NE(loss, all);
  const std::vector<double> before(t.totals.data(),
                                   t.totals.data() + minibatch_totals(t.network, kNumLossMetrics));
  set(3, t.layout.weight, 1e30);
  EXPECT_EQ(t.loss(), loss);
  for (int i = 0; i < minibatch_totals(t.network, kNumLossMetrics); ++i) EXPECT_EQ(t.totals[i], before[i]);
}

// Any number of minibatches takes every step of every tile once, in equal parts, and counts its samples.
TEST(MinibatchDeal, TakesEverySampleOnce) {
  for (const auto& [tiles, horizon, minibatches] : std::vector<std::array<int, 3>>{
           {7, 10, 4}, {7, 10, 10}, {7, 3, 5}, {8, 2, 16}, {128, 5, 32}, {1, 4, 4}}) {
    MinibatchDeal deal;
    deal.num_tiles = tiles;
    deal.horizon = horizon;
    deal.minibatches = minibatches;
    deal.spread = tiles == 8 ? 5 : tiles == 128 ? 79 : tiles == 7 ? 4 : 1;
    deal.rotation = 3 % tiles;
    const std::int64_t envs = tiles * 32 - 9;
    std::vector<std::int64_t> samples(static_cast<std::size_t>(minibatches), 0);
    for (int tile = 0; tile < tiles; ++tile)
      for (int position = 0; position < horizon; ++position) {
        int taken = 0;
        for (int m = 0; m < minibatches; ++m) {
          if (!deal.takes(m, tile, position)) continue;
          ++taken;
          samples[static_cast<std::size_t>(m)] += tile == tiles - 1 ? 23 : 32;
        }
        EXPECT_EQ(taken, 1);
      }
    for (int m = 0; m < minibatches; ++m) {
      EXPECT_EQ(deal.samples(m, envs), samples[static_cast<std::size_t>(m)]);
      EXPECT_GT(samples[static_cast<std::size_t>(m)], 0);
    }
  }
}

TEST(TrainMinibatch, ReferenceMovesOnRequest) {
  Training t(true);
  t.train.loss.move_reference = true;
  t.loss();
  const double kl_from_rollout = t.totals[t.network.parameters + kKl];
  EXPECT_GT(kl_from_rollout, 0.01);
  t.loss();
  EXPECT_NEAR(t.totals[t.network.parameters + kKl], 0.0, 1e-12) << "the same policy twice";
}

TEST(TrainMinibatch, TotalsAreWholeQuanta) {
  Training t(true);
  const std::int64_t count = minibatch_totals(t.network, kNumLossMetrics);
  t.loss();
  const auto fractions = [&] {
    int found = 0;
    for (int i = 0; i < count; ++i) {
      const double quanta = std::ldexp(t.totals[i], kExactBits);
      found += quanta != std::nearbyint(quanta);
    }
    return found;
  };
  EXPECT_GT(fractions(), 50) << "the fast form does not round";
  for (int i = 0; i < count; ++i) t.totals[i] = 0;
  t.train.exact = true;
  for (int tile = 0; tile < t.tiles; ++tile) t.train(TileTeam(), tile, 0);
  EXPECT_EQ(fractions(), 0);
}

TEST(TrainMinibatch, TooLargeSumsAreCounted) {
  Training t(true);
  for (int i = 0; i < t.tiles * t.horizon * t.layout.elements * 32; ++i)
    if (i / 32 % t.layout.elements == t.layout.target) t.blocks[i] = 1e6;
  const std::int64_t count = minibatch_totals(t.network, kNumLossMetrics);
  for (int i = 0; i < count; ++i) t.totals[i] = 0;
  t.train.exact = true;
  for (int tile = 0; tile < t.tiles; ++tile) t.train(TileTeam(), tile, 0);
  EXPECT_GT(t.totals[count - 1], 0.0);
}

TEST(MinibatchOrder, IsAPermutationDealtEvenly) {
  constexpr int horizon = 10;
  std::int32_t order[horizon], other[horizon];
  std::vector<int> first(horizon, 0);
  for (int tile = 0; tile < 2000; ++tile) {
    minibatch_order(3, tile, 7, 2, horizon, order);
    std::vector<int> seen(horizon, 0);
    for (const int step : order) ++seen[static_cast<std::size_t>(step)];
    for (const int count : seen) EXPECT_EQ(count, 1);
    ++first[static_cast<std::size_t>(order[0])];
  }
  // every step comes first about equally often: 200 expected, six standard deviations allowed
  for (const int count : first) EXPECT_NEAR(count, 200, 6 * 13.4);
  // tiles, epochs, iterations and seeds differ
  const auto differs = [&](std::uint32_t seed, std::int64_t tile, std::uint32_t iteration, int epoch) {
    minibatch_order(3, 5, 7, 2, horizon, order);
    minibatch_order(seed, tile, iteration, epoch, horizon, other);
    return !std::equal(order, order + horizon, other);
  };
  EXPECT_FALSE(differs(3, 5, 7, 2));
  EXPECT_TRUE(differs(4, 5, 7, 2));
  EXPECT_TRUE(differs(3, 6, 7, 2));
  EXPECT_TRUE(differs(3, 5, 8, 2));
  EXPECT_TRUE(differs(3, 5, 7, 3));
}

}  // namespace
}  // namespace maniple
#endif
