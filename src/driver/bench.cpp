// maniple bench: physics steps per second with random controls, environment steps per second, with a task at
// random actions, and, where asked, whole iterations of learning; repeats show the spread. One more repeat,
// which does not count, divides the time into the stages of physics, and separates a task's own computations
// from the physics that it requests. Writes bench.json.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "src/base/json.hpp"
#include "src/base/log.hpp"
#include "src/driver/bench_times.hpp"
#include "src/driver/refusals.hpp"
#include "src/driver/setup.hpp"
#include "src/driver/verbs.hpp"
#include "src/io/commit.hpp"
#include "src/learning/effective_batch.hpp"
#include "src/learning/learners.hpp"
#include "src/parallel/failure.hpp"

namespace maniple {
namespace {

using Shares = std::vector<std::pair<std::string, double>>;  // of a time, by stage

// Parts of their sum.
Shares fractions(Shares seconds) {
  double sum = 0;
  for (const auto& [stage, value] : seconds) sum += value;
  for (auto& [stage, value] : seconds) value /= sum;
  return seconds;
}

// Of the time between two states of a clock of stages: the parts of each stage, and the rest.
Shares fractions_of_time(const std::vector<std::pair<std::string, double>>& before,
                         const std::vector<std::pair<std::string, double>>& after, double seconds) {
  Shares result;
  double rest = seconds;
  for (const auto& [stage, value] : after) {
    double spent = value;
    for (const auto& [earlier, since] : before)
      if (earlier == stage) spent -= since;
    rest -= spent;
    result.emplace_back(stage, spent / seconds);
  }
  result.emplace_back("rest", std::max(0.0, rest) / seconds);
  return result;
}

double seconds_of(const std::string& stage, const std::vector<std::pair<std::string, double>>& seconds) {
  const auto found =
      std::find_if(seconds.begin(), seconds.end(), [&](const auto& s) { return s.first == stage; });
  return found == seconds.end() ? 0 : found->second;
}

// Takes out of the task's part the physics in it, `forward_part` of the whole: quantities of the state that
// the task sees, where it does not read those of the last step.
void split_task(Shares& fractions, double forward_part) {
  if (!(forward_part > 0)) return;
  const auto task =
      std::find_if(fractions.begin(), fractions.end(), [](const auto& f) { return f.first == "task"; });
  const double forward = std::min(1.0, forward_part) * task->second;
  task->second -= forward;
  fractions.emplace(task, "forward", forward);
}

// What bench finds.
struct BenchTimes {
  Spread physics, environment;  // steps/s
  Shares environment_shares, physics_shares;
  std::string stage_seconds;  // JSON
  LearningTimes learning;
};

void refuse_what_is_not_measured(const Config& config) {
  if (config.bench.iterations == 0) return;
  if (config.learning.imitates())
    throw InputError(config.where_of("learning.algorithm"), "learning.algorithm",
                     "found " + config.learning.algorithm,
                     "bench measures learning from environments (ppo), bench.scaling from data as well");
  if (!config.task.present)
    throw InputError(config.where_of("bench.iterations"), "bench.iterations",
                     std::to_string(config.bench.iterations) + " iterations of learning without a task",
                     "a deck with a task (inputs/tasks, inputs/train), or 0");
}

// Times steps of all environments; collective.
class StepTimer {
 public:
  StepTimer(Simulation& simulation, const Config& config, Session& session)
      : simulation_(simulation), config_(config), session_(session) {}

  // Physics alone: controls drawn again each control step, as in a random rollout. Steps of physics/s.
  std::vector<double> time_physics() {
    run_together(session_.collectives(), [&] { simulation_.initialize(config_.initial_state); });
    step_physics();  // warms caches and spreads the states
    std::vector<double> rates;
    for (int repeat = 0; repeat < config_.bench.repeats; ++repeat)
      rates.push_back(steps_of_all() * config_.simulation.decimation /
                      time_on_all_ranks(session_, [&] { step_physics(); }));
    return rates;
  }
  // Whole control steps of the task: actions, terms and resets included. Control steps/s; `shares`: of their
  // stages.
  std::vector<double> time_environments(Shares& shares) {
    simulation_.reset();
    simulation_.zero_action();
    step_task();
    const auto before = simulation_.stage_seconds();
    double seconds = 0;
    std::vector<double> rates;
    for (int repeat = 0; repeat < config_.bench.repeats; ++repeat) {
      const auto begun = std::chrono::steady_clock::now();
      rates.push_back(steps_of_all() / time_on_all_ranks(session_, [&] { step_task(); }));
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    }
    shares = fractions_of_time(before, simulation_.stage_seconds(), seconds);
    return rates;
  }
  // One more repeat: the shares of the stages of physics. Takes the physics that a task asks for out of its
  // share.
  Shares time_stages_of_physics(Shares& of_environments) {
    simulation_.time_physics_stages();
    if (simulation_.has_task()) {
      const double before = seconds_of("task", simulation_.stage_seconds());
      step_task();
      split_task(of_environments, seconds_of("forward", simulation_.physics_stage_seconds()) /
                                      (seconds_of("task", simulation_.stage_seconds()) - before));
    } else {
      step_physics();
    }
    return fractions(simulation_.physics_stage_seconds());
  }

