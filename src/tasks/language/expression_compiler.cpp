// The compiler's walk over a syntax tree: names and elements are looked up in the context, sizes are
// checked, and vectors are unrolled into scalar operations. Calls of functions continue in
// expression_functions.cpp.
#include "src/tasks/language/expression_compiler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <regex>
#include <set>
#include <span>
#include <string_view>

#include "src/tasks/language/expression_functions.hpp"
#include "src/tasks/language/names.hpp"

namespace maniple {
namespace {

using Node = ExpressionGraph::Node;
using Value = ExpressionCompiler::Value;

constexpr std::size_t kScreenful = 100;  // names in a message
// Fields of the state that resets and events may set, and those that actions may.
constexpr const char* kAssignedFields[] = {"qpos",       "qvel",      "act",          "mocap_pos",
                                           "mocap_quat", "eq_active", "xfrc_applied", "qfrc_applied"};
constexpr const char* kFieldsOfActions[] = {"ctrl",      "mocap_pos",    "mocap_quat",
                                            "eq_active", "xfrc_applied", "qfrc_applied"};

struct BinaryOperator {
  std::string_view token;
  Operation operation;
  bool swapped = false;  // a > b is b < a
};
constexpr BinaryOperator kBinaryOperators[] = {
    {"+", Operation::add},         {"-", Operation::subtract},   {"*", Operation::multiply},
    {"/", Operation::divide},      {"^", Operation::power},      {"<", Operation::less},
    {"<=", Operation::less_equal}, {">", Operation::less, true}, {">=", Operation::less_equal, true},
    {"==", Operation::equal},      {"!=", Operation::not_equal}, {"&&", Operation::logical_and},
    {"||", Operation::logical_or}};

}  // namespace

std::string ExpressionCompiler::shape(const Value& value) {
  return value.size() == 1 ? "a number" : "a vector of " + std::to_string(value.size());
}

Value ExpressionCompiler::compile(const ExpressionSource& source) {
  const ParsedExpression& parsed = context_.parse(source);
  return value(*parsed.tree, parsed.source);
}

Node ExpressionCompiler::compile_number(const ExpressionSource& source, const std::string& what) {
  const Value result = compile(source);
  if (result.size() != 1)
    refuse_expression(source, 0, what + " must be a number, found " + shape(result),
                      "reduce it with sum, mean, norm, min, max, any or all, or take one element");
  return result[0];
}

Node ExpressionCompiler::read(Bank bank, int index) {
  if (bank == Bank::state && !reading_target_)
    if (const auto found = assigned_.find(index); found != assigned_.end()) return found->second;
  if (bank == Bank::task)
    if (const auto found = assigned_in_task_.find(index); found != assigned_in_task_.end())
      return found->second;
  return graph_.operand(bank, index);
}

Node ExpressionCompiler::number_of_model(int element, Node value, const ExpressionSource& source) {
  const TaskModel& model = context_.model();
  const auto field =
      std::find_if(model.fields.begin(), model.fields.end(), [&](const VaryingField& candidate) {
        const int first = model.sizes.varied.*(candidate.offset),
                  size = static_cast<int>(candidate.values.size());
        return first >= 0 && element >= first && element < first + size;
      });
  if (field == model.fields.end()) return value;
  const bool not_negative = is_not_negative(field->name);
  if (!graph_.is_constant(value))  // a draw, or what a curriculum has come to
    return not_negative ? graph_.apply(Operation::maximum, value, graph_.constant(0)) : value;
  const double number = graph_.constant_value(value);
  if (!std::isfinite(number) || (not_negative && number < 0))
    refuse_expression(source, 0, fmt::format("{} for {}", number, field->name),
                      not_negative ? "a number of at least 0" : "a finite number");
  return value;
}

bool ExpressionCompiler::assign(const ExpressionSource& target, const ExpressionSource& source, Node mask) {
  const Value assigned = compile(source);
  reading_target_ = true;
  const Value place = compile(target);
  reading_target_ = false;
  if (assigned.size() != 1 && assigned.size() != place.size())
    refuse_expression(source, 0,
                      shape(assigned) + " is assigned to " + shape(place) + " ('" + target.text + "')",
                      place.size() == 1 ? "a number" : "a number or " + shape(place));
  const ModelSizes& sizes = context_.model().sizes;
  const std::vector<FieldInfo> fields = state_fields(sizes);
  const bool acts = phase_ == Phase::act;
  const std::span<const char* const> allowed =
      acts ? std::span<const char* const>(kFieldsOfActions) : std::span<const char* const>(kAssignedFields);
  const auto is_state = [&](int index) {
    return std::any_of(allowed.begin(), allowed.end(), [&](const char* name) {
      const FieldInfo field = field_named(fields, name);
      return index >= field.first && index < field.first + field.size;
    });
  };
  // the model's own numbers are the first that vary
  const int first_of_model = field_named(fields, "model_values").first;
  const int end_of_model = first_of_model + varied_elements(sizes);
  bool of_model = false;
  last_assigned_.clear();
  for (std::size_t i = 0; i < place.size(); ++i) {
    int index = -1;
    const bool known = graph_.is_operand(place[i], Bank::state, index);
    of_model = known && index >= first_of_model && index < end_of_model;
    if (acts && !(known && is_state(index)))
      refuse_expression(target, 0, "'" + target.text + "' cannot be assigned by an action",
                        fmt::format("{}, whole or with [elements]", fmt::join(kFieldsOfActions, ", ")));
    if (!of_model && !(known && is_state(index)))
      refuse_expression(
          target, 0, "'" + target.text + "' cannot be assigned",
          "qpos, qvel, act, joint_pos, joint_vel, mocap_pos, mocap_quat, eq_active, xfrc_applied "
          "or qfrc_applied, whole or with [elements]; events: "
          "also fields of the model that may vary: " +
              list(context_.varying_names()));
    if (of_model ? phase_ == Phase::reset : phase_ == Phase::vary)
      refuse_expression(target, 0, "'" + target.text + "' " + when(),
                        of_model
                            ? "fields of the model are set by task.events"
                            : "with mode startup, fields of the model: " + list(context_.varying_names()));
    Node now = assigned.size() == 1 ? assigned[0] : assigned[i];
    if (of_model) now = number_of_model(index - first_of_model, now, source);
    if (graph_.is_constant(now)) {
      const double value = graph_.constant_value(now);
      if (!std::isfinite(value))
        refuse_expression(source, 0, fmt::format("always {} for '{}'", value, target.text),
                          "a finite number");
    }
    if (mask >= 0) now = graph_.apply(Operation::select, mask, now, read(Bank::state, index));
    if (!assigned_.contains(index)) assignment_order_.push_back(index);
    assigned_[index] = now;
    last_assigned_.push_back(index);
  }
  return of_model;
}

void ExpressionCompiler::assign(int element, double value) {
  if (!assigned_.contains(element)) assignment_order_.push_back(element);
  assigned_[element] = graph_.constant(value);
}

Program ExpressionCompiler::program(ConstantPool& constants) const {
  Program program = graph_.compile(constants);
  program.num_random = num_random_;
  return program;
}

// ---- what the task keeps ----

Value ExpressionCompiler::kept(int first, std::size_t size) {
  Value result;
  for (std::size_t i = 0; i < size; ++i)
    result.push_back(graph_.operand(Bank::kept, first + static_cast<int>(i)));
  return result;
}

Node ExpressionCompiler::drawn(double low, double high) {
  const Node random = draw(), width = graph_.constant(high - low), first = graph_.constant(low);
  return graph_.apply(Operation::add, first, graph_.apply(Operation::multiply, width, random));
}

Node ExpressionCompiler::drawn_at_reset(double low, double high) {
  if (low == high) return graph_.constant(low);
  const int address = context_.keep(1);
  const Node now = drawn(low, high), fresh = graph_.operand(Bank::registers, register_flag),
             before = graph_.operand(Bank::kept, address);
  const Node result = graph_.apply(Operation::select, fresh, now, before);
  kept_stores_.emplace_back(result, address);
  return result;
}

void ExpressionCompiler::shift(int first, const Value& value, int length) {
  const int size = static_cast<int>(value.size());
  for (int i = 0; i < (length - 1) * size; ++i)
    graph_.store(graph_.operand(Bank::kept, first + size + i), Bank::kept, first + i);
  const Node fresh = graph_.operand(Bank::registers, register_flag);
  for (int k = 0; k < size; ++k) {
    const Node component = value[static_cast<std::size_t>(k)];
    for (int i = 0; i < length - 1; ++i)
      graph_.store_where(fresh, component, Bank::kept, first + i * size + k);
    graph_.store(component, Bank::kept, first + (length - 1) * size + k);
  }
}

Value ExpressionCompiler::delayed(const Value& value, const std::vector<double>& delay) {
  if (delay.empty() || delay.back() == 0) return value;
  const int low = static_cast<int>(delay.front()), high = static_cast<int>(delay.back());
  const Node fresh = graph_.operand(Bank::registers, register_flag);
  const int first = context_.keep(static_cast<std::size_t>(high) * value.size());
  Node lag = graph_.constant(low);
  if (low < high) {
    const Node whole = graph_.apply(Operation::floor, drawn_at_reset(low, high + 1.0));
    lag = graph_.apply(Operation::minimum, whole, graph_.constant(high));  // drawn may round up to high + 1
  }
  Value result;
  for (std::size_t k = 0; k < value.size(); ++k) {
    Node chosen = value[k];
    for (int steps = std::max(low, 1); steps <= high; ++steps) {
      const int address = first + (high - steps) * static_cast<int>(value.size()) + static_cast<int>(k);
      const Node is_this = graph_.apply(Operation::equal, lag, graph_.constant(steps));
      chosen = graph_.apply(Operation::select, is_this, graph_.operand(Bank::kept, address), chosen);
    }
    result.push_back(graph_.apply(Operation::select, fresh, value[k], chosen));
  }
  shift(first, value, high);
  return result;
}

Value ExpressionCompiler::history(const Value& value, int length) {
  if (length == 1) return value;
  const std::size_t size = value.size();
  const int first = context_.keep(static_cast<std::size_t>(length - 1) * size);
  const Node fresh = graph_.operand(Bank::registers, register_flag);
  Value result = kept(first, static_cast<std::size_t>(length - 1) * size);
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = graph_.apply(Operation::select, fresh, value[i % size], result[i]);
  result.insert(result.end(), value.begin(), value.end());
  shift(first, value, length - 1);
  return result;
}

ExpressionCompiler::Timer ExpressionCompiler::timer(const std::vector<double>& steps) {
  const int address = context_.keep(1);
  const Node one = graph_.constant(1), fresh = graph_.operand(Bank::registers, register_flag);
  const Node left = graph_.apply(Operation::subtract, graph_.operand(Bank::kept, address), one);
  const Node elapsed = graph_.apply(Operation::less_equal, left, graph_.constant(0));
  const Node over =
      graph_.apply(Operation::logical_and, elapsed, graph_.apply(Operation::logical_not, fresh));
  const Node restarts = graph_.apply(Operation::logical_or, elapsed, fresh);
  // a whole number of steps up to rounding, otherwise the next larger one, as an episode has
  Node next = graph_.constant(std::max(1.0, std::ceil(steps.front() * (1 - 1e-6))));
  if (steps.front() < steps.back()) {
    const Node exact = drawn(steps.front(), steps.back());
    const Node below = graph_.apply(Operation::floor, graph_.apply(Operation::negate, exact));
    next = graph_.apply(Operation::maximum, graph_.apply(Operation::negate, below), one);
  }
  kept_stores_.emplace_back(graph_.apply(Operation::select, restarts, next, left), address);
  return {over, restarts};
}

Node ExpressionCompiler::interval(const std::vector<double>& steps) {
  return timer(steps).over;
}

std::string ExpressionCompiler::when() const {
  return phase_ == Phase::act        ? "while actions are applied"
         : phase_ == Phase::interval ? "in an event between control steps"
         : phase_ == Phase::vary     ? "while an environment gets its model"
                                     : "while an environment is being reset";
}

// In the program that observes: drawn at resets and when its time is up, and updated there if the deck says
// so.
Value ExpressionCompiler::observed_variable(const TaskVariable& variable, const std::string& name) {
  const Node renewed = variable.once            ? graph_.operand(Bank::registers, register_first)
                       : variable.steps.empty() ? graph_.operand(Bank::registers, register_flag)
                                                : timer(variable.steps).restarts;
  const ParsedExpression& reset = context_.parse(variable.reset);
  const Value first = value(*reset.tree, reset.source);
  if (first.empty())
    refuse_expression(variable.reset, 0, "a variable without components", "a number or a vector");
  const int address = context_.keep_variable(name, first.size());
  const Value last = kept(address, first.size());
  Value now;
  for (std::size_t i = 0; i < first.size(); ++i)
    now.push_back(graph_.apply(Operation::select, renewed, first[i], last[i]));
  if (variable.is_updated_at(UpdateTime::observation)) now = updated_variable(variable, name, now);
  for (std::size_t i = 0; i < now.size(); ++i)
    kept_stores_.emplace_back(now[i], address + static_cast<int>(i));
  return now;
}

// `last`: what prev(name) is.
Value ExpressionCompiler::updated_variable(const TaskVariable& variable, const std::string& name,
                                           const Value& last) {
  if (variable.formula) return variable.formula(*this, last);
  last_values_[name] = last;
  const ParsedExpression& update = context_.parse(variable.update);
  Value now = value(*update.tree, update.source);
  last_values_.erase(name);
  if (now.size() == 1) now.resize(last.size(), now[0]);
  if (now.size() != last.size())
    refuse_expression(variable.update, 0,
                      "an update of " + shape(now) + " for a variable whose reset is " + shape(last),
                      shape(last) + (last.size() > 1 ? ", or a number for every component" : ""));
  return now;
}

Value ExpressionCompiler::variable_value(const std::string& name, const Syntax& tree,
                                         const ExpressionSource& source) {
  const TaskVariable& variable = context_.variables().at(name);
  if (std::find(open_definitions_.begin(), open_definitions_.end(), name) != open_definitions_.end())
    refuse_expression(source, tree.column, "variable '" + name + "' uses itself",
                      "prev(" + name + ") is its last value; the values of others, without a circle");
  const auto last = [&] { return kept(context_.address_of_variable(name), context_.size_of_variable(name)); };
  if (without_data()) return last();
  open_definitions_.push_back(name);
  Value result;
  if (phase_ == Phase::observe) {
    result = observed_variable(variable, name);
  } else {
    result = last();
    if (variable.is_updated_at(UpdateTime::step)) {
      result = updated_variable(variable, name, result);
      for (std::size_t i = 0; i < result.size(); ++i)
        kept_stores_.emplace_back(result[i], context_.address_of_variable(name) + static_cast<int>(i));
    }
  }
  open_definitions_.pop_back();
  names_[name] = result;
  return result;
}

std::optional<Value> ExpressionCompiler::last_value(const Syntax& tree, const ExpressionSource&) {
  if (tree.kind != Syntax::Kind::name) return std::nullopt;
  if (const auto found = last_values_.find(tree.text); found != last_values_.end()) return found->second;
  // what a variable was when it was observed last is what stands there until its update is stored
  if (phase_ != Phase::evaluate || !context_.variables().contains(tree.text)) return std::nullopt;
  return kept(context_.address_of_variable(tree.text), context_.size_of_variable(tree.text));
}

void ExpressionCompiler::compile_variables() {
  const ExpressionSource nowhere;
  for (const auto& [name, variable] : context_.variables())
    if (!names_.contains(name))
      context_.mistakes().gather([&, of = name] { variable_value(of, Syntax{}, nowhere); });
}

void ExpressionCompiler::finish() {
  if (phase_ == Phase::evaluate) compile_variables();
  if (phase_ == Phase::reset) {
    const Node flag = graph_.operand(Bank::registers, register_flag);
    for (const int index : assignment_order_)
      graph_.store_where(flag, assigned_.at(index), Bank::state, index);
    for (const auto& [index, node] : assigned_in_task_) graph_.store_where(flag, node, Bank::task, index);
  }
  if (phase_ == Phase::interval)
    for (const auto& [index, node] : assigned_in_task_) graph_.store(node, Bank::task, index);
  if (phase_ == Phase::act || phase_ == Phase::interval || phase_ == Phase::vary)
    for (const int index : assignment_order_) graph_.store(assigned_.at(index), Bank::state, index);
  if (phase_ == Phase::observe) {
    // Compiling a remembered expression may add further ones (prev inside prev).
    for (std::size_t m = 0; m < context_.memory().size(); ++m) {
      const ExpressionContext::Memory& memory = context_.memory()[m];
      const Value now = value(*memory.tree, *memory.source);
      for (int i = 0; i < memory.size; ++i)
        graph_.store(now[static_cast<std::size_t>(i)], Bank::task, memory.first + i);
    }
  }
  for (const auto& [node, address] : kept_stores_) graph_.store(node, Bank::kept, address);
}

bool ExpressionCompiler::knows(const Quantity& quantity) const {
  return !without_data() || quantity.in_reset ||
         ((phase_ == Phase::act || phase_ == Phase::interval) && quantity.in_act);
}

std::vector<std::string> ExpressionCompiler::known_names() const {
  std::vector<std::string> names;
  for (const auto& [name, definition] : context_.definitions()) names.push_back(name);
  for (const auto& [name, variable] : context_.variables())
    if (!name.starts_with(kOwnVariable)) names.push_back(name);
  for (const auto& [name, nodes] : names_) names.push_back(name);
  for (const auto& [name, quantity] : context_.quantities())
    if (knows(quantity)) names.push_back(name);
  // a definition may stand for a quantity of its name
  std::set<std::string> seen;
  std::erase_if(names, [&](const std::string& name) { return !seen.insert(name).second; });
  return names;
}

Value ExpressionCompiler::value(const Syntax& tree, const ExpressionSource& source) {
  const auto child = [&](std::size_t i) { return value(*tree.children[i], source); };
  switch (tree.kind) {
    case Syntax::Kind::number:
      return {graph_.constant(tree.number)};
    case Syntax::Kind::name:
      return name_value(tree, source);
    case Syntax::Kind::element:
      return element_value(tree, source);
    case Syntax::Kind::member:
      return member_value(tree, source);
    case Syntax::Kind::call:
      return call_value(tree, source);
    case Syntax::Kind::text:
      refuse_expression(source, tree.column, "'" + tree.text + "' in quotes is not a value",
                        "a number, a quantity or a formula; names stand in quotes in [...] and where a "
                        "function takes them");
    case Syntax::Kind::vector: {
      Value result;
      for (std::size_t i = 0; i < tree.children.size(); ++i) {
        const Value part = child(i);
        result.insert(result.end(), part.begin(), part.end());
        if (result.size() > 65536)
          refuse_expression(source, tree.column, "a vector of more than 65536 components", "shorter ones");
      }
      return result;
    }
    case Syntax::Kind::unary:
      return apply(tree.text == "-" ? Operation::negate : Operation::logical_not, tree, source, {child(0)});
    case Syntax::Kind::conditional:
      return apply(Operation::select, tree, source, {child(0), child(1), child(2)});
    case Syntax::Kind::binary: {
      const Value a = child(0), b = child(1);
      const auto [token, operation, swapped] =
          *std::find_if(std::begin(kBinaryOperators), std::end(kBinaryOperators),
                        [&](const BinaryOperator& known) { return known.token == tree.text; });
      return swapped ? apply(operation, tree, source, {b, a}) : apply(operation, tree, source, {a, b});
    }
  }
  return {};
}

Value ExpressionCompiler::apply(Operation operation, const Syntax& tree, const ExpressionSource& source,
                                const std::vector<Value>& arguments) {
  std::size_t size = 1;
  for (const Value& argument : arguments) {
    if (argument.empty())
      refuse_expression(source, tree.column, "a quantity without elements in this model", "a number");
    if (argument.size() == 1) continue;
    if (size != 1 && argument.size() != size)
      refuse_expression(source, tree.column,
                        "'" + tree.text + "' on vectors of " + std::to_string(size) + " and " +
                            std::to_string(argument.size()),
                        "vectors of equal size, or a vector and a number");
    size = argument.size();
  }
  Value result;
  for (std::size_t i = 0; i < size; ++i) {
    std::array<Node, 3> operands{-1, -1, -1};
    for (std::size_t k = 0; k < arguments.size(); ++k)
      operands[k] = arguments[k].size() == 1 ? arguments[k][0] : arguments[k][i];
    result.push_back(operation == Operation::power
                         ? graph_.power(operands[0], operands[1])
                         : graph_.apply(operation, operands[0], operands[1], operands[2]));
  }
  return result;
}

const Quantity& ExpressionCompiler::known_quantity(const Quantity& quantity, const Syntax& tree,
                                                   const ExpressionSource& source) {
  if (!knows(quantity))
    refuse_expression(source, tree.column, "'" + quantity.name + "' is not known " + when(),
                      "allowed there: " + list(known_names(), kScreenful));
  return quantity;
}

Value ExpressionCompiler::name_value(const Syntax& tree, const ExpressionSource& source) {
  const std::string& name = tree.text;
  if (const auto found = names_.find(name); found != names_.end()) return found->second;
  if (context_.variables().contains(name)) return variable_value(name, tree, source);
  if (const ParsedExpression* definition = context_.definition(name)) {
    if (std::find(open_definitions_.begin(), open_definitions_.end(), name) != open_definitions_.end())
      refuse_expression(source, tree.column, "definition '" + name + "' uses itself",
                        "definitions may use other definitions, in any order, without a circle");
    if (open_definitions_.size() >= 200)
      refuse_expression(source, tree.column, "definitions nested too deeply, at '" + name + "'",
                        "a chain of at most 200 definitions");
    open_definitions_.push_back(name);
    const Value result = value(*definition->tree, definition->source);
    open_definitions_.pop_back();
    names_[name] = result;
    return result;
  }
  if (const Quantity* quantity = context_.quantity(name)) {
    known_quantity(*quantity, tree, source);
    if (quantity->size == 0)
      refuse_expression(source, tree.column, "the model has no elements of '" + name + "'",
                        "a quantity that this model has");
    Value result;
    for (int i = 0; i < quantity->size; ++i) result.push_back(quantity->component(*this, i));
    return result;
  }
  if (name == "terminated" || name == "time_out")
    refuse_expression(source, tree.column, "'" + name + "' is not known here", "it is known in rewards");
  if (find_function(name))
    refuse_expression(source, tree.column, "'" + name + "' is a function", "write " + name + "(...)");
  const std::vector<std::string> names = known_names();
  refuse_expression(source, tree.column, "unknown name '" + name + "'" + did_you_mean(name, names),
                    "known: " + list(names, kScreenful));
}

Value ExpressionCompiler::quantity_elements(const Quantity& quantity, const Syntax& tree,
                                            const ExpressionSource& source) {
  Value result;
  const int count = quantity.row > 0 ? quantity.size / quantity.row : 0;
  const auto append = [&](int first, int size) {
    for (int i = 0; i < size; ++i) result.push_back(quantity.component(*this, first + i));
  };
  for (const IndexItem& item : tree.items) {
    if (item.kind == IndexItem::Kind::name) {
      if (quantity.element_kind.empty())
        refuse_expression(source, item.column, "'" + quantity.name + "' has no named elements",
                          "a number from 0 to " + std::to_string(count - 1));
      std::vector<std::string> names;
      for (const Quantity::Element& element : quantity.elements) names.push_back(element.name);
      std::vector<std::size_t> indices;
      try {
        indices = indices_of_name(item.name, names);
      } catch (const std::regex_error&) {
        refuse_expression(source, item.column, "'" + item.name + "' is not a regular expression",
                          "a name or a pattern such as '.*_hip'");
      }
      if (indices.empty())
        refuse_expression(source, item.column,
                          "'" + quantity.name + "' has no " + quantity.element_kind + " '" + item.name + "'" +
                              did_you_mean(item.name, names),
                          "allowed: " + list(names, kScreenful));
      for (const std::size_t index : indices)
        append(quantity.elements[index].first, quantity.elements[index].size);
      continue;
    }
    for (const int i : selected(item, count, "'" + quantity.name + "'", source))
      append(i * quantity.row, quantity.row);
  }
  return result;
}

std::vector<int> ExpressionCompiler::selected(const IndexItem& item, int count, const std::string& whole,
                                              const ExpressionSource& source) {
  const bool range = item.kind == IndexItem::Kind::range;
  const int last = range ? item.last.value_or(std::max(count, item.first + 1)) : item.first + 1;
  if (last > count)
    refuse_expression(
        source, item.column,
        "element " + std::to_string(last - 1) + " of " + whole + ", which has " + std::to_string(count),
        count == 0 ? "it has no elements" : "0 to " + std::to_string(count - 1));
  std::vector<int> result;
  for (int i = item.first; i < last; i += item.step) result.push_back(i);
  return result;
}

Value ExpressionCompiler::element_value(const Syntax& tree, const ExpressionSource& source) {
  const Syntax& whole = *tree.children[0];
  if (whole.kind == Syntax::Kind::name && !names_.contains(whole.text) && !context_.definition(whole.text) &&
      !context_.variables().contains(whole.text))
    if (const Quantity* quantity = context_.quantity(whole.text))
      return quantity_elements(known_quantity(*quantity, whole, source), tree, source);
  const Value vector = value(whole, source);
  Value result;
  for (const IndexItem& item : tree.items) {
    if (item.kind == IndexItem::Kind::name)
      refuse_expression(source, item.column, "'" + item.name + "' names an element of a computed vector",
                        "a number from 0 to " + std::to_string(vector.size() - 1));
    for (const int i : selected(item, static_cast<int>(vector.size()), "a computed vector", source))
      result.push_back(vector[static_cast<std::size_t>(i)]);
  }
  return result;
}

Value ExpressionCompiler::member_value(const Syntax& tree, const ExpressionSource& source) {
  const Value vector = value(*tree.children[0], source);
  const std::string components = vector.size() == 3 ? "xyz" : vector.size() == 4 ? "wxyz" : "";
  const std::size_t index = tree.text.size() == 1 ? components.find(tree.text) : std::string::npos;
  if (index == std::string::npos)
    refuse_expression(source, tree.column, "component '." + tree.text + "' of " + shape(vector),
                      components.empty()
                          ? "only vectors of 3 (.x .y .z) and quaternions (.w .x .y .z) have named components"
                      : vector.size() == 3 ? ".x, .y or .z"
                                           : ".w, .x, .y or .z");
  return {vector[index]};
}

}  // namespace maniple
