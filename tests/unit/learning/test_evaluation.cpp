// Evaluation of a policy: the same episodes on any number of ranks.
#include <gtest/gtest.h>

#include <vector>

#include "src/learning/evaluation.hpp"
#include "src/learning/policy.hpp"
#include "tests/unit/learning/toy_environment.hpp"

namespace maniple {
namespace {

using testing_learning::on_ranks;
using testing_learning::threads_can_launch;
using testing_learning::toy_config;
using testing_learning::ToyEnvironment;

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
