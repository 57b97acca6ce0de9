#include "src/simulation/expression_compiler.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "kernels/tasks/task_fields.hpp"
#include "src/config/schema.hpp"

namespace maniple {
namespace {

using Node = ExpressionGraph::Node;
using Value = ExpressionCompiler::Value;

// "a, b, c", cut after a screenful.
std::string list(const std::vector<std::string>& names) {
  constexpr std::size_t limit = 60;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < limit; ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() > limit ? text + ", ..." : text;
}

std::string did_you_mean(const std::string& unknown, const std::vector<std::string>& known) {
  const std::string near = nearest(unknown, known);
  return near.empty() ? "" : ", did you mean '" + near + "'?";
}

std::string shape(const Value& value) {
  return value.size() == 1 ? "a number" : "a vector of " + std::to_string(value.size());
}

// Fields of Data that position and velocity stages fill; the others need mj_forward.
bool is_kinematic(const std::string& field) {
  static const std::vector<std::string> names{"xpos",
                                              "xquat",
                                              "xmat",
                                              "xipos",
                                              "ximat",
                                              "xanchor",
                                              "xaxis",
                                              "site_xpos",
                                              "site_xmat",
                                              "subtree_com",
                                              "cinert",
                                              "cdof",
                                              "cvel",
                                              "cdof_dot",
                                              "actuator_length",
                                              "actuator_velocity"};
  return std::find(names.begin(), names.end(), field) != names.end();
}

// Elements of a quantity that has `width` numbers per model element.
std::vector<Quantity::Element> rows(const std::vector<std::string>& names, int width) {
  std::vector<Quantity::Element> elements;
  for (std::size_t i = 0; i < names.size(); ++i)
    elements.push_back({names[i], static_cast<int>(i) * width, width});
  return elements;
}

// Sum of products a[i] * b[i], without the terms whose factor is the number 0.
Node dot_product(ExpressionGraph& graph, const std::vector<std::pair<Node, Node>>& factors) {
  Node sum = graph.constant(0);
  for (const auto& [a, b] : factors) {
    if ((graph.is_constant(a) && graph.constant_value(a) == 0) ||
        (graph.is_constant(b) && graph.constant_value(b) == 0))
      continue;
    sum = graph.apply(Operation::add, sum, graph.apply(Operation::multiply, a, b));
  }
  return sum;
}

// Functions that work component by component.
struct Elementwise {
  const char* name;
  Operation operation;
};
constexpr Elementwise kElementwise[] = {
    {"abs", Operation::absolute},       {"sqrt", Operation::square_root},
    {"exp", Operation::exponential},    {"log", Operation::logarithm},
    {"sin", Operation::sine},           {"cos", Operation::cosine},
    {"tan", Operation::tangent},        {"tanh", Operation::hyperbolic_tangent},
    {"asin", Operation::arc_sine},      {"acos", Operation::arc_cosine},
    {"sign", Operation::sign},          {"floor", Operation::floor},
    {"atan2", Operation::arc_tangent2}, {"select", Operation::select},
};

struct Arity {
  int least, most;  // most = -1: any number
};

Arity arity(const std::string& function) {
  for (const Elementwise& known : kElementwise)
    if (function == known.name) {
      const int count = operand_count(known.operation);
      return {count, count};
    }
  if (function == "clamp") return {3, 3};
  if (function == "min" || function == "max") return {1, -1};
  if (function == "pow" || function == "dot" || function == "cross" || function == "quat_mul") return {2, 2};
  if (function == "quat_from_euler") return {3, 3};
  if (function == "uniform" || function == "normal") return {2, 3};
  return {1, 1};
}

std::string assigned_names() {
  return "qpos, qvel, act, joint_pos or joint_vel, whole or with [elements]";
}

}  // namespace

const std::vector<ExpressionFunction>& expression_functions() {
  static const std::vector<ExpressionFunction> functions{
      {"abs", "x", "absolute value"},
      {"acos", "x", "arc cosine [rad]"},
      {"all", "x", "1 if no component is 0"},
      {"any", "x", "1 if some component is not 0"},
      {"asin", "x", "arc sine [rad]"},
      {"atan2", "y, x", "angle of the point (x, y) [rad]"},
      {"clamp", "x, low, high", "x limited to [low, high]"},
      {"cos", "x", "cosine of x [rad]"},
      {"cross", "a, b", "cross product of two vectors of 3"},
      {"dot", "a, b", "scalar product"},
      {"exp", "x", "e to the x"},
      {"floor", "x", "largest integer not above x"},
      {"log", "x", "natural logarithm"},
      {"max", "x or a, b, ...", "largest component, or component by component the largest argument"},
      {"mean", "x", "mean of the components"},
      {"min", "x or a, b, ...", "smallest component, or component by component the smallest argument"},
      {"norm", "x", "Euclidean length"},
      {"normal", "mean, std[, n]", "Gaussian random numbers (resets only)"},
      {"pow", "a, b", "a ^ b"},
      {"prev", "x", "x at the previous control step; right after a reset, at the reset"},
      {"quat_from_euler", "roll, pitch, yaw",
       "quaternion (w, x, y, z) of turns about x, then y, then z [rad]"},
      {"quat_mul", "a, b", "product of two quaternions (w, x, y, z)"},
      {"select", "c, a, b", "a where c is true, else b; the same as c ? a : b"},
      {"sign", "x", "-1, 0 or 1"},
      {"sin", "x", "sine of x [rad]"},
      {"sqrt", "x", "square root"},
      {"square", "x", "x * x"},
      {"sum", "x", "sum of the components"},
      {"tan", "x", "tangent of x [rad]"},
      {"tanh", "x", "hyperbolic tangent"},
      {"uniform", "low, high[, n]", "uniform random numbers in [low, high) (resets only)"},
      {"wrap_to_pi", "x", "the angle x [rad] brought to [-pi, pi)"},
  };
  return functions;
}

static std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const ExpressionFunction& function : expression_functions()) names.push_back(function.name);
  return names;
}

