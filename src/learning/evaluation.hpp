// Complete episodes with a given policy, counted and ordered independently of the number of ranks.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/learning/acting_policy.hpp"
#include "src/parallel/collectives.hpp"

namespace maniple {

// One entry per episode: all first episodes in order of environment, then all second ones, and so on.
struct EvaluationResult {
  std::vector<double> episode_return = {};
  std::vector<double> episode_length = {};                // control steps
  std::vector<double> episode_success = {};               // 1 or 0; empty where the task has no success
  std::vector<std::vector<double>> episode_metrics = {};  // of each of Environment::metrics()
  bool stopped = false;                                   // before all had ended: there are no entries
  std::int64_t ended = 0;                                 // episodes that had by then
};

// Is the metric of episodes, averaged over them, a share: of terminations.
bool is_share(const std::string& metric);
// "time_out 88%", "speed 0.312": a mean of one of Environment::metrics().
std::string metric_text(const std::string& metric, double mean);

// Over the episodes of an evaluation.
struct EvaluationMeans {
  double episode_return = 0;
  std::optional<double> success_rate;  // of tasks that have a success
};
EvaluationMeans means_of(const EvaluationResult& result);

// Mean of independent numbers, with its standard error and the half width of its 95 % confidence interval
// (Student's t); NaN where one number says nothing of them.
struct Summary {
  double mean = 0;
  double standard_error = std::numeric_limits<double>::quiet_NaN();
  double confidence = std::numeric_limits<double>::quiet_NaN();
};
Summary summary_of(const std::vector<double>& values);

// evaluation.episodes, or where it says nothing this many.
std::int64_t wanted_episodes(const Config& config, std::int64_t otherwise);

// Environments that have an episode to run: at most evaluation.episodes of the batch, one for each rank at
// least.
std::int64_t evaluation_environments(const Config& config, int ranks);

// Environments of the evaluations while a policy is trained, over all ranks.
std::int64_t periodic_evaluation_environments(const Config& config);

// Environments on a terrain stay in their rows. Runs every environment from a fresh episode until each has
// finished the same number of episodes (evaluation.episodes / num_envs, rounded up; one each for 0) and keeps
// the first evaluation.episodes of them in that order. Equal counts per environment keep short episodes from
// being favoured. Collective; the same result on every rank. `watch`: called with the first observations
// there, and after each control step. `stops`: collective, asked after each control step whether to give up.
EvaluationResult evaluate(Environment& environment, ActingPolicy& policy, const Config& config,
                          Collectives& collectives, const std::function<void()>& watch = {},
                          const std::function<bool()>& stops = {});

}  // namespace maniple
