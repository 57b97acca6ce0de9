#include "src/tasks/compile/listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "src/base/counted.hpp"
#include "src/config/schema.hpp"
#include "src/tasks/language/expression_context.hpp"
#include "src/tasks/language/expression_functions.hpp"
#include "src/tasks/language/names.hpp"
#include "src/tasks/terms/curriculum.hpp"
#include "src/tasks/terms/motion.hpp"
#include "src/tasks/terms/terms.hpp"

namespace maniple {
namespace {

// A model with one of everything, two geoms and bodies, for what is said without a model.
TaskModel one_of_everything() {
  TaskModel model;
#define MANIPLE_SIZE(name, meaning) model.sizes.name = 1;
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
#undef MANIPLE_SIZE
  model.sizes.nbody = model.sizes.nxfrc = model.sizes.ngeom = 2;
  TaskJoint joint;
  joint.name = "hinge";
  model.joints = {joint};
  TaskActuator actuator;
  actuator.name = "motor";
  actuator.actadr = 0;
  actuator.actnum = 1;
  actuator.control = 0;
  model.actuators = {actuator};
  model.controls = {{.name = actuator.name, .actuator = 0, .limited = false, .low = 0, .high = 0}};
  model.sensors = {{"sensor", 0, 1}};
  model.bodies = {"world", "torso"};
  model.geoms = {"floor", "foot"};
  Motion motion;
  motion.command = "motion";
  motion.joints = {"hinge"};
  motion.bodies = {"torso"};
  motion.anchor = "torso";
  lay_out(motion);
  model.motion = std::make_shared<const Motion>(motion);
  model.sites = {"hand"};
  model.tendons = {"tendon"};
  model.body_root = {0, 1};
  model.body_parent = {0, 0};
  model.geom_body = {0, 1};
  model.geom_type = {geom_plane, geom_sphere};
  model.geom_in_fluid = {false, false};
  model.geom_static = {true, false};
  model.geom_visible = {true, true};
  model.geom_pairs = {{0, 1}};
  model.pairs = {"pair"};
  model.qpos0 = model.qvel0 = model.act0 = model.ctrl0 = {0};
  model.fields = varying_fields(ImportedModel());
  for (VaryingField& field : model.fields) {
    const bool several = field.element == FieldElement::body || field.element == FieldElement::geom;
    field.values.assign(static_cast<std::size_t>(several ? 2 * field.row : field.row), 0.0);
  }
  return model;
}

// The control step of examples.
constexpr ControlStep kListedStep{.dt = 0.02, .physics_steps = 4};

ExpressionSource example_source(const std::string& text) {
  return {text, {}, "example"};
}

// The components that an expression has, and their numbers where they depend on nothing.
struct Evaluated {
  std::size_t size;
  std::string numbers;  // "" where they do
};
Evaluated evaluated(const TaskModel& model, const std::string& text) {
  ExpressionContext context(model, 1, kListedStep, 0, 0, {}, {}, motion_quantities(model));
  ExpressionCompiler compiler(context, Phase::observe);
  const ExpressionCompiler::Value value = compiler.compile(example_source(text));
  Evaluated result{value.size(), ""};
  if (!context.missing_variables().empty()) return result;  // not a number yet
  std::vector<std::string> numbers;
  for (const ExpressionGraph::Node node : value) {
    if (!compiler.graph().is_constant(node)) return result;
    const double number = compiler.graph().constant_value(node);
    numbers.push_back(fmt::format("{:.4g}", number == 0 ? 0.0 : number));
  }
  result.numbers = numbers.size() == 1 ? numbers[0] : "[" + list(numbers) + "]";
  return result;
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 0, ' ') + "  ";
}

std::string parameter_text(const TermParameter& parameter) {
  const auto numbers = [](const std::vector<double>& values) {
    return values.size() == 1 ? fmt::format("{:.6g}", values[0])
                              : fmt::format("[{:.6g}, {:.6g}]", values[0], values[1]);
  };
  return fmt::format("    {}: {} [{}], {}{}\n", parameter.name,
                     parameter.size == 1 ? "number" : "[low, high]", parameter.unit, parameter.meaning,
                     parameter.default_value.empty() ? "" : "; default " + numbers(parameter.default_value));
}

// A term as a deck writes it.
std::string term_example(const LibraryTerm& term, const SectionKey& section) {
  std::string text = "term: " + term.name;
  if (term.names_kind != ElementKind::none)
    text += ", " + text_of(term.names_kind) + ": [name, '.*_pattern']";
  if (term.takes_command) text += ", command: velocity";
  for (const TermParameter& parameter : term.parameters)
    if (parameter.default_value.empty())
      text += fmt::format(", {}: {}", parameter.name, parameter.size == 1 ? "1" : "[-1, 1]");
  if (term.kind == TermKind::reward) text += ", weight: 1";
  return (section.named ? "name: {" : "- {") + text + "}";
}

std::string elements_text(const LibraryTerm& term) {
  switch (term.names_default) {
    case DefaultNames::none:
      return term.names_kind == ElementKind::none ? "" : text_of(term.names_kind) + ": must be given";
    case DefaultNames::scalar_joints:
      return "joints: all hinges and slides unless given";
    case DefaultNames::every_joint:
      return "joints: all unless given";
    case DefaultNames::root_body:
      return "bodies: the first one, which must have a free joint, unless given";
    case DefaultNames::tracked_bodies:
      return "bodies: those that the motion_command tracks unless given";
  }
  return "";
}

// The numbers that a term takes or gives, where that is not one.
std::string components_text(const LibraryTerm& term, const TaskModel& model) {
  const std::string kind = text_of(term.names_kind);
  const std::string each = kind == "bodies" ? "body" : kind.substr(0, kind.size() - 1);
  if (term.kind == TermKind::action) return "    components: 1 per " + each + "\n";
  if (term.kind != TermKind::observation) return "";
  if (term.takes_command) return "    components: those of the command\n";
  if (kind == "sensors") return "    components: those of the sensors\n";
  TermConfig config;
  config.term = term.name;
  config.names_kind = term.names_kind;
  if (kind == "bodies") config.names = {"torso"};
  if (kind == "joints") config.names = {"hinge"};
  const std::string text = term.expand(resolve_term(term, config, model, term.name, term.kind)).at(0).text;
  if (text == "action") return "    components: those of the actions\n";
  return fmt::format("    components: {}{}\n", evaluated(model, text).size,
                     kind.empty() || term.names_default == DefaultNames::root_body ? "" : " per " + each);
}

// "1 body", "4 bodies".
std::string plural(const std::string& kind, std::size_t count) {
  if (count == 1) return kind;
  return kind.ends_with("y") ? kind.substr(0, kind.size() - 1) + "ies" : kind + "s";
}

// Listing of the quantities of a context; `totals`: of a model, whose numbers and names count.
std::string quantity_rows(const ExpressionContext& context, bool totals) {
  std::string text =
      padded("# quantity", 22) + padded("components", 22) + padded("unit", 18) + "meaning; example\n";
  for (const auto& [name, quantity] : context.quantities()) {
    if (totals && quantity.size == 0) continue;
    std::string size = std::to_string(quantity.size);
    if (!quantity.element_kind.empty())
      size = totals ? fmt::format("{} ({} {})", quantity.size, quantity.elements.size(),
                                  plural(quantity.element_kind, quantity.elements.size()))
                    : fmt::format("{} per {}", quantity.row, quantity.element_kind);
    std::string example = name;
    if (!quantity.elements.empty())
      example += "['" + quantity.elements.back().name + "']";
    else if (quantity.size > 1)
      example += "[0]";
    const char* const known = quantity.in_reset ? " (in resets, too)"
                              : quantity.in_act ? " (in events, too)"
                                                : "";
    text += padded(name, 22) + padded(size, 22) + padded(quantity.unit, 18) + quantity.description + known +
            "; " + example + "\n";
  }
  return text;
}

// The fields that events may set.
std::string field_rows() {
  std::string rows;
  for (const VaryingField& field : varying_fields(ImportedModel()))
    rows += fmt::format("  field: {}\n    {}{} [{}]\n", field.name, field.description,
                        field.row > 1 ? fmt::format(", components 0 to {}", field.row - 1) : "", field.unit);
  return rows +
         "  field: actuator_kp\n    stiffness of position servos: gain and bias by length together\n"
         "  field: actuator_kd\n    damping of position servos: bias by velocity\n"
         "    name: {field: body_mass, bodies: [name, '.*_pattern'], mode: startup, operation: scale, "
         "ranges: [0.8, 1.2]}\n";
}

}  // namespace

