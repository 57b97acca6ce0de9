#include "src/driver/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <sstream>
#include <thread>
#include <utility>

#include "src/base/error.hpp"
#include "src/base/version.hpp"
#include "src/config/schema.hpp"
#include "src/driver/earlier_run.hpp"
#include "src/parallel/launch.hpp"

namespace maniple {

bool is_override(const std::string& argument) {
  const auto equals = argument.find('=');
  std::error_code none;
  // (a path may have an equals sign, too: the members of an ensemble are called by their keys. No key has a
  // slash before its first dot, or begins with one)
  return equals != std::string::npos && argument.front() != '.' &&
         argument.find('/') > std::min(equals, argument.find('.')) &&
         !std::filesystem::exists(argument, none);
}

bool speaks() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* rank = std::getenv(variable)) return std::string(rank) == "0";
  return true;
}

namespace {

// Everything with '=' that is no file or directory is an override, everything else but the verb's own word a
// deck.
void sort_arguments(const std::vector<std::string>& arguments, CommandLine& command) {
  for (const std::string& argument : arguments) {
    if (command.verb->word && argument == command.verb->word) {
      command.overrides.insert(command.overrides.begin(), command.verb->word_override);
      continue;
    }
    (is_override(argument) ? command.overrides : command.decks).push_back(argument);
  }
}

// The first argument is to be a verb.
std::string verb_error(const std::string& given) {
  std::vector<std::string> names;
  std::string allowed;
  for (const Verb& verb : verbs()) {
    names.push_back(verb.name);
    allowed += std::string(" ") + verb.name;
  }
  const std::string near = given.empty() ? "" : nearest(given, names);
  return InputError(SourceLocation{}, "", given.empty() ? "found no verb" : "found no verb '" + given + "'",
                    (near.empty() ? "" : "nearest verb: " + near + "; ") + "allowed:" + allowed)
      .what();
}

// The message about arguments that the verb does not take.
std::string arguments_error(const Verb& verb, const std::string& found) {
  return InputError(
             SourceLocation{}, verb.name, found,
             std::string("allowed: ") + (verb.run ? "decks and key.path=value, without dashes"
                                                  : std::string(verb.argument) + ", " + verb.argument_help))
      .what();
}

// The keys of the sections that a verb reads, a paragraph for each section.
std::string keys_of(const Verb& verb) {
  constexpr std::size_t kWidth = 110;
  std::string text =
      "Keys of its deck, key.path=value; 'maniple schema KEY' or SECTION says type, default, unit and "
      "meaning:";
  std::istringstream words(verb.sections);
  const std::vector<std::string> sections{std::istream_iterator<std::string>(words), {}};
  const bool imitates = std::find(sections.begin(), sections.end(), "data") != sections.end();
  for (const std::string& section : sections) {
    std::vector<std::string> names;
    for (const Key& key : schema())
      if (key.path.starts_with(section + ".") && (imitates || !key.is(kOfImitation)))
        names.push_back(key.path.substr(section.size() + 1));
    // (mappings from names of the deck's own)
    for (const auto& [of, name] : {std::pair{"terrain", "sub_terrains"}, std::pair{"task", "definitions"},
                                   std::pair{"learning", "curricula"}})
      if (section == of) names.emplace_back(name);
    if (section == "task")
      for (const SectionKey& of_task : section_schema()) names.push_back(of_task.name);
    std::string line = "\n  " + section + (names.empty() ? "" : ":");
    for (const std::string& name : names) {
      if (line.size() + 1 + name.size() > kWidth) {
        text += line;
        line = "\n    ";
      }
      line += " " + name;
    }
    text += line;
  }
  return text;
}

}  // namespace

CommandLine parse_command_line(int argc, char** argv) {
  CommandLine command;
  CLI::App app{"Maniple: batched robot simulation and policy training as an MPI program"};
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 error, 2 bad input, 75 stopped early with a good checkpoint.");

  std::vector<std::string> arguments;
  std::vector<std::string> printed;
  bool flagged = false;
  for (const Verb& verb : verbs()) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.help);
    if (verb.run)
      sub->add_option("deck.yaml | key.path=value", arguments, "decks in order, then overrides");
    else
      sub->add_option(verb.argument, printed, verb.argument_help)
          ->required(verb.least_arguments > 0)
          ->expected(verb.least_arguments, verb.most_arguments);
    if (verb.flag) sub->add_flag(verb.flag, flagged, verb.flag_help);
    std::string footer = std::string("Example: maniple ") + verb.example;
    if (verb.sections) footer += "\n\n" + keys_of(verb);
    sub->footer(footer);
    sub->callback([&command, &verb] { command.verb = &verb; });
  }

  std::ostream silent(nullptr);
  std::ostream& out = speaks() ? std::cout : silent;
  std::ostream& err = speaks() ? std::cerr : silent;
  const auto refuse = [&](const std::string& message, ExitCode code) {
    err << "maniple: error: " << message << std::endl;
    command.finished = true;
    command.exit_code = static_cast<int>(code);
  };
  try {
    app.parse(argc, argv);
    sort_arguments(arguments, command);
    if (flagged) printed.emplace_back(command.verb->flag);
    if (const std::string error = command.verb->run ? srun_error() : ""; !error.empty())
      throw InputError(error);
    if (command.verb->print && (!command.verb->run || (arguments.size() == 1 && names_a_run(arguments[0])))) {
      command.finished = true;
      command.verb->print(command.verb->run ? arguments : printed, out);
      out << std::flush;
    }
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // help and version
      command.finished = true;
      command.exit_code = app.exit(error, out, err);
    } else {
      const auto given = app.get_subcommands();  // (their callbacks have not run)
      const auto verb = std::find_if(verbs().begin(), verbs().end(), [&](const Verb& row) {
        return !given.empty() && given[0]->get_name() == row.name;
      });
      refuse(
          verb != verbs().end() ? arguments_error(*verb, error.what()) : verb_error(argc > 1 ? argv[1] : ""),
          ExitCode::bad_input);
    }
  } catch (const InputError& error) {
    refuse(error.what(), ExitCode::bad_input);
  } catch (const std::exception& error) {
    refuse(error.what(), ExitCode::error);
  }
  // a launcher ends the job as soon as one rank leaves with an error: not before the message is out
  if (command.exit_code != 0 && !speaks()) std::this_thread::sleep_for(std::chrono::seconds(1));
  return command;
}

}  // namespace maniple
