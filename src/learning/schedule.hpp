// Learning rate schedules.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "src/config/config.hpp"

namespace maniple {

// The learning rate after a mean KL divergence was measured: divided by lr_factor above desired_kl *
// kl_factor, multiplied below desired_kl / kl_factor, within [lr_min, lr_max]. Fixed: unchanged.
inline double scheduled_learning_rate(const LearningConfig& config, double learning_rate, double kl) {
  if (config.schedule != RateSchedule::adaptive) return learning_rate;
  if (kl > config.desired_kl * config.kl_factor)
    return std::max(learning_rate / config.lr_factor, config.lr_min);
  if (kl < config.desired_kl / config.kl_factor)
    return std::min(learning_rate * config.lr_factor, config.lr_max);
  return learning_rate;
}

// The learning rate of an update, from the rate before it. Both are counted over the whole run from 0: the
// iteration, by which the linear schedule goes, and the update, by which a policy that imitates warms up
// (from 0) and the cosine goes (half a one, to 0 after the last update: diffusers'
// get_cosine_schedule_with_warmup).
inline double annealed_learning_rate(const LearningConfig& config, double learning_rate,
                                     std::int64_t iteration, std::int64_t update) {
  const bool warms_up = update < config.warmup_steps;
  const auto warming = [&] {
    return config.learning_rate * static_cast<double>(update) / static_cast<double>(config.warmup_steps);
  };
  switch (config.schedule) {
    case RateSchedule::fixed:
      return warms_up ? warming() : config.learning_rate;
    case RateSchedule::adaptive:
      return learning_rate;
    case RateSchedule::linear: {
      const double left = 1.0 - static_cast<double>(iteration) / static_cast<double>(config.iterations);
      return config.learning_rate * std::max(left, 0.0);
    }
    case RateSchedule::cosine: {
      if (warms_up) return warming();
      const double progress =
          static_cast<double>(update - config.warmup_steps) /
          static_cast<double>(std::max<std::int64_t>(1, config.steps - config.warmup_steps));
      return config.learning_rate * std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * progress)));
    }
  }
  return learning_rate;
}

}  // namespace maniple
