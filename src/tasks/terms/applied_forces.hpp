// Forces from outside on bodies and dofs (MuJoCo's xfrc_applied and qfrc_applied): whether the environments
// of a task have them. Others have no room for them in their states, and their steps no work with them.
#pragma once

#include "src/config/config.hpp"
#include "src/model_import/import.hpp"

namespace maniple {

// The library's term that draws forces and torques on bodies, Isaac Lab's and mjlab's.
inline constexpr const char* kForceTerm = "apply_external_force_torque";

// Makes room for the forces that the task names somewhere, to set or to read them.
void make_room_for_forces(ModelSizes& sizes, const TaskConfig& task);
// Makes room for both.
void make_room_for_forces(ModelSizes& sizes);

}  // namespace maniple
