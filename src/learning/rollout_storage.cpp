#include "src/learning/rollout_storage.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/learning/policy_network.hpp"

namespace maniple {
namespace {

constexpr int kRecentEpisodes = 100;
// Columns of recent_: how many episodes an iteration ended, and the sum of their returns.
constexpr std::size_t kRecentCount = 0, kRecentReturns = 1, kRecentColumns = 2;

using Range = Kokkos::RangePolicy<ExecutionSpace>;

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}
// Columns of the sums that the kernel Act adds to.
std::int64_t moments_columns(int observations) {
  return 2 * observations * kBins + 1;
}

Bootstrap bootstrap_of(BootstrapChoice choice) {
  switch (choice) {
    case BootstrapChoice::none:
      return Bootstrap::none;
    case BootstrapChoice::value:
      return Bootstrap::value;
    case BootstrapChoice::final_observation:
      return Bootstrap::final_observation;
  }
  return Bootstrap::none;
}

// `drawn`: 1 where each tile has an order of its own, 0 where all have that of the first one.
// (nvcc wants loops on the device outside of classes.)
void deal(std::uint32_t seed, std::int64_t first_tile, std::int64_t tiles, std::int64_t drawn,
          std::uint32_t iteration, int epoch, int horizon, const Numbers<std::int32_t>& order) {
  Kokkos::parallel_for(
      "maniple::deal_minibatches", Range(0, tiles), MANIPLE_LAMBDA(std::int64_t tile) {
        minibatch_order(seed, drawn * (first_tile + tile), iteration, epoch, horizon,
                        order.data() + tile * horizon);
      });
}

}  // namespace

LearnerMemory RolloutStorage::memory(const Config& config, const EnvironmentSizes& sizes,
                                     const Network& network, int workers) {
  const std::int64_t steps = sizes.tiles * config.learning.horizon;
  const std::size_t state_bytes = sizeof(float) * size(sizes.tiles * network.state_units * kTileWidth);
  LearnerMemory memory;
  memory.batch_bytes = sizeof(float) * size(steps * SampleLayout(network.sizes).elements * kTileWidth) +
                       sizeof(std::int32_t) * size(steps) + 2 * state_bytes;
  memory.snapshot_bytes = state_bytes;
  if (config.learning.value_bootstrap == BootstrapChoice::final_observation)
    memory.batch_bytes +=
        sizeof(float) * size(sizes.tiles * (sizes.observations + sizes.critic_observations) * kTileWidth);
  const EpisodeColumns columns{.terms = sizes.reward_terms, .metrics = sizes.metrics};
  memory.network_bytes =
      sizeof(double) *
      size(workers * (columns.size() + moments_columns(sizes.observations + sizes.critic_observations)));
  return memory;
}

RolloutStorage::RolloutStorage(Environment& environment, const Config& config, const Policy& policy,
                               int workers)
    : environment_(environment),
      partition_(environment.partition()),
      layout_(policy.layout()),
      horizon_(config.learning.horizon),
      workers_(workers),
      seed_(config.batch.seed),
      reward_scale_(static_cast<float>(config.learning.reward_scale)),
      bootstrap_(config.learning.value_bootstrap),
      columns_{.terms = static_cast<int>(environment.reward_terms().size()),
               .metrics = static_cast<int>(environment.metrics().size())},
      first_states_(policy.fresh_states(partition_.tiles)),
      states_(policy.fresh_states(partition_.tiles)) {
  const std::int64_t steps = partition_.tiles * horizon_;
  blocks_ = Numbers<float>("maniple::rollout", size(steps * layout_.elements * kTileWidth));
  order_ = Numbers<std::int32_t>("maniple::minibatch_order", size(steps));
  statistics_ = Numbers<double>("maniple::episode_statistics", size(workers * columns_.size()));
  observation_moments_ = Numbers<double>("maniple::observation_moments",
                                         size(workers * moments_columns(policy_sizes(environment).inputs())));
  episode_means_.assign(size(columns_.invalid() - columns_.episode_return()), std::nan(""));
  recent_.assign(kRecentEpisodes * kRecentColumns, 0.0);
  if (bootstrap_ == BootstrapChoice::final_observation) environment.keep_final_observation();
}

