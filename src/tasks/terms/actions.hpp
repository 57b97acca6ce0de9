// The actions of a task: the actuator that each component of the policy's output drives, and the way from it
// to a control. Each kind of action needs its kind of actuator; components of an action may also drive none,
// for assignments (compile_act) to read.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/base/mistakes.hpp"
#include "src/config/config.hpp"
#include "src/tasks/language/expression_compiler.hpp"
#include "src/tasks/language/task_model.hpp"

namespace maniple {

struct CompiledAction {
  std::string name;         // "<term>/<joint or control>"
  int actuator = -1;        // -1: none, other actions read the component
  int control = -1;         // which control of the model it sets; -1: none
  int element = -1;         // of State: that control; -1: none
  bool by_program = false;  // `act` sets the control, not the table of actions
  // what takes the place of the action's component: an expression, component `place` of `count`; "": nothing
  ExpressionSource expression;
  std::size_t place = 0, count = 1;
  ExpressionSource offset_expression;  // the same, added to the control, times per_unit
  int relative_to = -1;  // element of State that is added to the control, times per_unit; -1: none
  double per_unit = 1;
  std::vector<double> delay;     // control steps
  double scale = 1, offset = 0;  // control = action * scale + offset, then clip
  bool clipped = false;
  double low = 0, high = 0;
  double random_low = -1, random_high = 1;  // actions whose controls fill the control's range
};

// The components of the action, in the deck's order. InputError: actuators of another kind, none or two for a
// joint, two actions for a control.
std::vector<CompiledAction> compile_actions(const TaskConfig& config, const TaskModel& model,
                                            Mistakes& mistakes);

}  // namespace maniple