// ---- the quantities ----

void ExpressionContext::add(Quantity quantity) {
  const std::string name = quantity.name;
  quantities_.insert_or_assign(name, std::move(quantity));
}

const Quantity* ExpressionContext::find(const std::string& name) const {
  const auto found = quantities_.find(name);
  return found == quantities_.end() ? nullptr : &found->second;
}

ExpressionContext::ExpressionContext(const TaskModel& model, int num_actions, double step_dt,
                                     double episode_length, std::int64_t max_episode_steps,
                                     const std::map<std::string, ExpressionSource>& definitions) {
  TaskSizes sizes;
  sizes.num_actions = num_actions;
  const TaskLayout layout = task_layout(sizes);
  memory_first_ = layout.memory;

  const auto bank = [](Bank which, int first) {
    return [which, first](ExpressionCompiler& compiler, int i) { return compiler.read(which, first + i); };
  };
  const auto numbers = [](std::vector<double> values) {
    return [values](ExpressionCompiler& compiler, int i) {
      return compiler.graph().constant(values[static_cast<std::size_t>(i)]);
    };
  };

  // How the elements of a field are named.
  std::vector<Quantity::Element> by_qpos, by_dof, by_act, by_sensor;
  for (const TaskJoint& joint : model.joints) {
    by_qpos.push_back({joint.name, joint.qposadr, joint.qpos_size});
    by_dof.push_back({joint.name, joint.dofadr, joint.dof_size});
  }
  for (const TaskActuator& actuator : model.actuators)
    if (actuator.actadr >= 0) by_act.push_back({actuator.name, actuator.actadr, actuator.actnum});
  for (const TaskSensor& sensor : model.sensors) by_sensor.push_back({sensor.name, sensor.adr, sensor.dim});
  const std::vector<std::string> joint_names = names_of(model.joints);
  const std::vector<std::string> actuator_names = names_of(model.actuators);

  const auto name_elements = [&](Quantity& quantity) {
    const std::string& name = quantity.name;
    const auto named = [&](const char* kind, std::vector<Quantity::Element> elements, int row = 1) {
      quantity.element_kind = kind;
      quantity.elements = std::move(elements);
      quantity.row = row;
    };
    const int size = quantity.size;
    const auto per = [&](int count) { return count > 0 ? size / count : 0; };
    if (name == "qpos")
      named("joint", by_qpos);
    else if (name == "act" || name == "act_dot")
      named("actuator", by_act);
    else if (name == "ctrl" || name.starts_with("actuator_"))
      named("actuator", rows(actuator_names, 1));
    else if (name == "sensordata")
      named("sensor", by_sensor);
    else if (name == "xanchor" || name == "xaxis")
      named("joint", rows(joint_names, 3), 3);
    else if (name.starts_with("site_"))
      named("site", rows(model.sites, per(model.sizes.nsite)), per(model.sizes.nsite));
    else if (name == "cdof" || name == "cdof_dot") {
      std::vector<Quantity::Element> elements = by_dof;
      for (Quantity::Element& element : elements)
        element = {element.name, 6 * element.first, 6 * element.size};
      named("joint", elements, 6);
    } else if (name.starts_with("x") || name == "subtree_com" || name == "cinert" || name == "crb" ||
               name == "cvel" || name == "cacc" || name == "cfrc_body") {
      named("body", rows(model.bodies, per(model.sizes.nbody)), per(model.sizes.nbody));
    } else if (name.starts_with("q") && size == model.sizes.nv && name != "qM" && name != "qLD") {
      named("joint", by_dof);
    }
  };

  for (const FieldInfo& field : state_fields(model.sizes)) {
    Quantity quantity;
    quantity.name = field.name;
    quantity.unit = field.unit;
    quantity.description = field.description;
    quantity.size = field.size;
    quantity.in_reset = true;
    quantity.node = bank(Bank::state, field.first);
    name_elements(quantity);
    add(quantity);
  }
  for (const FieldInfo& field : data_fields(model.sizes)) {
    Quantity quantity;
    quantity.name = field.name;
    quantity.unit = field.unit;
    quantity.description = field.description;
    quantity.size = field.size;
    quantity.derived = is_kinematic(field.name) ? Derived::kinematics : Derived::forward;
    quantity.node = bank(Bank::data, field.first);
    name_elements(quantity);
    add(quantity);
  }

  // Positions and velocities of the joints that have one, in the order of the model.
  int qpos_first = 0, qvel_first = 0;
  for (const FieldInfo& field : state_fields(model.sizes)) {
    if (std::string(field.name) == "qpos") qpos_first = field.first;
    if (std::string(field.name) == "qvel") qvel_first = field.first;
  }
  std::vector<int> positions, velocities;
  std::vector<double> default_positions;
  std::vector<std::string> scalar_joints;
  for (const TaskJoint& joint : model.joints) {
    if (!joint.is_scalar()) continue;
    scalar_joints.push_back(joint.name);
    positions.push_back(qpos_first + joint.qposadr);
    velocities.push_back(qvel_first + joint.dofadr);
    default_positions.push_back(model.qpos0[static_cast<std::size_t>(joint.qposadr)]);
  }
  const auto joint_quantity = [&](const char* name, const char* unit, const char* description,
                                  std::function<Node(ExpressionCompiler&, int)> node) {
    Quantity quantity{name,
                      unit,
                      description,
                      static_cast<int>(scalar_joints.size()),
                      1,
                      "joint",
                      rows(scalar_joints, 1),
                      true,
                      Derived::none,
                      std::move(node)};
    add(quantity);
  };
  const auto gather = [](std::vector<int> elements) {
    return [elements](ExpressionCompiler& compiler, int i) {
      return compiler.read(Bank::state, elements[static_cast<std::size_t>(i)]);
    };
  };
  joint_quantity("joint_pos", "m or rad", "position of each hinge and slide joint", gather(positions));
  joint_quantity("joint_vel", "m/s or rad/s", "velocity of each hinge and slide joint", gather(velocities));
  joint_quantity("default_joint_pos", "m or rad", "position of each hinge and slide joint in the model",
                 numbers(default_positions));
  Quantity default_qpos{"default_qpos",
                        "m or rad",
                        "generalized position in the model",
                        model.sizes.nq,
                        1,
                        "joint",
                        by_qpos,
                        true,
                        Derived::none,
                        numbers(model.qpos0)};
  add(default_qpos);

  // Bodies: velocities of the body frame's origin, in the world's axes and in the body's own.
  const std::map<std::string, int> data_first = [&] {
    std::map<std::string, int> first;
    for (const FieldInfo& field : data_fields(model.sizes)) first[field.name] = field.first;
    return first;
  }();
  const int xpos = data_first.at("xpos"), xmat = data_first.at("xmat"), cvel = data_first.at("cvel"),
            subtree_com = data_first.at("subtree_com");
  const std::vector<int> root = model.body_root;
  // cvel is the velocity at the center of mass of the body's tree: v(x) = v(com) + w cross (x - com).
  const auto linear_velocity = [=](ExpressionCompiler& compiler, int body, int axis) {
    ExpressionGraph& graph = compiler.graph();
    const auto data = [&](int element) { return compiler.read(Bank::data, element); };
    const int com = subtree_com + 3 * root[static_cast<std::size_t>(body)];
    const auto arm = [&](int k) {
      return graph.apply(Operation::subtract, data(xpos + 3 * body + k), data(com + k));
    };
    const int j = (axis + 1) % 3, k = (axis + 2) % 3;
    const Node turned =
        graph.apply(Operation::subtract, graph.apply(Operation::multiply, data(cvel + 6 * body + j), arm(k)),
                    graph.apply(Operation::multiply, data(cvel + 6 * body + k), arm(j)));
    return graph.apply(Operation::add, data(cvel + 6 * body + 3 + axis), turned);
  };
  const auto angular_velocity = [=](ExpressionCompiler& compiler, int body, int axis) {
    return compiler.read(Bank::data, cvel + 6 * body + axis);
  };
  // Component of a world vector along an axis of the body: a column of its rotation matrix.
  const auto in_body = [=](auto world) {
    return [=](ExpressionCompiler& compiler, int i) {
      std::vector<std::pair<Node, Node>> factors;
      for (int k = 0; k < 3; ++k)
        factors.emplace_back(compiler.read(Bank::data, xmat + 9 * (i / 3) + 3 * k + i % 3),
                             world(compiler, i / 3, k));
      return dot_product(compiler.graph(), factors);
    };
  };
  const auto in_world = [=](auto world) {
    return [=](ExpressionCompiler& compiler, int i) { return world(compiler, i / 3, i % 3); };
  };
  const double strength =
      std::sqrt(model.gravity[0] * model.gravity[0] + model.gravity[1] * model.gravity[1] +
                model.gravity[2] * model.gravity[2]);
  std::vector<double> down{0, 0, -1};
  if (strength > 0)
    for (std::size_t k = 0; k < 3; ++k) down[k] = model.gravity[k] / strength;
  const auto gravity = [down](ExpressionCompiler& compiler, int, int axis) {
    return compiler.graph().constant(down[static_cast<std::size_t>(axis)]);
  };
  const auto body_quantity = [&](const char* name, const char* unit, const char* description,
                                 std::function<Node(ExpressionCompiler&, int)> node) {
    Quantity quantity{name,
                      unit,
                      description,
                      3 * model.sizes.nbody,
                      3,
                      "body",
                      rows(model.bodies, 3),
                      false,
                      Derived::kinematics,
                      std::move(node)};
    add(quantity);
  };
  body_quantity("body_lin_vel", "m/s", "velocity of the body frame's origin, world axes",
                in_world(linear_velocity));
  body_quantity("body_ang_vel", "rad/s", "angular velocity of the body, world axes",
                in_world(angular_velocity));
  body_quantity("body_lin_vel_b", "m/s", "velocity of the body frame's origin, body axes",
                in_body(linear_velocity));
  body_quantity("body_ang_vel_b", "rad/s", "angular velocity of the body, body axes",
                in_body(angular_velocity));
  body_quantity("projected_gravity", "1", "direction of gravity in the body's axes", in_body(gravity));

  const auto number = [&](const char* name, const char* unit, const char* description, bool in_reset,
                          Derived derived, std::function<Node(ExpressionCompiler&, int)> node) {
    add({name, unit, description, 1, 1, "", {}, in_reset, derived, std::move(node)});
  };
  number("com_x", "m", "center of mass of the whole model, x", false, Derived::kinematics,
         bank(Bank::data, subtree_com));
  number("com_y", "m", "center of mass of the whole model, y", false, Derived::kinematics,
         bank(Bank::data, subtree_com + 1));
  number("com_z", "m", "center of mass of the whole model, z", false, Derived::kinematics,
         bank(Bank::data, subtree_com + 2));
  number("pi", "1", "3.14159...", true, Derived::none, numbers({std::numbers::pi}));
  number("dt", "s", "duration of a control step", true, Derived::none, numbers({step_dt}));
  number("episode_length", "s", "longest episode of the task; 0: endless", true, Derived::none,
         numbers({episode_length}));
  number("max_episode_steps", "1", "control steps of the longest episode; 0: endless", true, Derived::none,
         numbers({static_cast<double>(max_episode_steps)}));
  number("episode_step", "1", "control steps since the reset", false, Derived::none,
         bank(Bank::registers, register_episode_step));
  add({"action",
       "1",
       "action of this control step, as the policy gave it",
       num_actions,
       1,
       "",
       {},
       false,
       Derived::none,
       bank(Bank::task, layout.action)});
  add({"last_action",
       "1",
       "action of the control step before",
       num_actions,
       1,
       "",
       {},
       false,
       Derived::none,
       bank(Bank::task, layout.last_action)});

  const std::vector<std::string> functions = function_names();
  for (const auto& [name, source] : definitions) {
    const bool taken = find(name) != nullptr || name == "terminated" || name == "time_out" ||
                       std::find(functions.begin(), functions.end(), name) != functions.end();
    if (taken)
      throw InputError(source.where, source.key,
                       "'" + name + "' is already the name of a quantity or function",
                       "choose another name for the definition");
    if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") !=
            std::string::npos ||
        name.empty() || (name[0] >= '0' && name[0] <= '9'))
      throw InputError(source.where, source.key, "'" + name + "' is not a name",
                       "names have letters, digits and _, and do not start with a digit");
    Definition& definition = definitions_[name];
    definition.source = source;
    definition.tree = parse_expression(definition.source);
  }
}

