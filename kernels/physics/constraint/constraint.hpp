// Constraint rows of joints and tendons: dry friction and limits (mj_instantiateFriction,
// mj_instantiateLimit, mj_makeImpedance, mj_referenceConstraint). Every row has a place of its own that the
// model knows, so that lanes with different active limits need no bookkeeping: a limit that does not act has
// D = 0. Their Jacobians are unit vectors, the rotation axis of a ball joint, or a tendon's row of ten_rowJ.
//
// What a row does at its residual is in row_law.hpp.
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/model/data.hpp"
#include "kernels/physics/constraint/row_law.hpp"
#include "kernels/physics/smooth/tendon.hpp"

namespace maniple {

// Address of element (i, j) of the Hessian H, j <= i.
MANIPLE_FUNCTION int hessian_address(int i, int j) {
  return i * (i + 1) / 2 + j;
}

// a to the power of b; the powers that models use cost no function.
template <class V>
MANIPLE_FUNCTION V impedance_power(V a, ScalarOf<V> b) {
  if (b == 1) return a;
  if (b == 2) return a * a;
  return pow(a, V(b));
}

// Impedance d at the distance `beyond` of the margin: rises from solimp[0] to solimp[1] over the width
// solimp[2], as a power function about the midpoint (getimpedance).
template <class V>
MANIPLE_FUNCTION V impedance(const ScalarOf<V>* solimp, V beyond) {
  using T = ScalarOf<V>;
  const T start = solimp[0], end = solimp[1], width = solimp[2], midpoint = solimp[3], exponent = solimp[4];
  if (start == end || width <= T(kMinimumValue)) return V(T(0.5) * (start + end));
  const V x = min(abs(beyond) / V(width), V(1));
  V y = x;
  if (exponent != 1) {
    const V below = impedance_power(x, exponent) / impedance_power(V(midpoint), exponent - 1);
    const V above =
        V(1) - impedance_power(V(1) - x, exponent) / impedance_power(V(1) - V(midpoint), exponent - 1);
    y = select(x <= V(midpoint), below, above);
  }
  return select(x >= V(1), V(end), V(start) + y * V(end - start));
}

// H += J' D J of a row along tendon t.
template <class V>
MANIPLE_FUNCTION void add_tendon_hessian(const Model<ScalarOf<V>>& m, int t, V D, const DataField<V> H) {
  const int first = m.ten_J_rowadr[t], last = first + m.ten_J_rownnz[t];
  for (int k = first; k < last; ++k)
    for (int l = first; l <= k; ++l)
      H[hessian_address(m.ten_J_colind[k], m.ten_J_colind[l])] += V(m.ten_rowJ[k] * m.ten_rowJ[l]) * D;
}

// Regularization R of a row with this impedance; `invweight` approximates the diagonal of J M^-1 J'.
template <class V>
MANIPLE_FUNCTION V regularization(V impedance, V invweight) {
  return max((V(1) - impedance) * invweight / impedance, V(kMinimumValue));
}

// Writes limit_D, limit_aref and limit_axis of row r if it acts in some lane, and counts it in these lanes.
// Returns whether it does.
template <class V>
MANIPLE_FUNCTION bool limit_row(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int r,
                                V& count) {
  const int dof = m.limit_dofid[r], tendon = m.limit_tendonid[r];
  V distance, velocity;
  if (m.limit_ballid[r] < 0) {
    const V side(static_cast<ScalarOf<V>>(m.limit_side[r]));
    const V position = tendon < 0 ? V(s.qpos[m.limit_qposadr[r]]) : V(d.ten_length[tendon]);
    distance = side * (position - V(m.limit_bound[r]));
    velocity = side * (tendon < 0 ? V(s.qvel[dof]) : tendon_jacobian_times<V>(m, m.ten_rowJ, tendon, s.qvel));
  } else {
    const Vec3<V> rotation = rotation_vector(normalize(load4<V>(s.qpos, m.limit_qposadr[r])));
    const V angle = sqrt(dot(rotation, rotation));
    const Vec3<V> axis = normalize(rotation);
    store3(d.limit_axis, 3 * m.limit_ballid[r], axis);
    distance = V(m.limit_bound[r]) - angle;
    velocity = -dot(axis, load3<V>(s.qvel, dof));
  }
  const V beyond = distance - V(m.limit_margin[r]);
  const MaskOf<V> active = beyond < V(0);
  if (!any_lane(active)) return false;
  count += select(active, V(1), V(0));
  const V d_of_row = impedance(m.limit_solimp + 5 * r, beyond);
  d.limit_D[r] = select(active, V(1) / regularization(d_of_row, V(m.limit_invweight[r])), V(0));
  d.limit_aref[r] = -V(m.limit_B[r]) * velocity - V(m.limit_K[r]) * d_of_row * beyond;
  return true;
}

// All rows of limits, and limit_active. Returns how many rows act in some lane. Adds to nefc.
template <class V>
MANIPLE_FUNCTION int limit_rows(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  int count = 0;
  V acting(0);  // of this member's rows
  for (int first = 0; first < m.nlimit; first += d.team.size()) {
    const int r = first + d.team.rank();
    const bool acts = r < m.nlimit && limit_row(m, s, d, r, acting);
    const int place = d.team.reserve(acts ? 1 : 0, count);
    if (acts) d.limit_active[place] = r;
  }
  const V all_acting = d.team.total(acting);
  d.team.once([&] { d.nefc[0] += all_acting; });
  return count;
}

// J x of limit row r.
template <class V, class Field>
MANIPLE_FUNCTION V limit_jacobian_times(const Model<ScalarOf<V>>& m, const Data<V>& d, int r,
                                        const Field& x) {
  const int dof = m.limit_dofid[r];
  if (m.limit_ballid[r] >= 0) return -dot(load3<V>(d.limit_axis, 3 * m.limit_ballid[r]), load3<V>(x, dof));
  const V side(static_cast<ScalarOf<V>>(m.limit_side[r]));
  return side * (dof >= 0 ? V(x[dof]) : tendon_jacobian_times<V>(m, m.ten_rowJ, m.limit_tendonid[r], x));
}

// result += J' force of limit row r.
template <class V>
MANIPLE_FUNCTION void add_limit_force(const Model<ScalarOf<V>>& m, const Data<V>& d, int r, V force,
                                      const DataField<V> result) {
  const int dof = m.limit_dofid[r];
  if (m.limit_ballid[r] >= 0) {
    for (int k = 0; k < 3; ++k) result[dof + k] -= force * d.limit_axis[3 * m.limit_ballid[r] + k];
    return;
  }
  force *= V(static_cast<ScalarOf<V>>(m.limit_side[r]));
  if (dof >= 0)
    result[dof] += force;
  else
    add_tendon_force(m, m.ten_rowJ, m.limit_tendonid[r], force, result);
}

// H += J' D J of limit row r.
template <class V>
MANIPLE_FUNCTION void add_limit_hessian(const Model<ScalarOf<V>>& m, const Data<V>& d, int r, V D) {
  const int dof = m.limit_dofid[r];
  if (dof < 0) {
    add_tendon_hessian(m, m.limit_tendonid[r], D, d.H);
  } else if (m.limit_ballid[r] < 0) {
    d.H[hessian_address(dof, dof)] += D;
  } else {
    const Vec3<V> axis = load3<V>(d.limit_axis, 3 * m.limit_ballid[r]);
    const V component[3] = {axis.x, axis.y, axis.z};
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j <= i; ++j) d.H[hessian_address(dof + i, dof + j)] += D * component[i] * component[j];
  }
}

