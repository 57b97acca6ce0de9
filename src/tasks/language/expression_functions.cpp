// The table of the functions of expressions, the formulas that take a few lines, and how a call finds its
// function and its arguments. Longer formulas are in functions_of_*.cpp and tolerance.cpp.
#include "src/tasks/language/expression_functions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numbers>
#include <string_view>

#include "src/tasks/language/formulas.hpp"
#include "src/tasks/language/names.hpp"

namespace maniple {
namespace {

using namespace formulas;

Formula componentwise(Operation operation) {
  return [operation](FunctionCall& call) { return map(call, operation, call.arguments); };
}

Formula reduced(Operation operation) {
  return [operation](FunctionCall& call) { return reduce(call, operation, call.arguments[0]); };
}

// Folds the components of one argument, or several arguments component by component.
Formula extreme(Operation operation) {
  return [operation](FunctionCall& call) {
    if (call.arguments.size() == 1) return reduce(call, operation, call.arguments[0]);
    Value result = call.arguments[0];
    for (std::size_t i = 1; i < call.arguments.size(); ++i)
      result = map(call, operation, {result, call.arguments[i]});
    return result;
  };
}

Formula truth_of(Operation operation) {
  return [operation](FunctionCall& call) {
    const Value zero = number(call, 0);
    return map(call, Operation::not_equal, {reduce(call, operation, call.arguments[0]), zero});
  };
}

// The operation on two vectors of `size`.
Formula product_of_vectors(std::size_t size, Value (*product)(ExpressionGraph&, const Value&, const Value&)) {
  return [size, product](FunctionCall& call) {
    const Value &x = call.arguments[0], &y = call.arguments[1];
    if (x.size() != size || y.size() != size)
      refuse(call,
             "'" + call.tree.text + "' of " + ExpressionCompiler::shape(x) + " and " +
                 ExpressionCompiler::shape(y),
             "two vectors of " + std::to_string(size));
    return product(call.compiler.graph(), x, y);
  };
}

Value clamped(FunctionCall& call) {
  const ExpressionGraph& graph = call.compiler.graph();
  const Value &low = call.arguments[1], &high = call.arguments[2];
  for (std::size_t i = 0; i < low.size() && (i < high.size() || high.size() == 1); ++i) {
    const Node most = high.size() == 1 ? high[0] : high[i];
    if (graph.is_constant(low[i]) && graph.is_constant(most) &&
        graph.constant_value(low[i]) > graph.constant_value(most))
      refuse(
          call,
          fmt::format("clamp to [{:.6g}, {:.6g}]", graph.constant_value(low[i]), graph.constant_value(most)),
          "the lower end first");
  }
  const Value above = map(call, Operation::maximum, {call.arguments[0], call.arguments[1]});
  return map(call, Operation::minimum, {above, call.arguments[2]});
}

Value squares(FunctionCall& call) {
  return map(call, Operation::multiply, {call.arguments[0], call.arguments[0]});
}

Value mean(FunctionCall& call) {
  const Value size = number(call, static_cast<double>(call.arguments[0].size()));
  return map(call, Operation::divide, {reduce(call, Operation::add, call.arguments[0]), size});
}

Value norm(FunctionCall& call) {
  return map(call, Operation::square_root, {reduce(call, Operation::add, squares(call))});
}

Value dot(FunctionCall& call) {
  return reduce(call, Operation::add, map(call, Operation::multiply, call.arguments));
}

Value product_of_components(FunctionCall& call) {
  return reduce(call, Operation::multiply, call.arguments[0]);
}

Value normalized(FunctionCall& call) {
  const Value length = norm(call);
  return map(call, Operation::divide, {call.arguments[0], length});
}

Value repeated(FunctionCall& call) {
  const std::size_t n = count_of(call, 1, "repetitions");
  const Value x = call.compiler.value(*call.parts[0], call.source);
  Value result;
  for (std::size_t i = 0; i < n; ++i) result.insert(result.end(), x.begin(), x.end());
  return result;
}

Value size_of(FunctionCall& call) {
  return number(call, static_cast<double>(call.arguments[0].size()));
}

// -floor(-x)
Value ceiling(FunctionCall& call) {
  const Value below = map(call, Operation::floor, {map(call, Operation::negate, {call.arguments[0]})});
  return map(call, Operation::negate, {below});
}

// x - floor(x / y) y, with the sign of y.
Value modulo(FunctionCall& call) {
  const Value turns = map(call, Operation::floor, {map(call, Operation::divide, call.arguments)});
  return map(call, Operation::subtract,
             {call.arguments[0], map(call, Operation::multiply, {turns, call.arguments[1]})});
}

// x - x is 0 for finite numbers alone.
Value finite(FunctionCall& call) {
  const Value difference = map(call, Operation::subtract, {call.arguments[0], call.arguments[0]});
  return map(call, Operation::equal, {difference, number(call, 0)});
}

Value wrapped_angle(FunctionCall& call) {
  const Value& x = call.arguments[0];
  const Value turn = number(call, 2 * std::numbers::pi);
  const Value shifted = map(call, Operation::add, {x, number(call, std::numbers::pi)});
  const Value turns = map(call, Operation::floor, {map(call, Operation::divide, {shifted, turn})});
  return map(call, Operation::subtract, {x, map(call, Operation::multiply, {turns, turn})});
}

Value previous(FunctionCall& call) {
  const Phase phase = call.compiler.phase();
  if (call.compiler.without_data())
    refuse(call, "'prev' " + call.compiler.when(), "a variable keeps what must be known there");
  ExpressionGraph& graph = call.compiler.graph();
  const Syntax& what = *call.parts[0];
  if (const auto last = call.compiler.last_value(what, call.source)) return *last;
  const ExpressionCompiler::WithoutDraws guard(call.compiler, "inside prev(...)",
                                               "a variable that is drawn, and prev(name) of it");
  const Value now = call.compiler.value(what, call.source);
  const ExpressionContext::Memory& memory = call.compiler.context().remember(what, call.source, now.size());
  Value result;
  for (int i = 0; i < memory.size; ++i) {
    const Node kept = graph.operand(Bank::task, memory.first + i);
    // In a fresh episode there is no previous step: the value of the reset stands in.
    result.push_back(phase == Phase::observe
                         ? graph.apply(Operation::select, graph.operand(Bank::registers, register_flag),
                                       now[static_cast<std::size_t>(i)], kept)
                         : kept);
  }
  return result;
}

}  // namespace

const std::vector<ExpressionFunction>& expression_functions() {
  static const std::vector<ExpressionFunction> functions{
      {"abs", "x", "abs([-2, 3])", "absolute value", componentwise(Operation::absolute)},
      {"acos", "x", "acos(0)", "arc cosine [rad]", componentwise(Operation::arc_cosine)},
      {"air_time", "a[, b]", "air_time(foot)",
       "time [s] since the last contact of a with b, or with anything, counted in physics steps; 0 in "
       "contact",
       contact_time(ContactTime::air), true},
      {"all", "x", "all([1, 0])", "1 if no component is 0", truth_of(Operation::logical_and)},
      {"any", "x", "any([1, 0])", "1 if some component is not 0", truth_of(Operation::logical_or)},
      {"asin", "x", "asin(1)", "arc sine [rad]", componentwise(Operation::arc_sine)},
      {"atan2", "y, x", "atan2(1, -1)", "angle of the point (x, y) [rad]",
       componentwise(Operation::arc_tangent2)},
      {"ceil", "x", "ceil(1.2)", "smallest integer not below x", ceiling},
      {"clamp", "x, low, high", "clamp([-2, 0.5, 2], -1, 1)", "x limited to [low, high]", clamped},
      {"contact_force", "a[, b]", "contact_force(foot, floor)",
       "net force [N] of contacts on a, world axes, of those with b or with all; a and b: geom, body, "
       "pattern of such names, 'subtree:<body>' or a list of these",
       contact_answer(contact_force_x, 3), true},
      {"contact_time", "a[, b]", "contact_time(foot)",
       "time [s] for which a has been in contact, counted in physics steps; 0 without",
       contact_time(ContactTime::contact), true},
      {"cos", "x", "cos(pi)", "cosine of x [rad]", componentwise(Operation::cosine)},
      {"cross", "a, b", "cross([1, 0, 0], [0, 1, 0])", "cross product of two vectors of 3",
       product_of_vectors(3, cross_product)},
      {"dot", "a, b", "dot([1, 2], [3, 4])", "scalar product", dot},
      {"euler_from_quat", "orientation", "euler_from_quat([0, 0, 0, 1])",
       "roll, pitch, yaw [rad] of a quaternion or rotation matrix: turns about x, then y, then z",
       euler_angles},
      {"exp", "x", "exp(1)", "e to the x", componentwise(Operation::exponential)},
      {"first_contact", "a[, b]", "first_contact(foot, floor)",
       "1 where a contact of a with b, or with anything, has begun in this control step and goes on",
       first_contact, true},
      {"floor", "x", "floor(-1.2)", "largest integer not above x", componentwise(Operation::floor)},
      {"grid_pattern", "length, width, resolution", "grid_pattern(0.2, 0.1, 0.1)",
       "points (x, y, 0) [m] of a grid about the origin, row by row along x", grid_pattern, true},
      {"in_contact", "a[, b]", "in_contact(foot, floor)",
       "1 where a contact of a with b, or with anything, is listed", contact_answer(contact_found, 1), true},
      {"in_contact_history", "a[, b]", "in_contact_history(foot, floor)",
       "in_contact in each physics step of the control step, the last one first; right after a reset, in the "
       "state of the reset",
       contact_history(contact_found), true},
      {"is_finite", "x", "is_finite([1, 1 / 0])", "1 where x is neither infinite nor NaN", finite},
      {"last_air_time", "a[, b]", "last_air_time(foot)",
       "time [s] that a was in the air before its last contact", contact_time(ContactTime::last_air), true},
      {"last_contact_time", "a[, b]", "last_contact_time(foot)",
       "time [s] for which a was in contact before it was last in the air",
       contact_time(ContactTime::last_contact), true},
      {"log", "x", "log(10)", "natural logarithm", componentwise(Operation::logarithm)},
      {"matrix_from_quat", "q", "matrix_from_quat([1, 0, 0, 0])",
       "rotation matrix of a quaternion (w, x, y, z), row by row", matrix_of_quaternion},
      {"max", "x or a, b, ...", "max([1, 3], 2)",
       "largest component, or component by component the largest argument", extreme(Operation::maximum)},
      {"mean", "x", "mean([1, 2, 6])", "mean of the components", mean},
      {"min", "x or a, b, ...", "min([1, 3])",
       "smallest component, or component by component the smallest argument", extreme(Operation::minimum)},
      {"mod", "x, y", "mod(-1, 3)", "remainder of x / y, with the sign of y", modulo},
      {"norm", "x", "norm([3, 4])", "Euclidean length", norm},
      {"normal", "mean, std[, n]", "normal(0, 0.1, 3)", "Gaussian random numbers", normal_numbers(), true},
      {"normalize", "x", "normalize([3, 4])", "x divided by its Euclidean length", normalized},
      {"pow", "a, b", "pow(2, 0.5)", "a ^ b", componentwise(Operation::power)},
      {"prev", "x", "prev(qpos)",
       "x at the previous control step, as observations saw it; right after a reset, at the reset", previous,
       true},
      {"product", "x", "product([2, 3])", "product of the components", product_of_components},
      {"quat_conjugate", "q", "quat_conjugate([0.6, 0.8, 0, 0])", "inverse rotation of a unit quaternion",
       conjugate},
      {"quat_error_magnitude", "a, b", "quat_error_magnitude([1, 0, 0, 0], [0, 0, 0, 1])",
       "angle [rad] between two orientations, quaternions (w, x, y, z)", angle_between},
      {"quat_from_euler", "roll, pitch, yaw", "quat_from_euler(0, 0, pi)",
       "quaternion (w, x, y, z) of turns about x, then y, then z [rad]", quaternion_from_euler},
      {"quat_mul", "a, b", "quat_mul([0, 1, 0, 0], [0, 0, 1, 0])", "product of two quaternions (w, x, y, z)",
       product_of_vectors(4, quaternion_product)},
      {"ray_distance", "frame, points[, direction, alignment, max_distance, geoms]",
       "ray_distance(torso, grid_pattern(0.2, 0.1, 0.1), alignment = yaw, max_distance = 5)",
       "distance [m] from each point of a frame (body, 'site:<site>', 'geom:<geom>') along a direction, "
       "[0, 0, -1] unless given, to the nearest geom (mj_ray), always of the current state; -1: none within "
       "max_distance. alignment of "
       "points and directions: base, the axes of the frame (default); yaw, the world's, turned with the "
       "frame "
       "about z; world. geoms: names, as of contact_force; not given: visible ones that no joint moves",
       ray_distances, true},
      {"repeat", "x, n", "repeat([1, 2], 2)", "the components of x, repeated n times", repeated, true},
      {"rotate", "orientation, v", "rotate([0, 0, 0, 1], [1, 2, 3])",
       "v rotated from the axes of a frame into the world's; orientation: quaternion or matrix of 9",
       rotation(false)},
      {"rotate_inverse", "orientation, v", "rotate_inverse(xmat[torso], body_lin_vel[torso])",
       "v rotated from the world's axes into those of the frame", rotation(true)},
      {"select", "c, a, b", "select(1 < 2, 3, 4)", "a where c is true, else b; the same as c ? a : b",
       componentwise(Operation::select)},
      {"sign", "x", "sign(-2)", "-1, 0 or 1", componentwise(Operation::sign)},
      {"sin", "x", "sin(pi / 2)", "sine of x [rad]", componentwise(Operation::sine)},
      {"size", "x", "size([1, 2])", "number of components", size_of},
      {"sqrt", "x", "sqrt(2)", "square root", componentwise(Operation::square_root)},
      {"square", "x", "square(3)", "x * x", squares},
      {"strongest_contact", "a[, b]", "strongest_contact(foot, floor)",
       "force [N] of the strongest contact of a with b, or with anything; 0 without",
       contact_answer(contact_strongest, 1), true},
      {"strongest_contact_history", "a[, b]", "strongest_contact_history(foot, floor)",
       "strongest_contact in each physics step of the control step, the last one first; right after a reset, "
       "in "
       "the state of the reset",
       contact_history(contact_strongest), true},
      {"sum", "x", "sum([1, 2, 3])", "sum of the components", reduced(Operation::add)},
      {"tan", "x", "tan(1)", "tangent of x [rad]", componentwise(Operation::tangent)},
      {"tanh", "x", "tanh(1)", "hyperbolic tangent", componentwise(Operation::hyperbolic_tangent)},
      {"to_frame", "position, orientation, point", "to_frame(xpos[torso], xquat[torso], site_xpos[hand])",
       "a point of the world in a frame's coordinates: rotate_inverse(orientation, point - position)",
       in_frame},
      {"tolerance", "x, lower = 0, upper = 0, margin = 0, sigmoid = gaussian, value_at_margin = 0.1",
       "tolerance(0.5, lower = 1, upper = inf, margin = 1, sigmoid = linear)",
       "1 where lower <= x <= upper, else a sigmoid that falls to value_at_margin at the distance margin "
       "(dm_control.utils.rewards): gaussian, hyperbolic, long_tail, reciprocal, cosine, linear, quadratic "
       "or tanh_squared",
       tolerance, true},
      {"uniform", "low, high[, n]", "uniform(-1, 1, n = 2)", "uniform random numbers in [low, high)",
       uniform_numbers(), true},
      {"wrap_to_pi", "x", "wrap_to_pi(4)", "the angle x [rad] wrapped to [-pi, pi)", wrapped_angle},
  };
  return functions;
}

const ExpressionFunction* find_function(const std::string& name) {
  const std::vector<ExpressionFunction>& functions = expression_functions();
  const auto found = std::find_if(functions.begin(), functions.end(),
                                  [&](const ExpressionFunction& function) { return function.name == name; });
  return found == functions.end() ? nullptr : &*found;
}

namespace {

struct Parameter {
  std::string name;
  bool optional = false;
  std::string default_value = {};  // what stands in for it, as an expression; "": nothing
};

// "x, low = 0[, n]": x, low with its default, n optional.
std::vector<Parameter> parameters_of(const ExpressionFunction& function) {
  std::vector<Parameter> parameters;
  bool optional = false;
  std::string text;
  const auto finish = [&] {
    const std::size_t assigned = text.find('=');
    Parameter parameter{text.substr(0, assigned), optional || assigned != std::string::npos};
    if (assigned != std::string::npos) parameter.default_value = text.substr(assigned + 1);
    if (!parameter.name.empty()) parameters.push_back(std::move(parameter));
    text.clear();
  };
  for (const char c : function.arguments) {
    if (c == ',' || c == '[') finish();
    if (c == '[') optional = true;
    if (std::string_view(",[] ").find(c) == std::string_view::npos) text += c;
  }
  finish();
  return parameters;
}

// The arguments of a call in the order of the parameters.
std::vector<const Syntax*> arranged(const ExpressionFunction& function, const Syntax& tree,
                                    const ExpressionSource& source, ExpressionContext& context) {
  const auto misused = [&](int column, const std::string& found) {
    refuse_expression(source, column, found, tree.text + "(" + function.arguments + ")");
  };
  std::vector<const Syntax*> parts;
  const bool any_number = function.arguments.find("...") != std::string::npos;
  const std::vector<Parameter> parameters = any_number ? std::vector<Parameter>{} : parameters_of(function);
  if (!any_number) parts.resize(parameters.size(), nullptr);
  const std::string count = "'" + tree.text + "' with " + std::to_string(tree.children.size()) + " arguments";
  if (any_number ? tree.children.empty() : tree.children.size() > parameters.size())
    misused(tree.column, count);
  bool by_name = false;
  for (std::size_t i = 0; i < tree.children.size(); ++i) {
    const Syntax* const child = tree.children[i].get();
    const std::string& name = tree.parameters[i];
    if (any_number && name.empty()) parts.push_back(child);
    if (any_number && !name.empty()) misused(tree.column, "'" + tree.text + "' has no '" + name + "'");
    if (any_number) continue;
    if (name.empty() && by_name) misused(child->column, "an argument by its place after one by its name");
    by_name = by_name || !name.empty();
    std::vector<std::string> names;
    for (const Parameter& parameter : parameters) names.push_back(parameter.name);
    const auto index =
        name.empty() ? i
                     : static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (index == names.size())
      misused(child->column, "'" + tree.text + "' has no '" + name + "'" + did_you_mean(name, names));
    if (parts[index]) misused(child->column, "'" + name + "' a second time");
    parts[index] = child;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parts[i]) continue;
    if (!parameters[i].optional) misused(tree.column, count);
    if (!parameters[i].default_value.empty())
      parts[i] = context.parse({parameters[i].default_value, source.where, source.key}).tree.get();
  }
  return parts;
}

}  // namespace

