#include "src/driver/training_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "src/base/activity.hpp"
#include "src/base/log.hpp"
#include "src/driver/progress.hpp"
#include "src/driver/stop.hpp"
#include "src/io/snapshot.hpp"

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

std::string stage_shares(const std::vector<std::pair<std::string, double>>& stages, double total) {
  std::string text = "share of the time:";
  double named = 0;
  for (const auto& [name, seconds] : stages) {
    named += seconds;
    text += fmt::format(" {} {:.1f}%,", name, 100 * seconds / total);
  }
  return text + fmt::format(" rest {:.1f}%", 100 * std::max(0.0, total - named) / total);
}

// The learner's state, and the rows of the iterations that led to it.
Archive state_of(Learner& learner) {
  Archive archive;
  learner.describe(archive);
  return archive;
}
Archive with_rows(Archive state, MetricRows& rows) {
  rows.describe(state);
  return state;
}

// Continues from the newest good checkpoint and returns its iteration; or starts.
std::optional<std::int64_t> resume_or_start(Learner& learner, const TrainingRun& run, MetricRows& rows) {
  const std::string& directory = run.config.output.directory;
  std::optional<std::int64_t> resumed;
  if (run.config.learning.resume == Resume::automatic)
    resumed = read_newest_checkpoint(directory, run.identity, with_rows(state_of(learner), rows),
                                     learner.partition(), run.collectives);
  if (resumed) {
    learner.restored();
    info(fmt::format("resumed {} at iteration {}", directory, *resumed));
  } else {
    learner.start();
  }
  return resumed;
}

class TrainingLoop {
 public:
  TrainingLoop(Learner& learner, const TrainingRun& run, MetricRows& rows,
               std::optional<std::int64_t> resumed)
      : learner_(learner),
        run_(run),
        rows_(rows),
        work_(learner.work_per_iteration()),
        first_iteration_(resumed.value_or(0)),
        iteration_(first_iteration_),
        saved_(resumed.value_or(-1)),
        checkpoints_(run.config.output.directory, run.config.learning.keep_checkpoints,
                     !resumed && run.config.output.overwrite, run.collectives),
        earlier_seconds_(rows.last_wall_seconds()),
        stop_(run.config, run.started),
        progress_(run.iterations, run.config.run.progress, run.collectives.rank() == 0) {
    keep();
  }

  ExitCode run() {
    // The first output of a run with a wall time comes at once, so that what it takes is known.
    if (run_.config.run.wall_time > 0 && iteration_ < run_.iterations) save(false);
    if (iteration_ >= run_.iterations) {
      info(fmt::format("nothing left to do: iteration {} of learning.iterations={} is done", iteration_,
                       run_.iterations));
      save_results();  // a run that was killed between two outputs left those of an earlier checkpoint
    }
    follow(stop_.agree(run_.collectives));
    try {
      while (iteration_ < run_.iterations && !stopped_) iterate();
    } catch (const Interrupted&) {
      info(fmt::format("iteration {} is left unfinished", iteration_ + 1));
    }
    progress_.finish();
    const double seconds = seconds_since(loop_started_);
    if (saved_ != iteration_) save(false);
    checkpoints_.settle();
    if (run_.at_end) run_.at_end();
    conclude(seconds);
    return stopped_ ? ExitCode::stopped_early : ExitCode::done;
  }

 private:
  struct Interrupted {};

  void iterate() {
    const IterationReport report = learner_.iterate([this] {
      if (follow(stop_.poll(run_.collectives))) throw Interrupted();
    });
    ++iteration_;
    note_done("iteration", iteration_);
    checkpoints_.settle();  // of an iteration before
    keep();
    double seconds = earlier_seconds_ + seconds_since(loop_started_);
    run_.collectives.broadcast(&seconds, sizeof(seconds), 0);  // one clock for the file
    rows_.append(report, seconds);
    record_iteration(report, iteration_, seconds);
    if (run_.after_iteration) run_.after_iteration(report, iteration_);
    progress_.update(iteration_, fmt::format("{}  {}  {}", rate(seconds_since(loop_started_)), report.summary,
                                             resident_memory()));
    follow(stop_.agree(run_.collectives));
    const std::int64_t every = run_.config.learning.checkpoint_every;
    const bool due = every > 0 && iteration_ % every == 0;
    if (due && saved_ != iteration_ && iteration_ < run_.iterations) save(false);
  }

  // Says whether the run has to stop; writes what is asked for, of the last finished iteration.
  bool follow(const StopRequest::Decision& decision) {
    if (!decision.reason.empty()) info(decision.reason);
    stopped_ = decision.stop && iteration_ < run_.iterations;
    if (decision.checkpoint && saved_ != iteration_) save(decision.stop);
    return stopped_;
  }

  // The state of the last finished iteration, for whoever cannot wait for the end of the next one.
  void keep() { kept_.take(state_of(learner_), learner_.partition().tiles); }

  // Results first: a run that is killed between the two then writes both again. Where time is short the
  // state comes first.
  void save(bool hurried) {
    const auto begun = Clock::now();
    const ActivityStage stage("output");
    if (hurried) save_state();
    save_results();
    if (!hurried) save_state();
    output_seconds_ += seconds_since(begun);
    stop_.note_output(seconds_since(begun));
  }
  void save_results() {
    ResultsWriter results(run_.config.output.directory, run_.record, run_.collectives);
    results.write_metrics(rows_.metrics());
    results_path_ = results.commit();
  }
  void save_state() {
    checkpoints_.write(iteration_, run_.identity, with_rows(kept_.archive(), rows_), learner_.partition());
    saved_ = iteration_;
  }

  // "1.25 Menv-steps/s", of the iterations since the start of the loop.
  std::string rate(double seconds) const {
    const double amount = work_.amount * static_cast<double>(iteration_ - first_iteration_);
    return human_rate(amount / seconds) + work_.unit + "/s";
  }

  // What a user wants to know at the end.
  void conclude(double loop_seconds) const {
    if (iteration_ > first_iteration_) {
      auto stages = learner_.stage_seconds();
      stages.emplace_back("output", output_seconds_);
      info(stage_shares(stages, seconds_since(loop_started_)));
      info(fmt::format("{} over {:.1f} s", rate(loop_seconds), loop_seconds));
    }
    if (!results_path_.empty()) info("results: " + results_path_);
    info("checkpoints: " + run_.config.output.directory + "/checkpoints");
    if (stopped_)
      info(fmt::format("stopped early at iteration {}: continue with learning.resume=auto", iteration_));
  }

  Learner& learner_;
  const TrainingRun& run_;
  MetricRows& rows_;
  const Learner::Work work_;
  const std::int64_t first_iteration_;
  std::int64_t iteration_;  // finished so far
  std::int64_t saved_;      // iteration of the newest checkpoint; -1: none
  // (an earlier run that this one replaces stays until there is something to replace it with)
  CheckpointWriter checkpoints_;
  const double earlier_seconds_;  // of the starts before this one
  double output_seconds_ = 0;
  const Clock::time_point loop_started_ = Clock::now();
  Snapshot kept_;
  StopRequest stop_;
  Progress progress_;
  bool stopped_ = false;
  std::string results_path_;
};

}  // namespace

ExitCode run_training(Learner& learner, const TrainingRun& run) {
  MetricRows rows(learner.report_names());
  const std::optional<std::int64_t> resumed = resume_or_start(learner, run, rows);
  return TrainingLoop(learner, run, rows, resumed).run();
}

}  // namespace maniple
