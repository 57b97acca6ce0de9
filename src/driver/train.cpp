// maniple train: a learner on the environments of a task deck, with metrics, checkpoints, restart and a clean
// early stop.
#include <fmt/format.h>

#include <algorithm>

#include "src/base/log.hpp"
#include "src/driver/refusals.hpp"
#include "src/driver/setup.hpp"
#include "src/driver/training_loop.hpp"
#include "src/driver/verbs.hpp"
#include "src/learning/effective_batch.hpp"
#include "src/learning/learners.hpp"

namespace maniple {
namespace {

// Says once that the noise of the actions has become so large that nothing can come of it: what the ranges of
// the actuators cut off costs a policy nothing, and nothing else keeps its deviations small.
class DeviationWatch {
 public:
  explicit DeviationWatch(const Config& config) : policy_(config.policy), learning_(config.learning) {}

  void see(const IterationReport& report, std::int64_t iteration) {
    constexpr double kMostGrowth = 1000;
    for (const IterationReport::Value& value : report.values) {
      if (said_ || value.name != "action_std" || value.value <= kMostGrowth * std::max(1.0, policy_.init_std))
        continue;
      said_ = true;
      warn(
          fmt::format("iteration {}: the standard deviation of the actions has grown to {:.3g}, from {:.3g} "
                      "(policy.init_std): the actions are almost only noise; {} keeps it small",
                      iteration, value.value, policy_.init_std, advice()));
    }
  }

 private:
  // Keys that could help and are not set yet.
  std::string advice() const {
    std::vector<std::string> keys{policy_.max_std > 0
                                      ? fmt::format("a smaller policy.max_std (it is {:g})", policy_.max_std)
                                      : "policy.max_std"};
    if (learning_.curricula.contains("entropy_coef"))
      keys.push_back("a smaller learning.curricula.entropy_coef");
    else if (learning_.entropy_coef > 0)
      keys.push_back(fmt::format("a smaller learning.entropy_coef (it is {:g})", learning_.entropy_coef));
    if (!policy_.state_dependent_std) keys.push_back("policy.fixed_std: true");
    return fmt::format("{}", fmt::join(keys, " or "));
  }

  const PolicyConfig& policy_;
  const LearningConfig& learning_;
  bool said_ = false;
};

}  // namespace

ExitCode train(const Config& given, Session& session) {
  const Config config = for_ranks(given, session.size());
  if (!config.task.present)
    throw InputError(config.where_deck, "task", "no task in the deck",
                     "train needs a deck with a task (inputs/tasks)");
  if (config.task.rewards.empty())
    throw InputError(config.where_of("task.rewards"), "task.rewards", "found no rewards",
                     "allowed: at least one, since train maximizes them");
  if (config.learning.imitates())
    throw InputError(
        config.where_of("learning.algorithm"), "learning.algorithm",
        "found " + config.learning.algorithm + " with learning.preset: " + config.learning.preset,
        "train learns from environments: ppo; imitate learns from data");
  refuse_trajectories(config, "train");
  check_training(config);
  const std::unique_ptr<Simulation> simulation = set_up_simulation(config, session, "train", Holds::learner);
  if (const std::string text = effective_batch_text(given, session.size()); !text.empty()) info(text);
  const std::unique_ptr<Learner> learner = learner_of(config).make(
      {.config = config, .collectives = session.collectives(), .environment = simulation.get()});
  const PeriodicEvaluation periodic_evaluation(config, *simulation, session);
  DeviationWatch deviations(config);
  return run_training(*learner, {.config = config,
                                 .collectives = session.collectives(),
                                 .record = run_record(config, session, *simulation, "train"),
                                 .identity = checkpoint_identity(config, *simulation),
                                 .iterations = config.learning.iterations,
                                 .length = fmt::format("learning.iterations={}", config.learning.iterations),
                                 .started = session.started(),
                                 .after_iteration =
                                     [&](const IterationReport& report, std::int64_t iteration) {
                                       if (report.invalid_samples > 0)
                                         report_invalid_samples(*simulation, session, iteration,
                                                                report.invalid_samples,
                                                                config.learning.horizon);
                                       deviations.see(report, iteration);
                                       if (iteration == 1) report_idle_draws(*simulation, session);
                                       // (soon, since an observation that is never a number may cost hours)
                                       if (iteration == 1 && config.learning.iterations > 1)
                                         report_bad_values(*simulation, session);
                                     },
                                 .at_end = [&] { report_incidents(*simulation, session); },
                                 .evaluate = [&] { return periodic_evaluation.evaluate(*learner->policy()); },
                                 .evaluate_every = config.evaluation.every,
                                 .has_success = simulation->success().elements > 0,
                                 .place = session.place()});
}

}  // namespace maniple
