// maniple evaluate: complete episodes with a trained policy, returns and lengths in /evaluation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "src/base/counted.hpp"
#include "src/base/log.hpp"
#include "src/driver/episode_recorder.hpp"
#include "src/driver/refusals.hpp"
#include "src/driver/setup.hpp"
#include "src/driver/stop.hpp"
#include "src/driver/verbs.hpp"
#include "src/learning/evaluation.hpp"
#include "src/parallel/failure.hpp"

namespace maniple {
namespace {

// Means of the metrics of these episodes; without `known`, and without what the success rate says already.
std::string metrics_text(const std::vector<std::string>& names, const EvaluationResult& result,
                         const std::string& known,
                         const std::function<double(const std::vector<double>&)>& mean) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] != known && (result.episode_success.empty() || names[i] != "termination_success"))
      text += ", " + metric_text(names[i], mean(result.episode_metrics[i]));
  return text;
}

// Results of episodes on a terrain, level by level: a line for each, and series in the results.
void tell_levels(const Simulation& simulation, const EvaluationResult& result, ResultsWriter& results) {
  const std::vector<std::string>& names = simulation.metrics();
  const std::string of_level = std::string("metric_") + kTerrainLevel;
  const auto found = std::find(names.begin(), names.end(), of_level);
  if (found == names.end()) return;
  std::map<double, std::vector<std::size_t>> episodes;
  const std::vector<double>& levels = result.episode_metrics[static_cast<std::size_t>(found - names.begin())];
  for (std::size_t i = 0; i < levels.size(); ++i) episodes[levels[i]].push_back(i);
  std::vector<double> level_of, counts, returns, successes;
  for (const auto& [level, places] : episodes) {
    const auto mean = [&, at = &places](const std::vector<double>& values) {
      std::vector<double> chosen;
      for (const std::size_t place : *at) chosen.push_back(values[place]);
      return summary_of(chosen).mean;
    };
    level_of.push_back(level);
    counts.push_back(static_cast<double>(places.size()));
    returns.push_back(mean(result.episode_return));
    std::string told = fmt::format("level {:.0f}: {}, mean return {:.4f}", level,
                                   counted(places.size(), "episode"), returns.back());
    if (!result.episode_success.empty()) {
      successes.push_back(mean(result.episode_success));
      told += fmt::format(", success {:.1f}%", 100 * successes.back());
    }
    info(told + metrics_text(names, result, of_level, mean));
  }
  results.write_series("evaluation/level", level_of, "1", "rows of the terrain in which episodes were");
  results.write_series("evaluation/level_episodes", counts, "episodes", "episodes in each row");
  results.write_series("evaluation/level_mean_return", returns, "reward", "mean of their episode_return");
  if (!successes.empty())
    results.write_series("evaluation/level_success_rate", successes, "1", "mean of their success");
}

}  // namespace

