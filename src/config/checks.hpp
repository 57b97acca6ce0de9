// Checks of keys that are each allowed, but not together. Checks
// that need a model or data are made where those are read.
#pragma once

#include <set>
#include <string>

#include "src/base/mistakes.hpp"
#include "src/config/config.hpp"

namespace maniple {

// Makes the defaults of keys that nobody gave, a preset's included, fit what was given: what they shrink to
// is said in Config::notes.
void fit_defaults(Config& config);

// Keys that contradict each other, the first of each part of the deck. Parts that look at one of the sections
// `without` are left out: something there could not be read.
void check_together(const Config& config, const std::set<std::string>& without, Mistakes& mistakes);

}  // namespace maniple
