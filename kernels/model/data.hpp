// State (what persists, in tiles) and Data (results of one step, in scratch) of the environments of one
// pack, as named arrays of lane values. Both are generated from the field tables and hold pointers only.
#pragma once

#include "kernels/base/team.hpp"
#include "kernels/base/varying.hpp"
#include "kernels/base/wide.hpp"
#include "kernels/model/field_tables.hpp"
#include "kernels/model/model.hpp"

// Rows that depend on the pose, contacts, constraint rows and the solver's vectors; they follow the public
// fields in scratch. Contact k of a lane is in slot k; the Jacobian of a slot holds the dofs of slot_dof
// alone. The rows of a contact are the edges of its friction pyramid, normal + and - tangent, kept as one
// normal and two tangent base rows.
//      name, size, whether wide_data has it too (FieldWidth), unit, meaning
#define MANIPLE_CONSTRAINT_FIELDS(FIELD)                                                                     \
  FIELD(ten_J, nJspatial, wide, "m or m/rad", "Jacobians of spatial tendons")                                \
  FIELD(sensordata_kept, nsensorkept, narrow, "sensor", "delayed reading, while the present one is taken")   \
  FIELD(actuator_moment, nmoment, narrow, "m or m/rad", "moments of actuators on sites and bodies")          \
  FIELD(equality_J, nJequality, wide, "1", "Jacobian of the rows, at the dofs equality_J_colind")            \
  FIELD(equality_D, nequality, wide, "kg or kg m^2", "stiffness of the row; 0: not active")                  \
  FIELD(equality_aref, nequality, wide, "m/s^2 or rad/s^2", "reference acceleration of the row")             \
  FIELD(equality_jar, nequality, wide, "m/s^2 or rad/s^2", "acceleration beyond the reference")              \
  FIELD(equality_search, nequality, wide, "m/s^2 or rad/s^2", "its change along the search")                 \
  FIELD(friction_aref, nfriction, wide, "m/s^2 or rad/s^2", "reference acceleration of the row")             \
  FIELD(friction_D, nvariedfriction, wide, "kg or kg m^2", "stiffness of the row")                           \
  FIELD(friction_loss, nvariedfriction, wide, "N or N m", "largest force of the row")                        \
  FIELD(limit_D, nlimit, wide, "kg or kg m^2", "stiffness of the row; 0: not active")                        \
  FIELD(limit_aref, nlimit, wide, "m/s^2 or rad/s^2", "reference acceleration of the row")                   \
  FIELD(limit_axis, 3 * nlimitball, wide, "1", "rotation axis of a ball joint that is limited")              \
  FIELD(limit_jar, nlimit, wide, "m/s^2 or rad/s^2", "acceleration beyond the reference")                    \
  FIELD(limit_search, nlimit, wide, "m/s^2 or rad/s^2", "its change along the search")                       \
  FIELD(contact_geompair, ncontact, wide, "1", "number of the geom pair")                                    \
  FIELD(contact_dist, ncontact, narrow, "m", "distance, negative: penetration")                              \
  FIELD(contact_pos, 3 * ncontact, narrow, "m", "midpoint between the surfaces")                             \
  FIELD(contact_frame, 6 * ncontact, narrow, "1", "normal from geom1 to geom2, first tangent")               \
  FIELD(contact_dropped, 1, narrow, "1", "contacts beyond the capacity")                                     \
  FIELD(contact_D, ncontact, wide, "kg", "stiffness of each edge; 0: not active")                            \
  FIELD(contact_mu, ncone, wide, "1", "friction of the regularized elliptic cone")                           \
  FIELD(contact_dim, ncone, wide, "1", "condim of the contact; 0: not active")                               \
  FIELD(contact_friction, 2 * nvariedcontact, narrow, "1", "friction along the tangents")                    \
  FIELD(contact_invweight, nvariedcontact, narrow, "1/kg", "inverse weight of both bodies")                  \
  FIELD(contact_aref, contactdim* ncontact, wide, "m/s^2", "reference acceleration of the base rows")        \
  FIELD(contact_J, contactdim* ncontact* ncontactdof, wide, "1", "base rows, [slot][dof][row]")              \
  FIELD(contact_bodypair, nbodypaircontact, narrow, "1", "body pair of the contact; -1: none")               \
  FIELD(contact_B, 18 * nbodypaircontact, narrow, "1",                                                       \
        "base rows of the body pair's motion, [slot][axis][row]")                                            \
  FIELD(bodypair_S, 6 * nbodypair * nv, narrow, "1",                                                         \
        "motion of the body pair by the dofs of bodypair_dof, about its point")                              \
  FIELD(bodypair_W, 21 * nbodypair, narrow, "kg", "sum of B' W B, lower triangle")                           \
  FIELD(contact_jar, contactdim* ncontact, wide, "m/s^2", "acceleration beyond the reference")               \
  FIELD(contact_search, contactdim* ncontact, wide, "m/s^2", "its change along the search")                  \
  FIELD(H, nrowdof*(nrowdof + 1) / 2, wide, "kg", "Hessian of the cost, then its factor")                    \
  FIELD(HDiagInv, nrowdof, wide, "1/kg", "1/diag(D) of the factor")                                          \
  FIELD(Ma, nrowdof, wide, "N", "M times the solver's acceleration")                                         \
  FIELD(search, nrowdof, wide, "m/s^2 or rad/s^2", "search direction")                                       \
  FIELD(Msearch, nrowdof, wide, "N", "M times the search direction")                                         \
  FIELD(warm_change, nrowdof, narrow, "m/s^2 or rad/s^2", "qacc_warmstart - qacc_smooth")                    \
  FIELD(inverse_root, nrowdof, narrow, "1/kg^1/2", "1/sqrt(D) of M's factor")                                \
  FIELD(block_Y, 3 * nrowblock * nv, narrow, "1", "D^-1/2 L^-T J' times row_scale, [block][dof][row]")       \
  FIELD(block_A, 9 * nrowblock * (nrowblock + 1) / 2, narrow, "1", "Y'Y, lower tiles [3][3]")                \
  FIELD(block_factor, 9 * nspaceblock * (nspaceblock + 1) / 2, narrow, "1", "factor of 1 + C' A C")          \
  FIELD(block_inverse, 3 * nspaceblock, narrow, "1", "1 over the diagonal of the factor")                    \
  FIELD(block_number, 3 * nrowblock, narrow, "1",                                                            \
        "which row of its family each row is that not every lane has")                                       \
  FIELD(block_scale, 3 * nrowblock, narrow, "kg^1/2", "row_scale of the rows; 0: none")                      \
  FIELD(block_bias, 3 * nrowblock, narrow, "(kg m^2)^1/2/s^2", "residuals of qacc_smooth")                   \
  FIELD(block_start, 3 * nrowblock, narrow, "(kg m^2)^1/2/s^2", "residuals of the warm start less these")    \
  FIELD(block_f, 3 * nspaceblock, narrow, "(kg m^2)^1/2/s^2", "forces of the iterate")                       \
  FIELD(block_jar, 3 * nspaceblock, narrow, "(kg m^2)^1/2/s^2", "residuals of the iterate")                  \
  FIELD(block_df, 3 * nspaceblock, narrow, "(kg m^2)^1/2/s^2", "change of the forces along the search")      \
  FIELD(block_djar, 3 * nspaceblock, narrow, "(kg m^2)^1/2/s^2", "change of the residuals along the search") \
  FIELD(block_state, 5 * nspaceblock, narrow, "1", "C of each block, see StateFactor")                       \
  FIELD(solver_island, nsolvertree, narrow, "1", "number of the island of each tree; -1: it has no rows")    \
  FIELD(cg_descent, ncgdof, narrow, "N", "negative gradient before the last step")                           \
  FIELD(cg_direction, ncgdof, narrow, "m/s^2 or rad/s^2", "M^-1 times that")                                 \
  FIELD(noslip_force, nnosliprow, narrow, "N or N m", "forces of the rows of NoslipRows")                    \
  FIELD(noslip_bound, nnosliprow, narrow, "N or N m", "largest of each of them")                             \
  FIELD(noslip_column, nnosliprow* nv, narrow, "1/kg", "M^-1 J' of these rows, [row][dof]")                  \
  FIELD(noslip_A, nnosliprow* contactdim, narrow, "1/kg", "J M^-1 J' of each, with those of its contact")    \
  FIELD(noslip_island, nnosliptree, narrow, "1", "tree by which the island of each tree is called")          \
  FIELD(noslip_open, nnosliptree, narrow, "1", "1: sweeps go on in the island that is called by the tree")   \
  FIELD(noslip_inertia, nnosliptree, narrow, "kg", "sum of the diagonal of M over the dofs of the island")   \
  FIELD(noslip_gain, nnosliptree, narrow, "N m/s^2", "by how much the sweep has lowered its cost")           \
  FIELD(row_force, ndualrow, narrow, "N or N m", "force of each row of the model, see first_row")

