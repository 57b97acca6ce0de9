#include "src/tasks/terms/motion_sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/tasks/terms/motion.hpp"

namespace maniple {

MotionSampling::MotionSampling(const Motion& motion)
    : settings_(motion.adaptive),
      failed_(static_cast<std::size_t>(motion.bins), 0),
      counted_(failed_.size(), 0) {}

// mjlab's running mean takes each control step by itself, failed = (1 - alpha) failed + alpha new; here each
// step of an iteration counts with an equal share of its failures.
void MotionSampling::advance(const std::vector<double>& failures, double control_step) {
  const double steps = std::max(1.0, control_step - control_step_);
  const double kept = std::pow(1 - settings_.alpha, steps);
  for (std::size_t i = 0; i < failed_.size(); ++i)
    failed_[i] = kept * failed_[i] + (1 - kept) / steps * (failures[i] - counted_[i]);
  counted_ = failures;
  control_step_ = control_step;
}

std::vector<double> MotionSampling::probabilities() const {
  const std::size_t bins = failed_.size();
  std::vector<double> weights(bins, 0);
  for (std::size_t i = 0; i < bins; ++i) {
    double share = 1;
    for (int k = 0; k < settings_.kernel_size; ++k, share *= settings_.lambda)
      weights[i] += share * (failed_[std::min(i + static_cast<std::size_t>(k), bins - 1)] +
                             settings_.uniform_ratio / static_cast<double>(bins));
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight = sum > 0 ? weight / sum : 1 / static_cast<double>(bins);
  return weights;
}

std::vector<double> MotionSampling::cumulative() const {
  std::vector<double> sums = probabilities();
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  return sums;
}

double MotionSampling::entropy() const {
  if (failed_.size() < 2) return 1;
  double sum = 0;
  for (const double p : probabilities())
    if (p > 0) sum -= p * std::log(p);
  return sum / std::log(static_cast<double>(failed_.size()));
}

}  // namespace maniple
