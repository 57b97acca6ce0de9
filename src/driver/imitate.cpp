// maniple imitate: a policy learns from demonstrations, with metrics, checkpoints, restart and a clean early
// stop as train has them. With a task in the deck the policy is evaluated in its environments, too.
#include <fmt/format.h>

#include <numeric>

#include "kernels/base/pack.hpp"
#include "src/base/counted.hpp"
#include "src/base/log.hpp"
#include "src/base/version.hpp"
#include "src/config/dump.hpp"
#include "src/driver/read_demonstrations.hpp"
#include "src/driver/refusals.hpp"
#include "src/driver/setup.hpp"
#include "src/driver/training_loop.hpp"
#include "src/driver/verbs.hpp"
#include "src/io/demonstration_layout.hpp"
#include "src/learning/effective_batch.hpp"
#include "src/learning/imitation_learner.hpp"
#include "src/learning/learners.hpp"
#include "src/learning/sample_blocks.hpp"
#include "src/learning/samples.hpp"
#include "src/tasks/compile/task.hpp"

namespace maniple {
namespace {

void check_keys(const Config& config) {
  require_demonstrations(config);
  if (!config.learning.imitates())
    throw InputError(
        config.where_of("learning.algorithm"), "learning.algorithm", "found " + config.learning.algorithm,
        "imitate learns from data: bc (with learning.preset: robomimic, the default of a deck with "
        "data.file) or diffusion (with learning.preset: diffusion_policy)");
  refuse_trajectories(config, "imitate");
  // (the last report comes at the end in any case)
  const std::int64_t steps = config.learning.steps;
  for (const auto& [key, every] : {std::pair{"learning.checkpoint_every", config.learning.checkpoint_every},
                                   std::pair{"evaluation.every", config.evaluation.every}})
    if (config.where.contains(key) && every > steps)
      throw InputError(config.where_of(key), key,
                       fmt::format("found {} with learning.steps {}", every, steps),
                       fmt::format("allowed: at most {}, updates of the whole run", steps));
  if (config.evaluation.every > 0 && !config.task.present)
    throw InputError(config.where_of("evaluation.every"), "evaluation.every",
                     "evaluations without a task in the deck", "a task (inputs/tasks), or 0");
  if (config.task.present) require_model(config);
  check_training(config);
}

// The simulator renders no images, so that no policy that needs them can act in it.
void check_images(const Config& config, const DemonstrationContents& contents) {
  if (contents.cameras.empty() || !config.task.present) return;
  const bool evaluates = config.evaluation.every > 0;
  throw InputError(evaluates ? config.where_of("evaluation.every") : config.task.where,
                   evaluates ? "evaluation.every" : "task",
                   fmt::format("found images ({}) among data.observations", contents.cameras.front().name),
                   "allowed: a deck without a task, because environments render no images");
}

std::string contents_text(const DemonstrationContents& contents) {
  std::string keys;
  for (const auto& key : contents.observations)
    keys += fmt::format("{}{} {}", keys.empty() ? "" : ", ", key.name, key.width);
  for (const auto& camera : contents.cameras)
    keys += fmt::format("{}{} {}x{}x{}", keys.empty() ? "" : ", ", camera.name, camera.height, camera.width,
                        camera.channels);
  return fmt::format("observations {}; actions {}", keys, contents.action_width);
}

// Observations of the files that nobody asked for and that the policy does not see; "": none.
std::string left_out_text(const DemonstrationContents& contents) {
  constexpr std::ptrdiff_t most = 20;
  if (contents.left_out.empty()) return "";
  std::vector<std::string> taken;
  for (const auto& key : contents.observations) taken.push_back(key.name);
  const auto begin = contents.left_out.begin(), end = contents.left_out.end();
  return fmt::format("data.observations is empty; used: {}; left out: {}{}", fmt::join(taken, ", "),
                     fmt::join(begin, begin + std::min(most, end - begin), ", "),
                     end - begin > most ? fmt::format(" and {} more", end - begin - most) : "");
}

// The deck with the observations that were found where it named none: in which order a policy sees them no
// other file says.
Config with_observations(Config config, const DemonstrationContents& contents) {
  if (!config.data.observations.empty()) return config;
  for (const auto& key : contents.observations) config.data.observations.push_back(key.name);
  config.resolved_text = resolved_deck(config);
  return config;
}

// Names with the numbers that they have, in order.
std::string blocks_text(const std::vector<std::string>& names, const std::vector<int>& widths) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", names[i], widths[i]);
  return text;
}

// A policy sees numbers, not names: what the task and the demonstrations call alike has to be at the same
// place. Returns a line where place alone says what belongs together; "": nowhere.
std::string match_observations(const Config& config, const DemonstrationContents& contents,
                               const std::vector<int>& task_widths) {
  const std::vector<std::string> task_names = observation_keys(config.task);
  std::vector<std::string> names;
  std::vector<int> widths;
  for (const auto& key : contents.observations) {
    names.push_back(key.name);
    widths.push_back(key.width * config.data.frame_stack);
  }
  const std::string ours = blocks_text(task_names, task_widths), theirs = blocks_text(names, widths);
  std::vector<int> places(names.size()), task_places(task_names.size());
  std::exclusive_scan(widths.begin(), widths.end(), places.begin(), 0);
  std::exclusive_scan(task_widths.begin(), task_widths.end(), task_places.begin(), 0);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = std::find(task_names.begin(), task_names.end(), names[i]);
    if (found == task_names.end()) continue;
    const auto k = static_cast<std::size_t>(found - task_names.begin());
    if (places[i] != task_places[k] || widths[i] != task_widths[k])
      throw InputError(config.where_of("data.observations"), "data.observations",
                       fmt::format("found {}, while the task observes {}", theirs, ours),
                       fmt::format("the task's order and sizes: there '{}' has other places", names[i]));
  }
  if (names == task_names) return "";
  return fmt::format("observations of the demonstrations ({}) are those of the task ({}) by their order",
                     theirs, ours);
}

