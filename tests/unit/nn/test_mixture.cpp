// The mixture head and the losses of behaviour cloning: likelihoods and squared errors in plain loops, all
// gradients by finite differences in double precision, through recurrent networks, too, and draws by their
// frequencies and moments.
#include "kernels/base/macros.hpp"

#ifndef MANIPLE_SCALAR_LANES
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/nn/cloning_loss.hpp"
#include "src/learning/initial_parameters.hpp"
#include "src/learning/policy_network.hpp"
#include "tests/unit/learning/network_by_hand.hpp"

namespace maniple {
namespace {

using Numbers = Kokkos::View<double*, Kokkos::HostSpace>;

PolicyConfig small(const std::function<void(PolicyConfig&)>& change = [](PolicyConfig&) {}) {
  PolicyConfig config;
  config.hidden = {6};
  config.activation = ActivationChoice::elu;
  config.initialization = Initialization::uniform;
  config.std_transform = StdTransform::softplus;
  config.min_std = 0.05;
  config.init_std = 0.4;
  change(config);
  return config;
}

// Demonstrated samples of 3 observations and 2 actions in sequences, and what learning from them needs.
struct Cloning {
  static constexpr int kTiles = 2, kSamples = 45, kActions = 2;
  const PolicyConfig config;
  const int modes, steps;
  const Network network;
  const DemonstratedLayout layout;
  const TileScratch scratch;
  const std::int64_t count;
  Numbers parameters, memory, blocks, totals;
  const TiledView<double> first_state;
  std::vector<std::int32_t> order = std::vector<std::int32_t>(kTiles, 0);
  TrainMinibatch<double, LaneDense, CloneActions<double>> train;

  static PolicySizes sizes(int modes) {
    PolicySizes sizes;
    sizes.observations = 3;
    sizes.actions = kActions;
    sizes.modes = modes;
    sizes.critic = false;
    return sizes;
  }

  Cloning(const PolicyConfig& policy, CloningLoss kind, int modes_)
      : config(policy),
        modes(modes_),
        steps(policy.recurrent == Recurrence::none ? 1 : 3),
        network(make_network(policy, sizes(modes), 1 << 20)),
        layout(network.sizes),
        scratch(network, SampleLayout(network.sizes), 8, minibatch_totals(network, kNumCloningMetrics),
                steps),
        count(minibatch_totals(network, kNumCloningMetrics)),
        parameters("parameters", static_cast<std::size_t>(network.parameters)),
        memory("memory", static_cast<std::size_t>(scratch.elements)),
        blocks("blocks", static_cast<std::size_t>(steps * kTiles * layout.elements * kTileWidth)),
        totals("totals", static_cast<std::size_t>(count)),
        first_state("state", kTiles, network.state_units) {
    const std::vector<float> initial = initial_parameters(network, policy, 3);
    std::mt19937_64 generator(7);
    std::uniform_real_distribution<double> draw(-1, 1);
    for (std::size_t i = 0; i < initial.size(); ++i)
      parameters[i] = static_cast<double>(initial[i]) * (initial[i] == 0 ? 0 : 1 + 0.3 * draw(generator));
    Kokkos::deep_copy(memory, std::nan(""));  // whoever reads first, writes
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const int element = static_cast<int>(i / kTileWidth) % layout.elements;
      blocks[i] = element == layout.weight ? 1 : element == layout.done ? 0 : 0.9 * draw(generator);
    }
    train.network = network;
    train.scratch = scratch;
    train.loss = {.layout = layout, .kind = kind, .squash_actions = policy.squash_actions};
    train.parameters = parameters.data();
    train.memory = memory.data();
    train.blocks = blocks.data();
    train.order = order.data();
    train.tiles = train.deal.num_tiles = kTiles;
    train.envs = kSamples;
    train.first_state = first_state;
    train.deal.steps = steps;
    train.scale = 1.0 / (kSamples * steps);
    train.exact = false;
    train.totals = totals.data();
  }
  double loss() {
    Kokkos::deep_copy(totals, 0.0);
    for (int tile = 0; tile < kTiles; ++tile) train(TileTeam(), tile, 0);
    return totals[static_cast<std::size_t>(network.parameters + kCloningLoss)];
  }
  double stored(int step, int sample, int element) const {
    return blocks[static_cast<std::size_t>(
        ((step * kTiles + sample / kTileWidth) * layout.elements + element) * kTileWidth +
        sample % kTileWidth)];
  }

