// A graph numbers its nodes in the order in which terms are compiled, and programs draw random numbers in
// that order: the order of the deck.
#include "src/tasks/compile/task_programs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "src/tasks/language/names.hpp"
#include "src/tasks/terms/model_events.hpp"
#include "src/tasks/terms/motion.hpp"
#include "src/tasks/terms/term_expressions.hpp"
#include "src/tasks/terms/terms.hpp"
#include "src/tasks/terms/terrain_levels.hpp"

namespace maniple {
namespace {

// The termination that says whether an episode reached its goal, by Isaac Lab's convention.
constexpr const char* kSuccess = "success";

// The quantity that a reset or event assigns.
std::vector<TermExpression> assignments_of(const TermConfig& term, TermKind kind, const TaskModel& model,
                                           const std::string& key) {
  if (!term.field.empty()) return field_assignments(term, model, key);
  if (term.term.empty() && term.target.empty())
    throw InputError(term.where, key, "an expression that sets nothing",
                     "set: qpos[joint], qvel[joint], act[actuator], mocap_pos[body], eq_active[equality], "
                     "xfrc_applied[body] or qfrc_applied[joint]");
  return expressions_of(term, kind, model, key);
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

// An action without an actuator of its own: what it assigns, mocap poses for instance.
void assign_in_act(const TermConfig& term, const std::string& key, const TaskModel& model,
                   ExpressionCompiler& act, CompiledTask& task) {
  act.assign({term.target, term.where_of("set"), key + ".set"}, source_of(term, term.expression, key));
  const int first_control = field_named(state_fields(model.sizes), "ctrl").first;
  for (const int element : act.last_assigned()) {
    const auto drives = [&](const CompiledAction& action) { return action.element == element; };
    if (!task.assigned_in_act.insert(element).second ||
        std::any_of(task.actions.begin(), task.actions.end(), drives)) {
      const int control = element - first_control;
      const bool is_control = control >= 0 && control < std::ssize(model.controls);
      throw InputError(term.where_of("set"), key + ".set",
                       is_control ? fmt::format("actuator '{}' gets a second action",
                                                model.controls[static_cast<std::size_t>(control)].name)
                                  : fmt::format("'{}' gets a second action", term.target),
                       "one action for each of them");
    }
  }
}

}  // namespace

std::vector<double> steps_of(const TermConfig& term, const std::string& key, double step_dt) {
  std::vector<double> steps;
  for (const double seconds : term.every) steps.push_back(seconds / step_dt);
  if (!steps.empty() && steps.back() > (1 << 24))
    throw InputError(term.where_of("every"), key + ".every",
                     fmt::format("{} s of {} s steps", term.every.back(), step_dt),
                     "at most 16777216 control steps");
  return steps;
}

void check_finite(const ExpressionGraph& graph, const ExpressionCompiler::Value& values,
                  const ExpressionSource& source) {
  for (const ExpressionGraph::Node value : values)
    if (graph.is_constant(value) && !std::isfinite(graph.constant_value(value)))
      refuse_expression(source, 0, fmt::format("always {}", graph.constant_value(value)), "a finite number");
}

void compile_evaluation(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                        ConstantPool& constants, CompiledTask& task) {
  Mistakes& mistakes = context.mistakes();
  ExpressionCompiler evaluate(context, Phase::evaluate);
  ExpressionGraph& graph = evaluate.graph();
  const ExpressionGraph::Node bad = graph.operand(Bank::registers, register_flag);  // states, which fail
  ExpressionGraph::Node terminated = bad, time_out = graph.constant(0), success = graph.constant(0);
  std::vector<ExpressionGraph::Node> ends;  // of each termination
  bool ends_in_time = false;
  const auto add_termination = [&](const TermConfig& term, const std::string& key) {
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
      ends.push_back(graph.apply(Operation::not_equal, done, graph.constant(0)));
      if (term.name != kSuccess) continue;
      success = graph.apply(Operation::logical_and, done, graph.apply(Operation::logical_not, bad));
      task.num_success = 1;
    }
    task.termination_names.push_back(term.name);
  };
  for (std::size_t i = 0; i < config.terminations.size(); ++i) {
    const TermConfig& term = config.terminations[i];
    mistakes.gather([&] { add_termination(term, key_of(TermKind::termination, term, i)); });
  }
  if (task.max_episode_steps > 0 && !ends_in_time)
    mistakes.add({config.where, config.episode_steps > 0 ? "task.episode_steps" : "task.episode_length",
                  fmt::format("{} control steps, but no termination is a time-out", task.max_episode_steps),
                  "with 'time_out: {term: time_out}' in task.terminations, or 0 (endless)"});
  // (both may hold in a step, as in Gymnasium and Isaac Lab)
  evaluate.set_name("terminated", terminated);
  evaluate.set_name("time_out", time_out);
  graph.store(terminated, Bank::output, 0);
  graph.store(time_out, Bank::output, 1);
  const auto add_reward = [&](const TermConfig& term, const std::string& key, int output) {
    const double factor = term.weight * (config.reward_times_dt ? task.step_dt : 1.0);
    for (const TermExpression& expression : expressions_of(term, TermKind::reward, model, key)) {
      const ExpressionSource source = source_of(term, expression.text, key);
      const ExpressionGraph::Node value = evaluate.compile_number(source, "a reward");
      check_finite(graph, {value}, source);
      const ExpressionGraph::Node reward = weighted(evaluate, term, key, task, value);
      graph.store(
          factor == 0 ? graph.constant(0) : graph.apply(Operation::multiply, reward, graph.constant(factor)),
          Bank::output, kFirstRewardOutput + output);
    }
    task.reward_names.push_back(term.name);
  };
  for (std::size_t i = 0; i < config.rewards.size(); ++i) {
    const TermConfig& term = config.rewards[i];
    mistakes.gather([&] { add_reward(term, key_of(TermKind::reward, term, i), static_cast<int>(i)); });
  }
  task.num_reward_terms = static_cast<int>(task.reward_names.size());
  int next = kFirstRewardOutput + task.num_reward_terms;
  if (task.num_success > 0) graph.store(success, Bank::output, next++);
  for (const ExpressionGraph::Node end : ends) graph.store(end, Bank::output, next++);
  task.metric_names = episode_metrics(config);
  task.metric_statistics.assign(ends.size(), EpisodeStatistic::last);
  const auto add_metric = [&](const TermConfig& term, std::size_t i) {
    const ExpressionSource source = source_of(term, term.expression, key_of(TermKind::metric, term, i));
    const ExpressionGraph::Node value = evaluate.compile_number(source, "a metric");
    check_finite(graph, {value}, source);
    graph.store(value, Bank::output, next++);
    task.metric_statistics.push_back(static_cast<EpisodeStatistic>(term.statistic));
  };
  for (std::size_t i = 0; i < config.metrics.size(); ++i)
    mistakes.gather([&] { add_metric(config.metrics[i], i); });
  task.num_metrics = static_cast<int>(task.metric_names.size());
  if (task.num_terrains > 0) {
    const ExpressionSource move = terrain_move_of(config, model);
    graph.store(move.text.empty() ? graph.constant(0) : evaluate.compile_number(move, "a curriculum"),
                Bank::output, next);
  }
  evaluate.finish();
  task.evaluate = evaluate.program(constants);
}

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
    context.mistakes().gather([&] {
      for (const TermExpression& expression : assignments_of(term, TermKind::event, model, key)) {
        vary.assign({expression.target, term.where_of("set"), key + ".set"},
                    source_of(term, expression.text, key), where);
        check_contacts_of(vary.last_assigned(), term, model, key);
      }
    });
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
    context.mistakes().gather([&] {
      for (const TermExpression& expression : assignments_of(term, kind, model, key))
        reset.assign({expression.target, term.where_of("set"), key + ".set"},
                     source_of(term, expression.text, key));
    });
  };
  if (!config.keyframe.empty()) {
    const std::vector<FieldInfo> fields = state_fields(model.sizes);
    const auto begin_with = [&](const char* field, const std::vector<double>& values) {
      const int first = field_named(fields, field).first;
      for (std::size_t i = 0; i < values.size(); ++i) reset.assign(first + static_cast<int>(i), values[i]);
    };
    begin_with("qpos", model.qpos0);
    begin_with("qvel", model.qvel0);
    begin_with("act", model.act0);
    begin_with("ctrl", model.ctrl0);
    begin_with("mocap_pos", model.mocap_pos0);
    begin_with("mocap_quat", model.mocap_quat0);
    begin_with("time", {model.reset_time});
  }
  // robots stand on their cells, whatever else resets do
  for (const TaskJoint& joint : model.joints)
    if (model.terrain && joint.type == joint_free) {
      const auto source = [&](const std::string& text) {
        return ExpressionSource{text, config.where, "task.resets"};
      };
      const std::string place = "qpos['" + joint.name + "'][0:3]";
      reset.assign(source(place), source("default_" + place + " + terrain_origin"));
    }
  if (model.motion)
    context.mistakes().gather(
        [&] { reset_to_motion(reset, config, model, static_cast<int>(task.curricula.size())); });
  for (std::size_t i = 0; i < config.resets.size(); ++i) assign(config.resets[i], TermKind::reset, i);
  for (std::size_t i = 0; i < config.events.size(); ++i)
    if (config.events[i].mode == EventMode::reset && !sets_model(config.events[i], model))
      assign(config.events[i], TermKind::event, i);
  reset.finish();
  task.reset = reset.program(constants);
}

