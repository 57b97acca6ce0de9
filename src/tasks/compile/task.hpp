// A task compiled against a model: the deck's terms and expressions as programs for the device, and the facts
// about them that host code needs (names, counts, weights). Nothing here depends on precision or ranks.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/tiles.hpp"
#include "kernels/model/field_info.hpp"
#include "kernels/tasks/task_fields.hpp"
#include "src/config/config.hpp"
#include "src/model_import/import.hpp"
#include "src/tasks/language/expression_compiler.hpp"
#include "src/tasks/language/expression_graph.hpp"
#include "src/tasks/terms/actions.hpp"
#include "src/tasks/terms/curriculum.hpp"

namespace maniple {

// A variable or command of the deck, or what a function of its expressions remembers (kOwnVariable).
struct CompiledVariable {
  std::string name;
  int element = 0, size = 1;  // in Bank::kept
  bool is_command = false;

  // As a field of trajectories.
  std::string field() const { return (is_command ? "commands/" : "variables/") + name; }
};

// A component of what the policy sees: which number it is of which expression, before what is done to it.
struct CompiledObservation {
  std::size_t term = 0;  // of task.observations
  std::string expression;
  std::size_t component = 0;
  std::string element;  // of the model, whose number it is; "": of none by name
  double scale = 1;
  std::size_t age = 0;  // control steps, in the history
};

struct CompiledTask : TaskSizes {
  double step_dt = 0;                  // s per control step
  std::int64_t max_episode_steps = 0;  // 0: endless

  std::vector<CompiledAction> actions;
  std::set<int> assigned_in_act;  // elements of State that actions by `set` assign
  // Actuators that no action drives, and the controls that they hold.
  std::vector<std::pair<std::string, double>> held_controls;
  std::vector<std::string> observation_names;  // one per component: "joint_pos_rel[0]"
  std::vector<CompiledObservation> observations;
  std::vector<std::string> critic_observation_names;
  std::vector<int> observation_widths;  // components of each term of task.observations
  std::vector<CompiledVariable> variables;
  std::vector<std::string> reward_names, termination_names;
  // Metrics of an episode: whether each termination held in its last step, then those of the deck.
  std::vector<std::string> metric_names;
  std::vector<EpisodeStatistic> metric_statistics;

  Program act, evaluate, vary, reset, interval, observe, accept;
  bool varies_at_resets = false, varies_in_intervals = false;  // see Task
  std::vector<double> constants;                               // those of curricula first
  std::vector<CompiledCurriculum> curricula;
  std::shared_ptr<const Terrain> terrain;    // empty: none
  std::shared_ptr<const Motion> motion;      // empty: none
  int first_motion_failure = 0;              // in Bank::kept: failures in each part of it so far
  TaskNumbers numbers;                       // that their updates know
  std::vector<VariableMean> variable_means;  // that their updates read
  // ContactQueries::sides, and its width
  std::vector<int> contact_sides;
  int num_contact_queries = 0;
  std::vector<RayRequest> ray_queries;

  // Which fields of Data the programs read, of the state after the step: `evaluate` for terminations and
  // rewards, `observe` (after resets) for observations and prev().
  Derived evaluate_needs = Derived::none, observe_needs = Derived::none;
  // Elements of Data that they read as the last physics step left them, in the order of Bank::stepped, and
  // physics steps whose contacts they read; what fills those that observations read where no step has.
  std::vector<int> stepped;
  int contact_steps = 0;
  Derived stepped_needs = Derived::none;
  Derived accept_needs = Derived::none;
  int settle_steps = 0;
  double reset_raise = 0;          // m
  bool released_at_reset = false;  // what stands in for a last step at a reset is without actuators

  // In the order in which they lie in memory.
  std::vector<const Program*> programs() const {
    return {&act, &evaluate, &vary, &reset, &interval, &observe, &accept};
  }
};

// A control step of `step_dt` seconds with this model.
ControlStep control_step(const ImportedModel& model, double step_dt);
// Throws InputError with file:line, and a caret for expressions.
CompiledTask compile_task(const TaskConfig& config, const ImportedModel& model, double step_dt,
                          DerivedChoice derived = DerivedChoice::fresh);
// The task of a deck, which has one, with the model as the deck runs it.
CompiledTask compile_task(const Config& config, const ImportedModel& model);

// The fields of the task's state in the order of its tiles, and its counters.
std::vector<FieldInfo> task_fields(const TaskSizes& sizes);
std::vector<FieldInfo> task_counters();
// Those of the state that say where an environment is: on the terrain, in the reference motion. They can be
// recorded.
std::vector<FieldInfo> place_fields(const TaskSizes& sizes);

// A field of a transition, and which member it is.
template <class Field>
struct TransitionField : FieldInfo {
  TransitionUse use;
  Field Transition<Field>::*member;
};
template <class Field = TiledView<float>>
std::vector<TransitionField<Field>> transition_fields(const TaskSizes& sizes) {
  MANIPLE_TASK_SIZES(MANIPLE_LOCAL_TASK_SIZE)
  return {
#define MANIPLE_FIELD(name, size, use, unit, description) \
  {{#name, unit, description, 0, size}, TransitionUse::use, &Transition<Field>::name},
      MANIPLE_TRANSITION_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  };
}

}  // namespace maniple