ExitCode evaluate_policy(const Config& given, Session& session) {
  // (episodes do not depend on how many others there are, but for the ground of a terrain: environments spread
  // over its kinds, however many they are)
  Config config = given;
  config.batch.num_envs = evaluation_environments(given, session.size());
  if (!config.task.present)
    throw InputError(config.where_deck, "task", "no task in the deck",
                     "evaluate needs a deck with a task (inputs/tasks)");
  if (config.control.checkpoint.empty())
    throw InputError(config.control.where, "control.checkpoint", "no checkpoint given",
                     "a checkpoint file or the directory of a training run");
  refuse_trajectories(config, "evaluate");
  const std::unique_ptr<Simulation> simulation =
      set_up_simulation(config, session, "evaluate", Holds::evaluation);
  const LoadedPolicy loaded = load_policy(config, *simulation, session);
  if (config.batch.num_envs < given.batch.num_envs)
    info(fmt::format("batch.num_envs: {} of {}, since evaluation.episodes is {}", config.batch.num_envs,
                     given.batch.num_envs, config.evaluation.episodes));
  info(fmt::format("policy of iteration {} from {}", loaded.iteration, config.control.checkpoint));
  if (!loaded.curricula.empty())
    info(
        fmt::format("curricula of the checkpoint: {} (task.curricula.NAME.update=~ uses the deck's initial "
                    "value instead)",
                    loaded.curricula));

  std::optional<EpisodeRecorder> episodes;
  const std::int64_t envs = simulation->partition().num_envs, wanted = wanted_episodes(config, envs);
  if (config.output.dataset != DatasetLayout::none)
    run_together(session.collectives(), [&] {
      episodes.emplace(config, *simulation, [envs, wanted](std::int64_t env, std::int64_t number) {
        return number * envs + env < wanted;
      });
    });
  const auto watch = [&] {
    if (episodes) episodes->watch();
  };
  StopRequest stop(config, session.started());
  StopRequest::Decision decision;
  const auto stops = [&] {
    decision = stop.poll(session.collectives());
    return decision.stop;
  };
  const EvaluationResult result =
      evaluate(*simulation, *loaded.policy, config, session.collectives(), watch, stops);
  report_idle_draws(*simulation, session);
  report_incidents(*simulation, session);
  if (result.stopped) {
    // (short episodes are the first that end, so those that have would say too little or too much)
    warn(fmt::format("stopped early after {} of {} ({}): no results are written, nor a data set",
                     result.ended, counted(static_cast<std::size_t>(wanted), "episode"), decision.reason));
    return ExitCode::error;
  }

  ResultsWriter results(config.output.directory, run_record(config, session, *simulation, "evaluate"),
                        session.collectives(), kEvaluationFile);
  results.write_series("evaluation/iteration", {static_cast<double>(loaded.iteration)}, "1",
                       "iteration of the run whose policy acted");
  results.write_series("evaluation/episode_return", result.episode_return, "reward",
                       "sum of rewards of each episode");
  results.write_series("evaluation/episode_length", result.episode_length, "control steps",
                       "length of each episode");
  const Summary returns = summary_of(result.episode_return), lengths = summary_of(result.episode_length);
  results.write_series("evaluation/mean_return", {returns.mean}, "reward", "mean of episode_return");
  results.write_series("evaluation/mean_return_error", {returns.standard_error}, "reward",
                       "standard error of mean_return");
  results.write_series("evaluation/mean_return_confidence", {returns.confidence}, "reward",
                       "half width of the 95 % confidence interval of mean_return");
  std::string success;
  if (!result.episode_success.empty()) {
    results.write_series("evaluation/success", result.episode_success, "1",
                         "1: the termination success held in the episode");
    const double rate = summary_of(result.episode_success).mean;
    results.write_series("evaluation/success_rate", {rate}, "1", "mean of success");
    success = fmt::format(", success {:.1f}%", 100 * rate);
  }
  for (std::size_t i = 0; i < result.episode_metrics.size(); ++i) {
    const std::string& name = simulation->metrics()[i];
    results.write_series("evaluation/" + name, result.episode_metrics[i], is_share(name) ? "1" : "task",
                         is_share(name) ? "1: the termination held in the last step of the episode"
                                        : "the task's metric of each episode");
  }
  tell_levels(*simulation, result, results);
  const std::string path = results.commit();
  const std::string confidence =
      std::isnan(returns.confidence) ? "" : fmt::format(" +- {:.4f} (95 %)", returns.confidence);
  info(fmt::format("{}: mean return {:.4f}{}, mean length {:.1f}{}{}",
                   counted(result.episode_return.size(), "episode"), returns.mean, confidence, lengths.mean,
                   success,
                   metrics_text(simulation->metrics(), result, "",
                                [](const std::vector<double>& values) { return summary_of(values).mean; })));
  info("results: " + path);
  if (episodes) episodes->write(session);
  return ExitCode::done;
}

}  // namespace maniple
