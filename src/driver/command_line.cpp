#include "src/driver/command_line.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "src/base/error.hpp"
#include "src/base/version.hpp"
#include "src/config/deck.hpp"
#include "src/driver/inspect.hpp"

namespace maniple {
namespace {

struct Verb {
  const char* name;
  const char* help;
};

constexpr Verb kRunVerbs[] = {
    {"train", "train a policy with PPO on a task deck"},
    {"rollout", "step environments with given, random or learned controls and record trajectories"},
    {"evaluate", "run episodes with a trained policy and record returns"},
    {"bench", "measure physics and environment steps per second, write bench.json"},
    {"validate", "parse and check deck, model and task; say what they hold; allocate nothing"},
    {"doctor", "check ranks, devices, pinning, communication and the file system"},
};

// Everything with '=' is an override, everything else a deck.
void sort_arguments(const std::vector<std::string>& arguments, CommandLine& command) {
  for (const std::string& argument : arguments) {
    const auto equals = argument.find('=');
    (equals == std::string::npos ? command.decks : command.overrides).push_back(argument);
  }
}

}  // namespace

CommandLine parse_command_line(int argc, char** argv) {
  CommandLine command;
  CLI::App app{"Maniple: batched robot simulation and policy training as an MPI program"};
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 error, 2 bad input, 75 stopped early with a good checkpoint.");

  std::vector<std::string> arguments;
  for (const Verb& verb : kRunVerbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.help);
    sub->add_option("deck.yaml | key.path=value", arguments, "decks in order, then overrides");
    sub->callback([&command, &verb] { command.verb = verb.name; });
  }
  CLI::App* inspect = app.add_subcommand("inspect", "print what a results, checkpoint or dataset file holds");
  inspect->add_option("FILE", command.file, "an HDF5 file")->required();
  CLI::App* schema = app.add_subcommand("schema", "print every deck key: type, default, unit, meaning");

  try {
    app.parse(argc, argv);
    sort_arguments(arguments, command);
    if (schema->parsed()) {
      std::cout << schema_text();
      command.finished = true;
    } else if (inspect->parsed()) {
      command.finished = true;
      command.exit_code = inspect_file(command.file, std::cout);
    }
  } catch (const CLI::ParseError& error) {
    command.finished = true;
    command.exit_code = app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::bad_input);
  } catch (const InputError& error) {
    std::fprintf(stderr, "maniple: %s\n", error.what());
    command.finished = true;
    command.exit_code = static_cast<int>(ExitCode::bad_input);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "maniple: %s\n", error.what());
    command.finished = true;
    command.exit_code = static_cast<int>(ExitCode::error);
  }
  return command;
}

}  // namespace maniple
