// The task section of a deck, term by term: each key of a term meets its row of the schema of terms, and keys
// of a term that must fit each other are compared. What the names of terms mean is the task compiler's
// matter.
#pragma once

#include <vector>

#include "src/config/config.hpp"
#include "src/config/document.hpp"
#include "src/config/schema.hpp"

namespace maniple {

// The terms of one section of a task, `value` in the deck.
std::vector<TermConfig> read_terms(const SectionKey& section, const DeckValue& value);

void read_definitions(TaskConfig& task, const DeckValue& value);

}  // namespace maniple
