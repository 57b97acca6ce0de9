// The order of an iteration; the kernels are in kernels/nn.
#include "src/learning/ppo.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "kernels/nn/ppo_loss.hpp"
#include "src/base/counted.hpp"
#include "src/base/log.hpp"
#include "src/config/learning_numbers.hpp"
#include "src/io/checkpoint_reader.hpp"
#include "src/learning/block_training.hpp"
#include "src/learning/evaluation.hpp"
#include "src/learning/policy_network.hpp"
#include "src/simulation/environment_blocks.hpp"

namespace maniple {
namespace {

// to = values values values ... (nvcc wants loops on the device outside of classes.)
void repeat(const float* values, int count, const Numbers<float>& to) {
  Kokkos::parallel_for(
      "maniple::repeat", Kokkos::RangePolicy<ExecutionSpace>(0, static_cast<std::int64_t>(to.extent(0))),
      MANIPLE_LAMBDA(std::int64_t i) { to(i) = values[i % count]; });
}

}  // namespace

LearnerMemory Ppo::memory(const Config& config, const EnvironmentSizes& sizes) {
  const Network network =
      make_network(config, {sizes.observations, sizes.critic_observations, sizes.actions});
  const int workers = tile_workers(sizes.tiles);
  LearnerMemory memory = RolloutStorage::memory(config, sizes, network, workers);
  memory += Advantages::memory(config.learning, sizes, workers);
  memory += Optimizer::memory(config.learning, network.parameters, kNumLossMetrics, workers);
  const int block = block_of_environments(config, config.batch.num_envs);
  memory.network_bytes +=
      policy_bytes(config, network, workers) +
      sizeof(float) * static_cast<std::size_t>(panel_elements(block, workers, steps_of_tile(config)));
  memory.batch_bytes += sizeof(float) * static_cast<std::size_t>(sizes.tiles * config.learning.horizon *
                                                                 network.own_deviations());
  memory.snapshot_bytes += sizeof(float) * static_cast<std::size_t>(network.parameters);
  return memory;
}

// Sums over the minibatches of an iteration, for its report.
struct Ppo::UpdateSums {
  double metrics[kNumLossMetrics] = {};
  double gradient_norm = 0;
  std::int64_t minibatches = 0;
  std::int64_t skipped = 0;
  bool ended = false;  // by learning.target_kl
};

Ppo::Ppo(Environment& environment, const Config& config, Collectives& collectives)
    : environment_(environment),
      config_(config),
      learning_(config.learning),
      collectives_(collectives),
      policy_(config, policy_sizes(environment)),
      workers_(tile_workers(environment.partition().tiles)),
      sum_(collectives, workers_, clock_),
      rollout_(environment, config, policy_, workers_),
      advantages_(config.learning, environment.partition(), workers_),
      optimizer_(config.learning, policy_.network().parameters, kNumLossMetrics, workers_),
      reference_log_std_("maniple::reference_log_std",
                         static_cast<std::size_t>(environment.partition().tiles * config.learning.horizon *
                                                  policy_.network().own_deviations())),
      panels_("maniple::gradient_panels",
              static_cast<std::size_t>(
                  panel_elements(environment.partition().block, workers_, steps_of_tile(config)))) {
  for (const char* stage : {"policy", "update", "communication"}) clock_.add(stage, 0.0);
  for (const LearningNumber& number : kLearningNumbers) numbers_.push_back(learning_.*number.member);
  optimizer_.keep_within(policy_.deviation_bounds());
}

void Ppo::follow(const std::map<std::string, double>& metrics) {
  const std::map<std::string, double> now = environment_.learning_numbers(metrics);
  // (metrics of episodes are not, before the first one ends)
  const bool known = std::all_of(metrics.begin(), metrics.end(),
                                 [](const auto& metric) { return std::isfinite(metric.second); });
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const std::string name = kLearningNumbers[i].name;
    if (const auto found = now.find(name); found != now.end())
      numbers_[i] = found->second;
    else if (known && config_.learning.curricula.contains(name) && stuck_.insert(name).second)
      warn(fmt::format("learning.curricula.{}: no finite number in iteration {}: learning.{} stays {}", name,
                       metrics.at("iteration"), name, numbers_[i]));
    learning_.*kLearningNumbers[i].member = numbers_[i];
  }
  optimizer_.follow(learning_);
}

void Ppo::start() {
  if (config_.learning.critic_warmup > 0)
    info(fmt::format("the critic alone learns in the first {} (learning.critic_warmup)",
                     counted(config_.learning.critic_warmup, "iteration")));
  environment_.reset();
  if (config_.learning.random_initial_episode_length) environment_.randomize_episode_steps();
  std::map<std::string, double> metrics{
      {"iteration", 0}, {"env_steps", 0}, {"control_steps", 0}, {"episodes", 0}};
  std::vector<std::string> unknown{"episode_return", "mean_episode_steps", "episode_return_100"};
  for (const std::string& term : environment_.reward_terms()) unknown.push_back("reward_" + term);
  for (const std::string& metric : environment_.metrics()) unknown.push_back(metric);
  for (const std::string& name : unknown) metrics[name] = std::numeric_limits<double>::quiet_NaN();
  follow(metrics);
}

