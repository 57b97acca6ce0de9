// Curricula are numbers that the host computes, with the compiler of expressions and no environment.
#include "src/tasks/terms/curriculum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/config/schema.hpp"
#include "src/tasks/language/expression_compiler.hpp"
#include "src/tasks/language/expression_functions.hpp"
#include "src/tasks/language/names.hpp"
#include "src/tasks/terms/term_expressions.hpp"

namespace maniple {
namespace {

// What updates called the metric that has a name of its own now, and what expressions of tasks mean by it.
constexpr const char* kAmbiguous = "episode_length";

// How the names of metrics of episodes begin.
constexpr const char* kOfEpisodes[]{"episode_", "reward_", "termination_", "metric_"};

// Visits the tree and those of the definitions that it uses, each once: visit(tree, source).
template <class Visit>
void walk(const Syntax& tree, const ExpressionSource& source, const TaskNumbers& task,
          std::set<std::string>& seen, const Visit& visit) {
  visit(tree, source);
  if (tree.kind == Syntax::Kind::name)
    if (const auto used = task.definitions.find(tree.text);
        used != task.definitions.end() && seen.insert(tree.text).second)
      walk(*parse_expression(used->second), used->second, task, seen, visit);
  for (const auto& child : tree.children) walk(*child, source, task, seen, visit);
}

// InputError for a name that is none of these.
void check_names(const ExpressionSource& source, const std::vector<std::string>& known,
                 const TaskNumbers& task, const std::string& what) {
  std::set<std::string> seen;
  walk(*parse_expression(source), source, task, seen, [&](const Syntax& tree, const ExpressionSource& place) {
    if (tree.kind == Syntax::Kind::name && std::find(known.begin(), known.end(), tree.text) == known.end() &&
        tree.text != "pi" && tree.text != "inf")
      refuse_expression(
          place, tree.column,
          "unknown " + what + " '" + tree.text + "'" +
              (tree.text == kAmbiguous ? "" : did_you_mean(tree.text, known)),
          tree.text == kAmbiguous
              ? "mean_episode_steps, the mean of the episodes that ended, or max_episode_steps * "
                "dt, the longest one of the task in seconds"
          : known.empty() ? "a number"
                          : "known: " + list(known));
    if (tree.kind == Syntax::Kind::call && !find_function(tree.text))
      refuse_expression(place, tree.column, "unknown function '" + tree.text + "'",
                        "'maniple schema functions'");
  });
}

// Whether a metric of a training is one of the episodes that ended, last known in an iteration that ends
// none.
bool is_of_episodes(const std::string& metric) {
  return metric == "mean_episode_steps" ||
         std::any_of(std::begin(kOfEpisodes), std::end(kOfEpisodes),
                     [&](const char* start) { return metric.starts_with(start); });
}

}  // namespace

const std::vector<CurriculumMetric>& curriculum_metrics() {
  static const std::vector<CurriculumMetric> metrics{
      {"iteration", "1", "iterations done"},
      {"env_steps", "1", "control steps of all environments together"},
      {"control_steps", "1", "control steps of each environment, env_steps / batch.num_envs"},
      {kEndedEpisodes, "1", "whole episodes that ended in the iteration, of all ranks"},
      {"episode_return", "reward",
       "mean return of the episodes that ended in the iteration, or the last known"},
      {"mean_episode_steps", "control steps", "their mean length"},
      {"episode_return_100", "reward", "mean return of the latest 100 episodes, or of all of the iteration"}};
  return metrics;
}

std::vector<std::string> episode_metrics(const TaskConfig& task) {
  std::vector<std::string> names;
  for (const TermConfig& term : task.terminations) names.push_back("termination_" + term.name);
  for (const TermConfig& term : task.metrics) names.push_back("metric_" + term.name);
  return names;
}

std::vector<std::string> curriculum_metrics(const TaskConfig& task) {
  std::vector<std::string> names;
  for (const CurriculumMetric& metric : curriculum_metrics()) names.push_back(metric.name);
  for (const TermConfig& term : task.rewards) names.push_back("reward_" + term.name);
  for (const std::string& name : episode_metrics(task)) names.push_back(name);
  return names;
}

bool mentions_name(const ExpressionSource& source, const std::string& name, const TaskNumbers& task) {
  std::set<std::string> seen;
  bool found = false;
  walk(*parse_expression(source), source, task, seen, [&](const Syntax& tree, const ExpressionSource&) {
    found = found || (tree.kind == Syntax::Kind::name && tree.text == name);
  });
  return found;
}

double evaluate_numbers(const ExpressionSource& source, const std::map<std::string, double>& names,
                        const TaskNumbers& task, const std::string& what) {
  std::vector<std::string> known;
  for (const auto& [name, value] : names) known.push_back(name);
  for (const char* const name : {"dt", "max_episode_steps"}) known.emplace_back(name);
  for (const auto& [name, text] : task.definitions) known.push_back(name);
  check_names(source, known, task, what);
  const TaskModel none;
  ExpressionContext context(none, 0, {.dt = task.dt}, 0, task.max_episode_steps, task.definitions, {}, {});
  ExpressionCompiler compiler(context, Phase::observe);
  const ExpressionCompiler::WithoutDraws without_draws(
      compiler, "in a number that all environments have in common", what + "s, and functions of them");
  for (const auto& [name, value] : names) compiler.set_name(name, compiler.graph().constant(value));
  const ExpressionGraph::Node node = compiler.compile_number(source, "a curriculum");
  if (!compiler.graph().is_constant(node))
    refuse_expression(source, 0, "a value that the environments decide", what + "s: " + list(known));
  return compiler.graph().constant_value(node);
}

AdvancedCurricula advance(const std::vector<CompiledCurriculum>& curricula, const std::vector<double>& values,
                          const std::map<std::string, double>& metrics, const TaskNumbers& task) {
  std::map<std::string, double> names = metrics;
  for (std::size_t i = 0; i < curricula.size(); ++i) names[curricula[i].name] = values[i];
  const auto ended = metrics.find(kEndedEpisodes);
  const bool is_stale = ended != metrics.end() && ended->second == 0;
  AdvancedCurricula next{values, {}};
  for (std::size_t i = 0; i < curricula.size(); ++i) {
    const CompiledCurriculum& curriculum = curricula[i];
    if (curriculum.update.text.empty()) continue;
    if (is_stale && std::any_of(metrics.begin(), metrics.end(), [&](const auto& metric) {
          return is_of_episodes(metric.first) && mentions_name(curriculum.update, metric.first, task);
        }))
      continue;
    const double value = evaluate_numbers(curriculum.update, names, task);
    if (std::isfinite(value)) {
      next.values[i] = value;
      continue;
    }
    const bool waits = std::any_of(names.begin(), names.end(), [&](const auto& entry) {
      return !std::isfinite(entry.second) && mentions_name(curriculum.update, entry.first, task);
    });
    if (!waits) next.stuck.push_back(i);
  }
  return next;
}

std::vector<CompiledCurriculum> curricula_of(const TaskConfig& config, const TaskNumbers& task) {
  Mistakes mistakes;
  std::vector<CompiledCurriculum> curricula;
  for (std::size_t i = 0; i < config.curricula.size(); ++i) {
    const TermConfig& term = config.curricula[i];
    const std::string key = key_of(TermKind::curriculum, term, i);
    const auto source = [&](const std::string& text, const char* part) {
      return ExpressionSource{text, term.where_of(part), key + "." + part};
    };
    mistakes.gather([&] {
      curricula.push_back({term.name, evaluate_numbers(source(term.reset, "reset"), {}, task),
                           source(term.update, "update")});
    });
  }
  mistakes.throw_any();  // the numbers of any term may follow them
  return curricula;
}

void check_numbers(const TaskConfig& config, const std::vector<CompiledCurriculum>& curricula,
                   const std::vector<double>& values, const TaskNumbers& task, const std::string& when) {
  Mistakes mistakes;
  std::map<std::string, double> names;
  for (std::size_t i = 0; i < curricula.size(); ++i) names[curricula[i].name] = values[i];
  const auto check = [&](const std::vector<TermNumber>& numbers, const SourceLocation& where,
                         const std::string& key, bool ordered) {
    std::vector<double> range;
    for (const TermNumber& number : numbers)
      range.push_back(number.expression.empty()
                          ? number.value
                          : evaluate_numbers({number.expression, where, key}, names, task, "curriculum"));
    if (range.size() != 2) return;
    if (ordered && !(range[0] <= range[1]))
      throw InputError(where, key, fmt::format("a range that {} [{}, {}]", when, range[0], range[1]),
                       "[low, high] with low <= high");
    if (!ordered && !(range[1] >= 0))
      throw InputError(where, key,
                       fmt::format("[mean, deviation] that {} [{}, {}]", when, range[0], range[1]),
                       "a standard deviation of at least 0");
  };
  for (const SectionKey& section : section_schema()) {
    const std::vector<TermConfig>& terms = config.*(section.terms);
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const TermConfig& term = terms[i];
      const std::string key = key_of(section.kind, term, i);
      const bool ordered = term.distribution != Distribution::gaussian;
      const SourceLocation& place = term.where_of("ranges");
      for (const auto& [name, numbers] : term.parameters)
        mistakes.gather(
            [&, of = name, given = numbers] { check(given, term.where_of(of), key + "." + of, true); });
      mistakes.gather([&] {
        check(term.ranges.all, place, key + ".ranges", ordered);
        for (const auto& [name, range] : term.ranges.keyed) check(range, place, key + ".ranges", ordered);
      });
    }
  }
  mistakes.throw_any();
}

