// maniple bench: physics steps per second with random controls, environment steps per second, with a task at
// random actions, and, where asked, whole iterations of learning; repeats show the spread. One more repeat,
// which does not count, divides the time into the stages of physics, and separates a task's own computations
// from the physics that it requests. Writes bench.json.
#include <fmt/format.h>

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

// Parts of their sum.
std::vector<std::pair<std::string, double>> fractions(std::vector<std::pair<std::string, double>> seconds) {
  double sum = 0;
  for (const auto& [stage, value] : seconds) sum += value;
  for (auto& [stage, value] : seconds) value /= sum;
  return seconds;
}

// Of the time between two states of a clock of stages: the parts of each stage, and the rest.
std::vector<std::pair<std::string, double>> fractions_of_time(
    const std::vector<std::pair<std::string, double>>& before,
    const std::vector<std::pair<std::string, double>>& after, double seconds) {
  std::vector<std::pair<std::string, double>> result;
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
void split_task(std::vector<std::pair<std::string, double>>& fractions, double forward_part) {
  if (!(forward_part > 0)) return;
  const auto task =
      std::find_if(fractions.begin(), fractions.end(), [](const auto& f) { return f.first == "task"; });
  const double forward = std::min(1.0, forward_part) * task->second;
  task->second -= forward;
  fractions.emplace(task, "forward", forward);
}

}  // namespace

