// The functions that expressions may call: names, arguments, meanings, and what a call becomes. A new
// function is one entry of the table in expression_functions.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/tasks/expression_compiler.hpp"

namespace maniple {

// A call in an expression, as the function that it names sees it.
struct FunctionCall {
  ExpressionCompiler& compiler;
  const Syntax& tree;
  const ExpressionSource& source;
  std::vector<ExpressionCompiler::Value> arguments;  // of functions that take syntax: none
};

struct ExpressionFunction {
  std::string name;
  std::string arguments;  // as documentation writes them: "x, low, high"
  int least, most;        // how many arguments; most = -1: any number
  std::string meaning;
  std::function<ExpressionCompiler::Value(FunctionCall&)> value;
  bool takes_syntax = false;  // its arguments are not computed beforehand
};

const std::vector<ExpressionFunction>& expression_functions();

// nullptr: no such function.
const ExpressionFunction* find_function(const std::string& name);

}  // namespace maniple
