// Availability of learning.mixed_precision.
#pragma once

#include <string>

#include "src/config/config.hpp"

namespace maniple {

// What does not multiply bfloat16, as a message names it; empty: this program does, on this machine.
std::string lacks_bfloat16();
// InputError where a deck asks for what there is not; `lacking`: see lacks_bfloat16().
void check_mixed_precision(const Config& config, const std::string& lacking);

}  // namespace maniple
