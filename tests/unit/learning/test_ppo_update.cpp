// Rollouts and updates of PPO against plain loops in double precision: what recurrent cells remember, and the
// update of CleanRL.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/learning/initial_parameters.hpp"
#include "src/learning/policy_network.hpp"
#include "tests/unit/learning/network_by_hand.hpp"
#include "tests/unit/learning/ppo_runs.hpp"

namespace maniple {
namespace {

using testing::host_of;
using testing_learning::configs_of_networks;
using testing_learning::on_ranks;
using testing_learning::reported;
using testing_learning::toy_config;
using testing_learning::ToyEnvironment;

// A memory sees in learning what it saw in the rollout: before the first step the policy is the one that
// acted, across the ends of episodes and of rollouts; and a time-out is valued with what the episode
// remembers.
TEST(Ppo, RecurrentPoliciesLearnFromWhatTheyRemembered) {
  Config config = configs_of_networks(70)[1];
  config.learning.minibatches = config.learning.epochs = 1;
  config.policy.actor_gain = 1;
  on_ranks(1, [&](int, Collectives& collectives) {
    ToyEnvironment environment(config);
    Ppo ppo(environment, config, collectives);
    ppo.start();
    for (int i = 0; i < 5; ++i) EXPECT_NEAR(reported(ppo.iterate(), "kl"), 0, 3e-7) << i;
  });

  config.learning.horizon = 33;  // episodes of 20 steps
  ToyEnvironment environment(config);
  Policy policy(config, policy_sizes(environment));
  StageClock clock;
  clock.add("policy", 0.0);
  RolloutStorage rollout(environment, config, policy, 1);
  environment.reset();
  rollout.collect(policy, 0, clock, [] {});
  const SampleLayout& layout = rollout.layout();
  const std::vector<float> on_host = host_of(policy.parameters());
  const std::vector<double> parameters(on_host.begin(), on_host.begin() + policy.network().parameters);
  const std::vector<float> blocks =
      host_of(rollout.blocks(), static_cast<std::size_t>(33 * 3 * layout.elements * 32));
  int cut = 0;
  for (int env = 0; env < 70; ++env) {
    std::vector<double> state(12);
    for (int step = 0; step < 33; ++step) {
      const float* block = blocks.data() + (step * 3 + env / 32) * layout.elements * 32 + env % 32;
      const auto stored = [&](int element) { return static_cast<double>(block[element * 32]); };
      const auto heads = [&](double x) {
        return testing_learning::heads_by_hand(config.policy, policy.network(), parameters.data(), {x, 0.5},
                                               state);
      };
      const testing_learning::Heads found = heads(stored(0));
      EXPECT_NEAR(stored(layout.mean), found.mean[0], 1e-5);
      EXPECT_NEAR(stored(layout.value), found.value, 1e-5);
      if (stored(layout.cut) != 0) {
        ++cut;
        EXPECT_NEAR(stored(layout.bootstrap), heads(stored(0) + 0.2 * stored(layout.action)).value, 1e-5);
      }
      if (stored(layout.done) != 0) state.assign(12, 0.0);
    }
  }
  EXPECT_GT(cut, 20);
}

// What CleanRL's ppo_continuous_action.py makes of a rollout, written out in plain loops and double
// precision: two networks of tanh layers, one optimizer.
struct CleanRl {
  const Network& network;
  const LearningConfig& learning;
  std::vector<double> parameters, gradient, moment1, moment2;
  int steps = 0;

  CleanRl(const Network& of, const LearningConfig& settings, const std::vector<float>& initial)
      : network(of),
        learning(settings),
        parameters(initial.begin(), initial.end()),
        gradient(initial.size()),
        moment1(initial.size()),
        moment2(initial.size()) {}