// Refuses demonstrations of other sizes than the task's. Returns what match_observations() does.
std::string check_task(const Config& config, const DemonstrationContents& contents,
                       const std::vector<int>& widths, int observations, int actions) {
  const int inputs = contents.observation_width * config.data.frame_stack;
  if (config.data.frame_stack > 1 && observations != inputs)
    throw InputError(
        config.where_of("data.frame_stack"), "data.frame_stack",
        fmt::format("found {} with a task of {}", config.data.frame_stack,
                    counted(observations, "observation")),
        fmt::format("the demonstrations have {}; allowed: 1, with a task whose observations keep "
                    "their last values (history: {} at each) and data recorded from it",
                    contents.observation_width, config.data.frame_stack));
  if (observations != inputs || actions != contents.action_width)
    throw InputError(config.task.where, "task",
                     counted(observations, "observation") + " and " + counted(actions, "action"),
                     fmt::format("the demonstrations have {} (data.frame_stack {}) and {}", inputs,
                                 config.data.frame_stack, contents.action_width));
  return match_observations(config, contents, widths);
}

}  // namespace

std::string validate_demonstrations(const Config& as_given, const Prepared* prepared, Session& session) {
  check_keys(as_given);
  DemonstrationContents contents = look_together(as_given, session);
  const Config given = fit_batch(as_given, contents, session.size());
  const Config config = for_ranks(given, session.size());
  check_images(config, contents);
  std::string text = "data\n";
  if (prepared != nullptr) {
    const CompiledTask& task = prepared->task;
    const std::string by_order =
        check_task(config, contents, task.observation_widths, task.num_observations, task.num_actions);
    if (!by_order.empty()) text += "  " + by_order + "\n";
  }
  for (std::size_t file = 0; file < config.data.file.size(); ++file)
    text += fmt::format("  {}: {}\n", config.data.file[file], contents.layouts[file]);
  RankMemory beside;
  if (prepared != nullptr) beside = rank_memory(config, *prepared, session, Holds::periodic_evaluation);
  DemonstrationPlan plan = plan_demonstrations(config, std::move(contents), session, beside);
  text += fmt::format("  {}\n  {}\n", contents_text(plan.contents), plan.memory);
  if (const std::string left = left_out_text(plan.contents); !left.empty()) text += "  " + left + "\n";
  const Windows windows(config, plan.contents, window_shape(config));
  text += fmt::format("  {}", epoch_text(config, plan.contents, windows, make_sampler(config, windows)));
  if (const WindowShape shape = window_shape(config); shape.sequence > 1)
    text += fmt::format("; a sample has {} frames", shape.frames());
  if (const std::string batch = effective_batch_text(given, session.size()); !batch.empty())
    text += "\n  " + batch;
  for (std::size_t n = as_given.notes.size(); n < given.notes.size(); ++n) text += "\n  " + given.notes[n];
  read_demonstrations(config, std::move(plan), session);  // (the numbers, too)
  return text + "\n";
}

