// Availability of learning.mixed_precision.
#pragma once

#include <string>

#include "src/config/config.hpp"

namespace maniple {

// The part that lacks bfloat16 products, for messages; empty: none, they are available.
std::string lacks_bfloat16();
// InputError for a deck that asks for it in vain; `lacking`: see lacks_bfloat16().
void check_mixed_precision(const Config& config, const std::string& lacking);

}  // namespace maniple
