// Resolution of the paths in a deck, relative to the deck or to an installed Python package, with a check
// that the files exist. After it every path of a Config is absolute.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/base/mistakes.hpp"
#include "src/config/config.hpp"

namespace maniple {

// Where what belongs to the program is looked for: the folder that it lies in, those above, and the working
// directory.
std::vector<std::filesystem::path> folders_above_program();

// The directory of an installed Python package, found in the active environment (VIRTUAL_ENV, or the
// .venv beside the program's build folder or in the working directory) without starting Python; by its
// import name (gymnasium, dm_control, mjlab). Empty when it is not there.
std::string python_package_directory(const std::string& package);

// The required contents of control.file; with a task it has actions.
std::string control_file_text(const Config& config);

// The error of a deck without the model that it needs.
InputError no_model_file(const Config& config);

// Makes the paths of a deck absolute and keeps where they were given. `member`: of an ensemble, or "".
// Gathers files that are not there, and with `needs_model` a deck without a model.
void resolve_files(Config& config, const std::string& member, bool needs_model, Mistakes& mistakes);

}  // namespace maniple
