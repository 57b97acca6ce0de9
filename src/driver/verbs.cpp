#include "src/driver/verbs.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "src/base/log.hpp"
#include "src/config/members.hpp"
#include "src/driver/earlier_run.hpp"
#include "src/driver/ensemble.hpp"
#include "src/driver/new_device.hpp"
#include "src/io/commit.hpp"
#include "src/io/rank_check.hpp"
#include "src/io/results.hpp"
#include "src/io/run_directory.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/launch.hpp"
#include "src/parallel/retry.hpp"
#include "src/tasks/compile/prepared.hpp"

namespace maniple {

const std::vector<Verb>& verbs() {
  // of a run that goes on, and of one whose policy is taken
  const std::vector<const char*> kOfOneStart{"learning.resume", "output.overwrite", "run.status_file"};
  const std::vector<const char*> kGoesOn{"learning.resume=auto", "output.directory=RUN"};
  const std::vector<const char*> kOfItsOwn{"learning.resume", "control", "initial_state", "output", "run"};
  static const std::vector<Verb> table{
      {.name = "train",
       .help = "train a policy on the environments of a task deck",
       .example = "train gymnasium/half_cheetah_v5 batch.seed=2 output.directory=runs/cheetah",
       .sections = "model terrain batch simulation task policy learning evaluation ensemble output run",
       .run = train,
       .not_of_run = kOfOneStart,
       .of_run = kGoesOn,
       .ends_in_order = true,
       .results = kResultsFile,
       .resumes = true,
       .runs_ensembles = true},
      {.name = "imitate",
       .help = "train a policy on demonstrations, HDF5 files as robomimic or Minari write them",
       .example = "imitate bc data.file=demonstrations.hdf5 output.directory=runs/clone",
       .sections = "data image batch policy diffusion learning model terrain simulation task evaluation "
                   "ensemble output run",
       .run = imitate,
       .not_of_run = kOfOneStart,
       .of_run = kGoesOn,
       .needs_model = false,
       .ends_in_order = true,
       .results = kResultsFile,
       .resumes = true,
       .runs_ensembles = true},
      {.name = "rollout",
       .help = "step environments with given, random or learned controls and record trajectories",
       .example =
           "rollout model.file=robot.xml batch.num_envs=64 simulation.steps=100 output.trajectory.every=1",
       .sections = "model terrain batch simulation control initial_state task policy ensemble output run",
       .run = rollout,
       .not_of_run = kOfItsOwn,
       .of_run = {"control.source=policy", "control.checkpoint=RUN", "output.directory=RUN/rollout"},
       .ends_in_order = true,
       .results = kResultsFile,
       .writes_datasets = true,
       .runs_ensembles = true},
      {.name = "evaluate",
       .help = "run episodes with a trained policy and record returns",
       .example = "evaluate runs/cheetah evaluation.episodes=100",
       .sections = "model terrain batch simulation control task policy evaluation ensemble output run",
       .run = evaluate_policy,
       .not_of_run = kOfItsOwn,
       .of_run = {"control.checkpoint=RUN", "output.directory=RUN"},
       .ends_in_order = true,
       .results = kEvaluationFile,
       .writes_datasets = true,
       .runs_ensembles = true},
      {.name = "bench",
       .help = "measure physics and environment steps per second, or (bench scaling) learning on 1, 2, 4, "
               "... ranks; "
               "write bench.json",
       .example = "bench gymnasium/ant_v5 batch.num_envs=1024",
       .sections = "model terrain batch simulation task policy learning bench output run",
       .run = bench,
       .word = "scaling",
       .word_override = "bench.scaling=strong",
       .not_of_run = kOfItsOwn,
       .of_run = {"output.directory=RUN"},
       .needs_model = false,
       .results = kBenchFile},
      {.name = "validate",
       .help = "parse and check deck, model and task; summarize them; allocate nothing",
       .example = "validate model.file=robot.xml",
       .run = validate,
       .not_of_run = kOfItsOwn,
       .of_run = {"output.directory=RUN"},
       .needs_model = false,
       .computes = false,
       .runs_ensembles = true},
      {.name = "doctor",
       .help = "check ranks, devices, pinning, communication and the file system; given the directory of a "
               "run, say "
               "how well it used its ranks",
       .example = "doctor gymnasium/ant_v5 output.directory=runs/preflight",
       .sections = "output run batch model terrain task policy learning",
       .run = doctor,
       .print = show_rank_report,
       .not_of_run = kOfItsOwn,
       .of_run = {"output.directory=RUN"},
       .needs_model = false},
      {.name = "inspect",
       .help = "print the contents of a results, checkpoint or dataset file, or the task of a deck",
       .example = "inspect runs/cheetah",
       .print = inspect,
       .argument = "FILE [key.path=value ...]",
       .argument_help = "an HDF5 file, the directory of a run, or a deck; key.path=value with a deck",
       .least_arguments = 1,
       .most_arguments = 100,
       .flag = "--all",
       .flag_help = "every object of a file of demonstrations, instead of an overview"},
      {.name = "tasks",
       .help = "list the decks that come with the program, by the names under which verbs take them",
       .example = "tasks humanoid",
       .print = tasks,
       .argument = "part of a name",
       .argument_help = "only decks whose names contain it",
       .most_arguments = 1},
      {.name = "schema",
       .help =
           "print every deck key: type, default, unit, meaning; or terms, functions and quantities of tasks",
       .example = "schema learning.gamma",
       .print = schema,
       .argument = "key or section | presets | terms | functions | metrics | quantities [deck.yaml | "
                   "key.path=value ...]",
       .argument_help = "with a deck: the quantities of its model and task",
       .most_arguments = 100,
       .flag = "--markdown",
       .flag_help = "deck keys as a page of Markdown, a table for each section"},
  };
  return table;
}

RunDirectory::Claim claim_of(const Verb& verb, const Config& config) {
  return {.directory = config.output.directory,
          .verb = verb.name,
          .results = verb.results,
          .has_checkpoints = verb.resumes,
          .continues = config.learning.resume == Resume::automatic,
          .overwrite = config.output.overwrite,
          .where = config.where_of("output.directory")};
}

ExitCode run_configured(const Verb& verb, const Config& config, Session& session, const std::string& name) {
  if (config.output.dataset != DatasetLayout::none && verb.results && !verb.writes_datasets)
    throw InputError(config.where_of("output.dataset"), "output.dataset",
                     fmt::format("a data set requested from {}", verb.name),
                     "rollout and evaluate write data sets of episodes");
  if (config.run.wall_time > 0 && !verb.ends_in_order)
    warn(fmt::format("run.wall_time has no effect on {}: train, imitate, rollout and evaluate stop in time",
                     verb.name));
  session.watchdog().set_timeout(config.run.hang_timeout);
  set_retries(config.run.retries);
  std::optional<RunDirectory> directory;
  if (verb.results) directory.emplace(claim_of(verb, config), session.collectives());
  ExitCode code = ExitCode::done;
  try {
    run_together(session.collectives(),
                 [&] { open_log(session.rank(), verb.results ? config.output.directory : "", true, name); });
    if (verb.resumes)
      for (const std::string& note : config.notes) info(note);
    if (const std::string idle = idle_tasks_warning(session.size()); verb.computes && !idle.empty())
      warn(idle);
    if (verb.computes && verb.run != doctor) test_new_device(config, session);
    code = verb.run(config, session);
  } catch (const InputError&) {
    if (directory) directory->withdraw();
    throw;
  }
  close_log();
  return code;
}

ExitCode run_verb(const Verb& verb, const std::vector<std::string>& decks,
                  const std::vector<std::string>& overrides, Session& session) {
  std::vector<Member> members;
  run_together(session.collectives(), [&] {
    std::vector<std::string> files = decks;
    const std::optional<EarlierRun> earlier = take_earlier_run(verb, files);
    members = load_members(files, overrides, verb.needs_model, earlier, check_model_and_task);
  });
  check_ranks(
      session.collectives(),
      [&] {
        // (as given: resolved paths differ where ranks start in directories of their own)
        std::string given;
        for (const Member& member : members) given += member.name + "\n" + member.config.deck_text;
        return std::vector<RankValue>{{"the program", program_checksum()},
                                      {"the verb", checksum_of(verb.name)},
                                      {"the deck", checksum_of(given)}};
      },
      "at the start");
  const bool is_ensemble = !members.front().name.empty();
  if (is_ensemble && !verb.runs_ensembles) {
    std::string allowed;
    for (const Verb& row : verbs())
      if (row.runs_ensembles) allowed += std::string(allowed.empty() ? "" : ", ") + row.name;
    throw InputError(members.front().where, "ensemble", std::string("set, but the verb is ") + verb.name,
                     "allowed: with " + allowed + "; ensemble=~ leaves it out");
  }
  const std::string status_file = members.front().config.run.status_file;
  if (!status_file.empty())
    run_on_root(session.collectives(), [&] {
      std::error_code ignored;
      if (std::filesystem::exists(status_file, ignored) &&
          !std::filesystem::is_regular_file(status_file, ignored))
        throw InputError(members.front().config.where_of("run.status_file"), "run.status_file",
                         "found '" + status_file + "', which is not a file",
                         "allowed: the path of a file, which need not exist");
    });
  const ExitCode code = is_ensemble ? run_ensemble(verb, std::move(members), session)
                                    : run_configured(verb, members.front().config, session);
  if (!status_file.empty())
    run_on_root(session.collectives(),
                [&] { write_text_file(status_file, std::to_string(static_cast<int>(code)) + "\n"); });
  return code;
}

}  // namespace maniple
