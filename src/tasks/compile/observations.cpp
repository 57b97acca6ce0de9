// Observations of the policy, then those of the critic, in one list of outputs.
#include "src/tasks/compile/observations.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "src/tasks/compile/task_programs.hpp"
#include "src/tasks/terms/term_expressions.hpp"
#include "src/tasks/terms/terms.hpp"

namespace maniple {
namespace {

// [-x, x] of a number x, and a range as it is.
std::array<double, 2> range_about_zero(const std::vector<double>& numbers) {
  return {numbers.size() == 1 ? -numbers[0] : numbers[0], numbers.back()};
}

// What happens to an observation on its way to the policy: Isaac Lab's order of noise, clip and scale, then
// mjlab's delay and history.
ExpressionCompiler::Value modified(ExpressionCompiler& observe, ExpressionCompiler::Value values,
                                   const std::vector<double>& scales, const TermConfig& term,
                                   const std::string& key) {
  ExpressionGraph& graph = observe.graph();
  const auto add_uniform = [&](const std::vector<double>& numbers, bool at_reset) {
    if (numbers.empty()) return;
    const auto [low, high] = range_about_zero(numbers);
    for (ExpressionGraph::Node& value : values) {
      const ExpressionGraph::Node drawn =
          at_reset ? observe.drawn_at_reset(low, high) : observe.drawn(low, high);
      value = graph.apply(Operation::add, value, drawn);
    }
  };
  if (term.noise_std > 0 && !term.noise.empty())
    throw InputError(term.where_of("noise_std"), key + ".noise_std", "noise_std together with noise",
                     "one of them");
  add_uniform(term.bias, true);
  add_uniform(term.noise, false);
  for (std::size_t k = 0; k < values.size(); ++k) {
    ExpressionGraph::Node& value = values[k];
    if (term.noise_std > 0) value = graph.apply(Operation::add, value, observe.drawn_normal(term.noise_std));
    if (term.clip) {
      value = graph.apply(Operation::maximum, value, graph.constant((*term.clip)[0]));
      value = graph.apply(Operation::minimum, value, graph.constant((*term.clip)[1]));
    }
    value = graph.apply(Operation::multiply, value, graph.constant(scales[k]));
  }
  check_delay(term, key);
  return observe.history(observe.delayed(values, term.delay), term.history);
}

// An observation of `size` numbers after `before` others: instructions number what they read and write, and
// what history and delay keep.
void check_room(ExpressionCompiler& observe, std::size_t before, std::size_t size, const TermConfig& term,
                const std::string& key) {
  const auto history = static_cast<std::size_t>(term.history);
  const auto delay = static_cast<std::size_t>(term.delay.empty() ? 0 : term.delay.back());
  const std::size_t kept =
      static_cast<std::size_t>(observe.context().kept_size()) + size * (history - 1 + delay);
  if (before + size * history > ExpressionGraph::kMostElements)
    throw InputError(
        term.where, key,
        fmt::format("{} numbers with a history of {}, after {} of other observations", size, history, before),
        fmt::format("at most {} of all", ExpressionGraph::kMostElements));
  if (kept > ExpressionGraph::kMostElements)
    throw InputError(term.where, key,
                     fmt::format("history and delay keep {} numbers, with those of other terms", kept),
                     fmt::format("at most {} of all", ExpressionGraph::kMostElements));
}

// Outputs from `first` on; their names, by component, how many each term has, and what they are.
std::vector<std::string> compile_observations(const std::vector<TermConfig>& terms, TermKind kind,
                                              const TaskModel& model, ExpressionCompiler& observe, int first,
                                              std::vector<int>& widths,
                                              std::vector<CompiledObservation>& observations) {
  std::vector<std::string> names;
  const auto add = [&](const TermConfig& term, std::size_t i) {
    const std::string key = key_of(kind, term, i);
    const std::size_t before = names.size();
    for (const TermExpression& expression : expressions_of(term, kind, model, key)) {
      const ExpressionSource source = source_of(term, expression.text, key);
      const ExpressionCompiler::Value plain = observe.compile(source);
      check_finite(observe.graph(), plain, source);
      std::vector<std::string> elements;
      if (!term.term.empty())
        elements = resolve_term(find_term(term, kind, key), term, model, key, kind).names;
      if (elements.size() != plain.size()) elements.clear();
      check_room(observe, first + names.size(), plain.size(), term, key);
      const std::vector<double> scales =
          numbers_of(term.scale, elements, plain.size(), 1, term, key + ".scale");
      const ExpressionCompiler::Value value = modified(observe, plain, scales, term, key);
      const std::string name = term.name.empty() ? term.term : term.name;
      for (std::size_t k = 0; k < value.size(); ++k) {
        observe.graph().store(value[k], Bank::output, first + static_cast<int>(names.size()));
        const std::size_t component = k % plain.size(), steps = static_cast<std::size_t>(term.history);
        observations.push_back({i, expression.text, component, elements.empty() ? "" : elements[component],
                                scales[component], steps - 1 - k / plain.size()});
        names.push_back(value.size() == 1 ? name : fmt::format("{}[{}]", name, k));
      }
    }
    widths.push_back(static_cast<int>(names.size() - before));
  };
  for (std::size_t i = 0; i < terms.size(); ++i)
    observe.context().mistakes().gather([&] { add(terms[i], i); });
  return names;
}

}  // namespace

void compile_observing(const TaskConfig& config, const TaskModel& model, ExpressionCompiler& observe,
                       ConstantPool& constants, CompiledTask& task) {
  task.observation_names = compile_observations(config.observations, TermKind::observation, model, observe, 0,
                                                task.observation_widths, task.observations);
  task.num_observations = static_cast<int>(task.observation_names.size());
  std::vector<int> critic_widths;
  std::vector<CompiledObservation> of_critic;
  task.critic_observation_names =
      compile_observations(config.critic_observations, TermKind::critic_observation, model, observe,
                           task.num_observations, critic_widths, of_critic);
  task.num_critic_observations = static_cast<int>(task.critic_observation_names.size());
  observe.finish();
  task.observe = observe.program(constants);
}

}  // namespace maniple
