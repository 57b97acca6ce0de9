// Learning from demonstrations for every kind of policy: minibatches of samples come from a loader, the model
// adds their gradient and losses to totals, and the optimizer steps with the sums over all ranks.
// Data-parallel as PPO is: blocks of the samples of each global batch are dealt to the ranks
// (sample_blocks.hpp), gradients are summed exactly (learning.reduction: exact), all ranks apply equal steps;
// which samples a batch has depends on seed and update alone. A run has the same bits on any number of ranks,
// and goes on in the middle of an epoch with the next sample.
//
// To add a way to imitate, write an ImitationModel, and give it a row in learners.cpp.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/timing.hpp"
#include "src/learning/acting_policy.hpp"
#include "src/learning/batch_loader.hpp"
#include "src/learning/learner.hpp"
#include "src/learning/optimizer.hpp"
#include "src/learning/samples.hpp"
#include "src/parallel/collectives.hpp"

namespace maniple {

// A model that learns from batches of demonstrations.
class ImitationModel {
 public:
  virtual ~ImitationModel() = default;

  // The policy that acts; its entries of describe() are the first of the model.
  virtual ActingPolicy& policy() = 0;
  // What the optimizer steps: those of the policy, or what it has averages of.
  virtual const Numbers<float>& parameters() const = 0;
  // The parameters that steps leave within bounds.
  virtual ParameterBounds bounds() const { return {}; }
  // Its sums beside the gradient, each reported as the mean over the updates of an iteration; the first is
  // the loss. The values here are zeros.
  virtual std::vector<IterationReport::Value> losses() const = 0;
  // How many workers add to totals, each to its own; see learn().
  virtual int workers() const = 0;

  // Numbers of a sample's block, those of the steps of a sequence apart, and how they are laid.
  virtual SampleBlocks sample_blocks() const = 0;
  // Adds gradient and losses of the samples of a batch, or of a part of one, times `scale` to
  // totals[worker][gradient ..., losses ..., inexact terms]. `blocks` and `images`: of these samples, on
  // the device. `update`: of all epochs, or kHeldOut, where nobody asks for the gradient.
  virtual void learn(const LoadedBatch& batch, float* blocks, const std::uint8_t* images, std::int64_t update,
                     double scale, double* totals) = 0;
  // The optimizer has made a step.
  virtual void stepped() {}
  // The metrics that it reports.
  virtual std::vector<IterationReport::Value> values() const { return {}; }

  // Everything that a bit-exact restart needs of it, the policy first.
  virtual void describe(Archive& archive) { policy().describe(archive); }
  // After these entries were loaded.
  virtual void restored() { policy().restored(); }
  // After those of the policy alone were loaded.
  virtual void warm_started() { policy().restored(); }
};

// Tiles that a rank has at most at a time.
struct RankTiles {
  int block = kTileWidth;  // samples of a block, in which ranks share a batch
  std::int64_t of_batch = 1;
  std::int64_t acting = 0;  // of the environments that evaluate what is learned

  // The tiles of the rank that has most of them. `config`: for this number of ranks (effective_batch.hpp).
  RankTiles(const Config& config, int ranks);
};

class ImitationLearner : public Learner {
 public:
  // A model of a configuration.
  using Make = std::unique_ptr<ImitationModel> (*)(const Demonstrations& demonstrations, const Config& config,
                                                   const RankTiles& tiles);
  // `config`: for this number of ranks (effective_batch.hpp). Demonstrations and collectives outlive this.
  // InputError where a batch is larger than the data, or has fewer samples than there are ranks.
  ImitationLearner(const Demonstrations& demonstrations, const Config& config, Collectives& collectives,
                   Make make);
  // Iterations that learning.steps updates take.
  static std::int64_t iterations(const LearningConfig& config);

  void start() override {}
  // learning.report_every updates; may be left after each of them.
  IterationReport iterate(const std::function<void()>& between_steps = [] {}) override;
  IterationReport report_names() const override;

  void describe(Archive& archive) override;
  void restored() override;
  void describe_policy(Archive& archive) override { model_->policy().describe(archive); }
  void describe_warm_start(Archive& archive) override;
  void warm_started(const WarmStart& start) override;
  ActingPolicy* policy() override { return &model_->policy(); }

  Share share() const override;
  Work work_per_iteration() const override;
  // "loader" (waiting for data), "update", "communication"; "validation", where there is any.
  std::vector<std::pair<std::string, double>> stage_seconds() const override { return clock_.seconds(); }

 private:
  struct Sums {
    std::vector<double> losses;
    double gradient_norm = 0, waited = 0;
    std::int64_t updates = 0, skipped = 0;
  };
  IterationReport report(const Sums& sums) const;
  // Adds what the model learns from a batch, or a part of one, to totals.
  void learn(const LoadedBatch& batch, std::int64_t update, double* totals);
  // Collective. Over all samples that are held out, with the parameters as they are.
  double validation_loss(const std::function<void()>& between_steps);
  // Error where nothing has been learned for so long that nothing will be.
  void check_steps(bool stepped);

  const Demonstrations& demonstrations_;
  const Config config_;
  Collectives& collectives_;
  const Windows windows_;
  const Sampler sampler_;
  const RankTiles tiles_;
  const std::unique_ptr<ImitationModel> model_;
  const SampleBlocks sample_blocks_;
  StageClock clock_;
  TotalsSum sum_;
  Optimizer optimizer_;
  Numbers<float> blocks_;  // of a batch, as LoadedBatch has them
  Numbers<std::uint8_t> images_;
  std::unique_ptr<BatchLoader> loader_;  // from the first iteration on

  std::int64_t step_ = 0, iteration_ = 0;  // updates and iterations done
  double validation_loss_ = std::nan("");  // after the latest epoch
  std::int64_t skipped_ = 0;               // updates without a step since the last step
  // what the position in the data depends on, as the checkpoint has it
  std::int64_t checksum_, batch_size_, places_;
};

}  // namespace maniple
