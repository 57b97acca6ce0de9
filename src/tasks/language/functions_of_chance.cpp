// Formulas of random numbers. Each number that a program draws is an element of Bank::random in the order in
// which the formulas ask for them, so that this order decides what a seed gives.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "src/tasks/language/formulas.hpp"

namespace maniple {
namespace formulas {
namespace {

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

// How many numbers a random function draws: as many as its longer parameter has, or as its third one says.
std::size_t draws_of(FunctionCall& call, const Value& a, const Value& b) {
  const std::size_t size = std::max(a.size(), b.size());
  if (a.size() != 1 && b.size() != 1 && a.size() != b.size())
    refuse(call,
           "'" + call.tree.text + "' of " + ExpressionCompiler::shape(a) + " and " +
               ExpressionCompiler::shape(b),
           "equal sizes");
  if (!call.parts[2]) return size;
  const std::size_t n = count_of(call, 2, "random numbers");
  if (size != 1 && size != n)
    refuse_expression(call.source, call.parts[2]->column, "not a number of random numbers",
                      std::to_string(size));
  return n;
}

// Random numbers of two parameters: sample(graph, first, second, draw) for each. check(call, first, second)
// refuses parameters that are known already.
template <class Sample>
Formula random(const Sample& sample, void (*check)(FunctionCall&, double first, double second)) {
  return [sample, check](FunctionCall& call) {
    if (const auto* const without = call.compiler.without_draws())
      refuse(call, "random numbers " + without->where, without->allowed);
    ExpressionGraph& graph = call.compiler.graph();
    const Value a = call.compiler.value(*call.parts[0], call.source),
                b = call.compiler.value(*call.parts[1], call.source);
    const std::size_t size = draws_of(call, a, b);
    const auto draw = [&] { return call.compiler.draw(); };
    const auto known = [&](Node node) {  // NaN: not yet
      return graph.is_constant(node) ? graph.constant_value(node) : std::nan("");
    };
    Value result;
    for (std::size_t i = 0; i < size; ++i) {
      const Node first = a[a.size() == 1 ? 0 : i], second = b[b.size() == 1 ? 0 : i];
      for (const double end : {known(first), known(second)})
        if (std::isinf(end)) refuse(call, fmt::format("draws with the parameter {}", end), "finite numbers");
      check(call, known(first), known(second));
      result.push_back(sample(graph, first, second, draw));
    }
    return result;
  };
}

void check_range(FunctionCall& call, double low, double high) {
  if (low > high) refuse(call, fmt::format("the range from {} to {}", low, high), "the lower end first");
}

void check_deviation(FunctionCall& call, double, double deviation) {
  if (deviation < 0) refuse(call, fmt::format("the standard deviation {}", deviation), "at least 0");
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

}  // namespace

Formula uniform_numbers() {
  return random(kUniform, check_range);
}

Formula normal_numbers() {
  return random(kNormal, check_deviation);
}

}  // namespace formulas

ExpressionGraph::Node ExpressionCompiler::drawn_normal(double deviation) {
  const Node standard = formulas::standard_normal(graph_, [this] { return draw(); });
  return graph_.apply(Operation::multiply, graph_.constant(deviation), standard);
}

}  // namespace maniple
