// Names of controls: MuJoCo names actuators, of which some have several controls.
#pragma once

#include <string>
#include <vector>

#include "src/model_import/import.hpp"

namespace maniple {

// For each control the name of its actuator, followed by /pos, /vel, /ff or /voltage where that has several.
// Such an actuator without a name is called actuator3, by its number; others keep an empty name.
std::vector<std::string> control_names(const ImportedModel& model);

}  // namespace maniple