void RolloutStorage::collect(Policy& policy, std::int64_t iteration, StageClock& clock,
                             const std::function<void()>& between_steps) {
  Kokkos::deep_copy(statistics_, 0.0);
  Kokkos::deep_copy(observation_moments_, 0.0);
  Kokkos::deep_copy(first_states_.data, states_.data);
  const std::int64_t block_size = partition_.tiles * layout_.elements * kTileWidth;
  with_forward_dense(policy.uses_library(), partition_.block, [&](auto dense) {
    using Dense = decltype(dense);
    Record<float, Dense> record;
    record.layout = layout_;
    record.reward = environment_.reward();
    record.terminated = environment_.terminated();
    record.truncated = environment_.truncated();
    record.invalid = environment_.invalid();
    record.episode_return = environment_.episode_return();
    record.episode_length = environment_.episode_length();
    record.episode_reward_term = environment_.episode_reward_term();
    record.episode_metric = environment_.episode_metric();
    record.reward_scale = reward_scale_;
    record.bootstrap = bootstrap_of(bootstrap_);
    record.final = policy.actor<Dense>(workers_);
    record.final.observation = environment_.final_observation();
    record.final.critic_observation = environment_.final_critic_observation();
    record.final.state = states_;
    record.final.deterministic = true;
    record.final.envs = record.envs = partition_.envs();
    record.final.block_size = record.block_size = partition_.block;
    record.statistics = statistics_.data();
    record.statistics_scale = statistics_scale();
    auto act = policy.actor<Dense>(workers_);
    act.action = environment_.action();
    act.state = states_;
    act.moves_state = states_.elements > 0;
    act.seed = seed_;
    act.first_env = partition_.first_env();
    act.envs = partition_.envs();
    act.block_size = partition_.block;
    act.moments = observation_moments_.data();
    act.moment_scale = 1.0 / samples();
    for (int step = 0; step < horizon_; ++step) {
      {
        const StageClock::Region region(clock, "policy");
        act.blocks = blocks_.data() + step * block_size;
        act.control_step = static_cast<std::uint32_t>(iteration * horizon_ + step);
        act.observation = environment_.observation();
        act.critic_observation = environment_.critic_observation();
        for_tiles("maniple::act", partition_.tiles, workers_, act);
      }
      environment_.step();
      between_steps();
      const StageClock::Region region(clock, "policy");
      record.blocks = act.blocks;
      record.steps = static_cast<float>(iteration * horizon_ + step + 1);
      for_tiles("maniple::record", partition_.tiles, workers_, record);
      forget_states(environment_, states_);
    }
  });
}

bool RolloutStorage::merge_statistics(const TotalsSum& sum) {
  const std::vector<double> bins = sum(statistics_, columns_.size());
  std::vector<double> sums;
  for (int column = 0; column <= columns_.inexact(); ++column)
    sums.push_back(sum_of_bins(bins.data() + column * kBins));
  invalid_samples_ = std::llround(sums[size(columns_.invalid())] / statistics_scale());
  const double ended = sums[size(columns_.count())];
  episodes_ = std::llround(ended / statistics_scale());
  if (ended > 0) {
    for (int column = columns_.episode_return(); column < columns_.invalid(); ++column)
      episode_means_[size(column - columns_.episode_return())] = sums[size(column)] / ended;
    std::rotate(recent_.begin(), recent_.begin() + kRecentColumns, recent_.end());
    double* const latest = recent_.data() + recent_.size() - kRecentColumns;
    latest[kRecentCount] = ended / statistics_scale();
    latest[kRecentReturns] = sums[size(columns_.episode_return())] / statistics_scale();
  }
  return sums[size(columns_.inexact())] > 0;
}

bool RolloutStorage::merge_observations(const TotalsSum& sum, Policy& policy) {
  const int n = policy.network().sizes.inputs();
  const std::vector<double> bins = sum(observation_moments_, moments_columns(n));
  std::vector<double> z_mean, z_square_mean;
  for (int i = 0; i < n; ++i) {
    z_mean.push_back(sum_of_bins(bins.data() + i * kBins));
    z_square_mean.push_back(sum_of_bins(bins.data() + (n + i) * kBins));
  }
  policy.merge_observations(z_mean, z_square_mean, samples());
  return bins.back() > 0;
}

MinibatchDeal RolloutStorage::deal_minibatches(std::int64_t iteration, int epoch, int minibatches) {
  deal(seed_, first_tile(), partition_.tiles, by_blocks() ? 0 : 1, static_cast<std::uint32_t>(iteration),
       epoch, horizon_, order_);
  MinibatchDeal result;
  result.num_tiles = by_blocks() ? 1 : partition_.num_blocks;
  const bool whole = states_.elements > 0;
  result.horizon = whole ? 1 : horizon_;
  result.steps = whole ? horizon_ : 1;
  result.minibatches = minibatches;
  // multiples of the golden section are spread evenly over a circle
  result.spread =
      std::max<std::int64_t>(1, std::llround(0.6180339887498949 * static_cast<double>(result.num_tiles)));
  while (std::gcd(result.spread, result.num_tiles) != 1) ++result.spread;
  const PhiloxBlock random =
      random_block(seed_, RandomPurpose::minibatch, ~std::uint64_t{0}, static_cast<std::uint32_t>(iteration),
                   static_cast<std::uint32_t>(epoch));
  result.rotation = random.word[0] % result.num_tiles;
  return result;
}

double RolloutStorage::recent_return() const {
  double episodes = 0, sum = 0;
  for (std::size_t entry = recent_.size(); entry > 0 && episodes < kRecentEpisodes;) {
    entry -= kRecentColumns;
    sum += recent_[entry + kRecentReturns];
    episodes += recent_[entry + kRecentCount];
  }
  return sum / episodes;
}

void RolloutStorage::describe(Archive& archive, const std::string& name) {
  archive.replicated(name + "/episode_means", episode_means_.data(), episode_means_.size(), "reward, steps",
                     "last known mean return, length, reward terms and metrics");
  archive.replicated(name + "/recent_episodes", recent_.data(), recent_.size(), "1, reward",
                     "of the latest iterations that ended episodes: how many, and the sum of their returns");
  if (states_.elements == 0) return;
  states_host_.emplace(states_);
  const auto count = size(states_.elements);
  archive.per_env(name + "/recurrent_state", states_host_->data(), count, 0, count, "1",
                  "state of the policy's recurrent cells, then of the critic's");
}

void RolloutStorage::restored() {
  if (states_host_) states_host_->to_device();
}

}  // namespace maniple
