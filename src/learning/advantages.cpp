#include "src/learning/advantages.hpp"

#include <algorithm>
#include <cmath>

namespace maniple {
namespace {

// Added to variances before the root, of values (rl_games' RunningMeanStd) and of returns that scale rewards
// (Gymnasium's NormalizeReward), and to the deviation of advantages.
constexpr double kValueVarianceFloor = 1e-5, kReturnVarianceFloor = 1e-8, kDeviationFloor = 1e-8;

std::int64_t sums_columns() {
  return 2 * kMostMoments + 2;
}

std::int64_t minibatch_columns(const LearningConfig& config) {
  if (!config.normalize_advantage || !config.normalize_advantage_per_minibatch) return 0;
  return MinibatchMoments<float>::columns * config.minibatches + 1;
}

// The normalization of advantages, by the unbiased estimate of their deviation, as torch.std.
Normalization normalization_of(double mean, double variance, double samples) {
  const double unbiased = samples / std::max(1.0, samples - 1);
  return {mean, 1.0 / (std::sqrt(variance * unbiased) + kDeviationFloor)};
}

void describe_moments(Archive& archive, const std::string& name, RunningMoments& moments,
                      const std::string& what) {
  archive.replicated(name + "_mean", &moments.mean, 1, "reward", "running mean of " + what);
  archive.replicated(name + "_variance", &moments.variance, 1, "reward^2", "running variance of " + what);
  archive.replicated(name + "_count", &moments.count, 1, "1", "samples taken in");
}

Normalization normalization_of(const RunningMoments& moments) {
  return {moments.mean, 1.0 / std::sqrt(moments.variance + kValueVarianceFloor)};
}

}  // namespace

LearnerMemory Advantages::memory(const LearningConfig& config, const EnvironmentSizes& sizes, int workers) {
  LearnerMemory memory;
  if (config.normalize_reward) {
    memory.batch_bytes = sizeof(float) * static_cast<std::size_t>(sizes.tiles * kTileWidth);
    memory.snapshot_bytes = memory.batch_bytes;
  }
  memory.network_bytes =
      sizeof(double) *
      static_cast<std::size_t>(workers * (kMostMoments + sums_columns() + minibatch_columns(config)));
  return memory;
}

Advantages::Advantages(const LearningConfig& config, const Partition& partition, int workers)
    : config_(config),
      partition_(partition),
      workers_(workers),
      sizes_("maniple::sample_sizes", static_cast<std::size_t>(workers * kMostMoments)),
      sums_("maniple::sample_moments", static_cast<std::size_t>(workers * sums_columns())),
      minibatch_sums_("maniple::minibatch_moments",
                      static_cast<std::size_t>(workers * minibatch_columns(config))) {
  if (config.normalize_value) value_ = normalization_of(values_);
  if (config.normalize_reward)
    running_return_ = TiledView<float>("maniple::running_return", partition.tiles, 1);
}

void Advantages::estimate(Policy& policy, const Environment& environment, const RolloutStorage& rollout,
                          const TotalsSum& sum) {
  inexact_ = 0;
  if (config_.normalize_reward) scale_rewards(rollout, sum);
  const double reward_scale =
      config_.normalize_reward ? 1.0 / std::sqrt(returns_.variance + kReturnVarianceFloor) : 1.0;
  with_forward_dense(policy.uses_library(), partition_.block, [&](auto dense) {
    EstimateAdvantages<float, decltype(dense)> estimate;
    estimate.act = policy.actor<decltype(dense)>(workers_);
    estimate.act.observation = environment.observation();
    estimate.act.critic_observation = environment.critic_observation();
    estimate.act.state = rollout.states();
    estimate.act.deterministic = true;
    estimate.act.envs = partition_.envs();
    estimate.act.block_size = partition_.block;
    estimate.blocks = rollout.blocks();
    estimate.tiles = partition_.tiles;
    estimate.horizon = rollout.horizon();
    estimate.gamma = static_cast<float>(config_.gamma);
    estimate.lambda = static_cast<float>(config_.lambda);
    estimate.units = {.reward_scale = static_cast<float>(reward_scale),
                      .clip_reward = static_cast<float>(config_.clip_reward),
                      .value_mean = static_cast<float>(value_.mean),
                      .value_scale = static_cast<float>(1.0 / value_.scale)};
    for_tiles("maniple::estimate_advantages", partition_.tiles, workers_, estimate);
  });
  const SampleLayout& layout = policy.layout();
  const Moments found = moments(rollout, sum, {layout.advantage, layout.target}, {0.0, value_.mean});
  explained_variance_ = found.variance[1] > 0 ? 1 - found.variance[0] / found.variance[1] : 0;
  mean_advantage_ = found.mean[0];
  largest_advantage_ = found.distance[0];
  if (config_.normalize_advantage && !config_.normalize_advantage_per_minibatch)
    advantage_ = normalization_of(found.mean[0], found.variance[0], found.samples);
  if (config_.normalize_value) {
    values_.merge(found.mean[1], found.variance[1], found.samples);
    const Normalization before = value_;
    value_ = normalization_of(values_);
    policy.rescale_values(value_.scale / before.scale, (before.mean - value_.mean) * value_.scale);
  }
}

std::vector<Normalization> Advantages::of_minibatches(const RolloutStorage& rollout,
                                                      const MinibatchDeal& deal, const TotalsSum& sum) {
  MinibatchMoments<float> kernel;
  kernel.layout = rollout.layout();
  kernel.blocks = rollout.blocks();
  kernel.order = rollout.order();
  kernel.tiles = partition_.tiles;
  kernel.envs = partition_.envs();
  kernel.block_size = partition_.block;
  kernel.first_tile = rollout.first_tile();
  kernel.deal = deal;
  kernel.shift = static_cast<float>(mean_advantage_);
  const auto size = static_cast<float>(largest_advantage_ + std::abs(mean_advantage_));
  kernel.scale = size > 0 ? 1.0f / size : 1.0f;
  kernel.moment_scale = deal.minibatches / rollout.samples();
  kernel.totals = minibatch_sums_.data();
  Kokkos::deep_copy(minibatch_sums_, 0.0);
  for_tiles("maniple::minibatch_moments", partition_.tiles, workers_, kernel);
  const std::vector<double> sums = sum(minibatch_sums_, minibatch_columns(config_));
  inexact_ += sums.back() > 0 ? 1 : 0;
  std::vector<Normalization> result;
  for (auto entry = sums.begin(); entry + kernel.columns < sums.end(); entry += kernel.columns) {
    const double samples = entry[2] / kernel.sample_share;
    const double share = 1 / (kernel.moment_scale * std::max(1.0, samples));
    const double unit = 1.0 / static_cast<double>(kernel.scale);
    const double mean = share * entry[0], variance = std::max(0.0, share * entry[1] - mean * mean);
    result.push_back(
        normalization_of(static_cast<double>(kernel.shift) + unit * mean, unit * unit * variance, samples));
  }
  return result;
}

void Advantages::scale_rewards(const RolloutStorage& rollout, const TotalsSum& sum) {
  DiscountedReturns<float> discount;
  discount.layout = rollout.layout();
  discount.blocks = rollout.blocks();
  discount.running = running_return_;
  discount.tiles = partition_.tiles;
  discount.horizon = rollout.horizon();
  discount.gamma = static_cast<float>(config_.gamma);
  for_tiles("maniple::discounted_returns", partition_.tiles, workers_, discount);
  const Moments found = moments(rollout, sum, {rollout.layout().advantage}, {returns_.mean});
  returns_.merge(found.mean[0], found.variance[0], found.samples);
}

Advantages::Moments Advantages::moments(const RolloutStorage& rollout, const TotalsSum& sum,
                                        const std::vector<int>& elements, const std::vector<double>& about) {
  Moments result;
  SampleMoments<float> kernel;
  kernel.layout = rollout.layout();
  kernel.blocks = rollout.blocks();
  kernel.tiles = partition_.tiles;
  kernel.envs = partition_.envs();
  kernel.block_size = partition_.block;
  kernel.horizon = rollout.horizon();
  kernel.count = static_cast<int>(elements.size());
  for (int k = 0; k < kernel.count; ++k) {
    kernel.element[k] = elements[static_cast<std::size_t>(k)];
    kernel.shift[k] = static_cast<float>(about[static_cast<std::size_t>(k)]);
  }
  kernel.totals = sizes_.data();
  Kokkos::deep_copy(sizes_, 0.0);
  for_tiles("maniple::sample_sizes", partition_.tiles, workers_, kernel);
  const std::vector<double> largest = sum.largest(sizes_, elements.size());
  for (int k = 0; k < kernel.count; ++k) {
    const auto size = static_cast<float>(largest[static_cast<std::size_t>(k)]);
    kernel.scale[k] = size > 0 ? 1.0f / size : 1.0f;
    result.distance[k] = largest[static_cast<std::size_t>(k)];
  }
  kernel.sums = true;
  kernel.moment_scale = 1.0 / rollout.samples();
  kernel.totals = sums_.data();
  Kokkos::deep_copy(sums_, 0.0);
  for_tiles("maniple::sample_moments", partition_.tiles, workers_, kernel);
  const std::int64_t columns = 2 * kernel.count + 2;
  const std::vector<double> sums = sum(sums_, columns);
  inexact_ += sums.back() > 0 ? 1 : 0;
  result.samples = rollout.samples() - sums[static_cast<std::size_t>(2 * kernel.count)];
  const double per_valid = rollout.samples() / std::max(1.0, result.samples);
  for (int k = 0; k < kernel.count; ++k) {
    const double unit = 1.0 / static_cast<double>(kernel.scale[k]);
    const double mean = per_valid * sums[static_cast<std::size_t>(k)];
    const double square = per_valid * sums[static_cast<std::size_t>(kernel.count + k)];
    result.mean[k] = static_cast<double>(kernel.shift[k]) + unit * mean;
    result.variance[k] = unit * unit * std::max(0.0, square - mean * mean);
  }
  return result;
}

void Advantages::describe_values(Archive& archive, const std::string& name) {
  describe_moments(archive, name + "/value", values_, "value targets");
}

void Advantages::describe(Archive& archive, const std::string& name) {
  if (config_.normalize_value) describe_values(archive, name);
  if (config_.normalize_reward) {
    describe_moments(archive, name + "/return", returns_, "discounted returns");
    running_return_host_.emplace(running_return_);
    archive.per_env(name + "/running_return", running_return_host_->data(), 1, 0, 1, "reward",
                    "discounted sum of the rewards of the episode so far");
  }
}

void Advantages::restored() {
  if (config_.normalize_value) value_ = normalization_of(values_);
  if (running_return_host_) running_return_host_->to_device();
}

void Advantages::warm_started(Policy& policy, bool normalized) {
  const Normalization theirs = normalized && values_.count > 0 ? normalization_of(values_) : Normalization{};
  // the old moments say what the critic's unit is; those of the new rewards are gathered again
  values_.count = 0;
  if (config_.normalize_value)
    value_ = normalization_of(values_);
  else
    policy.rescale_values(1.0 / theirs.scale, theirs.mean);
}

}  // namespace maniple
