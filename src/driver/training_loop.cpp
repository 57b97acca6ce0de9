#include "src/driver/training_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "src/base/activity.hpp"
#include "src/base/log.hpp"
#include "src/base/timing.hpp"
#include "src/config/dump.hpp"
#include "src/config/schema.hpp"
#include "src/driver/progress.hpp"
#include "src/driver/rank_report.hpp"
#include "src/driver/stop.hpp"
#include "src/io/checkpoint_folder.hpp"
#include "src/io/checkpoint_reader.hpp"
#include "src/io/checkpoint_writer.hpp"
#include "src/io/event_file.hpp"
#include "src/io/final_values.hpp"
#include "src/io/rank_check.hpp"
#include "src/io/seal.hpp"
#include "src/io/snapshot.hpp"
#include "src/parallel/retry.hpp"

namespace maniple {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kEvaluationReturn = "evaluation_return";
constexpr const char* kEvaluationSuccess = "evaluation_success_rate";
// Seconds that an iteration may take before a stop no longer waits for its end. (The copy of a state that a
// stop would need takes a GPU some hundredths of a second.)
constexpr double kShortIteration = 1;
constexpr double kResultsAge = 30;          // s of wall time that results may be old
constexpr std::size_t kReportedRanks = 16;  // at the end of the log; the results have all

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The rows of /metrics, one per iteration.
class MetricRows {
 public:
  MetricRows(const IterationReport& names, const TrainingRun& run) {
    for (const auto& value : names.values)
      metrics_.series.push_back({value.name, value.unit, value.description, value.reproducible, {}});
    first_evaluated_ = metrics_.series.size();
    const auto evaluated = [&](const std::string& name, const std::string& unit, const std::string& what) {
      metrics_.series.push_back(
          {name, unit, what + " of the latest evaluation; NaN before the first", true, {}});
    };
    evaluated(kEvaluationReturn, "reward", "mean return");
    if (run.has_success) evaluated(kEvaluationSuccess, "1", "share of successes");
    num_evaluated_ = metrics_.series.size() - first_evaluated_;
    metrics_.series.push_back(
        {"wall_seconds", "s", "time since the start of training, all starts summed", false, {}});
  }
  // `evaluated`: where this iteration's policy was.
  void append(const IterationReport& report, const std::optional<EvaluationMeans>& evaluated,
              double wall_seconds) {
    for (std::size_t i = 0; i < report.values.size(); ++i)
      metrics_.series[i].values.push_back(report.values[i].value);
    for (std::size_t i = 0; i < num_evaluated_; ++i) {
      std::vector<double>& values = metrics_.series[first_evaluated_ + i].values;
      if (evaluated)
        values.push_back(i == 0 ? evaluated->episode_return : *evaluated->success_rate);
      else
        values.push_back(values.empty() ? std::nan("") : values.back());
    }
    metrics_.series.back().values.push_back(wall_seconds);
  }
  // Before the first append(), after the rows of a run that goes on are back: what it did not keep before
  // begins with NaN. Evaluations of before stay where no more are asked for; a run without any has no rows of
  // them.
  void begin(bool evaluates) {
    const auto first = metrics_.series.begin() + static_cast<std::ptrdiff_t>(first_evaluated_);
    if (!evaluates && first->values.empty()) {
      metrics_.series.erase(first, first + static_cast<std::ptrdiff_t>(num_evaluated_));
      num_evaluated_ = 0;
    }
    std::size_t rows = 0;
    for (const auto& series : metrics_.series) rows = std::max(rows, series.values.size());
    for (auto& series : metrics_.series)
      series.values.insert(series.values.begin(), rows - series.values.size(), std::nan(""));
  }
  // The return of the latest evaluation until an iteration; nothing where there was none.
  std::optional<double> evaluation_at(std::int64_t iteration) const {
    if (num_evaluated_ == 0 || iteration < 1) return std::nullopt;
    const double value = metrics_.series[first_evaluated_].values.at(static_cast<std::size_t>(iteration - 1));
    return std::isnan(value) ? std::nullopt : std::optional(value);
  }
  // The last row, by name.
  std::vector<std::pair<std::string, double>> last() const {
    std::vector<std::pair<std::string, double>> row;
    for (const auto& series : metrics_.series)
      if (!series.values.empty()) row.emplace_back(series.name, series.values.back());
    return row;
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
  std::size_t first_evaluated_ = 0, num_evaluated_ = 0;  // return, success rate
};

// One line of log.jsonl, for programs that watch a run.
void record_iteration(const IterationReport& report, std::int64_t iteration,
                      const std::optional<EvaluationMeans>& evaluated, double wall_seconds) {
  std::vector<LogField> fields{{"iteration", iteration}, {"wall_seconds", wall_seconds}};
  for (const auto& value : report.values)
    if (value.name != "iteration") fields.push_back({value.name, value.value});
  if (evaluated) fields.push_back({kEvaluationReturn, evaluated->episode_return});
  if (evaluated && evaluated->success_rate) fields.push_back({kEvaluationSuccess, *evaluated->success_rate});
  record("iteration", fields);
}

// The steps that TensorBoard counts: of the environments, where the learner has any.
std::int64_t steps_of(const std::vector<std::pair<std::string, double>>& row, std::int64_t iteration) {
  for (const auto& [name, value] : row)
    if (name == "env_steps") return static_cast<std::int64_t>(value);
  return iteration;
}

std::string time_of_stages(const std::vector<std::pair<std::string, double>>& stages, double total) {
  std::string text = "share of the time:";
  double named = 0;
  for (const auto& [name, seconds] : stages) {
    named += seconds;
    text += fmt::format(" {} {:.1f}%,", name, 100 * seconds / total);
  }
  return text + fmt::format(" rest {:.1f}%", 100 * std::max(0.0, total - named) / total);
}

// Whether the last row of results has these values.
bool ends_with(const std::vector<std::pair<std::string, double>>& results,
               const std::vector<std::pair<std::string, double>>& row) {
  return std::all_of(row.begin(), row.end(), [&](const auto& wanted) {
    return std::any_of(results.begin(), results.end(), [&](const auto& found) {
      return found.first == wanted.first &&
             (found.second == wanted.second || (std::isnan(found.second) && std::isnan(wanted.second)));
    });
  });
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

// Takes over what another run has learned, and says what that is.
void warm_start(Learner& learner, const TrainingRun& run) {
  Archive archive;
  learner.describe_warm_start(archive);
  const WarmStart start =
      read_warm_start(run.config.learning.warm_start, run.identity, archive, run.collectives);
  learner.warm_started(start);
  if (start.cloned) {
    info(fmt::format(
        "warm start from {}, update {} of imitate: the actor begins with its weights, which include its "
        "normalization; critic, standard deviation (policy.init_std) and optimizer start fresh",
        run.config.learning.warm_start, start.step));
    return;
  }
  for (const Key& key : schema())
    if (key.is(kOfFirstPolicy) && run.config.where.contains(key.path))
      warn(
          fmt::format("{} has no effect with learning.warm_start: the policy and its standard deviation are "
                      "the checkpoint's",
                      key.path));
  std::string missing;
  for (const ArchiveEntry& entry : archive.entries())
    if (!start.has(entry.name)) missing += (missing.empty() ? "" : ", ") + entry.name;
  info(fmt::format(
      "warm start from {}, iteration {}{}: policy, critic, normalizers and moments of the optimizer are "
      "kept{}; "
      "environments, learning rate, curricula and counters begin again",
      run.config.learning.warm_start, start.step,
      start.same_task             ? ""
      : start.differences.empty() ? " (of another task or model)"
                                  : fmt::format(" (of another task: {})", fmt::join(start.differences, ", ")),
      missing.empty() ? "" : fmt::format(" (but missing there: {})", missing)));
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
    if (!run.config.learning.warm_start.empty()) warm_start(learner, run);
  }
  rows.begin(run.evaluate_every > 0);
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
        best_(run.config.output.directory + "/best", 1, !resumed && run.config.output.overwrite,
              run.collectives),
        last_(run.config.output.directory + "/last", 1, !resumed && run.config.output.overwrite,
              run.collectives),
        earlier_seconds_(rows.last_wall_seconds()),
        results_seconds_(earlier_seconds_),
        stop_(run.config, run.started),
        progress_(run.iterations, run.config.run.progress, run.collectives.rank() == 0) {
    if (!resumed && run.config.output.overwrite) begin_log_anew();
    keep();
    if (resumed) find_best(*resumed);
    if (run.config.output.tensorboard && run.collectives.rank() == 0) {
      events_.emplace(run.config.output.directory, !resumed, steps_of(rows.last(), first_iteration_) + 1);
      events_->begin_session(given_settings(run.config));
    }
  }

  ExitCode run() {
    // The first output of a run with a wall time comes at once, so that what it takes is known.
    if (run_.config.run.wall_time > 0 && iteration_ < run_.iterations) save(false);
    if (iteration_ >= run_.iterations) {
      info(fmt::format("nothing left to do: iteration {} of {} is done", iteration_, run_.length));
      // The checkpoint stays: the settings in it are those that came by it. So do whole results; a kill
      // between two outputs left those of an earlier checkpoint, or too many checkpoints.
      if (!results_are_whole()) save_results();
      checkpoints_.stay_at(iteration_);
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
    best_.settle();
    best_.leave_earlier();
    if (!stopped_ && !last_is_there()) {
      write_policy(last_);
      last_.settle();
    }
    if (run_.at_end) run_.at_end();
    if (events_ && !stopped_) events_->end_session();
    conclude(seconds);
    return stopped_ ? ExitCode::stopped_early : ExitCode::done;
  }

 private:
  struct Interrupted {};

  void iterate() {
    within_ = true;
    const auto begun = Clock::now();
    const IterationReport report = learner_.iterate([this] {
      if (++since_check_ == run_.config.learning.check_ranks_every) check_in_step();
      if (kept_at_ == iteration_ && follow(stop_.poll(run_.collectives))) throw Interrupted();
    });
    within_ = false;
    ++iteration_;
    note_done("iteration", iteration_);
    checkpoints_.settle();  // of an iteration before
    // one clock for the file, and for what the ranks decide together
    double clock[] = {earlier_seconds_ + seconds_since(loop_started_), seconds_since(begun)};
    run_.collectives.broadcast(clock, sizeof(clock), 0);
    const double seconds = clock[0];
    if (clock[1] > kShortIteration) keep();
    const std::optional<EvaluationMeans> evaluated = evaluate();
    rows_.append(report, evaluated, seconds);
    record_iteration(report, iteration_, evaluated, seconds);
    if (events_) events_->write(steps_of(rows_.last(), iteration_), rows_.last());
    if (run_.after_iteration) run_.after_iteration(report, iteration_);
    progress_.update(iteration_, fmt::format("{}  {}  {}", rate(seconds_since(loop_started_)), report.summary,
                                             resident_memory()));
    const bool due = is_due(run_.config.learning.checkpoint_every);
    // (results that this run replaces stay until its first checkpoint; the time counts as the iteration's)
    if (!due && seconds - results_seconds_ > kResultsAge && (saved_ >= 0 || !run_.config.output.overwrite))
      refresh_results();
    follow(stop_.agree(run_.collectives));
    if (due && saved_ != iteration_ && iteration_ < run_.iterations) save(false);
  }

  // Whether an interval has ended in the iteration that is just done.
  bool is_due(std::int64_t every) const {
    if (every == 0) return false;
    const auto updates = [&](std::int64_t iteration) {
      const std::int64_t count = iteration * run_.updates_per_iteration;
      return run_.updates > 0 ? std::min(count, run_.updates) : count;
    };
    return updates(iteration_) / every > updates(iteration_ - 1) / every;
  }

  // Says whether the run has to stop; writes what is asked for, of the last finished iteration.
  bool follow(const StopRequest::Decision& decision) {
    if (!decision.reason.empty()) info(decision.reason);
    stopped_ = decision.stop && iteration_ < run_.iterations;
    if (decision.checkpoint && saved_ != iteration_) save(decision.stop);
    return stopped_;
  }

  // The best policy of this run's history until a checkpoint: one that was found later belongs to a history
  // that the run has left, perhaps for other rewards. Where none remains, the next one that is evaluated is
  // the best. Collective.
  void find_best(std::int64_t resumed) {
    const std::string folder = run_.config.output.directory + "/best/checkpoints";
    std::int64_t iteration = 0;
    if (run_.collectives.rank() == 0)
      tidy_checkpoints(folder, [&] {
        set_newer_aside(folder, resumed);
        const std::vector<std::int64_t> steps = checkpoint_steps_in(folder);
        if (!steps.empty()) iteration = steps.front();
        // what a kill left unlisted, or listed although it has gone
        if (steps.empty())
          std::filesystem::remove(folder + "/manifest.json");
        else
          prune_checkpoints(folder, std::ssize(steps), 1);
      });
    run_.collectives.broadcast(&iteration, sizeof iteration, 0);
    best_return_ = rows_.evaluation_at(iteration);
  }

  // Evaluates the policy where that is due, and keeps it where it is the best so far.
  std::optional<EvaluationMeans> evaluate() {
    if (!is_due(run_.evaluate_every)) return std::nullopt;
    const auto begun = Clock::now();
    const EvaluationMeans result = run_.evaluate();
    evaluation_seconds_ += seconds_since(begun);
    const bool best =
        !std::isnan(result.episode_return) && (!best_return_ || result.episode_return > *best_return_);
    if (best) {
      best_return_ = result.episode_return;
      write_policy(best_);
    }
    const std::string success =
        result.success_rate ? fmt::format(", success {:.1f}%", 100 * *result.success_rate) : "";
    info(fmt::format("iteration {}: evaluated return {:.2f}{}{}", iteration_, result.episode_return, success,
                     best           ? ", best policy so far"
                     : best_return_ ? fmt::format("; the best policy so far had {:.2f}", *best_return_)
                                    : ""));
    return result;
  }

  // (checkpoints compare what they write as well)
  void check_in_step() {
    if (run_.config.learning.check_ranks_every == 0 || run_.collectives.size() == 1) return;
    const auto begun = Clock::now();
    check_ranks(
        run_.collectives, [&] { return values_of(state_of(learner_)); },
        within_ ? fmt::format("in iteration {}", iteration_ + 1)
                : fmt::format("after iteration {}", iteration_));
    since_check_ = 0;
    ++checks_;
    check_seconds_ += seconds_since(begun);
  }

  // What a rollout needs of the learner, without its environments.
  void write_policy(CheckpointWriter& writer) {
    Archive policy;
    learner_.describe_policy(policy);
    writer.write(iteration_, run_.identity, policy, Partition());
  }

  // The state of the last finished iteration, for whoever cannot wait for the end of the next one; where
  // iterations are short, everyone waits, and the copy is saved.
  void keep() {
    kept_.take(state_of(learner_), learner_.partition().tiles);
    kept_at_ = iteration_;
  }

  // Results first: a run that is killed between the two then writes both again. Where time is short the
  // state comes first.
  void save(bool hurried) {
    const auto begun = Clock::now();
    const ActivityStage stage("output");
    check_in_step();
    if (hurried) save_state();
    save_results();
    if (!hurried) save_state();
    output_seconds_ += seconds_since(begun);
    stop_.note_output(seconds_since(begun));
  }
  // For those who look at a run between its checkpoints.
  void refresh_results() {
    const auto begun = Clock::now();
    const ActivityStage stage("output");
    save_results();
    output_seconds_ += seconds_since(begun);
  }
  // Whether an earlier start left results with all rows. Collective.
  bool results_are_whole() {
    const std::string path = run_.config.output.directory + "/" + kResultsFile;
    std::int64_t whole = 0;
    if (run_.collectives.rank() == 0) {
      try {
        std::error_code ignored;
        whole = std::filesystem::is_regular_file(path, ignored) && check_seal(path) == Sealed::yes &&
                ends_with(final_values(path), rows_.last());
      } catch (const Error&) {
        // they are written again
      }
    }
    run_.collectives.broadcast(&whole, sizeof whole, 0);
    if (whole != 0) results_path_ = path;
    return whole != 0;
  }
  // Whether an earlier start left the policy of this iteration, which then stays with its settings.
  // Collective.
  bool last_is_there() {
    std::int64_t there = 0;
    if (run_.collectives.rank() == 0 && iteration_ == first_iteration_) {
      const std::vector<std::int64_t> steps =
          checkpoint_steps_in(run_.config.output.directory + "/last/checkpoints");
      there = !steps.empty() && steps.front() == iteration_ ? 1 : 0;
    }
    run_.collectives.broadcast(&there, sizeof there, 0);
    return there != 0;
  }
  void save_results() {
    ResultsWriter results(run_.config.output.directory, run_.record, run_.collectives);
    results.write_metrics(rows_.metrics());
    report_ = report_of_ranks();
    write_report(report_, results);
    results_path_ = results.commit();
    results_seconds_ = rows_.last_wall_seconds();
  }
  void save_state() {
    if (kept_at_ != iteration_) keep();
    checkpoints_.write(iteration_, run_.identity, with_rows(kept_.archive(), rows_), learner_.partition());
    saved_ = iteration_;
  }

  // Memory of the learner and of the loop itself.
  std::vector<std::pair<std::string, double>> stage_seconds() const {
    std::vector<std::pair<std::string, double>> stages = learner_.stage_seconds();
    if (run_.evaluate_every > 0) stages.emplace_back("evaluation", evaluation_seconds_);
    stages.emplace_back("output", output_seconds_);
    return stages;
  }

  // Collective. Since the loop began.
  RankReport report_of_ranks() {
    RankUse mine;
    mine.seconds = stage_seconds();
    mine.total = seconds_since(loop_started_);
    mine.running = thread_seconds() - thread_seconds_before_;
    const Learner::Share share = learner_.share();
    mine.share = share.amount;
    return {.ranks = gather_use(run_.collectives, run_.place, mine),
            .shared = share.of,
            .checks = checks_,
            .check_seconds = check_seconds_};
  }

  // "1.25 Menv-steps/s", of the iterations since the start of the loop.
  std::string rate(double seconds) const {
    const double amount = work_.amount * static_cast<double>(iteration_ - first_iteration_);
    return human_rate(amount / seconds) + work_.unit + "/s";
  }

  // The summary at the end of a run.
  void conclude(double loop_seconds) const {
    if (iteration_ > first_iteration_) {
      info(time_of_stages(stage_seconds(), seconds_since(loop_started_)));
      info(fmt::format("{} over {:.1f} s", rate(loop_seconds), loop_seconds));
      for (const std::string& line : report_lines(report_, kReportedRanks)) info(line);
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
  CheckpointWriter best_, last_;  // of the policy alone
  std::optional<double> best_return_;
  const double earlier_seconds_;  // of the starts before this one
  double results_seconds_;        // wall time of the last row that the results have
  double output_seconds_ = 0, check_seconds_ = 0, evaluation_seconds_ = 0;
  std::int64_t since_check_ = 0, checks_ = 0;
  RankReport report_;
  const Clock::time_point loop_started_ = Clock::now();
  const double thread_seconds_before_ = thread_seconds();
  Snapshot kept_;
  std::int64_t kept_at_ = -1;  // the iteration after which it was taken
  StopRequest stop_;
  Progress progress_;
  std::optional<EventFile> events_;
  bool stopped_ = false;
  bool within_ = false;  // an iteration
  std::string results_path_;
};

// What a run whose files cannot be written has reached: "; the newest good checkpoint is ...".
std::string what_is_left(const std::string& directory) {
  try {
    if (const std::vector<std::int64_t> steps = checkpoint_steps(directory); !steps.empty())
      return fmt::format(
          "; the newest good checkpoint is {}/checkpoints/{}.h5: learning.resume=auto continues from it",
          directory, steps.front());
  } catch (const Error&) {
    // the first error is the one to tell
  }
  return "; there is no checkpoint yet";
}

}  // namespace

ExitCode run_training(Learner& learner, const TrainingRun& run) {
  check_ranks(
      run.collectives,
      [&] {
        return std::vector<RankValue>{{"the model", checksum_of(run.identity.model_digest)},
                                      {"the task", checksum_of(run.identity.task_digest)},
                                      {"the policy's shape", checksum_of(run.identity.policy)}};
      },
      "at the start");
  MetricRows rows(learner.report_names(), run);
  const std::optional<std::int64_t> resumed = resume_or_start(learner, run, rows);
  try {
    return TrainingLoop(learner, run, rows, resumed).run();
  } catch (const FileError& error) {
    throw FileError(error.what() + what_is_left(run.config.output.directory));
  }
}

}  // namespace maniple