// ---- compilation ----

Value ExpressionCompiler::compile(const ExpressionSource& source) {
  context_.sources_.push_back(source);
  const ExpressionSource& kept = context_.sources_.back();
  context_.trees_.push_back(parse_expression(kept));
  return value(*context_.trees_.back(), kept);
}

Node ExpressionCompiler::compile_number(const ExpressionSource& source, const std::string& what) {
  const Value result = compile(source);
  if (result.size() != 1)
    refuse_expression(source, 0, what + " must be a number, found " + shape(result),
                      "reduce it with sum, mean, norm, min, max, any or all, or take one element");
  return result[0];
}

Node ExpressionCompiler::read(Bank bank, int index) {
  if (!reading_target_) {
    const auto found = assigned_.find({static_cast<int>(bank), index});
    if (found != assigned_.end()) return found->second;
  }
  return graph_.operand(bank, index);
}

void ExpressionCompiler::assign(const ExpressionSource& target, const ExpressionSource& source) {
  const Value assigned = compile(source);
  reading_target_ = true;
  const Value place = compile(target);
  reading_target_ = false;
  if (assigned.size() != 1 && assigned.size() != place.size())
    refuse_expression(source, 0,
                      shape(assigned) + " is assigned to " + shape(place) + " ('" + target.text + "')",
                      "a number or " + shape(place));
  // qpos, qvel and act are the first fields of the state.
  const int assignable =
      context_.find("qpos")->size + context_.find("qvel")->size + context_.find("act")->size;
  for (std::size_t i = 0; i < place.size(); ++i) {
    int index = -1;
    if (!graph_.is_operand(place[i], Bank::state, index) || index >= assignable)
      refuse_expression(target, 0, "'" + target.text + "' cannot be assigned", assigned_names());
    const std::pair key{static_cast<int>(Bank::state), index};
    if (!assigned_.contains(key)) assignment_order_.push_back(key);
    assigned_[key] = assigned.size() == 1 ? assigned[0] : assigned[i];
  }
}

