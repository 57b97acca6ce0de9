// Constraint rows of the limits of joints and tendons (mj_instantiateLimit, mj_referenceConstraint). Every
// row has an address of its own that the model knows, so that lanes with different active limits need no
// bookkeeping: a limit that does not act has D = 0. Their Jacobians are unit vectors, the rotation axis of a
// ball joint, or a tendon's (tendon_row).
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/model/lane_model.hpp"
#include "kernels/physics/constraint/constraint.hpp"

namespace maniple {

// How far a joint or tendon is from where a limit begins to act, negative beyond, and how fast that changes.
template <class V>
struct LimitMotion {
  V beyond, velocity;
  Vec3<V> axis;    // of the rotation of a ball joint
  MaskOf<V> acts;  // the lanes that have the row
};
template <class V>
MANIPLE_FUNCTION LimitMotion<V> limit_motion(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                             int r) {
  const LaneModel<V> lanes(m, s);
  const int dof = m.limit_dofid[r], tendon = m.limit_tendonid[r];
  LimitMotion<V> motion{V(0), V(0), zero3<V>(), MaskOf<V>(false)};
  V distance;
  if (m.limit_ballid[r] < 0) {
    const V side(static_cast<ScalarOf<V>>(m.limit_side[r]));
    const V position = tendon < 0 ? V(s.qpos[m.limit_qposadr[r]]) : V(d.ten_length[tendon]);
    distance = side * (position - lanes.limit_bound(r));
    motion.velocity = side * (tendon < 0 ? V(s.qvel[dof]) : V(tendon_row(m, d, tendon).times(s.qvel)));
  } else {
    const Vec3<V> rotation = rotation_vector(normalize(load4<V>(s.qpos, m.limit_qposadr[r])));
    const V angle = sqrt(dot(rotation, rotation));
    motion.axis = normalize(rotation);
    distance = lanes.limit_bound(r) - angle;
    motion.velocity = -dot(motion.axis, load3<V>(s.qvel, dof));
  }
  motion.beyond = distance - V(m.limit_margin[r]);
  motion.acts = motion.beyond < V(0);
  if (tendon >= 0 && any_lane(motion.acts)) motion.acts = motion.acts && tendon_has_rows(m, d, tendon);
  return motion;
}

// Writes limit_D, limit_aref and limit_axis of row r if it acts in some lane, and counts it in these lanes.
// Returns whether it does.
template <class V>
MANIPLE_FUNCTION bool limit_row(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int r,
                                V& count) {
  const LaneModel<V> lanes(m, s);
  const LimitMotion<V> motion = limit_motion(m, s, d, r);
  if (m.limit_ballid[r] >= 0) store3(d.limit_axis, 3 * m.limit_ballid[r], motion.axis);
  const V beyond = motion.beyond, velocity = motion.velocity;
  const MaskOf<V> active = motion.acts;
  if (!any_lane(active)) return false;
  count += select(active, V(1), V(0));
  const V imp = impedance(m.limit_solimp + 5 * r, beyond);
  V R = regularization(imp, lanes.limit_invweight(r));
  if (m.limit_tendonid[r] >= 0) {
    const DofRow<V> row = tendon_row(m, d, m.limit_tendonid[r]);
    R = max(R, least_regularization(m, d, row.count, row.dofs, [&](int k) { return row[k]; }));
  }
  d.limit_D[r] = select(active, V(1) / R, V(0));
  d.limit_aref[r] = -V(m.limit_B[r]) * velocity - V(m.limit_K[r]) * imp * beyond;
  return true;
}

// Limits of joints and tendons, of which those count that act in some lane (limit_active); see SingleRows and
// KeptRows.
template <class V>
struct LimitRows : KeptRows<LimitRows<V>, V> {
  using T = ScalarOf<V>;
  using KeptRows<LimitRows<V>, V>::m, KeptRows<LimitRows<V>, V>::d, KeptRows<LimitRows<V>, V>::number;
  using KeptRows<LimitRows<V>, V>::KeptRows;

