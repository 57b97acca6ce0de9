// Diffusion policies (Chi et al. 2023) learn from demonstrations: sequences of demonstrated actions get noise
// of a random diffusion step, and a network learns to predict it from the observations of the sequence. Noise
// and steps are functions of seed, update and place in the batch.
//
// Where this departs from the reference (real-stanford/diffusion_policy): normalizers are fixed numbers, not
// parameters; the loss over held out demonstrations (data.validation_filter) has the same noise each time.
#pragma once

#include <vector>

#include "src/learning/diffusion_policy.hpp"
#include "src/learning/imitation_learner.hpp"

namespace maniple {

class Diffusion : public ImitationModel {
 public:
  // The demonstrations outlive this.
  Diffusion(const Demonstrations& demonstrations, const Config& config, const RankTiles& tiles);
  // The memory of a rank that takes `sizes.tiles` tiles of a batch, and acts in `sizes.acting_tiles`.
  static LearnerMemory memory(const Config& config, const EnvironmentSizes& sizes);

  // With the averages, where there are any.
  DiffusionPolicy& policy() override { return policy_; }
  const Numbers<float>& parameters() const override { return parameters_; }
  std::vector<IterationReport::Value> losses() const override;
  int workers() const override { return 1; }
  SampleBlocks sample_blocks() const override;
  void learn(const LoadedBatch& batch, float* blocks, const std::uint8_t* images, std::int64_t update,
             double scale, double* totals) override;
  // The averages follow.
  void stepped() override;
  std::vector<IterationReport::Value> values() const override;

  void describe(Archive& archive) override;
  void restored() override;
  void warm_started() override;

 private:
  // Calls body(features of a camera's frame, where they stand in the condition) for a run of tiles.
  template <class Body>
  void for_features(float* samples, const Body& body) const;
  // Lays a sample into its block.
  void lay(const SampleBlocks::Rows& rows, float* block) const;

  const Demonstrations& demonstrations_;
  const Config config_;
  std::unique_ptr<CameraEncoders> cameras_;  // null: there are no images
  DiffusionPolicy policy_;
  const SequenceLayout data_;
  const DenoisingLayout layout_;
  ConditionalUnet<float> unet_;
  Numbers<float> parameters_;          // what learns: the policy's own, or those that it has the averages of
  Numbers<float> network_parameters_;  // the part of them that is the network's
  Numbers<float>::HostMirror parameters_host_;
  Numbers<float> blocks_;  // of a run of tiles: [tile][layout_.elements][32]
  Numbers<float> signal_, noise_;
  Numbers<double> sums_;       // [tile] of a run
  std::int64_t averaged_ = 0;  // steps that the averages followed
};

}  // namespace maniple
