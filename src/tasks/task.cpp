#include "src/tasks/task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>

#include "kernels/tasks/task_fields.hpp"
#include "src/base/fnv.hpp"
#include "src/tasks/model_events.hpp"
#include "src/tasks/names.hpp"
#include "src/tasks/task_model.hpp"
#include "src/tasks/term_expressions.hpp"
#include "src/tasks/terms.hpp"

namespace maniple {
namespace {

// The termination that says whether an episode reached its goal, by Isaac Lab's convention.
constexpr const char* kSuccess = "success";

// The stages that fill one element of Data.
Derived stage_of(int element, const std::vector<FieldInfo>& fields, const TaskModel& model) {
  const FieldInfo& field = *std::find_if(fields.begin(), fields.end(), [&](const FieldInfo& f) {
    return element >= f.first && element < f.first + f.size;
  });
  bool kinematic = field.stage == FieldStage::kinematics;
  if (field.stage == FieldStage::sensor) {
    const int reading = element - field.first;
    kinematic = std::any_of(model.sensors.begin(), model.sensors.end(), [&](const TaskSensor& sensor) {
      return !sensor.of_forces && reading >= sensor.adr && reading < sensor.adr + sensor.dim;
    });
  }
  return kinematic ? Derived::kinematics : Derived::forward;
}

// Lets a program read what the last physics step left, where `derived` says so, and returns the stages that
// fill every other element of Data that it reads.
Derived read_derived(Program& program, DerivedChoice derived, const TaskModel& model, CompiledTask& task) {
  const std::vector<FieldInfo> fields = data_fields(model.sizes);
  Derived needs = Derived::none;
  for (Instruction& i : program.instructions)
    for (const auto& [bank, element] : {std::pair{&i.bank_a, &i.a}, {&i.bank_b, &i.b}, {&i.bank_c, &i.c}}) {
      if (*bank == Bank::contact) needs = Derived::forward;
      if (*bank == Bank::ray) needs = std::max(needs, Derived::kinematics);
      if (*bank != Bank::data) continue;
      const Derived stage = stage_of(*element, fields, model);
      const bool stepped = derived == DerivedChoice::as_stepped ||
                           (derived == DerivedChoice::stepped_forces && stage == Derived::forward);
      if (!stepped) {
        needs = std::max(needs, stage);
        continue;
      }
      const auto known = std::find(task.stepped.begin(), task.stepped.end(), int{*element});
      if (known == task.stepped.end()) task.stepped.push_back(*element);
      *bank = Bank::stepped;
      *element = static_cast<std::uint16_t>(
          std::find(task.stepped.begin(), task.stepped.end(), int{*element}) - task.stepped.begin());
      task.stepped_needs = std::max(task.stepped_needs, stage);
    }
  return needs;
}

// Control steps of the key `every`: a number, or a range.
std::vector<double> steps_of(const TermConfig& term, const std::string& key, double step_dt) {
  std::vector<double> steps;
  for (const double seconds : term.every) steps.push_back(seconds / step_dt);
  if (!steps.empty() && steps.back() > (1 << 24))
    throw InputError(term.where_of("every"), key + ".every",
                     fmt::format("{} s of {} s steps", term.every.back(), step_dt),
                     "at most 16777216 control steps");
  return steps;
}

// What a reset or event assigns.
std::vector<TermExpression> assignments_of(const TermConfig& term, TermKind kind, const TaskModel& model,
                                           const std::string& key) {
  if (!term.field.empty()) return field_assignments(term, model, key);
  if (term.term.empty() && term.target.empty())
    throw InputError(term.where, key, "an expression that sets nothing",
                     "set: qpos[joint], qvel[joint] or act[actuator]");
  return expressions_of(term, kind, model, key);
}

// Known before any environment is: what never can be a number must be a mistake.
void check_finite(const ExpressionGraph& graph, const ExpressionCompiler::Value& values,
                  const ExpressionSource& source) {
  for (const ExpressionGraph::Node value : values)
    if (graph.is_constant(value) && !std::isfinite(graph.constant_value(value)))
      refuse_expression(source, 0, fmt::format("always {}", graph.constant_value(value)), "a finite number");
}

ExpressionGraph::Node weighted(ExpressionCompiler& evaluate, const TermConfig& term, const std::string& key,
                               const CompiledTask& task, ExpressionGraph::Node reward);

// Terminations, then rewards, which may read them.
void compile_evaluation(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                        ConstantPool& constants, CompiledTask& task) {
  ExpressionCompiler evaluate(context, Phase::evaluate);
  ExpressionGraph& graph = evaluate.graph();
  const ExpressionGraph::Node bad = graph.operand(Bank::registers, register_flag);  // states, which fail
  ExpressionGraph::Node terminated = bad, time_out = graph.constant(0), success = graph.constant(0);
  bool ends_in_time = false;
  for (std::size_t i = 0; i < config.terminations.size(); ++i) {
    const TermConfig& term = config.terminations[i];
    const std::string key = key_of(TermKind::termination, term, i);
    const bool truncates = is_time_out(term);
    ends_in_time = ends_in_time || truncates;
    if (term.term == "time_out" && task.max_episode_steps == 0)
      throw InputError(term.where, key, "a time-out without an episode length",
                       "task.episode_length: seconds, or task.episode_steps: control steps");
    for (const TermExpression& expression : expressions_of(term, TermKind::termination, model, key)) {
      const ExpressionGraph::Node done =
          evaluate.compile_number(source_of(term, expression.text, key), "a termination");
      ExpressionGraph::Node& all = truncates ? time_out : terminated;
      all = graph.apply(Operation::logical_or, all, done);
      if (term.name != kSuccess) continue;
      success = graph.apply(Operation::logical_and, done, graph.apply(Operation::logical_not, bad));
      task.num_success = 1;
    }
    task.termination_names.push_back(term.name);
  }
  if (task.max_episode_steps > 0 && !ends_in_time)
    throw InputError(
        config.where, config.episode_steps > 0 ? "task.episode_steps" : "task.episode_length",
        fmt::format("{} control steps, but nothing ends an episode in time", task.max_episode_steps),
        "with 'time_out: {term: time_out}' in task.terminations, or 0 (endless)");
  // What is both a failure and a time-out is a failure, and no time-out.
  time_out = graph.apply(Operation::logical_and, time_out, graph.apply(Operation::logical_not, terminated));
  evaluate.set_name("terminated", terminated);
  evaluate.set_name("time_out", time_out);
  graph.store(terminated, Bank::output, 0);
  graph.store(time_out, Bank::output, 1);
  for (std::size_t i = 0; i < config.rewards.size(); ++i) {
    const TermConfig& term = config.rewards[i];
    const std::string key = key_of(TermKind::reward, term, i);
    const double factor = term.weight * (config.reward_times_dt ? task.step_dt : 1.0);
    for (const TermExpression& expression : expressions_of(term, TermKind::reward, model, key)) {
      const ExpressionSource source = source_of(term, expression.text, key);
      const ExpressionGraph::Node value = evaluate.compile_number(source, "a reward");
      check_finite(graph, {value}, source);
      const ExpressionGraph::Node reward = weighted(evaluate, term, key, task, value);
      graph.store(
          factor == 0 ? graph.constant(0) : graph.apply(Operation::multiply, reward, graph.constant(factor)),
          Bank::output, kFirstRewardOutput + static_cast<int>(i));
    }
    task.reward_names.push_back(term.name);
  }
  task.num_reward_terms = static_cast<int>(task.reward_names.size());
  if (task.num_success > 0) graph.store(success, Bank::output, kFirstRewardOutput + task.num_reward_terms);
  evaluate.finish();
  task.evaluate = evaluate.program(constants);
}

// The component of an expression for an action, whose value is compiled once for all of them.
ExpressionGraph::Node component_of(const ExpressionSource& expression, const CompiledAction& action,
                                   ExpressionCompiler& act,
                                   std::map<std::string, ExpressionCompiler::Value>& expressions) {
  const auto [known, is_new] = expressions.try_emplace(expression.key);
  ExpressionCompiler::Value& value = known->second;
  if (is_new) value = act.compile(expression);
  if (value.size() != 1 && value.size() != action.count)
    refuse_expression(expression, 0,
                      ExpressionCompiler::shape(value) + fmt::format(" for {} actuators", action.count),
                      "a number, or one for each actuator");
  return value[value.size() == 1 ? 0 : action.place];
}

// Controls that need more than the table of actions.
void compile_act(ExpressionContext& context, ConstantPool& constants, CompiledTask& task) {
  const auto by_program = [](const CompiledAction& action) { return action.by_program; };
  if (std::none_of(task.actions.begin(), task.actions.end(), by_program)) return;
  ExpressionCompiler act(context, Phase::act);
  ExpressionGraph& graph = act.graph();
  ExpressionGraph::Node clipped = graph.constant(0);
  const Quantity& actions = *context.quantity("action");
  std::map<std::string, ExpressionCompiler::Value> expressions;  // of actions, by key
  for (int k = 0; k < task.num_actions; ++k) {
    const CompiledAction& action = task.actions[static_cast<std::size_t>(k)];
    if (!action.by_program) continue;
    const ExpressionGraph::Node acted = action.expression.text.empty()
                                            ? actions.component(act, k)
                                            : component_of(action.expression, action, act, expressions);
    const ExpressionGraph::Node given = act.delayed({acted}, action.delay)[0];
    const ExpressionGraph::Node scaled =
        graph.apply(Operation::multiply, given, graph.constant(action.scale));
    ExpressionGraph::Node control = graph.apply(Operation::add, scaled, graph.constant(action.offset));
    if (action.relative_to >= 0) {
      const ExpressionGraph::Node position = act.read(Bank::state, action.relative_to);
      control = graph.apply(Operation::add, control,
                            graph.apply(Operation::multiply, position, graph.constant(action.per_unit)));
    }
    if (!action.offset_expression.text.empty()) {
      const ExpressionGraph::Node added = component_of(action.offset_expression, action, act, expressions);
      control = graph.apply(Operation::add, control,
                            graph.apply(Operation::multiply, added, graph.constant(action.per_unit)));
    }
    if (action.clipped) {
      const ExpressionGraph::Node above =
          graph.apply(Operation::maximum, control, graph.constant(action.low));
      const ExpressionGraph::Node inside =
          graph.apply(Operation::minimum, above, graph.constant(action.high));
      const ExpressionGraph::Node changed = graph.apply(Operation::not_equal, inside, control);
      clipped = graph.apply(Operation::add, clipped, changed);
      control = inside;
    }
    graph.store(control, Bank::state, action.element);
  }
  act.finish();
  graph.store(clipped, Bank::output, 0);
  task.act = act.program(constants);
}

// Events in intervals.
void compile_intervals(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                       ConstantPool& constants, CompiledTask& task) {
  ExpressionCompiler interval(context, Phase::interval);
  ExpressionGraph& graph = interval.graph();
  ExpressionGraph::Node disturbed = graph.constant(0), varied = graph.constant(0);
  bool any = false;
  for (std::size_t i = 0; i < config.events.size(); ++i) {
    const TermConfig& term = config.events[i];
    if (term.mode != EventMode::interval) continue;
    any = true;
    const std::string key = key_of(TermKind::event, term, i);
    const ExpressionGraph::Node due = interval.interval(steps_of(term, key, task.step_dt));
    disturbed = graph.apply(Operation::logical_or, disturbed, due);
    for (const TermExpression& expression : assignments_of(term, TermKind::event, model, key))
      if (interval.assign({expression.target, term.where_of("set"), key + ".set"},
                          source_of(term, expression.text, key), due)) {
        varied = graph.apply(Operation::logical_or, varied, due);
        task.varies_in_intervals = true;
      }
  }
  if (!any) return;
  interval.finish();
  graph.store(disturbed, Bank::output, 0);
  if (task.varies_in_intervals) graph.store(varied, Bank::output, 1);
  task.interval = interval.program(constants);
}

// Events at start-up and resets that set fields of the model.
void compile_model_events(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                          ConstantPool& constants, CompiledTask& task) {
  ExpressionCompiler vary(context, Phase::vary);
  bool any = false;
  for (std::size_t i = 0; i < config.events.size(); ++i) {
    const TermConfig& term = config.events[i];
    const bool startup = term.mode == EventMode::startup;
    if (!startup && !(term.mode == EventMode::reset && sets_model(term, model))) continue;
    any = true;
    task.varies_at_resets = task.varies_at_resets || !startup;
    const std::string key = key_of(TermKind::event, term, i);
    const ExpressionGraph::Node where =
        vary.graph().operand(Bank::registers, startup ? register_first : register_flag);
    for (const TermExpression& expression : assignments_of(term, TermKind::event, model, key))
      vary.assign({expression.target, term.where_of("set"), key + ".set"},
                  source_of(term, expression.text, key), where);
  }
  if (!any) return;
  vary.finish();
  task.vary = vary.program(constants);
}

void compile_resets(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                    ConstantPool& constants, CompiledTask& task) {
  ExpressionCompiler reset(context, Phase::reset);
  const auto assign = [&](const TermConfig& term, TermKind kind, std::size_t index) {
    const std::string key = key_of(kind, term, index);
    for (const TermExpression& expression : assignments_of(term, kind, model, key))
      reset.assign({expression.target, term.where_of("set"), key + ".set"},
                   source_of(term, expression.text, key));
  };
  if (!config.keyframe.empty())
    reset.assign({"qpos", config.where_keyframe, "task.keyframe"},
                 {"default_qpos", config.where_keyframe, "task.keyframe"});
  for (std::size_t i = 0; i < config.resets.size(); ++i) assign(config.resets[i], TermKind::reset, i);
  for (std::size_t i = 0; i < config.events.size(); ++i)
    if (config.events[i].mode == EventMode::reset && !sets_model(config.events[i], model))
      assign(config.events[i], TermKind::event, i);
  reset.finish();
  task.reset = reset.program(constants);
}

// Whether a fresh state stays.
void compile_acceptance(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                        ConstantPool& constants, CompiledTask& task) {
  if (config.reset_until.empty()) return;
  ExpressionCompiler accept(context, Phase::observe);
  const ExpressionCompiler::WithoutDraws without_draws(
      accept, "in a condition", "a variable that is drawn when the state is, and its name here");
  accept.graph().store(accept.compile_number(
                           {config.reset_until, config.where_reset_until, "task.reset_until"}, "a condition"),
                       Bank::output, 0);
  task.accept = accept.program(constants);
  task.accept_needs = read_derived(task.accept, DerivedChoice::fresh, model, task);
}

// [-x, x] of a number x, and a range as it is.
std::array<double, 2> range_about_zero(const std::vector<double>& numbers) {
  return {numbers.size() == 1 ? -numbers[0] : numbers[0], numbers.back()};
}

// What happens to an observation on its way to the policy: Isaac Lab's order of noise, clip and scale, then
// mjlab's delay and history.
// `names`: of the model's elements that the values are of, for a scale by name.
ExpressionCompiler::Value modified(ExpressionCompiler& observe, ExpressionCompiler::Value values,
                                   const std::vector<std::string>& names, const TermConfig& term,
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
    throw InputError(term.where_of("noise_std"), key + ".noise_std", "noise_std beside noise", "one of them");
  add_uniform(term.bias, true);
  add_uniform(term.noise, false);
  const std::vector<double> scales = numbers_of(term.scale, names, values.size(), 1, term, key + ".scale");
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

// Outputs from `first` on; their names, by component, and how many each term has.
std::vector<std::string> compile_observations(const std::vector<TermConfig>& terms, TermKind kind,
                                              const TaskModel& model, ExpressionCompiler& observe, int first,
                                              std::vector<int>& widths) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const TermConfig& term = terms[i];
    const std::string key = key_of(kind, term, i);
    const std::size_t before = names.size();
    for (const TermExpression& expression : expressions_of(term, kind, model, key)) {
      const ExpressionSource source = source_of(term, expression.text, key);
      const ExpressionCompiler::Value plain = observe.compile(source);
      check_finite(observe.graph(), plain, source);
      std::vector<std::string> elements;
      if (!term.term.empty()) elements = resolve_term(find_term(term, kind, key), term, model, key).names;
      if (elements.size() != plain.size()) elements.clear();
      check_room(observe, first + names.size(), plain.size(), term, key);
      const ExpressionCompiler::Value value = modified(observe, plain, elements, term, key);
      const std::string name = term.name.empty() ? term.term : term.name;
      for (std::size_t k = 0; k < value.size(); ++k) {
        observe.graph().store(value[k], Bank::output, first + static_cast<int>(names.size()));
        names.push_back(value.size() == 1 ? name : fmt::format("{}[{}]", name, k));
      }
    }
    widths.push_back(static_cast<int>(names.size() - before));
  }
  return names;
}

// Both observations, then what the task keeps. The values of variables, which the other programs read, are
// in `observe` already.
void compile_observing(const TaskConfig& config, const TaskModel& model, ExpressionCompiler& observe,
                       ConstantPool& constants, CompiledTask& task) {
  task.observation_names = compile_observations(config.observations, TermKind::observation, model, observe, 0,
                                                task.observation_widths);
  task.num_observations = static_cast<int>(task.observation_names.size());
  std::vector<int> critic_widths;
  task.critic_observation_names =
      compile_observations(config.critic_observations, TermKind::critic_observation, model, observe,
                           task.num_observations, critic_widths);
  task.num_critic_observations = static_cast<int>(task.critic_observation_names.size());
  observe.finish();
  task.observe = observe.program(constants);
}

// ---- variables ----

// Variables of the deck, and what its commands become.
std::map<std::string, TaskVariable> variables_of(const TaskConfig& config, const TaskModel& model,
                                                 double step_dt) {
  std::map<std::string, TaskVariable> variables;
  for (std::size_t i = 0; i < config.variables.size(); ++i) {
    const TermConfig& term = config.variables[i];
    const std::string key = key_of(TermKind::variable, term, i);
    const auto source = [&](const std::string& text, const char* part) {
      return ExpressionSource{text, term.where_of(part), key + "." + part};
    };
    if (term.once && !term.every.empty())
      throw InputError(term.where_of("once"), key + ".once", "once beside every", "one of them");
    variables[term.name] = {.reset = source(term.reset, "reset"),
                            .update = source(term.update, "update"),
                            .update_at = term.update_at,
                            .once = term.once,
                            .steps = steps_of(term, key, step_dt)};
  }
  // A command is drawn at resets and each time that `every` is over; what a term makes of the draws each step
  // is the command itself.
  for (std::size_t i = 0; i < config.commands.size(); ++i) {
    const TermConfig& term = config.commands[i];
    const std::string key = key_of(TermKind::command, term, i);
    const auto add = [&](const std::string& name, TaskVariable variable) {
      if (!variables.try_emplace(name, std::move(variable)).second)
        throw InputError(term.where, key, "'" + name + "' is the name of a variable, too",
                         "another name for one of them");
    };
    const auto source = [&](const std::string& text) { return source_of(term, text, key); };
    if (term.term.empty()) {
      add(term.name, {.reset = source(term.expression), .update = {}, .steps = steps_of(term, key, step_dt)});
      continue;
    }
    const std::vector<TermExpression> parts = expressions_of(term, TermKind::command, model, key);
    std::string command = parts[1].text;
    const std::string drawn = term.name + "_drawn";
    for (std::size_t at = command.find('%'); at != std::string::npos; at = command.find('%'))
      command = command.substr(0, at) + drawn + command.substr(at + 1);
    add(drawn, {.reset = source(parts[0].text), .update = {}, .steps = steps_of(term, key, step_dt)});
    add(term.name, {.reset = source(command),
                    .update = source(command),
                    .update_at = UpdateTime::observation,
                    .steps = {}});
  }
  return variables;
}

std::vector<CompiledCurriculum> curricula_of(const TaskConfig& config) {
  std::vector<CompiledCurriculum> curricula;
  for (std::size_t i = 0; i < config.curricula.size(); ++i) {
    const TermConfig& term = config.curricula[i];
    const std::string key = key_of(TermKind::curriculum, term, i);
    const auto source = [&](const std::string& text, const char* part) {
      return ExpressionSource{text, term.where_of(part), key + "." + part};
    };
    curricula.push_back(
        {term.name, evaluate_numbers(source(term.reset, "reset"), {}), source(term.update, "update")});
  }
  return curricula;
}

// Expressions in the place of numbers know the curricula alone, and begin in order where they are ranges.
void check_numbers(const TaskConfig& config, const std::vector<CompiledCurriculum>& curricula) {
  std::map<std::string, double> names;
  for (const CompiledCurriculum& curriculum : curricula) names[curriculum.name] = curriculum.initial;
  const auto check = [&](const std::vector<TermNumber>& numbers, const SourceLocation& where,
                         const std::string& key, bool ordered) {
    std::vector<double> values;
    for (const TermNumber& number : numbers)
      values.push_back(number.expression.empty()
                           ? number.value
                           : evaluate_numbers({number.expression, where, key}, names, "curriculum"));
    if (values.size() != 2) return;
    if (ordered && !(values[0] <= values[1]))
      throw InputError(where, key, fmt::format("a range that begins as [{}, {}]", values[0], values[1]),
                       "[low, high] with low <= high");
    if (!ordered && !(values[1] >= 0))
      throw InputError(where, key,
                       fmt::format("[mean, deviation] that begins as [{}, {}]", values[0], values[1]),
                       "a standard deviation of at least 0");
  };
  for (const SectionKey& section : section_schema()) {
    const std::vector<TermConfig>& terms = config.*(section.terms);
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const TermConfig& term = terms[i];
      const std::string key = key_of(section.kind, term, i);
      for (const auto& [name, numbers] : term.parameters)
        check(numbers, term.where_of(name), key + "." + name, true);
      const bool ordered = term.distribution != Distribution::gaussian;
      const SourceLocation& place = term.where_of("ranges");
      check(term.ranges.all, place, key + ".ranges", ordered);
      for (const auto& [name, range] : term.ranges.keyed) check(range, place, key + ".ranges", ordered);
    }
  }
}

