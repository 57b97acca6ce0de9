// The helpers of all formulas.
#include "src/tasks/language/formulas.hpp"

#include <cmath>

namespace maniple::formulas {

[[noreturn]] void refuse(const FunctionCall& call, const std::string& found, const std::string& allowed) {
  refuse_expression(call.source, call.tree.column, found, allowed);
}

Value map(FunctionCall& call, Operation operation, const std::vector<Value>& arguments) {
  return call.compiler.apply(operation, call.tree, call.source, arguments);
}

Value number(FunctionCall& call, double x) {
  return {call.compiler.graph().constant(x)};
}

Value reduce(FunctionCall& call, Operation operation, const Value& vector) {
  Node result = vector[0];
  for (std::size_t i = 1; i < vector.size(); ++i)
    result = call.compiler.graph().apply(operation, result, vector[i]);
  return {result};
}

double fixed_number(FunctionCall& call, std::size_t part, const std::string& allowed) {
  const Value value = call.compiler.value(*call.parts[part], call.source);
  const ExpressionGraph& graph = call.compiler.graph();
  if (value.size() != 1 || !graph.is_constant(value[0]))
    refuse_expression(call.source, call.parts[part]->column, "not a fixed number", allowed);
  return graph.constant_value(value[0]);
}

std::size_t count_of(FunctionCall& call, std::size_t part, const std::string& what) {
  const double n = fixed_number(call, part, "a whole number from 1 on");
  if (!(n >= 1 && n <= 1e4 && n == std::floor(n)))
    refuse_expression(call.source, call.parts[part]->column, "not a number of " + what,
                      "a whole number from 1 to 10000");
  return static_cast<std::size_t>(n);
}

std::vector<double> fixed_numbers(FunctionCall& call, std::size_t part) {
  const Value value = call.compiler.value(*call.parts[part], call.source);
  const ExpressionGraph& graph = call.compiler.graph();
  std::vector<double> numbers;
  for (const Node node : value) {
    if (!graph.is_constant(node))
      refuse_expression(call.source, call.parts[part]->column, "not fixed numbers",
                        "numbers that are the same for every environment at any time");
    numbers.push_back(graph.constant_value(node));
  }
  return numbers;
}

}  // namespace maniple::formulas