template <class V>
MANIPLE_FUNCTION BoundedLaw<V> friction_law(const Model<ScalarOf<V>>& m, int r) {
  return {m.friction_D[r], m.friction_loss[r]};
}

// J x of friction row r.
template <class V, class Field>
MANIPLE_FUNCTION V friction_jacobian_times(const Model<ScalarOf<V>>& m, int r, const Field& x) {
  const int dof = m.friction_dofid[r];
  return dof >= 0 ? V(x[dof]) : tendon_jacobian_times<V>(m, m.ten_rowJ, m.friction_tendonid[r], x);
}

// Writes friction_aref.
template <class V>
MANIPLE_FUNCTION void friction_rows(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (const int r : d.team.share(m.nfriction))
    d.friction_aref[r] = -V(m.friction_B[r]) * friction_jacobian_times<V>(m, r, s.qvel);
}

// jar of friction row r for the acceleration x.
template <class V, class Field>
MANIPLE_FUNCTION V friction_jar(const Model<ScalarOf<V>>& m, const Data<V>& d, int r, const Field& x) {
  return friction_jacobian_times<V>(m, r, x) - d.friction_aref[r];
}

// result += J' force of friction row r.
template <class V>
MANIPLE_FUNCTION void add_friction_force(const Model<ScalarOf<V>>& m, int r, V force,
                                         const DataField<V> result) {
  const int dof = m.friction_dofid[r];
  if (dof >= 0)
    result[dof] += force;
  else
    add_tendon_force(m, m.ten_rowJ, m.friction_tendonid[r], force, result);
}

// The solver's force of friction row r and of limit row r. Newton's method leaves accelerations, the dual
// solver leaves row_force, where friction comes first, then limits, then four edges of each contact slot.
template <class V>
MANIPLE_FUNCTION V friction_force(const Model<ScalarOf<V>>& m, const Data<V>& d, int r) {
  if (m.solver == solver_pgs) return d.row_force[r];
  return friction_law<V>(m, r).force(friction_jar(m, d, r, d.qacc));
}
template <class T>
MANIPLE_FUNCTION int row_of_limit(const Model<T>& m, int r) {
  return m.nfriction + r;
}
template <class V>
MANIPLE_FUNCTION V limit_force(const Model<ScalarOf<V>>& m, const Data<V>& d, int r) {
  if (m.solver == solver_pgs) return d.row_force[row_of_limit(m, r)];
  return OneSidedLaw<V>{d.limit_D[r]}.force(d.limit_jar[r]);
}

}  // namespace maniple