void ExpressionCompiler::finish() {
  if (phase_ == Phase::reset) {
    const Node flag = graph_.operand(Bank::registers, register_flag);
    for (const std::pair<int, int>& key : assignment_order_)
      graph_.store_where(flag, assigned_.at(key), Bank::state, key.second);
  }
  if (phase_ == Phase::observe) {
    // Compiling a remembered expression may add further ones (prev inside prev).
    for (std::size_t m = 0; m < context_.memory_.size(); ++m) {
      const ExpressionContext::Memory memory = context_.memory_[m];
      const Value now = value(*memory.tree, *memory.source);
      for (int i = 0; i < memory.size; ++i)
        graph_.store(now[static_cast<std::size_t>(i)], Bank::task, context_.memory_first_ + memory.first + i);
    }
  }
}

std::vector<std::string> ExpressionCompiler::known_names() const {
  std::vector<std::string> names;
  for (const auto& [name, definition] : context_.definitions_) names.push_back(name);
  for (const auto& [name, nodes] : names_) names.push_back(name);
  for (const auto& [name, quantity] : context_.quantities_)
    if (phase_ != Phase::reset || quantity.in_reset) names.push_back(name);
  return names;
}

Value ExpressionCompiler::value(const Syntax& tree, const ExpressionSource& source) {
  const auto child = [&](std::size_t i) { return value(*tree.children[i], source); };
  switch (tree.kind) {
    case Syntax::Kind::number:
      return {graph_.constant(tree.number)};
    case Syntax::Kind::name:
      return name_value(tree, source);
    case Syntax::Kind::element:
      return element_value(tree, source);
    case Syntax::Kind::member:
      return member_value(tree, source);
    case Syntax::Kind::call:
      return call_value(tree, source);
    case Syntax::Kind::vector: {
      Value result;
      for (std::size_t i = 0; i < tree.children.size(); ++i) {
        const Value part = child(i);
        result.insert(result.end(), part.begin(), part.end());
      }
      return result;
    }
    case Syntax::Kind::unary:
      return apply(tree.text == "-" ? Operation::negate : Operation::logical_not, tree, source, {child(0)});
    case Syntax::Kind::conditional:
      return apply(Operation::select, tree, source, {child(0), child(1), child(2)});
    case Syntax::Kind::binary: {
      const Value a = child(0), b = child(1);
      const std::string& token = tree.text;
      if (token == "+") return apply(Operation::add, tree, source, {a, b});
      if (token == "-") return apply(Operation::subtract, tree, source, {a, b});
      if (token == "*") return apply(Operation::multiply, tree, source, {a, b});
      if (token == "/") return apply(Operation::divide, tree, source, {a, b});
      if (token == "^") return apply(Operation::power, tree, source, {a, b});
      if (token == "<") return apply(Operation::less, tree, source, {a, b});
      if (token == "<=") return apply(Operation::less_equal, tree, source, {a, b});
      if (token == ">") return apply(Operation::less, tree, source, {b, a});
      if (token == ">=") return apply(Operation::less_equal, tree, source, {b, a});
      if (token == "==") return apply(Operation::equal, tree, source, {a, b});
      if (token == "!=") return apply(Operation::not_equal, tree, source, {a, b});
      if (token == "&&") return apply(Operation::logical_and, tree, source, {a, b});
      return apply(Operation::logical_or, tree, source, {a, b});
    }
  }
  return {};
}

