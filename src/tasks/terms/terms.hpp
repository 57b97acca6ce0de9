// The library of named terms. A term is a recipe that writes an expression
// (src/tasks/language/expression.hpp) for the joints or bodies it is given, so that the kernels know nothing
// but bytecode. Names, parameters and meanings are those of Isaac Lab's manager-based tasks
// (isaaclab.envs.mdp, release 2), as far as articulated robots without contacts need them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/config/schema.hpp"
#include "src/tasks/language/task_model.hpp"

namespace maniple {

struct TermParameter {
  std::string name;
  int size = 1;  // 1: a number, 2: a range [low, high]
  std::string unit, meaning;
  std::vector<double> default_value = {};  // the value when it is not given; empty: must be given
  Allowed allowed = {};                    // each number; expressions are not checked
};

// The text of a term: an expression, and in resets the quantity that it is assigned to.
struct TermExpression {
  std::string target;
  std::string text;
};

// A term of a deck against a model: names resolved, parameters complete.
struct TermRequest {
  const TaskModel& model;
  std::vector<int> elements;  // joints, bodies, actuators or sensors
  std::vector<std::string> names;
  std::map<std::string, std::vector<TermNumber>> parameters;
  const TermConfig& config;
  std::string key;  // of the term in the deck

  // A parameter that decides what the term is: a number. InputError for an expression.
  double number(const std::string& parameter) const;
};

// How an action on a joint becomes the control of the joint's actuator.
struct JointDrive {
  std::string needed;  // the kind of actuator: "a motor (fixed gain, no bias, no dynamics)"
  std::function<bool(const TaskActuator&)> fits;
  std::function<double(const TaskActuator&)> per_unit;  // control for a force, position or velocity of 1
  std::function<double(const TermRequest&, const TaskJoint&)> offset = {};  // added to the deck's
};

// Requirements on the model beyond the elements that a term names.
struct ModelNeed {
  std::function<bool(const TaskModel&)> met;
  std::string missing, instead;  // for messages
};

// How a model gets a free base, for messages.
inline constexpr const char* kFreeBase =
    "a <freejoint/> in the base, or in a URDF, whose first link is fixed to the world, a root element <link "
    "name=\"world\"/> with a joint of type floating to that link";

// The elements of a term for which the deck names none; none: they must be named.
enum class DefaultNames { none, scalar_joints, every_joint, root_body, tracked_bodies };

struct LibraryTerm {
  std::string name;
  TermKind kind = TermKind::reward;
  ElementKind names_kind = ElementKind::none;
  DefaultNames names_default = DefaultNames::none;
  std::vector<TermParameter> parameters;
  std::string meaning;
  // Not for actions, which are tables instead of expressions.
  std::function<std::vector<TermExpression>(const TermRequest&)> expand = {};
  std::optional<JointDrive> drive = std::nullopt;  // actions on joints
  std::optional<ModelNeed> need = std::nullopt;
  bool of_one = false;                       // takes one element alone
  bool relative = false;                     // actions on joints: added to the joint's position
  bool takes_command = false;                // {command} of its formula
  std::vector<std::string> components = {};  // commands: the parameters that are the ranges of each
};

// src/tasks/terms/term_library.cpp has the table.
const std::vector<LibraryTerm>& term_library();
std::vector<std::string> term_names(TermKind kind);
// Whether a termination is a truncation, no failure: the deck says so, or its term.
bool is_time_out(const TermConfig& termination);

// Finds the term, checks its names and parameters against the model. Throws InputError that names the
// deck's line: unknown term, element or parameter (with the nearest known one), missing parameter.
// Names may be regular expressions that match whole names; elements keep the order of the model then.
const LibraryTerm& find_term(const TermConfig& config, TermKind kind, const std::string& key);
// `kind`: of the section that the term stands in; events take terms of resets.
TermRequest resolve_term(const LibraryTerm& term, const TermConfig& config, const TaskModel& model,
                         const std::string& key, TermKind kind);
// What a term takes beside its parameters and the names of elements, in a section: keys of the schema.
std::vector<std::string> term_keys(TermKind kind);

}  // namespace maniple