std::string terms_text() {
  const TaskModel model = one_of_everything();
  std::string text;
  for (const SectionKey& section : section_schema()) {
    std::string rows;
    const std::vector<std::string> keys = term_keys(section.kind);
    for (const LibraryTerm& term : term_library()) {
      if (term.kind != section.kind) continue;
      rows += "  " + term.name + "\n    " + term.meaning + "\n";
      if (const std::string elements = elements_text(term); !elements.empty())
        rows += "    " + elements + "\n";
      rows += components_text(term, model);
      for (const TermParameter& parameter : term.parameters) rows += parameter_text(parameter);
      if (!keys.empty()) rows += "    keys: " + list(keys) + "\n";
      rows += "    " + term_example(term, section) + "\n";
    }
    if (section.kind == TermKind::event)
      rows = "  with the terms of resets, and fields of the model; keys of both: " + list(keys) + "\n" +
             field_rows();
    if (section.kind == TermKind::variable || section.kind == TermKind::curriculum ||
        section.kind == TermKind::metric)
      rows = "  by expressions\n" + rows;
    text += "task." + section.name + ": " + section.meaning + "\n" +
            (rows.empty() ? "  with the terms of observations; keys: " + list(keys) + "\n" : rows);
  }
  return text;
}

std::string functions_text() {
  const TaskModel model = one_of_everything();
  std::string text =
      "# operators: + - * / ^, < <= > >= == !=, && || !, condition ? a : b; numbers and vectors mix, "
      "component by\n"
      "# component; vectors are [a, b], their parts v[0], v[1:3], v[::2], v.x to v.w; named elements are\n"
      "# qpos[hinge], qpos['pattern.*']; prev(variable) is its previous value; true is 1 and false 0\n"
      "# function: meaning; example and its value, or the number of components\n";
  for (const ExpressionFunction& function : expression_functions()) {
    const Evaluated result = evaluated(model, function.example);
    text += fmt::format("{}({})\n    {}\n    {} -> {}\n", function.name, function.arguments, function.meaning,
                        function.example,
                        result.numbers.empty() ? counted(result.size, "component") : result.numbers);
  }
  return text;
}

