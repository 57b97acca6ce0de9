// PPO as a whole on a toy environment: it learns, its bits do not depend on the number of ranks, a
// restart continues with the same bits, and its parts (schedule, normalizer, evaluation) do as told.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/config/schema.hpp"
#include "src/io/checkpoint.hpp"
#include "src/learning/evaluation.hpp"
#include "src/learning/learners.hpp"
#include "src/learning/ppo.hpp"
#include "src/learning/schedule.hpp"
#include "tests/unit/learning/network_by_hand.hpp"
#include "tests/unit/learning/toy_environment.hpp"

namespace maniple {
namespace {

using testing::host_of;
using testing::shared_numbers;
using testing::shared_tiles;
using testing_learning::on_ranks;
using testing_learning::toy_config;
using testing_learning::ToyEnvironment;

// Ranks are threads, which needs an execution space that allows launches from several.
bool threads_can_launch() {
  return std::string(ExecutionSpace::name()) == "Serial";
}

// Networks beyond plain layers, in what they keep and what they sum.
std::vector<Config> configs_of_networks(std::int64_t envs) {
  std::vector<Config> configs(2, toy_config(envs));
  Config& brax = configs[0];
  brax.policy.activation = ActivationChoice::silu;
  brax.policy.layer_norm = brax.policy.state_dependent_std = brax.policy.squash_actions = true;
  brax.policy.std_transform = StdTransform::softplus;
  brax.policy.critic_hidden = {7};
  brax.policy.normalize_observations = true;
  brax.learning.entropy_coef = 0.01;
  brax.learning.kl_reference = KlReference::previous_epoch;
  brax.learning.normalize_advantage_per_minibatch = true;
  Config& recurrent = configs[1];
  recurrent.policy.recurrent = Recurrence::gru;
  recurrent.policy.recurrent_units = 6;
  recurrent.policy.hidden = {8};
  recurrent.learning.minibatches = 2;
  recurrent.learning.normalize_advantage_per_minibatch = true;
  return configs;
}

// Bytes of the memory of kernels that Kokkos has handed out and not taken back, and the most at any time.
std::int64_t held_bytes = 0, most_bytes = 0;
bool is_of_kernels(const Kokkos_Profiling_SpaceHandle& space) {
  return std::string_view(space.name) == MemorySpace::name();
}

// Of a learner's state, without its environments.
std::size_t state_bytes(ToyEnvironment& environment, const Config& config, Collectives& collectives) {
  Ppo ppo(environment, config, collectives);
  Archive all, of_environment;
  ppo.describe(all);
  environment.describe(of_environment);
  const auto bytes = [&](const Archive& archive) {
    std::size_t sum = 0;
    for (const ArchiveEntry& entry : archive.entries()) {
      const std::size_t size = entry.type == ElementType::float64 || entry.type == ElementType::int64 ? 8 : 4;
      const auto envs = static_cast<std::size_t>(environment.partition().tiles * kTileWidth);
      sum += size * (entry.per_env ? envs * entry.tile_elements : entry.elements);
    }
    return sum;
  };
  return bytes(all) - bytes(of_environment);
}

TEST(Ppo, MemoryIsWhatAllocationsTake) {
  std::vector<Config> configs = configs_of_networks(1000);
  for (const std::vector<int>& hidden : {std::vector<int>{16, 8}, {300, 200}})
    for (const Reduction reduction : {Reduction::exact, Reduction::fast}) {
      configs.push_back(toy_config(1000));
      configs.back().policy.hidden = hidden;
      configs.back().learning.reduction = reduction;
      configs.back().learning.normalize_reward = true;
    }
  for (const Config& config : configs) {
    on_ranks(1, [&](int, Collectives& collectives) {
      ToyEnvironment environment(config);
      namespace Tools = Kokkos::Tools::Experimental;
      const Tools::EventSet before = Tools::get_callbacks();
      held_bytes = most_bytes = 0;
      Tools::set_allocate_data_callback(
          [](Kokkos_Profiling_SpaceHandle space, const char*, const void*, std::uint64_t size) {
            if (!is_of_kernels(space)) return;
            held_bytes += static_cast<std::int64_t>(size);
            most_bytes = std::max(most_bytes, held_bytes);
          });
      Tools::set_deallocate_data_callback(
          [](Kokkos_Profiling_SpaceHandle space, const char*, const void*, std::uint64_t size) {
            if (is_of_kernels(space)) held_bytes -= static_cast<std::int64_t>(size);
          });
      {
        Ppo ppo(environment, config, collectives);
        ppo.start();
        ppo.iterate();
      }
      Tools::set_callbacks(before);
      const std::size_t kept = state_bytes(environment, config, collectives);
      const LearnerMemory memory = learner_of(config).memory(
          config, {.observations = environment.num_observations(),
                   .actions = environment.num_actions(),
                   .reward_terms = static_cast<int>(environment.reward_terms().size()),
                   .metrics = static_cast<int>(environment.metrics().size()),
                   .tiles = environment.partition().tiles});
      const auto estimate = static_cast<double>(memory.network_bytes + memory.batch_bytes);
      EXPECT_NEAR(static_cast<double>(most_bytes), estimate, 0.02 * estimate)
          << config.policy.hidden[0] << " units, " << text_of(config.learning.reduction);
      // (means and counters, whose number does not grow, are left out)
      EXPECT_NEAR(static_cast<double>(kept), static_cast<double>(memory.snapshot_bytes), 2048);
    });
  }
}

double reported(const IterationReport& report, const std::string& name) {
  for (const auto& value : report.values)
    if (value.name == name) return value.value;
  return std::nan("");
}

void append(std::vector<double>& values, const IterationReport& report) {
  // (NaN, before the first episode has ended, is equal to itself here)
  for (const auto& value : report.values) values.push_back(std::isnan(value.value) ? -1e300 : value.value);
}

// Everything replicated that a checkpoint would hold, as bytes, and the reported numbers.
struct Outcome {
  std::vector<std::vector<char>> entries;
  std::vector<double> reported;
};

using Setting = std::function<void(ToyEnvironment&)>;

Outcome train(const Config& config, int ranks, int iterations, const Setting& setting = {}) {
  Outcome outcome;
  on_ranks(ranks, [&](int rank, Collectives& collectives) {
    ToyEnvironment environment(config, rank, ranks);
    if (setting) setting(environment);
    Ppo ppo(environment, config, collectives);
    ppo.start();
    std::vector<double> reported;
    for (int i = 0; i < iterations; ++i) append(reported, ppo.iterate());
    if (rank != ranks - 1) return;  // the last rank holds the padding
    Archive archive;
    ppo.describe(archive);
    for (const ArchiveEntry& entry : archive.entries()) {
      if (entry.per_env) continue;  // of the toy
      const std::size_t bytes =
          entry.elements * (entry.type == ElementType::float64 || entry.type == ElementType::int64 ? 8 : 4);
      const char* data = static_cast<const char*>(entry.data);
      outcome.entries.emplace_back(data, data + bytes);
    }
    outcome.reported = reported;
  });
  return outcome;
}

void expect_equal_bits(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.entries.size(), b.entries.size());
  for (std::size_t i = 0; i < a.entries.size(); ++i) EXPECT_EQ(a.entries[i], b.entries[i]) << "entry " << i;
  ASSERT_EQ(a.reported.size(), b.reported.size());
  for (std::size_t i = 0; i < a.reported.size(); ++i)
    EXPECT_EQ(a.reported[i], b.reported[i]) << "value " << i;
}

TEST(Ppo, BitsDoNotDependOnTheNumberOfRanks) {
  if (!threads_can_launch()) GTEST_SKIP();
  // in tiles, in blocks of 8 and of 2 environments; the last one is padded
  for (const auto& [envs, rsl_rl] :
       {std::pair{250, false}, {250, true}, {203, false}, {203, true}, {25, true}}) {
    Config config = toy_config(envs);
    config.learning.lr_per_minibatch = rsl_rl;
    config.learning.kl_reference = rsl_rl ? KlReference::rollout : KlReference::previous_epoch;
    config.learning.normalize_advantage = rsl_rl;
    config.policy.normalize_observations = rsl_rl;
    config.policy.shared = !rsl_rl;
    config.learning.entropy_coef = rsl_rl ? 0.005 : 0;
    const Outcome one = train(config, 1, 4);
    for (const int ranks : {2, 3, 5}) expect_equal_bits(one, train(config, ranks, 4));
  }
}

// The same with everything that the presets ask for, in rewards of a large unit.
Config scaled_config(std::int64_t envs) {
  Config config = toy_config(envs);
  config.policy.normalize_observations = true;
  config.learning.normalize_reward = config.learning.normalize_value = true;
  config.learning.reward_scale = 1e5;
  config.learning.clip_reward = 10;
  config.learning.minibatches = 13;  // more than steps
  config.learning.schedule = RateSchedule::linear;
  config.learning.iterations = 10;
  config.learning.target_kl = 0.01;
  config.learning.kl_coef = 0.1;
  return config;
}

TEST(Ppo, BitsOfScaledLearningDoNotDependOnTheNumberOfRanks) {
  if (!threads_can_launch()) GTEST_SKIP();
  const Config config = scaled_config(203);
  const Outcome one = train(config, 1, 4);
  for (const int ranks : {2, 3, 5}) expect_equal_bits(one, train(config, ranks, 4));
}

TEST(Ppo, BitsOfEveryNetworkDoNotDependOnTheNumberOfRanks) {
  if (!threads_can_launch()) GTEST_SKIP();
  for (const Config& config : configs_of_networks(203)) {
    const Outcome one = train(config, 1, 4);
    for (const int ranks : {2, 3, 5}) expect_equal_bits(one, train(config, ranks, 4));
  }
}

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

// With rewards or values normalized, their unit is nothing that learning sees.
TEST(Ppo, NormalizedLearningDoesNotSeeTheUnitOfRewards) {
  for (const bool rewards : {true, false}) {
    Config config = toy_config(96);
    config.learning.normalize_reward = rewards;
    config.learning.normalize_value = !rewards;
    std::vector<double> returns;
    for (const double unit : {0x1p10, 0x1p20}) {  // far above what is added to variances
      config.learning.reward_scale = unit;
      on_ranks(1, [&](int, Collectives& collectives) {
        ToyEnvironment environment(config);
        Ppo ppo(environment, config, collectives);
        ppo.start();
        for (int i = 0; i < 6; ++i) {
          const IterationReport report = ppo.iterate();
          EXPECT_EQ(reported(report, "skipped_minibatches"), 0);
          EXPECT_EQ(reported(report, "inexact_statistics"), 0);
          if (i > 1) returns.push_back(reported(report, "episode_return"));
        }
      });
    }
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(returns[i], returns[i + 4], 0.02);
  }
}

TEST(Ppo, ACriticOfItsOwnLearnsWithTheSameBitsOnAnyRanks) {
  if (!threads_can_launch()) GTEST_SKIP();
  const Config config = scaled_config(203);
  const auto outcome = [&](int ranks) {
    std::vector<double> reported;
    on_ranks(ranks, [&](int rank, Collectives& collectives) {
      ToyEnvironment environment(config, rank, ranks, true);
      Ppo ppo(environment, config, collectives);
      ppo.start();
      std::vector<double> own;
      for (int i = 0; i < 4; ++i) append(own, ppo.iterate());
      if (rank == 0) reported = own;
    });
    return reported;
  };
  const std::vector<double> one = outcome(1);
  EXPECT_EQ(one, outcome(2));
  EXPECT_EQ(one, outcome(3));
}

TEST(Ppo, UpdatesEndAtTheTargetDivergence) {
  Config config = toy_config(96);
  config.learning.schedule = RateSchedule::fixed;
  config.learning.learning_rate = 0.01;
  config.learning.epochs = 50;
  config.learning.target_kl = 0.005;
  on_ranks(1, [&](int, Collectives& collectives) {
    ToyEnvironment environment(config);
    Ppo ppo(environment, config, collectives);
    ppo.start();
    const double updates = reported(ppo.iterate(), "updates");
    EXPECT_GT(updates, 1);
    EXPECT_LT(updates, 100);
  });
}

TEST(Ppo, ReportsTheReturnOfTheLatestHundredEpisodes) {
  Config config = toy_config(40);  // some 20 episodes in an iteration
  config.learning.random_initial_episode_length = false;
  on_ranks(1, [&](int, Collectives& collectives) {
    ToyEnvironment environment(config);
    Ppo ppo(environment, config, collectives);
    ppo.start();
    std::vector<std::pair<double, double>> seen;  // episodes, sum of their returns
    for (int i = 0; i < 12; ++i) {
      const IterationReport report = ppo.iterate();
      const double ended = environment.ended();
      EXPECT_EQ(reported(report, "episodes"), ended);
      if (ended > 0) seen.emplace_back(ended, ended * reported(report, "episode_return"));
      double episodes = 0, sum = 0;
      for (auto entry = seen.rbegin(); entry != seen.rend() && episodes < 100; ++entry) {
        episodes += entry->first;
        sum += entry->second;
      }
      if (episodes > 0)
        EXPECT_NEAR(reported(report, "episode_return_100"), sum / episodes, 1e-6);
      else
        EXPECT_TRUE(std::isnan(reported(report, "episode_return_100")));
    }
    EXPECT_GT(seen.size(), 4u);
  });
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

TEST(Ppo, FastReductionIsCloseToTheExactOne) {
  if (!threads_can_launch()) GTEST_SKIP();
  Config config = toy_config(160);
  const Outcome exact = train(config, 2, 1);
  config.learning.reduction = Reduction::fast;
  const Outcome fast = train(config, 2, 1);
  ASSERT_EQ(exact.reported.size(), fast.reported.size());
  for (std::size_t i = 0; i < exact.reported.size(); ++i)
    EXPECT_NEAR(exact.reported[i], fast.reported[i], 1e-3 * (1 + std::abs(exact.reported[i])));
}

TEST(Ppo, LearnsToStayAtTheOrigin) {
  Config config = toy_config(256);
  config.learning.epochs = 5;
  double first = 0, last = 0, learned_std = 1;
  on_ranks(1, [&](int, Collectives& collectives) {
    ToyEnvironment environment(config);
    Ppo ppo(environment, config, collectives);
    ppo.start();
    for (int i = 0; i < 60; ++i) {
      const IterationReport report = ppo.iterate();
      if (i == 2) first = reported(report, "episode_return");
      last = reported(report, "episode_return");
      double terms = 0;
      for (const auto& value : report.values) {
        if (value.name == "action_std") learned_std = value.value;
        if (value.name.rfind("reward_", 0) == 0) terms += value.value;
        if (value.name == "skipped_minibatches") {
          EXPECT_EQ(value.value, 0.0);
        }
      }
      EXPECT_NEAR(terms, reported(report, "episode_return"), 1e-4 * (1 + std::abs(terms)));
    }
  });
  EXPECT_LT(first, 14);
  EXPECT_GT(last, 17.5);  // a policy that goes straight to the origin gets 18.8
  EXPECT_LT(learned_std, 0.6);
}

TEST(Ppo, FixedStandardDeviationStays) {
  Config config = toy_config(64);
  config.policy.fixed_std = true;
  config.policy.init_std = 0.5;
  on_ranks(1, [&](int, Collectives& collectives) {
    ToyEnvironment environment(config);
    Ppo ppo(environment, config, collectives);
    ppo.start();
    for (int i = 0; i < 3; ++i) ppo.iterate();
    EXPECT_EQ(ppo.policy()->log_std()[0], std::log(0.5f));
  });
}

std::size_t bytes_of(const ArchiveEntry& entry) {
  const std::size_t size = entry.type == ElementType::float64 || entry.type == ElementType::int64 ? 8 : 4;
  return entry.per_env ? 3 * 32 * entry.tile_elements * size : entry.elements * size;
}

std::vector<std::vector<char>> contents_of(const Archive& archive) {
  std::vector<std::vector<char>> contents;
  for (const ArchiveEntry& entry : archive.entries()) {
    const char* data = static_cast<const char*>(entry.data);
    contents.emplace_back(data, data + bytes_of(entry));
  }
  return contents;
}

void fill(const Archive& archive, const std::vector<std::vector<char>>& contents) {
  ASSERT_EQ(archive.entries().size(), contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i)
    std::memcpy(archive.entries()[i].data, contents[i].data(), bytes_of(archive.entries()[i]));
}

Archive whole_of(Ppo& ppo) {
  Archive archive;
  ppo.describe(archive);
  return archive;
}

Archive learned_of(Ppo& ppo) {
  Archive archive;
  ppo.describe_warm_start(archive);
  return archive;
}

void expect_equal_bits_over_a_restart(const Config& config) {
  std::vector<double> straight, restarted;
  on_ranks(1, [&](int, Collectives& collectives) {
    ToyEnvironment environment(config);
    Ppo ppo(environment, config, collectives);
    ppo.start();
    for (int i = 0; i < 3; ++i) ppo.iterate();
    const auto saved = contents_of(whole_of(ppo));
    for (int i = 0; i < 2; ++i) append(straight, ppo.iterate());

    ToyEnvironment other_environment(config);
    Ppo other(other_environment, config, collectives);
    fill(whole_of(other), saved);
    other.restored();
    for (int i = 0; i < 2; ++i) append(restarted, other.iterate());
  });
  EXPECT_EQ(straight, restarted);
}

TEST(Ppo, RestartContinuesWithTheSameBits) {
  expect_equal_bits_over_a_restart(scaled_config(70));
  // a learning rate that follows from the iterations before, and not from their number
  Config adaptive = scaled_config(70);
  adaptive.learning.schedule = RateSchedule::adaptive;
  adaptive.learning.desired_kl = 1e-5;
  expect_equal_bits_over_a_restart(adaptive);
  for (const Config& config : configs_of_networks(70)) expect_equal_bits_over_a_restart(config);
}

// What another run learned goes into this one, but the moments of values begin with the rewards of this one.
TEST(Ppo, AWarmStartGathersTheMomentsOfValuesAnew) {
  const Config config = scaled_config(70);
  on_ranks(1, [&](int, Collectives& collectives) {
    const auto samples = [](Ppo& ppo) {
      const Archive archive = learned_of(ppo);
      for (const ArchiveEntry& entry : archive.entries())
        if (entry.name == "ppo/value_count") return *static_cast<const double*>(entry.data);
      return std::nan("");
    };
    ToyEnvironment environment(config);
    Ppo ppo(environment, config, collectives);
    ppo.start();
    ppo.iterate();
    const double of_one_iteration = samples(ppo);
    EXPECT_GT(of_one_iteration, 0);
    ppo.start();
    WarmStart start;
    start.entries = {"ppo/value_mean"};
    ppo.warm_started(start);
    ppo.iterate();
    EXPECT_EQ(samples(ppo), of_one_iteration);
  });
}

// With what has been learned comes the state of the optimizer, to the device, too; its first step is not that
// of a new optimizer.
TEST(Ppo, AWarmStartKeepsTheStateOfTheOptimizer) {
  const Config config = toy_config(70);
  on_ranks(1, [&](int, Collectives& collectives) {
    ToyEnvironment environment(config);
    Ppo first(environment, config, collectives);
    first.start();
    for (int i = 0; i < 3; ++i) first.iterate();
    const auto learned = contents_of(learned_of(first));
    const auto is_of_optimizer = [](const ArchiveEntry& entry) {
      return entry.name.starts_with("ppo/adam_moment") || entry.name == "ppo/optimizer_steps";
    };
    const auto optimizer_of = [&](Ppo& ppo) {
      const Archive archive = learned_of(ppo);
      Archive optimizer;
      for (const ArchiveEntry& entry : archive.entries())
        if (is_of_optimizer(entry)) optimizer.add(entry);
      return contents_of(optimizer);
    };
    EXPECT_EQ(optimizer_of(first).size(), 3u);

    const auto parameters_after = [&](bool keeps_moments) {
      ToyEnvironment other_environment(config);
      Ppo ppo(other_environment, config, collectives);
      ppo.start();
      const Archive archive = learned_of(ppo);
      fill(archive, learned);
      if (!keeps_moments)
        for (const ArchiveEntry& entry : archive.entries())
          if (is_of_optimizer(entry)) std::memset(entry.data, 0, bytes_of(entry));
      ppo.warm_started(WarmStart{});
      EXPECT_EQ(optimizer_of(ppo) == optimizer_of(first), keeps_moments);
      ppo.iterate();
      const auto after = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), ppo.policy()->parameters());
      return std::vector<float>(after.data(), after.data() + after.extent(0));
    };
    EXPECT_NE(parameters_after(true), parameters_after(false));
  });
}

