#include "src/tasks/terms/actions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/tasks/language/names.hpp"
#include "src/tasks/terms/term_expressions.hpp"

namespace maniple {
namespace {

// The number of the only actuator that drives a joint.
int driver_of(const TaskModel& model, const TaskJoint& joint, const TermConfig& term,
              const std::string& key) {
  if (joint.actuators.size() == 1) return joint.actuators[0];
  if (joint.actuators.empty()) {
    std::vector<std::string> actuated;
    for (const TaskJoint& other : model.joints)
      if (other.actuators.size() == 1) actuated.push_back(other.name);
    throw InputError(
        term.where_names, key + ".joints", "joint '" + joint.name + "' has 0 actuators",
        "joints with an actuator: " + (actuated.empty() ? "none in this model" : list(actuated)));
  }
  std::vector<std::string> drivers;
  for (const int i : joint.actuators) drivers.push_back(model.actuators[static_cast<std::size_t>(i)].name);
  throw InputError(term.where_names, key + ".joints",
                   fmt::format("joint '{}' has {} actuators ({})", joint.name, drivers.size(), list(drivers)),
                   "use the term actuator_control with actuators: [names]");
}

// How a force, position or velocity of the joint becomes the control of its actuator that asks for it.
void drive_joint(CompiledAction& action, const LibraryTerm& library, const TermRequest& request,
                 const TaskJoint& joint, const TermConfig& term, const std::string& key) {
  const JointDrive& drive = *library.drive;
  action.actuator = driver_of(request.model, joint, term, key);
  const TaskActuator& driver = request.model.actuators[static_cast<std::size_t>(action.actuator)];
  if (!drive.fits(driver))
    throw InputError(
        term.where_names, key + ".joints",
        fmt::format("actuator '{}' of joint '{}' is not {}", driver.name, joint.name, drive.needed),
        "an actuator of that kind, or the term actuator_control with actuators: [names]");
  action.control = driver.control;
  const double per_unit = drive.per_unit(driver);
  if (drive.offset) action.offset += drive.offset(request, joint);
  // The range of `clip` is one of forces, positions or velocities; controls may be counted the other way.
  action.scale *= per_unit;
  action.offset *= per_unit;
  action.per_unit = per_unit;
  if (library.relative)
    action.relative_to = field_named(state_fields(request.model.sizes), "qpos").first + joint.qposadr;
  if (action.clipped) {
    action.low *= per_unit;
    action.high *= per_unit;
    if (per_unit < 0) std::swap(action.low, action.high);
  }
}

void set_clip(CompiledAction& action, const TermConfig& term) {
  action.clipped = term.clip.has_value();
  if (!term.clip) return;
  action.low = (*term.clip)[0];
  action.high = (*term.clip)[1];
}

// The offset that an expression adds to the controls of the term's actions.
void set_offset_expressions(std::vector<CompiledAction>& actions, const TermConfig& term,
                            const std::string& key) {
  if (term.offset.expression.empty()) return;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    actions[i].offset_expression = {term.offset.expression, term.where_of("offset"), key + ".offset"};
    actions[i].by_program = true;
    actions[i].place = i;
    actions[i].count = actions.size();
  }
}

// The action sets this control.
void set_control(CompiledAction& action, const TaskModel& model, int control) {
  action.control = control;
  action.actuator = model.controls[static_cast<std::size_t>(control)].actuator;
}

// One component of the action for each control of the actuators, which is what the expression says.
std::vector<CompiledAction> expression_actions(const TermConfig& term, const TaskModel& model,
                                               const std::string& key) {
  const std::vector<std::string> known = names_of(model.controls);
  if (term.names_kind != ElementKind::actuators || term.names.empty())
    throw InputError(term.where_expression, key, "an action with an expression but without actuators",
                     "actuators: [names], of " + list(known));
  std::vector<std::size_t> places;
  for (const std::string& entry : term.names)
    for (const std::size_t place :
         matching_names(entry, known, term.where_names, key + ".actuators", "the model has no actuator"))
      if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  std::vector<std::string> names;
  for (const std::size_t place : places) names.push_back(known[place]);
  const std::vector<double> scales = numbers_of(term.scale, names, names.size(), 1, term, key + ".scale"),
                            offsets = numbers_of(term.offset, names, names.size(), 0, term, key + ".offset");
  std::vector<CompiledAction> actions;
  for (std::size_t i = 0; i < places.size(); ++i) {
    CompiledAction action;
    action.name = "expression/" + names[i];
    set_control(action, model, static_cast<int>(places[i]));
    action.by_program = true;
    action.expression = source_of(term, term.expression, key);
    action.place = i;
    action.count = places.size();
    action.delay = term.delay;
    action.scale = scales[i];
    action.offset = offsets[i];
    set_clip(action, term);
    actions.push_back(std::move(action));
  }
  return actions;
}

// Components that drive no actuator.
std::vector<CompiledAction> free_components(const TermConfig& term) {
  std::vector<CompiledAction> actions;
  for (const std::string& component : term.components) {
    CompiledAction action;
    action.name = term.where_keys.contains("name") ? term.name + "/" + component : component;
    actions.push_back(std::move(action));
  }
  return actions;
}

std::vector<CompiledAction> compile_action(const TermConfig& term, const TaskModel& model,
                                           const std::string& key) {
  if (!term.components.empty()) return free_components(term);
  if (!term.target.empty()) return {};  // (an assignment)
  check_delay(term, key);
  if (term.term.empty()) return expression_actions(term, model, key);
  const LibraryTerm& library = find_term(term, TermKind::action, key);
  const TermRequest request = resolve_term(library, term, model, key, TermKind::action);
  const std::size_t count = request.elements.size();
  const std::vector<double> scales = numbers_of(term.scale, request.names, count, 1, term, key + ".scale"),
                            offsets = numbers_of(term.offset, request.names, count, 0, term, key + ".offset");
  std::vector<CompiledAction> actions;
  for (std::size_t i = 0; i < count; ++i) {
    CompiledAction action;
    action.name = library.name + "/" + request.names[i];
    action.by_program = library.relative || !term.delay.empty();
    action.delay = term.delay;
    action.scale = scales[i];
    action.offset = offsets[i];
    set_clip(action, term);
    if (library.drive)
      drive_joint(action, library, request, model.joints[static_cast<std::size_t>(request.elements[i])], term,
                  key);
    else
      set_control(action, model, request.elements[i]);
    actions.push_back(std::move(action));
  }
  return actions;
}

// The actions whose controls are those that the control's range and `clip` leave; without either, +-1.
void set_random_range(CompiledAction& action, const TaskControl& control) {
  if ((!control.limited && !action.clipped) || action.scale == 0) return;
  double low = control.limited ? control.low : action.low;
  double high = control.limited ? control.high : action.high;
  if (control.limited && action.clipped) {
    low = std::clamp(low, action.low, action.high);
    high = std::clamp(high, action.low, action.high);
  }
  action.random_low = (low - action.offset) / action.scale;
  action.random_high = (high - action.offset) / action.scale;
  if (action.scale < 0) std::swap(action.random_low, action.random_high);
}

}  // namespace

