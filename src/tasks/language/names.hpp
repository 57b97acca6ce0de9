// Names of elements, terms and functions as decks give them: which known ones they mean, and the wording of
// messages about those that mean none.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "src/base/error.hpp"

namespace maniple {

// "a, b, c"; more than `limit` names are cut off with "...".
std::string list(const std::vector<std::string>& names,
                 std::size_t limit = std::numeric_limits<std::size_t>::max());

// ", did you mean 'qpos'?", or nothing where no known name is close.
std::string did_you_mean(const std::string& unknown, const std::vector<std::string>& known);

// joints -> joint, bodies -> body.
std::string singular(const std::string& kind);

// The indices of the known names that are the name, or match it as a regular expression, in their order;
// none: neither. Throws std::regex_error for what looks like a pattern and is none.
std::vector<std::size_t> indices_of_name(const std::string& name, const std::vector<std::string>& known);
// The same for an entry of a deck. InputError for none.
std::vector<std::size_t> matching_names(const std::string& entry, const std::vector<std::string>& known,
                                        const SourceLocation& where, const std::string& key,
                                        const std::string& what = "");

}  // namespace maniple
