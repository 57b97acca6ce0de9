// The verbs of the program, in one table: a row holds all that
// the command line, main and the run directory need about a verb.
//
// To add a verb, write src/driver/<verb>.cpp with one function, declare it below, and give it a row in
// verbs.cpp. A function of a deck reads its configuration, builds what it needs (setup.hpp) and returns an
// exit code; errors leave as exceptions and meet the one handler in main.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "src/base/error.hpp"
#include "src/config/config.hpp"
#include "src/io/run_directory.hpp"
#include "src/parallel/session.hpp"

namespace maniple {

struct CompiledTask;
struct Prepared;

inline constexpr const char* kBenchFile = "bench.json";  // of bench

struct Verb {
  const char* name;
  const char* help;
  const char* example;             // a command line, behind "maniple "
  const char* sections = nullptr;  // of the deck that it reads
  // A verb of a deck, on all ranks; or null, and then:
  ExitCode (*run)(const Config& config, Session& session) = nullptr;
  // without MPI, by rank 0 alone: what it prints, given its arguments. Of a verb with both: given a
  // directory.
  void (*print)(const std::vector<std::string>& arguments, std::ostream& out) = nullptr;
  const char* argument = nullptr;  // of print
  const char* argument_help = nullptr;
  int least_arguments = 0, most_arguments = 0;
  const char* flag = nullptr;  // that print gets as its last argument; or null
  const char* flag_help = nullptr;
  // A word of run that stands for key.path=value; or null.
  const char* word = nullptr;
  const char* word_override = nullptr;

  // Given the directory of a run (RUN): what of its deck does not hold, keys or sections, and what holds
  // instead.
  std::vector<const char*> not_of_run = {}, of_run = {};

  bool needs_model = true;     // a deck without model.file is refused
  bool computes = true;        // on devices, where the build is for them; otherwise it runs without any, too
  bool ends_in_order = false;  // when a signal asks: those count from before MPI starts (stop.hpp)
  // The file that it writes in output.directory, which it holds for itself, and where it replaces no results
  // without permission; null: it leaves no file there.
  const char* results = nullptr;
  bool resumes = false;          // writes checkpoints there, too, and learning.resume continues from them
  bool writes_datasets = false;  // output.dataset
  bool runs_ensembles = false;   // a deck's ensemble, each member as a run of its own
};

const std::vector<Verb>& verbs();

// The demands of a verb with results on output.directory.
RunDirectory::Claim claim_of(const Verb& verb, const Config& config);
// Runs a verb of a deck, in its directory where it has one. `name`: of a member of an ensemble.
ExitCode run_configured(const Verb& verb, const Config& config, Session& session,
                        const std::string& name = "");
// Loads the decks, with overrides `key.path=value`, and runs the verb, or an ensemble of it.
ExitCode run_verb(const Verb& verb, const std::vector<std::string>& decks,
                  const std::vector<std::string>& overrides, Session& session);

ExitCode train(const Config& config, Session& session);
ExitCode imitate(const Config& config, Session& session);
ExitCode rollout(const Config& config, Session& session);
ExitCode evaluate_policy(const Config& config, Session& session);
ExitCode bench(const Config& config, Session& session);
ExitCode validate(const Config& config, Session& session);
// What imitate would check of a deck's demonstrations before it learns, every number included, and their
// sizes for people. `prepared`: the deck's model and task; null: it has no task.
std::string validate_demonstrations(const Config& config, const Prepared* prepared, Session& session);
// Ranks, hosts, devices, cores and threads; latency and bandwidth between ranks; write, commit, lock and read
// test in output.directory; versions. Rank 0 prints; ExitCode::error after naming what is broken.
ExitCode doctor(const Config& config, Session& session);
// Of a finished run's directory or results: how its ranks were used (rank_report.hpp). InputError when the
// file is missing, cannot be read, or has no such report.
void show_rank_report(const std::vector<std::string>& arguments, std::ostream& out);
// Attributes, groups, datasets with type, shape, unit and description, the run record of a results file, and
// last a line "digest <sha256>". Of a run's directory, its results. Of a deck, its task_table(). InputError
// when the file is missing or cannot be read.
void inspect(const std::vector<std::string>& arguments, std::ostream& out);
// Decks that come with the program, by name; those whose names have the argument in them.
void tasks(const std::vector<std::string>& arguments, std::ostream& out);
// Deck keys, or the terms, functions or quantities of tasks; of a deck's model where one is given.
void schema(const std::vector<std::string>& arguments, std::ostream& out);

}  // namespace maniple