  // What the samples' losses are by their definition: of a mixture -ln sum_m w_m prod_k N(a_k; mean, std).
  double by_hand() const {
    double sum = 0;
    for (int sample = 0; sample < kSamples; ++sample) {
      std::vector<double> state(static_cast<std::size_t>(network.state_units), 0.0);
      for (int step = 0; step < steps; ++step) {
        const std::vector<double> seen{stored(step, sample, 0), stored(step, sample, 1),
                                       stored(step, sample, 2)};
        const std::vector<double> y =
            testing_learning::outputs_by_hand(config, network, parameters.data(), seen, state);
        const auto at = [&](int i) { return y[static_cast<std::size_t>(i)]; };
        double weights = 0, density = 0;
        for (int m = 0; m < modes; ++m) {
          const double weight = std::exp(at(2 * modes * kActions + m));
          weights += weight;
          double product = weight;
          for (int k = 0; k < kActions; ++k) {
            const double x = at(m * kActions + k), mean = config.squash_actions ? std::tanh(x) : x;
            const double raw = std::exp(at((modes + m) * kActions + k));
            const double std =
                config.min_std + (config.std_transform == StdTransform::softplus ? std::log1p(raw) : raw);
            const double z = (stored(step, sample, layout.action + k) - mean) / std;
            product *= std::exp(-0.5 * z * z) / (std * std::sqrt(2 * M_PI));
          }
          density += product;
        }
        sum -= std::log(density / weights) / (kSamples * steps);
      }
    }
    return sum;
  }