std::vector<VariableMean> check_updates(const TaskConfig& config, const ExpressionContext& context,
                                        const std::vector<CompiledCurriculum>& curricula,
                                        const TaskNumbers& task) {
  std::map<std::string, double> names;
  for (const std::string& metric : curriculum_metrics(config)) names[metric] = 1;
  std::vector<VariableMean> means;
  for (const auto& [name, variable] : context.variables()) {
    const int size = static_cast<int>(context.size_of_variable(name));
    for (int k = 0; k < size && !name.starts_with(kOwnVariable); ++k)
      means.push_back({"mean_" + name + (size == 1 ? "" : "_" + std::to_string(k)),
                       context.address_of_variable(name) + k});
  }
  for (const VariableMean& mean : means) names[mean.name] = 1;
  for (std::size_t i = 0; i < curricula.size(); ++i)
    if (names.contains(curricula[i].name))
      throw InputError(config.curricula[i].where, key_of(TermKind::curriculum, config.curricula[i], i),
                       "'" + curricula[i].name + "' is the name of a metric, too", "another name");
  for (const auto& [name, definition] : task.definitions)
    if (names.contains(name) && std::any_of(curricula.begin(), curricula.end(), [&](const auto& curriculum) {
          return !curriculum.update.text.empty() && mentions_name(curriculum.update, name, task);
        }))
      throw InputError(definition.where, definition.key,
                       "'" + name + "', which an update of curricula reads, is the name of a metric, too",
                       "another name");
  for (const CompiledCurriculum& curriculum : curricula) names[curriculum.name] = curriculum.initial;
  std::vector<VariableMean> read;
  for (const CompiledCurriculum& curriculum : curricula)
    if (!curriculum.update.text.empty()) evaluate_numbers(curriculum.update, names, task);
  for (const VariableMean& mean : means)
    if (std::any_of(curricula.begin(), curricula.end(), [&](const CompiledCurriculum& curriculum) {
          return !curriculum.update.text.empty() && mentions_name(curriculum.update, mean.name, task);
        }))
      read.push_back(mean);
  return read;
}

