#include "src/tasks/curriculum.hpp"

#include <algorithm>
#include <cmath>

#include "src/tasks/expression_compiler.hpp"
#include "src/tasks/expression_functions.hpp"
#include "src/tasks/names.hpp"

namespace maniple {
namespace {

// InputError for a name that is none of these.
void check_names(const Syntax& tree, const ExpressionSource& source, const std::vector<std::string>& known,
                 const std::string& what) {
  if (tree.kind == Syntax::Kind::name && std::find(known.begin(), known.end(), tree.text) == known.end() &&
      tree.text != "pi" && tree.text != "inf")
    refuse_expression(source, tree.column,
                      "unknown " + what + " '" + tree.text + "'" + did_you_mean(tree.text, known),
                      known.empty() ? "a number" : "known: " + list(known));
  if (tree.kind == Syntax::Kind::call && !find_function(tree.text))
    refuse_expression(source, tree.column, "unknown function '" + tree.text + "'",
                      "'maniple schema functions'");
  for (const auto& child : tree.children) check_names(*child, source, known, what);
}

bool mentions(const Syntax& tree, const std::string& name) {
  if (tree.kind == Syntax::Kind::name && tree.text == name) return true;
  return std::any_of(tree.children.begin(), tree.children.end(),
                     [&](const auto& child) { return mentions(*child, name); });
}

}  // namespace

std::vector<std::string> curriculum_metrics(const std::vector<std::string>& rewards) {
  std::vector<std::string> names{"iteration",      "env_steps",      "control_steps",
                                 "episode_return", "episode_length", "episode_return_100"};
  for (const std::string& reward : rewards) names.push_back("reward_" + reward);
  return names;
}

bool mentions_name(const ExpressionSource& source, const std::string& name) {
  return mentions(*parse_expression(source), name);
}

double evaluate_numbers(const ExpressionSource& source, const std::map<std::string, double>& names,
                        const std::string& what) {
  std::vector<std::string> known;
  for (const auto& [name, value] : names) known.push_back(name);
  check_names(*parse_expression(source), source, known, what);
  const TaskModel none;
  ExpressionContext context(none, 0, 1, 0, 0, {}, {});
  ExpressionCompiler compiler(context, Phase::observe);
  const ExpressionCompiler::WithoutDraws without_draws(
      compiler, "in a number that all environments have in common", what + "s, and functions of them");
  for (const auto& [name, value] : names) compiler.set_name(name, compiler.graph().constant(value));
  const ExpressionGraph::Node node = compiler.compile_number(source, "a curriculum");
  if (!compiler.graph().is_constant(node))
    refuse_expression(source, 0, "a value that the environments decide", what + "s: " + list(known));
  return compiler.graph().constant_value(node);
}

std::vector<double> advance(const std::vector<CompiledCurriculum>& curricula,
                            const std::vector<double>& values, const std::map<std::string, double>& metrics) {
  std::map<std::string, double> names = metrics;
  for (std::size_t i = 0; i < curricula.size(); ++i) names[curricula[i].name] = values[i];
  std::vector<double> next = values;
  for (std::size_t i = 0; i < curricula.size(); ++i) {
    if (curricula[i].update.text.empty()) continue;
    const double value = evaluate_numbers(curricula[i].update, names);
    if (std::isfinite(value)) next[i] = value;
  }
  return next;
}

}  // namespace maniple
