// The interface between a policy and the robot that it drives, for
// programs: as JSON, in results files and in exported policies.
#pragma once

#include <string>

#include "src/config/config.hpp"
#include "src/model_import/import.hpp"
#include "src/tasks/compile/task.hpp"

namespace maniple {

// Every component of observations and actions in order, with name, scale, offset, clip, delay and place in
// the history; the servos, the default pose, and the duration of steps. Files are named without their
// folders.
std::string policy_contract(const Config& config, const CompiledTask& task, const ImportedModel& model);

}  // namespace maniple
