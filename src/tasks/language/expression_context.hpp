// The names of a task's expressions: quantities of the model and of the episode, and the deck's own
// definitions; and what the compilers of the three phases (src/tasks/language/expression_compiler.hpp) share
// besides. A quantity knows how to write each of its numbers as operations of a graph.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/tasks/program.hpp"
#include "src/base/mistakes.hpp"
#include "src/config/config.hpp"
#include "src/tasks/language/expression.hpp"
#include "src/tasks/language/expression_graph.hpp"
#include "src/tasks/language/task_model.hpp"

namespace maniple {

class ExpressionCompiler;

// A named quantity: `size` numbers, some of which are grouped under the names of model elements.
struct Quantity {
  struct Element {
    std::string name;
    int first = 0, size = 1;
  };
  using Component = std::function<ExpressionGraph::Node(ExpressionCompiler&, int)>;

  std::string name, unit, description;
  int size = 1;
  int row = 1;                    // numbers selected by one index: 3 for xpos
  std::string element_kind = "";  // "joint", "body", ...: what the names are; "": none
  std::vector<Element> elements = {};
  bool in_reset = false;  // known while resetting and acting, too
  bool in_act = false;    // known while acting, too
  Component component;    // the node of one of the numbers
};

// An expression and its syntax tree.
struct ParsedExpression {
  ExpressionSource source;
  std::unique_ptr<Syntax> tree;
};

// How the names of variables that functions keep for themselves begin.
inline constexpr const char* kOwnVariable = "own_";

// Two groups of geoms, true for members.
struct ContactGroups {
  std::vector<bool> first, second;
};

// Rays of one frame to the nearest of some geoms: RayQuery with what it refers to.
struct RayRequest {
  RayFrame frame = RayFrame::body;
  int id = 0;
  RayAlignment alignment = RayAlignment::base;
  double max_distance = 0;   // m
  std::vector<double> rays;  // [ray][kRayElements]
  std::vector<int> geoms;

  int num_rays() const { return static_cast<int>(rays.size()) / kRayElements; }
  bool operator==(const RayRequest&) const = default;
};

// A value that the task keeps from step to step (`task.variables`).
struct TaskVariable {
  ExpressionSource reset, update;  // update.text "": none
  UpdateTime update_at = UpdateTime::step;
  bool once = false;
  std::vector<double> steps;  // control steps between draws: none, a number, or [low, high]
  // In place of update.text, of a function's own variable: what its last value becomes.
  std::function<std::vector<ExpressionGraph::Node>(ExpressionCompiler&,
                                                   const std::vector<ExpressionGraph::Node>&)>
      formula = nullptr;

  bool is_updated_at(UpdateTime time) const { return update_at == time && (formula || !update.text.empty()); }
};

// How long a control step is, and how many physics steps it has.
struct ControlStep {
  double dt = 0;  // s
  int physics_steps = 1;
};

class ExpressionContext {
 public:
  // `definitions` and `variables` map the deck's own names to what they are; `quantities` are further ones
  // than those of the model and of the episode. Throws InputError where a definition is not an expression, or
  // one of them has the name of a quantity, function or other name.
  ExpressionContext(const TaskModel& model, int num_actions, const ControlStep& step, double episode_length,
                    std::int64_t max_episode_steps,
                    const std::map<std::string, ExpressionSource>& definitions,
                    const std::map<std::string, TaskVariable>& variables,
                    const std::vector<Quantity>& quantities);

  // Where those who compile terms gather what is wrong with each.
  Mistakes& mistakes() { return mistakes_; }

  // Makes a curriculum known, whose values `update` gives: the first is number 0 of Bank::constants, and so
  // on.
  void add_curriculum(const std::string& name, const ExpressionSource& update);

  // nullptr: no such name.
  const Quantity* quantity(const std::string& name) const;
  const ParsedExpression* definition(const std::string& name) const;
  const std::map<std::string, Quantity>& quantities() const { return quantities_; }
  const std::map<std::string, ParsedExpression>& definitions() const { return definitions_; }