ExitCode imitate(const Config& as_given, Session& session) {
  check_keys(as_given);
  DemonstrationContents contents = look_together(as_given, session);
  const Config given = fit_batch(with_observations(as_given, contents), contents, session.size());
  for (std::size_t i = as_given.notes.size(); i < given.notes.size(); ++i) info(given.notes[i]);
  Config config = for_ranks(given, session.size());
  config.learning.iterations = ImitationLearner::iterations(given.learning);
  check_images(config, contents);
  std::unique_ptr<Simulation> simulation;
  if (config.task.present) {
    simulation = set_up_simulation(config, session, "imitate", Holds::periodic_evaluation);
    const std::string by_order = check_task(config, contents, simulation->observation_widths(),
                                            simulation->num_observations(), simulation->num_actions());
    if (!by_order.empty()) info(by_order);
  } else {
    info(fmt::format("maniple {} imitate", kVersion));
    info(fmt::format("{}, {} back end, {}", counted(session.size(), "rank"), ExecutionSpace::name(),
                     build_description()));
  }
  RankMemory beside;
  if (simulation) beside = rank_memory(config, simulation->prepared(), session, Holds::periodic_evaluation);
  DemonstrationPlan plan = plan_demonstrations(config, std::move(contents), session, beside);
  info(plan.memory);
  info(contents_text(plan.contents));
  if (const std::string left = left_out_text(plan.contents); !left.empty()) warn(left);
  if (const std::string text = effective_batch_text(given, session.size()); !text.empty()) info(text);
  const std::unique_ptr<Demonstrations> demonstrations =
      read_demonstrations(config, std::move(plan), session);
  const std::unique_ptr<Learner> learner = learner_of(config).make(
      {.config = config, .collectives = session.collectives(), .demonstrations = demonstrations.get()});
  const Partition samples(config.learning.batch_size, 0, 1, block_of_samples(config.learning));
  if (const std::string idle = idle_ranks_text(samples, session.size(), "samples"); !idle.empty()) warn(idle);

  PolicySizes sizes;
  sizes.observations = demonstrations->contents().observation_width * config.data.frame_stack;
  sizes.actions = demonstrations->contents().action_width;
  CheckpointIdentity identity;
  if (simulation) {
    identity = checkpoint_identity(config, *simulation);
  } else {
    identity.policy = policy_lines(config, sizes, cameras_of(config, demonstrations->contents()));
    identity.settings = settings_lines(config);
    identity.unset = unset_beginnings(config);
  }
  identity.kind = "imitate";
  identity.num_envs = 0;
  identity.seed = config.batch.seed;
  identity.precision = text_of(Precision::fp32);
  std::optional<PeriodicEvaluation> periodic_evaluation;
  if (simulation) periodic_evaluation.emplace(config, *simulation, session);
  return run_training(*learner,
                      {.config = config,
                       .collectives = session.collectives(),
                       .record = simulation ? run_record(config, session, *simulation, "imitate")
                                            : run_record(config, session, "imitate"),
                       .identity = identity,
                       .iterations = config.learning.iterations,
                       .length = fmt::format("learning.steps={}", config.learning.steps),
                       .started = session.started(),
                       .evaluate = [&] { return periodic_evaluation->evaluate(*learner->policy()); },
                       .evaluate_every = config.evaluation.every,
                       .updates_per_iteration = config.learning.report_every,
                       .updates = config.learning.steps,
                       .has_success = simulation && simulation->success().elements > 0,
                       .place = session.place()});
}

}  // namespace maniple