IterationReport Ppo::iterate(const std::function<void()>& between_steps) {
  rollout_.collect(policy_, iteration_, clock_, between_steps);
  // the policy of the rollout is the first reference of the KL divergence
  repeat(policy_.parameters().data() + policy_.network().log_std, policy_.network().own_deviations(),
         reference_log_std_);
  {
    const StageClock::Region region(clock_, "policy");
    advantages_.estimate(policy_, environment_, rollout_, sum_);
  }
  const UpdateSums sums = update(between_steps);
  inexact_sums_ += advantages_.inexact();
  inexact_sums_ += rollout_.merge_statistics(sum_) ? 1 : 0;
  if (policy_.normalizes()) inexact_sums_ += rollout_.merge_observations(sum_, policy_) ? 1 : 0;
  ++iteration_;
  const std::string advice = learning_.normalize_value
                                 ? "a smaller learning.reward_scale, fewer minibatches or more environments"
                                 : "learning.normalize_value=true or a smaller learning.reward_scale";
  if (sums.skipped > 0)
    warn(fmt::format(
        "{} of {} minibatches of iteration {} made no step: their sums are not finite or too large; "
        "if this goes on, try {}",
        sums.skipped, sums.minibatches, iteration_, advice));
  skipped_ = sums.skipped < sums.minibatches ? 0 : skipped_ + sums.skipped;
  constexpr std::int64_t kMostSkipped = 100;
  if (skipped_ >= kMostSkipped)
    throw Error(
        fmt::format("none of the last {} minibatches made a step: sums of losses and gradients are "
                    "not finite or too large to be exact; try {}",
                    skipped_, advice));
  IterationReport result = report(sums);
  std::map<std::string, double> metrics{
      {"control_steps", static_cast<double>(iteration_ * config_.learning.horizon)}};
  for (const auto& value : result.values) metrics[value.name] = value.value;
  metrics["mean_episode_steps"] = rollout_.mean_length();
  environment_.advance_curricula(metrics, collectives_);
  follow(metrics);
  return result;
}

Ppo::UpdateSums Ppo::update(const std::function<void()>& between_steps) {
  const LearningConfig& learning = learning_;
  const Network& network = policy_.network();
  const Partition& partition = rollout_.partition();
  UpdateSums sums;
  const bool warms_up = iteration_ < learning.critic_warmup;
  optimizer_.move_only(warms_up ? first_of_critic(network) : 0,
                       warms_up || config_.policy.fixed_std ? network.log_std : network.parameters);
  optimizer_.anneal(iteration_);
  with_training<PpoLoss<float>>(policy_.uses_library(), partition.block, [&](auto train) {
    train.network = network;
    train.scratch = policy_.scratch();
    train.loss = {.layout = policy_.layout(),
                  .settings = {.clip_ratio = learning.clip_ratio,
                               .value_coef = learning.value_coef,
                               .clip_value = learning.clip_value,
                               .entropy_coef = learning.entropy_coef,
                               .bounds_coef = learning.bounds_coef,
                               .kl_coef = learning.kl_coef,
                               .learned_std = !config_.policy.fixed_std,
                               .squash_actions = config_.policy.squash_actions,
                               .advantage_mean = advantages_.advantage().mean,
                               .advantage_scale = advantages_.advantage().scale,
                               .value_mean = advantages_.value().mean,
                               .value_scale = advantages_.value().scale},
                  .reference_log_std = reference_log_std_.data(),
                  .move_reference = learning.kl_reference == KlReference::previous_epoch,
                  .seed = config_.batch.seed,
                  .first_step = static_cast<std::uint32_t>(iteration_ * rollout_.horizon()),
                  .epoch = 0,
                  .first_env = partition.first_env(),
                  .tiles = partition.tiles};
    train.parameters = policy_.parameters().data();
    train.memory = policy_.memory(workers_);
    train.blocks = rollout_.blocks();
    train.order = rollout_.order();
    train.tiles = partition.tiles;
    train.envs = partition.envs();
    train.first_tile = rollout_.first_tile();
    train.first_state = rollout_.first_states();
    train.exact = learning.reduction == Reduction::exact;
    for (int epoch = 0; epoch < learning.epochs && !sums.ended; ++epoch) {
      {
        const StageClock::Region region(clock_, "update");
        train.deal = rollout_.deal_minibatches(iteration_, epoch, learning.minibatches);
        train.loss.epoch = epoch;
      }
      std::vector<Normalization> advantages;
      if (learning.normalize_advantage && learning.normalize_advantage_per_minibatch) {
        const StageClock::Region region(clock_, "update");
        advantages = advantages_.of_minibatches(rollout_, train.deal, sum_);
      }
      double epoch_kl = 0;
      for (train.minibatch = 0; train.minibatch < learning.minibatches && !sums.ended; ++train.minibatch) {
        {
          const StageClock::Region region(clock_, "update");
          if (!advantages.empty()) {
            const Normalization& own = advantages[static_cast<std::size_t>(train.minibatch)];
            train.loss.settings.advantage_mean = own.mean;
            train.loss.settings.advantage_scale = own.scale;
          }
          train.scale = optimizer_.scale() /
                        static_cast<double>(train.deal.samples(train.minibatch, partition.num_envs));
          train.totals = optimizer_.clear_totals();
          learn(train);
        }
        between_steps();
        const std::vector<double> metrics = optimizer_.sum_totals(sum_);
        const StageClock::Region region(clock_, "update");
        sums.ended = learning.target_kl > 0 && metrics[kKl] > 1.5 * learning.target_kl;
        if (sums.ended) break;
        for (int i = 0; i < kNumLossMetrics; ++i) sums.metrics[i] += metrics[static_cast<std::size_t>(i)];
        epoch_kl += metrics[kKl];
        if (learning.lr_per_minibatch && !warms_up) optimizer_.adapt(metrics[kKl]);
        const std::optional<double> norm = optimizer_.step(policy_.parameters());
        ++sums.minibatches;
        sums.skipped += norm ? 0 : 1;
        sums.gradient_norm += norm.value_or(0);
      }
      if (!learning.lr_per_minibatch && !sums.ended && !warms_up)
        optimizer_.adapt(epoch_kl / learning.minibatches);
    }
  });
  return sums;
}

