// Tendons: lengths, velocities, springs with a deadband, dampers, armature, and their part of the matrix of
// implicitfast and implicit (mj_tendon, mj_springdamper, mj_tendonArmature, mj_tendonBias, mjd_passive_vel).
// The Jacobian of a spatial tendon (spatial_tendon.hpp) depends on the pose; the length of a fixed one is a
// weighted sum of joint positions, so that its Jacobian is constant.
#pragma once

#include "kernels/model/data.hpp"
#include "kernels/physics/smooth/dof_row.hpp"
#include "kernels/physics/smooth/spatial_tendon.hpp"

namespace maniple {

// Row t of the Jacobian of lengths.
template <class V>
MANIPLE_FUNCTION DofRow<V> tendon_jacobian(const Model<ScalarOf<V>>& m, const Data<V>& d, int t) {
  if (m.ten_J_spatialadr[t] >= 0) return spatial_row(m, d, t);
  const int first = m.ten_J_rowadr[t];
  return {m.ten_J_rownnz[t], m.ten_J_colind + first, m.ten_J + first, DataField<V>()};
}
// The same as the tendon's constraint rows have it: see derive_tendons.
template <class V>
MANIPLE_FUNCTION DofRow<V> tendon_row(const Model<ScalarOf<V>>& m, const Data<V>& d, int t) {
  DofRow<V> row = tendon_jacobian(m, d, t);
  if (row.uniform != nullptr) row.uniform = m.ten_rowJ + m.ten_J_rowadr[t];
  return row;
}

// Writes ten_length, and ten_J of spatial tendons.
template <class V>
MANIPLE_FUNCTION void tendon_lengths(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (const int t : d.team.share(m.ntendon)) {
    if (m.ten_J_spatialadr[t] >= 0) {
      spatial_tendon(m, s, d, t);
      continue;
    }
    V length(0);
    for (int k = m.ten_J_rowadr[t], end = k + m.ten_J_rownnz[t]; k < end; ++k)
      length += V(m.ten_J[k]) * s.qpos[m.jnt_qposadr[m.dof_jntid[m.ten_J_colind[k]]]];
    d.ten_length[t] = length;
  }
}

// Writes ten_velocity.
template <class V>
MANIPLE_FUNCTION void tendon_velocities(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (const int t : d.team.share(m.ntendon)) d.ten_velocity[t] = tendon_jacobian(m, d, t).times(s.qvel);
}

// Adds the armature of tendons to qM.
template <class V>
MANIPLE_FUNCTION void add_tendon_inertia(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  for (int t = 0; t < m.ntendon; ++t)
    if (m.tendon_totalarmature[t] != 0)
      add_product(m, tendon_jacobian(m, d, t), V(m.tendon_totalarmature[t]), d.qM, true);
}
// Adds the forces that their Jacobians make by changing to qfrc_bias.
template <class V>
MANIPLE_FUNCTION void add_tendon_bias(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (int t = 0; t < m.ntendon; ++t) {
    if (m.tendon_totalarmature[t] == 0 || m.ten_J_spatialadr[t] < 0) continue;
    const V drift = spatial_tendon_drift(m, s, d, t);
    tendon_jacobian(m, d, t).add_force(V(m.tendon_totalarmature[t]) * drift, d.qfrc_bias);
  }
}

// Force of the spring of tendon t, none between the two ends of tendon_lengthspring.
template <class V>
MANIPLE_FUNCTION V tendon_spring_force(const Model<ScalarOf<V>>& m, const Data<V>& d, int t) {
  const ScalarOf<V>* poly = m.tendon_stiffnesspoly + 2 * t;
  const V length = d.ten_length[t];
  const V lower(m.tendon_lengthspring[2 * t]), upper(m.tendon_lengthspring[2 * t + 1]);
  const V x = select(length > upper, length - upper, select(length < lower, length - lower, V(0)));
  return -x * (V(m.tendon_stiffness[t]) + x * (V(poly[0]) + x * V(poly[1])));
}
template <class V>
MANIPLE_FUNCTION bool tendon_is_sprung(const Model<ScalarOf<V>>& m, int t) {
  const ScalarOf<V>* poly = m.tendon_stiffnesspoly + 2 * t;
  return m.tendon_stiffness[t] != 0 || poly[0] != 0 || poly[1] != 0;
}

// Adds the springs of tendons to qfrc_spring.
template <class V>
MANIPLE_FUNCTION void add_tendon_springs(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  for (int t = 0; t < m.ntendon; ++t)
    if (tendon_is_sprung<V>(m, t))
      tendon_jacobian(m, d, t).add_force(tendon_spring_force(m, d, t), d.qfrc_spring);
}

// Force of the dampers of tendon t, those of its actuators included.
template <class V>
MANIPLE_FUNCTION V tendon_damper_force(const Model<ScalarOf<V>>& m, const Data<V>& d, int t) {
  const ScalarOf<V>* poly = m.tendon_totaldampingpoly + 2 * t;
  const V velocity = d.ten_velocity[t], v = abs(velocity);
  return -velocity * (V(m.tendon_totaldamping[t]) + v * (V(poly[0]) + v * V(poly[1])));
}
template <class V>
MANIPLE_FUNCTION bool tendon_is_damped(const Model<ScalarOf<V>>& m, int t) {
  const ScalarOf<V>* poly = m.tendon_totaldampingpoly + 2 * t;
  return m.tendon_totaldamping[t] != 0 || poly[0] != 0 || poly[1] != 0;
}

// Adds the dampers of tendons to qfrc_damper.
template <class V>
MANIPLE_FUNCTION void add_tendon_dampers(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  for (int t = 0; t < m.ntendon; ++t)
    if (tendon_is_damped<V>(m, t))
      tendon_jacobian(m, d, t).add_force(tendon_damper_force(m, d, t), d.qfrc_damper);
}

// Derivative of the force of tendon t's dampers by its velocity, negative.
template <class V>
MANIPLE_FUNCTION V tendon_damping_derivative(const Model<ScalarOf<V>>& m, const Data<V>& d, int t) {
  const ScalarOf<V>* poly = m.tendon_totaldampingpoly + 2 * t;
  const V v = abs(V(d.ten_velocity[t]));
  return V(m.tendon_totaldamping[t]) + v * (V(2) * V(poly[0]) + v * (V(3) * V(poly[1])));
}

// Adds `scale` times the derivative of the dampers' forces by -qvel to a matrix packed as qM.
template <class V>
MANIPLE_FUNCTION void add_tendon_damping(const Model<ScalarOf<V>>& m, const Data<V>& d, V scale,
                                         const DataField<V>& matrix) {
  for (int t = 0; t < m.ntendon; ++t)
    if (tendon_is_damped<V>(m, t))
      add_product(m, tendon_jacobian(m, d, t), scale * tendon_damping_derivative(m, d, t), matrix);
}

}  // namespace maniple