 private:
  double steps_of_all() const {
    return static_cast<double>(config_.batch.num_envs) * static_cast<double>(config_.bench.steps);
  }
  void step_physics() {
    for (std::int64_t i = 0; i < config_.bench.steps; ++i) {
      simulation_.random_control(control_step_++);
      simulation_.step_physics();
    }
  }
  void step_task() {
    for (std::int64_t i = 0; i < config_.bench.steps; ++i) {
      if (config_.bench.actions == BenchActions::random) simulation_.random_action(control_step_++);
      simulation_.step_task();
    }
  }

  Simulation& simulation_;
  const Config& config_;
  Session& session_;
  std::int64_t control_step_ = 0;
};

std::string bench_json(const BenchTimes& times, const Config& config, int ranks) {
  const int lanes =
      config.simulation.precision == Precision::fp64 ? lane_width<Lanes<double>> : lane_width<Lanes<float>>;
  std::vector<std::string> rows{json_entry("physics_steps_per_second", json(times.physics)),
                                json_entry("env_steps_per_second", json(times.environment)),
                                json_entry("num_envs", std::to_string(config.batch.num_envs)),
                                json_entry("ranks", std::to_string(ranks)),
                                json_entry("backend", json_text(ExecutionSpace::name())),
                                json_entry("lane_width", std::to_string(lanes)),
                                json_entry("precision", json_text(text_of(config.simulation.precision))),
                                json_entry("decimation", std::to_string(config.simulation.decimation)),
                                json_entry("repeats", std::to_string(config.bench.repeats)),
                                json_entry("seconds_per_stage", times.stage_seconds),
                                json_entry("share_per_physics_stage", json(times.physics_shares))};
  if (!times.environment_shares.empty())
    rows.push_back(json_entry("share_per_stage_of_environment_steps", json(times.environment_shares)));
  if (config.bench.iterations > 0) {
    const LearningTimes& learning = times.learning;
    const std::vector<std::string> of_learning{
        json_entry("rate", json(learning.rate)), json_entry("unit", json_text(learning.unit + "/s")),
        json_entry("update_seconds_per_sample_and_epoch", json_number(learning.update_seconds_per_sample)),
        json_entry("seconds_per_stage_of_an_iteration", json(learning.stage_seconds))};
    rows.push_back(json_entry("learning", json_rows(of_learning, '{', '}', 1)));
  }
  return json_rows(rows, '{', '}', 0) + "\n";
}

void tell(const BenchTimes& times, bool learns) {
  const auto text = [](const Spread& rate) {
    return fmt::format("median {:.4g}, min {:.4g}, max {:.4g}", rate.median, rate.min, rate.max);
  };
  const auto tell_shares = [](const char* what, const Shares& shares) {
    std::vector<std::string> parts;
    for (const auto& [stage, share] : shares) parts.push_back(fmt::format("{} {:.1f}%", stage, 100 * share));
    if (!parts.empty()) info(fmt::format("share of {}: {}", what, fmt::join(parts, ", ")));
  };
  info("physics steps/s: " + text(times.physics));
  info("environment steps/s: " + text(times.environment));
  tell_shares("environment steps", times.environment_shares);
  tell_shares("physics", times.physics_shares);
  if (learns)
    info(fmt::format("learning, {}/s: {}; update: {:.4g} us of a rank per sample and epoch",
                     times.learning.unit, text(times.learning.rate),
                     1e6 * times.learning.update_seconds_per_sample));
}

}  // namespace

ExitCode bench(const Config& config, Session& session) {
  if (config.bench.scaling != Scaling::none) return bench_scaling(config, session);
  require_model(config);
  refuse_what_is_not_measured(config);
  const bool learns = config.bench.iterations > 0;
  const std::unique_ptr<Simulation> simulation =
      set_up_simulation(config, session, "bench", learns ? Holds::learner : Holds::environments);

  BenchTimes times;
  StepTimer timer(*simulation, config, session);
  std::vector<double> rates = timer.time_physics();
  times.physics = spread(rates);
  if (simulation->has_task())
    rates = timer.time_environments(times.environment_shares);
  else
    for (double& rate : rates) rate /= config.simulation.decimation;
  times.environment = spread(rates);
  times.stage_seconds = json(simulation->stage_seconds());
  times.physics_shares = timer.time_stages_of_physics(times.environment_shares);
  if (learns) {
    const Config own = for_ranks(config, session.size());
    const std::unique_ptr<Learner> learner = learner_of(own).make(
        {.config = own, .collectives = session.collectives(), .environment = simulation.get()});
    times.learning = time_learning(*learner, own.bench.iterations, own.learning.epochs, session);
  }
  run_on_root(session.collectives(), [&] {
    const std::string path = config.output.directory + "/" + kBenchFile;
    write_text_file(path, bench_json(times, config, session.size()));
    tell(times, learns);
    info("written: " + path);
  });
  report_incidents(*simulation, session);
  return ExitCode::done;
}

}  // namespace maniple
