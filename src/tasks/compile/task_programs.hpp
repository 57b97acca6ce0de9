// The programs of a task except its observations (src/tasks/compile/observations.hpp): each function compiles
// a deck's expressions for one moment of a control step, and leaves the program in the task.
#pragma once

#include <string>
#include <vector>

#include "src/tasks/compile/task.hpp"
#include "src/tasks/language/expression_compiler.hpp"

namespace maniple {

// Control steps of the key `every`: a number, or a range.
std::vector<double> steps_of(const TermConfig& term, const std::string& key, double step_dt);

// Known before any environment is: what never can be a number must be a mistake.
void check_finite(const ExpressionGraph& graph, const ExpressionCompiler::Value& values,
                  const ExpressionSource& source);

// Terminations, then rewards, which may read them.
void compile_evaluation(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                        ConstantPool& constants, CompiledTask& task);
// Events at start-up and resets that set fields of the model.
void compile_model_events(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                          ConstantPool& constants, CompiledTask& task);
// The program of a reset: the keyframe, the terms of resets, then events.
void compile_resets(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                    ConstantPool& constants, CompiledTask& task);
// Whether a fresh state stays.
void compile_acceptance(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                        ConstantPool& constants, CompiledTask& task);
// Controls that need more than the table of actions.
void compile_act(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                 ConstantPool& constants, CompiledTask& task);
// Events in intervals.
void compile_intervals(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                       ConstantPool& constants, CompiledTask& task);

}  // namespace maniple
