#include "src/learning/advantages.hpp"

#include <algorithm>
#include <cmath>

namespace maniple {
namespace {

constexpr int kMoments = 4;

}  // namespace

LearnerMemory Advantages::memory(const EnvironmentSizes& sizes, int workers) {
  LearnerMemory memory;
  memory.batch_bytes = sizeof(float) * static_cast<std::size_t>(sizes.tiles * sizes.actions * kTileWidth);
  memory.network_bytes = sizeof(double) * static_cast<std::size_t>(workers * kMoments);
  return memory;
}

Advantages::Advantages(const LearningConfig& config, std::int64_t tiles, int actions, int workers)
    : gamma_(static_cast<float>(config.gamma)),
      lambda_(static_cast<float>(config.lambda)),
      workers_(workers),
      unused_action_("maniple::unused_action", tiles, actions),
      moments_("maniple::advantage_moments", static_cast<std::size_t>(workers * kMoments)) {}

void Advantages::estimate(Policy& policy, const Environment& environment, const RolloutStorage& rollout) {
  const Partition& partition = rollout.partition();
  Kokkos::deep_copy(moments_, 0.0);
  with_dense(policy.uses_library(), [&](auto dense) {
    EstimateAdvantages<float, decltype(dense)> estimate;
    estimate.act = policy.actor<decltype(dense)>(workers_);
    estimate.act.observation = environment.observation();
    estimate.act.action = unused_action_;
    estimate.act.deterministic = true;
    estimate.act.envs = partition.envs();
    estimate.blocks = rollout.blocks();
    estimate.tiles = partition.tiles;
    estimate.horizon = rollout.horizon();
    estimate.gamma = gamma_;
    estimate.lambda = lambda_;
    estimate.moments = moments_.data();
    estimate.moment_scale = 1.0 / rollout.samples();
    for_tiles("maniple::estimate_advantages", partition.tiles, workers_, estimate);
  });
}

Advantages::Normalisation Advantages::normalisation(const TotalsSum& sum, double samples) const {
  const std::vector<double> moments = sum(moments_, kMoments);
  const double valid = std::max(1.0, samples - moments[2]), share = samples / valid;
  Normalisation result;
  result.exact = !(moments[3] > 0);
  result.mean = share * moments[0];
  // the unbiased estimate, as torch.std
  const double variance =
      std::max(0.0, share * moments[1] - result.mean * result.mean) * valid / std::max(1.0, valid - 1);
  result.scale = 1.0 / (std::sqrt(variance) + 1e-8);
  return result;
}

}  // namespace maniple
