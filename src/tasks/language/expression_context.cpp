// The table of quantities: every field of State and Data by its own name, then what is computed from them
// (joint and body quantities), then the numbers of the task itself. A new quantity for expressions is one
// more entry here; the compiler and the kernels know none of them.
#include "src/tasks/language/expression_context.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>
#include <utility>

#include "kernels/tasks/task_fields.hpp"
#include "src/tasks/language/expression_compiler.hpp"
#include "src/tasks/language/expression_functions.hpp"

namespace maniple {
namespace {

using Node = ExpressionGraph::Node;
using Component = Quantity::Component;

// ---- the numbers of a quantity ----

// Neighbouring elements of a bank.
Component in_bank(Bank bank, int first) {
  return [bank, first](ExpressionCompiler& compiler, int i) { return compiler.read(bank, first + i); };
}

// These elements of the state.
Component in_state(std::vector<int> elements) {
  return [elements = std::move(elements)](ExpressionCompiler& compiler, int i) {
    return compiler.read(Bank::state, elements[static_cast<std::size_t>(i)]);
  };
}

Component constants(std::vector<double> values) {
  return [values = std::move(values)](ExpressionCompiler& compiler, int i) {
    return compiler.graph().constant(values[static_cast<std::size_t>(i)]);
  };
}

// Sum of products a[i] * b[i], without the terms whose factor is the number 0.
Node dot_product(ExpressionGraph& graph, const std::vector<std::pair<Node, Node>>& factors) {
  const auto is_zero = [&](Node node) { return graph.is_constant(node) && graph.constant_value(node) == 0; };
  Node sum = graph.constant(0);
  for (const auto& [a, b] : factors)
    if (!is_zero(a) && !is_zero(b))
      sum = graph.apply(Operation::add, sum, graph.apply(Operation::multiply, a, b));
  return sum;
}

// ---- the names of its elements ----

// `width` numbers per model element.
std::vector<Quantity::Element> rows(const std::vector<std::string>& names, int width) {
  std::vector<Quantity::Element> elements;
  for (std::size_t i = 0; i < names.size(); ++i)
    elements.push_back({names[i], static_cast<int>(i) * width, width});
  return elements;
}

std::vector<Quantity::Element> by_qpos(const TaskModel& model) {
  std::vector<Quantity::Element> elements;
  for (const TaskJoint& joint : model.joints)
    elements.push_back({joint.name, joint.qposadr, joint.qpos_size});
  return elements;
}

// `width` numbers per degree of freedom.
std::vector<Quantity::Element> by_dof(const TaskModel& model, int width) {
  std::vector<Quantity::Element> elements;
  for (const TaskJoint& joint : model.joints)
    elements.push_back({joint.name, width * joint.dofadr, width * joint.dof_size});
  return elements;
}

std::vector<Quantity::Element> by_activation(const TaskModel& model) {
  std::vector<Quantity::Element> elements;
  for (const TaskActuator& actuator : model.actuators)
    if (actuator.actnum > 0) elements.push_back({actuator.name, actuator.actadr, actuator.actnum});
  return elements;
}

std::vector<Quantity::Element> by_sensor(const TaskModel& model) {
  std::vector<Quantity::Element> elements;
  for (const TaskSensor& sensor : model.sensors) elements.push_back({sensor.name, sensor.adr, sensor.dim});
  return elements;
}

// The names of the elements of a field of State or Data.
void name_elements(Quantity& field, FieldElement element, const TaskModel& model) {
  const auto named = [&](const char* kind, std::vector<Quantity::Element> elements, int row = 1) {
    field.element_kind = kind;
    field.elements = std::move(elements);
    field.row = row;
  };
  const auto named_rows = [&](const char* kind, const std::vector<std::string>& names) {
    const int row = names.empty() ? 0 : field.size / static_cast<int>(names.size());
    named(kind, rows(names, row), row);
  };
  switch (element) {
    case FieldElement::none:
      return;
    case FieldElement::qpos:
      return named("joint", by_qpos(model));
    case FieldElement::dof: {
      const int row = model.sizes.nv > 0 ? field.size / model.sizes.nv : 0;
      return named("joint", by_dof(model, row), row);
    }
    case FieldElement::joint:
      return named_rows("joint", names_of(model.joints));
    case FieldElement::body:
      return named_rows("body", model.bodies);
    case FieldElement::geom:
      return named_rows("geom", model.geoms);
    case FieldElement::pair:
      return named_rows("pair", model.pairs);
    case FieldElement::site:
      return named_rows("site", model.sites);
    case FieldElement::tendon:
      return named_rows("tendon", model.tendons);
    case FieldElement::equality:
      return named_rows("equality", model.equalities);
    case FieldElement::mocap:
      return named_rows("mocap body", model.mocap_bodies);
    case FieldElement::actuator:
      return named_rows("actuator", names_of(model.actuators));
    case FieldElement::control:
      return named_rows("actuator", names_of(model.controls));
    case FieldElement::activation:
      return named("actuator", by_activation(model));
    case FieldElement::sensor:
      return named("sensor", by_sensor(model));
  }
}

}  // namespace

void ExpressionContext::add_fields(const TaskModel& model) {
  const auto add_field = [&](const FieldInfo& field, Bank bank, bool in_reset) {
    Quantity quantity{.name = field.name,
                      .unit = field.unit,
                      .description = field.description,
                      .size = field.size,
                      .in_reset = in_reset,
                      .component = in_bank(bank, field.first)};
    name_elements(quantity, field.element, model);
    add(std::move(quantity));
  };
  for (const FieldInfo& field : state_fields(model.sizes))
    if (std::string_view(field.name) != "model_values") add_field(field, Bank::state, true);
  for (const FieldInfo& field : data_fields(model.sizes)) add_field(field, Bank::data, false);
}

// Fields of the model that events may set, as each environment has them, and as the model does.
void ExpressionContext::add_model_fields(const TaskModel& model) {
  const int first = field_named(state_fields(model.sizes), "model_values").first;
  for (const VaryingField& field : model.fields) {
    const int offset = model.sizes.varied.*(field.offset);
    Quantity quantity{
        .name = field.name,
        .unit = field.unit,
        .description = field.description,
        .size = static_cast<int>(field.values.size()),
        .in_reset = true,
        .component = offset < 0 ? constants(field.values) : in_bank(Bank::state, first + offset)};
    name_elements(quantity, field.element, model);
    if (field.element == FieldElement::none) quantity.row = 1;
    add(quantity);
    quantity.name = "default_" + field.name;
    quantity.description += ", in the model";
    quantity.component = constants(field.values);
    if (field.name != "qpos0") add(std::move(quantity));  // default_qpos
  }
}

// Positions and velocities of the joints that have one, in the order of the model.
void ExpressionContext::add_joint_quantities(const TaskModel& model) {
  const std::vector<FieldInfo> state = state_fields(model.sizes);
  const int qpos = field_named(state, "qpos").first, qvel = field_named(state, "qvel").first;
  std::vector<int> positions, velocities;
  std::vector<double> default_positions, default_velocities;
  std::vector<std::string> names;
  std::vector<const TaskJoint*> scalar;
  for (const TaskJoint& joint : model.joints) {
    if (!joint.is_scalar()) continue;
    names.push_back(joint.name);
    scalar.push_back(&joint);
    positions.push_back(qpos + joint.qposadr);
    velocities.push_back(qvel + joint.dofadr);
    default_positions.push_back(model.qpos0[static_cast<std::size_t>(joint.qposadr)]);
    default_velocities.push_back(model.qvel0[static_cast<std::size_t>(joint.dofadr)]);
  }
  const auto joints = [&](const char* name, const char* unit, const char* description, Component component) {
    add({.name = name,
         .unit = unit,
         .description = description,
         .size = static_cast<int>(names.size()),
         .element_kind = "joint",
         .elements = rows(names, 1),
         .in_reset = true,
         .component = std::move(component)});
  };
  joints("joint_pos", "m or rad", "position of each hinge and slide joint", in_state(positions));
  joints("joint_vel", "m/s or rad/s", "velocity of each hinge and slide joint", in_state(velocities));
  joints("default_joint_pos", "m or rad", "default position of each hinge and slide joint",
         constants(default_positions));
  joints("default_joint_vel", "m/s or rad/s", "default velocity of each hinge and slide joint",
         constants(default_velocities));
  const auto normalized = [scalar, positions](ExpressionCompiler& compiler, int i) {
    const auto place = static_cast<std::size_t>(i);
    const TaskJoint& joint = *scalar[place];
    ExpressionGraph& graph = compiler.graph();
    const Node position = compiler.read(Bank::state, positions[place]);
    if (!joint.limited) return position;
    const Node middle = graph.constant((joint.low + joint.high) / 2);
    const Node twice = graph.apply(Operation::multiply, graph.constant(2),
                                   graph.apply(Operation::subtract, position, middle));
    return graph.apply(Operation::divide, twice, graph.constant(joint.high - joint.low));
  };
  joints("joint_pos_limit_normalized", "1",
         "position of each hinge and slide joint, -1 and 1 at the ends of its range, if it has one",
         normalized);
  add({.name = "default_qpos",
       .unit = "m or rad",
       .description = "default generalized position, of the model or of task.keyframe",
       .size = model.sizes.nq,
       .element_kind = "joint",
       .elements = by_qpos(model),
       .in_reset = true,
       .component = constants(model.qpos0)});
  add({.name = "default_qvel",
       .unit = "m/s or rad/s",
       .description = "default generalized velocity, 0 or that of task.keyframe",
       .size = model.sizes.nv,
       .element_kind = "joint",
       .elements = by_dof(model, 1),
       .in_reset = true,
       .component = constants(model.qvel0)});
}

// Velocities of the body frame's origin and gravity, in the world's axes and in the body's own.
void ExpressionContext::add_body_quantities(const TaskModel& model) {
  const std::vector<FieldInfo> fields = data_fields(model.sizes);
  const int xpos = field_named(fields, "xpos").first, xmat = field_named(fields, "xmat").first,
            cvel = field_named(fields, "cvel").first, subtree_com = field_named(fields, "subtree_com").first;

  // World vectors by body and axis.
  // cvel is the velocity at the center of mass of the body's tree: v(x) = v(com) + w cross (x - com).
  const auto linear_velocity = [=, root = model.body_root](ExpressionCompiler& compiler, int body, int axis) {
    ExpressionGraph& graph = compiler.graph();
    const auto data = [&](int element) { return compiler.read(Bank::data, element); };
    const int com = subtree_com + 3 * root[static_cast<std::size_t>(body)];
    // w[rate] * (x - com)[k]; one node after the other, so that every compiler numbers them alike.
    const auto product = [&](int rate, int k) {
      const Node center = data(com + k);
      const Node arm = graph.apply(Operation::subtract, data(xpos + 3 * body + k), center);
      return graph.apply(Operation::multiply, data(cvel + 6 * body + rate), arm);
    };
    const int j = (axis + 1) % 3, k = (axis + 2) % 3;
    const Node second = product(k, j);
    const Node turned = graph.apply(Operation::subtract, product(j, k), second);
    return graph.apply(Operation::add, data(cvel + 6 * body + 3 + axis), turned);
  };
  const auto angular_velocity = [=](ExpressionCompiler& compiler, int body, int axis) {
    return compiler.read(Bank::data, cvel + 6 * body + axis);
  };
  const double strength =
      std::sqrt(model.gravity[0] * model.gravity[0] + model.gravity[1] * model.gravity[1] +
                model.gravity[2] * model.gravity[2]);
  std::vector<double> down{0, 0, -1};
  if (strength > 0)
    for (std::size_t k = 0; k < 3; ++k) down[k] = model.gravity[k] / strength;
  const auto gravity = [down, varied = model.sizes.varied.gravity >= 0](ExpressionCompiler& compiler, int,
                                                                        int axis) {
    ExpressionGraph& graph = compiler.graph();
    if (!varied) return graph.constant(down[static_cast<std::size_t>(axis)]);
    const Quantity& own = *compiler.context().quantity("gravity");
    std::vector<std::pair<Node, Node>> squares;
    for (int k = 0; k < 3; ++k) squares.emplace_back(own.component(compiler, k), own.component(compiler, k));
    const Node size = graph.apply(Operation::square_root, dot_product(graph, squares));
    return graph.apply(Operation::divide, own.component(compiler, axis), size);
  };

  const auto in_world = [](const auto& world) -> Component {
    return [=](ExpressionCompiler& compiler, int i) { return world(compiler, i / 3, i % 3); };
  };
  // Component of a world vector along an axis of the body: a column of its rotation matrix.
  const auto in_body = [xmat](const auto& world) -> Component {
    return [=](ExpressionCompiler& compiler, int i) {
      std::vector<std::pair<Node, Node>> factors;
      for (int k = 0; k < 3; ++k) {
        const Node component = world(compiler, i / 3, k);
        factors.emplace_back(compiler.read(Bank::data, xmat + 9 * (i / 3) + 3 * k + i % 3), component);
      }
      return dot_product(compiler.graph(), factors);
    };
  };
  const auto bodies = [&](const char* name, const char* unit, const char* description, Component component) {
    add({.name = name,
         .unit = unit,
         .description = description,
         .size = 3 * model.sizes.nbody,
         .row = 3,
         .element_kind = "body",
         .elements = rows(model.bodies, 3),
         .component = std::move(component)});
  };
  bodies("body_lin_vel", "m/s", "velocity of the body frame's origin, world axes", in_world(linear_velocity));
  bodies("body_ang_vel", "rad/s", "angular velocity of the body, world axes", in_world(angular_velocity));
  bodies("body_lin_vel_b", "m/s", "velocity of the body frame's origin, body axes", in_body(linear_velocity));
  bodies("body_ang_vel_b", "rad/s", "angular velocity of the body, body axes", in_body(angular_velocity));
  bodies("projected_gravity", "1", "direction of gravity in the body's axes", in_body(gravity));

  const auto center_of_mass = [&](const char* name, const char* description, int axis) {
    add({.name = name,
         .unit = "m",
         .description = description,
         .component = in_bank(Bank::data, subtree_com + axis)});
  };
  center_of_mass("com_x", "center of mass of the whole model, x", 0);
  center_of_mass("com_y", "center of mass of the whole model, y", 1);
  center_of_mass("com_z", "center of mass of the whole model, z", 2);
}

// The cell that an environment is on, and how large cells are.
void ExpressionContext::add_terrain_quantities(const TaskModel& model, int num_actions) {
  const TaskLayout layout = task_layout({.num_actions = num_actions, .num_terrains = 1});
  const auto add_field = [&](const char* name, const char* unit, const char* description, int size,
                             int first) {
    add({.name = name,
         .unit = unit,
         .description = description,
         .size = size,
         .in_reset = true,
         .in_act = true,
         .component = in_bank(Bank::task, first)});
  };
  add_field(kTerrainLevel, "1", "row of the environment's cell of the terrain, from 0", 1,
            layout.terrain_level);
  add_field("terrain_type", "1", "number of the cell's sub-terrain, in the order of the deck, from 0", 1,
            layout.terrain_type);
  add_field("terrain_origin", "m", "where robots stand in the cell: its middle, at the height of the ground",
            3, layout.terrain_origin);
  add({.name = "terrain_size",
       .unit = "m",
       .description = "size of a cell of the terrain, along x and y",
       .size = 2,
       .in_reset = true,
       .in_act = true,
       .component = constants({model.terrain->size[0], model.terrain->size[1]})});
}

ExpressionContext::ExpressionContext(const TaskModel& model, int num_actions, const ControlStep& step,
                                     double episode_length, std::int64_t max_episode_steps,
                                     const std::map<std::string, ExpressionSource>& definitions,
                                     const std::map<std::string, TaskVariable>& variables,
                                     const std::vector<Quantity>& quantities)
    : model_(model), control_step_(step), variables_(variables) {
  add_fields(model);
  add_model_fields(model);
  add_joint_quantities(model);
  add_body_quantities(model);

  const auto number = [&](const char* name, const char* unit, const char* description, double value) {
    add({.name = name,
         .unit = unit,
         .description = description,
         .in_reset = true,
         .component = constants({value})});
  };
  number("pi", "1", "3.14159...", std::numbers::pi);
  number("inf", "1", "infinity", std::numeric_limits<double>::infinity());
  number("dt", "s", "duration of a control step", step.dt);
  number("episode_length", "s", "longest episode of the task; 0: endless", episode_length);
  number("max_episode_steps", "1", "control steps of the longest episode; 0: endless",
         static_cast<double>(max_episode_steps));

  // The size of prev()'s memory is not known yet; only fields behind the memory would need it.
  const TaskLayout layout = task_layout({.num_actions = num_actions,
                                         .num_terrains = model.terrain ? 1 : 0,
                                         .num_motions = model.motion ? 1 : 0});
  memory_first_ = layout.memory;
  add({.name = "episode_step",
       .unit = "1",
       .description = "control steps since the reset",
       .in_act = true,
       .component = in_bank(Bank::registers, register_episode_step)});
  add({.name = "action",
       .unit = "1",
       .description = "action of this control step, as the policy gave it",
       .size = num_actions,
       .in_act = true,
       .component = in_bank(Bank::task, layout.action)});
  add({.name = "last_action",
       .unit = "1",
       .description = "action of the control step before",
       .size = num_actions,
       .in_act = true,
       .component = in_bank(Bank::task, layout.last_action)});

  if (model.terrain) add_terrain_quantities(model, num_actions);
  motion_frame_ = layout.motion_frame;
  for (const Quantity& quantity : quantities) add(quantity);
  for (const auto& [name, variable] : variables)
    mistakes_.gather([&, of = name, reset = variable.reset] { check_name(of, reset, "variable"); });
  for (const auto& [name, source] : definitions)
    mistakes_.gather([&, of = name, text = source] { add_definition(of, text); });
  mistakes_.throw_any();  // any term may use them
}

void ExpressionContext::add_curriculum(const std::string& name, const ExpressionSource& update) {
  check_name(name, update, "curriculum");
  if (variables_.contains(name) || definitions_.contains(name))
    throw InputError(update.where, update.key,
                     "'" + name + "' is already the name of a variable or definition",
                     "choose another name for the curriculum");
  add({.name = name,
       .unit = "task",
       .description = "curriculum of the task",
       .in_reset = true,
       .component = in_bank(Bank::constants, num_curricula_++)});
}

void ExpressionContext::add(Quantity quantity) {
  const std::string name = quantity.name;
  quantities_.insert_or_assign(name, std::move(quantity));
}

void ExpressionContext::check_name(const std::string& name, const ExpressionSource& source,
                                   const std::string& what) const {
  if (quantity(name) || find_function(name) || name == "terminated" || name == "time_out")
    throw InputError(source.where, source.key, "'" + name + "' is already the name of a quantity or function",
                     "choose another name for the " + what);
  if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") !=
          std::string::npos ||
      name.empty() || (name[0] >= '0' && name[0] <= '9'))
    throw InputError(source.where, source.key, "'" + name + "' is not a name",
                     "names have letters, digits and _, and do not start with a digit");
}

