// State (what persists, in tiles) and Data (results of one step, in scratch) of the environments of one
// pack, as named arrays of lane values. Both are generated from the field tables and hold pointers only.
#pragma once

#include "kernels/base/team.hpp"
#include "kernels/base/varying.hpp"
#include "kernels/base/wide.hpp"
#include "kernels/model/field_tables.hpp"
#include "kernels/model/model.hpp"

// Contacts, constraint rows and the solver's vectors; they follow the public fields in scratch. Contact k of
// a lane is in slot k; the Jacobian of a slot holds the dofs of slot_dof alone. The rows of a contact are the
// edges of its friction pyramid, normal + and - tangent, kept as one normal and two tangent base rows.
//      name            size            unit            meaning
#define MANIPLE_CONSTRAINT_FIELDS(FIELD)                                                                \
  FIELD(friction_aref, nfriction, "m/s^2 or rad/s^2", "reference acceleration of the row")              \
  FIELD(limit_D, nlimit, "kg or kg m^2", "stiffness of the row; 0: not active")                         \
  FIELD(limit_aref, nlimit, "m/s^2 or rad/s^2", "reference acceleration of the row")                    \
  FIELD(limit_axis, 3 * nlimitball, "1", "rotation axis of a ball joint that is limited")               \
  FIELD(limit_jar, nlimit, "m/s^2 or rad/s^2", "acceleration beyond the reference")                     \
  FIELD(limit_search, nlimit, "m/s^2 or rad/s^2", "its change along the search")                        \
  FIELD(contact_geompair, ncontact, "1", "number of the geom pair")                                     \
  FIELD(contact_dist, ncontact, "m", "distance, negative: penetration")                                 \
  FIELD(contact_pos, 3 * ncontact, "m", "midpoint between the surfaces")                                \
  FIELD(contact_frame, 6 * ncontact, "1", "normal from geom1 to geom2, first tangent")                  \
  FIELD(contact_dropped, 1, "1", "contacts beyond the capacity")                                        \
  FIELD(contact_D, ncontact, "kg", "stiffness of each edge; 0: not active")                             \
  FIELD(contact_aref, 3 * ncontact, "m/s^2", "reference acceleration of the base rows")                 \
  FIELD(contact_J, 3 * ncontact * ncontactdof, "1", "base rows, [slot][dof][row]")                      \
  FIELD(contact_patch, npatchcontact, "1", "patch of the contact; -1: none")                            \
  FIELD(contact_B, 18 * npatchcontact, "1", "base rows of the patch's motion, [slot][axis][row]")       \
  FIELD(patch_S, 6 * npatch * nv, "1", "motion of the patch by the dofs of patch_dof, about its point") \
  FIELD(patch_W, 21 * npatch, "kg", "sum of B' W B, lower triangle")                                    \
  FIELD(contact_jar, 3 * ncontact, "m/s^2", "acceleration beyond the reference")                        \
  FIELD(contact_search, 3 * ncontact, "m/s^2", "its change along the search")                           \
  FIELD(H, nrowdof*(nrowdof + 1) / 2, "kg", "Hessian of the cost, then its factor")                     \
  FIELD(HDiagInv, nrowdof, "1/kg", "1/diag(D) of the factor")                                           \
  FIELD(Ma, nrowdof, "N", "M times the solver's acceleration")                                          \
  FIELD(search, nrowdof, "m/s^2 or rad/s^2", "search direction")                                        \
  FIELD(Msearch, nrowdof, "N", "M times the search direction")                                          \
  FIELD(warm_change, nrowdof, "m/s^2 or rad/s^2", "qacc_warmstart - qacc_smooth")                       \
  FIELD(inverse_root, nrowdof, "1/kg^1/2", "1/sqrt(D) of M's factor")                                   \
  FIELD(block_Y, 3 * nrowblock * nv, "1", "D^-1/2 L^-T J' times row_scale, [block][dof][row]")          \
  FIELD(block_A, 9 * nrowblock * (nrowblock + 1) / 2, "1", "Y'Y, lower tiles [3][3]")                   \
  FIELD(block_factor, 9 * nspaceblock * (nspaceblock + 1) / 2, "1", "factor of 1 + C' A C")             \
  FIELD(block_inverse, 3 * nspaceblock, "1", "1 over the diagonal of the factor")                       \
  FIELD(block_limit, 3 * nrowblock, "1", "limit of each row after those of friction")                   \
  FIELD(block_scale, 3 * nrowblock, "kg^1/2", "row_scale of the rows; 0: none")                         \
  FIELD(block_bias, 3 * nrowblock, "(kg m^2)^1/2/s^2", "residuals of qacc_smooth")                      \
  FIELD(block_start, 3 * nrowblock, "(kg m^2)^1/2/s^2", "residuals of the warm start less these")       \
  FIELD(block_f, 3 * nspaceblock, "(kg m^2)^1/2/s^2", "forces of the iterate")                          \
  FIELD(block_jar, 3 * nspaceblock, "(kg m^2)^1/2/s^2", "residuals of the iterate")                     \
  FIELD(block_df, 3 * nspaceblock, "(kg m^2)^1/2/s^2", "change of the forces along the search")         \
  FIELD(block_djar, 3 * nspaceblock, "(kg m^2)^1/2/s^2", "change of the residuals along the search")    \
  FIELD(block_zone, 5 * nspaceblock, "1", "C of each block, see Zones")                                 \
  FIELD(row_force, ndualrow, "N or N m", "force of each row, see row_of_limit")