// The updates of curricula must be right: they are tried with every metric at 1. Returns the means of
// variables that they read.
std::vector<VariableMean> check_updates(const TaskConfig& config, const ExpressionContext& context,
                                        const std::vector<CompiledCurriculum>& curricula) {
  std::vector<std::string> rewards;
  for (const TermConfig& term : config.rewards) rewards.push_back(term.name);
  std::map<std::string, double> names;
  for (const std::string& metric : curriculum_metrics(rewards)) names[metric] = 1;
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
  for (const CompiledCurriculum& curriculum : curricula) names[curriculum.name] = curriculum.initial;
  std::vector<VariableMean> read;
  for (const CompiledCurriculum& curriculum : curricula)
    if (!curriculum.update.text.empty()) evaluate_numbers(curriculum.update, names);
  for (const VariableMean& mean : means)
    if (std::any_of(curricula.begin(), curricula.end(), [&](const CompiledCurriculum& curriculum) {
          return !curriculum.update.text.empty() && mentions_name(curriculum.update, mean.name);
        }))
      read.push_back(mean);
  return read;
}

// The weight of a reward where a curriculum multiplies it.
ExpressionGraph::Node weighted(ExpressionCompiler& evaluate, const TermConfig& term, const std::string& key,
                               const CompiledTask& task, ExpressionGraph::Node reward) {
  if (term.curriculum.empty()) return reward;
  std::vector<std::string> names;
  for (const CompiledCurriculum& curriculum : task.curricula) names.push_back(curriculum.name);
  if (std::find(names.begin(), names.end(), term.curriculum) == names.end())
    throw InputError(term.where_of("curriculum"), key + ".curriculum",
                     "no curriculum '" + term.curriculum + "'" + did_you_mean(term.curriculum, names),
                     names.empty() ? "task.curricula names none" : "allowed: " + list(names));
  const Quantity& curriculum = *evaluate.context().quantity(term.curriculum);
  return evaluate.graph().apply(Operation::multiply, reward, curriculum.component(evaluate, 0));
}