void ExpressionContext::add_definition(const std::string& name, const ExpressionSource& source) {
  check_name(name, source, "definition");
  if (variables_.contains(name))
    throw InputError(source.where, source.key, "'" + name + "' is already the name of a variable",
                     "choose another name for the definition");
  ParsedExpression& definition = definitions_[name];
  definition.source = source;
  definition.tree = parse_expression(definition.source);
}

std::string ExpressionContext::own_variable(const std::string& call, TaskVariable variable) {
  // letters for the signs of the call, which a name cannot have
  std::string name = kOwnVariable;
  for (const char c : call) {
    const auto code = static_cast<unsigned char>(c);
    name += std::isalnum(code) ? std::string(1, c) : "_" + std::to_string(code);
  }
  if (!variables_.contains(name)) missing_[name] = std::move(variable);
  return name;
}

const Quantity* ExpressionContext::quantity(const std::string& name) const {
  const auto found = quantities_.find(name);
  return found == quantities_.end() ? nullptr : &found->second;
}

const ParsedExpression* ExpressionContext::definition(const std::string& name) const {
  const auto found = definitions_.find(name);
  return found == definitions_.end() ? nullptr : &found->second;
}

const ParsedExpression& ExpressionContext::parse(const ExpressionSource& source) {
  expressions_.push_back({source, parse_expression(source)});
  return expressions_.back();
}

