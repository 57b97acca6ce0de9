// Learning rates by the number of the update, against the formulas of diffusers' optimization.py.
#include <gtest/gtest.h>

#include <cmath>

#include "src/config/deck.hpp"
#include "src/learning/schedule.hpp"

namespace maniple {
namespace {

TEST(Schedules, CosineFollowsAWarmUp) {
  LearningConfig config;
  config.learning_rate = 1e-4;
  config.schedule = RateSchedule::cosine;
  config.warmup_steps = 500;
  config.steps = 2500;
  const auto rate = [&](std::int64_t update) { return annealed_learning_rate(config, 1.0, 0, update); };
  EXPECT_EQ(rate(0), 0);
  EXPECT_DOUBLE_EQ(rate(125), 0.25e-4);
  EXPECT_DOUBLE_EQ(rate(500), 1e-4);
  EXPECT_DOUBLE_EQ(rate(1000), 0.5e-4 * (1 + std::sqrt(0.5)));
  EXPECT_DOUBLE_EQ(rate(1500), 0.5e-4);
  EXPECT_NEAR(rate(2499), 0.5e-4 * (1 - std::cos(M_PI / 2000)), 1e-18);
  EXPECT_NEAR(rate(2500), 0, 1e-18);
  config.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(rate(0), 1e-4);
  EXPECT_DOUBLE_EQ(rate(1250), 0.5e-4);
}

TEST(Schedules, AFixedRateMayWarmUpToo) {
  LearningConfig config;
  config.learning_rate = 2e-3;
  config.schedule = RateSchedule::fixed;
  config.warmup_steps = 10;
  EXPECT_EQ(annealed_learning_rate(config, 1.0, 0, 0), 0);
  EXPECT_DOUBLE_EQ(annealed_learning_rate(config, 1.0, 0, 4), 0.8e-3);
  for (const std::int64_t update : {10, 11, 100000})
    EXPECT_DOUBLE_EQ(annealed_learning_rate(config, 1.0, 0, update), 2e-3);
  config.schedule = RateSchedule::linear;  // goes by iterations
  config.iterations = 8;
  EXPECT_DOUBLE_EQ(annealed_learning_rate(config, 0.7, 2, 4), 1.5e-3);
}

TEST(Schedules, ThoseOfUpdatesAreForImitation) {
  const auto refused = [](std::vector<std::string> keys) -> std::string {
    try {
      load_config({}, keys, false);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refused({"learning.schedule=cosine"}).find("learning.schedule: found cosine"), std::string::npos);
  EXPECT_NE(refused({"learning.warmup_steps=5"}).find("learning.warmup_steps: set, but"), std::string::npos);
  const std::string imitates = "learning.preset=robomimic";
  EXPECT_EQ(refused({imitates, "learning.schedule=cosine", "learning.warmup_steps=5"}), "");
  EXPECT_NE(refused({imitates, "learning.schedule=linear", "learning.warmup_steps=5"}).find("fixed | cosine"),
            std::string::npos);
}

}  // namespace
}  // namespace maniple
