// What PPO learns does not depend on the number of ranks, to the bit: in blocks of every size, with all that
// the presets ask for, and with every kind of network.
#include <gtest/gtest.h>

#include "tests/unit/learning/ppo_runs.hpp"

namespace maniple {
namespace {

using testing_learning::append;
using testing_learning::configs_of_networks;
using testing_learning::expect_equal_bits;
using testing_learning::on_ranks;
using testing_learning::Outcome;
using testing_learning::scaled_config;
using testing_learning::threads_can_launch;
using testing_learning::toy_config;
using testing_learning::ToyEnvironment;
using testing_learning::train;

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

}  // namespace
}  // namespace maniple
