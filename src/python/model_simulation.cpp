#include "src/python/model_simulation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/model_import/vary.hpp"
#include "src/python/batch_parts.hpp"
#include "src/python/kokkos.hpp"
#include "src/python/saved_environments.hpp"
#include "src/simulation/environment_blocks.hpp"
#include "src/simulation/recorded_fields.hpp"
#include "src/tasks/compile/prepared.hpp"
#include "src/tasks/terms/applied_forces.hpp"

namespace maniple {
namespace {

std::vector<std::pair<std::string, int>> state_sizes(const ModelSizes& sizes) {
  return {{"time", 1},
          {"time_residual", 1},
          {"qpos", sizes.nq},
          {"qvel", sizes.nv},
          {"act", sizes.na},
          {"ctrl", sizes.nu},
          {"qfrc_applied", sizes.nqfrc},
          {"xfrc_applied", 6 * sizes.nxfrc},
          {"mocap_pos", 3 * sizes.nmocap},
          {"mocap_quat", 4 * sizes.nmocap},
          {"eq_active", sizes.neq},
          {"ctrl_history", sizes.nhistory},
          {"sensordata_history", sizes.nsensorhistory},
          {"qacc_warmstart", sizes.nv},
          {"model_values", sizes.nmodelvalue}};
}

// Which environments' rollouts have ended, as in mujoco.rollout: by a step that found a bad state or control,
// whose outcome is repeated from then on.
class EndedRollouts {
 public:
  EndedRollouts(const Simulation& simulation, std::int64_t envs)
      : simulation_(simulation), ended_(static_cast<std::size_t>(envs)), last_(ended_.size(), -1) {
    for (const EnvironmentStep& bad : bad_environments()) last_[place(bad.env)] = bad.control_step;
    bad_states_ = simulation.bad_states();
  }
  bool operator[](std::int64_t env) const { return ended_[static_cast<std::size_t>(env)]; }

  // After a step with these controls [env, nu].
  void update(const std::vector<double>& controls, int nu) {
    for (std::size_t i = 0; i < controls.size(); ++i)
      if (!(std::abs(controls[i]) <= kLargestValue)) ended_[i / static_cast<std::size_t>(nu)] = true;
    if (simulation_.bad_states() == bad_states_) return;
    bad_states_ = simulation_.bad_states();
    for (const EnvironmentStep& bad : bad_environments())
      if (bad.control_step != last_[place(bad.env)]) ended_[place(bad.env)] = true;
  }

 private:
  std::vector<EnvironmentStep> bad_environments() const {
    return simulation_.bad_environments(ended_.size());
  }
  std::size_t place(std::int64_t env) const {
    return static_cast<std::size_t>(env - simulation_.partition().first_env());
  }