std::vector<CompiledAction> compile_actions(const TaskConfig& config, const TaskModel& model,
                                            Mistakes& mistakes) {
  const int first_control = field_named(state_fields(model.sizes), "ctrl").first;
  std::vector<CompiledAction> actions;
  const auto add = [&](const TermConfig& term, const std::string& key) {
    std::vector<CompiledAction> of_term = compile_action(term, model, key);
    set_offset_expressions(of_term, term, key);
    for (CompiledAction& action : of_term) {
      if (action.control < 0) {
        actions.push_back(std::move(action));
        continue;
      }
      const auto same = [&](const CompiledAction& other) { return other.control == action.control; };
      if (std::any_of(actions.begin(), actions.end(), same))
        throw InputError(term.where, key,
                         fmt::format("actuator '{}' gets a second action",
                                     model.controls[static_cast<std::size_t>(action.control)].name),
                         "one action per actuator");
      action.element = first_control + action.control;
      if (action.relative_to < 0 && action.expression.text.empty() && action.offset_expression.text.empty())
        set_random_range(action, model.controls[static_cast<std::size_t>(action.control)]);
      actions.push_back(std::move(action));
    }
  };
  for (std::size_t i = 0; i < config.actions.size(); ++i)
    mistakes.gather([&] { add(config.actions[i], key_of(TermKind::action, config.actions[i], i)); });
  return actions;
}

}  // namespace maniple
