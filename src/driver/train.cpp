// maniple train: PPO on a task deck, with metrics, checkpoints, restart and a clean early stop.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "src/base/activity.hpp"
#include "src/base/log.hpp"
#include "src/driver/progress.hpp"
#include "src/driver/setup.hpp"
#include "src/driver/stop.hpp"
#include "src/driver/verbs.hpp"
#include "src/io/snapshot.hpp"
#include "src/learning/ppo.hpp"
#include "src/parallel/failure.hpp"

namespace maniple {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The rows of /metrics, one per iteration.
class MetricRows {
 public:
  explicit MetricRows(const IterationReport& names) {
    for (const auto& value : names.values)
      metrics_.series.push_back({value.name, value.unit, value.description, true, {}});
    metrics_.series.push_back(
        {"wall_seconds", "s", "time since the start of training, all starts summed", false, {}});
  }
  void append(const IterationReport& report, double wall_seconds) {
    for (std::size_t i = 0; i < report.values.size(); ++i)
      metrics_.series[i].values.push_back(report.values[i].value);
    metrics_.series.back().values.push_back(wall_seconds);
  }
  double last_wall_seconds() const {
    const auto& wall = metrics_.series.back().values;
    return wall.empty() ? 0.0 : wall.back();
  }
  void describe(Archive& archive) {
    for (auto& series : metrics_.series)
      archive.growing("metrics/" + series.name, series.values, series.unit, series.description,
                      series.reproducible);
  }
  const Metrics& metrics() const { return metrics_; }

 private:
  Metrics metrics_;
};

// One line of log.jsonl, for whoever watches a run from outside.
void record_iteration(const IterationReport& report, std::int64_t iteration, double wall_seconds) {
  std::vector<LogField> fields{{"iteration", iteration}, {"wall_seconds", wall_seconds}};
  for (const auto& value : report.values)
    if (value.name != "iteration") fields.push_back({value.name, value.value});
  record("iteration", fields);
}

std::string stage_shares(const Simulation& simulation, const Ppo& ppo, double output_seconds, double total) {
  std::vector<std::pair<std::string, double>> stages = simulation.stage_seconds();
  for (const auto& stage : ppo.stage_seconds()) stages.push_back(stage);
  stages.emplace_back("output", output_seconds);
  std::string text = "share of the time:";
  double named = 0;
  for (const auto& [name, seconds] : stages) {
    named += seconds;
    text += fmt::format(" {} {:.1f}%,", name, 100 * seconds / total);
  }
  return text + fmt::format(" rest {:.1f}%", 100 * std::max(0.0, total - named) / total);
}

}  // namespace

