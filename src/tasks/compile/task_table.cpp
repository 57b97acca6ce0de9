#include "src/tasks/compile/task_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string_view>
#include <vector>

#include "src/base/counted.hpp"
#include "src/config/schema.hpp"
#include "src/tasks/terms/motion.hpp"
#include "src/tasks/terms/terms.hpp"

namespace maniple {
namespace {

std::string table_row(const std::string& name, const std::string& rest) {
  return rest.empty() ? fmt::format("    {}\n", name) : fmt::format("    {:<32}  {}\n", name, rest);
}
// A row for each term, by its name and this text.
template <class Text>
std::string rows_of(const std::vector<TermConfig>& terms, const Text& text) {
  std::string rows;
  for (const TermConfig& term : terms) rows += table_row(term.name, text(term));
  return rows;
}

// Of the library what a term was given, of an event on the model its field, or an expression.
std::string definition_of(TermConfig term) {
  static const std::set<std::string_view> elsewhere{"name",       "term",   "expression", "weight",
                                                    "curriculum", "set",    "mode",       "every",
                                                    "reset",      "update", "field",      "operation"};
  if (term.term.empty() && term.field.empty()) return term.expression;
  std::vector<std::string> given;
  TermConfig defaults;
  for (const TermKey& key : term_schema()) {
    const Target target = key.target(term);
    if (std::get_if<std::vector<std::string>*>(&target) != nullptr
            ? key.name == text_of(term.names_kind)
            : !elsewhere.contains(key.name) && yaml_text(target) != yaml_text(key.target(defaults)))
      given.push_back(key.name + " " + yaml_text(target));
  }
  for (const auto& [name, numbers] : term.parameters) given.push_back(name + " " + yaml_text(numbers));
  return (term.field.empty() ? term.term : text_of(term.operation) + " of " + term.field) +
         (given.empty() ? "" : fmt::format(" ({})", fmt::join(given, ", ")));
}

std::string every_text(const TermConfig& term) {
  if (term.every.empty()) return "";
  return term.every.size() == 1 ? fmt::format(" every {:.6g} s", term.every[0])
                                : fmt::format(" every {:.6g} to {:.6g} s", term.every[0], term.every[1]);
}

std::string action_text(const CompiledAction& action) {
  if (action.control < 0) return "read by the assignments";
  std::string text = fmt::format("x {:.6g}", action.scale);
  if (action.offset != 0) text += fmt::format(" + {:.6g}", action.offset);
  if (!action.offset_expression.text.empty()) text += " + (" + action.offset_expression.text + ")";
  if (action.relative_to >= 0) text += " + position";
  if (action.clipped) text += fmt::format(", control in [{:.6g}, {:.6g}]", action.low, action.high);
  if (!action.delay.empty())
    text += fmt::format(", delay {:.6g}{}", action.delay[0],
                        action.delay.size() > 1 ? fmt::format(" to {:.6g}", action.delay[1]) : "");
  return text + fmt::format(", random in [{:.4g}, {:.4g}]", action.random_low, action.random_high);
}
std::string action_rows(const TaskConfig& config, const CompiledTask& task) {
  std::string rows;
  for (const CompiledAction& action : task.actions) rows += table_row(action.name, action_text(action));
  for (const TermConfig& term : config.actions)
    if (!term.target.empty()) rows += table_row(term.target, "= " + term.expression);
  return rows;
}

// Components of one term in one row, joint_pos[0], joint_pos[1] ..., with what is done to them.
std::string observation_rows(std::vector<TermConfig> terms, const std::vector<std::string>& names) {
  std::string rows;
  std::size_t first = 0;
  TermConfig defaults;
  for (TermConfig& term : terms) {
    const std::string name = term.name.empty() ? term.term : term.name;
    std::size_t next = first;
    while (next < names.size() && names[next] == fmt::format("{}[{}]", name, next - first)) ++next;
    if (next == first) ++next;
    std::string rest = fmt::format("{}", first);
    if (next > first + 1) rest += fmt::format(" to {}", next - 1);
    for (const char* key : {"bias", "noise", "noise_std", "clip", "scale", "delay", "history"})
      for (const TermKey& entry : term_schema())
        if (const std::string value = yaml_text(entry.target(term));
            entry.name == key && value != yaml_text(entry.target(defaults)))
          rest += fmt::format(", {} {}", key, value);
    if (term.history > 1) rest += ", the oldest step first";
    if (!term.names.empty())
      rest += fmt::format(", {} {}", text_of(term.names_kind), fmt::join(term.names, " "));
    // an expression without a name of its own is called by its place
    rows += table_row(term.term.empty() && name.ends_with(']') ? term.expression : name, rest);
    first = next;
  }
  return rows;
}

std::string event_text(const TermConfig& term) {
  return (term.target.empty() ? "" : term.target + " = ") + definition_of(term) +
         (term.mode == EventMode::reset     ? " at resets"
          : term.mode == EventMode::startup ? " at start-up"
                                            : every_text(term));
}

std::string command_text(const TermConfig& term, const CompiledTask& task) {
  std::string text = definition_of(term) + every_text(term);
  if (term.term != kMotionTerm) return text;
  const Motion& motion = *task.motion;
  text += fmt::format("; {} frames, {:.4g} s, {}", motion.frames, motion.frames * task.step_dt,
                      text_of(motion.sampling_mode));
  return motion.is_adaptive() ? text + " in " + counted(motion.bins, "part") : text;
}

}  // namespace

std::string task_table(const TaskConfig& config, const CompiledTask& task) {
  std::string text =
      fmt::format("task {}\n  {} actions, {} observations, control step {:.6g} s, rewards: {}\n", config.name,
                  task.num_actions, task.num_observations, task.step_dt, fmt::join(task.reward_names, " "));
  const auto section = [&](const std::string& name, const std::string& rows) {
    if (!rows.empty()) text += "  " + name + "\n" + rows;
  };
  section(fmt::format("actions ({})", task.num_actions), action_rows(config, task));
  std::string held;
  for (const auto& [name, control] : task.held_controls)
    held += table_row(name, fmt::format("holds {:.6g}", control));
  section(fmt::format("actuators without an action ({}), controls {}", task.held_controls.size(),
                      config.keyframe.empty() ? "after a reset" : "of task.keyframe " + config.keyframe),
          held);
  section(fmt::format("observations ({})", task.num_observations),
          observation_rows(config.observations, task.observation_names));
  section(fmt::format("critic observations ({})", task.num_critic_observations),
          observation_rows(config.critic_observations, task.critic_observation_names));
  section(config.reward_times_dt ? "rewards, weight x duration of a control step" : "rewards, weight",
          rows_of(config.rewards, [](const TermConfig& term) {
            return fmt::format("{:>10.6g} x {}{}", term.weight,
                               term.curriculum.empty() ? "" : term.curriculum + " x ", definition_of(term));
          }));
  section(task.max_episode_steps > 0
              ? fmt::format("ends, of {} control steps at most", task.max_episode_steps)
              : "ends",
          rows_of(config.terminations, [](const TermConfig& term) {
            return (is_time_out(term) ? "truncation: " : "termination: ") + definition_of(term);
          }));
  section("resets", rows_of(config.resets, [](const TermConfig& term) {
            return term.target.empty() ? definition_of(term) : term.target + " = " + definition_of(term);
          }));
  section("events", rows_of(config.events, event_text));
  section("commands",
          rows_of(config.commands, [&](const TermConfig& term) { return command_text(term, task); }));
  section("variables", rows_of(config.variables, [](const TermConfig& term) {
            return "reset: " + term.reset + (term.update.empty() ? "" : ", update: " + term.update) +
                   every_text(term);
          }));
  section("curricula", rows_of(config.curricula, [](const TermConfig& term) {
            if (!term.term.empty()) return definition_of(term);
            return "first " + term.reset + (term.update.empty() ? "" : ", then " + term.update);
          }));
  section("metrics", rows_of(config.metrics, [](const TermConfig& term) {
            return text_of(term.statistic) + " of " + definition_of(term);
          }));
  return text;
}

}  // namespace maniple