TEST(Ppo, ReportsKeepTheirNames) {
  const Config config = toy_config(32);
  on_ranks(1, [&](int, Collectives& collectives) {
    ToyEnvironment environment(config);
    Ppo ppo(environment, config, collectives);
    const IterationReport names = ppo.report_names();
    ppo.start();
    const IterationReport report = ppo.iterate();
    ASSERT_EQ(names.values.size(), report.values.size());
    for (std::size_t i = 0; i < names.values.size(); ++i)
      EXPECT_EQ(names.values[i].name, report.values[i].name);
  });
}

TEST(Ppo, ADivergedRewardMakesNoStepAndIsCounted) {
  Config config = toy_config(32);
  config.learning.reward_scale = 1e12;
  config.learning.normalize_advantage = config.learning.normalize_value = false;
  on_ranks(1, [&](int, Collectives& collectives) {
    ToyEnvironment environment(config);
    Ppo ppo(environment, config, collectives);
    const std::vector<float> before = initial_parameters(ppo.policy()->network(), config.policy, 5);
    ppo.start();
    double skipped = 0;
    const IterationReport report = ppo.iterate();
    for (const auto& value : report.values)
      if (value.name == "skipped_minibatches") skipped = value.value;
    EXPECT_EQ(skipped, 12.0);
    const auto after = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), ppo.policy()->parameters());
    EXPECT_EQ(before, std::vector<float>(after.data(), after.data() + before.size()));
  });
}

