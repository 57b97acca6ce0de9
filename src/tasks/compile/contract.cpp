// Keys are added and never change their meaning; `format` counts changes that break a reader.
#include "src/tasks/compile/contract.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "src/base/json.hpp"
#include "src/model_import/import.hpp"
#include "src/tasks/language/task_model.hpp"
#include "src/tasks/terms/motion.hpp"
#include "src/tasks/terms/terms.hpp"

namespace maniple {
namespace {

using Rows = std::vector<std::string>;

std::string object(const Rows& rows, int depth) {
  return json_rows(rows, '{', '}', depth);
}
std::string list_of(const Rows& rows, int depth) {
  return json_rows(rows, '[', ']', depth);
}
std::string json_texts(const std::vector<std::string>& texts) {
  Rows rows;
  for (const std::string& text : texts) rows.push_back(json_text(text));
  return fmt::format("[{}]", fmt::join(rows, ", "));
}
const char* json_truth(bool truth) {
  return truth ? "true" : "false";
}

// A range of draws: [-x, x] of a number, as given of two, nothing of none.
std::string symmetric_range(const std::vector<double>& numbers) {
  if (numbers.empty()) return "null";
  return json_list(std::vector<double>{numbers.size() == 1 ? -numbers[0] : numbers[0], numbers.back()});
}
// A duration in s, [least, most]; of none null.
std::string duration_range(const std::vector<double>& numbers) {
  if (numbers.empty()) return "null";
  return json_list(std::vector<double>{numbers.front(), numbers.back()});
}
// A delay in control steps, [least, most].
std::string delay_range(const std::vector<double>& delay) {
  if (delay.empty()) return "[0, 0]";
  return json_list(std::vector<double>{delay.front(), delay.back()});
}

Rows observation_rows(const std::vector<TermConfig>& terms, const CompiledTask& task) {
  Rows rows;
  for (std::size_t i = 0; i < task.observations.size(); ++i) {
    const CompiledObservation& observation = task.observations[i];
    const TermConfig& term = terms[observation.term];
    rows.push_back(json_object(
        {json_entry("name", json_text(task.observation_names[i])),
         json_entry("expression", json_text(observation.expression)),
         json_entry("component", std::to_string(observation.component)),
         json_entry("element", observation.element.empty() ? "null" : json_text(observation.element)),
         json_entry("bias", symmetric_range(term.bias)), json_entry("noise", symmetric_range(term.noise)),
         json_entry("noise_std", json_number(term.noise_std)),
         json_entry("clip", term.clip ? json_list(*term.clip) : "null"),
         json_entry("scale", json_number(observation.scale)), json_entry("offset", "0"),
         json_entry("delay", delay_range(term.delay)), json_entry("age", std::to_string(observation.age))}));
  }
  return rows;
}

// The range of a force of an actuator or on a joint, or null.
template <class Element>
std::string force_range(const Element& element) {
  return element.force_limited ? json_list(std::vector{element.least_force, element.most_force}) : "null";
}

// The law of an actuator whose gain and bias do not depend on more than length and velocity, and the limits
// of its force, and of all forces on the joint that it drives (nullptr: none).
std::string servo(const TaskActuator& actuator, const TaskControl& control, const TaskJoint* joint) {
  const bool plain = actuator.fixed_gain && actuator.stateless;
  return json_object(
      {json_entry("gear", json_number(actuator.gear)), json_entry("affine", json_truth(plain)),
       json_entry("gain", json_number(actuator.gain)), json_entry("bias", json_list(actuator.bias)),
       json_entry("control_range",
                  control.limited ? json_list(std::vector{control.low, control.high}) : "null"),
       json_entry("force_limited", json_truth(actuator.force_limited)),
       json_entry("force_range", force_range(actuator)),
       json_entry("joint_force_range", joint == nullptr ? "null" : force_range(*joint))});
}

Rows action_rows(const CompiledTask& task, const TaskModel& model) {
  Rows rows;
  const int qpos = field_named(state_fields(model.sizes), "qpos").first;
  for (const CompiledAction& action : task.actions) {
    if (action.control < 0) {
      rows.push_back(
          json_object({json_entry("name", json_text(action.name)), json_entry("actuator", "null")}));
      continue;
    }
    const TaskActuator& actuator = model.actuators[static_cast<std::size_t>(action.actuator)];
    const TaskControl& control = model.controls[static_cast<std::size_t>(action.control)];
    std::string relative = "null";
    const TaskJoint* joint = nullptr;
    for (const TaskJoint& candidate : model.joints) {
      for (const int driver : candidate.actuators)
        if (driver == action.actuator) joint = &candidate;
      if (action.relative_to >= 0 && action.relative_to - qpos == candidate.qposadr)
        relative = json_text(candidate.name);
    }
    const auto text_or_null = [](const std::string& text) { return text.empty() ? "null" : json_text(text); };
    rows.push_back(json_object(
        {json_entry("name", json_text(action.name)), json_entry("actuator", json_text(control.name)),
         json_entry("joint", joint == nullptr ? "null" : json_text(joint->name)),
         json_entry("delay", delay_range(action.delay)),
         json_entry("expression", text_or_null(action.expression.text)),
         json_entry("component", std::to_string(action.expression.text.empty() ? 0 : action.place)),
         json_entry("scale", json_number(action.scale)), json_entry("offset", json_number(action.offset)),
         json_entry("per_unit", json_number(action.per_unit)), json_entry("relative_to", relative),
         json_entry("offset_expression", text_or_null(action.offset_expression.text)),
         json_entry("clip", action.clipped ? json_list(std::vector{action.low, action.high}) : "null"),
         json_entry("servo", servo(actuator, control, joint))}));
  }
  return rows;
}

// Actions that assign an expression: what they set before the physics of a control step.
Rows assignment_rows(const TaskConfig& config) {
  Rows rows;
  for (const TermConfig& term : config.actions)
    if (!term.target.empty())
      rows.push_back(json_object(
          {json_entry("set", json_text(term.target)), json_entry("expression", json_text(term.expression))}));
  return rows;
}

// The default state, joint by joint.
Rows pose_rows(const TaskModel& model) {
  Rows rows;
  for (const TaskJoint& joint : model.joints) {
    const auto q = model.qpos0.begin() + joint.qposadr, v = model.qvel0.begin() + joint.dofadr;
    rows.push_back(json_object({json_entry("joint", json_text(joint.name)),
                                json_entry("qpos", json_list(std::vector<double>(q, q + joint.qpos_size))),
                                json_entry("qvel", json_list(std::vector<double>(v, v + joint.dof_size)))}));
  }
  return rows;
}

// A file by its name; one inside a Python package as decks write it, which holds on any machine.
std::string portable(const std::string& file) {
  return file.starts_with("package:") ? file : std::filesystem::path(file).filename().string();
}

// What a command asks for: of a term of the library the names, units and ranges of its components, of an
// expression its text. A range that follows a curriculum is an expression, too.
Rows command_rows(const TaskConfig& config, const CompiledTask& task) {
  Rows rows;
  for (const TermConfig& command : config.commands) {
    Rows components;
    if (!command.term.empty()) {
      const LibraryTerm& library = find_term(command, TermKind::command, "task.commands." + command.name);
      for (const std::string& name : library.components) {
        const auto parameter =
            std::find_if(library.parameters.begin(), library.parameters.end(),
                         [&](const TermParameter& candidate) { return candidate.name == name; });
        Rows range;
        for (const TermNumber& end : command.parameters.at(name))
          range.push_back(end.expression.empty() ? json_number(end.value) : json_text(end.expression));
        components.push_back(
            json_object({json_entry("name", json_text(name)), json_entry("unit", json_text(parameter->unit)),
                         json_entry("range", fmt::format("[{}]", fmt::join(range, ", "))),
                         json_entry("meaning", json_text(parameter->meaning))}));
      }
    }
    Rows row{json_entry("term", command.term.empty() ? "null" : json_text(command.term)),
             json_entry("expression", command.expression.empty() ? "null" : json_text(command.expression)),
             json_entry("every", duration_range(command.every)),
             json_entry("components", fmt::format("[{}]", fmt::join(components, ", ")))};
    if (command.term == kMotionTerm)
      row.push_back(json_entry(
          "motion", json_object({json_entry("file", json_text(portable(command.file))),
                                 json_entry("frames", std::to_string(task.motion->frames)),
                                 json_entry("joint_names", json_texts(task.motion->joints)),
                                 json_entry("body_names", json_texts(task.motion->bodies)),
                                 json_entry("anchor_body_name", json_text(task.motion->anchor))})));
    rows.push_back(json_entry(command.name, json_object(row)));
  }
  return rows;
}

Rows expression_rows(const TaskConfig& config, const CompiledTask& task) {
  Rows definitions, variables, curricula, commands;
  for (const auto& [name, text] : config.definitions)
    definitions.push_back(json_entry(name, json_text(text)));
  for (const TermConfig& variable : config.variables)
    variables.push_back(
        json_entry(variable.name, json_object({json_entry("reset", json_text(variable.reset)),
                                               json_entry("update", json_text(variable.update)),
                                               json_entry("every", duration_range(variable.every)),
                                               json_entry("once", json_truth(variable.once))})));
  for (const TermConfig& curriculum : config.curricula)
    curricula.push_back(json_entry(
        curriculum.name,
        json_object({json_entry("term", curriculum.term.empty() ? "null" : json_text(curriculum.term)),
                     json_entry("reset", json_text(curriculum.reset)),
                     json_entry("update", json_text(curriculum.update))})));
  for (const CompiledVariable& variable : task.variables)
    if (variable.is_command) commands.push_back(json_entry(variable.name, std::to_string(variable.size)));
  return {json_entry("definitions", object(definitions, 1)), json_entry("variables", object(variables, 1)),
          json_entry("curricula", object(curricula, 1)), json_entry("commands", object(commands, 1)),
          json_entry("command_terms", object(command_rows(config, task), 1))};
}

}  // namespace

std::string policy_contract(const Config& config, const CompiledTask& task, const ImportedModel& imported) {
  const TaskModel model = task_model(imported, config.task);
  Rows held;
  for (const auto& [name, control] : task.held_controls)
    held.push_back(json_entry(name, json_number(control)));
  Rows rows{
      json_entry("format", "1"),
      json_entry("task", json_text(config.task.name)),
      json_entry("model", json_text(portable(config.model.file))),
      json_entry("control_step", json_number(task.step_dt)),
      json_entry("physics_step", json_number(imported.timestep)),
      json_entry("decimation", std::to_string(config.simulation.decimation)),
      json_entry("integrator", json_text(integrator_name(imported.integrator))),
      json_entry("derived", json_text(text_of(config.simulation.derived))),
      json_entry("observation",
                 json_text("clip(expression + bias + noise) * scale + offset, delay control steps late; of "
                           "the age in control steps")),
      json_entry("observations", list_of(observation_rows(config.task.observations, task), 1)),
      json_entry(
          "control",
          json_text("clip(scale * action + offset + per_unit * (qpos[relative_to] + "
                    "offset_expression)) of the action, or of the expression where there is one, delay "
                    "control steps late; held for a control step")),
      json_entry("actions", list_of(action_rows(task, model), 1)),
      json_entry("assignments", list_of(assignment_rows(config.task), 1)),
      json_entry(
          "force",
          json_text("gain * control + bias[0] + bias[1] * length + bias[2] * velocity of the "
                    "actuator, where the servo is affine, within force_range; length is gear times the "
                    "joint's; the sum of gear * force on a joint is within joint_force_range")),
      json_entry("held_controls", object(held, 1)),
      json_entry("default_pose", list_of(pose_rows(model), 1)),
      json_entry("joints", [&] {
        std::vector<std::string> names;
        for (const TaskJoint& joint : model.joints)
          if (joint.is_scalar()) names.push_back(joint.name);
        return json_texts(names);
      }())};
  for (const std::string& row : expression_rows(config.task, task)) rows.push_back(row);
  return object(rows, 0) + "\n";
}

}  // namespace maniple