namespace {

ExpressionSource source_of_number(const Config& config, const std::string& name, const std::string& text) {
  const std::string key = "learning.curricula." + name;
  return {text, config.where_of(key), key};
}

}  // namespace

void check_learning_numbers(const Config& config, const std::vector<CompiledCurriculum>& curricula,
                            const TaskNumbers& task) {
  std::map<std::string, double> names;
  for (const std::string& metric : curriculum_metrics(config.task)) names[metric] = 1;
  for (const CompiledCurriculum& curriculum : curricula) names[curriculum.name] = curriculum.initial;
  Mistakes mistakes;
  for (const auto& [name, text] : config.learning.curricula)
    mistakes.gather(
        [&, source = source_of_number(config, name, text)] { evaluate_numbers(source, names, task); });
  mistakes.throw_any();
}

std::map<std::string, double> followed_numbers(const Config& config,
                                               const std::map<std::string, double>& names,
                                               const TaskNumbers& task) {
  std::map<std::string, double> numbers;
  for (const auto& [name, text] : config.learning.curricula) {
    const ExpressionSource source = source_of_number(config, name, text);
    const double value = evaluate_numbers(source, names, task);
    if (!std::isfinite(value)) continue;
    const Key* const key = key_named("learning." + name);
    if (!in_range(value, key->allowed)) {
      Config defaults;
      throw InputError(source.where, source.key,
                       fmt::format("has become {} in iteration {}", value, names.at("iteration")),
                       "allowed: " + allowed_text(key->target(defaults), key->allowed));
    }
    numbers[name] = value;
  }
  return numbers;
}

}  // namespace maniple
