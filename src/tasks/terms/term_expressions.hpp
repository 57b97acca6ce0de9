// Common parts of the terms of all sections of a task: their keys in messages, the expressions that they
// stand for, and their numbers for each element.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/tasks/language/expression_compiler.hpp"
#include "src/tasks/language/task_model.hpp"
#include "src/tasks/terms/terms.hpp"

namespace maniple {

// The key of a term in messages: "task.rewards.alive", "task.resets[0]".
std::string key_of(TermKind kind, const TermConfig& term, std::size_t index);

// `text` of this term, with its place in the deck.
ExpressionSource source_of(const TermConfig& term, const std::string& text, const std::string& key);

// The expressions of a term: its own, or those of the library's recipe. InputError: unknown terms, elements
// or parameters.
std::vector<TermExpression> expressions_of(const TermConfig& term, TermKind kind, const TaskModel& model,
                                           const std::string& key);

// The number of each of `count` elements, by its index or name. `default_value`: of elements that no name or
// pattern matches. InputError: another number of numbers, names of no element.
std::vector<double> numbers_of(const PerElement& given, const std::vector<std::string>& names,
                               std::size_t count, double default_value, const TermConfig& term,
                               const std::string& key);

// InputError: a delay that is no whole number of control steps.
void check_delay(const TermConfig& term, const std::string& key);

}  // namespace maniple