// Scratch of the dual solver (dual_solver.hpp), where the rows of an environment lie over the lanes: room for
// as many environments as a lane value has lanes.
//      name            size            unit            meaning
#define MANIPLE_DUAL_FIELDS(FIELD)                                    \
  FIELD(dual_column, ndualrow* ndualrow, "1", "columns of A, scaled") \
  FIELD(dual_rows, kDualVectors* ndualrow, "1", "DualVector, one by one")

// Integers of the solver that all lanes of a pack share.
//      name            size                            meaning
#define MANIPLE_INDEX_FIELDS(FIELD)                                                          \
  FIELD(limit_active, nlimit, "limit rows that act in some lane")                            \
  FIELD(slot_dofnum, ncontact, "dofs that the contacts of a slot move")                      \
  FIELD(slot_dof, ncontact* ncontactdof, "these dofs, leaves first")                         \
  FIELD(slot_tangents, ncontact, "tangents of a slot whose base rows are not zero, as bits") \
  FIELD(slot_patches, npatchcontact, "patches of the contacts of a slot, as bits")           \
  FIELD(block_set, nrowblock* ndofword, "dofs of Y that are not zero, as bits")              \
  FIELD(H_set, nrowdof* ndofword, "columns of each row of H before the diagonal, as bits")   \
  FIELD(H_colnum, nrowdof, "number of these columns")                                        \
  FIELD(H_col, nrowdof*(nrowdof - 1) / 2, "these columns, descending")                       \
  FIELD(H_belownum, nrowdof, "number of the rows after the diagonal of each column")         \
  FIELD(H_below, nrowdof*(nrowdof - 1) / 2, "these rows, ascending, see below_address")      \
  FIELD(tree_island, ndualtree, "island of each tree of each lane; -1: it has no row")       \
  FIELD(island_nefc, ndualtree, "rows of each island of each lane")                          \
  FIELD(dual_queue, ndualtree, "islands that wait for their turn, see DualQueue")            \
  FIELD(dual_group, 2 * ndualrow, "groups of an island's rows, see RowGroup")                \
  FIELD(dual_source, ndualrow, "place of an island's rows in row_force")                     \
  FIELD(dual_order, ndualrow, "row order of a sweep that the model does not list")

