// Learning rate schedules.
#pragma once

#include <algorithm>
#include <cmath>

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

// At the start of an iteration, which is the iteration-th of all, counted from 0.
inline double annealed_learning_rate(const LearningConfig& config, double learning_rate,
                                     std::int64_t iteration) {
  if (config.schedule == RateSchedule::fixed) return config.learning_rate;
  if (config.schedule == RateSchedule::adaptive) return learning_rate;
  const double left = 1.0 - static_cast<double>(iteration) / static_cast<double>(config.iterations);
  return config.learning_rate * std::max(left, 0.0);
}

// Of the update-th update of all, counted from 0, of a policy that imitates: a linear warm-up from 0, then
// constant, or along half a cosine to 0 after the last one (diffusers' get_cosine_schedule_with_warmup).
inline double imitation_learning_rate(const LearningConfig& config, double learning_rate,
                                      std::int64_t update) {
  constexpr double kPi = 3.14159265358979323846;
  const bool cosine = config.schedule == RateSchedule::cosine;
  if (!cosine && config.schedule != RateSchedule::fixed) return learning_rate;
  if (update < config.warmup_steps)
    return config.learning_rate * static_cast<double>(update) / static_cast<double>(config.warmup_steps);
  if (!cosine) return config.learning_rate;
  const double progress = static_cast<double>(update - config.warmup_steps) /
                          static_cast<double>(std::max<std::int64_t>(1, config.steps - config.warmup_steps));
  return config.learning_rate * std::max(0.0, 0.5 * (1 + std::cos(kPi * progress)));
}

}  // namespace maniple