ExitCode bench(const Config& config, Session& session) {
  if (config.bench.scaling != Scaling::none) return bench_scaling(config, session);
  require_model(config);
  const bool learns = config.bench.iterations > 0;
  if (learns && config.learning.imitates())
    throw InputError(config.where_of("learning.algorithm"), "learning.algorithm",
                     "found " + config.learning.algorithm,
                     "bench measures learning from environments (ppo), bench.scaling from data as well");
  if (learns && !config.task.present)
    throw InputError(config.where_of("bench.iterations"), "bench.iterations",
                     std::to_string(config.bench.iterations) + " iterations of learning without a task",
                     "a deck with a task (inputs/tasks, inputs/train), or 0");
  const std::unique_ptr<Simulation> simulation =
      set_up_simulation(config, session, "bench", learns ? Holds::learner : Holds::environments);
  const std::int64_t steps = config.bench.steps;
  const double env_steps = static_cast<double>(config.batch.num_envs) * static_cast<double>(steps);
  std::int64_t control_step = 0;

  // physics alone: controls drawn again each control step, as in a random rollout
  run_together(session.collectives(), [&] { simulation->initialize(config.initial_state); });
  const auto physics_repeat = [&] {
    for (std::int64_t i = 0; i < steps; ++i) {
      simulation->random_control(control_step++);
      simulation->step_physics();
    }
  };
  physics_repeat();  // warms caches and spreads the states
  std::vector<double> physics_rates;
  for (int repeat = 0; repeat < config.bench.repeats; ++repeat)
    physics_rates.push_back(env_steps * config.simulation.decimation /
                            time_on_all_ranks(session, physics_repeat));

  // environment steps: control steps, with a task whole ones: actions, terms and resets included
  std::vector<double> env_rates;
  std::vector<std::pair<std::string, double>> env_fractions;
  const auto env_repeat = [&] {
    for (std::int64_t i = 0; i < steps; ++i) {
      if (config.bench.actions == BenchActions::random) simulation->random_action(control_step++);
      simulation->step_task();
    }
  };
  if (!simulation->has_task()) {
    for (const double rate : physics_rates) env_rates.push_back(rate / config.simulation.decimation);
  } else {
    simulation->reset();
    simulation->zero_action();
    env_repeat();
    const auto before = simulation->stage_seconds();
    double seconds = 0;
    for (int repeat = 0; repeat < config.bench.repeats; ++repeat) {
      const auto begun = std::chrono::steady_clock::now();
      env_rates.push_back(env_steps / time_on_all_ranks(session, env_repeat));
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    }
    env_fractions = fractions_of_time(before, simulation->stage_seconds(), seconds);
  }

  const std::string stages = json(simulation->stage_seconds());
  simulation->time_physics_stages();
  if (simulation->has_task()) {
    const double before = seconds_of("task", simulation->stage_seconds());
    env_repeat();
    split_task(env_fractions, seconds_of("forward", simulation->physics_stage_seconds()) /
                                  (seconds_of("task", simulation->stage_seconds()) - before));
  } else {
    physics_repeat();
  }
  const auto physics_stages = fractions(simulation->physics_stage_seconds());
  LearningTimes learning;
  if (learns) {
    const Config own = for_ranks(config, session.size());
    const std::unique_ptr<Learner> learner = learner_of(own).make(
        {.config = own, .collectives = session.collectives(), .environment = simulation.get()});
    learning = time_learning(*learner, own.bench.iterations, own.learning.epochs, session);
  }
  const Spread physics = spread(physics_rates);
  const Spread environment = spread(env_rates);
  run_on_root(session.collectives(), [&] {
    const std::string path = config.output.directory + "/" + kBenchFile;
    std::vector<std::string> rows{
        json_entry("physics_steps_per_second", json(physics)),
        json_entry("env_steps_per_second", json(environment)),
        json_entry("num_envs", std::to_string(config.batch.num_envs)),
        json_entry("ranks", std::to_string(session.size())),
        json_entry("backend", json_text(ExecutionSpace::name())),
        json_entry("lane_width",
                   std::to_string(config.simulation.precision == Precision::fp64 ? lane_width<Lanes<double>>
                                                                                 : lane_width<Lanes<float>>)),
        json_entry("precision", json_text(text_of(config.simulation.precision))),
        json_entry("decimation", std::to_string(config.simulation.decimation)),
        json_entry("repeats", std::to_string(config.bench.repeats)),
        json_entry("seconds_per_stage", stages),
        json_entry("share_per_physics_stage", json(physics_stages))};
    if (!env_fractions.empty())
      rows.push_back(json_entry("share_per_stage_of_environment_steps", json(env_fractions)));
    if (learns) {
      const std::vector<std::string> of_learning{
          json_entry("rate", json(learning.rate)), json_entry("unit", json_text(learning.unit + "/s")),
          json_entry("update_seconds_per_sample_and_epoch", json_number(learning.update_seconds_per_sample)),
          json_entry("seconds_per_stage_of_an_iteration", json(learning.stage_seconds))};
      rows.push_back(json_entry("learning", json_rows(of_learning, '{', '}', 1)));
    }
    write_text_file(path, json_rows(rows, '{', '}', 0) + "\n");
    info(fmt::format("physics steps/s: median {:.4g}, min {:.4g}, max {:.4g}", physics.median, physics.min,
                     physics.max));
    info(fmt::format("environment steps/s: median {:.4g}, min {:.4g}, max {:.4g}", environment.median,
                     environment.min, environment.max));
    std::string parts;
    for (const auto& [stage, fraction] : env_fractions)
      parts += fmt::format("{}{} {:.1f}%", parts.empty() ? "" : ", ", stage, 100 * fraction);
    if (!parts.empty()) info("share of environment steps: " + parts);
    parts.clear();
    for (const auto& [stage, fraction] : physics_stages)
      parts += fmt::format("{}{} {:.1f}%", parts.empty() ? "" : ", ", stage, 100 * fraction);
    if (!parts.empty()) info("share of physics: " + parts);
    if (learns)
      info(fmt::format(
          "learning, {}/s: median {:.4g}, min {:.4g}, max {:.4g}; update: {:.4g} us of a rank per sample and "
          "epoch",
          learning.unit, learning.rate.median, learning.rate.min, learning.rate.max,
          1e6 * learning.update_seconds_per_sample));
    info("written: " + path);
  });
  report_incidents(*simulation, session);
  return ExitCode::done;
}

}  // namespace maniple