// What comes from a bad state leaves no trace in what is learned, whatever its numbers are and wherever its
// environment lies.
TEST(Ppo, InvalidStepsAreLeftOut) {
  if (!threads_can_launch()) GTEST_SKIP();
  Config config = toy_config(203);
  config.learning.normalize_advantage = config.policy.normalize_observations = true;
  config.learning.entropy_coef = 0.005;
  const auto breaking = [](float garbage) {
    return [garbage](ToyEnvironment& environment) {
      environment.breaks = [](std::uint64_t env, std::int64_t step) {
        return env % 40 == 3 && step % 7 == 5;
      };
      environment.garbage = garbage;
    };
  };
  const Outcome one = train(config, 1, 3, breaking(0));
  for (const float garbage : {1e12f, 3e38f, std::nanf("")})
    expect_equal_bits(one, train(config, 1, 3, breaking(garbage)));
  for (const int ranks : {2, 3, 5}) expect_equal_bits(one, train(config, ranks, 3, breaking(1e12f)));

  on_ranks(1, [&](int, Collectives& collectives) {
    ToyEnvironment environment(config);
    breaking(1e12f)(environment);
    Ppo ppo(environment, config, collectives);
    ppo.start();
    // steps 5 of 1 to 10 and 12 and 19 of 11 to 20, each in environments 3, 43, ... 203 is none
    for (const double expected : {5.0, 10.0}) {
      const IterationReport report = ppo.iterate();
      EXPECT_EQ(report.invalid_samples, expected);
      EXPECT_EQ(reported(report, "invalid_samples"), expected);
      EXPECT_EQ(reported(report, "inexact_statistics"), 0);
      EXPECT_EQ(reported(report, "skipped_minibatches"), 0);
      EXPECT_LT(std::abs(reported(report, "episode_return")), 100);
    }
  });
}

