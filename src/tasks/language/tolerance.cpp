// The formula of tolerance(): dm_control.utils.rewards.tolerance with its eight sigmoids.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>

#include "src/tasks/language/formulas.hpp"
#include "src/tasks/language/names.hpp"

namespace maniple::formulas {
namespace {

// A sigmoid of the distance d, 1 at d = 0 and v at d = 1: scale(v) once, shape(call, scale * d) per value.
struct Sigmoid {
  std::string_view name;
  bool zero_allowed;  // v = 0 is
  double (*scale)(double v);
  Value (*shape)(FunctionCall& call, const Value& x);
};

Value one_minus(FunctionCall& call, const Value& x) {
  return map(call, Operation::subtract, {number(call, 1), x});
}
Value one_over_one_plus(FunctionCall& call, const Value& x) {
  return map(call, Operation::divide, {number(call, 1), map(call, Operation::add, {x, number(call, 1)})});
}
Value square_of(FunctionCall& call, const Value& x) {
  return map(call, Operation::multiply, {x, x});
}
// y where |x| < 1, else 0.
Value within_one(FunctionCall& call, const Value& x, const Value& y) {
  const Value inside = map(call, Operation::less, {map(call, Operation::absolute, {x}), number(call, 1)});
  return map(call, Operation::select, {inside, y, number(call, 0)});
}

constexpr Sigmoid kSigmoids[] = {
    {"gaussian", false, [](double v) { return std::sqrt(-2 * std::log(v)); },
     [](FunctionCall& call, const Value& x) {
       const Value half = map(call, Operation::multiply, {square_of(call, x), number(call, -0.5)});
       return map(call, Operation::exponential, {half});
     }},
    {"hyperbolic", false, [](double v) { return std::acosh(1 / v); },
     [](FunctionCall& call, const Value& x) {
       const Value up = map(call, Operation::exponential, {x});
       const Value down = map(call, Operation::exponential, {map(call, Operation::negate, {x})});
       return map(call, Operation::divide, {number(call, 2), map(call, Operation::add, {up, down})});
     }},
    {"long_tail", false, [](double v) { return std::sqrt(1 / v - 1); },
     [](FunctionCall& call, const Value& x) { return one_over_one_plus(call, square_of(call, x)); }},
    {"reciprocal", false, [](double v) { return 1 / v - 1; },
     [](FunctionCall& call, const Value& x) {
       return one_over_one_plus(call, map(call, Operation::absolute, {x}));
     }},
    {"cosine", true, [](double v) { return std::acos(2 * v - 1) / std::numbers::pi; },
     [](FunctionCall& call, const Value& x) {
       const Value angle = map(call, Operation::multiply, {x, number(call, std::numbers::pi)});
       const Value raised =
           map(call, Operation::add, {map(call, Operation::cosine, {angle}), number(call, 1)});
       return within_one(call, x, map(call, Operation::multiply, {raised, number(call, 0.5)}));
     }},
    {"linear", true, [](double v) { return 1 - v; },
     [](FunctionCall& call, const Value& x) { return within_one(call, x, one_minus(call, x)); }},
    {"quadratic", true, [](double v) { return std::sqrt(1 - v); },
     [](FunctionCall& call, const Value& x) {
       return within_one(call, x, one_minus(call, square_of(call, x)));
     }},
    {"tanh_squared", false, [](double v) { return std::atanh(std::sqrt(1 - v)); },
     [](FunctionCall& call, const Value& x) {
       return one_minus(call, square_of(call, map(call, Operation::hyperbolic_tangent, {x})));
     }},
};

const Sigmoid& sigmoid_of(FunctionCall& call, const Syntax& part) {
  std::vector<std::string> names;
  for (const Sigmoid& sigmoid : kSigmoids) names.emplace_back(sigmoid.name);
  if (part.kind == Syntax::Kind::name || part.kind == Syntax::Kind::text)
    for (const Sigmoid& sigmoid : kSigmoids)
      if (part.text == sigmoid.name) return sigmoid;
  refuse_expression(call.source, part.column,
                    part.text.empty()
                        ? "not the name of a sigmoid"
                        : "unknown sigmoid '" + part.text + "'" + did_you_mean(part.text, names),
                    list(names));
}

}  // namespace

Value tolerance(FunctionCall& call) {
  enum Part : std::size_t { x_part, lower_part, upper_part, margin_part, sigmoid_part, value_part };
  ExpressionGraph& graph = call.compiler.graph();
  const Sigmoid& sigmoid = sigmoid_of(call, *call.parts[sigmoid_part]);
  const std::string range = sigmoid.zero_allowed ? "0 <= value_at_margin < 1" : "0 < value_at_margin < 1";
  const double v = fixed_number(call, value_part, range);
  if (!(v < 1 && (v > 0 || (v == 0 && sigmoid.zero_allowed))))
    refuse_expression(call.source, call.parts[value_part]->column,
                      "value_at_margin out of the range of '" + std::string(sigmoid.name) + "'", range);
  const auto part = [&](Part which) { return call.compiler.value(*call.parts[which], call.source); };
  const Value x = part(x_part), lower = part(lower_part), upper = part(upper_part),
              margin = part(margin_part);
  const auto all_of = [&](const Value& value, double number) {
    return std::all_of(value.begin(), value.end(), [&](Node node) {
      return graph.is_constant(node) && graph.constant_value(node) == number;
    });
  };
  for (std::size_t i = 0; i < lower.size() && i < upper.size(); ++i)
    if (graph.is_constant(lower[i]) && graph.is_constant(upper[i]) &&
        graph.constant_value(lower[i]) > graph.constant_value(upper[i]))
      refuse_expression(call.source, call.parts[lower_part]->column, "a lower bound above the upper one",
                        "lower <= upper");
  for (const Node node : margin)
    if (graph.is_constant(node) && !(graph.constant_value(node) >= 0))
      refuse_expression(call.source, call.parts[margin_part]->column, "a margin below 0", "0 or more");

  const Value above = map(call, Operation::less_equal, {lower, x}),
              below = map(call, Operation::less_equal, {x, upper});
  const Value inside = map(call, Operation::logical_and, {above, below});
  if (all_of(margin, 0)) return inside;
  const Value short_of = map(call, Operation::subtract, {lower, x});
  Value outside = short_of;
  if (!all_of(upper, std::numeric_limits<double>::infinity())) {
    const Value beyond = map(call, Operation::subtract, {x, upper});
    const Value is_below = map(call, Operation::less, {x, lower});
    outside = map(call, Operation::select, {is_below, short_of, beyond});
  }
  const Value distance = map(call, Operation::divide, {outside, margin});
  const Value scaled = map(call, Operation::multiply, {distance, number(call, sigmoid.scale(v))});
  return map(call, Operation::select, {inside, number(call, 1), sigmoid.shape(call, scaled)});
}

}  // namespace maniple::formulas
