// An overview of a file of demonstrations, for people: the short answer of `maniple inspect`, where
// summary.hpp has the long one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/io/summary.hpp"

namespace maniple {

// Of a file in the layout of robomimic, Minari or DROID, a line each: where the data are from, episodes and
// samples, lengths, returns, ends, success, masks, and each key with its type, the shape of a frame and the
// range of its numbers. Nothing for other files. `objects`: what summarize_file() says of the file. All
// numbers are read but those of images. Throws Error when they cannot be.
std::optional<std::string> demonstration_overview(const std::string& path,
                                                  const std::vector<ObjectSummary>& objects);

}  // namespace maniple
