// Runs episodes to their end and collects what they returned.
#include "src/learning/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "src/base/activity.hpp"
#include "src/base/error.hpp"
#include "src/simulation/tile_rows.hpp"

namespace maniple {
namespace {

// Control steps after which all ranks are asked whether episodes are missing, since that costs a collective
// call.
constexpr std::int64_t kStepsBetweenChecks = 16;
// Control steps that an episode may last in a task without a time limit.
constexpr std::int64_t kLongestEndless = 100000;

// 97.5 % quantile of Student's t: from tables, then by the expansion in the normal quantile (Abramowitz and
// Stegun 26.7.5), within 0.02 %.
double student_quantile(std::size_t freedom) {
  constexpr std::array<double, 4> kFew = {12.7062047, 4.3026527, 3.1824463, 2.7764451};
  if (freedom <= kFew.size()) return kFew[freedom - 1];
  constexpr double z = 1.959963984540054, z2 = z * z;
  const auto n = static_cast<double>(freedom);
  const double g1 = z * (z2 + 1) / 4, g2 = z * ((5 * z2 + 16) * z2 + 3) / 96,
               g3 = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384,
               g4 = z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;
  return z + (g1 + (g2 + (g3 + g4 / n) / n) / n) / n;
}

}  // namespace

Summary summary_of(const std::vector<double>& values) {
  Summary result;
  if (values.empty()) return result;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) result.mean += value;
  result.mean /= count;
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.standard_error = std::sqrt(squares / (count - 1) / count);
  result.confidence = student_quantile(values.size() - 1) * result.standard_error;
  return result;
}

EvaluationMeans means_of(const EvaluationResult& result) {
  EvaluationMeans means{.episode_return = summary_of(result.episode_return).mean, .success_rate = {}};
  if (!result.episode_success.empty()) means.success_rate = summary_of(result.episode_success).mean;
  return means;
}

bool is_share(const std::string& metric) {
  return metric.starts_with("termination_");
}

std::string metric_text(const std::string& metric, double mean) {
  const std::string name = metric.substr(metric.find('_') + 1);
  return is_share(metric) ? fmt::format("{} {:.0f}%", name, 100 * mean)
                          : fmt::format("{} {:.4g}", name, mean);
}

std::int64_t wanted_episodes(const Config& config, std::int64_t otherwise) {
  return config.evaluation.episodes > 0 ? config.evaluation.episodes : otherwise;
}

std::int64_t evaluation_environments(const Config& config, int ranks) {
  const std::int64_t busy = std::max<std::int64_t>(wanted_episodes(config, config.batch.num_envs), ranks);
  return std::min(config.batch.num_envs, busy);
}

std::int64_t periodic_evaluation_environments(const Config& config) {
  return std::min(config.batch.num_envs, wanted_episodes(config, 100));
}

EvaluationResult evaluate(Environment& environment, ActingPolicy& policy, const Config& config,
                          Collectives& collectives, const std::function<void()>& watch,
                          const std::function<bool()>& stops) {
  const Partition& partition = environment.partition();
  const std::int64_t wanted = wanted_episodes(config, partition.num_envs);
  const std::int64_t rounds = (wanted + partition.num_envs - 1) / partition.num_envs;
  // Two sums over ranks gather everything: each episode is nonzero on one rank only.
  std::vector<double> returns(static_cast<std::size_t>(rounds * partition.num_envs), 0.0);
  std::vector<double> lengths(returns.size(), 0.0), successes(returns.size(), 0.0);
  std::vector<std::vector<double>> metrics(environment.metrics().size(), returns);
  const bool has_success = environment.success().elements > 0;
  std::vector<std::int64_t> finished(static_cast<std::size_t>(partition.envs()), 0);
  std::int64_t missing = rounds * partition.envs();

  environment.hold_terrain_levels();  // only a training moves environments between levels
  environment.reset();
  if (watch) watch();
  const std::unique_ptr<PolicyRunner> runner = policy.act_in(environment);
  // an episode can last at most max_episode_steps; an endless task ends by its terminations alone
  const std::int64_t longest = environment.max_episode_steps();
  const std::int64_t limit = longest > 0 ? rounds * longest + 1 : kLongestEndless * rounds;
  for (std::int64_t step = 0;; ++step) {
    std::int64_t left = missing;
    if (step % kStepsBetweenChecks == 0) {
      collectives.max(&left, 1);
      if (left == 0) break;
    }
    if (step > limit + kStepsBetweenChecks)
      throw Error("evaluation: episodes do not end within " + std::to_string(limit) +
                  " control steps; the task has no time limit, and no termination occurs; set "
                  "task.episode_length or add a termination");
    runner->step(config.evaluation.deterministic, config.batch.seed, step);
    note_done("control step", step + 1);
    Kokkos::fence();
    if (watch) watch();
    const auto host = [](const TiledView<float>& view) {
      return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view.data);
    };
    const auto terminated = host(environment.terminated()), truncated = host(environment.truncated());
    const auto episode_return = host(environment.episode_return());
    const auto episode_length = host(environment.episode_length());
    const auto success = host(environment.success());
    const HostTiles<float> metric(environment.episode_metric());
    for (std::int64_t env = 0; env < partition.envs(); ++env) {
      const std::size_t e = static_cast<std::size_t>(env);  // one element: tiles lie one after the other
      if (finished[e] == rounds) continue;
      const std::size_t slot =
          static_cast<std::size_t>(finished[e] * partition.num_envs + partition.first_env() + env);
      if (has_success && success(e) != 0.0f) successes[slot] = 1;
      if (terminated(e) == 0.0f && truncated(e) == 0.0f) continue;
      returns[slot] = static_cast<double>(episode_return(e));
      lengths[slot] = static_cast<double>(episode_length(e));
      for (std::size_t k = 0; k < metrics.size(); ++k)
        metrics[k][slot] = static_cast<double>(metric.env(env)[k * kTileWidth]);
      ++finished[e];
      --missing;
    }
    if (stops && stops()) {
      std::int64_t running = missing;
      collectives.sum(&running, 1);
      if (running == 0) break;  // all have ended meanwhile
      return {.stopped = true, .ended = std::min(wanted, rounds * partition.num_envs - running)};
    }
  }
  collectives.sum(returns.data(), returns.size());
  collectives.sum(lengths.data(), lengths.size());
  collectives.sum(successes.data(), successes.size());
  returns.resize(static_cast<std::size_t>(wanted));
  lengths.resize(static_cast<std::size_t>(wanted));
  successes.resize(has_success ? static_cast<std::size_t>(wanted) : 0);
  for (std::vector<double>& values : metrics) {
    collectives.sum(values.data(), values.size());
    values.resize(static_cast<std::size_t>(wanted));
  }
  return {.episode_return = returns,
          .episode_length = lengths,
          .episode_success = successes,
          .episode_metrics = metrics};
}

}  // namespace maniple