// Scratch of the dual solver (dual_solver.hpp), where the rows of an environment lie over the lanes: room for
// as many environments as a lane value has lanes.
//      name, size, whether wide_data has it too (FieldWidth), unit, meaning
#define MANIPLE_DUAL_FIELDS(FIELD)                                            \
  FIELD(dual_column, ndualrow* ndualrow, narrow, "1", "columns of A, scaled") \
  FIELD(dual_rows, kDualVectors* ndualrow, narrow, "1", "DualVector, one by one")

// Integers of the solver that all lanes of a pack share.
//      name, size, whether wide_data has it too, meaning
#define MANIPLE_INDEX_FIELDS(FIELD)                                                                \
  FIELD(equality_active, nequality, wide, "equality rows that are active in some lane")            \
  FIELD(limit_active, nlimit, wide, "limit rows that act in some lane")                            \
  FIELD(slot_dofnum, ncontact, wide, "dofs that the contacts of a slot move")                      \
  FIELD(slot_dof, ncontact* ncontactdof, wide, "these dofs, leaves first")                         \
  FIELD(slot_tangents, ncontact, wide, "tangents of a slot whose base rows are not zero, as bits") \
  FIELD(slot_bodypairs, nbodypaircontact, narrow, "body pairs of the contacts of a slot, as bits") \
  FIELD(block_set, nrowblock* ndofword, narrow, "dofs of Y that are not zero, as bits")            \
  FIELD(H_set, nrowdof* ndofword, wide, "columns of each row of H before the diagonal, as bits")   \
  FIELD(H_colnum, nrowdof, wide, "number of these columns")                                        \
  FIELD(H_col, nrowdof*(nrowdof - 1) / 2, wide, "these columns, descending")                       \
  FIELD(H_belownum, nrowdof, wide, "number of the rows after the diagonal of each column")         \
  FIELD(H_below, nrowdof*(nrowdof - 1) / 2, wide, "these rows, ascending, see below_address")      \
  FIELD(tree_island, ndualtree, narrow, "island of each tree of each lane; -1: it has no row")     \
  FIELD(island_nefc, ndualtree, narrow, "rows of each island of each lane")                        \
  FIELD(dual_queue, ndualtree, narrow, "islands that wait for their turn, see DualQueue")          \
  FIELD(dual_group, 2 * ndualrow, narrow, "groups of an island's rows, see RowGroup")              \
  FIELD(dual_source, ndualrow, narrow, "address of an island's rows in row_force")                 \
  FIELD(dual_order, ndualrow, narrow, "row order of a sweep that the model does not list")

