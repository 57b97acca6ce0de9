// The parts of one task for people, a line each: what `inspect`, `validate` and results show.
#pragma once

#include <string>

#include "src/config/config.hpp"
#include "src/tasks/compile/prepared.hpp"

namespace maniple {

// Actions, observations, rewards, ends, resets, events, commands and variables of a task, a line each.
std::string task_table(const TaskConfig& config, const CompiledTask& task);

}  // namespace maniple
