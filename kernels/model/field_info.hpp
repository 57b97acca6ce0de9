// The field tables as data, for host code that works by name: trajectory output, checkpoints, tasks and
// parity tests. Host only.
#pragma once

#include <vector>

#include "kernels/model/data.hpp"

namespace maniple {

// One field of State or Data: `size` elements per environment from element `first` on.
struct FieldInfo {
  const char* name;
  const char* unit;
  const char* description;
  int first;
  int size;
};

#define MANIPLE_SIZE(name, meaning) [[maybe_unused]] const int name = sizes.name;

// The state's fields in the order of the tiles.
inline std::vector<FieldInfo> state_fields(const ModelSizes& sizes) {
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
  std::vector<FieldInfo> fields;
  int first = 0;
#define MANIPLE_FIELD(name, size, unit, description)         \
  fields.push_back({#name, unit, description, first, size}); \
  first += size;
  MANIPLE_STATE_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return fields;
}

// The public fields of the scratch, in order; integrator scratch is not listed.
inline std::vector<FieldInfo> data_fields(const ModelSizes& sizes) {
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
  std::vector<FieldInfo> fields;
  int first = 0;
#define MANIPLE_FIELD(name, size, unit, description)         \
  fields.push_back({#name, unit, description, first, size}); \
  first += size;
  MANIPLE_DATA_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return fields;
}

#undef MANIPLE_SIZE

}  // namespace maniple