TEST(Ppo, NothingIsLearnedFromInvalidStepsAlone) {
  Config config = toy_config(70);
  config.learning.entropy_coef = 0.01;
  config.learning.normalize_advantage = true;
  on_ranks(1, [&](int, Collectives& collectives) {
    ToyEnvironment environment(config);
    environment.breaks = [](std::uint64_t, std::int64_t) { return true; };
    environment.garbage = 1e12f;
    Ppo ppo(environment, config, collectives);
    const std::vector<float> before = initial_parameters(ppo.policy()->network(), config.policy, 5);
    ppo.start();
    const IterationReport report = ppo.iterate();
    EXPECT_EQ(report.invalid_samples, 700);
    EXPECT_TRUE(std::isnan(reported(report, "episode_return"))) << "none that counts has ended";
    const auto after = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), ppo.policy()->parameters());
    EXPECT_EQ(before, std::vector<float>(after.data(), after.data() + before.size()));
  });
}

// What a deck may ask for and what there is are two lists, of the configuration's layer and of this one.
TEST(Learners, AreTheChoicesOfTheDeck) {
  std::vector<std::string> names;
  for (const LearnerKind& kind : learners()) names.push_back(kind.name);
  const auto key = std::find_if(schema().begin(), schema().end(),
                                [](const Key& k) { return k.path == "learning.algorithm"; });
  ASSERT_NE(key, schema().end());
  EXPECT_EQ(names, key->allowed.choices);
  EXPECT_EQ(names.front(), LearningConfig().algorithm);
}

TEST(Evaluation, IsTheSameForAnyNumberOfRanks) {
  if (!threads_can_launch()) GTEST_SKIP();
  Config config = toy_config(75);
  config.evaluation.episodes = 100;
  config.evaluation.deterministic = Determinism::drawn;
  std::vector<EvaluationResult> results;
  for (const int ranks : {1, 2, 3}) {
    EvaluationResult result;
    on_ranks(ranks, [&](int rank, Collectives& collectives) {
      ToyEnvironment environment(config, rank, ranks);
      Policy policy(config, {2, 0, 1});
      const EvaluationResult own = evaluate(environment, policy, config, collectives);
      if (rank == 0) result = own;
    });
    results.push_back(result);
  }
  EXPECT_EQ(results[0].episode_return.size(), 100u);
  for (const double length : results[0].episode_length) {
    EXPECT_GE(length, 1);
    EXPECT_LE(length, 20);
  }
  for (std::size_t i = 1; i < results.size(); ++i) {
    EXPECT_EQ(results[0].episode_return, results[i].episode_return);
    EXPECT_EQ(results[0].episode_length, results[i].episode_length);
  }
}

}  // namespace
}  // namespace maniple