// Intermediate results that only the integrators and factorizations need.
//      name, size, whether wide_data has it too, unit, meaning
#define MANIPLE_INTEGRATOR_FIELDS(FIELD)                                                            \
  FIELD(factor_column, nv, wide, "1", "column of the factor that is being computed")                \
  FIELD(qpos_start, nq, narrow, "m or rad", "position at the start of an RK4 step")                 \
  FIELD(mocap_start, 7 * nmocap, narrow, "m or 1", "poses of mocap bodies while constants are set") \
  FIELD(qvel_start, nv, narrow, "m/s or rad/s", "velocity at the start of an RK4 step")             \
  FIELD(act_start, na, narrow, "1", "activation at the start of an RK4 step")                       \
  FIELD(qvel_sum, nv, narrow, "m/s or rad/s", "weighted sum of RK4 velocities")                     \
  FIELD(qacc_sum, nv, narrow, "m/s^2 or rad/s^2", "weighted sum of RK4 accelerations")              \
  FIELD(act_dot_sum, na, narrow, "1/s", "weighted sum of RK4 activation rates")                     \
  FIELD(qH, nM, narrow, "kg", "M - h*qDeriv and then its factor")                                   \
  FIELD(qH_upper, nunsymmetric, narrow, "kg", "transposed rows of M - h*qDeriv")                    \
  FIELD(bias_velocity, nbiasbody, narrow, "1", "derivative of cvel by the velocity of a dof")       \
  FIELD(bias_acceleration, nbiasbody, narrow, "1/s", "derivative of the acceleration without qacc") \
  FIELD(bias_force, nbiasbody, narrow, "kg/s", "derivative of the force on a body")                 \
  FIELD(qHDiagInv, nv, narrow, "1/kg", "1/diag(D) of that factor")                                  \
  FIELD(qacc_implicit, nv, narrow, "m/s^2 or rad/s^2", "acceleration of the implicit integrators")

