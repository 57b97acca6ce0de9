// Noise schedules against their formulas, as diffusers' schedulers write them: one step after the other, for
// any sample and prediction.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/learning/noise_schedule.hpp"
#include "src/learning/parameter_average.hpp"

namespace maniple {
namespace {

double bar(double t) {
  const double c = std::cos((t + 0.008) / 1.008 * M_PI / 2);
  return c * c;
}
// The product of alphas telescopes, but for the last one, whose beta is cut at 0.999.
double alpha_bar(int step, int steps) {
  if (step < 0) return 1;
  const double whole = step + 1 < steps ? bar(double(step + 1) / steps) : bar(double(step) / steps) * 0.001;
  return whole / bar(0);
}

TEST(NoiseSchedule, IsASquaredCosine) {
  for (const int steps : {100, 1000}) {
    DiffusionConfig config;
    config.train_steps = steps;
    config.inference_steps = 1;
    const NoiseSchedule schedule(config);
    const std::vector<float> signal = schedule.sqrt_alphas_cumprod(),
                             noise = schedule.sqrt_one_minus_alphas_cumprod();
    ASSERT_EQ(static_cast<int>(signal.size()), steps);
    for (int t = 0; t < steps; ++t) {
      const double share = alpha_bar(t, steps);
      EXPECT_NEAR(signal[static_cast<std::size_t>(t)] / std::sqrt(share), 1, 1e-4) << t;
      EXPECT_NEAR(noise[static_cast<std::size_t>(t)], std::sqrt(1 - share), 1e-5) << t;
    }
  }
}

double next_of(const DenoisingStep& s, double x, double p, double z) {
  double clean = s.clean_of_x * x + s.clean_of_prediction * p;
  if (s.clip > 0) clean = std::clamp(clean, -s.clip, s.clip);
  return s.of_clean * clean + s.of_x * x + s.of_prediction * p + s.of_noise * z;
}

TEST(NoiseSchedule, StepsAreThoseOfTheSchedulers) {
  for (const NoiseSampler sampler : {NoiseSampler::ddpm, NoiseSampler::ddim})
    for (const PredictionChoice prediction : {PredictionChoice::epsilon, PredictionChoice::sample})
      for (const bool clip : {true, false})
        for (const int inference : {100, 33, 10, 1}) {
          DiffusionConfig config;
          config.sampler = sampler;
          config.prediction = prediction;
          config.clip_sample = clip;
          config.inference_steps = inference;
          const std::vector<DenoisingStep> steps = NoiseSchedule(config).denoising();
          ASSERT_EQ(static_cast<int>(steps.size()), inference);
          const int stride = 100 / inference;
          for (int i = 0; i < inference; ++i) {
            const DenoisingStep& step = steps[static_cast<std::size_t>(i)];
            const int t = (inference - 1 - i) * stride;
            EXPECT_EQ(step.step, t);
            const double now = alpha_bar(t, 100), before = alpha_bar(t - stride, 100);
            for (const double x : {-1.3, 0.2})
              for (const double p : {-0.4, 0.9}) {
                const double z = 0.7;
                const bool epsilon = prediction == PredictionChoice::epsilon;
                double clean = epsilon ? (x - std::sqrt(1 - now) * p) / std::sqrt(now) : p;
                const double noise = epsilon ? p : (x - std::sqrt(now) * clean) / std::sqrt(1 - now);
                if (clip) clean = std::clamp(clean, -1.0, 1.0);
                double expected = 0;
                if (sampler == NoiseSampler::ddpm) {
                  const double alpha = now / before, beta = 1 - alpha;
                  expected = std::sqrt(before) * beta / (1 - now) * clean +
                             std::sqrt(alpha) * (1 - before) / (1 - now) * x;
                  if (t > 0) expected += std::sqrt(std::max((1 - before) / (1 - now) * beta, 1e-20)) * z;
                } else {
                  expected = std::sqrt(before) * clean + std::sqrt(1 - before) * noise;
                }
                EXPECT_NEAR(next_of(step, x, p, z), expected, 2e-4 * (1 + std::abs(expected)))
                    << inference << " " << t;
              }
          }
          // the last step gives the sequence itself
          EXPECT_DOUBLE_EQ(steps.back().of_clean, 1);
          EXPECT_EQ(steps.back().of_noise, 0);
        }
}

TEST(ParameterAverage, WarmsUpByAPower) {
  LearningConfig config;
  EXPECT_EQ(average_decay(config, 0), 0);
  EXPECT_EQ(average_decay(config, 1), 0);
  EXPECT_DOUBLE_EQ(average_decay(config, 2), 1 - std::pow(2.0, -0.75));
  EXPECT_DOUBLE_EQ(average_decay(config, 1000), 1 - std::pow(1000.0, -0.75));
  EXPECT_DOUBLE_EQ(average_decay(config, 10000000), 0.9999);
  config.ema_inv_gamma = 10;
  config.ema_power = 2.0 / 3;
  EXPECT_DOUBLE_EQ(average_decay(config, 101), 1 - std::pow(11.0, -2.0 / 3));
  config.ema_min = 0.5;
  EXPECT_DOUBLE_EQ(average_decay(config, 2), 0.5);
}

}  // namespace
}  // namespace maniple
