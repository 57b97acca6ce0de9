// The functions that expressions may call: names, arguments and meanings. What a call becomes is decided by
// ExpressionCompiler::call_value, in the .cpp file next to the table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/tasks/program.hpp"

namespace maniple {

struct ExpressionFunction {
  std::string name;
  std::string arguments;  // as documentation writes them: "x, low, high"
  int least, most;        // how many arguments; most = -1: any number
  std::string meaning;
  std::optional<Operation> operation = std::nullopt;  // of functions that work component by component
};

const std::vector<ExpressionFunction>& expression_functions();

// nullptr: no such function.
const ExpressionFunction* find_function(const std::string& name);

}  // namespace maniple