  static MANIPLE_FUNCTION int most(const ModelSizes& sizes) { return sizes.nlimit; }
  // Also writes limit_active.
  static MANIPLE_FUNCTION int build(const Model<T>& m, const State<V>& s, const Data<V>& d) {
    int count = 0;
    V acting(0);  // of this member's rows
    for (int first = 0; first < m.nlimit; first += d.team.size()) {
      const int r = first + d.team.rank();
      const bool acts = r < m.nlimit && limit_row(m, s, d, r, acting);
      const int at = d.team.reserve(acts ? 1 : 0, count);
      if (acts) d.limit_active[at] = r;
    }
    const V all_acting = d.team.total(acting);
    d.team.once([&] { d.nefc[0] += all_acting; });
    return count;
  }
  template <class U>
  static MANIPLE_FUNCTION KeptFields<U> fields(const Data<U>& x) {
    return {x.limit_active, x.limit_jar, x.limit_search};
  }
  MANIPLE_FUNCTION OneSidedLaw<V> law(int i) const { return {d.limit_D[number(i)]}; }
  MANIPLE_FUNCTION OneSidedLaw<T> law_of_lane(int r, int lane) const {
    return {lane_element(d.limit_D, r, lane)};
  }
  MANIPLE_FUNCTION OneSidedLaw<V> scaled_law(int) const { return {V(1)}; }
  MANIPLE_FUNCTION V aref(int i) const { return d.limit_aref[number(i)]; }
  template <class Field>
  MANIPLE_FUNCTION V times(int i, const Field& x) const {
    const int r = number(i), dof = m.limit_dofid[r];
    if (m.limit_ballid[r] >= 0) return -dot(load3<V>(d.limit_axis, 3 * m.limit_ballid[r]), load3<V>(x, dof));
    const V side(static_cast<T>(m.limit_side[r]));
    return side * (dof >= 0 ? V(x[dof]) : V(tendon_row(m, d, m.limit_tendonid[r]).times(x)));
  }
  template <class Visit>
  MANIPLE_FUNCTION void for_each_column(int i, const Visit& visit) const {
    const int r = number(i), dof = m.limit_dofid[r], tendon = m.limit_tendonid[r], ball = m.limit_ballid[r];
    if (ball >= 0) {
      for (int k = 0; k < 3; ++k) visit(dof + k, -d.limit_axis[3 * ball + k]);
      return;
    }
    const V side(static_cast<T>(m.limit_side[r]));
    if (dof >= 0) return visit(dof, side);
    const DofRow<V> row = tendon_row(m, d, tendon);
    for (int k = 0; k < row.count; ++k) visit(row.dofs[k], side * row[k]);
  }
  template <class Visit>
  MANIPLE_FUNCTION void for_each_tree(int r, int lane, const Visit& visit) const {
    for_each_tree_of_row(m, d, m.limit_dofid[r], m.limit_tendonid[r], lane, visit);
  }
  MANIPLE_FUNCTION void add_force(int i, V force, const DataField<V> result) const {
    const int r = number(i), dof = m.limit_dofid[r];
    if (m.limit_ballid[r] >= 0) {
      for (int k = 0; k < 3; ++k) result[dof + k] -= force * d.limit_axis[3 * m.limit_ballid[r] + k];
      return;
    }
    force *= V(static_cast<T>(m.limit_side[r]));
    if (dof >= 0)
      result[dof] += force;
    else
      tendon_row(m, d, m.limit_tendonid[r]).add_force(force, result);
  }
  MANIPLE_FUNCTION void add_hessian(int i, V D) const {
    const int r = number(i), dof = m.limit_dofid[r];
    if (dof < 0) {
      add_tendon_hessian(m, d, m.limit_tendonid[r], D);
    } else if (m.limit_ballid[r] < 0) {
      d.H[hessian_address(dof, dof)] += D;
    } else {
      const Vec3<V> axis = load3<V>(d.limit_axis, 3 * m.limit_ballid[r]);
      const V component[3] = {axis.x, axis.y, axis.z};
      for (int k = 0; k < 3; ++k)
        for (int l = 0; l <= k; ++l)
          d.H[hessian_address(dof + k, dof + l)] += D * component[k] * component[l];
    }
  }
  MANIPLE_FUNCTION void row_to_wide(const Data<Wide>& x, int r, int lane) const {
    copy_to_wide(d.limit_D, lane, x.limit_D, r, 1);
    copy_to_wide(d.limit_aref, lane, x.limit_aref, r, 1);
    copy_tendon_to_wide(m, d, lane, x, m.limit_tendonid[r]);
    if (m.limit_ballid[r] >= 0) copy_to_wide(d.limit_axis, lane, x.limit_axis, 3 * m.limit_ballid[r], 3);
  }
};

// The solver's force of row r of the model, where the row acts.
template <class V>
MANIPLE_FUNCTION V limit_force(const Model<ScalarOf<V>>& m, const Data<V>& d, int r) {
  if (m.solver == solver_pgs) return d.row_force[first_row<LimitRows<V>>(m) + r];
  return OneSidedLaw<V>{d.limit_D[r]}.force(d.limit_jar[r]);
}

}  // namespace maniple