std::string metrics_text() {
  std::string text = "# metric of curricula: unit, meaning\n";
  const auto add = [&](const std::string& name, const std::string& unit, const std::string& meaning) {
    text += padded(name, 22) + padded(unit, 18) + meaning + "\n";
  };
  for (const CurriculumMetric& metric : curriculum_metrics()) add(metric.name, metric.unit, metric.meaning);
  add("dt", "s", "duration of a control step");
  add("max_episode_steps", "1", "control steps of the longest episode; 0: endless");
  add("<definition>", "task", "a definition of the task that uses only the numbers of this list");
  add("reward_<name>", "reward", "part of episode_return that this reward makes up");
  add("termination_<name>", "1", "share of the ended episodes in whose last step this termination held");
  add("metric_<name>", "task", "mean of this metric over the ended episodes");
  add("mean_<variable>", "of the variable",
      "its mean over the environments; of a vector mean_<variable>_0 ...");
  return text +
         "# An update that reads episode_return, mean_episode_steps, episode_return_100, reward_*, "
         "termination_* or metric_* waits\n"
         "# where no episode ended in an iteration (episodes is 0): its curriculum keeps its value until "
         "some do.\n";
}

std::string quantities_text() {
  const TaskModel model = one_of_everything();
  return quantity_rows(ExpressionContext(model, 1, kListedStep, 0, 0, {}, {}, motion_quantities(model)),
                       false);
}

std::string quantities_text(const Prepared& prepared, const TaskConfig& config) {
  TaskModel model = task_model(prepared.model);
  const CompiledTask& task = prepared.task;
  model.motion = task.motion;
  const ExpressionContext context(model, task.num_actions, control_step(prepared.model, task.step_dt),
                                  config.episode_length, task.max_episode_steps, {}, {},
                                  motion_quantities(model));
  std::string text = quantity_rows(context, true);
  for (const CompiledVariable& variable : task.variables)
    if (!variable.name.starts_with(kOwnVariable))
      text += padded(variable.name, 22) + padded(std::to_string(variable.size), 22) + padded("task", 18) +
              (variable.is_command ? "command" : "variable") + " of the task, in trajectories " +
              variable.field() + "\n";
  for (const CompiledCurriculum& curriculum : task.curricula)
    text += padded(curriculum.name, 22) + padded("1", 22) + padded("task", 18) + "curriculum of the task\n";
  if (config.present)
    for (const auto& [name, meaning] :
         {std::pair{"terminated",
                    "in rewards: 1 where the episode ended in this step, by a failure or by success"},
          {"time_out", "in rewards: 1 where the episode reached its time limit in this step"}})
      text += padded(name, 22) + padded("1", 22) + padded("1", 18) + meaning + "\n";
  for (const auto& [name, expression] : config.definitions)
    text += padded(name, 22) + padded("", 22) + padded("task", 18) + "definition: " + expression + "\n";
  return text;
}

std::string listed_as(const std::string& name) {
  constexpr std::size_t kTermIndent = 2;
  std::string found;
  for (const std::string& list : {terms_text(), functions_text(), metrics_text(), quantities_text()}) {
    std::istringstream lines(list);
    std::string heading;
    std::size_t entry = std::string::npos;  // indent of the entry that is being copied
    for (std::string line; std::getline(lines, line);) {
      const std::size_t indent = line.find_first_not_of(' ');
      if (entry != std::string::npos && indent > entry) {
        found += line + "\n";
        continue;
      }
      entry = std::string::npos;
      const std::string first = line.substr(indent, line.find_first_of(" (:", indent) - indent);
      if (first == name && indent <= kTermIndent) {
        found += (indent > 0 ? heading + "\n" : "") + line + "\n";
        entry = indent;
      }
      if (indent == 0) heading = line;
    }
  }
  return found;
}

}  // namespace maniple
