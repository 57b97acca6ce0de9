// Constraint rows of equality constraints: connect, weld, and joints or tendons coupled by a polynomial
// (mj_instantiateEquality, mj_referenceConstraint, mj_Jdotv). The rows of a constraint have an address of
// their own that the model knows; where it is not active (State::eq_active) its rows have D = 0.
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/model/lane_model.hpp"
#include "kernels/physics/constraint/constraint.hpp"
#include "kernels/physics/smooth/motion.hpp"

namespace maniple {

// Error of a constraint, and what its rows' J qvel changes by if qacc is zero: Jdot qvel.
template <class V>
struct EqualityError {
  V pos[6], drift[6];
};

// J of a row over its columns: value(c1, c2), where c1 and c2 are what the two objects have to do with the
// column's dof (equality_J_coef).
template <class V, class Value>
MANIPLE_FUNCTION void write_equality_row(const Model<ScalarOf<V>>& m, const Data<V>& d, int r,
                                         const Value& value) {
  for (int k = m.equality_J_rowadr[r], end = k + m.equality_J_rownnz[r]; k < end; ++k)
    d.equality_J[k] = value(k, V(m.equality_J_coef[2 * k]), V(m.equality_J_coef[2 * k + 1]));
}

// Adds scale times the row of a tendon to J of row r, which has all of its dofs.
template <class V>
MANIPLE_FUNCTION void add_to_equality_row(const Model<ScalarOf<V>>& m, const Data<V>& d, int r,
                                          const DofRow<V>& tendon, V scale) {
  int at = m.equality_J_rowadr[r];
  for (int k = 0; k < tendon.count; ++k) {
    while (m.equality_J_colind[at] < tendon.dofs[k]) ++at;
    d.equality_J[at] += scale * tendon[k];
  }
}
template <class T>
MANIPLE_FUNCTION bool is_spatial(const Model<T>& m, int tendon) {
  return tendon >= 0 && m.ten_J_spatialadr[tendon] >= 0;
}

// How far two joints or tendons are from what couples them, and what moving the second does to that.
template <class V>
struct Coupling {
  V error, slope;
};
// Positions of joints, or lengths of tendons, relative to those at qpos0: p1 = polynomial(p2).
template <class V>
MANIPLE_FUNCTION Coupling<V> coupling(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                      int e) {
  const ScalarOf<V>* const data = m.eq_data + kEqualityData * e;
  const LaneModel<V> lanes(m, s);
  const auto position = [&](int object) -> V {
    if (m.eq_type[e] == equality_joint)
      return s.qpos[m.jnt_qposadr[object]] - lanes.qpos0(m.jnt_qposadr[object]);
    return d.ten_length[object] - lanes.tendon_length0(object);
  };
  Coupling<V> coupled{position(m.eq_obj1id[e]) - V(data[0]), V(0)};
  if (m.eq_obj2id[e] >= 0) {
    const V x = position(m.eq_obj2id[e]);
    // by Horner's rule
    coupled.error -= x * (V(data[1]) + x * (V(data[2]) + x * (V(data[3]) + x * V(data[4]))));
    coupled.slope = V(data[1]) + x * (V(2 * data[2]) + x * (V(3 * data[3]) + x * V(4 * data[4])));
  }
  return coupled;
}
template <class V>
MANIPLE_FUNCTION EqualityError<V> coupled_rows(const Model<ScalarOf<V>>& m, const State<V>& s,
                                               const Data<V>& d, int e) {
  const Coupling<V> coupled = coupling(m, s, d, e);
  const V slope = coupled.slope;
  EqualityError<V> error{};
  error.pos[0] = coupled.error;
  const int r = m.eq_rowadr[e];
  if (m.eq_type[e] == equality_tendon && (is_spatial(m, m.eq_obj1id[e]) || is_spatial(m, m.eq_obj2id[e]))) {
    write_equality_row(m, d, r, [&](int, V, V) { return V(0); });
    add_to_equality_row(m, d, r, tendon_row(m, d, m.eq_obj1id[e]), V(1));
    if (m.eq_obj2id[e] >= 0) add_to_equality_row(m, d, r, tendon_row(m, d, m.eq_obj2id[e]), V(-slope));
  } else {
    write_equality_row(m, d, r, [&](int, V c1, V c2) { return c1 - slope * c2; });
  }
  return error;
}

// One of the two bodies of a connect or weld: the frame that is held, its velocity, and its acceleration if
// qacc is zero.
template <class V>
struct HeldFrame {
  Frame<V> frame;
  Spatial<V> velocity, acceleration;
};
template <class V>
MANIPLE_FUNCTION HeldFrame<V> held_frame(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                         int e, int side) {
  const Frame<V> frame = equality_frame(m, s, d, e, side);
  const PointMotion<V> motion = motion_at_rest(m, s, d, m.eq_bodyid[2 * e + side], frame.pos);
  return {frame, motion.velocity, motion.acceleration};
}

// The part of neg(q2) (0, v) q1 along the axes: half of how fast the axes of neg(q2) q1 change where frame 1
// turns against frame 2 with v.
template <class V>
MANIPLE_FUNCTION Vec3<V> turned_axes(const Quat<V>& q2, const Vec3<V>& v, const Quat<V>& q1) {
  const Quat<V> q = q2 * (Quat<V>{V(0), v.x, v.y, v.z} * q1);
  return {q.x, q.y, q.z};
}

// Two points in one place, and for a weld two frames parallel.
template <class V>
MANIPLE_FUNCTION EqualityError<V> fixed_rows(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                             int e) {
  using T = ScalarOf<V>;
  const HeldFrame<V> one = held_frame(m, s, d, e, 0), two = held_frame(m, s, d, e, 1);
  const int first = m.eq_rowadr[e];
  EqualityError<V> error{};
  const auto set = [](V(&to)[6], int at, const Vec3<V>& v) {
    to[at] = v.x;
    to[at + 1] = v.y;
    to[at + 2] = v.z;
  };
  set(error.pos, 0, one.frame.pos - two.frame.pos);
  set(error.drift, 0, one.acceleration.lin - two.acceleration.lin);
  const bool weld = m.eq_type[e] == equality_weld;
  const V half(T(0.5)), scale(m.eq_data[kEqualityData * e + kTorqueScale]);
  const Quat<V> q1 = one.frame.quat, q2 = conjugate(two.frame.quat);
  if (weld) {
    const Quat<V> relative = q2 * q1;
    set(error.pos, 3, scale * Vec3<V>{relative.x, relative.y, relative.z});
    const Vec3<V> turn = one.velocity.rot - two.velocity.rot;
    // the product rule, with dq/dt = (0, w) q / 2
    const auto derivative = [&](const Quat<V>& q, const Vec3<V>& w) {
      return half * (Quat<V>{V(0), w.x, w.y, w.z} * q);
    };
    const Quat<V> q1_dot = derivative(one.frame.quat, one.velocity.rot),
                  q2_dot = conjugate(derivative(two.frame.quat, two.velocity.rot));
    set(error.drift, 3,
        (half * scale) * (turned_axes(q2_dot, turn, q1) +
                          turned_axes(q2, one.acceleration.rot - two.acceleration.rot, q1) +
                          turned_axes(q2, turn, q1_dot)));
  }
  const int adr = m.equality_J_rowadr[first], columns = m.equality_J_rownnz[first];
  for (int k = 0; k < columns; ++k) {
    const int dof = m.equality_J_colind[adr + k];
    const V c1(m.equality_J_coef[2 * (adr + k)]), c2(m.equality_J_coef[2 * (adr + k) + 1]);
    const Spatial<V> axis = load6<V>(d.cdof, 6 * dof);
    const Vec3<V> com = load3<V>(d.subtree_com, 3 * m.dof_rootid[dof]);
    const auto moves = [&](const Vec3<V>& point) { return axis.lin + cross(axis.rot, point - com); };
    const Vec3<V> lin = c1 * moves(one.frame.pos) - c2 * moves(two.frame.pos);
    const auto put = [&](int row, const Vec3<V>& v) {
      d.equality_J[adr + row * columns + k] = v.x;
      d.equality_J[adr + (row + 1) * columns + k] = v.y;
      d.equality_J[adr + (row + 2) * columns + k] = v.z;
    };
    put(0, lin);
    if (weld) put(3, (half * scale) * turned_axes(q2, (c1 - c2) * axis.rot, q1));
  }
  return error;
}

// Writes equality_J, equality_D and equality_aref of the rows of constraint e.
template <class V>
MANIPLE_FUNCTION void equality_rows(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int e) {
  const bool coupled = m.eq_type[e] == equality_joint || m.eq_type[e] == equality_tendon;
  const EqualityError<V> error = coupled ? coupled_rows(m, s, d, e) : fixed_rows(m, s, d, e);
  const int first = m.eq_rowadr[e], rows = m.eq_rownum[e];
  V square(0);
  for (int r = 0; r < rows; ++r) square = multiply_add(error.pos[r], error.pos[r], square);
  const V imp = impedance(m.equality_solimp + 5 * e, rows == 1 ? error.pos[0] : V(sqrt(square)));
  MaskOf<V> active = s.eq_active[e] > V(0);
  // MuJoCo makes no rows of a constraint whose numbers are all zero, unless they are sparse
  if (!(m.flags & model_sparse_rows)) {
    MaskOf<V> moves(false);
    const int adr = m.equality_J_rowadr[first], end = adr + rows * m.equality_J_rownnz[first];
    for (int i = adr; i < end && !all_lanes(moves); ++i) moves = moves || V(d.equality_J[i]) != V(0);
    active = active && moves;
  }
  const LaneModel<V> lanes(m, s);
  for (int k = 0; k < rows; ++k) {
    const int r = first + k;
    V velocity(0);
    for (int i = m.equality_J_rowadr[r], end = i + m.equality_J_rownnz[r]; i < end; ++i)
      velocity = multiply_add(V(d.equality_J[i]), V(s.qvel[m.equality_J_colind[i]]), velocity);
    V R = regularization(imp, lanes.equality_invweight(r));
    if (m.eq_type[e] == equality_tendon) {
      const int adr = m.equality_J_rowadr[r];
      R = max(R, least_regularization(m, d, m.equality_J_rownnz[r], m.equality_J_colind + adr,
                                      [&](int n) { return V(d.equality_J[adr + n]); }));
    }
    d.equality_D[r] = select(active, V(1) / R, V(0));
    d.equality_aref[r] =
        -V(m.equality_B[e]) * velocity - V(m.equality_K[e]) * imp * error.pos[k] - error.drift[k];
  }
}

// Rows of equality constraints, of which those count that are active in some lane (equality_active); see
// SingleRows and KeptRows.
template <class V>
struct EqualityRows : KeptRows<EqualityRows<V>, V> {
  using T = ScalarOf<V>;
  using KeptRows<EqualityRows<V>, V>::m, KeptRows<EqualityRows<V>, V>::d,
      KeptRows<EqualityRows<V>, V>::number;
  using KeptRows<EqualityRows<V>, V>::KeptRows;

