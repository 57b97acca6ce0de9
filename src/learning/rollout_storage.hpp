// The steps of an iteration, as a policy made them in its environments: observations, actions and rewards,
// block by block, with the sums of the episodes that ended; and the order in which minibatches take them.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/nn/training.hpp"
#include "src/config/config.hpp"
#include "src/learning/learner.hpp"
#include "src/learning/policy.hpp"
#include "src/learning/totals.hpp"
#include "src/simulation/environment.hpp"
#include "src/simulation/tile_rows.hpp"

namespace maniple {

class RolloutStorage {
 public:
  // The environment outlives this.
  RolloutStorage(Environment& environment, const Config& config, const Policy& policy, int workers);
  static LearnerMemory memory(const Config& config, const EnvironmentSizes& sizes, const Network& network,
                              int workers);

  // learning.horizon steps of every environment with the policy's sampled actions.
  void collect(Policy& policy, std::int64_t iteration, StageClock& clock,
               const std::function<void()>& between_steps);
  // Collective. What collect() counted, over all ranks: moves the episodes' means and the count of invalid
  // samples. Returns whether a sum was too large to be exact.
  bool merge_statistics(const TotalsSum& sum);
  // Collective. The same for the policy's running normalization of observations.
  bool merge_observations(const TotalsSum& sum, Policy& policy);

  // Draws the order of an epoch, and returns how its minibatches take it.
  MinibatchDeal deal_minibatches(std::int64_t iteration, int epoch, int minibatches);
  const std::int32_t* order() const { return order_.data(); }  // [tile][horizon]
  // The first of the batch's tiles that this rank has; 0 where ranks share a batch in smaller blocks, of
  // which minibatches all take the same steps.
  std::int64_t first_tile() const { return by_blocks() ? 0 : partition_.first_block; }

  // States of the policy's recurrent cells: before the first step, and those that the next rollout begins
  // with.
  const TiledView<float>& first_states() const { return first_states_; }
  const TiledView<float>& states() const { return states_; }

  const SampleLayout& layout() const { return layout_; }
  float* blocks() const { return blocks_.data(); }  // [step][tile][layout.elements][32]
  const Partition& partition() const { return partition_; }
  int horizon() const { return horizon_; }
  // Samples of all ranks, invalid ones included.
  double samples() const { return static_cast<double>(partition_.num_envs) * horizon_; }

  // Means over the episodes of the last iteration that ended some; NaN before the first.
  double mean_return() const { return mean_of(columns_.episode_return()); }
  double mean_length() const { return mean_of(columns_.length()); }
  double mean_reward_term(std::size_t term) const { return mean_of(columns_.first_term(), term); }
  double mean_metric(std::size_t metric) const { return mean_of(columns_.first_metric(), metric); }
  // Mean return of the latest episodes: of 100, or, where the last iteration ended more, of all that it
  // ended.
  double recent_return() const;
  // Of the last iteration: the episodes that it ended, of which these are the means, and invalid samples.
  std::int64_t episodes() const { return episodes_; }
  std::int64_t invalid_samples() const { return invalid_samples_; }

  // <name>/episode_means and so on.
  void describe(Archive& archive, const std::string& name);
  void restored();

 private:
  bool by_blocks() const { return partition_.block < kTileWidth; }
  double mean_of(int column, std::size_t further = 0) const {
    return episode_means_[static_cast<std::size_t>(column - columns_.episode_return()) + further];
  }
  // Factor of what is added over episodes: near 1 / samples(), and a power of two, so that whole numbers stay
  // exact.
  double statistics_scale() const { return std::exp2(-std::ceil(std::log2(samples()))); }

  Environment& environment_;
  const Partition partition_;
  const SampleLayout layout_;
  const int horizon_;
  const int workers_;
  const std::uint32_t seed_;
  const float reward_scale_;
  const BootstrapChoice bootstrap_;
  const EpisodeColumns columns_;
  Numbers<float> blocks_;
  Numbers<std::int32_t> order_;
  const TiledView<float> first_states_, states_;
  std::optional<HostTiles<float>> states_host_;  // the copy that describe() handed out
  Numbers<double> statistics_;                   // [worker][EpisodeColumns::size()]
  Numbers<double> observation_moments_;          // [worker][moments_columns()], see Act
  std::vector<double> episode_means_;            // of the columns from the return up to the last metric
  // episodes and the sum of their returns, by iteration that ended some, newest last
  std::vector<double> recent_;
  std::int64_t episodes_ = 0, invalid_samples_ = 0;
};

}  // namespace maniple
