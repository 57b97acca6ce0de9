// From syntax trees (src/tasks/expression.hpp) to scalar operations
// (src/tasks/expression_graph.hpp). Every value has a static shape, a number or a vector, and is
// unrolled here, so that the device only sees scalar operations. What names mean is in
// expression_context.cpp, what functions mean in expression_functions.cpp.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/tasks/program.hpp"
#include "src/tasks/expression.hpp"
#include "src/tasks/expression_context.hpp"
#include "src/tasks/expression_graph.hpp"

namespace maniple {

// The three programs of a task; decides which quantities exist and what prev() reads.
enum class Phase { evaluate, reset, observe };

// Compiles the expressions of one phase into one graph.
class ExpressionCompiler {
 public:
  using Node = ExpressionGraph::Node;
  using Value = std::vector<Node>;  // one node per component; a number has one

  ExpressionCompiler(ExpressionContext& context, Phase phase) : context_(context), phase_(phase) {}

  // The value of an expression; InputError with a caret otherwise.
  Value compile(const ExpressionSource& source);
  // The same, for places that need a number.
  Node compile_number(const ExpressionSource& source, const std::string& what);
  // reset: assigns the expression to the elements of qpos, qvel or act that `target` names.
  void assign(const ExpressionSource& target, const ExpressionSource& source);

  // Gives a name a value in this phase ("terminated", "time_out").
  void set_name(const std::string& name, Node node) { names_[name] = {node}; }
  // Reads an element of a bank as it stands after the assignments so far.
  Node read(Bank bank, int index);

  // observe: the stores that prev() needs. reset: the masked stores of the assigned elements.
  void finish();

  ExpressionGraph& graph() { return graph_; }
  ExpressionContext& context() { return context_; }
  Phase phase() const { return phase_; }

  // ---- for the functions of expressions ----
  Value value(const Syntax& tree, const ExpressionSource& source);
  // The operation component by component; numbers go with vectors.
  Value apply(Operation operation, const Syntax& tree, const ExpressionSource& source,
              const std::vector<Value>& arguments);
  // "a number" or "a vector of 3", for messages.
  static std::string shape(const Value& value);

 private:
  Value name_value(const Syntax& tree, const ExpressionSource& source);
  Value element_value(const Syntax& tree, const ExpressionSource& source);
  Value quantity_elements(const Quantity& quantity, const Syntax& tree, const ExpressionSource& source);
  Value member_value(const Syntax& tree, const ExpressionSource& source);
  Value call_value(const Syntax& tree, const ExpressionSource& source);
  const Quantity& known_quantity(const Quantity& quantity, const Syntax& tree,
                                 const ExpressionSource& source);
  std::vector<std::string> known_names() const;

  ExpressionContext& context_;
  Phase phase_;
  ExpressionGraph graph_;
  // Definitions that were used, too: each is evaluated once, where it is used first, with its draws.
  std::map<std::string, Value> names_;
  std::vector<std::string> open_definitions_;
  std::map<int, Node> assigned_;  // by element of the state
  std::vector<int> assignment_order_;
  bool reading_target_ = false;
};

}  // namespace maniple
