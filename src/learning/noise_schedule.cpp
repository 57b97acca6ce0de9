#include "src/learning/noise_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace maniple {

NoiseSchedule::NoiseSchedule(const DiffusionConfig& config) : config_(config) {
  constexpr double kOffset = 0.008, kMostBeta = 0.999;
  const int steps = config.train_steps;
  const auto left = [&](int step) {
    const double c =
        std::cos((static_cast<double>(step) / steps + kOffset) / (1 + kOffset) * (std::numbers::pi / 2));
    return c * c;
  };
  double product = 1;
  for (int step = 0; step < steps; ++step) {
    // (rounded where torch rounds: the last steps multiply differences of numbers close to 1)
    const auto beta = static_cast<float>(std::min(1 - left(step + 1) / left(step), kMostBeta));
    product *= static_cast<double>(1.0f - beta);
    alphas_cumprod_.push_back(static_cast<double>(static_cast<float>(product)));
  }
}

std::vector<float> NoiseSchedule::sqrt_alphas_cumprod() const {
  std::vector<float> values;
  for (const double share : alphas_cumprod_) values.push_back(static_cast<float>(std::sqrt(share)));
  return values;
}

std::vector<float> NoiseSchedule::sqrt_one_minus_alphas_cumprod() const {
  std::vector<float> values;
  for (const double share : alphas_cumprod_) values.push_back(static_cast<float>(std::sqrt(1 - share)));
  return values;
}

std::vector<DenoisingStep> NoiseSchedule::denoising() const {
  constexpr double kLeastVariance = 1e-20;
  const int stride = config_.train_steps / config_.inference_steps;
  std::vector<DenoisingStep> steps;
  for (int i = config_.inference_steps - 1; i >= 0; --i) {
    const int at = i * stride, before = at - stride;
    const double share = alphas_cumprod_[static_cast<std::size_t>(at)];
    const double next = before >= 0 ? alphas_cumprod_[static_cast<std::size_t>(before)] : 1.0;
    const double signal = std::sqrt(share), noise = std::sqrt(1 - share);
    DenoisingStep step;
    step.step = at;
    step.clip = config_.clip_sample ? 1 : 0;
    const bool epsilon = config_.prediction == PredictionChoice::epsilon;
    step.clean_of_x = epsilon ? 1 / signal : 0;
    step.clean_of_prediction = epsilon ? -noise / signal : 1;
    if (config_.sampler == NoiseSampler::ddpm) {
      const double alpha = share / next, beta = 1 - alpha;
      step.of_clean = std::sqrt(next) * beta / (1 - share);
      step.of_x = std::sqrt(alpha) * (1 - next) / (1 - share);
      if (at > 0) step.of_noise = std::sqrt(std::max((1 - next) / (1 - share) * beta, kLeastVariance));
    } else {
      // sqrt(next) x0 + sqrt(1 - next) epsilon, with the noise that the prediction stands for
      step.of_clean = std::sqrt(next);
      const double rest = std::sqrt(1 - next);
      step.of_x = epsilon ? 0 : rest / noise;
      step.of_prediction = epsilon ? rest : -rest / noise * signal;
    }
    steps.push_back(step);
  }
  return steps;
}

}  // namespace maniple
