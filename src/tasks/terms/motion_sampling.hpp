// Where episodes begin in a reference motion: mostly where policies fail (mjlab's adaptive sampling, after
// BeyondMimic). Numbers of the host, the same on every rank, that follow the failures of all environments.
#pragma once

#include <cstddef>
#include <vector>

namespace maniple {

// The settings of mjlab's MotionCommandCfg, adaptive_kernel_size and so on.
struct AdaptiveSampling {
  int kernel_size = 1;         // bins before a failure that get a share of it
  double lambda = 0.8;         // share of each further one
  double uniform_ratio = 0.1;  // failures that are spread over all bins
  double alpha = 0.001;        // weight of a control step in the running mean of failures
};

struct Motion;

class MotionSampling {
 public:
  MotionSampling() = default;
  explicit MotionSampling(const Motion& motion);

  // Follows the failures of each bin since the beginning of the training, of all environments, in this
  // control step.
  void advance(const std::vector<double>& failures, double control_step);

  std::vector<double> probabilities() const;
  // [bin]: the probability of this bin or an earlier one.
  std::vector<double> cumulative() const;
  // Entropy of the probabilities divided by that of equal ones [1].
  double entropy() const;

  // The state: for checkpoints.
  std::vector<double>& failed() { return failed_; }
  std::vector<double>& counted() { return counted_; }
  double& control_step() { return control_step_; }

 private:
  AdaptiveSampling settings_;
  std::vector<double> failed_;   // running means of failures in a control step
  std::vector<double> counted_;  // failures so far, as of the last call
  double control_step_ = 0;      // of the last call
};

}  // namespace maniple