template <class Training>
void Ppo::learn(Training& train) const {
  if constexpr (Training::kWholeTiles) {
    for_tiles("maniple::train_minibatch", train.tiles, workers_, train);
  } else {
    const MinibatchDeal& deal = train.deal;
    const int positions = (deal.horizon - train.minibatch + deal.minibatches - 1) / deal.minibatches;
    // a tile for each worker at a time, whose caches hold what is kept
    for (train.first_of_launch = 0; train.first_of_launch < train.tiles; train.first_of_launch += workers_) {
      const std::int64_t tiles = std::min<std::int64_t>(workers_, train.tiles - train.first_of_launch);
      for (train.first_kept = 0; train.first_kept < positions; train.first_kept += train.kept) {
        train.kept = kept_positions(positions - train.first_kept);
        for_tiles("maniple::train_minibatch", tiles, workers_, train);
        add_gradient_by_blocks(train, tiles, panels_);
      }
    }
  }
}

IterationReport Ppo::report(const UpdateSums& sums) const {
  IterationReport result;
  const auto add = [&](const std::string& name, const std::string& unit, const std::string& description,
                       double value) {
    result.values.push_back({name, unit, description, value});
  };
  const double batches = std::max(1.0, static_cast<double>(sums.minibatches));
  double entropy = sums.metrics[kEntropy] / batches, deviation = sums.metrics[kDeviation] / batches;
  const std::vector<float> log_std = policy_.log_std();
  // one number for each action, not squashed: then the parameters say it, as they are at the end
  const bool known = !log_std.empty() && !config_.policy.squash_actions;
  if (known) entropy = deviation = 0;
  for (std::size_t k = 0; known && k < log_std.size(); ++k) {
    const auto s = static_cast<double>(log_std[k]);
    entropy += s + kEntropyOfUnitGaussian;
    deviation += std::exp(s) / static_cast<double>(log_std.size());
  }
  const bool none_yet = std::isnan(rollout_.mean_return());
  result.summary =
      none_yet ? "no whole episode yet"
               : fmt::format("return {:.3f}  length {:.0f}", rollout_.mean_return(), rollout_.mean_length());
  result.invalid_samples = rollout_.invalid_samples();
  add("iteration", "1", "iterations done", static_cast<double>(iteration_));
  add("env_steps", "1", "control steps of all environments so far",
      static_cast<double>(iteration_) * rollout_.samples());
  add("episode_return", "reward",
      "mean return of the whole episodes that ended, or the last known; NaN before the first. Episodes that "
      "random_initial_episode_length started part-way are left out",
      rollout_.mean_return());
  add("episode_length", "control steps", "mean length of the episodes of episode_return",
      rollout_.mean_length());
  add("episodes", "1", "whole episodes that ended in the iteration: those of episode_return",
      static_cast<double>(rollout_.episodes()));
  const std::vector<std::string>& terms = environment_.reward_terms();
  for (std::size_t i = 0; i < terms.size(); ++i)
    add("reward_" + terms[i], "reward", "part of episode_return that this term makes up",
        rollout_.mean_reward_term(i));
  const std::vector<std::string>& metrics = environment_.metrics();
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const double mean = rollout_.mean_metric(i);
    const bool ends = is_share(metrics[i]);
    add(metrics[i], ends ? "1" : "task",
        ends ? "share of the episodes of episode_return in whose last step this termination held"
             : "mean of the task's metric over the episodes of episode_return",
        mean);
    if (!none_yet) result.summary += "  " + metric_text(metrics[i], mean);
  }
  const std::vector<std::pair<std::string, double>> curricula = environment_.curricula();
  for (const TermConfig& term : config_.task.curricula)
    if (!term.update.empty() || !term.term.empty())
      for (const auto& [name, value] : curricula)
        if (name == term.name) result.summary += fmt::format("  {} {:.4g}", name, value);
  add("episode_return_100", "reward",
      "mean return of the latest 100 episodes, or of all that the last iteration ended",
      rollout_.recent_return());
  for (const auto& [name, value] : curricula)
    add("curriculum_" + name, "task", "value of the curriculum in the iteration", value);
  if (const std::optional<double> entropy_of_motion = environment_.motion_sampling_entropy())
    add("motion_sampling_entropy", "1",
        "entropy of the parts of the motion that episodes begin in, divided by that of equal shares",
        *entropy_of_motion);
  add("policy_loss", "1", "clipped surrogate, mean over the minibatches",
      sums.metrics[kPolicyLoss] / batches);
  add("value_loss", "reward^2",
      "half the squared error, of normalized values where they are; mean over the minibatches",
      sums.metrics[kValueLoss] / batches);
  add("explained_variance", "1", "fraction of the variance of the value targets that the values predicted",
      advantages_.explained_variance());
  add("bounds_loss", "1", "squared excess of the mean action beyond 1.1",
      sums.metrics[kBoundsLoss] / batches);
  add("kl", "nat", "KL divergence that the schedule uses, mean over the minibatches",
      sums.metrics[kKl] / batches);
  add("clip_fraction", "1", "fraction of samples whose ratio was clipped", sums.metrics[kClipped] / batches);
  const std::string when = known ? " at the end" : ", mean over the minibatches";
  add("entropy", "nat", "entropy of the policy" + when, entropy);
  add("action_std", "action", "mean standard deviation of the actions" + when, deviation);
  add("gradient_norm", "1", "before clipping, mean over the steps made",
      sums.gradient_norm / std::max(1.0, static_cast<double>(sums.minibatches - sums.skipped)));
  add("learning_rate", "1", "at the end", optimizer_.learning_rate());
  for (const auto& [name, expression] : config_.learning.curricula)
    for (const LearningNumber& number : kLearningNumbers)
      if (name == number.name && name != "learning_rate")
        add("learning_" + name, "1", "learning." + name + " of this iteration, by learning.curricula",
            learning_.*number.member);
  add("updates", "1", "minibatches of this iteration", static_cast<double>(sums.minibatches));
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
  advantages_.describe(archive, "ppo");
  rollout_.describe(archive, "ppo");
  archive.replicated("ppo/iteration", &iteration_, 1, "1", "iterations done");
  archive.replicated("ppo/learning_numbers", numbers_.data(), numbers_.size(), "1",
                     "numbers that learning.curricula may change, of the next iteration");
  archive.replicated("ppo/inexact_statistics", &inexact_sums_, 1, "1", "statistics that were not exact");
}

void Ppo::describe_policy(Archive& archive) {
  policy_.describe(archive);
  environment_.describe_curricula(archive);
  if (config_.learning.normalize_value) advantages_.describe_values(archive, "ppo");
}

void Ppo::describe_warm_start(Archive& archive) {
  policy_.describe_warm_start(archive);
  optimizer_.describe_moments(archive, "ppo");
  // the unit of the critic, without which what has been learned is no start for another run
  advantages_.describe_values(archive, "ppo");
}

void Ppo::warm_started(const WarmStart& start) {
  policy_.warm_started(start.cloned);
  optimizer_.restored();
  advantages_.warm_started(policy_, start.has("ppo/value_mean"));
}

void Ppo::restored() {
  environment_.restored();
  policy_.restored();
  optimizer_.restored();
  advantages_.restored();
  rollout_.restored();
  // a number without a curriculum is the deck's, also after a restart
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const LearningNumber& number = kLearningNumbers[i];
    if (!config_.learning.curricula.contains(number.name)) numbers_[i] = config_.learning.*number.member;
    learning_.*number.member = numbers_[i];
  }
  optimizer_.follow(learning_);
}

}  // namespace maniple
