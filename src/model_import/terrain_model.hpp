// Insertion of a terrain into a model: as a height field in place of the plane, or of the height field, that
// robots stand on.
#pragma once

#include <mujoco/mujoco.h>

#include "src/config/config.hpp"
#include "src/model_import/mujoco_model.hpp"
#include "src/model_import/terrain.hpp"

namespace maniple {

// Makes a height field of the terrain's plane in a spec that is not compiled yet, or gives its height field
// these heights; all else of the geom stays. Returns the name of the geom, which it gets if it has none.
// InputError: no such geom, or several.
std::string lay_terrain(mjSpec* spec, const TerrainConfig& config, const Terrain& terrain);

// Moves the origins of the cells to where the compiled model has the geom. InputError: it is turned.
void move_to_geom(Terrain& terrain, const mjModel& model, const std::string& geom,
                  const TerrainConfig& config);

}  // namespace maniple