  double& at(std::vector<double>& of, std::int64_t i) const { return of[static_cast<std::size_t>(i)]; }
  // Activations of the layers [first, last) for an input, the input first.
  std::vector<std::vector<double>> forward(int first, int last, const std::vector<double>& input) {
    std::vector<std::vector<double>> units{input};
    for (int l = first; l < last; ++l) {
      const Layer& layer = network.layers[l];
      std::vector<double> y;
      for (int o = 0; o < layer.outputs; ++o) {
        double sum = at(parameters, layer.bias + o);
        for (int i = 0; i < layer.inputs; ++i)
          sum += at(parameters, layer.weight + o * layer.stride() + i) *
                 units.back()[static_cast<std::size_t>(i)];
        y.push_back(l + 1 < last ? std::tanh(sum) : sum);
      }
      units.push_back(y);
    }
    return units;
  }
  void backward(int first, int last, const std::vector<std::vector<double>>& units,
                std::vector<double> delta) {
    for (int l = last - 1; l >= first; --l) {
      const Layer& layer = network.layers[l];
      const std::vector<double>& x = units[static_cast<std::size_t>(l - first)];
      std::vector<double> below(x.size());
      for (int o = 0; o < layer.outputs; ++o) {
        const double d = delta[static_cast<std::size_t>(o)];
        at(gradient, layer.bias + o) += d;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::int64_t w = layer.weight + o * layer.stride() + static_cast<std::int64_t>(i);
          at(gradient, w) += d * x[i];
          below[i] += d * at(parameters, w) * (1 - x[i] * x[i]);
        }
      }
      delta = below;
    }
  }
  void adam() {
    double squares = 0;
    for (const double g : gradient) squares += g * g;
    const double scale = std::min(1.0, learning.max_grad_norm / (std::sqrt(squares) + 1e-6));
    ++steps;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const double g = scale * gradient[i];
      moment1[i] = 0.9 * moment1[i] + 0.1 * g;
      moment2[i] = 0.999 * moment2[i] + 0.001 * g * g;
      parameters[i] -= learning.learning_rate * moment1[i] / (1 - std::pow(0.9, steps)) /
                       (std::sqrt(moment2[i] / (1 - std::pow(0.999, steps))) + 1e-5);
      gradient[i] = 0;
    }
  }
};

