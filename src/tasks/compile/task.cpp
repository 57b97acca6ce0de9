// A task is compiled from the outside in: variables and curricula, which every expression may name, then the
// programs, then what these ask of the physics.
#include "src/tasks/compile/task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "kernels/tasks/task_fields.hpp"
#include "src/tasks/compile/observations.hpp"
#include "src/tasks/compile/task_programs.hpp"
#include "src/tasks/language/names.hpp"
#include "src/tasks/language/task_model.hpp"
#include "src/tasks/terms/model_events.hpp"
#include "src/tasks/terms/motion.hpp"
#include "src/tasks/terms/term_expressions.hpp"
#include "src/tasks/terms/terms.hpp"
#include "src/tasks/terms/terrain_levels.hpp"

namespace maniple {
namespace {

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

// The stages that a program needs for what it reads of Data.
struct DerivedNeeds {
  Derived fresh = Derived::none;    // stages that must belong to the current state
  Derived stepped = Derived::none;  // stages that fill what a physics step would have left
};

// Calls visit(bank, element) for the operands of each instruction.
template <class Visit>
void for_each_operand(Program& program, const Visit& visit) {
  for (Instruction& i : program.instructions) {
    visit(i.bank_a, i.a);
    visit(i.bank_b, i.b);
    visit(i.bank_c, i.c);
  }
}

// Physics steps of a control step whose contacts programs may look at: all where one reads a history.
int steps_with_contacts(std::initializer_list<Program*> programs, int physics_steps) {
  int steps = 1;
  for (Program* const program : programs)
    for_each_operand(*program, [&](const Bank& bank, std::uint16_t) {
      if (bank == Bank::stepped_contact) steps = physics_steps;
    });
  return steps;
}

// Lets a program read what the last physics step left, where `derived` says so. Of contacts, this many steps
// are kept.
DerivedNeeds read_derived(Program& program, DerivedChoice derived, const TaskModel& model, int contact_steps,
                          CompiledTask& task) {
  const std::vector<FieldInfo> fields = data_fields(model.sizes);
  DerivedNeeds needs;
  for_each_operand(program, [&](Bank& bank, std::uint16_t& element) {
    if (bank == Bank::contact && derived != DerivedChoice::fresh) {
      bank = Bank::stepped_contact;
      element = ExpressionGraph::element(
          answer_place(element / kContactAnswers, 0, contact_steps, element % kContactAnswers));
    }
    if (bank == Bank::contact) needs.fresh = Derived::forward;
    if (bank == Bank::stepped_contact) {
      needs.stepped = Derived::forward;
      task.contact_steps = contact_steps;
    }
    if (bank == Bank::ray) needs.fresh = std::max(needs.fresh, Derived::kinematics);
    if (bank != Bank::data) return;
    const Derived stage = stage_of(element, fields, model);
    const bool stepped = derived == DerivedChoice::as_stepped ||
                         (derived == DerivedChoice::stepped_forces && stage == Derived::forward);
    if (!stepped) {
      needs.fresh = std::max(needs.fresh, stage);
      return;
    }
    const auto known = std::find(task.stepped.begin(), task.stepped.end(), int{element});
    const auto place = known - task.stepped.begin();
    if (known == task.stepped.end()) task.stepped.push_back(element);
    bank = Bank::stepped;
    element = ExpressionGraph::element(static_cast<int>(place));
    needs.stepped = std::max(needs.stepped, stage);
  });
  return needs;
}

// Variables of the deck, and what its commands become.
std::map<std::string, TaskVariable> variables_of(const TaskConfig& config, const TaskModel& model,
                                                 double step_dt) {
  Mistakes mistakes;
  std::map<std::string, TaskVariable> variables;
  for (std::size_t i = 0; i < config.variables.size(); ++i) {
    const TermConfig& term = config.variables[i];
    const std::string key = key_of(TermKind::variable, term, i);
    const auto source = [&](const std::string& text, const char* part) {
      return ExpressionSource{text, term.where_of(part), key + "." + part};
    };
    mistakes.gather([&] {
      if (term.once && !term.every.empty())
        throw InputError(term.where_of("once"), key + ".once", "once together with every", "one of them");
      variables[term.name] = {.reset = source(term.reset, "reset"),
                              .update = source(term.update, "update"),
                              .update_at = term.update_at,
                              .once = term.once,
                              .steps = steps_of(term, key, step_dt)};
    });
  }
  // A command is drawn at resets and each time that `every` is over; what a term makes of the draws each step
  // is the command itself.
  const auto add_command = [&](const TermConfig& term, const std::string& key) {
    const auto add = [&](const std::string& name, TaskVariable&& variable) {
      if (!variables.try_emplace(name, std::move(variable)).second)
        throw InputError(term.where, key, "'" + name + "' is the name of a variable, too",
                         "another name for one of them");
    };
    if (term.term == kMotionTerm) {
      std::map<std::string, TaskVariable> of_motion;
      add_motion_variables(*model.motion, term, key, of_motion);
      for (auto& [name, variable] : of_motion) add(name, std::move(variable));
      return;
    }
    refuse_keys_of_motions(term, key);
    const auto source = [&](const std::string& text) { return source_of(term, text, key); };
    if (term.term.empty()) {
      add(term.name, {.reset = source(term.expression), .update = {}, .steps = steps_of(term, key, step_dt)});
      return;
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
  };
  for (std::size_t i = 0; i < config.commands.size(); ++i) {
    const TermConfig& term = config.commands[i];
    mistakes.gather([&] { add_command(term, key_of(TermKind::command, term, i)); });
  }
  mistakes.throw_any();  // any term may use them
  return variables;
}

// Terms that are about a command and name none are about the only one.
void complete_commands(TaskConfig& config) {
  Mistakes mistakes;
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
        mistakes.add({term.where_of("command"), key_of(section.kind, term, i) + ".command",
                      "no command '" + term.command + "'" + did_you_mean(term.command, names),
                      names.empty() ? "task.commands names none" : "allowed: " + list(names)});
    }
  }
  mistakes.throw_any();
}

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

// Controls that no action sets, and what they hold.
std::vector<std::pair<std::string, double>> held_controls(const TaskModel& model, const CompiledTask& task) {
  const int first_control = field_named(state_fields(model.sizes), "ctrl").first;
  std::vector<std::pair<std::string, double>> held;
  for (int i = 0; i < std::ssize(model.controls); ++i) {
    const auto drives = [i](const CompiledAction& action) { return action.control == i; };
    if (std::none_of(task.actions.begin(), task.actions.end(), drives) &&
        !task.assigned_in_act.contains(first_control + i))
      held.emplace_back(model.controls[static_cast<std::size_t>(i)].name,
                        model.ctrl0[static_cast<std::size_t>(i)]);
  }
  return held;
}

// The task with these variables. What functions of its expressions remember beside them is added to
// `variables`; then the task must be compiled again.
CompiledTask compile_with(const TaskConfig& config, const TaskModel& model, const ControlStep& step,
                          DerivedChoice derived, std::map<std::string, TaskVariable>& variables) {
  CompiledTask task;
  const double step_dt = step.dt;
  task.step_dt = step_dt;
  task.settle_steps = config.settle_steps;
  task.reset_raise = config.reset_raise;
  task.terrain = model.terrain;
  task.num_terrains = model.terrain ? 1 : 0;
  task.motion = model.motion;
  task.num_motions = model.motion ? 1 : 0;
  task.released_at_reset = derived == DerivedChoice::stepped_forces;  // as in dm_control
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

  Mistakes of_actions;
  task.actions = compile_actions(config, model, of_actions);
  task.num_actions = static_cast<int>(task.actions.size());
  if (of_actions.count() > 0)
    task.num_actions = 1;  // a number fits what is computed with as many as there would be
  else if (task.num_actions == 0)
    throw InputError(config.where, "task.actions", "no actions", "at least one action term");
  if (config.observations.empty())
    throw InputError(config.where, "task.observations", "no observations", "at least one observation term");

  std::map<std::string, ExpressionSource> definitions;
  for (const auto& [name, text] : config.definitions) {
    const auto where = config.where_definitions.find(name);
    definitions[name] = {text, where == config.where_definitions.end() ? config.where : where->second,
                         "task.definitions." + name};
  }
  ExpressionContext context(model, task.num_actions, step, episode_length, task.max_episode_steps,
                            definitions, variables, motion_quantities(model));
  Mistakes& mistakes = context.mistakes();
  mistakes.gather([&] { of_actions.throw_any(); });
  task.numbers = {step_dt, task.max_episode_steps, definitions};
  task.curricula = curricula_of(config, task.numbers);
  std::vector<double> initial;
  for (const CompiledCurriculum& curriculum : task.curricula) initial.push_back(curriculum.initial);
  check_numbers(config, task.curricula, initial, task.numbers, "begins as");
  for (const CompiledCurriculum& curriculum : task.curricula)
    context.add_curriculum(curriculum.name, curriculum.update);
  if (model.motion && model.motion->is_adaptive())
    for (const double sum : MotionSampling(*model.motion).cumulative()) initial.push_back(sum);
  ConstantPool constants(std::move(initial));
  ExpressionCompiler observe(context, Phase::observe);
  const std::size_t before = mistakes.count();
  observe.compile_variables();
  if (mistakes.count() > before) mistakes.throw_any();  // any term may use them
  mistakes.gather(
      [&] { task.variable_means = check_updates(config, context, task.curricula, task.numbers); });
  compile_evaluation(config, model, context, constants, task);
  compile_model_events(config, model, context, constants, task);
  compile_resets(config, model, context, constants, task);
  mistakes.gather([&] { compile_acceptance(config, model, context, constants, task); });
  if (of_actions.count() == 0) mistakes.gather([&] { compile_act(config, model, context, constants, task); });
  task.held_controls = held_controls(model, task);
  compile_intervals(config, model, context, constants, task);
  compile_observing(config, model, observe, constants, task);
  // Definitions that nothing uses must be right, too; some can only be used in resets or rewards.
  const auto check_definitions = [&] {
    for (const auto& [name, source] : definitions)
      mistakes.gather([&, of = name, given = source] {
        const bool flags = mentions(context, of, {"terminated", "time_out"});
        if (!flags) ExpressionCompiler(context, Phase::observe).compile({of, given.where, given.key});
      });
    mistakes.throw_any();
  };
  if (mistakes.count() > 0) check_definitions();
  const int contact_steps =
      steps_with_contacts({&task.accept, &task.evaluate, &task.observe}, step.physics_steps);
  const auto needs = [&](Program& program, DerivedChoice read) {
    return read_derived(program, read, model, contact_steps, task);
  };
  const bool of_rewards = derived == DerivedChoice::stepped_rewards;
  const DerivedNeeds accepting = needs(task.accept, DerivedChoice::fresh);
  task.accept_needs = std::max(accepting.fresh, accepting.stepped);
  task.evaluate_needs = needs(task.evaluate, of_rewards ? DerivedChoice::as_stepped : derived).fresh;
  const DerivedNeeds observing = needs(task.observe, of_rewards ? DerivedChoice::fresh : derived);
  task.observe_needs = observing.fresh;
  task.stepped_needs = std::max(accepting.stepped, observing.stepped);
  task.constants = constants.values();
  task.num_memory = context.memory_size();
  task.num_kept = context.kept_size();
  task.num_contact_queries = static_cast<int>(context.contact_queries().size());
  for (std::size_t pair = 0; pair < model.geom_pairs.size(); ++pair)
    for (const std::vector<int>& sides : context.contact_queries()) task.contact_sides.push_back(sides[pair]);
  task.ray_queries = context.ray_queries();
  if (model.motion && model.motion->is_adaptive())
    task.first_motion_failure = context.address_of_variable(motion_failures(*model.motion));

  check_definitions();
  for (const auto& [name, variable] : variables)
    task.variables.push_back({name, context.address_of_variable(name),
                              static_cast<int>(context.size_of_variable(name)),
                              std::any_of(config.commands.begin(), config.commands.end(),
                                          [&](const TermConfig& term) { return term.name == name; })});
  variables.insert(context.missing_variables().begin(), context.missing_variables().end());
  return task;
}

}  // namespace

