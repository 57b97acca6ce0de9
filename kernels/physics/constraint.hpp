// Constraint rows of joints: dry friction of dofs and joint limits (mj_instantiateFriction,
// mj_instantiateLimit, mj_makeImpedance, mj_referenceConstraint). Every row has a place of its own that the
// model knows, so that lanes with different active limits need no bookkeeping: a limit that does not act has
// D = 0. Their Jacobians are unit vectors, or the rotation axis of a ball joint.
//
// A row turns jar = J qacc - aref into a force and a cost. A limit only pushes: force -D jar where jar < 0.
// Dry friction is the same within its largest force, and constant beyond (mj_constraintUpdate).
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/math/vector.hpp"
#include "kernels/model/data.hpp"

namespace maniple {

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

// Writes limit_D, limit_aref, limit_axis and limit_active. Returns how many rows act in some lane. Adds to
// nefc.
template <class V>
MANIPLE_FUNCTION int limit_rows(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  int count = 0;
  for (int r = 0; r < m.nlimit; ++r) {
    const int joint = m.limit_jntid[r], q = m.jnt_qposadr[joint], dof = m.jnt_dofadr[joint];
    V distance, velocity;
    if (m.limit_ballid[r] < 0) {
      const V side(static_cast<ScalarOf<V>>(m.limit_side[r]));
      distance = side * (s.qpos[q] - V(m.limit_bound[r]));
      velocity = side * s.qvel[dof];
    } else {
      const Vec3<V> rotation = rotation_vector(normalize(load4<V>(s.qpos, q)));
      const V angle = sqrt(dot(rotation, rotation));
      const MaskOf<V> zero = angle < V(kMinimumValue);
      const V scale = V(1) / select(zero, V(1), angle);
      const Vec3<V> axis{select(zero, V(1), rotation.x * scale), select(zero, V(0), rotation.y * scale),
                         select(zero, V(0), rotation.z * scale)};
      store3(d.limit_axis, 3 * m.limit_ballid[r], axis);
      distance = V(m.limit_bound[r]) - angle;
      velocity = -dot(axis, load3<V>(s.qvel, dof));
    }
    const V beyond = distance - V(m.jnt_margin[joint]);
    const MaskOf<V> active = beyond < V(0);
    if (!any_lane(active)) continue;
    d.limit_active[count++] = r;
    d.nefc[0] += select(active, V(1), V(0));
    const V d_of_row = impedance(m.limit_solimp + 5 * r, beyond);
    const V R = max((V(1) - d_of_row) * V(m.dof_invweight0[dof]) / d_of_row, V(kMinimumValue));
    d.limit_D[r] = select(active, V(1) / R, V(0));
    d.limit_aref[r] = -V(m.limit_B[r]) * velocity - V(m.limit_K[r]) * d_of_row * beyond;
  }
  return count;
}

// J x of limit row r.
template <class V, class Field>
MANIPLE_FUNCTION V limit_jacobian_times(const Model<ScalarOf<V>>& m, const Data<V>& d, int r,
                                        const Field& x) {
  const int dof = m.jnt_dofadr[m.limit_jntid[r]];
  if (m.limit_ballid[r] < 0) return V(static_cast<ScalarOf<V>>(m.limit_side[r])) * x[dof];
  return -dot(load3<V>(d.limit_axis, 3 * m.limit_ballid[r]), load3<V>(x, dof));
}

// What a friction row does at `jar`: force, cost, and the second derivative of the cost.
template <class V>
struct FrictionRow {
  V force, cost, curvature;
};
template <class V>
MANIPLE_FUNCTION FrictionRow<V> friction_row(const Model<ScalarOf<V>>& m, int r, V jar) {
  using T = ScalarOf<V>;
  const V D(m.friction_D[r]), loss(m.friction_loss[r]), zone(m.friction_loss[r] / m.friction_D[r]);
  const MaskOf<V> linear = abs(jar) >= zone;
  const V quadratic = V(T(0.5)) * D * jar * jar;
  return {select(linear, copysign(loss, -jar), -D * jar),
          select(linear, loss * (abs(jar) - V(T(0.5)) * zone), quadratic), select(linear, V(0), D)};
}

// jar of friction row r for the acceleration x.
template <class V, class Field>
MANIPLE_FUNCTION V friction_jar(const Model<ScalarOf<V>>& m, const State<V>& s, int r, const Field& x) {
  const int dof = m.friction_dofid[r];
  return x[dof] + V(m.friction_B[r]) * s.qvel[dof];
}

// The solver's force of friction row r and of limit row r. Newton's method leaves accelerations, the dual
// solver leaves row_force, where friction comes first, then limits, then four edges of each contact slot.
template <class V>
MANIPLE_FUNCTION V friction_force(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int r) {
  if (m.solver == solver_pgs) return d.row_force[r];
  return friction_row(m, r, friction_jar(m, s, r, d.qacc)).force;
}
template <class T>
MANIPLE_FUNCTION int row_of_limit(const Model<T>& m, int r) {
  return m.nfriction + r;
}
template <class V>
MANIPLE_FUNCTION V limit_force(const Model<ScalarOf<V>>& m, const Data<V>& d, int r) {
  if (m.solver == solver_pgs) return d.row_force[row_of_limit(m, r)];
  return -d.limit_D[r] * min(V(d.limit_jar[r]), V(0));
}

}  // namespace maniple
