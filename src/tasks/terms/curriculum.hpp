// Curricula: named numbers of a task's expressions that change between the iterations of a training,
// according to its metrics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/tasks/language/expression.hpp"

namespace maniple {

class ExpressionContext;

// A curriculum of a compiled task; number i of these is number i of the task's constants.
struct CompiledCurriculum {
  std::string name;
  double initial = 0;
  ExpressionSource update;  // its next value, from metrics, curricula and itself
};

// A component of a variable of the task, whose mean over the environments is a metric.
struct VariableMean {
  std::string name;  // of the metric: "mean_air_time", "mean_command_1"
  int element = 0;   // of the task's field `kept`
};

// The metric that counts the episodes that an iteration ended.
inline constexpr const char* kEndedEpisodes = "episodes";

// The metrics of a training in each iteration, for updates to read.
struct CurriculumMetric {
  std::string name, unit, meaning;
};
const std::vector<CurriculumMetric>& curriculum_metrics();

// Names that updates know beside curricula and means: these, and what a training with this task tells of its
// rewards, terminations and metrics.
std::vector<std::string> curriculum_metrics(const TaskConfig& task);
// Names of what is told of an episode beside its rewards: whether each termination held at its end, and the
// task's metrics.
std::vector<std::string> episode_metrics(const TaskConfig& task);

// What of a task is a number whatever the environments do, for expressions of numbers: `dt`,
// `max_episode_steps`, and definitions that are made of numbers.
struct TaskNumbers {
  double dt = 0;  // s
  std::int64_t max_episode_steps = 0;
  std::map<std::string, ExpressionSource> definitions;
};

// Does the expression use this name, itself or in a definition.
bool mentions_name(const ExpressionSource& source, const std::string& name, const TaskNumbers& task);

// The number that an expression of named numbers, and of the task's, is. InputError: other names (what they
// are: "metric"), no number.
double evaluate_numbers(const ExpressionSource& source, const std::map<std::string, double>& names,
                        const TaskNumbers& task, const std::string& what = "metric");

// The next values, and the places of those that the update gave none though it knew all that it reads.
struct AdvancedCurricula {
  std::vector<double> values;
  std::vector<std::size_t> stuck;
};

// Each from the metrics and all last values. One that reads metrics of episodes waits for an iteration that
// ends some: until then they are those of an earlier one. One that is not finite leaves its curriculum as it
// is, too.
AdvancedCurricula advance(const std::vector<CompiledCurriculum>& curricula, const std::vector<double>& values,
                          const std::map<std::string, double>& metrics, const TaskNumbers& task);

// The numbers of learning.curricula, of these metrics and curricula; not those that are not finite.
// InputError: a number that its key does not take.
std::map<std::string, double> followed_numbers(const Config& config,
                                               const std::map<std::string, double>& names,
                                               const TaskNumbers& task);

// ---- for the compiler of a task ----

// learning.curricula must be right: they are tried with every metric at 1.
void check_learning_numbers(const Config& config, const std::vector<CompiledCurriculum>& curricula,
                            const TaskNumbers& task);

std::vector<CompiledCurriculum> curricula_of(const TaskConfig& config, const TaskNumbers& task);

// Expressions in the place of numbers know the curricula, whose values these are, and the numbers of the
// task. InputError: others, or a range that is upside down (when: "begins as").
void check_numbers(const TaskConfig& config, const std::vector<CompiledCurriculum>& curricula,
                   const std::vector<double>& values, const TaskNumbers& task, const std::string& when);

// The updates of curricula must be right: they are tried with every metric at 1. Returns the means of
// variables that they read.
std::vector<VariableMean> check_updates(const TaskConfig& config, const ExpressionContext& context,
                                        const std::vector<CompiledCurriculum>& curricula,
                                        const TaskNumbers& task);

}  // namespace maniple