// Terms that are about a command and name none are about the only one.
void complete_commands(TaskConfig& config) {
  for (const SectionKey& section : section_schema()) {
    std::vector<TermConfig>& terms = config.*(section.terms);
    for (std::size_t i = 0; i < terms.size(); ++i) {
      TermConfig& term = terms[i];
      if (term.command.empty()) {
        if (config.commands.size() == 1) term.command = config.commands[0].name;
        continue;
      }
      std::vector<std::string> names;
      for (const TermConfig& command : config.commands) names.push_back(command.name);
      if (std::find(names.begin(), names.end(), term.command) == names.end())
        throw InputError(term.where_of("command"), key_of(section.kind, term, i) + ".command",
                         "no command '" + term.command + "'" + did_you_mean(term.command, names),
                         names.empty() ? "task.commands names none" : "allowed: " + list(names));
    }
  }
}

// ---- definitions ----

// Does a definition have one of these names or calls in it, or in a definition that it uses.
bool mentions(const ExpressionContext& context, const std::string& definition,
              const std::set<std::string>& words) {
  std::set<std::string> seen;
  std::vector<const Syntax*> open{context.definition(definition)->tree.get()};
  while (!open.empty()) {
    const Syntax& tree = *open.back();
    open.pop_back();
    for (const auto& child : tree.children) open.push_back(child.get());
    if (tree.kind != Syntax::Kind::name && tree.kind != Syntax::Kind::call) continue;
    if (words.contains(tree.text)) return true;
    const ParsedExpression* const used = context.definition(tree.text);
    if (used && seen.insert(tree.text).second) open.push_back(used->tree.get());
  }
  return false;
}

