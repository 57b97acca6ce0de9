#include "src/tasks/language/expression_graph.hpp"

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
#define MANIPLE_OPERATION(name, operands, of_lanes, of_numbers, meaning) \
  case Operation::name:                                                  \
    return operands;
    MANIPLE_OPERATIONS(MANIPLE_OPERATION)
#undef MANIPLE_OPERATION
  }
  return 0;
}

double evaluate_operation(Operation operation, double a, double b, double c) {
  switch (operation) {
#define MANIPLE_OPERATION(name, operands, of_lanes, of_numbers, meaning) \
  case Operation::name:                                                  \
    return static_cast<double>(of_numbers);
    MANIPLE_OPERATIONS(MANIPLE_OPERATION)
#undef MANIPLE_OPERATION
  }
  return std::numeric_limits<double>::quiet_NaN();
}

int ConstantPool::index(double value) {
  const auto same = [&](double known) {
    return std::bit_cast<std::uint64_t>(known) == std::bit_cast<std::uint64_t>(value);
  };
  const auto found =
      std::find_if(values_.begin() + static_cast<std::ptrdiff_t>(changing_), values_.end(), same);
  if (found != values_.end()) return static_cast<int>(found - values_.begin());
  values_.push_back(value);
  return static_cast<int>(values_.size()) - 1;
}

ExpressionGraph::Node ExpressionGraph::add(const Entry& entry, const std::array<std::int64_t, 5>& key) {
  const auto [found, is_new] = known_.try_emplace(key, static_cast<Node>(entries_.size()));
  if (is_new) entries_.push_back(entry);
  return found->second;
}

ExpressionGraph::Node ExpressionGraph::constant(double value) {
  return add({.kind = Kind::constant, .value = value}, {0, std::bit_cast<std::int64_t>(value), 0, 0, 0});
}