Value ExpressionCompiler::apply(Operation operation, const Syntax& tree, const ExpressionSource& source,
                                const std::vector<Value>& arguments) {
  std::size_t size = 1;
  for (const Value& argument : arguments) {
    if (argument.empty())
      refuse_expression(source, tree.column, "a quantity that this model has none of", "a number");
    if (argument.size() == 1) continue;
    if (size != 1 && argument.size() != size)
      refuse_expression(source, tree.column,
                        "'" + tree.text + "' on vectors of " + std::to_string(size) + " and " +
                            std::to_string(argument.size()),
                        "vectors of equal size, or a vector and a number");
    size = argument.size();
  }
  Value result;
  for (std::size_t i = 0; i < size; ++i) {
    std::array<Node, 3> operands{-1, -1, -1};
    for (std::size_t k = 0; k < arguments.size(); ++k)
      operands[k] = arguments[k].size() == 1 ? arguments[k][0] : arguments[k][i];
    result.push_back(operation == Operation::power
                         ? graph_.power(operands[0], operands[1])
                         : graph_.apply(operation, operands[0], operands[1], operands[2]));
  }
  return result;
}

const Quantity& ExpressionCompiler::known_quantity(const Quantity& quantity, const Syntax& tree,
                                                   const ExpressionSource& source) {
  if (phase_ == Phase::reset && !quantity.in_reset)
    refuse_expression(source, tree.column,
                      "'" + quantity.name + "' is not known while an environment is being reset",
                      "allowed in resets: " + list(known_names()));
  derived_ = std::max(derived_, quantity.derived);
  return quantity;
}

