// The program that computes the observations of policy and
// critic, with noise, clipping, scale, delay and history of each.
#pragma once

#include "src/tasks/compile/task.hpp"
#include "src/tasks/language/expression_compiler.hpp"

namespace maniple {

// Both observations, then what the task keeps. The values of variables, which the other programs read, are
// in `observe` already.
void compile_observing(const TaskConfig& config, const TaskModel& model, ExpressionCompiler& observe,
                       ConstantPool& constants, CompiledTask& task);

}  // namespace maniple
