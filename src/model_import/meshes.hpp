// The meshes of geoms that may touch, of which only the hulls for contacts are kept, the triangles of those
// that rangefinders see, and the height fields. Part of the import of a model.
#pragma once

#include <mujoco/mujoco.h>

#include "src/model_import/import.hpp"

namespace maniple {

// Sets the sizes of MANIPLE_MESH_SIZES and the arrays of MANIPLE_MESH_FIELDS.
void import_meshes(const mjModel& m, ModelNumbers& numbers, ModelSizes& sizes);

// Corners of the face of a mesh's hull that has most.
int most_face_corners(const mjModel& m, int mesh);

}  // namespace maniple
