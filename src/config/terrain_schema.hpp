// Reading and writing of a deck's sub-terrains; the table
// of their keys is sub_terrain_schema() of schema.hpp.
#pragma once

#include <string>
#include <vector>

#include "src/base/mistakes.hpp"
#include "src/config/config.hpp"
#include "src/config/document.hpp"

namespace maniple {

// The sub-terrains of `terrain.sub_terrains`, in the order of the deck. Gathers an InputError for each with
// an unknown type or key, a value out of range, or without a key that its type must have.
std::vector<SubTerrainConfig> read_sub_terrains(const DeckValue& value, Mistakes& mistakes);

// A sub-terrain as a flow mapping on one line; only what differs from the defaults.
std::string sub_terrain_text(SubTerrainConfig sub);

}  // namespace maniple
