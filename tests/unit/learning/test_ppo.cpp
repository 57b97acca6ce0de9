// PPO as a whole on a toy environment: it learns, says what it did, and leaves out what is not to be learned
// from.
#include <gtest/gtest.h>

#include <cmath>

#include "src/learning/initial_parameters.hpp"
#include "tests/unit/learning/ppo_runs.hpp"

namespace maniple {
namespace {

using testing_learning::expect_equal_bits;
using testing_learning::on_ranks;
using testing_learning::Outcome;
using testing_learning::reported;
using testing_learning::threads_can_launch;
using testing_learning::toy_config;
using testing_learning::ToyEnvironment;
using testing_learning::train;

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

}  // namespace
}  // namespace maniple
