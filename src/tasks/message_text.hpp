// Wording that messages about unknown names share: what is known, and which known name is close.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "src/config/schema.hpp"

namespace maniple {

// "a, b, c"; more than `limit` names are cut off with "...".
inline std::string list(const std::vector<std::string>& names,
                        std::size_t limit = std::numeric_limits<std::size_t>::max()) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < limit; ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() > limit ? text + ", ..." : text;
}

// ", did you mean 'qpos'?", or nothing where no known name is close.
inline std::string did_you_mean(const std::string& unknown, const std::vector<std::string>& known) {
  const std::string near = nearest(unknown, known);
  return near.empty() ? "" : ", did you mean '" + near + "'?";
}

}  // namespace maniple
