// The order of an iteration; the kernels are in kernels/nn.
#include "src/learning/ppo.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "kernels/nn/ppo_loss.hpp"
#include "src/base/log.hpp"

namespace maniple {
namespace {

constexpr double kEntropyOfUnitGaussian = 1.41893853320467274178;  // 1/2 ln(2 pi e)

// to = values values values ... (nvcc wants loops on the device outside of classes.)
void repeat(const float* values, int count, const Numbers<float>& to) {
  Kokkos::parallel_for(
      "maniple::repeat", Kokkos::RangePolicy<ExecutionSpace>(0, static_cast<std::int64_t>(to.extent(0))),
      KOKKOS_LAMBDA(std::int64_t i) { to(i) = values[i % count]; });
}

}  // namespace

LearnerMemory Ppo::memory(const Config& config, const EnvironmentSizes& sizes) {
  const Network network = make_network(config.policy, sizes.observations, sizes.actions,
                                       config.learning.blas_width, config.where_of("policy.hidden"));
  const SampleLayout layout(sizes.observations, sizes.actions);
  const int workers = tile_workers(sizes.tiles);
  LearnerMemory memory = RolloutStorage::memory(config, sizes, layout, workers);
  memory += Advantages::memory(sizes, workers);
  memory += Optimizer::memory(config.learning, network.parameters, kNumLossMetrics, workers);
  memory.network_bytes += policy_bytes(network, make_scratch(network, layout), workers);
  memory.batch_bytes +=
      sizeof(float) * static_cast<std::size_t>(sizes.tiles * config.learning.horizon * sizes.actions);
  memory.snapshot_bytes += sizeof(float) * static_cast<std::size_t>(network.parameters);
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
      policy_(config, environment.num_observations(), environment.num_actions()),
      workers_(tile_workers(environment.partition().tiles)),
      sum_(collectives, workers_, clock_),
      rollout_(environment, config, policy_.layout(), workers_),
      advantages_(config.learning, environment.partition().tiles, environment.num_actions(), workers_),
      optimizer_(config.learning, policy_.network().parameters, kNumLossMetrics, workers_),
      reference_log_std_("maniple::reference_log_std",
                         static_cast<std::size_t>(environment.partition().tiles * config.learning.horizon *
                                                  environment.num_actions())) {
  for (const char* stage : {"policy", "update", "communication"}) clock_.add(stage, 0.0);
}

void Ppo::start() {
  environment_.reset();
  if (config_.learning.random_initial_episode_length) environment_.randomize_episode_steps();
}

IterationReport Ppo::iterate(const std::function<void()>& between_steps) {
  rollout_.collect(policy_, iteration_, clock_, between_steps);
  {
    const StageClock::Region region(clock_, "policy");
    advantages_.estimate(policy_, environment_, rollout_);
  }
  Advantages::Normalisation normalisation;
  if (config_.learning.normalize_advantage)
    normalisation = advantages_.normalisation(sum_, rollout_.samples());
  const UpdateSums sums = update(normalisation, between_steps);
  const bool inexact[] = {!normalisation.exact, rollout_.merge_statistics(sum_),
                          policy_.normalizes() && rollout_.merge_observations(sum_, policy_)};
  inexact_sums_ += std::count(std::begin(inexact), std::end(inexact), true);
  ++iteration_;
  if (sums.skipped > 0)
    warn(fmt::format(
        "{} of {} minibatches of iteration {} made no step: their sums are not finite or too large",
        sums.skipped, sums.minibatches, iteration_));
  return report(sums);
}

Ppo::UpdateSums Ppo::update(const Advantages::Normalisation& normalisation,
                            const std::function<void()>& between_steps) {
  const LearningConfig& learning = config_.learning;
  const Network& network = policy_.network();
  const Partition& partition = rollout_.partition();
  UpdateSums sums;
  // the policy of the rollout is the first reference of the KL divergence
  repeat(policy_.parameters().data() + network.log_std, network.num_actions, reference_log_std_);
  with_dense(policy_.uses_library(), [&](auto dense) {
    TrainMinibatch<float, decltype(dense), PpoLoss<float>> train;
    train.network = network;
    train.scratch = policy_.scratch();
    train.loss = {.layout = policy_.layout(),
                  .settings = {learning.clip_ratio, learning.value_coef, learning.clip_value,
                               learning.entropy_coef, learning.bounds_coef, !config_.policy.fixed_std,
                               normalisation.mean, normalisation.scale},
                  .reference_log_std = reference_log_std_.data(),
                  .move_reference = learning.kl_reference == KlReference::previous_epoch};
    train.parameters = policy_.parameters().data();
    train.memory = policy_.memory(workers_);
    train.blocks = rollout_.blocks();
    train.order = rollout_.order();
    train.tiles = partition.tiles;
    train.envs = partition.envs();
    train.horizon = learning.horizon;
    train.minibatches = learning.minibatches;
    train.exact = learning.reduction == Reduction::exact;
    for (int epoch = 0; epoch < learning.epochs; ++epoch) {
      {
        const StageClock::Region region(clock_, "update");
        rollout_.deal_minibatches(iteration_, epoch);
      }
      double epoch_kl = 0;
      for (train.minibatch = 0; train.minibatch < learning.minibatches; ++train.minibatch) {
        {
          const StageClock::Region region(clock_, "update");
          const int steps = minibatch_steps(learning.horizon, learning.minibatches, train.minibatch);
          train.scale = 1.0 / (static_cast<double>(partition.num_envs) * steps);
          train.totals = optimizer_.clear_totals();
          for_tiles("maniple::train_minibatch", partition.tiles, workers_, train);
        }
        between_steps();
        const std::vector<double> metrics = optimizer_.sum_totals(sum_);
        const StageClock::Region region(clock_, "update");
        for (int i = 0; i < kNumLossMetrics; ++i) sums.metrics[i] += metrics[static_cast<std::size_t>(i)];
        epoch_kl += metrics[kKl];
        if (learning.lr_per_minibatch) optimizer_.adapt(metrics[kKl]);
        const std::optional<double> norm = optimizer_.step(policy_.parameters());
        ++sums.minibatches;
        sums.skipped += norm ? 0 : 1;
        sums.gradient_norm += norm.value_or(0);
      }
      if (!learning.lr_per_minibatch) optimizer_.adapt(epoch_kl / learning.minibatches);
    }
  });
  return sums;
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
  const std::vector<double>& means = rollout_.episode_means();
  result.summary = std::isnan(means[0]) ? "no whole episode yet"
                                        : fmt::format("return {:.3f}  length {:.0f}", means[0], means[1]);
  result.invalid_samples = rollout_.invalid_samples();
  add("iteration", "1", "iterations done", static_cast<double>(iteration_));
  add("env_steps", "1", "control steps of all environments so far",
      static_cast<double>(iteration_) * rollout_.samples());
  add("episode_return", "reward",
      "mean return of the whole episodes that ended, or the last known; NaN before the first. Those that "
      "random_initial_episode_length began in their midst are left out",
      means[0]);
  add("episode_length", "control steps", "mean length of the episodes of episode_return", means[1]);
  const std::vector<std::string>& terms = environment_.reward_terms();
  for (std::size_t i = 0; i < terms.size(); ++i)
    add("reward_" + terms[i], "reward", "share of this term in episode_return", means[i + 2]);
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
  add("learning_rate", "1", "at the end", optimizer_.learning_rate());
  add("skipped_minibatches", "1", "minibatches without a step: sums not finite or too large to be exact",
      static_cast<double>(sums.skipped));
  add("inexact_statistics", "1", "statistics so far with terms too large to be exact",
      static_cast<double>(inexact_sums_));
  add("invalid_samples", "1", "control steps left out: their state or reward was not finite or too large",
      static_cast<double>(rollout_.invalid_samples()));
  return result;
}

IterationReport Ppo::report_names() const {
  IterationReport names = report(UpdateSums());
  for (auto& value : names.values) value.value = 0;
  return names;
}

std::vector<std::pair<std::string, double>> Ppo::stage_seconds() const {
  std::vector<std::pair<std::string, double>> seconds = environment_.stage_seconds();
  seconds.insert(seconds.end(), clock_.seconds().begin(), clock_.seconds().end());
  return seconds;
}

void Ppo::describe(Archive& archive) {
  environment_.describe(archive);
  policy_.describe(archive);
  optimizer_.describe(archive, "ppo");
  std::vector<double>& means = rollout_.episode_means();
  archive.replicated("ppo/iteration", &iteration_, 1, "1", "iterations done");
  archive.replicated("ppo/episode_means", means.data(), means.size(), "reward, steps",
                     "last known mean return, length and reward terms");
  archive.replicated("ppo/inexact_statistics", &inexact_sums_, 1, "1", "statistics that were not exact");
}

void Ppo::restored() {
  environment_.restored();
  policy_.restored();
  optimizer_.restored();
}

}  // namespace maniple