void compile_acceptance(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                        ConstantPool& constants, CompiledTask& task) {
  if (config.reset_raise > 0 && config.reset_until.empty())
    throw InputError(config.where_reset_raise, "task.reset_raise", "found without task.reset_until",
                     "allowed: with the condition for which states move up");
  if (config.reset_raise > 0 && std::none_of(model.joints.begin(), model.joints.end(),
                                             [](const TaskJoint& joint) { return joint.type == joint_free; }))
    throw InputError(config.where_reset_raise, "task.reset_raise", "found in a model without a free joint",
                     "allowed: with one, which moves up");
  if (config.reset_until.empty()) return;
  ExpressionCompiler accept(context, Phase::observe);
  const ExpressionCompiler::WithoutDraws without_draws(
      accept, "in a condition", "a variable that is drawn when the state is, and its name here");
  accept.graph().store(accept.compile_number(
                           {config.reset_until, config.where_reset_until, "task.reset_until"}, "a condition"),
                       Bank::output, 0);
  task.accept = accept.program(constants);
}

void compile_act(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                 ConstantPool& constants, CompiledTask& task) {
  const auto by_program = [](const CompiledAction& action) { return action.by_program; };
  const auto assigns = [](const TermConfig& term) { return !term.target.empty(); };
  if (std::none_of(task.actions.begin(), task.actions.end(), by_program) &&
      std::none_of(config.actions.begin(), config.actions.end(), assigns))
    return;
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
  for (std::size_t i = 0; i < config.actions.size(); ++i)
    if (assigns(config.actions[i]))
      context.mistakes().gather([&] {
        assign_in_act(config.actions[i], key_of(TermKind::action, config.actions[i], i), model, act, task);
      });
  act.finish();
  graph.store(clipped, Bank::output, 0);
  task.act = act.program(constants);
}