ControlStep control_step(const ImportedModel& model, double step_dt) {
  return {step_dt, std::max(1, static_cast<int>(std::lround(step_dt / model.timestep)))};
}

CompiledTask compile_task(const TaskConfig& given, const ImportedModel& imported, double step_dt,
                          DerivedChoice derived) {
  TaskModel model = task_model(imported, given);
  TaskConfig config = given;
  complete_commands(config);
  model.motion = load_motion(config, model, imported, step_dt);
  std::map<std::string, TaskVariable> variables = variables_of(config, model, step_dt);
  expand_terrain_levels(config, model, variables);
  const ControlStep step = control_step(imported, step_dt);
  try {
    while (true) {
      const std::size_t known = variables.size();
      CompiledTask task = compile_with(config, model, step, derived, variables);
      if (variables.size() == known) return task;
    }
  } catch (const ProgramTooLarge& error) {
    throw InputError(config.where, "task", error.what(), "fewer or shorter terms");
  }
}

CompiledTask compile_task(const Config& config, const ImportedModel& model) {
  CompiledTask task = compile_task(config.task, model, model.timestep * config.simulation.decimation,
                                   config.simulation.derived);
  check_learning_numbers(config, task.curricula, task.numbers);
  return task;
}

std::vector<FieldInfo> task_fields(const TaskSizes& sizes) {
  MANIPLE_TASK_SIZES(MANIPLE_LOCAL_TASK_SIZE)
  return list_fields({MANIPLE_TASK_FIELDS(MANIPLE_FIELD_INFO)});
}

std::vector<FieldInfo> place_fields(const TaskSizes& sizes) {
  std::vector<FieldInfo> fields = task_fields(sizes);
  std::erase_if(fields, [](const FieldInfo& field) {
    const std::string name = field.name;
    return field.size == 0 || !(name.starts_with("terrain_") || name == "motion_frame");
  });
  return fields;
}

std::vector<FieldInfo> task_counters() {
#define MANIPLE_COUNTER(name, unit, description) MANIPLE_FIELD_INFO(name, 1, unit, description)
  return list_fields({MANIPLE_TASK_COUNTERS(MANIPLE_COUNTER)});
#undef MANIPLE_COUNTER
}

}  // namespace maniple