// ---- digest ----

class Checksum {
 public:
  void add(const std::string& text) {
    hash_.add(text.data(), text.size());
    add(std::uint64_t{text.size()});
  }
  void add(std::uint64_t value) { hash_.add(&value, sizeof(value)); }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  void add(const Program& program) {
    add(std::uint64_t{program.instructions.size()});
    for (const Instruction& i : program.instructions)
      for (const unsigned part : {unsigned{i.target}, unsigned{i.a}, unsigned{i.b}, unsigned{i.c},
                                  static_cast<unsigned>(i.operation), static_cast<unsigned>(i.bank_target),
                                  static_cast<unsigned>(i.bank_a), static_cast<unsigned>(i.bank_b),
                                  static_cast<unsigned>(i.bank_c)})
        add(std::uint64_t{part});
  }
  std::string text() const { return hash_.text(); }

 private:
  Fnv hash_;
};

// The task with these variables. What functions of its expressions remember beside them is added to
// `variables`; then the task must be compiled again.
CompiledTask compile_with(const TaskConfig& config, const TaskModel& model, double step_dt,
                          DerivedChoice derived, std::map<std::string, TaskVariable>& variables) {
  CompiledTask task;
  task.step_dt = step_dt;
  task.settle_steps = config.settle_steps;
  // A whole number of steps up to rounding of the deck's decimals, otherwise the next larger one.
  task.max_episode_steps =
      config.episode_steps > 0
          ? config.episode_steps
          : static_cast<std::int64_t>(std::ceil(config.episode_length / step_dt * (1 - 1e-6)));
  const double episode_length =
      config.episode_steps > 0 ? static_cast<double>(config.episode_steps) * step_dt : config.episode_length;
  if (!(config.episode_length >= 0) || task.max_episode_steps > (1 << 24))
    throw InputError(config.where, "task.episode_length",
                     fmt::format("{} s of {} s steps", config.episode_length, step_dt),
                     "0 (endless) to 16777216 control steps");

  task.actions = compile_actions(config, model);
  task.num_actions = static_cast<int>(task.actions.size());
  if (task.num_actions == 0)
    throw InputError(config.where, "task.actions", "no actions", "at least one action term");
  if (config.observations.empty())
    throw InputError(config.where, "task.observations", "no observations", "at least one observation term");

  std::map<std::string, ExpressionSource> definitions;
  for (const auto& [name, text] : config.definitions) {
    const auto where = config.where_definitions.find(name);
    definitions[name] = {text, where == config.where_definitions.end() ? config.where : where->second,
                         "task.definitions." + name};
  }
  ExpressionContext context(model, task.num_actions, step_dt, episode_length, task.max_episode_steps,
                            definitions, variables);
  task.curricula = curricula_of(config);
  check_numbers(config, task.curricula);
  context.add_curricula(task.curricula);
  std::vector<double> initial;
  for (const CompiledCurriculum& curriculum : task.curricula) initial.push_back(curriculum.initial);
  ConstantPool constants(std::move(initial));
  ExpressionCompiler observe(context, Phase::observe);
  observe.compile_variables();
  task.variable_means = check_updates(config, context, task.curricula);
  compile_evaluation(config, model, context, constants, task);
  compile_model_events(config, model, context, constants, task);
  compile_resets(config, model, context, constants, task);
  compile_acceptance(config, model, context, constants, task);
  compile_act(context, constants, task);
  compile_intervals(config, model, context, constants, task);
  compile_observing(config, model, observe, constants, task);
  task.evaluate_needs = read_derived(task.evaluate, derived, model, task);
  task.observe_needs = read_derived(task.observe, derived, model, task);
  task.constants = constants.values();
  task.num_memory = context.memory_size();
  task.num_kept = context.kept_size();
  task.num_contact_queries = static_cast<int>(context.contact_queries().size());
  for (std::size_t pair = 0; pair < model.geom_pairs.size(); ++pair)
    for (const std::vector<int>& sides : context.contact_queries()) task.contact_sides.push_back(sides[pair]);
  task.ray_queries = context.ray_queries();

  // Definitions that nothing uses must be right, too; some can only be used in resets or rewards.
  for (const auto& [name, source] : definitions) {
    const bool flags = mentions(context, name, {"terminated", "time_out"});
    if (!flags) ExpressionCompiler(context, Phase::observe).compile({name, source.where, source.key});
  }
  for (const auto& [name, variable] : variables)
    task.variables.push_back({name, context.address_of_variable(name),
                              static_cast<int>(context.size_of_variable(name)),
                              std::any_of(config.commands.begin(), config.commands.end(),
                                          [&](const TermConfig& term) { return term.name == name; })});
  variables.insert(context.missing_variables().begin(), context.missing_variables().end());
  return task;
}

}  // namespace

