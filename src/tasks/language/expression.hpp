// The expression language of tasks: text to syntax tree. What the names mean, and what shapes they have,
// is decided by src/tasks/language/expression_compiler.hpp; here are only the grammar and its error messages.
//
//   conditional  a ? b : c                          lowest
//   logic        ||    then    &&
//   comparison   < <= > >= == !=                    (do not chain)
//   sum          + -
//   product      * /
//   sign         - + !
//   power        ^                                  (right associative, binds tighter than the sign)
//   element      x[0]  x[0:3]  x[1:]  x[::2]  x[name]  x[name, 'other name']  x['.*_hip']  x.z
//   primary      number  name  name(a, b, parameter = c)  (expression)  [vector, of, values]  'text' highest
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.hpp"

namespace maniple {

// The text of one expression and where it stands, for messages.
struct ExpressionSource {
  std::string text;
  SourceLocation where;  // of the first character
  std::string key;       // deck key, e.g. "task.rewards.pole_pos"
};

// Bad input at a column (from 0) of an expression. The message shows the line and a caret:
//   deck.yaml:12: task.rewards.upright: unknown name 'qpso', did you mean 'qpos'?; allowed: ...
//       cos(qpso[pole])
//           ^
[[noreturn]] void refuse_expression(const ExpressionSource& source, int column, const std::string& found,
                                    const std::string& allowed);

// One element selector: a number, every `step`-th number of a range [first, last), or a name.
struct IndexItem {
  enum class Kind { number, range, name } kind = Kind::number;
  int first = 0;
  std::optional<int> last = {};  // nothing: the range is open, up to the last element
  int step = 1;
  std::string name = "";
  int column = 0;
};

struct Syntax {
  enum class Kind { number, name, element, member, unary, binary, conditional, call, vector, text };
  Kind kind = Kind::number;
  int column = 0;     // of the token that makes this node, from 0
  double number = 0;  // number
  std::string text;   // name, member, called function, operator, or text
  std::vector<std::unique_ptr<Syntax>> children;
  std::vector<std::string> parameters;  // call: of each child that was given by name; "": by its place
  std::vector<IndexItem> items;         // element

  // The expression without spaces, fully parenthesised: equal for equal meaning of the syntax.
  std::string canonical() const;
};

// Throws InputError with a caret for text that is not an expression.
std::unique_ptr<Syntax> parse_expression(const ExpressionSource& source);

}  // namespace maniple