  void check_gradient() {
    loss();
    const std::vector<double> gradient(totals.data(), totals.data() + network.parameters);
    int wrong = 0, used = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      constexpr double h = 1e-6;
      const double kept = parameters[i];
      parameters[i] = kept + h;
      const double up = loss();
      parameters[i] = kept - h;
      const double down = loss();
      parameters[i] = kept;
      if (!(std::abs(gradient[i] - (up - down) / (2 * h)) <= 1e-7) && ++wrong <= 3)
        ADD_FAILURE() << "parameter " << i << ": " << gradient[i] << ", by differences "
                      << (up - down) / (2 * h);
      used += gradient[i] != 0.0;
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(used, 60);
  }
};

std::vector<std::pair<std::string, PolicyConfig>> networks() {
  return {{"softplus", small()},
          {"tanh", small([](PolicyConfig& c) { c.squash_actions = true; })},
          {"exp", small([](PolicyConfig& c) { c.std_transform = StdTransform::exp; })},
          {"lstm alone", small([](PolicyConfig& c) {
             c.recurrent = Recurrence::lstm;
             c.recurrent_units = 5;
             c.recurrent_layers = 2;
             c.hidden = {};
             c.squash_actions = true;
           })},
          {"gru", small([](PolicyConfig& c) {
             c.recurrent = Recurrence::gru;
             c.recurrent_units = 4;
           })}};
}

TEST(MixtureLoss, IsTheNegativeLogLikelihood) {
  for (const auto& [name, config] : networks()) {
    SCOPED_TRACE(name);
    for (const int modes : {2, 5}) {
      Cloning cloning(config, CloningLoss::gmm, modes);
      EXPECT_NEAR(cloning.loss(), cloning.by_hand(), 1e-12);
    }
    Cloning cloning(config, CloningLoss::gmm, 3);
    cloning.check_gradient();
  }
}

TEST(CloningLosses, GradientsOfSequencesAreThoseOfTheLoss) {
  for (const Recurrence recurrence : {Recurrence::gru, Recurrence::lstm})
    for (const CloningLoss kind : {CloningLoss::l2, CloningLoss::smooth_l1, CloningLoss::gaussian}) {
      SCOPED_TRACE(text_of(recurrence) + " " + std::to_string(static_cast<int>(kind)));
      Cloning cloning(small([&](PolicyConfig& c) {
                        c.recurrent = recurrence;
                        c.recurrent_units = 5;
                        c.std_transform = StdTransform::exp;
                        c.min_std = 0;
                      }),
                      kind, 0);
      cloning.check_gradient();
    }
}

// Far from all modes single precision still has a likelihood, and a derivative.
TEST(MixtureLoss, HasNoOverflow) {
  const auto at = [](double distance, double std, float* derivative) {
    Network network = make_network(small(), Cloning::sizes(2), 1 << 20);
    std::vector<float> output(static_cast<std::size_t>(network.units), 0.0f), delta(output);
    const auto set = [&](int first, int count, double value) {
      for (int i = 0; i < count; ++i) output[static_cast<std::size_t>(first + i)] = static_cast<float>(value);
    };
    set(network.actor.first, 4, distance);
    set(network.deviation.first, 4, std::log(std));
    set(network.logits.first, 2, -200);
    float action[2] = {0, 0}, squares = 0;
    const float loss = mixture_loss<float>(Mixture<float>(network, {output.data(), 1}, false), {action, 1},
                                           true, 1.0f, {delta.data() + network.actor.first, 1},
                                           {delta.data() + network.deviation.first, 1},
                                           {delta.data() + network.logits.first, 1}, squares);
    *derivative = delta[static_cast<std::size_t>(network.actor.first)];
    return static_cast<double>(loss);
  };
  float derivative = 0;
  EXPECT_NEAR(at(1, 1e-4, &derivative) / (1e8 + 2 * std::log(1e-4) + std::log(2 * M_PI)), 1, 1e-5);
  EXPECT_NEAR(static_cast<double>(derivative) / 0.5e8, 1, 1e-5);
}

// Frequencies of modes, and means and deviations within them, of 32 * 400 draws from one mixture.
TEST(MixtureDraws, HaveTheMixturesMoments) {
  constexpr int kTiles = 400, kModes = 3;
  const PolicyConfig config = small([](PolicyConfig& c) {
    c.hidden = {};
    c.recurrent = Recurrence::gru;
    c.recurrent_units = 1;
  });
  const Network network = make_network(config, Cloning::sizes(kModes), 1 << 20);
  const SampleLayout layout(network.sizes);
  const TileScratch scratch(network, layout, 8, 1);
  Numbers parameters("parameters", static_cast<std::size_t>(network.parameters)),
      memory("memory", static_cast<std::size_t>(scratch.elements));
  Kokkos::deep_copy(parameters, 0.0);
  const Layer& last = network.layers[network.num_layers - 2];  // the deviations come behind
  ASSERT_EQ(last.outputs, 2 * kModes * 2 + kModes);
  const double means[] = {-0.5, 0.1, 0.2, 0.5, 0.9, -0.8}, weights[] = {0.2, 0.5, 0.3};
  const double stds[] = {0.1, 0.05, 0.06, 0.2, 0.1, 0.15};
  for (int i = 0; i < 6; ++i) {
    parameters[static_cast<std::size_t>(last.bias + i)] = std::atanh(means[i]);
    parameters[static_cast<std::size_t>(last.bias + 6 + i)] = std::log(std::expm1(stds[i] - config.min_std));
  }
  for (int m = 0; m < kModes; ++m)
    parameters[static_cast<std::size_t>(last.bias + 12 + m)] = 50 + std::log(weights[m]);
  parameters[static_cast<std::size_t>(last.bias + 7)] =
      -1e3;  // the second deviation is the smallest one: 0.05
  const TiledView<double> observation("observation", kTiles, 3), action("action", kTiles, 2),
      state("state", kTiles, network.state_units);
  Act<double, LaneDense> act;
  act.network = network;
  act.layout = layout;
  act.scratch = scratch;
  act.parameters = parameters.data();
  act.memory = memory.data();
  act.observation = observation;
  act.action = action;
  act.state = state;
  act.squash_actions = true;
  act.seed = 5;
  act.purpose = RandomPurpose::evaluation;
  act.control_step = 12;
  act.envs = kTiles * kTileWidth;
  const auto draw = [&] {
    for (int tile = 0; tile < kTiles; ++tile) act(TileTeam(), tile, 0);
  };
  for (const bool low_noise : {false, true}) {
    SCOPED_TRACE(low_noise);
    act.low_noise = low_noise;
    act.low_noise_log_std = std::log(1e-4);
    draw();
    // (the modes lie apart: whose a draw is, its first component says)
    double number[kModes] = {}, sum[6] = {}, squares[6] = {};
    for (int env = 0; env < act.envs; ++env) {
      const double a = action.at(env, 0), b = action.at(env, 1);
      const int m = b < -0.2 ? 2 : a < -0.15 ? 0 : 1;
      ++number[m];
      for (int k = 0; k < 2; ++k) {
        const double away = (k == 0 ? a : b) - means[2 * m + k];
        sum[2 * m + k] += away;
        squares[2 * m + k] += away * away;
      }
    }
    for (int m = 0; m < kModes; ++m) {
      const auto n = static_cast<double>(act.envs);
      EXPECT_NEAR(number[m] / n, weights[m], 4 * std::sqrt(weights[m] * (1 - weights[m]) / n));
      for (int k = 0; k < 2; ++k) {
        const double std = low_noise ? 1e-4 : stds[2 * m + k];
        EXPECT_NEAR(sum[2 * m + k] / number[m], 0, 5 * std / std::sqrt(number[m]));
        EXPECT_NEAR(std::sqrt(squares[2 * m + k] / number[m]) / std, 1, 0.06);
      }
    }
  }
  // the same draws for the same environments, wherever their tile lies
  const double there = action.at(7 * kTileWidth + 3, 0);
  act.first_env = 7 * kTileWidth;
  act(TileTeam(), 0, 0);
  EXPECT_EQ(action.at(3, 0), there);
  act.deterministic = true;
  draw();
  for (int env = 0; env < act.envs; ++env) {
    ASSERT_NEAR(action.at(env, 0), means[2], 1e-14);
    ASSERT_NEAR(action.at(env, 1), means[3], 1e-14);
  }
}

}  // namespace
}  // namespace maniple
#endif
