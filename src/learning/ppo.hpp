// Proximal policy optimisation (Schulman et al. 2017) over a batch of environments that is divided among
// ranks, with the settings of the programs that publish them (src/config/presets.cpp). All ranks hold
// equal parameters and apply equal steps; what is summed over environments is summed exactly
// (learning.reduction: exact), so a run has the same bits on any number of ranks.
//
// Where this departs from those programs:
// - Minibatches take whole steps of every tile of 32 environments, dealt again in each epoch, or the same
//   steps of all environments of a small batch; rl_games keeps contiguous slices of environments for all
//   epochs, rsl_rl shuffles single samples. Recurrent policies learn from all steps of a tile, back to the
//   first: minibatches divide the environments, as in both.
// - Both adapt the learning rate after each minibatch (rl_games' schedule_type "legacy"; its "standard" is
//   lr_per_minibatch = false). The adapted rate serves this minibatch's own step, as in rsl_rl; in rl_games
//   it serves the next one.
// - max_grad_norm bounds the norm of all gradients, as in rl_games; rsl_rl 5.4 bounds that of the actor's and
//   that of the critic's.
// - A KL of 0, that of an iteration's first minibatch, raises an adaptive rate; in rsl_rl 5.4 it does not.
// - Normalized observations are (x - mean) / sqrt(variance + 1e-5), clipped; in rsl_rl they are
//   (x - mean) / (std + 0.01).
// - KL is the exact KL(old || new) of the Gaussians, without the 1e-5 that both add inside.
// - The value loss is half the squared error: value_coef is rl_games' critic_coef and twice rsl_rl's
//   value_loss_coef. The standard deviation is learned as its logarithm; rsl_rl learns it directly.
// - All biases start at zero (rl_games); those of layers in torch do not.
// - normalize_value rescales the critic's last layer as the moments of values move (PopArt), so that values
//   stay what they are; rl_games lets them jump. An episode that fails in the step that is its last is a
//   failure, not a time-out, whatever value_bootstrap says.
// - normalize_reward takes in a whole iteration before its rewards are scaled; CleanRL and SB3 each step.
// - A normalizer of observations takes in an iteration's observations after its update, so that the
//   rollout and the update see equal inputs.
// - An invalid step (its state or reward was not finite or too large) has no weight in any sum, and the
//   rollout of its environment is cut before it; it is counted. An episode that ends in one is not averaged.
// - A minibatch whose sums are not finite, or too large to be exact, makes no step; it is counted, and the
//   sums of the next ones are scaled (Optimizer::scale()).
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/timing.hpp"
#include "src/learning/advantages.hpp"
#include "src/learning/learner.hpp"
#include "src/learning/optimizer.hpp"
#include "src/learning/policy.hpp"
#include "src/learning/rollout_storage.hpp"
#include "src/parallel/collectives.hpp"
#include "src/simulation/environment.hpp"

namespace maniple {

class Ppo : public Learner {
 public:
  // Allocates everything. The environment and the collectives must outlive this.
  Ppo(Environment& environment, const Config& config, Collectives& collectives);
  static LearnerMemory memory(const Config& config, const EnvironmentSizes& sizes);

  // All environments into a fresh episode.
  void start() override;
  // A rollout of `horizon` steps and the epochs of updates on it; may be left after each control step and
  // each minibatch.
  IterationReport iterate(const std::function<void()>& between_steps = [] {}) override;
  IterationReport report_names() const override;

  void describe(Archive& archive) override;
  void restored() override;
  void describe_policy(Archive& archive) override;
  void describe_warm_start(Archive& archive) override;
  void warm_started(const WarmStart& start) override;
  Partition partition() const override { return rollout_.partition(); }

  Work work_per_iteration() const override { return {rollout_.samples(), "env-steps"}; }
  // The stages of the environments, then "policy", "update" and "communication".
  std::vector<std::pair<std::string, double>> stage_seconds() const override;

  Policy* policy() override { return &policy_; }

 private:
  struct UpdateSums;

  UpdateSums update(const std::function<void()>& between_steps);
  // Adds the gradient of a minibatch to its totals.
  template <class Training>
  void learn(Training& train) const;
  // The numbers of the next iteration (learning.curricula), of these metrics.
  void follow(const std::map<std::string, double>& metrics);
  IterationReport report(const UpdateSums& sums) const;

  Environment& environment_;
  const Config config_;
  LearningConfig learning_;      // of the iteration
  std::vector<double> numbers_;  // of kLearningNumbers there
  Collectives& collectives_;
  Policy policy_;
  const int workers_;
  StageClock clock_;
  TotalsSum sum_;
  RolloutStorage rollout_;
  Advantages advantages_;
  Optimizer optimizer_;
  Numbers<float> reference_log_std_;  // [step][tile][actions]: of the policy that KL is measured from
  const Numbers<float> panels_;       // see BlockGradient

  std::int64_t iteration_ = 0;
  std::set<std::string> stuck_;    // of learning.curricula that gave no finite number and have been named
  std::int64_t skipped_ = 0;       // minibatches in a row that made no step
  std::int64_t inexact_sums_ = 0;  // statistics that were too large to be exact, so far
};

}  // namespace maniple
