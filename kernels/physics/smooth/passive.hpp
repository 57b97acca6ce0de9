// Forces that need no control: springs, dampers, gravity compensation and fluid (mj_passive).
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/model/lane_model.hpp"
#include "kernels/physics/smooth/fluid.hpp"
#include "kernels/physics/smooth/tendon.hpp"

namespace maniple {

// Stiffness k + p0 x + p1 x^2 of joint j at the displacement x: mju_polyForce.
template <class V>
MANIPLE_FUNCTION V spring_stiffness(const Model<ScalarOf<V>>& m, const State<V>& s, int j, V x) {
  const V linear = LaneModel<V>(m, s).jnt_stiffness(j);
  if (!(m.jnt_flags[j] & joint_spring_poly)) return linear;
  return linear + x * (V(m.jnt_stiffnesspoly[2 * j]) + x * V(m.jnt_stiffnesspoly[2 * j + 1]));
}

// Damping b + p0 |v| + p1 v^2 of dof i at its velocity, and the derivative of v times that.
template <class V>
MANIPLE_FUNCTION V damping_coefficient(const Model<ScalarOf<V>>& m, const State<V>& s, int i, V velocity) {
  const V linear = LaneModel<V>(m, s).dof_totaldamping(i);
  if (!(m.flags & model_damping_poly)) return linear;
  const V v = abs(velocity);
  return linear + v * (V(m.dof_totaldampingpoly[2 * i]) + v * V(m.dof_totaldampingpoly[2 * i + 1]));
}
template <class V>
MANIPLE_FUNCTION V damping_derivative(const Model<ScalarOf<V>>& m, const State<V>& s, int i, V velocity) {
  const V linear = LaneModel<V>(m, s).dof_totaldamping(i);
  if (!(m.flags & model_damping_poly)) return linear;
  const V v = abs(velocity);
  return linear +
         v * (V(2) * V(m.dof_totaldampingpoly[2 * i]) + v * (V(3) * V(m.dof_totaldampingpoly[2 * i + 1])));
}

template <class V>
MANIPLE_FUNCTION void spring_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (const int j : d.team.share(m.njnt)) {
    if (!(m.jnt_flags[j] & joint_sprung)) continue;
    const int type = m.jnt_type[j];
    int q = m.jnt_qposadr[j], dof = m.jnt_dofadr[j];
    if (type == joint_slide || type == joint_hinge) {
      const V x = s.qpos[q] - V(m.qpos_spring[q]);
      d.qfrc_spring[dof] = -x * spring_stiffness(m, s, j, x);
      continue;
    }
    if (type == joint_free) {
      const Vec3<V> x = load3<V>(s.qpos, q) - uniform3<V>(m.qpos_spring + q);
      store3(d.qfrc_spring, dof, -spring_stiffness(m, s, j, V(sqrt(dot(x, x)))) * x);
      q += 3;
      dof += 3;
    }
    const Vec3<V> x = difference(normalize(load4<V>(s.qpos, q)), uniform4<V>(m.qpos_spring + q));
    store3(d.qfrc_spring, dof, -spring_stiffness(m, s, j, V(sqrt(dot(x, x)))) * x);
  }
}

// Forces against gravity at the centers of mass: qfrc_gravcomp.
template <class V>
MANIPLE_FUNCTION void gravity_compensation(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const LaneModel<V> lanes(m, s);
  const Vec3<V> gravity = lanes.gravity().vector(0);
  for (int i = 1; i < m.nbody; ++i) {
    if (m.body_gravcomp[i] == 0) continue;
    const Vec3<V> force = (-lanes.body_mass(i) * V(m.body_gravcomp[i])) * gravity;
    const Vec3<V> offset = load3<V>(d.xipos, 3 * i) - load3<V>(d.subtree_com, 3 * m.body_rootid[i]);
    const Vec3<V> torque = cross(offset, force);
    for (int k = m.body_lastdof[i]; k >= 0; k = m.dof_parentid[k])
      d.qfrc_gravcomp[k] += dot(load3<V>(d.cdof, 6 * k), torque) + dot(load3<V>(d.cdof, 6 * k + 3), force);
  }
}

// Writes qfrc_spring, qfrc_damper, qfrc_gravcomp, qfrc_passive, and qfrc_fluid if there is a fluid.
template <class V>
MANIPLE_SUBSTAGE void passive_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const int nv = m.nv;
  for (const int i : d.team.share(nv)) {
    d.qfrc_spring[i] = V(0);
    d.qfrc_gravcomp[i] = V(0);
    d.qfrc_damper[i] =
        m.flags & model_dampers ? -s.qvel[i] * damping_coefficient(m, s, i, V(s.qvel[i])) : V(0);
  }
  if (m.flags & model_springs) spring_forces(m, s, d);
  if (m.flags & model_tendon_springs) d.team.once([&] { add_tendon_springs(m, d); });
  if (m.flags & model_tendon_dampers) d.team.once([&] { add_tendon_dampers(m, d); });
  for (const int i : d.team.share(nv)) d.qfrc_passive[i] = d.qfrc_spring[i] + d.qfrc_damper[i];
  if (m.flags & model_fluid) {
    d.team.once([&] { fluid_forces(m, s, d); });
    for (const int i : d.team.share(nv)) d.qfrc_passive[i] += d.qfrc_fluid[i];
  }
  if (!(m.flags & model_gravcomp)) return;
  d.team.once([&] { gravity_compensation(m, s, d); });
  for (const int i : d.team.share(nv))
    if (!m.jnt_actgravcomp[m.dof_jntid[i]]) d.qfrc_passive[i] += d.qfrc_gravcomp[i];
}

}  // namespace maniple