  // Keeps the parsed expression as long as the context lives, as Memory below needs it.
  const ParsedExpression& parse(const ExpressionSource& source);

  // A value that prev() keeps.
  struct Memory {
    std::string canonical;  // the expression; equal ones share their memory
    const Syntax* tree;
    const ExpressionSource* source;
    int first, size;  // elements of Bank::task
  };
  // The memory of an expression with `size` numbers, which is made at the first call.
  const Memory& remember(const Syntax& tree, const ExpressionSource& source, std::size_t size);
  // In the order in which they were first used; references stay valid while it grows.
  const std::deque<Memory>& memory() const { return memory_; }
  int memory_size() const { return memory_size_; }

  // The model that the quantities are of, and the names of its fields that events may set.
  const TaskModel& model() const { return model_; }
  std::vector<std::string> varying_names() const { return names_of(model_.fields); }
  // The number of a query about contacts between two groups of geoms. -1: no geom of one may touch one of the
  // other.
  int contact_query(const ContactGroups& groups);
  // By query: ContactQueries::sides of each geom pair.
  const std::vector<std::vector<int>>& contact_queries() const { return contact_queries_; }

  // The first answer (element of Bank::ray) about rays, one for each.
  int ray_query(const RayRequest& request);
  const std::vector<RayRequest>& ray_queries() const { return ray_queries_; }

  // The first of `size` further values that the task keeps: elements of Bank::kept.
  int keep(std::size_t size) {
    const int first = kept_size_;
    kept_size_ += static_cast<int>(size);
    return first;
  }
  int kept_size() const { return kept_size_; }
  // Element of Bank::task: the frame of the motion that the environment is at.
  int motion_frame() const { return motion_frame_; }

  // Where a variable is kept, which the program that observes decides: it is compiled first.
  int keep_variable(const std::string& name, std::size_t size) {
    return variable_addresses_.try_emplace(name, keep(size), size).first->second.first;
  }
  int address_of_variable(const std::string& name) const { return variable_addresses_.at(name).first; }
  std::size_t size_of_variable(const std::string& name) const { return variable_addresses_.at(name).second; }

  const ControlStep& control_step() const { return control_step_; }
  // The name of a function's own variable, one for equal calls. What is not there yet is listed in
  // missing_variables(), and the task must be compiled again with it.
  std::string own_variable(const std::string& call, TaskVariable variable);
  const std::map<std::string, TaskVariable>& missing_variables() const { return missing_; }
  // By name, those of functions that remember included.
  const std::map<std::string, TaskVariable>& variables() const { return variables_; }

 private:
  void add(Quantity quantity);
  void add_fields(const TaskModel& model);
  void add_model_fields(const TaskModel& model);
  void add_joint_quantities(const TaskModel& model);
  void add_body_quantities(const TaskModel& model);
  void add_terrain_quantities(const TaskModel& model, int num_actions);
  void add_definition(const std::string& name, const ExpressionSource& source);
  void check_name(const std::string& name, const ExpressionSource& source, const std::string& what) const;

  const TaskModel& model_;
  Mistakes mistakes_;
  ControlStep control_step_;
  std::map<std::string, Quantity> quantities_;
  std::vector<std::vector<int>> contact_queries_;
  std::vector<RayRequest> ray_queries_;
  std::map<std::string, ParsedExpression> definitions_;
  std::deque<ParsedExpression> expressions_;
  std::deque<Memory> memory_;
  int memory_first_ = 0;  // element of Bank::task
  int memory_size_ = 0;
  int kept_size_ = 0;
  int motion_frame_ = 0;
  int num_curricula_ = 0;
  std::map<std::string, TaskVariable> variables_;
  std::map<std::string, TaskVariable> missing_;
  std::map<std::string, std::pair<int, std::size_t>> variable_addresses_;
};

}  // namespace maniple