CompiledTask compile_task(const TaskConfig& given, const ImportedModel& imported, double step_dt,
                          DerivedChoice derived) {
  TaskModel model = task_model(imported);
  if (!given.keyframe.empty()) {
    const std::size_t key = keyframe_of(imported, given.keyframe, given.where_keyframe, "task.keyframe");
    const auto first = imported.key_qpos.begin() + static_cast<std::ptrdiff_t>(key * model.qpos0.size());
    std::copy_n(first, model.qpos0.size(), model.qpos0.begin());
  }
  TaskConfig config = given;
  complete_commands(config);
  std::map<std::string, TaskVariable> variables = variables_of(config, model, step_dt);
  try {
    while (true) {
      const std::size_t known = variables.size();
      CompiledTask task = compile_with(config, model, step_dt, derived, variables);
      if (variables.size() == known) return task;
    }
  } catch (const ProgramTooLarge& error) {
    throw InputError(config.where, "task", error.what(), "fewer or shorter terms");
  }
}

std::string task_digest(const CompiledTask& task) {
  Checksum sum;
  sum.add(task.step_dt);
  sum.add(static_cast<std::uint64_t>(task.max_episode_steps));
  for (const CompiledAction& action : task.actions) {
    sum.add(static_cast<std::uint64_t>(action.actuator));
    for (const double value : {action.scale, action.offset, action.low, action.high}) sum.add(value);
    sum.add(std::uint64_t{action.clipped});
  }
  for (const std::vector<std::string>* names : {&task.observation_names, &task.critic_observation_names,
                                                &task.reward_names, &task.termination_names}) {
    sum.add(std::uint64_t{names->size()});
    for (const std::string& name : *names) sum.add(name);
  }
  for (const Program* program : task.programs())
    if (program != &task.vary || !program->instructions.empty()) sum.add(*program);
  sum.add(static_cast<std::uint64_t>(task.settle_steps));
  for (const double value : task.constants) sum.add(value);
  sum.add(static_cast<std::uint64_t>(task.num_memory));
  sum.add(static_cast<std::uint64_t>(task.num_kept));
  sum.add(static_cast<std::uint64_t>(task.reset.num_random));
  for (const int side : task.contact_sides) sum.add(static_cast<std::uint64_t>(side));
  for (const RayRequest& request : task.ray_queries) {
    for (const int value : {static_cast<int>(request.frame), request.id, static_cast<int>(request.alignment)})
      sum.add(static_cast<std::uint64_t>(value));
    sum.add(request.max_distance);
    for (const double value : request.rays) sum.add(value);
    for (const int geom : request.geoms) sum.add(static_cast<std::uint64_t>(geom));
  }
  for (const int element : task.stepped) sum.add(static_cast<std::uint64_t>(element));
  for (const CompiledCurriculum& curriculum : task.curricula) {
    sum.add(curriculum.name);
    sum.add(curriculum.update.text);
  }
  return sum.text();
}

std::vector<FieldInfo> task_fields(const TaskSizes& sizes) {
  MANIPLE_TASK_SIZES(MANIPLE_LOCAL_TASK_SIZE)
  return list_fields({MANIPLE_TASK_FIELDS(MANIPLE_FIELD_INFO)});
}

std::vector<FieldInfo> task_counters() {
#define MANIPLE_COUNTER(name, unit, description) MANIPLE_FIELD_INFO(name, 1, unit, description)
  return list_fields({MANIPLE_TASK_COUNTERS(MANIPLE_COUNTER)});
#undef MANIPLE_COUNTER
}

}  // namespace maniple
