// Events that give environments models of their own (`task.events` with `field`, or with `set` on a field of
// the model): what they assign, and which fields vary because of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/tasks/language/task_model.hpp"
#include "src/tasks/terms/terms.hpp"

namespace maniple {

// The assignments of an event with `field`. InputError: no such field, or none that may vary; elements,
// components or ranges that do not fit it.
std::vector<TermExpression> field_assignments(const TermConfig& term, const TaskModel& model,
                                              const std::string& key);

// Does an event set fields of the model: all that it assigns to is of the model, or nothing is.
bool sets_model(const TermConfig& term, const TaskModel& model);

// Refuses an event by expression that sets friction of geoms or explicit pairs alone which no contact has, or
// sizes of planes, meshes and height fields alone, or the gain of a PID servo or DC motor.
// `elements`: of State, that it assigns.
void check_contacts_of(const std::vector<int>& elements, const TermConfig& term, const TaskModel& model,
                       const std::string& key);

// The fields that events draw before the first step, at start-up or at resets, each with the key of the first
// such event. Ranges that curricula widen may begin as a single number; fields of resets by them are left
// out.
std::map<std::string, std::string> initially_drawn_fields(const TaskConfig& config,
                                                          const ImportedModel& imported);

// The fields of the model that events set, and of which each environment needs values of its own. Events with
// a mistake, which compile_task() refuses, are left out.
std::vector<std::string> varied_fields(const TaskConfig& config, const TaskModel& model);

}  // namespace maniple
