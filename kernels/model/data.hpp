// State (what persists, in tiles) and Data (results of one step, in scratch) of the environments of one
// pack, as named arrays of lane values. Both are generated from the field tables and hold pointers only.
#pragma once

#include "kernels/base/varying.hpp"
#include "kernels/model/field_tables.hpp"
#include "kernels/model/model.hpp"

// Constraint rows and the solver's vectors; they follow the public fields in scratch.
//      name            size            meaning
#define MANIPLE_CONSTRAINT_FIELDS(FIELD)                                                  \
  FIELD(limit_D, nlimit, "kg or kg m^2", "stiffness of the row; 0: not active")           \
  FIELD(limit_aref, nlimit, "m/s^2 or rad/s^2", "reference acceleration of the row")      \
  FIELD(limit_axis, 3 * nlimitball, "1", "rotation axis of a ball joint that is limited") \
  FIELD(limit_jar, nlimit, "m/s^2 or rad/s^2", "acceleration beyond the reference")       \
  FIELD(limit_search, nlimit, "m/s^2 or rad/s^2", "its change along the search")          \
  FIELD(Ma, nrowdof, "N", "M times the solver's acceleration")                            \
  FIELD(search, nrowdof, "m/s^2 or rad/s^2", "search direction")                          \
  FIELD(Msearch, nrowdof, "N", "M times the search direction")

// Intermediate results that only the integrators need.
//      name            size            meaning
#define MANIPLE_INTEGRATOR_FIELDS(FIELD)                                        \
  FIELD(qpos_start, nq, "m or rad", "position at the start of an RK4 step")     \
  FIELD(qvel_start, nv, "m/s or rad/s", "velocity at the start of an RK4 step") \
  FIELD(act_start, na, "1", "activation at the start of an RK4 step")           \
  FIELD(qvel_sum, nv, "m/s or rad/s", "weighted sum of RK4 velocities")         \
  FIELD(qacc_sum, nv, "m/s^2 or rad/s^2", "weighted sum of RK4 accelerations")  \
  FIELD(act_dot_sum, na, "1/s", "weighted sum of RK4 activation rates")         \
  FIELD(qH, nM, "kg", "M - h*qDeriv and then its factor")                       \
  FIELD(qHDiagInv, nv, "1/kg", "1/diag(D) of that factor")                      \
  FIELD(qacc_implicit, nv, "m/s^2 or rad/s^2", "acceleration of the implicit integrators")

namespace maniple {

// A field of the state: tiles are [element][kTileWidth], hence the stride is known when compiling.
template <class V>
struct StateField {
  static constexpr int stride = kTileWidth / lane_width<V>;
  V* base = nullptr;

  StateField() = default;
  MANIPLE_FUNCTION explicit StateField(V* first) : base(first) {}
  MANIPLE_FUNCTION V& operator[](int i) const { return base[i * stride]; }
  MANIPLE_FUNCTION StateField from(int first) const { return StateField(base + first * stride); }
  MANIPLE_FUNCTION operator Varying<V>() const { return {base, stride}; }
};

// A field of the scratch: contiguous packs on a CPU; on a GPU the threads of a launch are interleaved
// with a stride that the launch chooses.
template <class V>
struct DataField {
  V* base = nullptr;
#ifdef MANIPLE_SCALAR_LANES
  int stride = 1;
#else
  static constexpr int stride = 1;
#endif

  DataField() = default;
  MANIPLE_FUNCTION DataField(V* first, [[maybe_unused]] int field_stride) : base(first) {
#ifdef MANIPLE_SCALAR_LANES
    stride = field_stride;
#endif
  }
  MANIPLE_FUNCTION V& operator[](int i) const {
    return base[i * stride];
  }
  MANIPLE_FUNCTION DataField from(int first) const {
    return DataField(base + first * stride, stride);
  }
  MANIPLE_FUNCTION operator Varying<V>() const {
    return {base, stride};
  }
};

#define MANIPLE_SIZE(name, meaning) [[maybe_unused]] const int name = sizes.name;

// Persistent fields of one pack (MANIPLE_STATE_FIELDS).
template <class V>
struct State {
#define MANIPLE_FIELD(name, size, unit, description) StateField<V> name;
  MANIPLE_STATE_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
};

// Results of one step of one pack (MANIPLE_DATA_FIELDS) and scratch of solver and integrator.
template <class V>
struct Data {
#define MANIPLE_FIELD(name, size, unit, description) DataField<V> name;
  MANIPLE_DATA_FIELDS(MANIPLE_FIELD)
  MANIPLE_CONSTRAINT_FIELDS(MANIPLE_FIELD)
  MANIPLE_INTEGRATOR_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
};

// Elements of one environment's state.
MANIPLE_FUNCTION int state_elements(const ModelSizes& sizes) {
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
  int count = 0;
#define MANIPLE_FIELD(name, size, unit, description) count += size;
  MANIPLE_STATE_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return count;
}

// Lane values of one pack's scratch.
MANIPLE_FUNCTION int data_elements(const ModelSizes& sizes) {
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
  int count = 0;
#define MANIPLE_FIELD(name, size, unit, description) count += size;
  MANIPLE_DATA_FIELDS(MANIPLE_FIELD)
  MANIPLE_CONSTRAINT_FIELDS(MANIPLE_FIELD)
  MANIPLE_INTEGRATOR_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return count;
}

// The pack whose first environment is `lane` of a tile; fields lie in table order.
template <class V>
MANIPLE_FUNCTION State<V> state_of_tile(const ModelSizes& sizes, ScalarOf<V>* tile, int lane) {
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
  State<V> state;
  ScalarOf<V>* next = tile + lane;
#define MANIPLE_FIELD(name, size, unit, description)      \
  state.name = StateField<V>(reinterpret_cast<V*>(next)); \
  next += (size)*kTileWidth;
  MANIPLE_STATE_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return state;
}

// The fields over data_elements(sizes) lane values, `stride` apart (1 on a CPU).
template <class V>
MANIPLE_FUNCTION Data<V> data_of_scratch(const ModelSizes& sizes, V* scratch, int stride) {
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
  Data<V> data;
  V* next = scratch;
#define MANIPLE_FIELD(name, size, unit, description) \
  data.name = DataField<V>(next, stride);            \
  next += (size)*stride;
  MANIPLE_DATA_FIELDS(MANIPLE_FIELD)
  MANIPLE_CONSTRAINT_FIELDS(MANIPLE_FIELD)
  MANIPLE_INTEGRATOR_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return data;
}

#undef MANIPLE_SIZE

}  // namespace maniple
