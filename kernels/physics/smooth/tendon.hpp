// Fixed tendons: lengths, velocities, springs with a deadband, dampers, and what they add to the matrix of
// implicitfast (mj_tendon, mj_springdamper, mjd_passive_vel). The length is a weighted sum of joint
// positions, so the Jacobian is constant: row t is ten_J, at the dofs ten_J_colind, ten_J_rownnz[t] numbers
// from ten_J_rowadr[t] on, dofs ascending; constraint rows use ten_rowJ instead.
#pragma once

#include "kernels/model/data.hpp"

namespace maniple {

// J x of tendon t; J is ten_J or ten_rowJ.
template <class V, class Field>
MANIPLE_FUNCTION V tendon_jacobian_times(const Model<ScalarOf<V>>& m, const ScalarOf<V>* J, int t,
                                         const Field x) {
  V sum(0);
  for (int k = m.ten_J_rowadr[t], end = k + m.ten_J_rownnz[t]; k < end; ++k)
    sum += V(J[k]) * x[m.ten_J_colind[k]];
  return sum;
}

// result += J' force of tendon t; J is ten_J or ten_rowJ.
template <class V>
MANIPLE_FUNCTION void add_tendon_force(const Model<ScalarOf<V>>& m, const ScalarOf<V>* J, int t, V force,
                                       const DataField<V> result) {
  for (int k = m.ten_J_rowadr[t], end = k + m.ten_J_rownnz[t]; k < end; ++k)
    result[m.ten_J_colind[k]] += V(J[k]) * force;
}

// Adds scale * J'J of tendon t to a matrix packed as qM. Such a matrix has no elements for dofs of different
// branches: as in MuJoCo, their products are left out, and so are those of simple dofs off the diagonal.
template <class V>
MANIPLE_FUNCTION void add_tendon_product(const Model<ScalarOf<V>>& m, int t, V scale,
                                         const DataField<V>& matrix) {
  const int first = m.ten_J_rowadr[t], end = first + m.ten_J_rownnz[t];
  for (int a = first; a < end; ++a) {
    const int dof = m.ten_J_colind[a];
    const V factor = V(m.ten_J[a]) * scale;
    matrix[m.dof_Madr[dof]] += factor * V(m.ten_J[a]);
    if (m.dof_simplenum[dof] > 0) continue;
    int address = m.dof_Madr[dof], ancestor = dof;
    for (int b = a - 1; b >= first; --b) {
      while (ancestor > m.ten_J_colind[b]) {
        ancestor = m.dof_parentid[ancestor];
        ++address;
      }
      if (ancestor == m.ten_J_colind[b]) matrix[address] += factor * V(m.ten_J[b]);
    }
  }
}

// Writes ten_length.
template <class V>
MANIPLE_FUNCTION void tendon_lengths(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (const int t : d.team.share(m.ntendon)) {
    V length(0);
    for (int k = m.ten_J_rowadr[t], end = k + m.ten_J_rownnz[t]; k < end; ++k)
      length += V(m.ten_J[k]) * s.qpos[m.jnt_qposadr[m.dof_jntid[m.ten_J_colind[k]]]];
    d.ten_length[t] = length;
  }
}

// Writes ten_velocity.
template <class V>
MANIPLE_FUNCTION void tendon_velocities(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (const int t : d.team.share(m.ntendon))
    d.ten_velocity[t] = tendon_jacobian_times<V>(m, m.ten_J, t, s.qvel);
}

// Adds the springs of tendons to qfrc_spring. Between the two ends of tendon_lengthspring there is no force.
template <class V>
MANIPLE_FUNCTION void add_tendon_springs(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  for (int t = 0; t < m.ntendon; ++t) {
    const ScalarOf<V>* poly = m.tendon_stiffnesspoly + 2 * t;
    if (m.tendon_stiffness[t] == 0 && poly[0] == 0 && poly[1] == 0) continue;
    const V length = d.ten_length[t];
    const V lower(m.tendon_lengthspring[2 * t]), upper(m.tendon_lengthspring[2 * t + 1]);
    const V x = select(length > upper, length - upper, select(length < lower, length - lower, V(0)));
    add_tendon_force(m, m.ten_J, t, -x * (V(m.tendon_stiffness[t]) + x * (V(poly[0]) + x * V(poly[1]))),
                     d.qfrc_spring);
  }
}

template <class V>
MANIPLE_FUNCTION bool tendon_is_damped(const Model<ScalarOf<V>>& m, int t) {
  const ScalarOf<V>* poly = m.tendon_totaldampingpoly + 2 * t;
  return m.tendon_totaldamping[t] != 0 || poly[0] != 0 || poly[1] != 0;
}

// Adds the dampers of tendons, and of the actuators on them, to qfrc_damper.
template <class V>
MANIPLE_FUNCTION void add_tendon_dampers(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  for (int t = 0; t < m.ntendon; ++t) {
    if (!tendon_is_damped<V>(m, t)) continue;
    const ScalarOf<V>* poly = m.tendon_totaldampingpoly + 2 * t;
    const V velocity = d.ten_velocity[t], v = abs(velocity);
    add_tendon_force(m, m.ten_J, t,
                     -velocity * (V(m.tendon_totaldamping[t]) + v * (V(poly[0]) + v * V(poly[1]))),
                     d.qfrc_damper);
  }
}

// Adds `scale` times the derivative of the dampers' forces by -qvel to a matrix packed as qM.
template <class V>
MANIPLE_FUNCTION void add_tendon_damping(const Model<ScalarOf<V>>& m, const Data<V>& d, V scale,
                                         const DataField<V>& matrix) {
  for (int t = 0; t < m.ntendon; ++t) {
    if (!tendon_is_damped<V>(m, t)) continue;
    const ScalarOf<V>* poly = m.tendon_totaldampingpoly + 2 * t;
    const V v = abs(V(d.ten_velocity[t]));
    const V derivative = V(m.tendon_totaldamping[t]) + v * (V(2) * V(poly[0]) + v * (V(3) * V(poly[1])));
    add_tendon_product(m, t, scale * derivative, matrix);
  }
}

}  // namespace maniple
