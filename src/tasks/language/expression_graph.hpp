// Scalar operations of one program as a directed acyclic graph, and its translation to bytecode. Equal
// operations are one node (common subexpressions are computed once), operations on numbers are carried
// out here, and registers are handed out by lifetime.
#pragma once

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "kernels/tasks/program.hpp"
#include "src/base/error.hpp"

namespace maniple {

// A program and the numbers of its registers; constants are shared by all programs of a task.
struct Program {
  std::vector<Instruction> instructions;
  int num_registers = kReservedRegisters;
  int num_random = 0;  // draws of one run
};

// Numbers that instructions refer to, each bit pattern once.
class ConstantPool {
 public:
  ConstantPool() = default;
  // Behind numbers that stand first and may change.
  explicit ConstantPool(std::vector<double> changing)
      : changing_(changing.size()), values_(std::move(changing)) {}
  int index(double value);
  const std::vector<double>& values() const { return values_; }

 private:
  std::size_t changing_ = 0;
  std::vector<double> values_;
};

// A program has more numbers of one kind than instructions can name.
class ProgramTooLarge : public Error {
 public:
  using Error::Error;
};

class ExpressionGraph {
 public:
  using Node = int;
  static constexpr int kMostElements = 65536;  // of a bank, which instructions can name
  // The index as instructions have it. Throws ProgramTooLarge.
  static std::uint16_t element(int index);

  Node constant(double value);
  // An element of a bank, read when an instruction needs it.
  Node operand(Bank bank, int index);
  // One operation; operands that it does not take are ignored.
  Node apply(Operation operation, Node a, Node b = -1, Node c = -1);
  // a to the b, by multiplication or square root where b is a suitable number.
  Node power(Node a, Node b);

  bool is_constant(Node node) const;
  // True for an element of this bank, whose index is then set.
  bool is_operand(Node node, Bank bank, int& index) const;
  double constant_value(Node node) const;

  // The node is stored to an element of a bank after everything has been computed; stores happen in the
  // order given. With a mask, only where the mask is true.
  void store(Node node, Bank bank, int index);
  void store_where(Node mask, Node node, Bank bank, int index);

  // Bytecode of everything that the stores need. Throws ProgramTooLarge.
  Program compile(ConstantPool& constants) const;

 private:
  enum class Kind { constant, operand, operation };
  struct Entry {
    Kind kind;
    double value = 0;                             // constant
    Bank bank = Bank::constants;                  // operand
    int index = 0;                                // operand
    Operation operation = Operation::copy;        // operation
    std::array<Node, 3> operands = {-1, -1, -1};  // of the operation
  };
  struct Store {
    Node mask;  // -1: everywhere
    Node node;
    Bank bank;
    int index;
  };

  class Translation;

  Node add(const Entry& entry, const std::array<std::int64_t, 5>& key);

  std::vector<Entry> entries_;
  std::map<std::array<std::int64_t, 5>, Node> known_;
  std::vector<Store> stores_;
};

// Number of operands of an operation, and what it computes from numbers (in double precision).
int operand_count(Operation operation);
double evaluate_operation(Operation operation, double a, double b, double c);

}  // namespace maniple
