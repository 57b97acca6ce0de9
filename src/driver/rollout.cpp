// maniple rollout: steps the batch with controls that are zero, a keyframe's, random, recorded or learned and
// records trajectories of any field. Without a task this is MuJoCo's rollout; with one, the task's episodes,
// and what is zero, random or recorded are its actions.
#include <fmt/format.h>

#include <chrono>

#include "src/base/activity.hpp"
#include "src/base/log.hpp"
#include "src/driver/episode_recorder.hpp"
#include "src/driver/progress.hpp"
#include "src/driver/setup.hpp"
#include "src/driver/stop.hpp"
#include "src/driver/verbs.hpp"
#include "src/io/dataset.hpp"
#include "src/parallel/failure.hpp"

namespace maniple {
namespace {

using Clock = std::chrono::steady_clock;

// Asking all ranks about a stop costs a collective call.
constexpr std::int64_t kStepsBetweenStopChecks = 16;

// Where the controls of each control step come from.
class ControlSource {
 public:
  ControlSource(const Config& config, Simulation& simulation, Session& session)
      : config_(config), simulation_(simulation) {
    if (config.control.source == ControlInput::file) {
      const bool acts = simulation.has_task();
      controls_ = (acts ? read_action_rows : read_control_rows)(
          config.control.file, config.control.where,
          acts ? simulation.num_actions() : simulation.model().sizes.nu, config.simulation.steps,
          simulation.partition());
    } else if (config.control.source == ControlInput::keyframe) {
      const ImportedModel& model = simulation.model();
      const auto nu = static_cast<std::ptrdiff_t>(model.sizes.nu);
      const auto key = static_cast<std::ptrdiff_t>(keyframe_of(
          model, config.initial_state.keyframe, config.initial_state.where, "initial_state.keyframe"));
      held_.assign(model.key_ctrl.begin() + key * nu, model.key_ctrl.begin() + (key + 1) * nu);
    } else if (config.control.source == ControlInput::policy) {
      if (!simulation.has_task())
        throw InputError(config.control.where, "control.source", "policy without a task",
                         "a deck with a task: a policy reads its observations");
      policy_ = load_policy(config, simulation, session).policy;
      runner_ = policy_->act_in(simulation);
    }
  }

  // One control step.
  void step(std::int64_t control_step) {
    const ControlInput source = config_.control.source;
    if (simulation_.has_task()) {
      if (source == ControlInput::policy) {
        runner_->step(config_.evaluation.deterministic, config_.batch.seed, control_step);
        return;
      }
      if (source == ControlInput::random) simulation_.random_action(control_step);
      if (source == ControlInput::zero) simulation_.zero_action();
      if (source == ControlInput::file) simulation_.set_action(controls_.rows(control_step));
      simulation_.step_task();
      return;
    }
    if (source == ControlInput::random) simulation_.random_control(control_step);
    if (source == ControlInput::zero) simulation_.zero_control();
    if (source == ControlInput::keyframe) simulation_.set_control(held_);
    if (source == ControlInput::file) simulation_.set_control(controls_.rows(control_step));
    simulation_.step_physics();
  }

 private:
  const Config& config_;
  Simulation& simulation_;
  ControlRows controls_;
  std::vector<double> held_;  // controls of a keyframe
  std::unique_ptr<ActingPolicy> policy_;
  std::unique_ptr<PolicyRunner> runner_;
};

}  // namespace

ExitCode rollout(const Config& config, Session& session) {
  const ControlConfig& given = config.control;
  if (!given.checkpoint.empty() &&
      given.source != ControlInput::policy)  // (evaluate reads it without asking)
    throw InputError(config.where_of("control.checkpoint"), "control.checkpoint",
                     "found a policy that is not used with control.source: " + text_of(given.source),
                     "allowed: with control.source: policy; control.checkpoint=~ leaves it out");
  const std::unique_ptr<Simulation> simulation =
      set_up_simulation(config, session, "rollout",
                        config.control.source == ControlInput::policy ? Holds::policy : Holds::environments);
  ControlSource control(config, *simulation, session);
  std::optional<EpisodeRecorder> episodes;
  if (config.output.dataset != DatasetLayout::none)
    run_together(session.collectives(), [&] { episodes.emplace(config, *simulation); });
  // (each rank looks at rows of its own in initial_state.file)
  run_together(session.collectives(), [&] { simulation->initialize(config.initial_state); });
  report_idle_draws(*simulation, session);
  if (config.initial_state.source == StartState::of_model &&
      (!config.task.resets.empty() || simulation->prepared().task.motion))
    info(
        "the first episodes begin in the default pose; initial_state.source=task begins them with the "
        "task's resets");
  if (episodes) episodes->watch();

  const std::int64_t every = config.output.trajectory_every;
  if (every == 0 && !episodes)
    info(
        "no trajectory is recorded: output.trajectory.every=1 records output.trajectory.fields of each "
        "control step");
  std::vector<TrajectoryField> fields;
  if (every > 0)
    for (const std::string& name : config.output.trajectory_fields)
      fields.push_back(simulation->trajectory_field(name));

  if (config.output.overwrite) begin_log_anew();
  ResultsWriter results(config.output.directory, run_record(config, session, *simulation, "rollout"),
                        session.collectives());
  std::vector<std::int64_t> sampled;
  std::vector<std::byte> rows;
  const auto sample = [&](std::int64_t step) {
    for (const TrajectoryField& field : fields) {
      simulation->read_field(field.name, rows);
      results.write_sample(field.name, static_cast<std::int64_t>(sampled.size()), rows.data());
    }
    sampled.push_back(step);
  };
  if (every > 0) {
    results.create_trajectory(fields, config.simulation.steps / every + 1,
                              config.simulation.precision == Precision::fp64, simulation->partition());
    simulation->forward();
    sample(0);
    // so that what output takes is known before the time may be up
    if (config.run.wall_time > 0) results.rehearse();
  }

  StopRequest stop(config, session.started());
  Progress progress(config.simulation.steps, config.run.progress, session.rank() == 0);
  const auto loop_started = Clock::now();
  std::int64_t step = 0;
  StopRequest::Decision decision;
  while (step < config.simulation.steps && !decision.stop) {
    if (step == config.simulation.inject_nan_step && config.simulation.inject_nan_env >= 0)
      simulation->inject_nan(config.simulation.inject_nan_env);
    control.step(step);
    ++step;
    note_done("control step", step);
    if (episodes) episodes->watch();
    if (every > 0 && step % every == 0) sample(step);
    const double seconds = std::chrono::duration<double>(Clock::now() - loop_started).count();
    progress.update(step, fmt::format("{}steps/s  {}",
                                      human_rate(static_cast<double>(step) *
                                                 static_cast<double>(config.batch.num_envs) / seconds),
                                      resident_memory()));
    if (step < config.simulation.steps && step % kStepsBetweenStopChecks == 0) {
      stop.expect_output(results.commit_seconds());
      decision = stop.agree(session.collectives());
    }
  }
  progress.finish();
  report_incidents(*simulation, session);
  if (every > 0) results.write_steps(sampled);
  info("results: " + results.commit());
  if (episodes) episodes->write(session);
  if (step < config.simulation.steps) {
    warn(fmt::format("stopped early after {} of {} control steps ({})", step, config.simulation.steps,
                     decision.reason));
    return ExitCode::error;
  }
  return ExitCode::done;
}

}  // namespace maniple