// All of them in the order of the scratch.
#define MANIPLE_ALL_DATA_FIELDS(FIELD, INDEX) \
  MANIPLE_DATA_FIELDS(FIELD)                  \
  MANIPLE_CONSTRAINT_FIELDS(FIELD)            \
  MANIPLE_DUAL_FIELDS(FIELD)                  \
  MANIPLE_INTEGRATOR_FIELDS(FIELD)            \
  MANIPLE_INDEX_FIELDS(INDEX)

namespace maniple {

inline constexpr int kDualVectors = 10;

// A field of the state: tiles are [element][kTileWidth], so the stride is known when compiling.
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

// A field of the scratch: contiguous packs on a CPU, and the numbers of a team; on a GPU threads that work
// alone are interleaved with a stride that the launch chooses.
template <class V>
struct DataField {
  V* base = nullptr;
#ifdef MANIPLE_SCALAR_LANES
  std::ptrdiff_t stride = 1;
#else
  static constexpr int stride = 1;
#endif

  DataField() = default;
  MANIPLE_FUNCTION DataField(V* first, [[maybe_unused]] std::ptrdiff_t field_stride) : base(first) {
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
    return {base, static_cast<int>(stride)};
  }
};

// Number i in the contiguous memory of a field; on a GPU value i.
template <class V>
MANIPLE_FUNCTION ScalarOf<V>& element(const DataField<V>& field, int i) {
  if constexpr (lane_width<V> == 1) {
    return field[i];
  } else {
    return reinterpret_cast<ScalarOf<V>*>(field.base)[i];
  }
}
// What one lane of value i holds.
template <class V>
MANIPLE_FUNCTION ScalarOf<V>& lane_element(const DataField<V>& field, int i, int lane) {
  return element(field, lane_width<V> * i + lane);
}

// Integers that all lanes of a pack share, in the memory of lane values: contiguous on a CPU, one per lane
// value on a GPU.
template <class V>
struct IndexField {
  DataField<V> memory;

  MANIPLE_FUNCTION int& operator[](int i) const {
#ifdef MANIPLE_SCALAR_LANES
    return reinterpret_cast<Integer*>(&memory[i])->value;
#else
    return reinterpret_cast<Integer*>(memory.base)[i].value;
#endif
  }

 private:
  struct __attribute__((may_alias)) Integer {
    int value;
  };
};

// Where the numbers of a field lie.
template <class V>
MANIPLE_FUNCTION DataField<V>& numbers_of(DataField<V>& field) {
  return field;
}
template <class V>
MANIPLE_FUNCTION DataField<V>& numbers_of(IndexField<V>& field) {
  return field.memory;
}

// A list of such integers or of the model's.
struct IndexList {
  const int* base = nullptr;
#ifdef MANIPLE_SCALAR_LANES
  std::ptrdiff_t stride = 1;
#else
  static constexpr int stride = 1;
#endif

