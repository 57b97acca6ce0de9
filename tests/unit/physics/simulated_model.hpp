// A few environments of one model, stepped directly through the kernels: the fixture of the physics tests.
#pragma once

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "kernels/math/spatial.hpp"
#include "kernels/model/field_info.hpp"
#include "kernels/physics/step.hpp"
#include "src/model_import/import.hpp"
#include "src/tasks/compile/device_model.hpp"

namespace maniple {

// The model of an MJCF file, with integrator, time step and capacity for contacts replaced where given.
inline ImportedModel model_of_file(const std::string& path, const std::string& integrator = "",
                                   double timestep = 0, int max_contacts = 0) {
  ModelConfig config;
  config.file = config.path = path;
  SimulationConfig simulation;
  simulation.integrator = choice_of<IntegratorChoice>(integrator).value();
  simulation.timestep = timestep;
  simulation.max_contacts = max_contacts;
  return import_model(config, simulation);
}

// The path of a model of inputs/verify.
inline std::string verify_model(const std::string& name) {
  return std::string(MANIPLE_SOURCE_DIR) + "/inputs/verify/" + name + ".xml";
}

// The same for MJCF text.
inline ImportedModel model_of_text(const std::string& text, const std::string& integrator = "",
                                   double timestep = 0, int max_contacts = 0) {
  static int count = 0;
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("maniple_physics_" + std::to_string(::getpid()) + "_" + std::to_string(count++) + ".xml");
  std::ofstream(path) << text;
  const ImportedModel model = model_of_file(path.string(), integrator, timestep, max_contacts);
  std::filesystem::remove(path);
  return model;
}

// One tile (32 environments) of which the first lane_width<V> are used, with scratch full of NaN.
template <class V>
class SimulatedModel {
 public:
  using T = ScalarOf<V>;

  explicit SimulatedModel(const ImportedModel& imported)
      : device_(imported),
        tile_(static_cast<std::size_t>(state_elements(imported.sizes)) * kTileWidth / lane_width<V>, V(0)),
        scratch_(data_elements(imported.sizes), V(std::numeric_limits<T>::quiet_NaN())) {
    state = state_of_tile<V>(model(), reinterpret_cast<T*>(tile_.data()), 0);
    data = data_of_scratch<V>(model(), scratch_.data(), 1);
    reset_to_default<V>(model(), state, MaskOf<V>(true));
  }
  const Model<T>& model() const { return device_.model(); }
  MaskOf<V> step(bool all_fields = false) {
    return maniple::step<V>(model(), state, data, {.all_fields = all_fields, .contacts_known = false});
  }
  void forward() { maniple::forward<V>(model(), state, data); }

  // Every lane gets the same values.
  void set(const StateField<V>& field, const std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) field[static_cast<int>(i)] = V(static_cast<T>(values[i]));
  }
  // All state elements of one lane, in table order.
  std::vector<T> lane(int lane) const {
    std::vector<T> values;
    const int count = state_elements(model());
    for (int i = 0; i < count; ++i) values.push_back(get_lane(tile_[i * (kTileWidth / lane_width<V>)], lane));
    return values;
  }
  void set_lane_state(int lane, const std::vector<T>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      set_lane(tile_[i * (kTileWidth / lane_width<V>)], lane, values[i]);
  }

  State<V> state;
  Data<V> data;

 private:
  DeviceModel<T, Kokkos::HostSpace> device_;
  std::vector<V> tile_, scratch_;
};

// M of the current data, dense and symmetric.
inline std::vector<double> dense_inertia(const Model<double>& m, const DataField<double>& packed) {
  std::vector<double> dense(static_cast<std::size_t>(m.nv) * m.nv, 0.0);
  for (int i = 0; i < m.nv; ++i) {
    int address = m.dof_Madr[i];
    for (int j = i; j >= 0; j = m.dof_parentid[j], ++address)
      dense[i * m.nv + j] = dense[j * m.nv + i] = packed[address];
  }
  return dense;
}

// Kinetic energy plus gravitational potential [J] of the last forward pass.
inline double mechanical_energy(const SimulatedModel<double>& s) {
  const Model<double>& m = s.model();
  const std::vector<double> inertia = dense_inertia(m, s.data.qM);
  double energy = 0;
  for (int i = 0; i < m.nv; ++i)
    for (int j = 0; j < m.nv; ++j) energy += 0.5 * s.state.qvel[i] * inertia[i * m.nv + j] * s.state.qvel[j];
  for (int i = 1; i < m.nbody; ++i)
    for (int k = 0; k < 3; ++k) energy -= m.body_mass[i] * m.gravity[k] * s.data.xipos[3 * i + k];
  return energy;
}

}  // namespace maniple
