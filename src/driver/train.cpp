// maniple train: a learner on the environments of a task deck, with metrics, checkpoints, restart and a clean
// early stop.
#include <algorithm>

#include "src/driver/setup.hpp"
#include "src/driver/training_loop.hpp"
#include "src/driver/verbs.hpp"
#include "src/learning/evaluation.hpp"
#include "src/learning/learners.hpp"

namespace maniple {

ExitCode train(const Config& config, Session& session) {
  if (!config.task.present)
    throw InputError(config.where_deck, "task", "no task in the deck",
                     "train needs a deck with a task (inputs/tasks)");
  if (config.output.trajectory_every > 0)
    throw InputError(
        config.where_of("output.trajectory.every"), "output.trajectory.every", "trajectories asked of train",
        "rollout records trajectories (control.source=policy control.checkpoint=<run directory>)");
  if (config.evaluation.every > 0 && config.task.episode_length == 0 && config.task.episode_steps == 0)
    throw InputError(config.where_of("evaluation.every"), "evaluation.every",
                     "evaluations of a task without an end",
                     "a task.episode_length or task.episode_steps, or 0");
  const std::unique_ptr<Simulation> simulation = set_up_simulation(config, session, "train", Holds::learner);
  const std::unique_ptr<Learner> learner =
      learner_of(config).make({config, session.collectives(), simulation.get()});
  Config evaluated = config;
  evaluated.batch.num_envs = std::min<std::int64_t>(
      config.batch.num_envs, config.evaluation.episodes > 0 ? config.evaluation.episodes : 100);
  return run_training(
      *learner,
      {.config = config,
       .collectives = session.collectives(),
       .record = run_record(config, session, *simulation, "train"),
       .identity = checkpoint_identity(config, *simulation),
       .iterations = config.learning.iterations,
       .started = session.started(),
       .after_iteration =
           [&](const IterationReport& report, std::int64_t iteration) {
             if (report.invalid_samples > 0)
               report_invalid_samples(*simulation, session, iteration, report.invalid_samples,
                                      (iteration - 1) * config.learning.horizon);
           },
       .at_end = [&] { report_incidents(*simulation, session); },
       .evaluate =
           [&] {
             // environments of its own, each time the same episodes
             const auto environment =
                 make_simulation(evaluated, simulation->model(), session.rank(), session.size());
             environment->set_curricula(simulation->curricula());
             return summary_of(evaluate(*environment, *learner->policy(), evaluated, session.collectives())
                                   .episode_return)
                 .mean;
           },
       .evaluate_every = config.evaluation.every});
}

}  // namespace maniple