  MANIPLE_FUNCTION explicit IndexList(const int* list) : base(list) {}
  template <class V>
  MANIPLE_FUNCTION explicit IndexList(const IndexField<V>& field) : base(&field[0]) {
#ifdef MANIPLE_SCALAR_LANES
    stride = field.memory.stride * static_cast<std::ptrdiff_t>(sizeof(V) / sizeof(int));
#endif
  }
  MANIPLE_FUNCTION int operator[](int i) const {
    return base[i * stride];
  }
  MANIPLE_FUNCTION IndexList from(int first) const {
    IndexList rest = *this;
    rest.base += first * stride;
    return rest;
  }
};

#define MANIPLE_SIZE(name, meaning) [[maybe_unused]] const int name = sizes.name;

// Persistent fields of one pack (MANIPLE_STATE_FIELDS).
template <class V>
struct State {
#define MANIPLE_FIELD(name, ...) StateField<V> name;
  MANIPLE_STATE_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
};

struct StageTimes;

// Results of one step of one pack (MANIPLE_DATA_FIELDS) and scratch of solver and integrator.
template <class V>
struct Data {
#define MANIPLE_FIELD(name, ...) DataField<V> name;
#define MANIPLE_INDEX(name, ...) IndexField<V> name;
  MANIPLE_ALL_DATA_FIELDS(MANIPLE_FIELD, MANIPLE_INDEX)
#undef MANIPLE_FIELD
#undef MANIPLE_INDEX
  // Memory of nwide numbers for wide_data.
  DataField<Wide> wide;
  // Who steps the pack.
  [[no_unique_address]] Team<V> team;
  // Of the worker that steps the pack, where somebody asked for them (physics/stage_times.hpp).
  StageTimes* times = nullptr;
};

// What a time step reads and writes most, in the order in which a team takes it into its fast memory.
#define MANIPLE_TEAM_FIELDS(FIELD) \
  FIELD(search)                    \
  FIELD(Msearch)                   \
  FIELD(Ma)                        \
  FIELD(qacc)                      \
  FIELD(qacc_smooth)               \
  FIELD(qfrc_smooth)               \
  FIELD(qfrc_constraint)           \
  FIELD(factor_column)             \
  FIELD(qLDiagInv)                 \
  FIELD(HDiagInv)                  \
  FIELD(H)                         \
  FIELD(qM_factor)                 \
  FIELD(qM)                        \
  FIELD(dual_rows)                 \
  FIELD(cdof)                      \
  FIELD(contact_D)                 \
  FIELD(contact_jar)               \
  FIELD(contact_search)            \
  FIELD(contact_aref)              \
  FIELD(contact_mu)                \
  FIELD(contact_dim)               \
  FIELD(crb)                       \
  FIELD(cfrc_body)                 \
  FIELD(xpos)                      \
  FIELD(xquat)                     \
  FIELD(xipos)                     \
  FIELD(cvel)                      \
  FIELD(cacc_bias)                 \
  FIELD(geom_xpos)                 \
  FIELD(contact_J)                 \
  FIELD(dual_column)               \
  FIELD(block_Y)

// Elements of every field of Data.
struct DataSizes {
#define MANIPLE_FIELD(name, ...) int name;
  MANIPLE_ALL_DATA_FIELDS(MANIPLE_FIELD, MANIPLE_FIELD)
#undef MANIPLE_FIELD
};

// Whether a field is also among those on which Newton's method works in double precision: wide_data.
enum class FieldWidth { narrow, wide };

// Calls visit(member, elements, width) for every field of Data in the order of the scratch, where `member` is
// a pointer to the field's member of Fields: Data<V> or DataSizes. In 64 bits, for models that the import
// then refuses.
template <class Fields, class Visit>
MANIPLE_FUNCTION void for_each_field(const ModelSizes& sizes, const Visit& visit) {
#define MANIPLE_LONG_SIZE(name, meaning) [[maybe_unused]] const std::int64_t name = sizes.name;
  MANIPLE_ALL_SIZES(MANIPLE_LONG_SIZE)
#undef MANIPLE_LONG_SIZE
#define MANIPLE_FIELD(name, size, width, ...) visit(&Fields::name, std::int64_t(size), FieldWidth::width);
  MANIPLE_ALL_DATA_FIELDS(MANIPLE_FIELD, MANIPLE_FIELD)
#undef MANIPLE_FIELD
}

MANIPLE_FUNCTION DataSizes data_sizes(const ModelSizes& sizes) {
  DataSizes elements;
  for_each_field<DataSizes>(
      sizes, [&](auto member, std::int64_t size, FieldWidth) { elements.*member = static_cast<int>(size); });
  return elements;
}

// The least sliding friction of a contact that has any (mjMINMU).
inline constexpr double kSmallestFriction = 1e-5;
// Rows this many times stiffer than what they hold, in units of 1/efc_diagApprox, are solved in double
// precision.
inline constexpr double kStiffRow = 3e4;

// Numbers of wide_data, and the data itself in memory that has room for them; its other fields have none.
MANIPLE_FUNCTION int wide_elements(const ModelSizes& sizes) {
  int count = 0;
  for_each_field<DataSizes>(sizes, [&](auto, std::int64_t size, FieldWidth width) {
    if (width == FieldWidth::wide) count += static_cast<int>(size);
  });
  return count;
}
MANIPLE_FUNCTION Data<Wide> wide_data(const ModelSizes& sizes, const DataField<Wide> memory) {
  Data<Wide> data;
  int next = 0;
  for_each_field<Data<Wide>>(sizes, [&](auto member, std::int64_t size, FieldWidth width) {
    if (width != FieldWidth::wide) return;
    numbers_of(data.*member) = memory.from(next);
    next += static_cast<int>(size);
  });
  return data;
}

// Elements of one environment's state.
MANIPLE_FUNCTION int state_elements(const ModelSizes& sizes) {
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
  int count = 0;
#define MANIPLE_FIELD(name, size, ...) count += size;
  MANIPLE_STATE_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return count;
}

// Lane values of one pack's scratch.
MANIPLE_FUNCTION std::int64_t data_elements(const ModelSizes& sizes) {
  std::int64_t count = 0;
  for_each_field<DataSizes>(sizes, [&](auto, std::int64_t size, FieldWidth) { count += size; });
  // an even number of them comes before the wide ones, each of as large as two
  return sizes.nwide > 0 ? (count + 1) / 2 * 2 + 2 * sizes.nwide : count;
}

// The pack whose first environment is `lane` of a tile; fields lie in table order.
template <class V>
MANIPLE_FUNCTION State<V> state_of_tile(const ModelSizes& sizes, ScalarOf<V>* tile, int lane) {
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
  State<V> state;
  ScalarOf<V>* next = tile + lane;
#define MANIPLE_FIELD(name, size, ...)                    \
  state.name = StateField<V>(reinterpret_cast<V*>(next)); \
  next += (size)*kTileWidth;
  MANIPLE_STATE_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return state;
}

// The fields over data_elements(sizes) lane values, `stride` apart (1 on a CPU, and for a team), of which the
// first is number `offset` of those that lie together.
template <class V>
MANIPLE_FUNCTION Data<V> data_of_scratch(const ModelSizes& sizes, V* scratch, std::ptrdiff_t stride,
                                         [[maybe_unused]] int offset = 0) {
  Data<V> data;
  V* next = scratch;
  for_each_field<Data<V>>(sizes, [&](auto member, std::int64_t size, FieldWidth) {
    numbers_of(data.*member) = DataField<V>(next, stride);
    next += size * stride;
  });
  if (sizes.nwide > 0) {
    V* const even = scratch + (next - scratch + stride) / (2 * stride) * (2 * stride);
    data.wide = DataField<Wide>(reinterpret_cast<Wide*>(even - offset) + offset, stride);
  }
  return data;
}

// Places the fields of MANIPLE_TEAM_FIELDS in `shared`, which has room for `room` numbers, one after the
// other; those that no longer fit stay where they are. What they hold does not go along.
template <class T>
MANIPLE_FUNCTION void place_in_shared(const ModelSizes& sizes, Data<T>& data, T* shared, int room) {
  const DataSizes elements = data_sizes(sizes);
  const auto move = [&](DataField<T>& field, int size) {
    if (size > room) return;
    field = DataField<T>(shared, 1);
    shared += size;
    room -= size;
  };
#define MANIPLE_FIELD(name) move(data.name, elements.name);
  MANIPLE_TEAM_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
}

#undef MANIPLE_SIZE

}  // namespace maniple
