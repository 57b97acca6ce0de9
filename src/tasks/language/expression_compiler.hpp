// From syntax trees (src/tasks/language/expression.hpp) to scalar operations
// (src/tasks/language/expression_graph.hpp). Every value has a static shape, a number or a vector, and is
// unrolled here, so that the device only sees scalar operations. What names mean is in
// expression_context.cpp, what functions mean in expression_functions.cpp.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/tasks/program.hpp"
#include "src/tasks/language/expression.hpp"
#include "src/tasks/language/expression_context.hpp"
#include "src/tasks/language/expression_graph.hpp"

namespace maniple {

// The programs of a task, in the order of a control step: before the physics, after it, in environments that
// start again (first what they have of the model for themselves), events in intervals, and for the policy.
// Decides which quantities exist and what prev() reads.
enum class Phase { act, evaluate, vary, reset, interval, observe };

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
  // Assigns the expression to the elements that `target` names. act: of ctrl, mocap_pos, mocap_quat,
  // eq_active, xfrc_applied or qfrc_applied; reset and interval: of qpos, qvel, act and the same but ctrl;
  // vary and interval: of fields of the model. interval and vary: where the mask is true. Returns whether it
  // was the model.
  bool assign(const ExpressionSource& target, const ExpressionSource& source, Node mask = -1);
  // The elements of the state that the last call assigned.
  const std::vector<int>& last_assigned() const { return last_assigned_; }
  // reset: assigns a number to an element of the state, whichever.
  void assign(int element, double value);
  // Gives an element of Bank::task another value, which reads from here on see and finish() stores: reset
  // where the environment is being reset.
  void assign_in_task(int element, Node value) { assigned_in_task_[element] = value; }
  // 1 each time that this many control steps are over: a number, or [low, high] drawn each time.
  Node interval(const std::vector<double>& steps);
  // Is Data not there, as while resetting and acting.
  bool without_data() const { return phase_ != Phase::evaluate && phase_ != Phase::observe; }
  // "while an environment is being reset".
  std::string when() const;

  // Gives a name a value in this phase ("terminated", "time_out").
  void set_name(const std::string& name, Node node) { names_[name] = {node}; }
  // Reads an element of a bank as it stands after the assignments so far.
  Node read(Bank bank, int index);

  // A random number, uniform in [0, 1).
  Node draw() { return graph_.operand(Bank::random, num_random_++); }
  // The last value of the variable that `tree` names: what it is before its update. Nothing: it names none,
  // or one whose last value is not that of the last step here.
  std::optional<Value> last_value(const Syntax& tree, const ExpressionSource& source);
  // Makes random numbers an error while it lives, such as where an expression is compiled twice, so that they
  // would differ. For the message: "in a condition", and what may stand there.
  struct WithoutDraws {
    WithoutDraws(ExpressionCompiler& compiler, std::string here, std::string instead)
        : where(std::move(here)), allowed(std::move(instead)), place(compiler.without_draws_), outer(place) {
      place = this;
    }
    ~WithoutDraws() { place = outer; }
    WithoutDraws(const WithoutDraws&) = delete;
    WithoutDraws& operator=(const WithoutDraws&) = delete;
    const std::string where, allowed;
    const WithoutDraws*& place;
    const WithoutDraws* const outer;
  };
  // nullptr: random numbers may be drawn.
  const WithoutDraws* without_draws() const { return without_draws_; }
  // Random numbers, uniform in a range and normal with mean 0.
  Node drawn(double low, double high);
  Node drawn_normal(double deviation);
  // observe: the values of all variables, before anything else is compiled.
  void compile_variables();
  // observe and act: a kept value that is drawn uniformly in a range at each reset.
  Node drawn_at_reset(double low, double high);
  // observe and act: the value of this many steps ago, or of the reset; delay is a number or [low, high]
  // drawn at resets.
  Value delayed(const Value& value, const std::vector<double>& delay);
  // observe: the last `length` values, the oldest first.
  Value history(const Value& value, int length);

  // The stores of variables. observe: also those that prev() needs. reset: the masked ones of the assigned
  // elements.
  void finish();
  // The program, of everything that has been stored.
  Program program(ConstantPool& constants) const;

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
  // The elements, of `count`, that a number or a range selects. `whole`: what they are of, for messages.
  static std::vector<int> selected(const IndexItem& item, int count, const std::string& whole,
                                   const ExpressionSource& source);
  Value quantity_elements(const Quantity& quantity, const Syntax& tree, const ExpressionSource& source);
  Value member_value(const Syntax& tree, const ExpressionSource& source);
  Value call_value(const Syntax& tree, const ExpressionSource& source);
  Value variable_value(const std::string& name, const Syntax& tree, const ExpressionSource& source);
  Value observed_variable(const TaskVariable& variable, const std::string& name);
  Value updated_variable(const TaskVariable& variable, const std::string& name, const Value& last);
  // A timer that starts at a reset: 1 where its time is over, and 1 where it starts again for either reason.
  struct Timer {
    Node over, restarts;
  };
  Timer timer(const std::vector<double>& steps);
  Value kept(int first, std::size_t size);
  // Keeps the values, oldest first: each address takes over the next one's, the last `value`; all of them
  // `value` after a reset.
  void shift(int first, const Value& value, int length);
  // What the model's number with this place becomes: 0 where it would be negative and cannot be, as draws of
  // a Gaussian may. Refuses fixed numbers that the field cannot have.
  Node number_of_model(int element, Node value, const ExpressionSource& source);
  const Quantity& known_quantity(const Quantity& quantity, const Syntax& tree,
                                 const ExpressionSource& source);
  bool knows(const Quantity& quantity) const;
  std::vector<std::string> known_names() const;

  ExpressionContext& context_;
  Phase phase_;
  ExpressionGraph graph_;
  // Definitions that were used, too: each is evaluated once, where it is used first, with its draws.
  std::map<std::string, Value> names_;
  std::vector<std::string> open_definitions_;
  std::map<int, Node> assigned_;  // by element of the state
  std::map<int, Node> assigned_in_task_;
  std::vector<int> assignment_order_, last_assigned_;
  bool reading_target_ = false;
  int num_random_ = 0;
  const WithoutDraws* without_draws_ = nullptr;
  std::map<std::string, Value> last_values_;  // of the variables that are being updated
  std::vector<std::pair<Node, int>> kept_stores_;
};

}  // namespace maniple
