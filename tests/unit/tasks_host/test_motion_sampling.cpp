// Where episodes begin in a reference motion, against mjlab's formulas written out: a running mean of
// failures, a uniform share, a kernel that reaches back from failures, and probabilities that add up to 1.
#include <gtest/gtest.h>

#include <cmath>

#include "src/tasks/terms/motion.hpp"
#include "src/tasks/terms/motion_sampling.hpp"

namespace maniple {
namespace {

MotionSampling sampling_of(int bins, const AdaptiveSampling& settings) {
  Motion motion;
  motion.bins = bins;
  motion.adaptive = settings;
  return MotionSampling(motion);
}

TEST(MotionSampling, IsUniformWithoutFailures) {
  const MotionSampling sampling = sampling_of(4, {});
  for (const double p : sampling.probabilities()) EXPECT_DOUBLE_EQ(p, 0.25);
  EXPECT_DOUBLE_EQ(sampling.entropy(), 1);
}

TEST(MotionSampling, FollowsFailures) {
  const double alpha = 0.01, ratio = 0.2;
  MotionSampling sampling =
      sampling_of(3, {.kernel_size = 1, .lambda = 0.8, .uniform_ratio = ratio, .alpha = alpha});
  sampling.advance({0, 8, 2}, 24);
  sampling.advance({1, 8, 6}, 48);
  // each of 24 steps with a 24th of the failures, one after the other
  double failed[3]{};
  for (int step = 0; step < 48; ++step) {
    const double share[2][3]{{0, 8, 2}, {1, 0, 4}};
    for (int i = 0; i < 3; ++i) failed[i] = (1 - alpha) * failed[i] + alpha * share[step / 24][i] / 24;
  }
  const double sum = failed[0] + failed[1] + failed[2] + ratio;
  const std::vector<double> probabilities = sampling.probabilities(), cumulative = sampling.cumulative();
  double so_far = 0, entropy = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const double p = (failed[i] + ratio / 3) / sum;
    EXPECT_NEAR(probabilities[i], p, 1e-15);
    EXPECT_NEAR(cumulative[i], so_far += p, 1e-15);
    entropy -= p * std::log(p);
  }
  EXPECT_NEAR(sampling.entropy(), entropy / std::log(3.0), 1e-15);
}

// torch's conv1d with the kernel [1, lambda, lambda^2] over the bins, the last one repeated.
TEST(MotionSampling, BeginsBeforeFailures) {
  MotionSampling sampling =
      sampling_of(4, {.kernel_size = 3, .lambda = 0.5, .uniform_ratio = 0.4, .alpha = 1});
  sampling.advance({0, 0, 0.6, 0.2}, 1);
  const double x[]{0.1, 0.1, 0.7, 0.3, 0.3, 0.3};
  double weights[4], sum = 0;
  for (int i = 0; i < 4; ++i) sum += weights[i] = x[i] + 0.5 * x[i + 1] + 0.25 * x[i + 2];
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(sampling.probabilities()[i], weights[i] / sum, 1e-15);
}

}  // namespace
}  // namespace maniple
