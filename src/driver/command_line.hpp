// maniple <verb> [deck.yaml ...] [key.path=value ...]
#pragma once

#include <string>
#include <vector>

#include "src/driver/verbs.hpp"

namespace maniple {

struct CommandLine {
  const Verb* verb = nullptr;          // a row of verbs(); null where the command line is refused
  std::vector<std::string> decks;      // YAML files, read in order
  std::vector<std::string> overrides;  // key.path=value, applied after the decks
  bool finished = false;  // help, version, a verb that prints, or a usage error: already answered
  int exit_code = 0;
};

// Whether this process speaks for the job: as rank 0 of a launch, or without one. Verbs that are answered
// without MPI would be answered by every rank.
bool speaks();

// key=value, and no file or directory of that name.
bool is_override(const std::string& argument);

// Answers what needs no MPI itself; usage errors print one message and set exit code 2.
CommandLine parse_command_line(int argc, char** argv);

}  // namespace maniple
