#include "src/tasks/expression_graph.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "src/base/error.hpp"

namespace maniple {

int operand_count(Operation operation) {
  switch (operation) {
#define MANIPLE_OPERATION(name, operands, meaning) \
  case Operation::name:                            \
    return operands;
    MANIPLE_OPERATIONS(MANIPLE_OPERATION)
#undef MANIPLE_OPERATION
  }
  return 0;
}

double evaluate_operation(Operation operation, double a, double b, double c) {
  switch (operation) {
    case Operation::copy:
      return a;
    case Operation::negate:
      return -a;
    case Operation::add:
      return a + b;
    case Operation::subtract:
      return a - b;
    case Operation::multiply:
      return a * b;
    case Operation::divide:
      return a / b;
    case Operation::multiply_add:
      return a * b + c;
    case Operation::less:
      return a < b;
    case Operation::less_equal:
      return a <= b;
    case Operation::equal:
      return a == b;
    case Operation::not_equal:
      return a != b;
    case Operation::logical_and:
      return a != 0 && b != 0;
    case Operation::logical_or:
      return a != 0 || b != 0;
    case Operation::logical_not:
      return a == 0;
    case Operation::select:
      return a != 0 ? b : c;
    case Operation::minimum:
      return b < a ? b : a;
    case Operation::maximum:
      return a < b ? b : a;
    case Operation::absolute:
      return std::abs(a);
    case Operation::sign:
      return static_cast<double>((a > 0) - (a < 0));
    case Operation::floor:
      return std::floor(a);
    case Operation::square_root:
      return std::sqrt(a);
    case Operation::exponential:
      return std::exp(a);
    case Operation::logarithm:
      return std::log(a);
    case Operation::sine:
      return std::sin(a);
    case Operation::cosine:
      return std::cos(a);
    case Operation::tangent:
      return std::tan(a);
    case Operation::hyperbolic_tangent:
      return std::tanh(a);
    case Operation::arc_sine:
      return std::asin(a);
    case Operation::arc_cosine:
      return std::acos(a);
    case Operation::arc_tangent2:
      return std::atan2(a, b);
    case Operation::power:
      return std::pow(a, b);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

int ConstantPool::index(double value) {
  const auto same = [&](double known) {
    return std::bit_cast<std::uint64_t>(known) == std::bit_cast<std::uint64_t>(value);
  };
  const auto found = std::find_if(values_.begin(), values_.end(), same);
  if (found != values_.end()) return static_cast<int>(found - values_.begin());
  values_.push_back(value);
  return static_cast<int>(values_.size()) - 1;
}

ExpressionGraph::Node ExpressionGraph::add(const Entry& entry, const std::array<std::int64_t, 5>& key) {
  const auto [place, is_new] = known_.try_emplace(key, static_cast<Node>(entries_.size()));
  if (is_new) entries_.push_back(entry);
  return place->second;
}

ExpressionGraph::Node ExpressionGraph::constant(double value) {
  return add({Kind::constant, value, Bank::constants, 0, Operation::copy, {-1, -1, -1}},
             {0, std::bit_cast<std::int64_t>(value), 0, 0, 0});
}

ExpressionGraph::Node ExpressionGraph::operand(Bank bank, int index) {
  return add({Kind::operand, 0, bank, index, Operation::copy, {-1, -1, -1}},
             {1, static_cast<std::int64_t>(bank), index, 0, 0});
}

bool ExpressionGraph::is_constant(Node node) const {
  return entries_[static_cast<std::size_t>(node)].kind == Kind::constant;
}

bool ExpressionGraph::is_operand(Node node, Bank bank, int& index) const {
  const Entry& entry = entries_[static_cast<std::size_t>(node)];
  if (entry.kind != Kind::operand || entry.bank != bank) return false;
  index = entry.index;
  return true;
}

double ExpressionGraph::constant_value(Node node) const {
  return entries_[static_cast<std::size_t>(node)].value;
}

ExpressionGraph::Node ExpressionGraph::apply(Operation operation, Node a, Node b, Node c) {
  const int count = operand_count(operation);
  if (count < 2) b = -1;
  if (count < 3) c = -1;
  const auto is = [&](Node node, double value) {
    return node >= 0 && is_constant(node) && constant_value(node) == value;
  };
  if (is_constant(a) && (b < 0 || is_constant(b)) && (c < 0 || is_constant(c)))
    return constant(evaluate_operation(operation, constant_value(a), b < 0 ? 0 : constant_value(b),
                                       c < 0 ? 0 : constant_value(c)));
  // Identities that leave every number as it is (up to the sign of zero).
  if (operation == Operation::add && is(a, 0)) return b;
  if (operation == Operation::add && is(b, 0)) return a;
  if (operation == Operation::subtract && is(b, 0)) return a;
  if (operation == Operation::multiply && is(a, 1)) return b;
  if (operation == Operation::multiply && is(b, 1)) return a;
  if (operation == Operation::divide && is(b, 1)) return a;
  if (operation == Operation::select && is_constant(a)) return constant_value(a) != 0 ? b : c;
  if (operation == Operation::select && b == c) return b;
  // a + b and b + a are the same node.
  const bool commutes = operation == Operation::add || operation == Operation::multiply ||
                        operation == Operation::equal || operation == Operation::not_equal ||
                        operation == Operation::logical_and || operation == Operation::logical_or;
  if (commutes && b < a) std::swap(a, b);
  return add({Kind::operation, 0, Bank::registers, 0, operation, {a, b, c}},
             {2, static_cast<std::int64_t>(operation), a, b, c});
}

ExpressionGraph::Node ExpressionGraph::power(Node a, Node b) {
  if (is_constant(b) && !is_constant(a)) {
    const double exponent = constant_value(b);
    if (exponent == 0.5) return apply(Operation::square_root, a);
    if (exponent == std::trunc(exponent) && std::abs(exponent) <= 64) {
      Node result = constant(1), square = a;
      for (int rest = static_cast<int>(std::abs(exponent)); rest > 0; rest /= 2) {
        if (rest % 2 == 1) result = apply(Operation::multiply, result, square);
        if (rest > 1) square = apply(Operation::multiply, square, square);
      }
      return exponent < 0 ? apply(Operation::divide, constant(1), result) : result;
    }
  }
  return apply(Operation::power, a, b);
}

void ExpressionGraph::store(Node node, Bank bank, int index) {
  stores_.push_back({-1, node, bank, index});
}

void ExpressionGraph::store_where(Node mask, Node node, Bank bank, int index) {
  stores_.push_back({mask, node, bank, index});
}

Program ExpressionGraph::compile(ConstantPool& constants) const {
  const std::size_t count = entries_.size();
  // Nodes that some store needs, and how often each is read.
  std::vector<int> uses(count, 0);
  std::vector<bool> live(count, false);
  for (const Store& store : stores_) {
    for (const Node node : {store.node, store.mask}) {
      if (node < 0) continue;
      live[static_cast<std::size_t>(node)] = true;
      ++uses[static_cast<std::size_t>(node)];
    }
  }
  for (std::size_t n = count; n-- > 0;) {
    if (!live[n] || entries_[n].kind != Kind::operation) continue;
    for (const Node operand : entries_[n].operands) {
      if (operand < 0) continue;
      live[static_cast<std::size_t>(operand)] = true;
      ++uses[static_cast<std::size_t>(operand)];
    }
  }

  // a * b + c becomes one instruction where nothing else needs the product.
  struct Step {
    Operation operation;
    std::array<Node, 3> operands;
  };
  std::vector<Step> steps(count);
  std::vector<bool> fused(count, false);
  for (std::size_t n = 0; n < count; ++n) {
    if (!live[n] || entries_[n].kind != Kind::operation) continue;
    steps[n] = {entries_[n].operation, entries_[n].operands};
    if (entries_[n].operation != Operation::add) continue;
    const auto [a, b, c] = entries_[n].operands;
    for (const auto& [product, other] : {std::pair{a, b}, std::pair{b, a}}) {
      const auto p = static_cast<std::size_t>(product);
      if (entries_[p].kind != Kind::operation || entries_[p].operation != Operation::multiply || uses[p] != 1)
        continue;
      steps[n] = {Operation::multiply_add, {entries_[p].operands[0], entries_[p].operands[1], other}};
      fused[p] = true;
      break;
    }
  }

  // Where each value lies. A value that goes to an output is computed right there.
  struct Place {
    Bank bank = Bank::registers;
    int index = -1;
  };
  std::vector<Place> places(count);
  std::vector<bool> store_done(stores_.size(), false);
  for (std::size_t s = 0; s < stores_.size(); ++s) {
    const auto n = static_cast<std::size_t>(stores_[s].node);
    if (stores_[s].bank != Bank::output || stores_[s].mask >= 0) continue;
    if (entries_[n].kind != Kind::operation || places[n].index >= 0) continue;
    places[n] = {Bank::output, stores_[s].index};
    store_done[s] = true;
  }
  // The last step that reads each node; stores come after all steps.
  std::vector<std::size_t> last_read(count, 0);
  for (std::size_t n = 0; n < count; ++n) {
    if (!live[n] || fused[n] || entries_[n].kind != Kind::operation) continue;
    for (const Node operand : steps[n].operands)
      if (operand >= 0) last_read[static_cast<std::size_t>(operand)] = n;
  }
  for (std::size_t s = 0; s < stores_.size(); ++s)
    for (const Node node : {stores_[s].node, stores_[s].mask})
      if (node >= 0 && !store_done[s]) last_read[static_cast<std::size_t>(node)] = count;

  Program program;
  std::set<int> free;
  const auto new_register = [&]() {
    if (!free.empty()) {
      const int lowest = *free.begin();
      free.erase(free.begin());
      return lowest;
    }
    return program.num_registers++;
  };
  const auto place = [&](Node node) -> Place {
    const Entry& entry = entries_[static_cast<std::size_t>(node)];
    if (entry.kind == Kind::constant) return {Bank::constants, constants.index(entry.value)};
    if (entry.kind == Kind::operand && places[static_cast<std::size_t>(node)].index < 0)
      return {entry.bank, entry.index};
    return places[static_cast<std::size_t>(node)];
  };
  const auto encode = [&](int index) {
    if (index < 0 || index > std::numeric_limits<std::uint16_t>::max())
      throw Error("a task program outgrows its encoding: operand " + std::to_string(index) +
                  " of at most 65535");
    return static_cast<std::uint16_t>(index);
  };
  const auto emit = [&](Operation operation, Place target, std::array<Place, 3> operands) {
    Instruction instruction;
    instruction.operation = operation;
    instruction.bank_target = target.bank;
    instruction.target = encode(target.index);
    // Operands that the operation does not take name register 0, which always exists.
    for (Place& operand : operands)
      if (operand.index < 0) operand = {Bank::registers, 0};
    instruction.bank_a = operands[0].bank;
    instruction.a = encode(operands[0].index);
    instruction.bank_b = operands[1].bank;
    instruction.b = encode(operands[1].index);
    instruction.bank_c = operands[2].bank;
    instruction.c = encode(operands[2].index);
    program.instructions.push_back(instruction);
  };

  for (std::size_t n = 0; n < count; ++n) {
    if (!live[n] || fused[n] || entries_[n].kind != Kind::operation) continue;
    std::array<Place, 3> operands;
    for (std::size_t i = 0; i < 3; ++i)
      if (steps[n].operands[i] >= 0) operands[i] = place(steps[n].operands[i]);
    // Registers whose last reader this is may already take the result: operands are read first.
    std::set<int> released;
    for (const Node operand : steps[n].operands) {
      if (operand < 0) continue;
      const auto o = static_cast<std::size_t>(operand);
      if (entries_[o].kind == Kind::operation && places[o].bank == Bank::registers && last_read[o] == n)
        released.insert(places[o].index);
    }
    free.insert(released.begin(), released.end());
    if (places[n].index < 0) places[n] = {Bank::registers, new_register()};
    emit(steps[n].operation, places[n], operands);
  }

  // A stored value that is itself an element of a bank may be overwritten by an earlier store: keep it.
  for (std::size_t s = 0; s < stores_.size(); ++s) {
    const auto n = static_cast<std::size_t>(stores_[s].node);
    if (entries_[n].kind != Kind::operand || places[n].index >= 0) continue;
    const bool overwritten = std::any_of(
        stores_.begin(), stores_.begin() + static_cast<std::ptrdiff_t>(s), [&](const Store& earlier) {
          return earlier.bank == entries_[n].bank && earlier.index == entries_[n].index;
        });
    if (!overwritten) continue;
    const Place kept{Bank::registers, new_register()};
    emit(Operation::copy, kept, {place(stores_[s].node), Place{}, Place{}});
    places[n] = kept;
  }
  for (std::size_t s = 0; s < stores_.size(); ++s) {
    const Store& store = stores_[s];
    const Place target{store.bank, store.index};
    if (store_done[s]) continue;
    if (store.mask < 0)
      emit(Operation::copy, target, {place(store.node), Place{}, Place{}});
    else
      emit(Operation::select, target, {place(store.mask), place(store.node), target});
  }
  return program;
}

}  // namespace maniple
