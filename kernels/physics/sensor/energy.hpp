// Potential and kinetic energy (mj_energyPos, mj_energyVel), from the bodies' poses and velocities alone, so
// that they are known without the inertia matrix.
#pragma once

#include "kernels/physics/sensor/subtree.hpp"
#include "kernels/physics/smooth/passive.hpp"

namespace maniple {

// Energy [J] of a spring of the stiffness k + poly[0] x + poly[1] x^2 at the displacement x
// (mju_polyPotential).
template <class V>
MANIPLE_FUNCTION V spring_energy(V k, const ScalarOf<V>* poly, V x) {
  using T = ScalarOf<V>;
  return x * x * (V(T(0.5)) * k + x * (V(poly[0] / T(3)) + x * V(poly[1] / T(4))));
}

// Of gravity and of all springs [J].
template <class V>
MANIPLE_STAGE V potential_energy(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const LaneModel<V> lanes(m, s);
  V energy(0);
  if (!(m.disableflags & disable_gravity)) {
    const Vec3<V> gravity = lanes.gravity().vector(0);
    for (int i = 1; i < m.nbody; ++i) energy -= lanes.body_mass(i) * dot(gravity, load3<V>(d.xipos, 3 * i));
  }
  if (m.disableflags & disable_spring) return energy;
  for (int j = 0; j < m.njnt; ++j) {
    if (!(m.jnt_flags[j] & joint_sprung)) continue;
    const auto add = [&](V x) {
      energy += spring_energy(lanes.jnt_stiffness(j), m.jnt_stiffnesspoly + 2 * j, x);
    };
    const int type = m.jnt_type[j];
    int q = m.jnt_qposadr[j];
    if (type == joint_slide || type == joint_hinge) {
      add(s.qpos[q] - V(m.qpos_spring[q]));
      continue;
    }
    if (type == joint_free) {
      const Vec3<V> x = load3<V>(s.qpos, q) - uniform3<V>(m.qpos_spring + q);
      add(sqrt(dot(x, x)));
      q += 3;
    }
    const Vec3<V> x = difference(normalize(load4<V>(s.qpos, q)), uniform4<V>(m.qpos_spring + q));
    add(sqrt(dot(x, x)));
  }
  for (int t = 0; t < m.ntendon; ++t) {
    const V length = d.ten_length[t];
    const V x = length - clamp(length, V(m.tendon_lengthspring[2 * t]), V(m.tendon_lengthspring[2 * t + 1]));
    energy += spring_energy(V(m.tendon_stiffness[t]), m.tendon_stiffnesspoly + 2 * t, x);
  }
  return energy;
}

// Of bodies, rotors and the inertia of tendons [J].
template <class V>
MANIPLE_STAGE V kinetic_energy(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const LaneModel<V> lanes(m, s);
  V twice(0);
  for (int i = 1; i < m.nbody; ++i) {
    if (m.body_lastdof[i] < 0) continue;
    const Spatial<V> velocity = velocity_of_center(m, d, i);
    const Vec3<V> inertia = lanes.body_inertia().vector(i),
                  turn = transpose(inertial_matrix(m, d, i)) * velocity.rot;
    twice += lanes.body_mass(i) * dot(velocity.lin, velocity.lin);
    twice += inertia.x * turn.x * turn.x + inertia.y * turn.y * turn.y + inertia.z * turn.z * turn.z;
  }
  for (int i = 0; i < m.nv; ++i) twice += lanes.dof_totalarmature(i) * s.qvel[i] * s.qvel[i];
  for (int t = 0; t < m.ntendon; ++t)
    twice += V(m.tendon_totalarmature[t]) * d.ten_velocity[t] * d.ten_velocity[t];
  return V(ScalarOf<V>(0.5)) * twice;
}

}  // namespace maniple
