// Forces of a fluid that fills the world, with wind, on the box that has each body's inertia (mj_fluid,
// mj_inertiaBoxFluidModel), and their derivative for implicitfast and implicit (mjd_inertiaBoxFluid). The box
// is constant: along each axis of the inertial frame the force is -(viscous + drag |v|) v, with coefficients
// that the model knows (body_fluid), and likewise the torque.
#pragma once

#include "kernels/model/lane_model.hpp"
#include "kernels/physics/smooth/dof_row.hpp"
#include "kernels/physics/smooth/motion.hpp"

namespace maniple {

// The fluid about body i: its inertial frame, and its velocity against the fluid there, in that frame.
template <class V>
struct BodyInFluid {
  Mat3<V> mat;
  Vec3<V> offset;  // of the body's center of mass from its tree's
  Spatial<V> velocity;
};
template <class V>
MANIPLE_FUNCTION BodyInFluid<V> body_in_fluid(const Model<ScalarOf<V>>& m, const Data<V>& d, int i) {
  const Mat3<V> mat = inertial_matrix(m, d, i), inverse = transpose(mat);
  const Vec3<V> offset = from_tree_center(m, d, i, load3<V>(d.xipos, 3 * i));
  const Spatial<V> velocity = velocity_at(m, d, i, offset);
  return {mat, offset, {inverse * velocity.rot, inverse * (velocity.lin - uniform3<V>(m.wind))}};
}

// (viscous + factor drag |v|) for the three axes: with factor 1 the force over -v, with 2 its derivative.
template <class V>
MANIPLE_FUNCTION Vec3<V> fluid_damping(V viscous, const Vec3<V>& drag, V factor, const Vec3<V>& v) {
  return {viscous + factor * drag.x * abs(v.x), viscous + factor * drag.y * abs(v.y),
          viscous + factor * drag.z * abs(v.z)};
}
// That of body i's rotation, and of its translation.
template <class V>
MANIPLE_FUNCTION Vec3<V> rotational_damping(const LaneModel<V>& lanes, int i, V factor, const Vec3<V>& v) {
  return fluid_damping(lanes.body_fluid(i, 0), lanes.body_fluid().vector(i, 2), factor, v);
}
template <class V>
MANIPLE_FUNCTION Vec3<V> linear_damping(const LaneModel<V>& lanes, int i, V factor, const Vec3<V>& v) {
  return fluid_damping(lanes.body_fluid(i, 1), lanes.body_fluid().vector(i, 5), factor, v);
}

// Componentwise.
template <class V>
MANIPLE_FUNCTION Vec3<V> scaled(const Vec3<V>& scale, const Vec3<V>& v) {
  return {scale.x * v.x, scale.y * v.y, scale.z * v.z};
}

// Does the fluid act on body i: it has mass, and dofs that move it.
template <class V>
MANIPLE_FUNCTION bool in_fluid(const Model<ScalarOf<V>>& m, int i) {
  return m.body_mass[i] >= ScalarOf<V>(kMinimumValue) && m.body_lastdof[i] >= 0;
}

// Writes qfrc_fluid.
template <class V>
MANIPLE_FUNCTION void fluid_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const LaneModel<V> lanes(m, s);
  for (int i = 0; i < m.nv; ++i) d.qfrc_fluid[i] = V(0);
  for (int i = 1; i < m.nbody; ++i) {
    if (!in_fluid<V>(m, i)) continue;
    const BodyInFluid<V> body = body_in_fluid(m, d, i);
    const Spatial<V>& v = body.velocity;
    const Vec3<V> torque = body.mat * scaled(rotational_damping(lanes, i, V(1), v.rot), v.rot);
    const Vec3<V> force = body.mat * scaled(linear_damping(lanes, i, V(1), v.lin), v.lin);
    const Spatial<V> about_center{torque + cross(body.offset, force), force};
    for (int k = m.body_lastdof[i]; k >= 0; k = m.dof_parentid[k])
      d.qfrc_fluid[k] -= dot(load6<V>(d.cdof, 6 * k), about_center);
  }
}

// Minus the derivative of the fluid's force on a body by the body's velocity, both spatial vectors about the
// tree's center of mass: symmetric and positive.
template <class V>
struct FluidDamping {
  Mat3<V> mat;
  Vec3<V> offset, rot, lin;

  friend MANIPLE_FUNCTION Spatial<V> operator*(const FluidDamping& damping, const Spatial<V>& motion) {
    const Mat3<V> inverse = transpose(damping.mat);
    const Vec3<V> velocity = motion.lin + cross(motion.rot, damping.offset);
    const Vec3<V> torque = damping.mat * scaled(damping.rot, inverse * motion.rot);
    const Vec3<V> force = damping.mat * scaled(damping.lin, inverse * velocity);
    return {torque + cross(damping.offset, force), force};
  }
};
template <class V>
MANIPLE_FUNCTION FluidDamping<V> fluid_damping_of_body(const Model<ScalarOf<V>>& m, const State<V>& s,
                                                       const Data<V>& d, int i) {
  const LaneModel<V> lanes(m, s);
  const BodyInFluid<V> body = body_in_fluid(m, d, i);
  return {body.mat, body.offset, rotational_damping(lanes, i, V(2), body.velocity.rot),
          linear_damping(lanes, i, V(2), body.velocity.lin)};
}

// Adds `scale` times the damping of every body, in joint space, to a matrix packed as qM: the pattern holds
// it exactly, except where MuJoCo keeps the rows of simple dofs diagonal.
template <class V>
MANIPLE_FUNCTION void add_fluid_damping(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                        V scale, const DataField<V>& matrix) {
  for (int i = 1; i < m.nbody; ++i) {
    if (!in_fluid<V>(m, i)) continue;
    const FluidDamping<V> damping = fluid_damping_of_body(m, s, d, i);
    for (int k = m.body_lastdof[i]; k >= 0; k = m.dof_parentid[k]) {
      const Spatial<V> axis = load6<V>(d.cdof, 6 * k), force = scale * (damping * axis);
      int address = m.dof_Madr[k];
      matrix[address] += dot(axis, force);
      if (keeps_diagonal(m, k)) continue;
      for (int j = m.dof_parentid[k]; j >= 0; j = m.dof_parentid[j])
        matrix[++address] += dot(load6<V>(d.cdof, 6 * j), force);
    }
  }
}

// The same for the bodies of a tree whose only joint is the free joint of `root`, to its full 6x6 block.
template <class V>
MANIPLE_FUNCTION void add_free_fluid_damping(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                             int root, int dof, V scale, V (&a)[36]) {
  for (int body = root; body < root + m.body_freealone[root]; ++body) {
    if (!in_fluid<V>(m, body)) continue;
    const FluidDamping<V> damping = fluid_damping_of_body(m, s, d, body);
    for (int i = 0; i < 6; ++i) {
      const Spatial<V> force = scale * (damping * load6<V>(d.cdof, 6 * (dof + i)));
      for (int j = 0; j < 6; ++j) a[6 * i + j] += dot(load6<V>(d.cdof, 6 * (dof + j)), force);
    }
  }
}

}  // namespace maniple
