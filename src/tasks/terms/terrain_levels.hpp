// Levels of environments on a terrain as curricula: the rewriting
// of a term of task.curricula before a task is compiled.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/tasks/language/expression_context.hpp"
#include "src/tasks/language/task_model.hpp"

namespace maniple {

// Puts in the place of a curriculum that is a term the numbers that tell of it: the mean level over the
// environments, and <name>_<sub-terrain> over those of each kind. The first of them keeps the term, whose
// expression moves environments. Adds the variables that these means are of. InputError: a term that the
// library lacks or that is not right, or two of them.
void expand_terrain_levels(TaskConfig& config, const TaskModel& model,
                           std::map<std::string, TaskVariable>& variables);

// The expression of the curriculum by which environments move on the terrain; text "": none.
ExpressionSource terrain_move_of(const TaskConfig& config, const TaskModel& model);

}  // namespace maniple
