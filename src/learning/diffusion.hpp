// Diffusion policies (Chi et al. 2023) learn from demonstrations: sequences of demonstrated actions get noise
// of a random diffusion step, which a network finds, given the observations that came with them.
// Data-parallel as behaviour cloning is (behaviour_cloning.hpp), with the same promises: noise and steps are
// functions of seed, update and place in the batch.
//
// Where this departs from the reference (real-stanford/diffusion_policy): normalizers are fixed numbers, not
// parameters; no demonstrations are held back for validation.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/timing.hpp"
#include "src/learning/batch_loader.hpp"
#include "src/learning/diffusion_policy.hpp"
#include "src/learning/learner.hpp"
#include "src/learning/optimizer.hpp"
#include "src/learning/samples.hpp"
#include "src/parallel/collectives.hpp"

namespace maniple {

class Diffusion : public Learner {
 public:
  // Of a configuration for this number of ranks (effective_batch.hpp). Both references outlive this.
  // InputError where data and batch do not fit.
  Diffusion(const Demonstrations& demonstrations, const Config& config, Collectives& collectives);
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
  // With the averages, where there are any.
  DiffusionPolicy* policy() override { return &policy_; }

  Work work_per_iteration() const override;
  // "loader" (waiting for data), "update", "communication".
  std::vector<std::pair<std::string, double>> stage_seconds() const override { return clock_.seconds(); }

 private:
  struct Sums {
    double loss = 0, gradient_norm = 0, waited = 0;
    std::int64_t updates = 0, skipped = 0;
  };
  IterationReport report(const Sums& sums) const;
  // Lays a sample into its block; `rows` is room for its frames.
  void lay_sample(const DataUnits& units, std::int64_t sample, std::vector<std::int64_t>& rows,
                  float* to) const;
  // Adds gradient and loss of the loaded samples to the totals.
  void learn(const LoadedBatch& batch, double* totals);
  // The averages follow a step of the optimizer.
  void average();

  const Demonstrations& demonstrations_;
  const Config config_;
  Collectives& collectives_;
  const Windows windows_;
  const Sampler sampler_;
  DiffusionPolicy policy_;
  const SequenceLayout data_;
  const DenoisingLayout layout_;
  ConditionalUnet<float> unet_;
  StageClock clock_;
  TotalsSum sum_;
  Optimizer optimizer_;
  Numbers<float> parameters_;  // that learn: those of the policy, or what it has the averages of
  Numbers<float>::HostMirror parameters_host_;
  Numbers<float> samples_;  // of a batch: [tile][data_.elements][32]
  Numbers<float> blocks_;   // of a run of tiles: [tile][layout_.elements][32]
  Numbers<float> signal_, noise_;
  Numbers<double> sums_;                 // [tile] of a run
  std::unique_ptr<BatchLoader> loader_;  // from the first iteration on

  std::int64_t step_ = 0, iteration_ = 0;  // updates and iterations done
  std::int64_t averaged_ = 0;              // steps that the averages followed
  // what the position in the data depends on, as the checkpoint has it
  std::int64_t checksum_, batch_size_, places_;
};

}  // namespace maniple
