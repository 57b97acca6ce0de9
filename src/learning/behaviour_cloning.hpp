// Behaviour cloning (Pomerleau 1989): a policy learns the actions that were demonstrated with observations,
// by minibatches of single samples or, where it is recurrent, of sequences, as robomimic's algo/bc.py (BC,
// BC_GMM, BC_RNN, BC_RNN_GMM). Data-parallel as PPO is: tiles of 32 samples
// of each global batch are dealt to the ranks, gradients are summed exactly (learning.reduction: exact), all
// ranks apply equal steps; which samples a batch has depends on seed and update alone. A run has the same
// bits on any number of ranks, and goes on in the middle of an epoch with the next sample.
//
// Where this departs from robomimic: biases start at zero (those of a mixture's means are drawn), those of
// torch do not; Adam's moments are of the
// exact sums. l1 is the absolute error, robomimic's l1 is smooth_l1 here.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/timing.hpp"
#include "src/learning/batch_loader.hpp"
#include "src/learning/learner.hpp"
#include "src/learning/optimizer.hpp"
#include "src/learning/policy.hpp"
#include "src/learning/samples.hpp"
#include "src/parallel/collectives.hpp"

namespace maniple {

class BehaviourCloning : public Learner {
 public:
  // Of a configuration for this number of ranks (effective_batch.hpp). Both references outlive this.
  // InputError where a batch is larger than the data, or has fewer samples than there are ranks.
  BehaviourCloning(const Demonstrations& demonstrations, const Config& config, Collectives& collectives);
  // Of a rank that takes `sizes.tiles` tiles of a batch.
  static LearnerMemory memory(const Config& config, const EnvironmentSizes& sizes);

  void start() override {}
  // learning.report_every updates; may be left after each of them.
  IterationReport iterate(const std::function<void()>& between_steps = [] {}) override;
  IterationReport report_names() const override;

  void describe(Archive& archive) override;
  void restored() override;
  void describe_learned(Archive& archive, bool to_go_on) override;
  void warm_started(const std::vector<std::string>& names) override;
  Policy* policy() override { return &policy_; }

  Work work_per_iteration() const override;
  // "loader" (waiting for data), "update", "communication".
  std::vector<std::pair<std::string, double>> stage_seconds() const override { return clock_.seconds(); }

 private:
  struct Sums {
    double loss = 0, squared_error = 0, gradient_norm = 0, waited = 0;
    std::int64_t updates = 0, skipped = 0;
  };
  IterationReport report(const Sums& sums) const;

  const Demonstrations& demonstrations_;
  const Config config_;
  Collectives& collectives_;
  const WindowShape shape_;
  const Windows windows_;
  const Sampler sampler_;
  Policy policy_;
  const DemonstratedLayout layout_;
  const int workers_;
  StageClock clock_;
  TotalsSum sum_;
  Optimizer optimizer_;
  Numbers<float> blocks_;                           // of a batch: [step][tile][layout_.elements][32]
  const TiledView<float> first_states_;             // of recurrent cells: zeros
  Kokkos::View<std::int32_t*, MemorySpace> order_;  // a tile has one step
  std::unique_ptr<BatchLoader> loader_;             // from the first iteration on

  std::int64_t step_ = 0, iteration_ = 0;  // updates and iterations done
  // what the position in the data depends on, as the checkpoint has it
  std::int64_t checksum_, batch_size_, places_;
};

}  // namespace maniple
