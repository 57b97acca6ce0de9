// The training loop's arithmetic; the kernels are in kernels/nn.
#include "src/learning/ppo.hpp"

#include <cmath>

#include "kernels/nn/adam.hpp"
#include "kernels/nn/training.hpp"
#include "src/base/log.hpp"
#include "src/learning/schedule.hpp"

namespace maniple {
namespace {

constexpr double kAdamBeta1 = 0.9, kAdamBeta2 = 0.999;
constexpr double kEntropyOfUnitGaussian = 1.41893853320467274178;  // 1/2 ln(2 pi e)

// Small loops on the device; nvcc wants them outside of classes.
template <class T>
using Numbers = Kokkos::View<T*, MemorySpace>;
using Range = Kokkos::RangePolicy<ExecutionSpace>;

// to = values values values ...
void repeat(const float* values, int count, const Numbers<float>& to) {
  Kokkos::parallel_for(
      "maniple::repeat", Range(0, static_cast<std::int64_t>(to.extent(0))),
      KOKKOS_LAMBDA(std::int64_t i) { to(i) = values[i % count]; });
}

// The order in which each tile's steps go into the minibatches of an epoch; order: [tile][horizon].
void deal_minibatches(std::uint32_t seed, const Partition& partition, std::uint32_t iteration, int epoch,
                      int horizon, const Numbers<std::int32_t>& order) {
  const std::int64_t first_tile = partition.first_tile;
  Kokkos::parallel_for(
      "maniple::deal_minibatches", Range(0, partition.tiles), KOKKOS_LAMBDA(std::int64_t tile) {
        minibatch_order(seed, first_tile + tile, iteration, epoch, horizon, order.data() + tile * horizon);
      });
}

// totals[0] += totals[1] + ... where each worker has `count` of them.
void sum_workers(const Numbers<double>& totals, std::int64_t count, int workers) {
  if (workers == 1) return;
  Kokkos::parallel_for(
      "maniple::sum_workers", Range(0, count), KOKKOS_LAMBDA(std::int64_t i) {
        for (int worker = 1; worker < workers; ++worker) totals(i) += totals(worker * count + i);
      });
}

template <class From, class To>
void convert(const Numbers<From>& from, std::int64_t count, const Numbers<To>& to) {
  Kokkos::parallel_for(
      "maniple::convert", Range(0, count),
      KOKKOS_LAMBDA(std::int64_t i) { to(i) = static_cast<To>(from(i)); });
}

}  // namespace

TrainingMemory training_memory(const Config& config, int observations, int actions, int reward_terms,
                               std::int64_t tiles) {
  const Network network = make_network(config.policy, observations, actions, config.learning.blas_width,
                                       config.where_of("policy.hidden"));
  const SampleLayout layout(observations, actions);
  const int workers = tile_workers(tiles);
  const std::int64_t sums = minibatch_totals(network), steps = tiles * config.learning.horizon;
  const auto size = [](auto count) { return static_cast<std::size_t>(count); };
  TrainingMemory memory;
  memory.network_bytes =
      policy_bytes(network, make_scratch(network, layout), workers) +
      sizeof(float) * size(2 * network.parameters + (config.learning.reduction == "exact" ? 0 : sums)) +
      sizeof(double) * size(workers * (sums + reward_terms + 2 * observations + 10) +
                            (network.parameters + kNormBlock - 1) / kNormBlock);
  memory.snapshot_bytes = 3 * sizeof(float) * size(network.parameters);
  memory.rollout_bytes =
      sizeof(float) * size(steps * (layout.elements * kTileWidth + actions) + tiles * actions * kTileWidth) +
      sizeof(std::int32_t) * size(steps);
  return memory;
}

// Sums over the minibatches of an iteration, for its report.
struct Ppo::UpdateSums {
  double metrics[kNumLossMetrics] = {};
  double gradient_norm = 0;
  std::int64_t minibatches = 0;
  std::int64_t skipped = 0;
};

Ppo::Ppo(Environment& environment, const Config& config, Collectives& collectives)
    : environment_(environment),
      config_(config),
      collectives_(collectives),
      partition_(environment.partition()),
      policy_(config, environment.num_observations(), environment.num_actions()),
      workers_(tile_workers(partition_.tiles)),
      learning_rate_(config.learning.learning_rate) {
  const LearningConfig& learning = config_.learning;
  const auto size = [](auto count) { return static_cast<std::size_t>(count); };
  const Network& network = policy_.network();
  const std::int64_t tile_steps = partition_.tiles * learning.horizon;
  const int terms = static_cast<int>(environment.reward_terms().size());
  blocks_ = decltype(blocks_)("maniple::rollout", size(tile_steps * policy_.layout().elements * kTileWidth));
  reference_log_std_ =
      decltype(reference_log_std_)("maniple::reference_log_std", size(tile_steps * network.num_actions));
  order_ = decltype(order_)("maniple::minibatch_order", size(tile_steps));
  totals_ = decltype(totals_)("maniple::gradient_totals", size(workers_ * minibatch_totals(network)));
  statistics_ = decltype(statistics_)("maniple::episode_statistics", size(workers_ * (terms + 5)));
  observation_moments_ = decltype(observation_moments_)("maniple::observation_moments",
                                                        size(workers_ * (2 * network.num_observations + 1)));
  advantage_moments_ = decltype(advantage_moments_)("maniple::advantage_moments", size(workers_ * 4));
  if (learning.reduction != "exact")
    fast_sums_ = decltype(fast_sums_)("maniple::fast_sums", size(minibatch_totals(network)));
  norm_blocks_ = decltype(norm_blocks_)("maniple::norm_blocks",
                                        size((network.parameters + kNormBlock - 1) / kNormBlock));
  moment1_ = decltype(moment1_)("maniple::adam_moment1", size(network.parameters));
  moment2_ = decltype(moment2_)("maniple::adam_moment2", size(network.parameters));
  moment1_host_ = Kokkos::create_mirror_view(moment1_);
  moment2_host_ = Kokkos::create_mirror_view(moment2_);
  unused_action_ = TiledView<float>("maniple::unused_action", partition_.tiles, network.num_actions);
  episode_means_.assign(size(terms + 2), 0.0);
  for (const char* stage : {"policy", "update", "communication"}) clock_.add(stage, 0.0);
}

void Ppo::start() {
  environment_.reset();
  if (config_.learning.random_initial_episode_length) environment_.randomize_episode_steps();
}

IterationReport Ppo::iterate(const std::function<void()>& between_steps) {
  UpdateSums sums;
  with_dense(policy_.uses_library(), [&](auto dense) {
    using Dense = decltype(dense);
    roll_out<Dense>(between_steps);
    estimate_advantages<Dense>();
    sums = update<Dense>(between_steps);
  });
  finish_statistics();
  if (policy_.normalizes()) merge_observations();
  ++iteration_;
  if (sums.skipped > 0)
    warn(std::to_string(sums.skipped) + " of " + std::to_string(sums.minibatches) +
         " minibatches of iteration " + std::to_string(iteration_) +
         " made no step: their sums are not finite or too large");
  return report(sums);
}

template <class Dense>
void Ppo::roll_out(const std::function<void()>& between_steps) {
  const LearningConfig& learning = config_.learning;
  const SampleLayout& layout = policy_.layout();
  const double samples = static_cast<double>(partition_.num_envs) * learning.horizon;
  Act<float, Dense> act = policy_.actor<Dense>(workers_);
  act.observation = environment_.observation();
  act.action = environment_.action();
  act.seed = config_.batch.seed;
  act.first_env = partition_.first_env();
  act.envs = partition_.envs();
  act.moments = observation_moments_.data();
  act.moment_scale = 1.0 / samples;
  Record<float> record;
  record.layout = layout;
  record.reward = environment_.reward();
  record.terminated = environment_.terminated();
  record.truncated = environment_.truncated();
  record.invalid = environment_.invalid();
  record.episode_return = environment_.episode_return();
  record.episode_length = environment_.episode_length();
  record.episode_reward_term = environment_.episode_reward_term();
  record.reward_scale = static_cast<float>(learning.reward_scale);
  record.gamma = static_cast<float>(learning.gamma);
  record.bootstrap = learning.value_bootstrap;
  record.envs = partition_.envs();
  record.statistics = statistics_.data();
  record.statistics_scale = 1.0 / samples;
  Kokkos::deep_copy(statistics_, 0.0);
  Kokkos::deep_copy(observation_moments_, 0.0);
  const std::int64_t block_size = partition_.tiles * layout.elements * kTileWidth;
  for (int step = 0; step < learning.horizon; ++step) {
    {
      const StageClock::Region region(clock_, "policy");
      act.blocks = blocks_.data() + step * block_size;
      act.control_step = static_cast<std::uint32_t>(iteration_ * learning.horizon + step);
      act.observation = environment_.observation();
      for_tiles("maniple::act", partition_.tiles, workers_, act);
    }
    environment_.step();
    between_steps();
    const StageClock::Region region(clock_, "policy");
    record.blocks = act.blocks;
    for_tiles("maniple::record", partition_.tiles, workers_, record);
  }
}

template <class Dense>
void Ppo::estimate_advantages() {
  const LearningConfig& learning = config_.learning;
  const double samples = static_cast<double>(partition_.num_envs) * learning.horizon;
  {
    const StageClock::Region region(clock_, "policy");
    EstimateAdvantages<float, Dense> estimate;
    estimate.act = policy_.actor<Dense>(workers_);
    estimate.act.observation = environment_.observation();
    estimate.act.action = unused_action_;
    estimate.act.deterministic = true;
    estimate.act.envs = partition_.envs();
    estimate.blocks = blocks_.data();
    estimate.tiles = partition_.tiles;
    estimate.horizon = learning.horizon;
    estimate.gamma = static_cast<float>(learning.gamma);
    estimate.lambda = static_cast<float>(learning.lambda);
    estimate.moments = advantage_moments_.data();
    estimate.moment_scale = 1.0 / samples;
    Kokkos::deep_copy(advantage_moments_, 0.0);
    for_tiles("maniple::estimate_advantages", partition_.tiles, workers_, estimate);
  }
  advantage_mean_ = 0;
  advantage_scale_ = 1;
  if (!learning.normalize_advantage) return;
  const std::vector<double> moments = reduce(advantage_moments_, 4, 0);
  if (moments[3] > 0) ++inexact_sums_;
  const double valid = std::max(1.0, samples - moments[2]), share = samples / valid;
  advantage_mean_ = share * moments[0];
  // the unbiased estimate, as torch.std
  const double variance = std::max(0.0, share * moments[1] - advantage_mean_ * advantage_mean_) * valid /
                          std::max(1.0, valid - 1);
  advantage_scale_ = 1.0 / (std::sqrt(variance) + 1e-8);
}

template <class Dense>
Ppo::UpdateSums Ppo::update(const std::function<void()>& between_steps) {
  const LearningConfig& learning = config_.learning;
  const Network& network = policy_.network();
  UpdateSums sums;
  TrainMinibatch<float, Dense> train;
  train.network = network;
  train.layout = policy_.layout();
  train.scratch = policy_.scratch();
  train.settings = {learning.clip_ratio,   learning.value_coef,  learning.clip_value,
                    learning.entropy_coef, learning.bounds_coef, !config_.policy.fixed_std,
                    advantage_mean_,       advantage_scale_};
  train.parameters = policy_.parameters().data();
  train.memory = policy_.memory(workers_);
  train.blocks = blocks_.data();
  train.reference_log_std = reference_log_std_.data();
  train.order = order_.data();
  train.tiles = partition_.tiles;
  train.envs = partition_.envs();
  train.horizon = learning.horizon;
  train.minibatches = learning.minibatches;
  train.move_reference = learning.kl_reference == "previous_epoch";
  train.exact = learning.reduction == "exact";
  train.totals = totals_.data();
  // the policy of the rollout is the first reference of the KL divergence
  repeat(policy_.parameters().data() + network.log_std, network.num_actions, reference_log_std_);
  const std::int64_t num_totals = minibatch_totals(network);
  for (int epoch = 0; epoch < learning.epochs; ++epoch) {
    {
      const StageClock::Region region(clock_, "update");
      deal_minibatches(config_.batch.seed, partition_, static_cast<std::uint32_t>(iteration_), epoch,
                       learning.horizon, order_);
    }
    double epoch_kl = 0;
    for (int minibatch = 0; minibatch < learning.minibatches; ++minibatch) {
      {
        const StageClock::Region region(clock_, "update");
        const int steps = minibatch_steps(learning.horizon, learning.minibatches, minibatch);
        train.minibatch = minibatch;
        train.scale = 1.0 / (static_cast<double>(partition_.num_envs) * steps);
        Kokkos::deep_copy(totals_, 0.0);
        for_tiles("maniple::train_minibatch", partition_.tiles, workers_, train);
      }
      between_steps();
      const std::vector<double> tail = reduce(totals_, num_totals, network.parameters);
      const StageClock::Region region(clock_, "update");
      for (int i = 0; i < kNumLossMetrics; ++i) sums.metrics[i] += tail[static_cast<std::size_t>(i)];
      epoch_kl += tail[kKl];
      ++sums.minibatches;
      if (learning.lr_per_minibatch)
        learning_rate_ = scheduled_learning_rate(learning, learning_rate_, tail[kKl]);
      step_optimizer(sums, tail[kNumLossMetrics]);
    }
    if (!learning.lr_per_minibatch)
      learning_rate_ = scheduled_learning_rate(learning, learning_rate_, epoch_kl / learning.minibatches);
  }
  return sums;
}

void Ppo::step_optimizer(UpdateSums& sums, double inexact) {
  const std::int64_t count = policy_.network().parameters;
  const double norm = gradient_norm(totals_, count, norm_blocks_);
  if (inexact > 0 || !(norm <= kExactLimit / 2)) {
    ++sums.skipped;
    return;
  }
  sums.gradient_norm += norm;
  AdamSettings adam;
  adam.learning_rate = learning_rate_;
  adam.beta1 = kAdamBeta1;
  adam.beta2 = kAdamBeta2;
  ++optimizer_steps_;
  adam.correction1 = 1 - std::pow(kAdamBeta1, static_cast<double>(optimizer_steps_));
  adam.correction2 = 1 - std::pow(kAdamBeta2, static_cast<double>(optimizer_steps_));
  const double limit = config_.learning.max_grad_norm;
  if (limit > 0) adam.gradient_scale = std::min(1.0, limit / (norm + 1e-6));  // as torch's clip_grad_norm_
  apply_adam<float>(adam, totals_, count, policy_.parameters(), moment1_, moment2_);
}

std::vector<double> Ppo::reduce(const Kokkos::View<double*, MemorySpace>& totals, std::int64_t count,
                                std::int64_t first) {
  const StageClock::Region region(clock_, "communication");
  sum_workers(totals, count, workers_);
  const bool fast = config_.learning.reduction != "exact" && totals.data() == totals_.data();
  if (fast) {
    convert(totals, count, fast_sums_);
    Kokkos::fence();
    collectives_.device_sum(fast_sums_.data(), static_cast<std::size_t>(count));
    convert(fast_sums_, count, totals);
  } else {
    Kokkos::fence();
    collectives_.device_sum(totals.data(), static_cast<std::size_t>(count));
  }
  const auto tail = Kokkos::subview(totals, std::make_pair(first, count));
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), tail);
  return std::vector<double>(host.data(), host.data() + (count - first));
}