// Intermediate results that only the integrators and factorizations need.
//      name            size            meaning
#define MANIPLE_INTEGRATOR_FIELDS(FIELD)                                        \
  FIELD(factor_column, nv, "1", "column of the factor that is being computed")  \
  FIELD(qpos_start, nq, "m or rad", "position at the start of an RK4 step")     \
  FIELD(qvel_start, nv, "m/s or rad/s", "velocity at the start of an RK4 step") \
  FIELD(act_start, na, "1", "activation at the start of an RK4 step")           \
  FIELD(qvel_sum, nv, "m/s or rad/s", "weighted sum of RK4 velocities")         \
  FIELD(qacc_sum, nv, "m/s^2 or rad/s^2", "weighted sum of RK4 accelerations")  \
  FIELD(act_dot_sum, na, "1/s", "weighted sum of RK4 activation rates")         \
  FIELD(qH, nM, "kg", "M - h*qDeriv and then its factor")                       \
  FIELD(qHDiagInv, nv, "1/kg", "1/diag(D) of that factor")                      \
  FIELD(qacc_implicit, nv, "m/s^2 or rad/s^2", "acceleration of the implicit integrators")

// All of them in the order of the scratch.
#define MANIPLE_ALL_DATA_FIELDS(FIELD, INDEX) \
  MANIPLE_DATA_FIELDS(FIELD)                  \
  MANIPLE_CONSTRAINT_FIELDS(FIELD)            \
  MANIPLE_DUAL_FIELDS(FIELD)                  \
  MANIPLE_INTEGRATOR_FIELDS(FIELD)            \
  MANIPLE_INDEX_FIELDS(INDEX)

namespace maniple {

inline constexpr int kDualVectors = 10;

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

// Integers that all lanes of a pack share, in the place of lane values: contiguous on a CPU, one per lane
// value on a GPU.
template <class V>
struct IndexField {
  DataField<V> place;