Value ExpressionCompiler::name_value(const Syntax& tree, const ExpressionSource& source) {
  const std::string& name = tree.text;
  if (const auto found = names_.find(name); found != names_.end()) return found->second;
  if (const auto found = context_.definitions_.find(name); found != context_.definitions_.end()) {
    if (std::find(open_definitions_.begin(), open_definitions_.end(), name) != open_definitions_.end())
      refuse_expression(source, tree.column, "definition '" + name + "' uses itself",
                        "definitions may use other definitions, in any order, without a circle");
    open_definitions_.push_back(name);
    const Value result = value(*found->second.tree, found->second.source);
    open_definitions_.pop_back();
    // Assignments change what a definition means later in a reset; elsewhere its value stays.
    if (phase_ != Phase::reset) names_[name] = result;
    return result;
  }
  if (const Quantity* quantity = context_.find(name)) {
    known_quantity(*quantity, tree, source);
    if (quantity->size == 0)
      refuse_expression(source, tree.column, "the model has no elements of '" + name + "'",
                        "a quantity that this model has");
    Value result;
    for (int i = 0; i < quantity->size; ++i) result.push_back(quantity->node(*this, i));
    return result;
  }
  if (name == "terminated" || name == "time_out")
    refuse_expression(source, tree.column, "'" + name + "' is not known here", "it is known in rewards");
  const std::vector<std::string> functions = function_names();
  if (std::find(functions.begin(), functions.end(), name) != functions.end())
    refuse_expression(source, tree.column, "'" + name + "' is a function", "write " + name + "(...)");
  const std::vector<std::string> names = known_names();
  refuse_expression(source, tree.column, "unknown name '" + name + "'" + did_you_mean(name, names),
                    "known: " + list(names));
}

Value ExpressionCompiler::quantity_elements(const Quantity& quantity, const Syntax& tree,
                                            const ExpressionSource& source) {
  Value result;
  const int count = quantity.row > 0 ? quantity.size / quantity.row : 0;
  const auto append = [&](int first, int size) {
    for (int i = 0; i < size; ++i) result.push_back(quantity.node(*this, first + i));
  };
  for (const IndexItem& item : tree.items) {
    if (item.kind == IndexItem::Kind::name) {
      if (quantity.element_kind.empty())
        refuse_expression(source, item.column, "'" + quantity.name + "' has no named elements",
                          "a number from 0 to " + std::to_string(count - 1));
      std::vector<std::string> names;
      for (const Quantity::Element& element : quantity.elements) names.push_back(element.name);
      const auto found = std::find(names.begin(), names.end(), item.name);
      if (found == names.end())
        refuse_expression(source, item.column,
                          "'" + quantity.name + "' has no " + quantity.element_kind + " '" + item.name + "'" +
                              did_you_mean(item.name, names),
                          "allowed: " + list(names));
      const Quantity::Element& element = quantity.elements[static_cast<std::size_t>(found - names.begin())];
      append(element.first, element.size);
      continue;
    }
    const int last = item.kind == IndexItem::Kind::range ? item.last : item.first + 1;
    if (last > count)
      refuse_expression(source, item.column,
                        "element " + std::to_string(last - 1) + " of '" + quantity.name + "', which has " +
                            std::to_string(count),
                        "0 to " + std::to_string(count - 1));
    append(item.first * quantity.row, (last - item.first) * quantity.row);
  }
  return result;
}

Value ExpressionCompiler::element_value(const Syntax& tree, const ExpressionSource& source) {
  const Syntax& whole = *tree.children[0];
  if (whole.kind == Syntax::Kind::name && !names_.contains(whole.text) &&
      !context_.definitions_.contains(whole.text))
    if (const Quantity* quantity = context_.find(whole.text))
      return quantity_elements(known_quantity(*quantity, whole, source), tree, source);
  const Value vector = value(whole, source);
  Value result;
  for (const IndexItem& item : tree.items) {
    if (item.kind == IndexItem::Kind::name)
      refuse_expression(source, item.column, "'" + item.name + "' names an element of a computed vector",
                        "a number from 0 to " + std::to_string(vector.size() - 1));
    const int last = item.kind == IndexItem::Kind::range ? item.last : item.first + 1;
    if (last > static_cast<int>(vector.size()))
      refuse_expression(source, item.column, "element " + std::to_string(last - 1) + " of " + shape(vector),
                        "0 to " + std::to_string(vector.size() - 1));
    result.insert(result.end(), vector.begin() + item.first, vector.begin() + last);
  }
  return result;
}

