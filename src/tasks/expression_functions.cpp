// What the functions of expressions are called and what they compute: the operations of each, then the table.
#include "src/tasks/expression_functions.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "src/tasks/message_text.hpp"

namespace maniple {
namespace {

using Node = ExpressionGraph::Node;
using Value = ExpressionCompiler::Value;

constexpr int kAnyNumber = -1;

// Arithmetic on single nodes, for the formulas below. A graph numbers nodes in the order in which they are
// made, and C++ leaves the order of a call's arguments open: at most one argument of a call makes a node,
// so that every compiler writes the same programs.
struct Arithmetic {
  ExpressionGraph& graph;
  Node add(Node a, Node b) const { return graph.apply(Operation::add, a, b); }
  Node subtract(Node a, Node b) const { return graph.apply(Operation::subtract, a, b); }
  Node product(Node a, Node b) const { return graph.apply(Operation::multiply, a, b); }
};

// The quaternion of turns about x, then y, then z.
Value quaternion_of_turns(ExpressionGraph& graph, const std::array<Node, 3>& angles) {
  const Arithmetic to{graph};
  Node c[3], s[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const Node half = to.product(graph.constant(0.5), angles[i]);
    c[i] = graph.apply(Operation::cosine, half);
    s[i] = graph.apply(Operation::sine, half);
  }
  using Factors = std::array<Node, 3>;
  const auto combined = [&](Operation operation, const Factors& a, const Factors& b) {
    const Node second = to.product(to.product(b[0], b[1]), b[2]);
    const Node first = to.product(to.product(a[0], a[1]), a[2]);
    return graph.apply(operation, first, second);
  };
  return {combined(Operation::add, {c[0], c[1], c[2]}, {s[0], s[1], s[2]}),
          combined(Operation::subtract, {s[0], c[1], c[2]}, {c[0], s[1], s[2]}),
          combined(Operation::add, {c[0], s[1], c[2]}, {s[0], c[1], s[2]}),
          combined(Operation::subtract, {c[0], c[1], s[2]}, {s[0], s[1], c[2]})};
}

Value quaternion_product(ExpressionGraph& graph, const Value& x, const Value& y) {
  const Arithmetic to{graph};
  // Four products x[i] * y[j]. Real: first - second - third - fourth; else first + second + third - fourth.
  using Places = std::array<std::array<std::size_t, 2>, 4>;
  const auto component = [&](bool real, const Places& places) {
    std::array<Node, 4> terms;
    for (std::size_t i = 4; i-- > 0;) terms[i] = to.product(x[places[i][0]], y[places[i][1]]);
    const Operation join = real ? Operation::subtract : Operation::add;
    return to.subtract(graph.apply(join, graph.apply(join, terms[0], terms[1]), terms[2]), terms[3]);
  };
  return {component(true, {{{0, 0}, {1, 1}, {2, 2}, {3, 3}}}),
          component(false, {{{0, 1}, {1, 0}, {2, 3}, {3, 2}}}),
          component(false, {{{0, 2}, {2, 0}, {3, 1}, {1, 3}}}),
          component(false, {{{0, 3}, {3, 0}, {1, 2}, {2, 1}}})};
}

Value cross_product(ExpressionGraph& graph, const Value& x, const Value& y) {
  const Arithmetic to{graph};
  Value result;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t j = (i + 1) % 3, k = (i + 2) % 3;
    const Node second = to.product(x[k], y[j]);
    result.push_back(to.subtract(to.product(x[j], y[k]), second));
  }
  return result;
}

// Normally distributed with mean 0 and deviation 1, from two uniform draws (Box and Muller).
template <class Draw>
Node standard_normal(ExpressionGraph& graph, const Draw& draw) {
  const Arithmetic to{graph};
  // The first draw moved from [0, 1) to (0, 1], exactly, for the logarithm.
  const Node step = graph.constant(1.0 / 16777216.0);
  const Node logarithm = graph.apply(Operation::logarithm, to.add(draw(), step));
  const Node radius = graph.apply(Operation::square_root, to.product(graph.constant(-2), logarithm));
  const Node turn = draw();
  const Node angle = to.product(graph.constant(2 * std::numbers::pi), turn);
  return to.product(radius, graph.apply(Operation::cosine, angle));
}

// ---- calls ----

using Formula = std::function<Value(FunctionCall&)>;

[[noreturn]] void refuse(const FunctionCall& call, const std::string& found, const std::string& allowed) {
  refuse_expression(call.source, call.tree.column, found, allowed);
}

Value map(FunctionCall& call, Operation operation, const std::vector<Value>& arguments) {
  return call.compiler.apply(operation, call.tree, call.source, arguments);
}

Value number(FunctionCall& call, double x) {
  return {call.compiler.graph().constant(x)};
}

// Its components joined from the first to the last.
Value reduce(FunctionCall& call, Operation operation, const Value& vector) {
  Node result = vector[0];
  for (std::size_t i = 1; i < vector.size(); ++i)
    result = call.compiler.graph().apply(operation, result, vector[i]);
  return {result};
}

Formula componentwise(Operation operation) {
  return [operation](FunctionCall& call) { return map(call, operation, call.arguments); };
}

Formula reduced(Operation operation) {
  return [operation](FunctionCall& call) { return reduce(call, operation, call.arguments[0]); };
}

// Of one argument its components joined; of several, component by component, the arguments.
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

// Of two vectors of `size`.
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

Value wrapped_angle(FunctionCall& call) {
  const Value& x = call.arguments[0];
  const Value turn = number(call, 2 * std::numbers::pi);
  const Value shifted = map(call, Operation::add, {x, number(call, std::numbers::pi)});
  const Value turns = map(call, Operation::floor, {map(call, Operation::divide, {shifted, turn})});
  return map(call, Operation::subtract, {x, map(call, Operation::multiply, {turns, turn})});
}

Value quaternion_from_euler(FunctionCall& call) {
  for (const Value& angle : call.arguments)
    if (angle.size() != 1)
      refuse(call, "'quat_from_euler' of " + ExpressionCompiler::shape(angle), "three numbers");
  return quaternion_of_turns(call.compiler.graph(),
                             {call.arguments[0][0], call.arguments[1][0], call.arguments[2][0]});
}

// How many numbers a random function draws: as many as its longer parameter has, or as its third one says.
std::size_t draws_of(FunctionCall& call, const Value& a, const Value& b) {
  const ExpressionGraph& graph = call.compiler.graph();
  const std::size_t size = std::max(a.size(), b.size());
  if (a.size() != 1 && b.size() != 1 && a.size() != b.size())
    refuse(call,
           "'" + call.tree.text + "' of " + ExpressionCompiler::shape(a) + " and " +
               ExpressionCompiler::shape(b),
           "equal sizes");
  if (call.tree.children.size() < 3) return size;
  const Value count = call.compiler.value(*call.tree.children[2], call.source);
  const double n = count.size() == 1 && graph.is_constant(count[0]) ? graph.constant_value(count[0]) : 0;
  if (!(n >= 1 && n <= 1e4 && n == std::floor(n)) || (size != 1 && static_cast<double>(size) != n))
    refuse_expression(call.source, call.tree.children[2]->column, "not a number of random numbers",
                      size == 1 ? "a whole number from 1 on" : std::to_string(size));
  return static_cast<std::size_t>(n);
}

// Random numbers of two parameters: sample(graph, first, second, draw) for each.
template <class Sample>
Formula random(const Sample& sample) {
  return [sample](FunctionCall& call) {
    if (call.compiler.phase() != Phase::reset)
      refuse(call, "random numbers outside a reset", "'" + call.tree.text + "' is allowed in resets");
    ExpressionGraph& graph = call.compiler.graph();
    const Value a = call.compiler.value(*call.tree.children[0], call.source),
                b = call.compiler.value(*call.tree.children[1], call.source);
    const std::size_t size = draws_of(call, a, b);
    const auto draw = [&] { return graph.operand(Bank::random, call.compiler.context().draw()); };
    Value result;
    for (std::size_t i = 0; i < size; ++i)
      result.push_back(sample(graph, a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i], draw));
    return result;
  };
}