Value ExpressionCompiler::call_value(const Syntax& tree, const ExpressionSource& source) {
  const std::string& name = tree.text;
  const ExpressionFunction* const function = find_function(name);
  if (!function) {
    std::vector<std::string> names;
    for (const ExpressionFunction& known : expression_functions()) names.push_back(known.name);
    // what numpy, torch and shaders call it
    static const std::map<std::string, std::string> elsewhere{
        {"clip", "clamp"},         {"arcsin", "asin"},   {"arccos", "acos"},          {"arctan2", "atan2"},
        {"where", "select"},       {"length", "norm"},   {"prod", "product"},         {"fmod", "mod"},
        {"remainder", "mod"},      {"tile", "repeat"},   {"maximum", "max"},          {"minimum", "min"},
        {"isfinite", "is_finite"}, {"previous", "prev"}, {"wrap_angle", "wrap_to_pi"}};
    const auto other = elsewhere.find(name);
    refuse_expression(source, tree.column,
                      "unknown function '" + name + "'" +
                          (other == elsewhere.end() ? did_you_mean(name, names)
                                                    : ", did you mean '" + other->second + "'?"),
                      "known: " + list(names));
  }
  FunctionCall call{*this, tree, source, arranged(*function, tree, source, context_), {}};
  if (!function->takes_syntax)
    for (const Syntax* const part : call.parts) call.arguments.push_back(value(*part, source));
  return function->value(call);
}

}  // namespace maniple
