// The functions that expressions may call: names, arguments, meanings, and what a call becomes. A new
// function is one entry of the table in expression_functions.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/tasks/language/expression_compiler.hpp"

namespace maniple {

// A call in an expression, as the function that it names sees it.
struct FunctionCall {
  ExpressionCompiler& compiler;
  const Syntax& tree;
  const ExpressionSource& source;
  // In the order of the function's parameters; nullptr: not given, and without a default.
  std::vector<const Syntax*> parts;
  std::vector<ExpressionCompiler::Value> arguments;  // of functions that take syntax: none
};

struct ExpressionFunction {
  std::string name;
  // The parameters as documentation writes them: "x, low, high", "mean, std[, n]", "x, margin = 0". Arguments
  // may be given by these names. With "...": any number, by place alone.
  std::string arguments;
  std::string example;  // a call; of numbers alone where the function needs no model
  std::string meaning;
  std::function<ExpressionCompiler::Value(FunctionCall&)> value;
  bool takes_syntax = false;  // its arguments are not computed beforehand
};

const std::vector<ExpressionFunction>& expression_functions();

// nullptr: no such function.
const ExpressionFunction* find_function(const std::string& name);

}  // namespace maniple