Value ExpressionCompiler::member_value(const Syntax& tree, const ExpressionSource& source) {
  const Value vector = value(*tree.children[0], source);
  const std::string components = vector.size() == 3 ? "xyz" : vector.size() == 4 ? "wxyz" : "";
  const std::size_t place = tree.text.size() == 1 ? components.find(tree.text) : std::string::npos;
  if (place == std::string::npos)
    refuse_expression(source, tree.column, "component '." + tree.text + "' of " + shape(vector),
                      components.empty()
                          ? "only vectors of 3 (.x .y .z) and quaternions (.w .x .y .z) have named components"
                      : vector.size() == 3 ? ".x, .y or .z"
                                           : ".w, .x, .y or .z");
  return {vector[place]};
}

Value ExpressionCompiler::call_value(const Syntax& tree, const ExpressionSource& source) {
  const std::string& name = tree.text;
  const std::vector<std::string> functions = function_names();
  const auto known = std::find(functions.begin(), functions.end(), name);
  if (known == functions.end())
    refuse_expression(source, tree.column, "unknown function '" + name + "'" + did_you_mean(name, functions),
                      "known: " + list(functions));
  const int count = static_cast<int>(tree.children.size());
  const auto [least, most] = arity(name);
  if (count < least || (most >= 0 && count > most))
    refuse_expression(
        source, tree.column, "'" + name + "' with " + std::to_string(count) + " arguments",
        name + "(" + expression_functions()[static_cast<std::size_t>(known - functions.begin())].arguments +
            ")");
  if (name == "prev") return previous_value(tree, source);
  if (name == "uniform" || name == "normal") return random_value(tree, source);

  std::vector<Value> arguments;
  for (const auto& argument : tree.children) arguments.push_back(value(*argument, source));
  for (const Elementwise& function : kElementwise)
    if (name == function.name) return apply(function.operation, tree, source, arguments);

  const auto map = [&](Operation operation, const Value& a, const Value& b) {
    return apply(operation, tree, source, {a, b});
  };
  const auto reduce = [&](Operation operation, const Value& vector) {
    Node result = vector[0];
    for (std::size_t i = 1; i < vector.size(); ++i) result = graph_.apply(operation, result, vector[i]);
    return Value{result};
  };
  const auto number = [&](double x) { return Value{graph_.constant(x)}; };
  const Value& x = arguments[0];
  if (name == "square") return map(Operation::multiply, x, x);
  if (name == "pow") return map(Operation::power, x, arguments[1]);
  if (name == "clamp") return map(Operation::minimum, map(Operation::maximum, x, arguments[1]), arguments[2]);
  if (name == "wrap_to_pi") {
    const Value turns = apply(Operation::floor, tree, source,
                              {map(Operation::divide, map(Operation::add, x, number(std::numbers::pi)),
                                   number(2 * std::numbers::pi))});
    return map(Operation::subtract, x, map(Operation::multiply, turns, number(2 * std::numbers::pi)));
  }
  if (name == "min" || name == "max") {
    const Operation operation = name == "min" ? Operation::minimum : Operation::maximum;
    if (count == 1) return reduce(operation, x);
    Value result = x;
    for (std::size_t i = 1; i < arguments.size(); ++i) result = map(operation, result, arguments[i]);
    return result;
  }
  if (name == "sum") return reduce(Operation::add, x);
  if (name == "mean")
    return map(Operation::divide, reduce(Operation::add, x), number(static_cast<double>(x.size())));
  if (name == "norm")
    return apply(Operation::square_root, tree, source,
                 {reduce(Operation::add, map(Operation::multiply, x, x))});
  if (name == "any") return map(Operation::not_equal, reduce(Operation::logical_or, x), number(0));
  if (name == "all") return map(Operation::not_equal, reduce(Operation::logical_and, x), number(0));
  if (name == "dot") return reduce(Operation::add, map(Operation::multiply, x, arguments[1]));
  const Value& y = arguments[1];
  const auto product = [&](Node a, Node b) { return graph_.apply(Operation::multiply, a, b); };
  const auto add = [&](Node a, Node b) { return graph_.apply(Operation::add, a, b); };
  const auto subtract = [&](Node a, Node b) { return graph_.apply(Operation::subtract, a, b); };
  if (name == "quat_from_euler") {
    Node c[3], s[3];
    for (std::size_t i = 0; i < 3; ++i) {
      if (arguments[i].size() != 1)
        refuse_expression(source, tree.column, "'quat_from_euler' of " + shape(arguments[i]),
                          "three numbers");
      const Node half = product(graph_.constant(0.5), arguments[i][0]);
      c[i] = graph_.apply(Operation::cosine, half);
      s[i] = graph_.apply(Operation::sine, half);
    }
    const auto triple = [&](Node a, Node b, Node d) { return product(product(a, b), d); };
    return {add(triple(c[0], c[1], c[2]), triple(s[0], s[1], s[2])),
            subtract(triple(s[0], c[1], c[2]), triple(c[0], s[1], s[2])),
            add(triple(c[0], s[1], c[2]), triple(s[0], c[1], s[2])),
            subtract(triple(c[0], c[1], s[2]), triple(s[0], s[1], c[2]))};
  }
  if (name == "quat_mul") {
    if (x.size() != 4 || y.size() != 4)
      refuse_expression(source, tree.column, "'quat_mul' of " + shape(x) + " and " + shape(y),
                        "two vectors of 4");
    const auto row = [&](Node first, Node second, Node third, Node fourth, bool real) {
      return real ? subtract(subtract(subtract(first, second), third), fourth)
                  : subtract(add(add(first, second), third), fourth);
    };
    return {row(product(x[0], y[0]), product(x[1], y[1]), product(x[2], y[2]), product(x[3], y[3]), true),
            row(product(x[0], y[1]), product(x[1], y[0]), product(x[2], y[3]), product(x[3], y[2]), false),
            row(product(x[0], y[2]), product(x[2], y[0]), product(x[3], y[1]), product(x[1], y[3]), false),
            row(product(x[0], y[3]), product(x[3], y[0]), product(x[1], y[2]), product(x[2], y[1]), false)};
  }
  // cross
  if (x.size() != 3 || y.size() != 3)
    refuse_expression(source, tree.column, "'cross' of " + shape(x) + " and " + shape(y), "two vectors of 3");
  Value result;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t j = (i + 1) % 3, k = (i + 2) % 3;
    result.push_back(subtract(product(x[j], y[k]), product(x[k], y[j])));
  }
  return result;
}

