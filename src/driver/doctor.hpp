// Remarks of `maniple doctor` on the placement of ranks.
#pragma once

#include <string>
#include <vector>

#include "src/parallel/session.hpp"

namespace maniple {

// What the placement of ranks makes slow: cores that several ranks of a host share, more host threads
// than cores. One line each.
std::vector<std::string> placement_warnings(const std::vector<RankPlace>& places);

}  // namespace maniple