ExpressionGraph::Node ExpressionGraph::operand(Bank bank, int index) {
  return add({.kind = Kind::operand, .bank = bank, .index = index},
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
  return add({.kind = Kind::operation, .operation = operation, .operands = {a, b, c}},
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

// ---- bytecode ----

// The way of a graph to its program, a stage at a time: what is needed, which products are fused with a sum,
// where each value lies, and the instructions.
class ExpressionGraph::Translation {
 public:
  Translation(const ExpressionGraph& graph, ConstantPool& constants)
      : graph_(graph),
        constants_(constants),
        count_(graph.entries_.size()),
        uses_(count_, 0),
        live_(count_, false),
        steps_(count_),
        fused_(count_, false),
        addresses_(count_),
        last_read_(count_, 0),
        store_done_(graph.stores_.size(), false) {}

  Program program() {
    find_live();
    fuse_products();
    aim_at_outputs();
    find_last_reads();
    for (std::size_t n = 0; n < count_; ++n)
      if (is_step(n)) write_step(n);
    keep_overwritten();
    write_stores();
    return std::move(program_);
  }

 private:
  // An operation with the operands that it has after fusion.
  struct Step {
    Operation operation;
    std::array<Node, 3> operands;
  };
  struct Address {
    Bank bank = Bank::registers;
    int index = -1;
  };

  const Entry& entry(std::size_t n) const { return graph_.entries_[n]; }
  static std::size_t number(Node node) { return static_cast<std::size_t>(node); }
  // Is node n an operation that is carried out by itself.
  bool is_step(std::size_t n) const { return live_[n] && !fused_[n] && entry(n).kind == Kind::operation; }
  // visit(node) for what a store reads, and for the operands of a step.
  template <class Visit>
  static void for_each_node(const Store& store, const Visit& visit) {
    for (const Node node : {store.node, store.mask})
      if (node >= 0) visit(number(node));
  }
  template <class Visit>
  static void for_each_node(const std::array<Node, 3>& operands, const Visit& visit) {
    for (const Node node : operands)
      if (node >= 0) visit(number(node));
  }

  // Nodes that some store needs, and how often each is read.
  void find_live() {
    const auto read = [this](std::size_t n) {
      live_[n] = true;
      ++uses_[n];
    };
    for (const Store& store : graph_.stores_) for_each_node(store, read);
    for (std::size_t n = count_; n-- > 0;)
      if (live_[n] && entry(n).kind == Kind::operation) for_each_node(entry(n).operands, read);
  }

  // a * b + c becomes one instruction where nothing else needs the product.
  void fuse_products() {
    for (std::size_t n = 0; n < count_; ++n) {
      if (!live_[n] || entry(n).kind != Kind::operation) continue;
      steps_[n] = {entry(n).operation, entry(n).operands};
      if (entry(n).operation != Operation::add) continue;
      const auto [a, b, none] = entry(n).operands;
      for (const auto& [product, other] : {std::pair{a, b}, std::pair{b, a}}) {
        const Entry& factor = entry(number(product));
        if (factor.kind != Kind::operation || factor.operation != Operation::multiply ||
            uses_[number(product)] != 1)
          continue;
        steps_[n] = {Operation::multiply_add, {factor.operands[0], factor.operands[1], other}};
        fused_[number(product)] = true;
        break;
      }
    }
  }

  // A value that goes to an output is computed right there.
  void aim_at_outputs() {
    for (std::size_t s = 0; s < graph_.stores_.size(); ++s) {
      const Store& store = graph_.stores_[s];
      const std::size_t n = number(store.node);
      if (store.bank != Bank::output || store.mask >= 0) continue;
      if (entry(n).kind != Kind::operation || addresses_[n].index >= 0) continue;
      addresses_[n] = {Bank::output, store.index};
      store_done_[s] = true;
    }
  }

  // The last step that reads each node; stores come after all steps.
  void find_last_reads() {
    for (std::size_t n = 0; n < count_; ++n)
      if (is_step(n)) for_each_node(steps_[n].operands, [&](std::size_t read) { last_read_[read] = n; });
    for (std::size_t s = 0; s < graph_.stores_.size(); ++s)
      if (!store_done_[s])
        for_each_node(graph_.stores_[s], [&](std::size_t read) { last_read_[read] = count_; });
  }

  int new_register() {
    if (free_.empty()) return program_.num_registers++;
    return free_.extract(free_.begin()).value();
  }

  Address address_of(Node node) {
    const Entry& e = entry(number(node));
    if (e.kind == Kind::constant) return {Bank::constants, constants_.index(e.value)};
    if (e.kind == Kind::operand && addresses_[number(node)].index < 0) return {e.bank, e.index};
    return addresses_[number(node)];
  }

  void write_step(std::size_t n) {
    std::array<Address, 3> operands;
    for (std::size_t i = 0; i < 3; ++i)
      if (steps_[n].operands[i] >= 0) operands[i] = address_of(steps_[n].operands[i]);
    // Registers whose last reader this is may already take the result: operands are read first.
    for_each_node(steps_[n].operands, [&](std::size_t o) {
      if (entry(o).kind == Kind::operation && addresses_[o].bank == Bank::registers && last_read_[o] == n)
        free_.insert(addresses_[o].index);
    });
    if (addresses_[n].index < 0) addresses_[n] = {Bank::registers, new_register()};
    write(steps_[n].operation, addresses_[n], operands);
  }

  // A stored value that is itself an element of a bank may be overwritten by an earlier store: keep it.
  void keep_overwritten() {
    const std::vector<Store>& stores = graph_.stores_;
    for (auto store = stores.begin(); store != stores.end(); ++store) {
      const std::size_t n = number(store->node);
      if (entry(n).kind != Kind::operand || addresses_[n].index >= 0) continue;
      const bool overwritten = std::any_of(stores.begin(), store, [&](const Store& earlier) {
        return earlier.bank == entry(n).bank && earlier.index == entry(n).index;
      });
      if (!overwritten) continue;
      const Address kept{Bank::registers, new_register()};
      write(Operation::copy, kept, {address_of(store->node)});
      addresses_[n] = kept;
    }
  }

  void write_stores() {
    for (std::size_t s = 0; s < graph_.stores_.size(); ++s) {
      if (store_done_[s]) continue;
      const Store& store = graph_.stores_[s];
      const Address target{store.bank, store.index};
      if (store.mask < 0)
        write(Operation::copy, target, {address_of(store.node)});
      else
        write(Operation::select, target, {address_of(store.mask), address_of(store.node), target});
    }
  }

  void write(Operation operation, Address target, std::array<Address, 3> operands) {
    // Operands that the operation does not take name register 0, which always exists.
    for (Address& operand : operands)
      if (operand.index < 0) operand = {Bank::registers, 0};
    const auto& [a, b, c] = operands;
    program_.instructions.push_back({.target = ExpressionGraph::element(target.index),
                                     .a = ExpressionGraph::element(a.index),
                                     .b = ExpressionGraph::element(b.index),
                                     .c = ExpressionGraph::element(c.index),
                                     .operation = operation,
                                     .bank_target = target.bank,
                                     .bank_a = a.bank,
                                     .bank_b = b.bank,
                                     .bank_c = c.bank});
  }

  const ExpressionGraph& graph_;
  ConstantPool& constants_;
  std::size_t count_;
  // by node
  std::vector<int> uses_;
  std::vector<bool> live_;
  std::vector<Step> steps_;
  std::vector<bool> fused_;
  std::vector<Address> addresses_;
  std::vector<std::size_t> last_read_;
  std::vector<bool> store_done_;  // by store
  std::set<int> free_;            // registers
  Program program_;
};

std::uint16_t ExpressionGraph::element(int index) {
  if (index < 0 || index >= kMostElements)
    throw ProgramTooLarge("the task needs more than " + std::to_string(kMostElements) +
                          " numbers of one kind at a time");
  return static_cast<std::uint16_t>(index);
}

Program ExpressionGraph::compile(ConstantPool& constants) const {
  return Translation(*this, constants).program();
}

}  // namespace maniple
