// What the functions of expressions are called and what they compute: first the table of names and
// arguments, then the part of ExpressionCompiler that turns a call into operations. A new function is a
// row of the table, and a line in call_value unless it works component by component.
#include "src/tasks/expression_functions.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "src/tasks/expression_compiler.hpp"
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

}  // namespace

const std::vector<ExpressionFunction>& expression_functions() {
  static const std::vector<ExpressionFunction> functions{
      {"abs", "x", 1, 1, "absolute value", Operation::absolute},
      {"acos", "x", 1, 1, "arc cosine [rad]", Operation::arc_cosine},
      {"all", "x", 1, 1, "1 if no component is 0"},
      {"any", "x", 1, 1, "1 if some component is not 0"},
      {"asin", "x", 1, 1, "arc sine [rad]", Operation::arc_sine},
      {"atan2", "y, x", 2, 2, "angle of the point (x, y) [rad]", Operation::arc_tangent2},
      {"clamp", "x, low, high", 3, 3, "x limited to [low, high]"},
      {"cos", "x", 1, 1, "cosine of x [rad]", Operation::cosine},
      {"cross", "a, b", 2, 2, "cross product of two vectors of 3"},
      {"dot", "a, b", 2, 2, "scalar product"},
      {"exp", "x", 1, 1, "e to the x", Operation::exponential},
      {"floor", "x", 1, 1, "largest integer not above x", Operation::floor},
      {"log", "x", 1, 1, "natural logarithm", Operation::logarithm},
      {"max", "x or a, b, ...", 1, kAnyNumber,
       "largest component, or component by component the largest argument"},
      {"mean", "x", 1, 1, "mean of the components"},
      {"min", "x or a, b, ...", 1, kAnyNumber,
       "smallest component, or component by component the smallest argument"},
      {"norm", "x", 1, 1, "Euclidean length"},
      {"normal", "mean, std[, n]", 2, 3, "Gaussian random numbers (resets only)"},
      {"pow", "a, b", 2, 2, "a ^ b"},
      {"prev", "x", 1, 1, "x at the previous control step; right after a reset, at the reset"},
      {"quat_from_euler", "roll, pitch, yaw", 3, 3,
       "quaternion (w, x, y, z) of turns about x, then y, then z [rad]"},
      {"quat_mul", "a, b", 2, 2, "product of two quaternions (w, x, y, z)"},
      {"select", "c, a, b", 3, 3, "a where c is true, else b; the same as c ? a : b", Operation::select},
      {"sign", "x", 1, 1, "-1, 0 or 1", Operation::sign},
      {"sin", "x", 1, 1, "sine of x [rad]", Operation::sine},
      {"sqrt", "x", 1, 1, "square root", Operation::square_root},
      {"square", "x", 1, 1, "x * x"},
      {"sum", "x", 1, 1, "sum of the components"},
      {"tan", "x", 1, 1, "tangent of x [rad]", Operation::tangent},
      {"tanh", "x", 1, 1, "hyperbolic tangent", Operation::hyperbolic_tangent},
      {"uniform", "low, high[, n]", 2, 3, "uniform random numbers in [low, high) (resets only)"},
      {"wrap_to_pi", "x", 1, 1, "the angle x [rad] brought to [-pi, pi)"},
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
  if (name == "prev") return previous_value(tree, source);
  if (name == "uniform" || name == "normal") return random_value(tree, source);

  std::vector<Value> arguments;
  for (const auto& argument : tree.children) arguments.push_back(value(*argument, source));
  if (function->operation) return apply(*function->operation, tree, source, arguments);

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
    const Value turn = number(2 * std::numbers::pi);
    const Value shifted = map(Operation::add, x, number(std::numbers::pi));
    const Value turns = apply(Operation::floor, tree, source, {map(Operation::divide, shifted, turn)});
    return map(Operation::subtract, x, map(Operation::multiply, turns, turn));
  }
  if (name == "min" || name == "max") {
    const Operation operation = name == "min" ? Operation::minimum : Operation::maximum;
    if (count == 1) return reduce(operation, x);
    Value result = x;
    for (std::size_t i = 1; i < arguments.size(); ++i) result = map(operation, result, arguments[i]);
    return result;
  }
  if (name == "sum") return reduce(Operation::add, x);
  if (name == "mean") {
    const Value size = number(static_cast<double>(x.size()));
    return map(Operation::divide, reduce(Operation::add, x), size);
  }
  if (name == "norm")
    return apply(Operation::square_root, tree, source,
                 {reduce(Operation::add, map(Operation::multiply, x, x))});
  if (name == "any" || name == "all") {
    const Value zero = number(0);
    return map(Operation::not_equal,
               reduce(name == "any" ? Operation::logical_or : Operation::logical_and, x), zero);
  }
  if (name == "dot") return reduce(Operation::add, map(Operation::multiply, x, arguments[1]));
  if (name == "quat_from_euler") {
    for (const Value& angle : arguments)
      if (angle.size() != 1)
        refuse_expression(source, tree.column, "'quat_from_euler' of " + shape(angle), "three numbers");
    return quaternion_of_turns(graph_, {arguments[0][0], arguments[1][0], arguments[2][0]});
  }
  // quat_mul or cross
  const Value& y = arguments[1];
  const bool quaternions = name == "quat_mul";
  const std::size_t size = quaternions ? 4 : 3;
  if (x.size() != size || y.size() != size)
    refuse_expression(source, tree.column, "'" + name + "' of " + shape(x) + " and " + shape(y),
                      "two vectors of " + std::to_string(size));
  return quaternions ? quaternion_product(graph_, x, y) : cross_product(graph_, x, y);
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
  const Arithmetic to{graph_};
  const auto draw = [&] { return graph_.operand(Bank::random, context_.draw()); };
  Value result;
  for (std::size_t i = 0; i < size; ++i) {
    const Node first = a.size() == 1 ? a[0] : a[i], second = b.size() == 1 ? b[0] : b[i];
    if (tree.text == "uniform") {
      const Node width = to.subtract(second, first);
      result.push_back(to.add(first, to.product(width, draw())));
    } else {
      const Node standard = standard_normal(graph_, draw);
      result.push_back(to.add(first, to.product(second, standard)));
    }
  }
  return result;
}

Value ExpressionCompiler::previous_value(const Syntax& tree, const ExpressionSource& source) {
  if (phase_ == Phase::reset)
    refuse_expression(source, tree.column, "'prev' while an environment is being reset",
                      "there is no previous control step in a reset");
  const Syntax& what = *tree.children[0];
  const Value now = value(what, source);
  const ExpressionContext::Memory& memory = context_.remember(what, source, now.size());
  Value result;
  for (int i = 0; i < memory.size; ++i) {
    const Node kept = graph_.operand(Bank::task, memory.first + i);
    // In a fresh episode there is no previous step: the value of the reset stands in.
    result.push_back(phase_ == Phase::observe
                         ? graph_.apply(Operation::select, graph_.operand(Bank::registers, register_flag),
                                        now[static_cast<std::size_t>(i)], kept)
                         : kept);
  }
  return result;
}

}  // namespace maniple