  const Simulation& simulation_;
  std::vector<bool> ended_;
  std::vector<std::int64_t> last_;  // control step of the last bad state
  std::int64_t bad_states_ = 0;
};

// Gives environments model fields of their own beside those that a task's events set.
void vary(ImportedModel& model, const Config& config, const std::vector<std::string>& names) {
  std::vector<std::string> known, wanted;
  for (const VaryingField& field : varying_fields(model)) {
    known.push_back(field.name);
    const bool asked = std::find(names.begin(), names.end(), field.name) != names.end();
    if (asked && model.sizes.varied.*(field.offset) < 0) wanted.push_back(field.name);
  }
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw InputError(fmt::format("model_fields: found '{}'; allowed: {}", name, fmt::join(known, ", ")));
  for (const std::string& name : wanted)
    if (const std::string one = actuator_that_keeps(model, name); !one.empty())
      throw InputError(
          fmt::format("model_fields: found {} of a model with the {}; allowed: other fields", name, one));
  if (wanted.empty()) return;
  if (model.sizes.nmodelvalue > 0)
    throw InputError(
        fmt::format("model_fields: found {} beside those that the task's events set; allowed: "
                    "those alone, or a deck without such events",
                    fmt::join(wanted, ", ")));
  vary_model(model, wanted, config.model.where);
}

}  // namespace

ModelSimulation::ModelSimulation(const Config& config, const std::vector<std::string>& fields,
                                 const std::vector<std::string>& model_fields, int threads)
    : config_(config) {
  start_kokkos_once();
  config_.output.dataset = DatasetLayout::none;
  prepared_.model = import_model_of(config_);
  prepared_.model.mjb.reset();
  vary(prepared_.model, config_, model_fields);
  make_room_for_forces(prepared_.model.sizes);
  if (config_.task.present) prepared_.task = compile_task(config_, model());
  // what a user reads is read as files would be
  config_.output.trajectory_every = 1;
  config_.output.trajectory_fields = fields;
  for (const auto& [name, size] : state_sizes(model().sizes))
    if (size > 0 && std::find(fields.begin(), fields.end(), name) == fields.end())
      config_.output.trajectory_fields.push_back(name);
  check_trajectory_fields(config_, model());
  const Partition partition = environments_of(config_, config_.batch.num_envs, 0, 1);
  refuse_what_does_not_fit(config, config_, prepared_, partition);
  const int count = parts_of(partition, threads);
  parts_.resize(static_cast<std::size_t>(count));
  workers_ = std::make_unique<Workers>(count);
  workers_->run([&](int index) {
    Part& part = parts_[static_cast<std::size_t>(index)];
    part.simulation = make_simulation(config_, prepared_, index, count);
    part.first = part.simulation->partition().first_env();
    part.envs = part.simulation->partition().envs();
    part.simulation->initialize(config_.initial_state);
    part.simulation->forward();
  });
  const Simulation& first = *parts_.front().simulation;
  for (const auto& [name, size] : state_sizes(model().sizes)) {
    Field field{.name = name, .size = size, .is_state = true};
    if (size > 0) {
      const TrajectoryField info = first.trajectory_field(name);
      field.unit = info.unit, field.description = info.description;
    }
    fields_.push_back(field);
  }
  for (const std::string& name : fields)
    if (std::none_of(fields_.begin(), fields_.end(),
                     [&](const Field& field) { return field.name == name; })) {
      const TrajectoryField info = first.trajectory_field(name);
      fields_.push_back({.name = name,
                         .unit = info.unit,
                         .description = info.description,
                         .size = static_cast<int>(info.size)});
    }
  for (const EnvironmentField& field : environment_fields(model()))
    model_fields_.push_back({.name = field.name,
                             .unit = field.unit,
                             .description = field.description,
                             .size = field.size,
                             .first = field.first,
                             .may_be_set = stands_alone(model(), field.name)});
}

std::int64_t ModelSimulation::dropped_contacts() const {
  std::int64_t count = 0;
  for (const Part& part : parts_) count += part.simulation->dropped_contacts();
  return count;
}

std::int64_t ModelSimulation::bad_states() const {
  std::int64_t count = 0;
  for (const Part& part : parts_) count += part.simulation->bad_states();
  return count;
}

void ModelSimulation::reset(const bool* mask) {
  const std::lock_guard lock(in_use_);
  workers_->run([&](int index) {
    const Part& part = parts_[static_cast<std::size_t>(index)];
    std::vector<std::int64_t> others;
    for (std::int64_t env = 0; env < part.envs; ++env)
      if (mask != nullptr && !mask[part.first + env]) others.push_back(env);
    SavedEnvironments saved(*part.simulation, std::move(others));
    part.simulation->initialize(config_.initial_state);
    saved.restore();
    part.simulation->forward();
  });
}

template <class T>
void ModelSimulation::get(const Field& field, T* rows) {
  const std::lock_guard lock(in_use_);
  if (field.size == 0) return;
  workers_->run([&](int index) {
    const Part& part = parts_[static_cast<std::size_t>(index)];
    std::vector<std::byte> packed;
    part.simulation->read_field(field.name, packed);
    std::memcpy(rows + part.first * field.size, packed.data(), packed.size());
  });
}

template <class T>
void ModelSimulation::set(const Field& field, const T* rows, const bool* mask) {
  const std::lock_guard lock(in_use_);
  workers_->run([&](int index) {
    const Part& part = parts_[static_cast<std::size_t>(index)];
    Archive archive;
    part.simulation->describe(archive);
    for (const ArchiveEntry& entry : archive.entries()) {
      const bool clears = field.name == "time" && entry.name == "state/time_residual";
      if (!clears && entry.name != "state/" + field.name) continue;
      auto* const tiles = static_cast<T*>(entry.data);
      for (std::int64_t env = 0; env < part.envs; ++env) {
        if (mask != nullptr && !mask[part.first + env]) continue;
        const auto tile = static_cast<std::size_t>(env / kTileWidth);
        T* const lane = tiles + (tile * entry.tile_elements + entry.first) * kTileWidth + env % kTileWidth;
        const T* const row = rows + (part.first + env) * field.size;
        for (int i = 0; i < field.size; ++i) lane[i * kTileWidth] = clears ? T(0) : row[i];
      }
    }
    part.simulation->restored();
  });
}

void ModelSimulation::forward(bool inverse) {
  const std::lock_guard lock(in_use_);
  workers_->run([&](int index) { parts_[static_cast<std::size_t>(index)].simulation->forward(inverse); });
}

void ModelSimulation::step(std::int64_t steps) {
  const std::lock_guard lock(in_use_);
  workers_->run([&](int index) {
    for (std::int64_t step = 0; step < steps; ++step)
      parts_[static_cast<std::size_t>(index)].simulation->step_physics();
  });
}

void ModelSimulation::rollout(const double* control, std::int64_t steps, double* state, double* sensordata) {
  const std::lock_guard lock(in_use_);
  const int nu = model().sizes.nu;
  std::vector<Field> of_state;
  for (const Field& field : fields_)
    for (const char* const name : {"time", "qpos", "qvel", "act"})
      if (field.name == name && field.size > 0) of_state.push_back(field);
  int width = 0;
  for (const Field& field : of_state) width += field.size;
  const auto sensors = std::find_if(fields_.begin(), fields_.end(),
                                    [](const Field& field) { return field.name == "sensordata"; });
  workers_->run([&](int index) {
    const Part& part = parts_[static_cast<std::size_t>(index)];
    std::vector<double> controls(static_cast<std::size_t>(part.envs * nu), 0.0);
    std::vector<std::byte> packed;
    EndedRollouts ended(*part.simulation, part.envs);
    // a field of all environments to its place in the rows of a step
    const auto read = [&](const Field& field, std::int64_t step, double* rows, int row, int first) {
      part.simulation->read_field(field.name, packed);
      const std::size_t bytes = static_cast<std::size_t>(field.size) * sizeof(double);
      for (std::int64_t env = 0; env < part.envs; ++env) {
        double* const to = rows + ((part.first + env) * steps + step) * row + first;
        if (ended[env])
          std::memcpy(to, to - row, bytes);
        else
          std::memcpy(to, packed.data() + static_cast<std::size_t>(env) * bytes, bytes);
      }
    };
    for (std::int64_t step = 0; step < steps; ++step) {
      for (std::int64_t env = 0; env < part.envs && control != nullptr; ++env)
        std::copy_n(control + ((part.first + env) * steps + step) * nu, nu, controls.data() + env * nu);
      if (nu > 0 && part.envs > 0) part.simulation->set_control(controls);
      part.simulation->step_physics();
      int first = 0;
      for (const Field& field : of_state) {
        read(field, step, state, width, first);
        first += field.size;
      }
      if (sensors != fields_.end() && sensordata != nullptr)
        read(*sensors, step, sensordata, sensors->size, 0);
      ended.update(controls, nu);
    }
  });
}

template void ModelSimulation::get(const Field&, float*);
template void ModelSimulation::get(const Field&, double*);
template void ModelSimulation::set(const Field&, const float*, const bool*);
template void ModelSimulation::set(const Field&, const double*, const bool*);

}  // namespace maniple
