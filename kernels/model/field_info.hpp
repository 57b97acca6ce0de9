// The field tables as data, for host code that works by name: trajectory output, checkpoints, tasks and
// parity tests. Host only.
#pragma once

#include <vector>

#include "kernels/model/data.hpp"

namespace maniple {

// What the elements of a field are of, in the order of the model: each body, say, has a row of them.
enum class FieldElement {
  none,
  qpos,
  dof,
  joint,
  body,
  geom,
  pair,
  site,
  tendon,
  equality,
  mocap,
  actuator,
  control,
  activation,
  sensor
};

// What fills a field: forward_kinematics (physics/step.hpp), forward alone, or either, sensor by sensor.
enum class FieldStage { kinematics, forward, sensor };

// One field of State or Data: `size` elements per environment from element `first` on.
struct FieldInfo {
  const char* name;
  const char* unit;
  const char* description;
  int first;
  int size;
  FieldElement element = FieldElement::none;
  FieldStage stage = FieldStage::forward;
};

// The rows of a table in the order of its elements: each begins where the one before ends.
inline std::vector<FieldInfo> list_fields(std::vector<FieldInfo> fields) {
  int first = 0;
  for (FieldInfo& field : fields) {
    field.first = first;
    first += field.size;
  }
  return fields;
}
// A row in the list that this takes.
#define MANIPLE_FIELD_INFO(name, size, unit, description) {#name, unit, description, 0, size},

#define MANIPLE_SIZE(name, meaning) [[maybe_unused]] const int name = sizes.name;

#define MANIPLE_STATE_INFO(name, size, element, unit, description) \
  {#name, unit, description, 0, size, FieldElement::element},
#define MANIPLE_DATA_INFO(name, size, width, element, stage, unit, description) \
  {#name, unit, description, 0, size, FieldElement::element, FieldStage::stage},

// The state's fields in the order of the tiles.
inline std::vector<FieldInfo> state_fields(const ModelSizes& sizes) {
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
  return list_fields({MANIPLE_STATE_FIELDS(MANIPLE_STATE_INFO)});
}

// The public fields of the scratch, in order; integrator scratch is not listed.
inline std::vector<FieldInfo> data_fields(const ModelSizes& sizes) {
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
  return list_fields({MANIPLE_DATA_FIELDS(MANIPLE_DATA_INFO)});
}

#undef MANIPLE_STATE_INFO
#undef MANIPLE_DATA_INFO
#undef MANIPLE_SIZE

}  // namespace maniple
