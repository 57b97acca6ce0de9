// Generalised advantages of a rollout's steps, and how they are normalised over the whole batch.
#pragma once

#include "src/learning/rollout_storage.hpp"

namespace maniple {

class Advantages {
 public:
  Advantages(const LearningConfig& config, std::int64_t tiles, int actions, int workers);
  static LearnerMemory memory(const EnvironmentSizes& sizes, int workers);

  // Fills in the advantages and value targets of the rollout; the policy values the last observation.
  void estimate(Policy& policy, const Environment& environment, const RolloutStorage& rollout);

  // (A - mean) * scale
  struct Normalisation {
    double mean = 0, scale = 1;
    bool exact = true;  // false: a sum was too large to be
  };
  // Collective. To mean 0 and variance 1, of the valid samples of all ranks.
  Normalisation normalisation(const TotalsSum& sum, double samples) const;

 private:
  const float gamma_, lambda_;
  const int workers_;
  TiledView<float> unused_action_;  // of the last observation, which is valued but not acted on
  Numbers<double> moments_;         // [worker][4], see EstimateAdvantages
};

}  // namespace maniple
