// A policy by itself: its parameters and how they are drawn, what its critic sees, values in new units, the
// moments of observations, and schedules of its learning rate.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/config/schema.hpp"
#include "src/learning/initial_parameters.hpp"
#include "src/learning/policy.hpp"
#include "src/learning/policy_network.hpp"
#include "src/learning/ppo.hpp"
#include "src/learning/schedule.hpp"
#include "tests/unit/learning/network_by_hand.hpp"
#include "tests/unit/learning/toy_environment.hpp"

namespace maniple {
namespace {

using testing::host_of;
using testing::shared_numbers;
using testing::shared_tiles;
using testing_learning::toy_config;
using testing_learning::ToyEnvironment;

// What the policy gives for one tile of observations, into the block of samples.
void act_without_noise(Policy& policy, float* block, const TiledView<float>& observation,
                       const TiledView<float>& critic_observation = {}) {
  auto act = policy.actor<LaneDense>(1);
  act.observation = observation;
  act.critic_observation = critic_observation;
  act.blocks = block;
  act.deterministic = true;
  act.envs = 32;
  for_tiles("maniple::act", 1, 1, act);
  Kokkos::fence();
}

// The closed form for two layers of 50000 units: more parameters than an int counts.
TEST(Networks, CountParametersIn64Bits) {
  PolicyConfig config;
  config.hidden = {50000, 50000};
  config.shared = true;
  const Network network = make_network(config, {4, 0, 1}, 256);
  EXPECT_EQ(network.parameters,
            std::int64_t{50000} * 16 + 50000 + std::int64_t{50000} * 50000 + 50000 + 2 * 50000 + 16 + 16);
  EXPECT_EQ(network.layers[2].weight, std::int64_t{50000} * 16 + 50000 + std::int64_t{50000} * 50000 + 50000);
  EXPECT_EQ(network.log_std, network.parameters - 16);
  config.hidden.assign(7, 65536);
  config.shared = false;
  EXPECT_GT(make_network(config, {4, 0, 1}, 256).parameters, 12 * (std::int64_t{1} << 32));
  Config large;
  large.policy.hidden = {50000, 50000};
  large.policy.shared = true;
  large.batch.num_envs = 1024;
  const LearnerMemory memory =
      Ppo::memory(large, {.observations = 4, .actions = 1, .reward_terms = 2, .tiles = 32});
  // parameter, two moments and a gradient of each tile that is at work in single precision, the sum in double
  const double tiles_at_work = kScalarLanes ? 32 : 1;
  EXPECT_NEAR(static_cast<double>(memory.network_bytes) / static_cast<double>(network.parameters),
              20 + 4 * tiles_at_work, 0.1);
}

// A critic with observations of its own sees those alone, the actor what is the policy's.
TEST(Policy, TheCriticSeesItsOwnObservations) {
  const Config config = toy_config(32);
  Policy policy(config, {2, 3, 1});
  const auto observation = shared_tiles<float>("observation", 1, 2),
             critic = shared_tiles<float>("critic", 1, 3);
  const auto blocks =
      shared_numbers<float>("blocks", static_cast<std::size_t>(policy.layout().elements) * kTileWidth);
  const auto outputs = [&] {
    act_without_noise(policy, blocks.data(), observation, critic);
    return std::pair(blocks.data()[policy.layout().mean * kTileWidth + 5],
                     blocks.data()[policy.layout().value * kTileWidth + 5]);
  };
  const auto [mean, value] = outputs();
  observation.at(5, 1) = 1.5f;
  const auto [moved_mean, same_value] = outputs();
  EXPECT_NE(moved_mean, mean);
  EXPECT_EQ(same_value, value);
  critic.at(5, 2) = 1.5f;
  const auto [same_mean, moved_value] = outputs();
  EXPECT_EQ(same_mean, moved_mean);
  EXPECT_NE(moved_value, value);
  Config shared = config;
  shared.policy.shared = true;
  EXPECT_THROW(make_network(shared, {2, 3, 1}), InputError);
}

// The critic's last layer follows the normalization of values, and what it gives stays.
TEST(Policy, RescaledValuesAreTheOldOnes) {
  for (const bool shared : {false, true}) {
    Config config = toy_config(32);
    config.policy.shared = shared;
    Policy policy(config, {2, 0, 1});
    const auto observation = shared_tiles<float>("observation", 1, 2);
    for (int env = 0; env < 32; ++env) {
      observation.at(env, 0) = 0.1f * static_cast<float>(env - 16);
      observation.at(env, 1) = 0.5f;
    }
    const auto blocks =
        shared_numbers<float>("blocks", static_cast<std::size_t>(policy.layout().elements) * kTileWidth);
    const auto outputs = [&](int element) {
      act_without_noise(policy, blocks.data(), observation);
      const float* first = blocks.data() + element * kTileWidth;
      return std::vector<float>(first, first + kTileWidth);
    };
    const std::vector<float> values = outputs(policy.layout().value), means = outputs(policy.layout().mean);
    policy.rescale_values(0.5, 3.0);
    const std::vector<float> rescaled = outputs(policy.layout().value);
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(rescaled[i], 0.5f * values[i] + 3.0f, 1e-6f);
    EXPECT_EQ(outputs(policy.layout().mean), means);
  }
}

TEST(Policy, OrthogonalLayersHaveTheirGains) {
  Config config = toy_config(32);
  for (const bool shared : {false, true}) {
    config.policy.shared = shared;
    config.policy.hidden = {40, 20};
    const Network network = make_network(config.policy, {30, 0, 3}, 256);
    const std::vector<float> parameters = initial_parameters(network, config.policy, 4);
    for (int l = 0; l < network.num_layers; ++l) {
      const DenseLayer& layer = network.layers[l];
      const auto weight = [&](int o, int i) {
        return static_cast<double>(
            parameters[static_cast<std::size_t>(layer.weight + o * layer.stride() + i)]);
      };
      const auto gain = [&](int o) {
        const int unit = layer.target + o;
        if (unit == network.critic.first) return config.policy.critic_gain;
        return unit >= network.actor.first && unit < network.actor.first + 3 ? config.policy.actor_gain
                                                                             : config.policy.hidden_gain;
      };
      const bool tall = layer.outputs > layer.inputs;
      const int count = tall ? layer.inputs : layer.outputs, length = tall ? layer.outputs : layer.inputs;
      const auto at = [&](int k, int i) { return tall ? weight(i, k) / gain(i) : weight(k, i) / gain(k); };
      double largest = 0;
      for (int a = 0; a < count; ++a)
        for (int b = 0; b < count; ++b) {
          double product = 0;
          for (int i = 0; i < length; ++i) product += at(a, i) * at(b, i);
          EXPECT_NEAR(product, a == b ? 1 : 0, 2e-6) << l;
          largest = std::max(largest, std::abs(at(a, b)));
        }
      EXPECT_LT(largest, 0.95);  // not the unit matrix
    }
  }
}

TEST(Policy, InitialParametersAreSpreadAsPublished) {
  PolicyConfig config;
  config.initialization = Initialization::uniform;
  const Network network = make_network(config, {4, 0, 1}, 256);
  const std::vector<float> parameters = initial_parameters(network, config, 1);
  for (int l = 0; l < network.num_layers; ++l) {
    const DenseLayer& layer = network.layers[l];
    const float bound = 1 / std::sqrt(static_cast<float>(layer.inputs));
    float largest = 0;
    for (int o = 0; o < layer.outputs; ++o) {
      EXPECT_EQ(parameters[static_cast<std::size_t>(layer.bias + o)], 0.0f);
      for (int i = 0; i < layer.stride(); ++i) {
        const float w = parameters[static_cast<std::size_t>(layer.weight + o * layer.stride() + i)];
        if (i >= layer.inputs) {
          EXPECT_EQ(w, 0.0f);
        }
        EXPECT_LE(std::abs(w), bound);
        largest = std::max(largest, std::abs(w));
      }
    }
    EXPECT_GT(largest, 0.9f * bound);
  }
  EXPECT_NE(parameters, initial_parameters(network, config, 2));
}

TEST(Schedule, FollowsTheDivergence) {
  LearningConfig config;
  config.desired_kl = 0.01;
  EXPECT_DOUBLE_EQ(scheduled_learning_rate(config, 3e-4, 0.021), 2e-4);
  EXPECT_DOUBLE_EQ(scheduled_learning_rate(config, 3e-4, 0.004), 4.5e-4);
  EXPECT_DOUBLE_EQ(scheduled_learning_rate(config, 3e-4, 0.01), 3e-4);
  EXPECT_DOUBLE_EQ(scheduled_learning_rate(config, 1e-6, 1.0), 1e-6);
  EXPECT_DOUBLE_EQ(scheduled_learning_rate(config, 9e-3, 0.0), 1e-2);
  config.schedule = RateSchedule::fixed;
  EXPECT_DOUBLE_EQ(scheduled_learning_rate(config, 3e-4, 1.0), 3e-4);
}

TEST(ObservationNormalizer, MergesBatchesLikeOneBatch) {
  ObservationNormalizer normalizer(1);
  std::vector<double> all{0};
  double start_square = 1;  // it starts as one observation at 0 with variance 1
  std::vector<float> mean{0}, scale{1};
  int seed = 1;
  for (const int count : {5, 40, 3}) {
    double z = 0, z2 = 0;
    for (int i = 0; i < count; ++i) {
      const double x = 3 + std::sin(1.7 * seed++);
      all.push_back(x);
      const double n = (x - static_cast<double>(mean[0])) * static_cast<double>(scale[0]);
      z += n / count;
      z2 += n * n / count;
    }
    normalizer.merge({z}, {z2}, count, mean, scale);
    mean[0] = static_cast<float>(normalizer.mean[0]);
    scale[0] = static_cast<float>(1 / std::sqrt(normalizer.variance[0]));
  }
  double expected = 0, variance = start_square / 49;
  for (const double x : all) expected += x / 49;
  for (const double x : all) variance += (x - expected) * (x - expected) / 49;
  EXPECT_NEAR(normalizer.mean[0], expected, 1e-12);
  EXPECT_NEAR(normalizer.variance[0], variance, 1e-12);
  EXPECT_EQ(normalizer.count, 49);
}

}  // namespace
}  // namespace maniple
