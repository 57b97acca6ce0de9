// maniple inspect: what a results, checkpoint or dataset file holds.
#pragma once

#include <ostream>
#include <string>

namespace maniple {

// Prints attributes, groups, datasets with type, shape, unit and description, the run record of a
// results file, and last a line "digest <sha256>". Returns 0. Throws InputError when the file is
// missing or cannot be read.
int inspect_file(const std::string& path, std::ostream& out);

}  // namespace maniple