  static MANIPLE_FUNCTION int most(const ModelSizes& sizes) { return sizes.nequality; }
  // Also writes equality_active.
  static MANIPLE_FUNCTION int build(const Model<T>& m, const State<V>& s, const Data<V>& d) {
    if (m.nequality == 0) return 0;
    int count = 0;
    V acting(0);  // of this member's rows
    for (int first = 0; first < m.neq; first += d.team.size()) {
      const int e = first + d.team.rank();
      const bool acts = e < m.neq && m.eq_rownum[e] > 0 && any_lane(s.eq_active[e] > V(0));
      const int rows = acts ? m.eq_rownum[e] : 0, at = d.team.reserve(rows, count);
      if (!acts) continue;
      equality_rows(m, s, d, e);
      acting += select(d.equality_D[m.eq_rowadr[e]] > V(0), V(static_cast<T>(rows)), V(0));
      for (int k = 0; k < rows; ++k) d.equality_active[at + k] = m.eq_rowadr[e] + k;
    }
    const V all_acting = d.team.total(acting);
    d.team.once([&] { d.nefc[0] += all_acting; });
    return count;
  }
  template <class U>
  static MANIPLE_FUNCTION KeptFields<U> fields(const Data<U>& x) {
    return {x.equality_active, x.equality_jar, x.equality_search};
  }
  MANIPLE_FUNCTION FreeLaw<V> law(int i) const { return {d.equality_D[number(i)]}; }
  MANIPLE_FUNCTION FreeLaw<T> law_of_lane(int r, int lane) const {
    return {lane_element(d.equality_D, r, lane)};
  }
  MANIPLE_FUNCTION FreeLaw<V> scaled_law(int) const { return {V(1)}; }
  MANIPLE_FUNCTION V aref(int i) const { return d.equality_aref[number(i)]; }
  template <class Visit>
  MANIPLE_FUNCTION void for_each_column(int i, const Visit& visit) const {
    const int r = number(i);
    for (int k = m.equality_J_rowadr[r], end = k + m.equality_J_rownnz[r]; k < end; ++k)
      visit(m.equality_J_colind[k], V(d.equality_J[k]));
  }
  template <class Field>
  MANIPLE_FUNCTION V times(int i, const Field& x) const {
    V sum(0);
    for_each_column(i, [&](int dof, V value) { sum = multiply_add(value, V(x[dof]), sum); });
    return sum;
  }
  // (As in mj_island: bodies count whether or not a dof moves the constraint now; joints and tendons do not
  // where rows are dense, because a number that is zero is no part of a dense row.)
  template <class Visit>
  MANIPLE_FUNCTION void for_each_tree(int r, int lane, const Visit& visit) const {
    int e = 0;
    while (r < m.eq_rowadr[e] || r >= m.eq_rowadr[e] + m.eq_rownum[e]) ++e;
    const bool coupled = m.eq_type[e] == equality_joint || m.eq_type[e] == equality_tendon;
    const bool every = !coupled || (m.flags & model_sparse_rows);
    for (int k = m.equality_J_rowadr[r], end = k + m.equality_J_rownnz[r]; k < end; ++k)
      if (every || lane_element(d.equality_J, k, lane) != T(0)) visit(m.dof_treeid[m.equality_J_colind[k]]);
  }
  MANIPLE_FUNCTION void add_force(int i, V force, const DataField<V> result) const {
    for_each_column(i, [&](int dof, V value) { result[dof] = multiply_add(value, force, V(result[dof])); });
  }
  MANIPLE_FUNCTION void add_hessian(int i, V D) const {
    const int r = number(i), first = m.equality_J_rowadr[r], last = first + m.equality_J_rownnz[r];
    for (int k = first; k < last; ++k) {
      const V weighted = D * V(d.equality_J[k]);
      for (int l = first; l <= k; ++l) {
        V& element = d.H[hessian_address(m.equality_J_colind[k], m.equality_J_colind[l])];
        element = multiply_add(weighted, V(d.equality_J[l]), element);
      }
    }
  }
  MANIPLE_FUNCTION void row_to_wide(const Data<Wide>& x, int r, int lane) const {
    copy_to_wide(d.equality_D, lane, x.equality_D, r, 1);
    copy_to_wide(d.equality_aref, lane, x.equality_aref, r, 1);
    copy_to_wide(d.equality_J, lane, x.equality_J, m.equality_J_rowadr[r], m.equality_J_rownnz[r]);
  }
};

// The solver's force of row r of the model, where the row acts.
template <class V>
MANIPLE_FUNCTION V equality_force(const Model<ScalarOf<V>>& m, const Data<V>& d, int r) {
  if (m.solver == solver_pgs) return d.row_force[first_row<EqualityRows<V>>(m) + r];
  return FreeLaw<V>{d.equality_D[r]}.force(d.equality_jar[r]);
}

}  // namespace maniple
