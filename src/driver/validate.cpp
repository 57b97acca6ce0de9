// maniple validate: all checks of a run before it allocates, and the memory that it would need.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kernels/model/data.hpp"
#include "src/base/counted.hpp"
#include "src/base/mistakes.hpp"
#include "src/config/presets.hpp"
#include "src/config/schema.hpp"
#include "src/driver/refusals.hpp"
#include "src/driver/setup.hpp"
#include "src/driver/verbs.hpp"
#include "src/io/dataset.hpp"
#include "src/model_import/derive_contacts.hpp"
#include "src/model_import/terrain.hpp"
#include "src/simulation/environment_blocks.hpp"
#include "src/simulation/initial_state.hpp"
#include "src/simulation/recorded_fields.hpp"
#include "src/simulation/simulation.hpp"
#include "src/tasks/compile/prepared.hpp"
#include "src/tasks/compile/task.hpp"
#include "src/tasks/compile/task_table.hpp"

namespace maniple {

namespace {

// Working memory [B] that the contacts of an environment take.
std::size_t contact_bytes(const ImportedModel& model, const ModelSizes& sizes, const Config& config) {
  ModelSizes without = sizes;
  without.ncontact = without.nbodypair = without.nbodypaircontact = 0;
  without.nrowcontact = std::min(without.nrowcontact, 0);
  size_solvers(host_model(model), without);
  const std::size_t real = config.simulation.precision == Precision::fp64 ? sizeof(double) : sizeof(float);
  return static_cast<std::size_t>(data_elements(sizes) - data_elements(without)) * real;
}

// Which solver finds the forces of the rows, and how far it goes; "" if there are none.
std::string solver_text(const ImportedModel& model) {
  if (model.sizes.nrowdof == 0) return "";
  if (model.solver == solver_pgs) return fmt::format(", solver PGS, at most {} sweeps", model.iterations);
  if (model.sizes.nsolvertree == 0) return ", solver Newton";
  return fmt::format(", solver {} as MuJoCo's, at most {} iterations and {} evaluations of a line search",
                     model.solver == solver_cg ? "CG" : "Newton", model.iterations, model.ls_iterations);
}

// Geom pairs by the shapes of their geoms, the capacity with the memory that it takes, and whether there
// could be more.
std::string contact_text(const ImportedModel& model, const Config& config) {
  const ModelSizes& sizes = model.sizes;
  if (sizes.ngeompair == 0) return "none are possible";
  std::map<std::pair<int, int>, int> counts;
  for (std::size_t c = 0; c < model.geompair_geom1.size(); ++c)
    ++counts[{model.geom_type[static_cast<std::size_t>(model.geompair_geom1[c])],
              model.geom_type[static_cast<std::size_t>(model.geompair_geom2[c])]}];
  std::vector<std::string> parts;
  for (const auto& [types, count] : counts)
    parts.push_back(fmt::format("{} {}-{}", count, shape_name(types.first), shape_name(types.second)));
  const std::size_t bytes = contact_bytes(model, sizes, config);
  std::string text = fmt::format(
      "{} pairs of geoms ({})\n  contact capacity {} of an environment, with at most {} rows and {} B of "
      "working memory (simulation.max_contacts)",
      sizes.ngeompair, fmt::join(parts, ", "), sizes.ncontact, 4 * sizes.ncontact, bytes);
  const Model<double> view = host_model(model);
  const int most = most_contacts(view);
  if (most <= sizes.ncontact) return text;
  ModelSizes covering = sizes;
  covering.ncontact = most;
  count_rows(view, covering);
  return text + fmt::format(
                    "\n  at most {} contacts are possible; simulation.max_contacts={} never drops one and "
                    "takes {} B more per environment",
                    most, most, contact_bytes(model, covering, config) - bytes);
}

// As the runs of the verbs say it at their start.
std::string memory_lines(const Config& config, const Prepared& prepared, const Session& session) {
  const auto text = [&](Holds holds) { return memory_text(rank_memory(config, prepared, session, holds)); };
  std::string lines = "\n  memory: " + text(Holds::environments);
  if (config.task.present) lines += " (rollout)\n  memory: " + text(Holds::evaluation) + " (evaluate)";
  // (imitate has a line with its data)
  if (config.task.present && !config.learning.imitates())
    lines += "\n  memory: " + text(Holds::learner) + " (train)";
  return lines;
}

// The settings of learning, with the preset that they come from.
std::string learning_text(Config config) {
  std::string text = fmt::format("learning\n  preset {}:", config.learning.preset);
  const auto preset = std::find_if(presets().begin(), presets().end(),
                                   [&](const Preset& row) { return row.name == config.learning.preset; });
  text += fmt::format(" {}\n ", preset->source);
  std::size_t width = 0;
  for (const Key& key : schema()) {
    if (key.path.rfind("policy.", 0) != 0 && key.path.rfind("learning.", 0) != 0) continue;
    if (key.is(kOfImitation) && !config.learning.imitates()) continue;
    const std::string entry = fmt::format(" {}={}", key.path, yaml_text(key.target(config)));
    width += entry.size();
    if (width > 110) {
      text += "\n ";
      width = entry.size();
    }
    text += entry;
  }
  text += "\n";
  for (const std::string& note : config.notes) text += "  " + note + "\n";
  return text;
}

// The kinds of ground of a terrain, how many of its cells each has and how high robots stand there.
std::string terrain_text(const Terrain& terrain, const ImportedModel& model) {
  std::string text = fmt::format("  terrain: {} x {} cells of {} x {} m, {} points\n", terrain.num_rows,
                                 terrain.num_cols, terrain.size[0], terrain.size[1], model.sizes.nhfielddata);
  for (int type = 0; type < std::ssize(terrain.types); ++type) {
    int cells = 0;
    double low = 0, high = 0;
    for (const TerrainCell& cell : terrain.cells) {
      if (cell.type != type) continue;
      low = cells == 0 ? cell.origin[2] : std::min(low, cell.origin[2]);
      high = cells == 0 ? cell.origin[2] : std::max(high, cell.origin[2]);
      ++cells;
    }
    text += fmt::format("    {:<32}{}, origins at {:.3g} to {:.3g} m\n",
                        terrain.types[static_cast<std::size_t>(type)], counted(cells, "cell"), low, high);
  }
  return text;
}

// Model, batch and task of a deck with a model.
std::string model_text(const Config& config, Session& session, Prepared& prepared) {
  require_environments_for_ranks(config, session);
  const ImportedModel& model = prepared.model;
  const CompiledTask& task = prepared.task;
  prepared.model = import_model_of(config);
  const Partition partition = environments_of(config, config.batch.num_envs, session.rank(), session.size());
  Mistakes mistakes;
  mistakes.gather([&] { check_trajectory_fields(config, model); });
  mistakes.gather([&] {
    if (config.initial_state.source == StartState::keyframe ||
        config.control.source == ControlInput::keyframe)
      keyframe_of(model, config.initial_state.keyframe, config.initial_state.where, "initial_state.keyframe");
  });
  const bool has_files = mistakes.gather([&] { check_input_files(config, session); });
  if (has_files && config.initial_state.source == StartState::file)
    mistakes.gather([&] { read_initial_state(config.initial_state, model, partition); });
  const bool has_task = mistakes.gather([&] {
    if (config.task.present) prepared.task = compile_task(config, model);
  });
  if (has_files && has_task && config.control.source == ControlInput::file)
    mistakes.gather([&] {
      (config.task.present ? read_action_rows : read_control_rows)(
          config.control.file, config.control.where, config.task.present ? task.num_actions : model.sizes.nu,
          config.simulation.steps, partition);
    });
  mistakes.throw_any();
  std::string text = fmt::format(
      "model {}\n  bodies {}, joints {}, nq {}, nv {}, nu {}, na {}, sensors {} ({} values), sites {}\n"
      "  constraint rows: {} of dry friction, at most {} of joint limits\n"
      "  contacts: {}\n"
      "  time step {} s, integrator {}{}\n{}batch\n  environments {} on {}{}\n",
      config.model.file, model.sizes.nbody, model.sizes.njnt, model.sizes.nq, model.sizes.nv, model.sizes.nu,
      model.sizes.na, model.sizes.nsensor, model.sizes.nsensordata, model.sizes.nsite, model.sizes.nfriction,
      model.sizes.nlimit, contact_text(model, config), model.timestep, integrator_name(model.integrator),
      solver_text(model), model.terrain ? terrain_text(*model.terrain, model) : "", config.batch.num_envs,
      counted(session.size(), "rank"), memory_lines(config, prepared, session));
  if (config.task.present) text += task_table(config.task, task);
  std::vector<std::string> warnings = model.warnings;
  for (const std::string& warning :
       {echoed_actions_text(config), idle_ranks_text(partition, session.size(), "environments")})
    if (!warning.empty()) warnings.push_back(warning);
  for (const std::string& warning : warnings) text += "warning: " + warning + "\n";
  return text;
}

}  // namespace

ExitCode validate(const Config& config, Session& session) {
  const bool has_data = !config.data.file.empty(), has_model = !config.model.file.empty();
  if (!has_data || config.task.present) require_model(config);
  Prepared prepared;
  std::string text;
  if (has_model) text += model_text(config, session, prepared);
  if (has_data) text += validate_demonstrations(config, config.task.present ? &prepared : nullptr, session);
  if (config.task.present || has_data) text += learning_text(config);
  text += "all good\n";
  if (session.rank() == 0) fmt::print("{}", text);
  return ExitCode::done;
}

}  // namespace maniple