  MANIPLE_FUNCTION int& operator[](int i) const {
#ifdef MANIPLE_SCALAR_LANES
    return reinterpret_cast<Integer*>(&place[i])->value;
#else
    return reinterpret_cast<Integer*>(place.base)[i].value;
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
  return field.place;
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
    stride = field.place.stride * static_cast<std::ptrdiff_t>(sizeof(V) / sizeof(int));
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

// What Newton's method works on in double precision (physics/solver/wide_solver.hpp), and its integers.
#define MANIPLE_WIDE_FIELDS(FIELD) \
  FIELD(qM)                        \
  FIELD(qacc_smooth)               \
  FIELD(qfrc_smooth)               \
  FIELD(qacc)                      \
  FIELD(qfrc_constraint)           \
  FIELD(friction_aref)             \
  FIELD(limit_D)                   \
  FIELD(limit_aref)                \
  FIELD(limit_axis)                \
  FIELD(limit_jar)                 \
  FIELD(limit_search)              \
  FIELD(contact_geompair)          \
  FIELD(contact_D)                 \
  FIELD(contact_aref)              \
  FIELD(contact_J)                 \
  FIELD(contact_jar)               \
  FIELD(contact_search)            \
  FIELD(H)                         \
  FIELD(HDiagInv)                  \
  FIELD(Ma)                        \
  FIELD(search)                    \
  FIELD(Msearch)                   \
  FIELD(factor_column)
#define MANIPLE_WIDE_INDICES(FIELD) \
  FIELD(limit_active)               \
  FIELD(slot_dofnum)                \
  FIELD(slot_dof)                   \
  FIELD(slot_tangents)              \
  FIELD(H_set)                      \
  FIELD(H_colnum)                   \
  FIELD(H_col)                      \
  FIELD(H_belownum)                 \
  FIELD(H_below)

// Elements of every field of Data.
struct DataSizes {
#define MANIPLE_FIELD(name, ...) int name;
  MANIPLE_ALL_DATA_FIELDS(MANIPLE_FIELD, MANIPLE_FIELD)
#undef MANIPLE_FIELD
};

// Calls visit(member, elements) for every field of Data in the order of the scratch, where `member` is a
// pointer to the field's member of Fields: Data<V> or DataSizes. In 64 bits, for models that the import then
// refuses.
template <class Fields, class Visit>
MANIPLE_FUNCTION void for_each_field(const ModelSizes& sizes, const Visit& visit) {
#define MANIPLE_LONG_SIZE(name, meaning) [[maybe_unused]] const std::int64_t name = sizes.name;
  MANIPLE_ALL_SIZES(MANIPLE_LONG_SIZE)
#undef MANIPLE_LONG_SIZE
#define MANIPLE_FIELD(name, size, ...) visit(&Fields::name, std::int64_t(size));
  MANIPLE_ALL_DATA_FIELDS(MANIPLE_FIELD, MANIPLE_FIELD)
#undef MANIPLE_FIELD
}

MANIPLE_FUNCTION DataSizes data_sizes(const ModelSizes& sizes) {
  DataSizes elements;
  for_each_field<DataSizes>(
      sizes, [&](auto member, std::int64_t size) { elements.*member = static_cast<int>(size); });
  return elements;
}

// Rows this many times stiffer than what they hold, in units of 1/efc_diagApprox, are solved in double
// precision.
inline constexpr double kStiffRow = 3e4;

// Numbers of wide_data, and the data itself in memory that has room for them; its other fields have none.
MANIPLE_FUNCTION int wide_elements(const ModelSizes& sizes) {
  const DataSizes elements = data_sizes(sizes);
  int count = 0;
#define MANIPLE_FIELD(name) count += elements.name;
  MANIPLE_WIDE_FIELDS(MANIPLE_FIELD)
  MANIPLE_WIDE_INDICES(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return count;
}
MANIPLE_FUNCTION Data<Wide> wide_data(const ModelSizes& sizes, const DataField<Wide> memory) {
  const DataSizes elements = data_sizes(sizes);
  Data<Wide> data;
  int next = 0;
#define MANIPLE_FIELD(name)      \
  data.name = memory.from(next); \
  next += elements.name;
  MANIPLE_WIDE_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
#define MANIPLE_FIELD(name)            \
  data.name.place = memory.from(next); \
  next += elements.name;
  MANIPLE_WIDE_INDICES(MANIPLE_FIELD)
#undef MANIPLE_FIELD
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
  for_each_field<DataSizes>(sizes, [&](auto, std::int64_t size) { count += size; });
  // an even number of them comes before the wide ones, each of which takes the place of two
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
// first is number `place` of those that lie together.
template <class V>
MANIPLE_FUNCTION Data<V> data_of_scratch(const ModelSizes& sizes, V* scratch, std::ptrdiff_t stride,
                                         [[maybe_unused]] int place = 0) {
  Data<V> data;
  V* next = scratch;
  for_each_field<Data<V>>(sizes, [&](auto member, std::int64_t size) {
    numbers_of(data.*member) = DataField<V>(next, stride);
    next += size * stride;
  });
  if (sizes.nwide > 0) {
    V* const even = scratch + (next - scratch + stride) / (2 * stride) * (2 * stride);
    data.wide = DataField<Wide>(reinterpret_cast<Wide*>(even - place) + place, stride);
  }
  return data;
}

// Places the fields of MANIPLE_TEAM_FIELDS in `shared`, which has room for `room` numbers, one after the
// other; those that no longer fit stay where they are. What they hold does not go along.
template <class T>
MANIPLE_FUNCTION void place_in_shared(const ModelSizes& sizes, Data<T>& data, T* shared, int room) {
  const DataSizes elements = data_sizes(sizes);
  const auto place = [&](DataField<T>& field, int size) {
    if (size > room) return;
    field = DataField<T>(shared, 1);
    shared += size;
    room -= size;
  };
#define MANIPLE_FIELD(name) place(data.name, elements.name);
  MANIPLE_TEAM_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
}

#undef MANIPLE_SIZE

}  // namespace maniple
