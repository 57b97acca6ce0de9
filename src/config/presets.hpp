// Presets: settings of learning by name, as other programs publish them, and our own. A preset gives keys of
// policy.* and learning.* other defaults; keys of the deck itself take precedence.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace maniple {

struct Preset {
  std::string name;    // learning.preset
  std::string source;  // where the values come from, and where they differ
  std::vector<std::pair<std::string, std::string>> values;  // key, value as a deck writes it
};

// The first one has no values: it is what the schema calls default.
const std::vector<Preset>& presets();

// Each with its source and its values, for maniple schema presets.
std::string presets_text();

}  // namespace maniple