Value ExpressionCompiler::random_value(const Syntax& tree, const ExpressionSource& source) {
  if (phase_ != Phase::reset)
    refuse_expression(source, tree.column, "random numbers outside a reset",
                      "'" + tree.text + "' is allowed in resets");
  const Value a = value(*tree.children[0], source), b = value(*tree.children[1], source);
  std::size_t size = std::max(a.size(), b.size());
  if (a.size() != 1 && b.size() != 1 && a.size() != b.size())
    refuse_expression(source, tree.column, "'" + tree.text + "' of " + shape(a) + " and " + shape(b),
                      "equal sizes");
  if (tree.children.size() == 3) {
    const Value count = value(*tree.children[2], source);
    const double n = count.size() == 1 && graph_.is_constant(count[0]) ? graph_.constant_value(count[0]) : 0;
    if (!(n >= 1 && n <= 1e4 && n == std::floor(n)) || (size != 1 && static_cast<double>(size) != n))
      refuse_expression(source, tree.children[2]->column, "not a number of random numbers",
                        size == 1 ? "a whole number from 1 on" : std::to_string(size));
    size = static_cast<std::size_t>(n);
  }
  const auto draw = [&] { return graph_.operand(Bank::random, context_.num_random_++); };
  Value result;
  for (std::size_t i = 0; i < size; ++i) {
    const Node low = a.size() == 1 ? a[0] : a[i], high = b.size() == 1 ? b[0] : b[i];
    if (tree.text == "uniform") {
      const Node width = graph_.apply(Operation::subtract, high, low);
      result.push_back(graph_.apply(Operation::add, low, graph_.apply(Operation::multiply, width, draw())));
      continue;
    }
    // Box and Muller: the first draw moved from [0, 1) to (0, 1], exactly, for the logarithm.
    const Node open = graph_.apply(Operation::add, draw(), graph_.constant(1.0 / 16777216.0));
    const Node radius = graph_.apply(
        Operation::square_root,
        graph_.apply(Operation::multiply, graph_.constant(-2), graph_.apply(Operation::logarithm, open)));
    const Node angle = graph_.apply(Operation::multiply, graph_.constant(2 * std::numbers::pi), draw());
    const Node standard = graph_.apply(Operation::multiply, radius, graph_.apply(Operation::cosine, angle));
    result.push_back(graph_.apply(Operation::add, low, graph_.apply(Operation::multiply, high, standard)));
  }
  return result;
}

Value ExpressionCompiler::previous_value(const Syntax& tree, const ExpressionSource& source) {
  if (phase_ == Phase::reset)
    refuse_expression(source, tree.column, "'prev' while an environment is being reset",
                      "there is no previous control step in a reset");
  const Syntax& what = *tree.children[0];
  const Value now = value(what, source);
  const std::string canonical = what.canonical();
  auto known =
      std::find_if(context_.memory_.begin(), context_.memory_.end(),
                   [&](const ExpressionContext::Memory& memory) { return memory.canonical == canonical; });
  if (known == context_.memory_.end()) {
    // Trees and sources live as long as the context.
    context_.memory_.push_back(
        {canonical, &what, &source, context_.memory_size_, static_cast<int>(now.size())});
    context_.memory_size_ += static_cast<int>(now.size());
    known = context_.memory_.end() - 1;
  }
  Value result;
  for (int i = 0; i < known->size; ++i) {
    const Node kept = graph_.operand(Bank::task, context_.memory_first_ + known->first + i);
    // In a fresh episode there is no previous step: the value of the reset stands in.
    result.push_back(phase_ == Phase::observe
                         ? graph_.apply(Operation::select, graph_.operand(Bank::registers, register_flag),
                                        now[static_cast<std::size_t>(i)], kept)
                         : kept);
  }
  return result;
}

}  // namespace maniple