TEST(Ppo, AnIterationIsCleanRlsUpdate) {
  for (const int minibatches : {4, 15}) {
    Config config = toy_config(96);
    config.policy.hidden = {8, 8};
    LearningConfig& learning = config.learning;
    learning.minibatches = minibatches;
    learning.schedule = RateSchedule::fixed;
    learning.normalize_advantage_per_minibatch = learning.clip_value = true;
    learning.normalize_value = false;
    learning.value_coef = learning.max_grad_norm = 0.5;
    learning.lambda = 0.95;
    learning.value_bootstrap = BootstrapChoice::none;
    learning.clip_ratio = 0.02;  // so that samples meet it
    on_ranks(1, [&](int, Collectives& collectives) {
      ToyEnvironment environment(config), again(config);
      Ppo ppo(environment, config, collectives);
      ppo.start();
      EXPECT_GT(reported(ppo.iterate(), "clip_fraction"), 0.05);

      // the same rollout once more
      Policy policy(config, policy_sizes(again));
      StageClock clock;
      clock.add("policy", 0.0);
      RolloutStorage rollout(again, config, policy, 1);
      again.reset();
      rollout.collect(policy, 0, clock, [] {});
      const SampleLayout& layout = rollout.layout();
      const int horizon = learning.horizon, tiles = 3, envs = 96;
      const std::vector<float> blocks =
          host_of(rollout.blocks(), static_cast<std::size_t>(horizon * tiles * layout.elements * 32));
      const auto stored = [&](int element, int step, int env) {
        return static_cast<double>(blocks[static_cast<std::size_t>(
            ((step * tiles + env / 32) * layout.elements + element) * 32 + env % 32)]);
      };
      const Network& network = policy.network();
      CleanRl agent(network, learning, initial_parameters(network, config.policy, config.batch.seed));
      std::vector<std::vector<double>> advantages(static_cast<std::size_t>(horizon), std::vector<double>(96)),
          returns = advantages;
      for (int env = 0; env < envs; ++env) {
        double next =
            agent.forward(3, 6, {static_cast<double>(again.observation().at(env, 0)), 0.5}).back()[0];
        double last = 0;
        for (int t = horizon - 1; t >= 0; --t) {
          const double on = 1 - stored(layout.done, t, env), value = stored(layout.value, t, env);
          const double delta = stored(layout.reward, t, env) + learning.gamma * next * on - value;
          last = delta + learning.gamma * learning.lambda * on * last;
          advantages[static_cast<std::size_t>(t)][static_cast<std::size_t>(env)] = last;
          returns[static_cast<std::size_t>(t)][static_cast<std::size_t>(env)] = last + value;
          next = value;
        }
      }
      for (int epoch = 0; epoch < learning.epochs; ++epoch) {
        const MinibatchDeal deal = rollout.deal_minibatches(0, epoch, minibatches);
        const std::vector<std::int32_t> order =
            host_of(rollout.order(), static_cast<std::size_t>(tiles * horizon));
        for (int m = 0; m < minibatches; ++m) {
          std::vector<std::pair<int, int>> indices;  // step, environment
          for (int env = 0; env < envs; ++env)
            for (int position = 0; position < horizon; ++position)
              if (deal.takes(m, env / 32, position))
                indices.emplace_back(order[static_cast<std::size_t>(env / 32 * horizon + position)], env);
          const auto count = static_cast<double>(indices.size());
          double mean = 0, variance = 0;
          const auto advantage = [&](const std::pair<int, int>& i) {
            return advantages[static_cast<std::size_t>(i.first)][static_cast<std::size_t>(i.second)];
          };
          for (const auto& i : indices) mean += advantage(i) / count;
          for (const auto& i : indices) variance += std::pow(advantage(i) - mean, 2) / (count - 1);
          for (const auto& i : indices) {
            const auto [t, env] = i;
            const std::vector<double> seen{stored(0, t, env), stored(1, t, env)};
            const auto actor = agent.forward(0, 3, seen), critic = agent.forward(3, 6, seen);
            const double log_std = agent.at(agent.parameters, network.log_std), std = std::exp(log_std);
            const double z = (stored(layout.action, t, env) - actor.back()[0]) / std;
            const double log_prob = -0.5 * z * z - log_std - 0.5 * std::log(2 * M_PI);
            const double ratio = std::exp(log_prob - stored(layout.log_prob, t, env));
            const double a = (advantage(i) - mean) / (std::sqrt(variance) + 1e-8), clip = learning.clip_ratio;
            const double clipped = std::min(std::max(ratio, 1 - clip), 1 + clip);
            // torch.max's gradient; where both are equal the ratio is inside of the clip
            const double by_log_prob = -a * ratio >= -a * clipped ? -a * ratio / count : 0;
            agent.backward(0, 3, actor, {by_log_prob * z / std});
            agent.at(agent.gradient, network.log_std) += by_log_prob * (z * z - 1);
            const double value = critic.back()[0], old = stored(layout.value, t, env);
            const double target = returns[static_cast<std::size_t>(t)][static_cast<std::size_t>(env)];
            const double moved = old + std::min(std::max(value - old, -clip), clip);
            const bool inside = std::abs(value - old) <= clip;
            const double by_value = std::pow(value - target, 2) >= std::pow(moved - target, 2)
                                        ? value - target
                                        : (inside ? moved - target : 0);
            agent.backward(3, 6, critic, {learning.value_coef * by_value / count});
          }
          agent.adam();
        }
      }
      const auto found = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), ppo.policy()->parameters());
      double moved = 0;
      const std::vector<float> initial = initial_parameters(network, config.policy, config.batch.seed);
      for (std::size_t i = 0; i < agent.parameters.size(); ++i) {
        EXPECT_NEAR(static_cast<double>(found(i)), agent.parameters[i], 1e-5) << i;
        moved = std::max(moved, std::abs(agent.parameters[i] - static_cast<double>(initial[i])));
      }
      EXPECT_GT(moved, 1e-3);
    });
  }
}

}  // namespace
}  // namespace maniple
