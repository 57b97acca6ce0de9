// The compiled mjModel before it is turned into an ImportedModel. Separate from import.hpp because it
// shows libmujoco's types; parity tests step this very model with libmujoco.
#pragma once

#include <mujoco/mujoco.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/model_import/model_source.hpp"
#include "src/model_import/terrain.hpp"

namespace maniple {

struct MujocoModel {
  std::unique_ptr<mjModel, void (*)(mjModel*)> model{nullptr, mj_deleteModel};
  std::unique_ptr<mjSpec, void (*)(mjSpec*)> spec{nullptr, mj_deleteSpec};  // empty for MJB
  ModelSource source;
  std::shared_ptr<const Terrain> terrain;  // that was laid into it; empty: none
  std::vector<std::string> warnings;
  std::vector<std::uint8_t> mjb;  // the model as an MJB file, with tendons that are switched off at rest
};

// Reads and compiles the file, with the deck's terrain in place of a plane; applies overrides and
// switched-off features to the mjModel.
MujocoModel load_mujoco_model(const ModelConfig& config, const SimulationConfig& simulation);

// The most contacts that the model has in its reference pose and in its first keyframes.
int contacts_at_start(const mjModel& model);

// Throws InputError that lists every element which the kernels do not support.
void check_supported(MujocoModel& loaded, const ModelConfig& config);

}  // namespace maniple
