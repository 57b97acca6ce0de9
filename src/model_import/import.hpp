// A robot model, compiled by libmujoco and checked: everything that the kernels need is there, and the model
// needs nothing that the kernels lack. The result does not depend on libmujoco.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/model/model.hpp"
#include "src/config/config.hpp"

namespace maniple {

struct Terrain;  // src/model_import/terrain.hpp

// The numbers of Model in host memory: options and arrays of kernels/model/model_fields.hpp by name.
struct ModelNumbers {
#define MANIPLE_INTEGER(name, meaning) int name = 0;
#define MANIPLE_REAL(name, meaning) double name = 0;
#define MANIPLE_VECTOR(name, length, meaning) std::array<double, length> name{};
  MANIPLE_MODEL_OPTIONS(MANIPLE_INTEGER, MANIPLE_REAL, MANIPLE_VECTOR)
  MANIPLE_MODEL_DERIVED_OPTIONS(MANIPLE_INTEGER, MANIPLE_REAL)
#undef MANIPLE_INTEGER
#undef MANIPLE_REAL
#undef MANIPLE_VECTOR
#define MANIPLE_INTEGER(name, extent, meaning) std::vector<int> name;
#define MANIPLE_REAL(name, extent, meaning) std::vector<double> name;
  MANIPLE_MODEL_FIELDS(MANIPLE_INTEGER, MANIPLE_REAL)
  MANIPLE_MESH_FIELDS(MANIPLE_INTEGER, MANIPLE_REAL)
  MANIPLE_MODEL_DERIVED_FIELDS(MANIPLE_INTEGER, MANIPLE_REAL)
#undef MANIPLE_INTEGER
#undef MANIPLE_REAL
};

// A compiled model with what host code needs beyond the kernels' numbers. Shapes are row-major.
struct ImportedModel : ModelNumbers {
  ModelSizes sizes;

  // One name per element, "" for those without.
  std::vector<std::string> body_names, joint_names, geom_names, actuator_names, sensor_names, site_names,
      key_names, tendon_names, pair_names, equality_names;

  // What the environments begin with of what they have of the model for themselves: State::model_values.
  std::vector<double> model_values;

  int nkey = 0;
  std::vector<double> key_time;   // [nkey], s
  std::vector<double> key_qpos;   // [nkey][nq]
  std::vector<double> key_qvel;   // [nkey][nv]
  std::vector<double> key_act;    // [nkey][na]
  std::vector<double> key_ctrl;   // [nkey][nu]
  std::vector<double> key_mpos;   // [nkey][3 nmocap]
  std::vector<double> key_mquat;  // [nkey][4 nmocap]

  std::shared_ptr<const Terrain> terrain;  // the deck's, which is a height field of the model; empty: none

  std::string name;  // of the model, as its author wrote it
  std::string xml;   // source text with included files in place; "" for MJB
  // The model as an MJB file, with meshes; only where results are written.
  std::shared_ptr<const std::vector<std::uint8_t>> mjb;
  std::string digest;  // 16 hex digits over all numbers above but the keyframes
  // Of one line each: libmujoco's, from compiling the model; tendons that do not act as one expects; and
  // where results differ from MuJoCo's.
  std::vector<std::string> warnings;
};

// Compiles config.path (MJCF, URDF or MJB) and applies the time step, integrator and solver of `simulation`
// and the features that `config` switches off. Throws InputError: for a file that libmujoco refuses, with its
// message and file:line; for a model that needs what the kernels lack, with every such element's kind,
// name and file:line.
ImportedModel import_model(const ModelConfig& config, const SimulationConfig& simulation);

// The number of the keyframe that a deck's key names or counts. InputError with where and key for none.
std::size_t keyframe_of(const ImportedModel& model, const std::string& keyframe, const SourceLocation& where,
                        const std::string& key);

// Computes the numbers that follow from mjModel's, and their sizes; again where what may vary has changed.
// `where`: of the model, for the message where it is too large.
void derive_numbers(ImportedModel& imported, const SourceLocation& where);

// "Euler", "RK4", "implicit" or "implicitfast".
std::string integrator_name(int integrator);
// "plane", "height field", "capsule" and so on, whether or not the kernels have it.
std::string shape_name(int geom_type);

// The model as kernels see it, over the host memory of `imported`, which must outlive it.
Model<double> host_model(const ImportedModel& imported);

}  // namespace maniple
