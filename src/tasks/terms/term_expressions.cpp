#include "src/tasks/terms/term_expressions.hpp"

#include <fmt/format.h>

#include <cmath>

#include "src/config/schema.hpp"
#include "src/tasks/language/names.hpp"

namespace maniple {

std::string key_of(TermKind kind, const TermConfig& term, std::size_t index) {
  const SectionKey& section = section_of(kind);
  return "task." + section.name + (section.named ? "." + term.name : "[" + std::to_string(index) + "]");
}

ExpressionSource source_of(const TermConfig& term, const std::string& text, const std::string& key) {
  return {text, term.expression.empty() ? term.where : term.where_expression, key};
}

std::vector<TermExpression> expressions_of(const TermConfig& term, TermKind kind, const TaskModel& model,
                                           const std::string& key) {
  if (term.term.empty()) {
    if (!term.names.empty())
      throw InputError(term.where_names, key + "." + text_of(term.names_kind),
                       "an expression takes no " + text_of(term.names_kind),
                       "write the names in the expression: joint_pos[name]");
    return {{term.target, term.expression}};
  }
  const LibraryTerm& library = find_term(term, kind, key);
  return library.expand(resolve_term(library, term, model, key, kind));
}

std::vector<double> numbers_of(const PerElement& given, const std::vector<std::string>& names,
                               std::size_t count, double default_value, const TermConfig& term,
                               const std::string& key) {
  const SourceLocation& where = term.where_of(key.substr(key.rfind('.') + 1));
  if (given.named.empty()) {
    if (given.numbers.size() == 1) return std::vector<double>(count, given.numbers[0]);
    if (given.numbers.size() != count)
      throw InputError(where, key, fmt::format("{} numbers for {} elements", given.numbers.size(), count),
                       fmt::format("a number, or {} of them", count));
    return given.numbers;
  }
  std::vector<double> numbers(count, default_value);
  for (const auto& [name, number] : given.named)
    for (const std::size_t i : matching_names(name, names, where, key)) numbers[i] = number;
  return numbers;
}

void check_delay(const TermConfig& term, const std::string& key) {
  for (const double steps : term.delay)
    if (steps != std::floor(steps))
      throw InputError(term.where_of("delay"), key + ".delay", fmt::format("{} control steps", steps),
                       "whole numbers");
}

}  // namespace maniple