void Ppo::finish_statistics() {
  const std::size_t means = episode_means_.size();
  const std::vector<double> sums = reduce(statistics_, static_cast<std::int64_t>(means) + 3, 0);
  invalid_samples_ = std::llround(sums[means + 1]);
  if (sums[means + 2] > 0) ++inexact_sums_;
  if (sums[0] > 0)
    for (std::size_t i = 0; i < means; ++i) episode_means_[i] = sums[i + 1] / sums[0];
}

void Ppo::merge_observations() {
  const std::size_t n = static_cast<std::size_t>(policy_.network().num_observations);
  const std::vector<double> sums = reduce(observation_moments_, static_cast<std::int64_t>(2 * n + 1), 0);
  if (sums[2 * n] > 0) ++inexact_sums_;
  const auto middle = sums.begin() + static_cast<std::ptrdiff_t>(n);
  policy_.merge_observations(std::vector<double>(sums.begin(), middle),
                             std::vector<double>(middle, middle + static_cast<std::ptrdiff_t>(n)),
                             static_cast<double>(partition_.num_envs) * config_.learning.horizon);
}

IterationReport Ppo::report(const UpdateSums& sums) const {
  IterationReport result;
  const auto add = [&](const std::string& name, const std::string& unit, const std::string& description,
                       double value) {
    result.values.push_back({name, unit, description, value});
  };
  const double batches = std::max(1.0, static_cast<double>(sums.minibatches));
  double entropy = 0, deviation = 0;
  const std::vector<float> log_std = policy_.log_std();
  for (const float s : log_std) {
    entropy += static_cast<double>(s) + kEntropyOfUnitGaussian;
    deviation += std::exp(static_cast<double>(s)) / static_cast<double>(log_std.size());
  }
  result.episode_return = episode_means_[0];
  result.episode_length = episode_means_[1];
  result.invalid_samples = invalid_samples_;
  add("iteration", "1", "iterations done", static_cast<double>(iteration_));
  add("env_steps", "1", "control steps of all environments so far",
      static_cast<double>(iteration_) * config_.learning.horizon * static_cast<double>(partition_.num_envs));
  add("episode_return", "reward", "mean return of the episodes that ended, or the last known",
      episode_means_[0]);
  add("episode_length", "control steps", "mean length of the episodes that ended, or the last known",
      episode_means_[1]);
  const std::vector<std::string>& terms = environment_.reward_terms();
  for (std::size_t i = 0; i < terms.size(); ++i)
    add("reward_" + terms[i], "reward", "share of this term in episode_return", episode_means_[i + 2]);
  add("policy_loss", "1", "clipped surrogate, mean over the minibatches",
      sums.metrics[kPolicyLoss] / batches);
  add("value_loss", "reward^2", "half the squared error, mean over the minibatches",
      sums.metrics[kValueLoss] / batches);
  add("bounds_loss", "1", "squared excess of the mean action beyond 1.1",
      sums.metrics[kBoundsLoss] / batches);
  add("kl", "nat", "KL divergence that the schedule saw, mean over the minibatches",
      sums.metrics[kKl] / batches);
  add("clip_fraction", "1", "share of samples whose ratio was clipped", sums.metrics[kClipped] / batches);
  add("entropy", "nat", "entropy of the policy at the end", entropy);
  add("action_std", "action", "mean standard deviation of the actions at the end", deviation);
  add("gradient_norm", "1", "before clipping, mean over the steps made",
      sums.gradient_norm / std::max(1.0, static_cast<double>(sums.minibatches - sums.skipped)));
  add("learning_rate", "1", "at the end", learning_rate_);
  add("skipped_minibatches", "1", "minibatches without a step: sums not finite or too large to be exact",
      static_cast<double>(sums.skipped));
  add("inexact_statistics", "1", "statistics so far with terms too large to be exact",
      static_cast<double>(inexact_sums_));
  add("invalid_samples", "1", "control steps left out: their state or reward was not finite or too large",
      static_cast<double>(invalid_samples_));
  return result;
}

