// Decks: YAML files with `include`, merged in order, then `key.path=value` overrides from the command
// line. Each value keeps its file and line, so that a refusal can say where.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/config/config.hpp"

namespace maniple {

// Reads, merges and checks decks; later decks and overrides win. Throws InputError for an unknown key
// (naming the nearest known one), a wrong type, a value out of range, keys that contradict each other or
// a file that cannot be read. `needs_model` false: model.file may be missing (`maniple doctor`). Of an
// ensemble the first member.
Config load_config(const std::vector<std::string>& decks, const std::vector<std::string>& overrides,
                   bool needs_model = true);

// One run of an ensemble: the deck with one value of each key that its `ensemble` varies.
struct Member {
  std::string name;  // "batch.seed=1,learning.gamma=0.99", its directory below the deck's; "": no ensemble
  std::vector<std::pair<std::string, std::string>> values;  // key, value as a deck writes it
  SourceLocation where;                                     // of the ensemble
  Config config;
};

// The members of a deck's ensemble, those of the last key's values next to each other; of a deck without one
// the only run. Throws InputError as load_config() does, for every member.
std::vector<Member> load_members(const std::vector<std::string>& decks,
                                 const std::vector<std::string>& overrides, bool needs_model = true);

// What the deck says about its task and the control step, as "key: value", one for each element of a list:
// for messages about two tasks that differ. Empty without a task.
std::vector<std::string> task_lines(Config config);

// Every key, one a line: name, type, default, unit or choices, meaning (`maniple schema`); or only those that
// `asked` names: a key, a section, the last part of keys. "" where there is none.
std::string schema_text(const std::string& asked = "");
// The key or section nearest to an unknown one, or "".
std::string nearest_key(const std::string& unknown);

// The directory of an installed Python package, found in the active environment (VIRTUAL_ENV, or the
// .venv beside the program's build folder or in the working directory) without starting Python; by its
// import name (gymnasium, dm_control, mjlab). Empty when it is not there.
std::string python_package_directory(const std::string& package);

}  // namespace maniple