constexpr auto kUniform = [](ExpressionGraph& graph, Node low, Node high, const auto& draw) {
  const Arithmetic to{graph};
  const Node width = to.subtract(high, low);
  return to.add(low, to.product(width, draw()));
};

constexpr auto kNormal = [](ExpressionGraph& graph, Node mean, Node deviation, const auto& draw) {
  const Arithmetic to{graph};
  const Node standard = standard_normal(graph, draw);
  return to.add(mean, to.product(deviation, standard));
};

Value previous(FunctionCall& call) {
  const Phase phase = call.compiler.phase();
  if (phase == Phase::reset)
    refuse(call, "'prev' while an environment is being reset",
           "there is no previous control step in a reset");
  ExpressionGraph& graph = call.compiler.graph();
  const Syntax& what = *call.tree.children[0];
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
      {"abs", "x", 1, 1, "absolute value", componentwise(Operation::absolute)},
      {"acos", "x", 1, 1, "arc cosine [rad]", componentwise(Operation::arc_cosine)},
      {"all", "x", 1, 1, "1 if no component is 0", truth_of(Operation::logical_and)},
      {"any", "x", 1, 1, "1 if some component is not 0", truth_of(Operation::logical_or)},
      {"asin", "x", 1, 1, "arc sine [rad]", componentwise(Operation::arc_sine)},
      {"atan2", "y, x", 2, 2, "angle of the point (x, y) [rad]", componentwise(Operation::arc_tangent2)},
      {"clamp", "x, low, high", 3, 3, "x limited to [low, high]", clamped},
      {"cos", "x", 1, 1, "cosine of x [rad]", componentwise(Operation::cosine)},
      {"cross", "a, b", 2, 2, "cross product of two vectors of 3", product_of_vectors(3, cross_product)},
      {"dot", "a, b", 2, 2, "scalar product", dot},
      {"exp", "x", 1, 1, "e to the x", componentwise(Operation::exponential)},
      {"floor", "x", 1, 1, "largest integer not above x", componentwise(Operation::floor)},
      {"log", "x", 1, 1, "natural logarithm", componentwise(Operation::logarithm)},
      {"max", "x or a, b, ...", 1, kAnyNumber,
       "largest component, or component by component the largest argument", extreme(Operation::maximum)},
      {"mean", "x", 1, 1, "mean of the components", mean},
      {"min", "x or a, b, ...", 1, kAnyNumber,
       "smallest component, or component by component the smallest argument", extreme(Operation::minimum)},
      {"norm", "x", 1, 1, "Euclidean length", norm},
      {"normal", "mean, std[, n]", 2, 3, "Gaussian random numbers (resets only)", random(kNormal), true},
      {"pow", "a, b", 2, 2, "a ^ b", componentwise(Operation::power)},
      {"prev", "x", 1, 1, "x at the previous control step; right after a reset, at the reset", previous,
       true},
      {"quat_from_euler", "roll, pitch, yaw", 3, 3,
       "quaternion (w, x, y, z) of turns about x, then y, then z [rad]", quaternion_from_euler},
      {"quat_mul", "a, b", 2, 2, "product of two quaternions (w, x, y, z)",
       product_of_vectors(4, quaternion_product)},
      {"select", "c, a, b", 3, 3, "a where c is true, else b; the same as c ? a : b",
       componentwise(Operation::select)},
      {"sign", "x", 1, 1, "-1, 0 or 1", componentwise(Operation::sign)},
      {"sin", "x", 1, 1, "sine of x [rad]", componentwise(Operation::sine)},
      {"sqrt", "x", 1, 1, "square root", componentwise(Operation::square_root)},
      {"square", "x", 1, 1, "x * x", squares},
      {"sum", "x", 1, 1, "sum of the components", reduced(Operation::add)},
      {"tan", "x", 1, 1, "tangent of x [rad]", componentwise(Operation::tangent)},
      {"tanh", "x", 1, 1, "hyperbolic tangent", componentwise(Operation::hyperbolic_tangent)},
      {"uniform", "low, high[, n]", 2, 3, "uniform random numbers in [low, high) (resets only)",
       random(kUniform), true},
      {"wrap_to_pi", "x", 1, 1, "the angle x [rad] brought to [-pi, pi)", wrapped_angle},
  };
  return functions;
}

const ExpressionFunction* find_function(const std::string& name) {
  const std::vector<ExpressionFunction>& functions = expression_functions();
  const auto found = std::find_if(functions.begin(), functions.end(),
                                  [&](const ExpressionFunction& function) { return function.name == name; });
  return found == functions.end() ? nullptr : &*found;
}

Value ExpressionCompiler::call_value(const Syntax& tree, const ExpressionSource& source) {
  const std::string& name = tree.text;
  const ExpressionFunction* const function = find_function(name);
  if (!function) {
    std::vector<std::string> names;
    for (const ExpressionFunction& known : expression_functions()) names.push_back(known.name);
    refuse_expression(source, tree.column, "unknown function '" + name + "'" + did_you_mean(name, names),
                      "known: " + list(names));
  }
  const int count = static_cast<int>(tree.children.size());
  if (count < function->least || (function->most != kAnyNumber && count > function->most))
    refuse_expression(source, tree.column, "'" + name + "' with " + std::to_string(count) + " arguments",
                      name + "(" + function->arguments + ")");
  FunctionCall call{*this, tree, source, {}};
  if (!function->takes_syntax)
    for (const auto& argument : tree.children) call.arguments.push_back(value(*argument, source));
  return function->value(call);
}

}  // namespace maniple