IterationReport Ppo::report_names() const {
  IterationReport names = report(UpdateSums());
  for (auto& value : names.values) value.value = 0;
  return names;
}

void Ppo::describe(Archive& archive) {
  policy_.describe(archive);
  Kokkos::deep_copy(moment1_host_, moment1_);
  Kokkos::deep_copy(moment2_host_, moment2_);
  archive.replicated("ppo/adam_moment1", moment1_host_.data(), moment1_host_.extent(0), "1",
                     "first moment of each parameter, in the order of the layers, rows padded");
  archive.replicated("ppo/adam_moment2", moment2_host_.data(), moment2_host_.extent(0), "1",
                     "second moment of each parameter");
  archive.replicated("ppo/iteration", &iteration_, 1, "1", "iterations done");
  archive.replicated("ppo/optimizer_steps", &optimizer_steps_, 1, "1", "steps of the optimizer");
  archive.replicated("ppo/learning_rate", &learning_rate_, 1, "1", "current learning rate");
  archive.replicated("ppo/episode_means", episode_means_.data(), episode_means_.size(), "reward, steps",
                     "last known mean return, length and reward terms");
  archive.replicated("ppo/inexact_statistics", &inexact_sums_, 1, "1", "statistics that were not exact");
}

void Ppo::restored() {
  Kokkos::deep_copy(moment1_, moment1_host_);
  Kokkos::deep_copy(moment2_, moment2_host_);
  policy_.restored();
}

}  // namespace maniple
