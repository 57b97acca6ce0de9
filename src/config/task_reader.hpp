// The task section of a deck, term by term, and named expressions: each key of
// a term meets its row of the schema of terms, and keys of a term that must fit
// each other are compared. The task compiler interprets the names of terms.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/base/mistakes.hpp"
#include "src/config/config.hpp"
#include "src/config/document.hpp"
#include "src/config/schema.hpp"

namespace maniple {

// The terms of one section of a task, `value` in the deck; those with mistakes are left out.
std::vector<TermConfig> read_terms(const SectionKey& section, const DeckValue& value, Mistakes& mistakes);

// Letters, digits and _, not starting with a digit.
bool is_identifier(const std::string& name);
// Whether an entry of `section`, a mapping of names at `path`, is one that a later deck has taken out, with
// ~. InputError for a ~ that takes out nothing.
bool is_taken_out(const DeckEntry& entry, const DeckValue& section, const std::string& path);

// A mapping from names to expressions, `value` of the key `path`.
std::map<std::string, DeckValue> read_expressions(const DeckValue& value, const std::string& path,
                                                  Mistakes& mistakes);

}  // namespace maniple
