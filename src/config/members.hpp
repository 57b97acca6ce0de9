// Ensembles: one deck for many runs, each with values of its own of the keys that its section `ensemble`
// varies. A deck without one is an ensemble of a single run.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/config/config.hpp"
#include "src/config/deck.hpp"

namespace maniple {

// One run of an ensemble: the deck with one value of each key that its `ensemble` varies.
struct Member {
  std::string name;  // "batch.seed=1,learning.gamma=0.99", its directory below the deck's; "": no ensemble
  std::vector<std::pair<std::string, std::string>> values;  // key, value as a deck writes it
  SourceLocation where;                                     // of the ensemble
  Config config;
};

// A run in place of a deck.
struct EarlierRun {
  std::string results;                   // the file
  std::string deck = {};                 // every key with its value
  std::vector<std::string> without{};    // keys and sections that do not hold any more
  std::vector<std::string> overrides{};  // "key.path=value" that hold instead
};

// The members of a deck's ensemble, those of the last key's values next to each other; of a deck without one
// the only run. What an earlier run had are values that nobody gave: decks and overrides change them, and
// what fits itself to other values still does. Throws InputError as load_config() does, for every member.
std::vector<Member> load_members(const std::vector<std::string>& decks,
                                 const std::vector<std::string>& overrides, bool needs_model = true,
                                 const std::optional<EarlierRun>& earlier = {},
                                 const FurtherChecks& further = {});

}  // namespace maniple
