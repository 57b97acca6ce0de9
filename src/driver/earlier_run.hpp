// An earlier run in place of a deck, named by its
// directory: the deck is taken from its results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/config/members.hpp"
#include "src/driver/verbs.hpp"

namespace maniple {

// A directory, or results.
bool names_a_run(const std::string& argument);

// The file of its results, where the directory of a run is given, or of an evaluation alone.
std::string results_of(const std::string& run);

// The text dataset `name` in the results of a run, which is named by its directory or by the file of its
// results; "" where there is no such dataset. InputError where the results are missing or cannot be read.
std::string text_of_run(const std::string& run, const std::string& name);

// Takes the run out of the arguments, if there is one among the decks. InputError where its results hold no
// deck, and where there are two.
std::optional<EarlierRun> take_earlier_run(const Verb& verb, std::vector<std::string>& decks);

}  // namespace maniple
