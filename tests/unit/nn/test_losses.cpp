// Losses and their derivatives: finite differences in double precision, values worked out by hand, the
// closed forms of generalised advantage estimation, Adam by its paper's formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/nn/adam.hpp"
#include "kernels/nn/gae.hpp"
#include "kernels/nn/losses.hpp"

namespace maniple {
namespace {

// Total loss of one sample with two actions, through the same interface that training uses.
struct Sample {
  double action[2] = {0.4, -1.3}, old_mean[2] = {0.1, -0.9}, mean[2] = {0.3, -1.4};
  double old_log_prob = -2.2, old_value = 0.7, advantage = 1.3, target = 1.1, value = 0.8;
  double log_std[2] = {-0.2, 0.1}, old_log_std[2] = {-0.1, 0.05};

  struct Result {
    double loss, mean_delta[2], value_delta, log_std_delta[2], metrics[kNumLossMetrics];
  };
  Result evaluate(const LossSettings& s, double scale = 1, bool real = true) const {
    Sample x = *this;
    Result r{};
    const LossOperands<double> operands{{x.action, 1},   {x.old_mean, 1},    {x.mean, 1}, old_log_prob,
                                        old_value,       advantage,          target,      value,
                                        {x.log_std, {}}, {x.old_log_std, {}}};
    ppo_loss<double>(s, 2, operands, [](int) { return 0.0; }, real, scale, {r.mean_delta, 1}, r.value_delta,
                     {r.log_std_delta, 1}, {r.metrics, 1});
    const double entropy = log_std[0] + log_std[1] + 2 * 1.41893853320467274178;
    r.loss = r.metrics[kPolicyLoss] + s.value_coef * r.metrics[kValueLoss] +
             s.bounds_coef * r.metrics[kBoundsLoss] - s.entropy_coef * entropy;
    return r;
  }
};

TEST(Losses, DerivativesAreThoseOfTheLoss) {
  std::mt19937_64 generator(11);
  std::uniform_real_distribution<double> draw(-1.5, 1.5);
  constexpr double h = 1e-6;
  int clipped = 0, unclipped = 0;
  for (int trial = 0; trial < 400; ++trial) {
    LossSettings s;
    s.clip_value = trial % 3 != 0;
    s.value_coef = 4;
    s.entropy_coef = 0.01;
    s.bounds_coef = 0.3;
    s.learned_std = true;
    s.advantage_mean = 0.2;
    s.advantage_scale = 1.7;
    Sample x;
    for (double* p : {x.action, x.old_mean, x.mean})
      for (int k = 0; k < 2; ++k) p[k] = 1.2 * draw(generator);
    x.old_value = draw(generator);
    x.value = x.old_value + 0.3 * draw(generator);
    x.target = draw(generator);
    x.advantage = draw(generator);
    // old log probability near the new one, so that both sides of the clip occur
    double log_prob = 0;
    for (int k = 0; k < 2; ++k)
      log_prob += gaussian_log_density((x.action[k] - x.mean[k]) / std::exp(x.log_std[k]), x.log_std[k]);
    x.old_log_prob = log_prob + 0.2 * draw(generator);
    const Sample::Result base = x.evaluate(s);
    (base.metrics[kClipped] > 0 ? clipped : unclipped) += 1;
    const auto difference = [&](double Sample::*member) {
      Sample up = x, down = x;
      up.*member += h;
      down.*member -= h;
      return (up.evaluate(s).loss - down.evaluate(s).loss) / (2 * h);
    };
    const auto difference_of = [&](double(Sample::*member)[2], int k) {
      Sample up = x, down = x;
      (up.*member)[k] += h;
      (down.*member)[k] -= h;
      return (up.evaluate(s).loss - down.evaluate(s).loss) / (2 * h);
    };
    EXPECT_NEAR(base.value_delta, difference(&Sample::value), 1e-6);
    for (int k = 0; k < 2; ++k) {
      EXPECT_NEAR(base.mean_delta[k], difference_of(&Sample::mean, k), 1e-6);
      EXPECT_NEAR(base.log_std_delta[k], difference_of(&Sample::log_std, k), 1e-6);
    }
  }
  EXPECT_GT(clipped, 50);
  EXPECT_GT(unclipped, 50);
}

TEST(Losses, KnownValues) {
  double derivative, clipped;
  const double clip = 0.2;
  // ratio 1.5 and positive advantage: the clipped 1.2 counts, and nothing pushes further
  EXPECT_NEAR(policy_loss(std::log(1.5), 0.0, 2.0, clip, derivative, clipped), -2.4, 1e-12);
  EXPECT_EQ(derivative, 0.0);
  EXPECT_EQ(clipped, 1.0);
  // ratio 1.5 and negative advantage: the pessimistic side is the unclipped one
  EXPECT_NEAR(policy_loss(std::log(1.5), 0.0, -2.0, clip, derivative, clipped), 3.0, 1e-12);
  EXPECT_NEAR(derivative, 3.0, 1e-12);
  // ratio 0.5 and negative advantage: clipped at 0.8
  EXPECT_NEAR(policy_loss(std::log(0.5), 0.0, -2.0, clip, derivative, clipped), 1.6, 1e-12);
  EXPECT_EQ(derivative, 0.0);
  // value 1 above the old one with its target below: the unclipped error is larger
  EXPECT_NEAR(value_loss(2.0, 1.0, 0.0, clip, true, derivative), 2.0, 1e-12);
  EXPECT_NEAR(derivative, 2.0, 1e-12);
  // moved towards its target beyond the clip: the clipped error counts and holds still
  EXPECT_NEAR(value_loss(2.0, 1.0, 2.5, clip, true, derivative), 0.5 * 1.3 * 1.3, 1e-12);
  EXPECT_EQ(derivative, 0.0);
  EXPECT_NEAR(value_loss(2.0, 1.0, 2.5, clip, false, derivative), 0.125, 1e-12);
  // excess beyond 1.1 on either side, nothing inside
  EXPECT_NEAR(bounds_loss(1.5, derivative), 0.16, 1e-12);
  EXPECT_NEAR(derivative, 0.8, 1e-12);
  EXPECT_NEAR(bounds_loss(-1.5, derivative), 0.16, 1e-12);
  EXPECT_NEAR(derivative, -0.8, 1e-12);
  EXPECT_EQ(bounds_loss(0.9, derivative), 0.0);
  // KL(N(0,1) || N(1,4)) = ln 2 + (1 + 1) / 8 - 1/2
  EXPECT_NEAR(gaussian_kl(1.0, std::log(2.0), 0.0, 0.0), std::log(2.0) - 0.25, 1e-12);
  EXPECT_NEAR(gaussian_log_density(1.0, std::log(2.0)), -0.5 - std::log(2.0) - 0.5 * std::log(2 * M_PI),
              1e-12);
}

TEST(Losses, LanesThatAreNotRealCountNothing) {
  LossSettings s;
  s.learned_std = true;
  Sample x;
  x.value = std::nan("");
  x.mean[1] = std::nan("");
  const Sample::Result r = x.evaluate(s, 1, false);
  for (int k = 0; k < 2; ++k) {
    EXPECT_EQ(r.mean_delta[k], 0.0);
    EXPECT_EQ(r.log_std_delta[k], 0.0);
  }
  EXPECT_EQ(r.value_delta, 0.0);
  for (const double metric : r.metrics) EXPECT_EQ(metric, 0.0);
}

TEST(Gaussian, NoiseIsNormalAndBelongsToItsEnvironment) {
  using V = Lanes<double>;
  constexpr int count = 40000;
  double moment[5] = {};
  for (int env = 0; env < count; env += lane_width<V>) {
    const V z = action_noise<V>(5, RandomPurpose::action, env, 9, 1);
    for (int lane = 0; lane < lane_width<V>; ++lane) {
      const double x = get_lane(z, lane);
      EXPECT_EQ(x, get_lane(action_noise<V>(5, RandomPurpose::action, env + lane, 9, 1), 0));
      for (int power = 1; power < 5; ++power) moment[power] += std::pow(x, power) / count;
    }
  }
  // about five standard errors
  EXPECT_NEAR(moment[1], 0, 0.025);
  EXPECT_NEAR(moment[2], 1, 0.036);
  EXPECT_NEAR(moment[3], 0, 0.1);
  EXPECT_NEAR(moment[4], 3, 0.25);
  const auto noise = [](int index, std::uint32_t step) {
    return action_noise<double>(5, RandomPurpose::action, 3, step, index);
  };
  for (int index = 1; index < 9; ++index) EXPECT_NE(noise(0, 0), noise(index, 0));
  EXPECT_NE(noise(0, 0), noise(0, 1));
}

TEST(AdvantageEstimation, IsTheDiscountedSumOfTemporalDifferences) {
  // Schulman et al. 2016, equation 16, written as the double sum it stands for
  const double gamma = 0.9, lambda = 0.7;
  const std::vector<double> reward{1, -0.5, 2, 0.3, 0.8}, value{0.2, 0.4, -0.1, 0.5, 0.6};
  const std::vector<double> done{0, 0, 1, 0, 0};
  const double last_value = 0.9;
  const int steps = 5;
  std::vector<double> advantage(5);
  double next = 0, next_value = last_value;
  for (int t = steps - 1; t >= 0; --t) {
    next = advantage[t] = gae_step(reward[t], done[t], value[t], next_value, next, gamma, lambda);
    next_value = value[t];
  }
  for (int t = 0; t < steps; ++t) {
    double expected = 0, factor = 1;
    for (int l = t; l < steps; ++l) {
      const double after = done[l] > 0 ? 0.0 : (l + 1 < steps ? value[l + 1] : last_value);
      expected += factor * (reward[l] + gamma * after - value[l]);
      if (done[l] > 0) break;
      factor *= gamma * lambda;
    }
    EXPECT_NEAR(advantage[t], expected, 1e-14) << t;
  }
  // lambda = 1: the discounted return less the value
  next = 0;
  next_value = last_value;
  for (int t = 4; t >= 3; --t) {
    next = gae_step(reward[t], done[t], value[t], next_value, next, gamma, 1.0);
    next_value = value[t];
  }
  EXPECT_NEAR(next, 0.3 + gamma * 0.8 + gamma * gamma * last_value - 0.5, 1e-14);
}

TEST(Adam, FollowsItsPaper) {
  // algorithm 1 with bias-corrected moments, three steps
  const double gradients[] = {0.3, -0.7, 0.2};
  double parameter = 1.5, m = 0, v = 0, expected = 1.5, em = 0, ev = 0;
  for (int t = 1; t <= 3; ++t) {
    const double g = gradients[t - 1];
    AdamSettings s;
    s.learning_rate = 0.1;
    s.correction1 = 1 - std::pow(0.9, t);
    s.correction2 = 1 - std::pow(0.999, t);
    s.gradient_scale = 0.5;
    adam_step(s, g, parameter, m, v);
    em = 0.9 * em + 0.1 * (0.5 * g);
    ev = 0.999 * ev + 0.001 * (0.5 * g) * (0.5 * g);
    expected -= 0.1 * (em / (1 - std::pow(0.9, t))) / (std::sqrt(ev / (1 - std::pow(0.999, t))) + 1e-8);
    EXPECT_NEAR(parameter, expected, 1e-14);
  }
  // the first step has the size of the learning rate, whatever the gradient's
  float p = 0, m1 = 0, m2 = 0;
  AdamSettings s;
  s.learning_rate = 0.01;
  s.correction1 = 0.1;
  s.correction2 = 0.001;
  adam_step(s, 1e-3, p, m1, m2);
  EXPECT_NEAR(p, -0.01f, 2e-7f);
}

// torch.optim.AdamW: the parameter shrinks by lr * weight_decay first, the moments know nothing of it;
// torch.optim.Adam: weight_decay * parameter is a part of the gradient, after it was clipped.
TEST(Adam, DecaysWeightsEitherWay) {
  for (const bool decoupled : {true, false}) {
    double parameter = 1.5, m = 0, v = 0, expected = 1.5, em = 0, ev = 0;
    for (int t = 1; t <= 5; ++t) {
      const double gradient = 0.3 * t - 0.8, decay = 0.07, rate = 0.05, b1 = 0.95, b2 = 0.99;
      AdamSettings s;
      s.learning_rate = rate;
      s.beta1 = b1;
      s.beta2 = b2;
      s.correction1 = 1 - std::pow(b1, t);
      s.correction2 = 1 - std::pow(b2, t);
      s.gradient_scale = 0.25;
      (decoupled ? s.weight_decay : s.l2_penalty) = decay;
      adam_step(s, gradient, parameter, m, v);
      if (decoupled) expected *= 1 - rate * decay;
      const double g = 0.25 * gradient + (decoupled ? 0 : decay * expected);
      em += (1 - b1) * (g - em);
      ev = b2 * ev + (1 - b2) * g * g;
      expected -= rate / (1 - std::pow(b1, t)) * em / (std::sqrt(ev) / std::sqrt(1 - std::pow(b2, t)) + 1e-8);
      EXPECT_NEAR(parameter, expected, 1e-14) << decoupled << t;
    }
  }
}

TEST(Adam, NormIsTheEuclideanOne) {
  Kokkos::View<double*, MemorySpace> gradient("gradient", 1000), blocks("blocks", 4);
  const auto host = Kokkos::create_mirror_view(gradient);
  for (int i = 0; i < 1000; ++i) host(static_cast<std::size_t>(i)) = i < 900 ? 0.1 * (i % 7) : 100.0;
  Kokkos::deep_copy(gradient, host);
  double squares = 0;
  for (int i = 0; i < 900; ++i) squares += 0.01 * (i % 7) * (i % 7);
  EXPECT_NEAR(gradient_norm(gradient, 900, blocks), std::sqrt(squares), 1e-12);
}

}  // namespace
}  // namespace maniple
