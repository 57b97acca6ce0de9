// Keys of a deck that are each allowed, but not together. What takes a model or data to find out is refused
// where those are read.
#pragma once

#include "src/config/config.hpp"

namespace maniple {

// Makes the defaults of keys that nobody gave, a preset's included, fit what was given: what they shrink to
// is said in Config::notes.
void fit_defaults(Config& config);

// Throws InputError for the first two keys that contradict each other.
void check_together(const Config& config);

}  // namespace maniple