void compile_intervals(const TaskConfig& config, const TaskModel& model, ExpressionContext& context,
                       ConstantPool& constants, CompiledTask& task) {
  ExpressionCompiler interval(context, Phase::interval);
  ExpressionGraph& graph = interval.graph();
  ExpressionGraph::Node disturbed = graph.constant(0), varied = graph.constant(0);
  bool any = model.motion != nullptr;
  if (model.motion)
    context.mistakes().gather([&] {
      disturbed = advance_motion(interval, config, model, static_cast<int>(task.curricula.size()));
    });
  for (std::size_t i = 0; i < config.events.size(); ++i) {
    const TermConfig& term = config.events[i];
    if (term.mode != EventMode::interval) continue;
    any = true;
    const std::string key = key_of(TermKind::event, term, i);
    context.mistakes().gather([&] {
      const ExpressionGraph::Node due = interval.interval(steps_of(term, key, task.step_dt));
      disturbed = graph.apply(Operation::logical_or, disturbed, due);
      for (const TermExpression& expression : assignments_of(term, TermKind::event, model, key))
        if (interval.assign({expression.target, term.where_of("set"), key + ".set"},
                            source_of(term, expression.text, key), due)) {
          check_contacts_of(interval.last_assigned(), term, model, key);
          varied = graph.apply(Operation::logical_or, varied, due);
          task.varies_in_intervals = true;
        }
    });
  }
  if (!any) return;
  interval.finish();
  graph.store(disturbed, Bank::output, 0);
  if (task.varies_in_intervals) graph.store(varied, Bank::output, 1);
  task.interval = interval.program(constants);
}

}  // namespace maniple
