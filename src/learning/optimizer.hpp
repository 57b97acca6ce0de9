// The steps of a learner's parameters: a minibatch's gradient, summed over all ranks, clipped by its norm,
// goes through Adam at a learning rate that may follow the KL divergence. All ranks hold equal parameters and
// apply equal steps, so parameters are never exchanged.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/nn/adam.hpp"
#include "src/config/config.hpp"
#include "src/io/archive.hpp"
#include "src/learning/learner.hpp"
#include "src/learning/totals.hpp"

namespace maniple {

class Optimizer {
 public:
  // For this many parameters, with this many metrics that are summed along with their gradient.
  Optimizer(const LearningConfig& config, std::int64_t parameters, int metrics, int workers);
  static LearnerMemory memory(const LearningConfig& config, std::int64_t parameters, int metrics,
                              int workers);
  void keep_within(const ParameterBounds& bounds) { bounds_ = bounds; }
  // From now on steps move parameters from the first one to before `end` alone: neither decay nor moments of
  // before move the others, whose gradient does not count in the norm, either, where it is not 0.
  void move_only(std::int64_t first, std::int64_t end);
  // Takes over numbers that have changed: learning rate, desired KL divergence, largest norm.
  void follow(const LearningConfig& config);

  // Where the kernels of a minibatch add: [totals_workers()][gradient ..., metrics ..., inexact terms];
  // zeroed.
  double* clear_totals();
  // What gradients and metrics are multiplied by, a power of two: smaller once they were too large to be
  // summed exactly (those of a mixture, or of values without normalization, are without bound), and back in
  // time.
  double scale() const { return scale_; }
  // Collective. Adds them up over workers and ranks and returns the metrics, without that scale.
  std::vector<double> sum_totals(const TotalsSum& sum);
  // Adapts the learning rate to a mean KL divergence [nat], where its schedule asks for that.
  void adapt(double kl);
  // Anneals it before an iteration, likewise; where a policy imitates, before each update.
  void anneal(std::int64_t iteration, std::int64_t update = 0);
  // One step with the summed gradient; returns its norm before clipping. No step, and nothing returned, where
  // the gradient is not finite or was too large to be exact.
  std::optional<double> step(const Numbers<float>& parameters);

  double learning_rate() const { return learning_rate_; }

  // <name>/adam_moment1 and so on.
  void describe(Archive& archive, const std::string& name);
  void describe_moments(Archive& archive, const std::string& name);  // without the learning rate
  void restored();

 private:
  LearningConfig config_;
  const std::int64_t parameters_;
  std::int64_t first_moved_ = 0, end_moved_;
  const std::int64_t count_;  // of totals
  double learning_rate_;
  std::int64_t steps_ = 0;
  double scale_ = 1;
  std::int64_t steps_at_scale_ = 0;
  double inexact_ = 0;  // of the summed totals
  ParameterBounds bounds_;
  Numbers<double> totals_;  // [totals_workers()][count]
  Numbers<float> single_;   // [count], with reduction: fast
  Numbers<double> norm_blocks_;
  Numbers<float> moment1_, moment2_;
  Numbers<float>::HostMirror moment1_host_, moment2_host_;
};

}  // namespace maniple
