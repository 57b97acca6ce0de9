// Decks: YAML files with `include`, merged in order, then `key.path=value` overrides from the command
// line. Each value keeps its file and line, so that a refusal can say where. Here trees of values become
// checked configurations; src/config/members.hpp has the trees of an ensemble.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/config/document.hpp"

namespace maniple {

// What finds mistakes in a task by its model: of a configuration that has mistakes elsewhere, so that all are
// reported together. A run of the configuration finds them anyway. Throws InputError.
using FurtherChecks = std::function<void(const Config&)>;

// Reads, merges and checks decks; later decks and overrides win. Throws one InputError for all unknown keys
// (naming the nearest known one), wrong types, values out of range, keys that contradict each other and files
// that are not there; for a text that is no deck at once. `needs_model` false: model.file may be missing
// (`maniple doctor`). Of an ensemble the first member.
Config load_config(const std::vector<std::string>& decks, const std::vector<std::string>& overrides,
                   bool needs_model = true, const FurtherChecks& further = {});

// One configuration from a tree of values. `as_given` has the text of the decks; `member`: of an ensemble, or
// "".
Config configure(const DeckValue& root, const Config& as_given, const std::string& member, bool needs_model,
                 const FurtherChecks& further);

// Every path that may stand in a deck, sections included.
std::vector<std::string> known_paths();
// The key or section nearest to an unknown one, or "".
std::string nearest_key(const std::string& unknown);

}  // namespace maniple
