// Behaviour cloning (Pomerleau 1989): a policy learns the actions that were demonstrated with observations,
// by minibatches of single samples or, where it is recurrent, of sequences, as robomimic's algo/bc.py (BC,
// BC_GMM, BC_RNN, BC_RNN_GMM).
//
// Where this departs from robomimic: biases start at zero (those of a mixture's means are drawn), those of
// torch do not; Adam's moments are of the exact sums. l1 is the absolute error, robomimic's l1 is smooth_l1
// here.
#pragma once

#include <vector>

#include "kernels/nn/cloning_loss.hpp"
#include "src/learning/imitation_learner.hpp"
#include "src/learning/policy.hpp"

namespace maniple {

class BehaviourCloning : public ImitationModel {
 public:
  // The demonstrations outlive this.
  BehaviourCloning(const Demonstrations& demonstrations, const Config& config, const RankTiles& tiles);
  // The memory of a rank that takes `sizes.tiles` tiles of a batch.
  static LearnerMemory memory(const Config& config, const EnvironmentSizes& sizes);

  Policy& policy() override { return policy_; }
  const Numbers<float>& parameters() const override { return policy_.parameters(); }
  ParameterBounds bounds() const override;
  std::vector<IterationReport::Value> losses() const override;
  int workers() const override { return cameras_ ? 1 : workers_; }
  SampleBlocks sample_blocks() const override;
  void learn(const LoadedBatch& batch, float* blocks, const std::uint8_t* images, std::int64_t update,
             double scale, double* totals) override;

 private:
  // Calls body(features of a camera's frame, where they stand in the blocks of a step, whether it is the
  // frame's first step).
  template <class Body>
  void for_features(float* blocks, std::int64_t tiles, const Body& body) const;
  // Lays observations and actions of a sample.
  void lay(const SampleBlocks::Rows& rows, float* first, std::size_t step_stride) const;

  const Demonstrations& demonstrations_;
  const Config config_;
  const WindowShape shape_;
  std::unique_ptr<CameraEncoders> cameras_;  // null: there are no images
  Policy policy_;
  const DemonstratedLayout layout_;
  const int workers_;
  Numbers<double>
      totals_;  // [totals_workers()][minibatch_totals] of the network, where totals are not so laid
  const TiledView<float> first_states_;             // of recurrent cells: zeros
  const Numbers<float> panels_;                     // see BlockGradient
  Kokkos::View<std::int32_t*, MemorySpace> order_;  // a tile has one step
};

}  // namespace maniple