ExitCode train(const Config& config, Session& session) {
  if (!config.task.present)
    throw InputError(config.where_deck, "task", "no task in the deck",
                     "train needs a deck with a task (inputs/tasks)");
  if (config.output.trajectory_every > 0)
    throw InputError(
        config.where_of("output.trajectory.every"), "output.trajectory.every", "trajectories asked of train",
        "rollout records trajectories (control.source=policy control.checkpoint=<run directory>)");
  const auto started = Clock::now();
  const std::unique_ptr<Simulation> simulation = set_up_simulation(config, session, "train");
  Collectives& collectives = session.collectives();
  Ppo ppo(*simulation, config, collectives);
  MetricRows rows(ppo.report_names());
  const CheckpointIdentity identity = checkpoint_identity(config, *simulation);
  const auto state = [&] {
    Archive entries;
    simulation->describe(entries);
    ppo.describe(entries);
    return entries;
  };
  // what simulation and learning change within an iteration, and the rows, which grow after it
  const auto with_rows = [&](Archive entries) {
    rows.describe(entries);
    return entries;
  };

  // continue from the newest good checkpoint, or start
  std::int64_t iteration = 0;
  std::optional<std::int64_t> resumed;
  if (config.learning.resume == "auto")
    resumed = read_newest_checkpoint(config.output.directory, identity, with_rows(state()),
                                     simulation->partition(), collectives);
  if (resumed) {
    iteration = *resumed;
    simulation->restored();
    ppo.restored();
    info(fmt::format("resumed {} at iteration {}", config.output.directory, iteration));
  } else {
    ppo.start();
  }

  // the state of the last finished iteration, for whoever cannot wait for the end of the next one
  Snapshot kept;
  const auto keep = [&] { kept.take(state(), simulation->partition().tiles); };
  keep();

  StopRequest stop(config, started);
  double output_seconds = 0;
  const double earlier_seconds = rows.last_wall_seconds();
  const auto loop_started = Clock::now();
  const std::int64_t first_iteration = iteration;
  std::int64_t saved = resumed ? iteration : -1;
  // an earlier run that this one replaces stays until there is something to replace it with
  CheckpointWriter checkpoints(config.output.directory, config.learning.keep_checkpoints,
                               !resumed && config.output.overwrite, collectives);
  std::string results_path;
  const auto save_results = [&] {
    ResultsWriter results(config.output.directory, run_record(config, session, *simulation, "train"),
                          collectives);
    results.write_metrics(rows.metrics());
    results_path = results.commit();
  };
  const auto save_state = [&] {
    checkpoints.write(iteration, identity, with_rows(kept.archive()), simulation->partition());
    saved = iteration;
  };
  // Results first: a run that is killed between the two then writes both again. Where time is short the
  // state comes first.
  const auto save = [&](bool hurried) {
    const auto begun = Clock::now();
    const ActivityStage stage("output");
    if (hurried) save_state();
    save_results();
    if (!hurried) save_state();
    output_seconds += seconds_since(begun);
    stop.note_output(seconds_since(begun));
  };

  Progress progress(config.learning.iterations, config.run.progress, session.rank() == 0);
  const double steps_per_iteration = static_cast<double>(config.batch.num_envs) * config.learning.horizon;
  bool stopped = false;
  // Says whether the run has to stop; writes what is asked for, of the last finished iteration.
  const auto follow = [&](const StopRequest::Decision& decision) {
    if (!decision.reason.empty()) info(decision.reason);
    stopped = decision.stop && iteration < config.learning.iterations;
    if (decision.checkpoint && saved != iteration) save(decision.stop);
    return stopped;
  };
  struct Interrupted {};
  // The first output of a run with a wall time comes at once, so that what it takes is known.
  if (config.run.wall_time > 0 && iteration < config.learning.iterations) save(false);
  follow(stop.agree(collectives));
  try {
    while (iteration < config.learning.iterations && !stopped) {
      const IterationReport report = ppo.iterate([&] {
        if (follow(stop.poll(collectives))) throw Interrupted();
      });
      ++iteration;
      note_done("iteration", iteration);
      checkpoints.settle();  // of an iteration before
      keep();
      double seconds = earlier_seconds + seconds_since(loop_started);
      collectives.broadcast(&seconds, sizeof(seconds), 0);  // one clock for the file
      rows.append(report, seconds);
      record_iteration(report, iteration, seconds);
      if (report.invalid_samples > 0)
        report_invalid_samples(*simulation, session, iteration, report.invalid_samples,
                               (iteration - 1) * config.learning.horizon);
      const double rate = steps_per_iteration * static_cast<double>(iteration - first_iteration) /
                          seconds_since(loop_started);
      progress.update(iteration,
                      fmt::format("{}steps/s  return {:.3f}  length {:.0f}  {}", human_rate(rate),
                                  report.episode_return, report.episode_length, resident_memory()));
      follow(stop.agree(collectives));
      const bool due =
          config.learning.checkpoint_every > 0 && iteration % config.learning.checkpoint_every == 0;
      if (due && saved != iteration && iteration < config.learning.iterations) save(false);
    }
  } catch (const Interrupted&) {
    info(fmt::format("iteration {} is left unfinished", iteration + 1));
  }
  progress.finish();
  const double loop_seconds = seconds_since(loop_started);
  if (saved != iteration) save(false);
  checkpoints.settle();

  report_incidents(*simulation, session);
  if (iteration > first_iteration) {
    info(stage_shares(*simulation, ppo, output_seconds, seconds_since(loop_started)));
    info(fmt::format(
        "{}env-steps/s over {:.1f} s",
        human_rate(steps_per_iteration * static_cast<double>(iteration - first_iteration) / loop_seconds),
        loop_seconds));
  }
  if (!results_path.empty()) info("results: " + results_path);
  info("checkpoints: " + config.output.directory + "/checkpoints");
  if (stopped) {
    info(fmt::format("stopped early at iteration {}: continue with learning.resume=auto", iteration));
    return ExitCode::stopped_early;
  }
  return ExitCode::done;
}

}  // namespace maniple
