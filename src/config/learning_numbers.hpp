// The settings of learning that learning.curricula may
// change during a training, by the names of their keys.
#pragma once

#include <array>

#include "src/config/config.hpp"

namespace maniple {

struct LearningNumber {
  const char* name;
  double LearningConfig::*member;
};

inline constexpr std::array kLearningNumbers{LearningNumber{"learning_rate", &LearningConfig::learning_rate},
                                             LearningNumber{"clip_ratio", &LearningConfig::clip_ratio},
                                             LearningNumber{"entropy_coef", &LearningConfig::entropy_coef},
                                             LearningNumber{"value_coef", &LearningConfig::value_coef},
                                             LearningNumber{"bounds_coef", &LearningConfig::bounds_coef},
                                             LearningNumber{"kl_coef", &LearningConfig::kl_coef},
                                             LearningNumber{"desired_kl", &LearningConfig::desired_kl},
                                             LearningNumber{"target_kl", &LearningConfig::target_kl},
                                             LearningNumber{"max_grad_norm", &LearningConfig::max_grad_norm}};

}  // namespace maniple
