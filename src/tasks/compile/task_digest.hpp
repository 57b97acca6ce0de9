// A checksum by which two tasks are told apart: of a checkpoint and a run, and of the ranks of a run.
#pragma once

#include <string>

#include "src/tasks/compile/task.hpp"

namespace maniple {

// Checksum (16 hex digits) of everything that decides what the task computes.
std::string task_digest(const CompiledTask& task);

}  // namespace maniple
