// Running averages of parameters (EMA), for acting in place of the parameters: with the warm-up of
// diffusion_policy's EMAModel (model/diffusion/ema_model.py), whose first averages are the parameters.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/config/config.hpp"

namespace maniple {

// What is kept of the averages at the step-th step of the optimizer, counted from 0.
inline double average_decay(const LearningConfig& config, std::int64_t step) {
  if (step < 2) return 0;
  const double decay =
      1 - std::pow(1 + static_cast<double>(step - 1) / config.ema_inv_gamma, -config.ema_power);
  return std::max(config.ema_min, std::min(decay, config.ema_max));
}

}  // namespace maniple
