// Ensembles: one deck for many runs, each with values of its own of the keys that its section `ensemble`
// varies. A deck without one is an ensemble of a single run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/config/config.hpp"

namespace maniple {

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

}  // namespace maniple
