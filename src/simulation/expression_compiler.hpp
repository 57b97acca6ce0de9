// What the names of expressions mean: from syntax trees to scalar operations. Every value has a static
// shape, a number or a vector, and is unrolled here, so that the device only sees scalar operations.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/tasks/program.hpp"
#include "src/simulation/expression.hpp"
#include "src/simulation/expression_graph.hpp"
#include "src/simulation/task_model.hpp"

namespace maniple {

// The three programs of a task; decides which quantities exist and what prev() reads.
enum class Phase { evaluate, reset, observe };

class ExpressionCompiler;

// A named quantity: `size` numbers, some of which are grouped under the names of model elements.
struct Quantity {
  struct Element {
    std::string name;
    int first = 0, size = 1;
  };
  std::string name, unit, description;
  int size = 1;
  int row = 1;               // numbers selected by one index: 3 for xpos
  std::string element_kind;  // "joint", "body", ...: what the names are; "": none
  std::vector<Element> elements;
  bool in_reset = false;  // known while resetting, too
  Derived derived = Derived::none;
  std::function<ExpressionGraph::Node(ExpressionCompiler&, int)> node;  // of one of the numbers
};

// Names and numbers that the compilers of the three phases share.
class ExpressionContext {
 public:
  // `definitions` maps the deck's own names to their expressions. Throws InputError where one of them
  // is not an expression, has the name of a quantity or function, or uses itself.
  ExpressionContext(const TaskModel& model, int num_actions, double step_dt, double episode_length,
                    std::int64_t max_episode_steps,
                    const std::map<std::string, ExpressionSource>& definitions);

  const Quantity* find(const std::string& name) const;
  const std::map<std::string, Quantity>& quantities() const { return quantities_; }

  // Values that prev() keeps, in the order in which they were first used.
  struct Memory {
    std::string canonical;
    const Syntax* tree = nullptr;
    const ExpressionSource* source = nullptr;
    int first = 0, size = 0;  // elements of the task's memory
  };
  struct Definition {
    ExpressionSource source;
    std::unique_ptr<Syntax> tree;
  };

 private:
  friend class ExpressionCompiler;

  void add(Quantity quantity);

  std::map<std::string, Quantity> quantities_;
  std::map<std::string, Definition> definitions_;
  std::deque<ExpressionSource> sources_;
  std::vector<std::unique_ptr<Syntax>> trees_;
  std::deque<Memory> memory_;
  int memory_size_ = 0;
  int memory_first_ = 0;  // first element of the memory in the task's fields
  int num_random_ = 0;
};

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
  Derived derived() const { return derived_; }
  int memory_size() const { return context_.memory_size_; }
  int num_random() const { return context_.num_random_; }

 private:
  Value value(const Syntax& tree, const ExpressionSource& source);
  Value name_value(const Syntax& tree, const ExpressionSource& source);
  Value element_value(const Syntax& tree, const ExpressionSource& source);
  Value quantity_elements(const Quantity& quantity, const Syntax& tree, const ExpressionSource& source);
  Value member_value(const Syntax& tree, const ExpressionSource& source);
  Value call_value(const Syntax& tree, const ExpressionSource& source);
  Value random_value(const Syntax& tree, const ExpressionSource& source);
  Value previous_value(const Syntax& tree, const ExpressionSource& source);
  const Quantity& known_quantity(const Quantity& quantity, const Syntax& tree,
                                 const ExpressionSource& source);
  Value apply(Operation operation, const Syntax& tree, const ExpressionSource& source,
              const std::vector<Value>& arguments);
  std::vector<std::string> known_names() const;

  ExpressionContext& context_;
  Phase phase_;
  ExpressionGraph graph_;
  Derived derived_ = Derived::none;
  std::map<std::string, Value> names_;
  std::vector<std::string> open_definitions_;
  std::map<std::pair<int, int>, Node> assigned_;
  std::vector<std::pair<int, int>> assignment_order_;
  bool reading_target_ = false;
};

// Functions of the language with their arguments and meaning, for documentation and messages.
struct ExpressionFunction {
  const char* name;
  const char* arguments;
  const char* meaning;
};
const std::vector<ExpressionFunction>& expression_functions();

}  // namespace maniple
