// Generalised advantages of a rollout's steps, and the scaling of rewards, values and advantages: rewards
// over the deviation of their discounted sum, values and advantages with mean 0 and variance 1.
#pragma once

#include <optional>
#include <vector>

#include "src/io/archive.hpp"
#include "src/learning/rollout_storage.hpp"
#include "src/learning/running_moments.hpp"
#include "src/simulation/tile_rows.hpp"

namespace maniple {

// (x - mean) * scale
struct Normalization {
  double mean = 0, scale = 1;
};

class Advantages {
 public:
  Advantages(const LearningConfig& config, const Partition& partition, int workers);
  static LearnerMemory memory(const LearningConfig& config, const EnvironmentSizes& sizes, int workers);

  // Collective. Fills in the advantages and value targets of the rollout, in the unit of rewards; the policy
  // values the last observation. With normalize_value the critic's last layer takes on the new normalization
  // of values, so that the values that it gives stay what they are (van Hasselt et al. 2016).
  void estimate(Policy& policy, const Environment& environment, const RolloutStorage& rollout,
                const TotalsSum& sum);

  // Collective. The normalization of the advantages of each minibatch of an epoch, with
  // normalize_advantage_per_minibatch.
  std::vector<Normalization> of_minibatches(const RolloutStorage& rollout, const MinibatchDeal& deal,
                                            const TotalsSum& sum);

  // The normalizations of the last estimate, over the valid samples of all ranks.
  const Normalization& advantage() const { return advantage_; }  // none unless normalized over the batch
  const Normalization& value() const { return value_; }          // none without normalize_value
  // The fraction of the targets' variance that the values foresaw.
  double explained_variance() const { return explained_variance_; }
  // Sums that were too large to be exact, or not finite.
  int inexact() const { return inexact_; }

  // <name>/value_mean and so on.
  void describe(Archive& archive, const std::string& name);
  void restored();
  // The normalization of values alone, for another run: `normalized` says whether the critic that it begins
  // with has one.
  void describe_values(Archive& archive, const std::string& name);
  void warm_started(Policy& policy, bool normalized);

 private:
  struct Moments {
    double mean[kMostMoments] = {}, variance[kMostMoments] = {};
    double distance[kMostMoments] = {};  // of the farthest sample from the point
    double samples = 0;
  };
  // Collective. Moments of elements of the stored samples, each about a point.
  Moments moments(const RolloutStorage& rollout, const TotalsSum& sum, const std::vector<int>& elements,
                  const std::vector<double>& about);
  void scale_rewards(const RolloutStorage& rollout, const TotalsSum& sum);

  const LearningConfig config_;
  const Partition partition_;
  const int workers_;
  Numbers<double> sizes_, sums_;                         // [worker][...], see SampleMoments
  Numbers<double> minibatch_sums_;                       // [worker][...], see MinibatchMoments
  TiledView<float> running_return_;                      // with normalize_reward
  std::optional<HostTiles<float>> running_return_host_;  // that describe() handed out
  RunningMoments returns_, values_;
  Normalization advantage_, value_;
  double mean_advantage_ = 0, largest_advantage_ = 0;
  double explained_variance_ = 0;
  int inexact_ = 0;
};

}  // namespace maniple