int ExpressionContext::contact_query(const ContactGroups& groups) {
  const auto& [first, second] = groups;
  std::vector<int> sides;
  for (const auto& [geom1, geom2] : model_.geom_pairs) {
    const auto g1 = static_cast<std::size_t>(geom1), g2 = static_cast<std::size_t>(geom2);
    sides.push_back(first[g1] && second[g2] ? 1 : first[g2] && second[g1] ? -1 : 0);
  }
  if (std::all_of(sides.begin(), sides.end(), [](int side) { return side == 0; })) return -1;
  const auto known = std::find(contact_queries_.begin(), contact_queries_.end(), sides);
  const auto query = known - contact_queries_.begin();
  if (known == contact_queries_.end()) contact_queries_.push_back(std::move(sides));
  return static_cast<int>(query);
}

int ExpressionContext::ray_query(const RayRequest& request) {
  int first = 0;
  for (const RayRequest& known : ray_queries_) {
    if (known == request) return first;
    first += known.num_rays();
  }
  ray_queries_.push_back(request);
  return first;
}

const ExpressionContext::Memory& ExpressionContext::remember(const Syntax& tree,
                                                             const ExpressionSource& source,
                                                             std::size_t size) {
  const std::string canonical = tree.canonical();
  const auto known = std::find_if(memory_.begin(), memory_.end(),
                                  [&](const Memory& memory) { return memory.canonical == canonical; });
  if (known != memory_.end()) return *known;
  memory_.push_back({canonical, &tree, &source, memory_first_ + memory_size_, static_cast<int>(size)});
  memory_size_ += static_cast<int>(size);
  return memory_.back();
}

}  // namespace maniple
