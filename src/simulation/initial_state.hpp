// The state of environments from a file of rows (initial_state.file). It is read and checked here; the
// simulation puts it into its tiles.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/config/config.hpp"
#include "src/model_import/import.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

// The rows of initial_state.file by field: one for all environments, or one for each of this rank. InputError
// for files without such rows and for quaternions of zeros, which are no orientation.
std::vector<std::pair<std::string, std::vector<double>>> read_initial_state(const InitialStateConfig& initial,
                                                                            const ImportedModel& model,
                                                                            const Partition& partition);

}  // namespace maniple
