// Forces of a fluid that fills the world, with wind (mj_fluid): on the box that has each body's inertia
// (mj_inertiaBoxFluidModel), or on those of its geoms that are ellipsoids (ellipsoid_fluid.hpp), and their
// derivative for implicitfast and implicit (mjd_inertiaBoxFluid). The box is constant: along each axis of the
// inertial frame the force is -(viscous + drag |v|) v, with coefficients that the model knows (body_fluid),
// and likewise the torque.
#pragma once

#include "kernels/model/lane_model.hpp"
#include "kernels/physics/smooth/dof_row.hpp"
#include "kernels/physics/smooth/ellipsoid_fluid.hpp"
#include "kernels/physics/smooth/motion.hpp"

namespace maniple {

// A frame of a body in the fluid, and its velocity against the fluid there, in that frame.
template <class V>
struct FrameInFluid {
  Mat3<V> mat;
  Vec3<V> offset;  // from the center of mass of the body's tree
  Spatial<V> velocity;

  // A spatial vector about the center of mass of the tree, seen from the frame.
  MANIPLE_FUNCTION Spatial<V> motion(const Spatial<V>& v) const {
    const Mat3<V> inverse = transpose(mat);
    return {inverse * v.rot, inverse * (v.lin + cross(v.rot, offset))};
  }
  // A force on the frame, in its axes, about the center of mass of the tree.
  MANIPLE_FUNCTION Spatial<V> force(const Spatial<V>& f) const {
    const Vec3<V> lin = mat * f.lin;
    return {mat * f.rot + cross(offset, lin), lin};
  }
};
template <class V>
MANIPLE_FUNCTION FrameInFluid<V> frame_in_fluid(const Model<ScalarOf<V>>& m, const Data<V>& d, int i,
                                                const Mat3<V>& mat, const Vec3<V>& point) {
  const Mat3<V> inverse = transpose(mat);
  const Vec3<V> offset = from_tree_center(m, d, i, point);
  const Spatial<V> velocity = velocity_at(m, d, i, offset);
  return {mat, offset, {inverse * velocity.rot, inverse * (velocity.lin - uniform3<V>(m.wind))}};
}
// The inertial frame of body i.
template <class V>
MANIPLE_FUNCTION FrameInFluid<V> body_in_fluid(const Model<ScalarOf<V>>& m, const Data<V>& d, int i) {
  return frame_in_fluid(m, d, i, inertial_matrix(m, d, i), load3<V>(d.xipos, 3 * i));
}
// The frame of geom g.
template <class V>
MANIPLE_FUNCTION FrameInFluid<V> geom_in_fluid(const Model<ScalarOf<V>>& m, const State<V>& s,
                                               const Data<V>& d, int g) {
  const Frame<V> frame = geom_frame(m, s, d, g);
  return frame_in_fluid(m, d, m.geom_bodyid[g], matrix(frame.quat), frame.pos);
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

// Does the fluid act on body i: it has mass, and dofs that move it.
template <class V>
MANIPLE_FUNCTION bool in_fluid(const Model<ScalarOf<V>>& m, int i) {
  return m.body_mass[i] >= ScalarOf<V>(kMinimumValue) && m.body_lastdof[i] >= 0;
}

// Calls visit(g) for those geoms of body i that the fluid sees as ellipsoids.
template <class T, class Visit>
MANIPLE_FUNCTION void for_each_ellipsoid(const Model<T>& m, int i, const Visit& visit) {
  for (int g = m.body_geomadr[i], end = g + m.body_geomnum[i]; g < end; ++g)
    if (m.geom_fluid[kGeomFluid * g] != T(0)) visit(g);
}

// Writes qfrc_fluid.
template <class V>
MANIPLE_FUNCTION void fluid_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const LaneModel<V> lanes(m, s);
  for (int i = 0; i < m.nv; ++i) d.qfrc_fluid[i] = V(0);
  for (int i = 1; i < m.nbody; ++i) {
    if (!in_fluid<V>(m, i)) continue;
    const auto apply = [&](const Spatial<V>& force) {
      for (int k = m.body_lastdof[i]; k >= 0; k = m.dof_parentid[k])
        d.qfrc_fluid[k] += dot(load6<V>(d.cdof, 6 * k), force);
    };
    if (m.body_flags[i] & body_ellipsoids) {
      for_each_ellipsoid(m, i, [&](int g) {
        const FrameInFluid<V> frame = geom_in_fluid(m, s, d, g);
        apply(frame.force(EllipsoidInFluid<V>(m, s, g).force(frame.velocity)));
      });
      continue;
    }
    const FrameInFluid<V> frame = body_in_fluid(m, d, i);
    const Spatial<V>& v = frame.velocity;
    apply(V(-1) * frame.force({scaled(rotational_damping(lanes, i, V(1), v.rot), v.rot),
                               scaled(linear_damping(lanes, i, V(1), v.lin), v.lin)}));
  }
}

// Derivative of the fluid's force on the box of a body by the body's velocity, in the frame of the box:
// diagonal and negative.
template <class V>
struct BoxDerivative {
  Vec3<V> rot, lin;

  friend MANIPLE_FUNCTION Spatial<V> operator*(const BoxDerivative& derivative, const Spatial<V>& motion) {
    return {scaled(derivative.rot, motion.rot), scaled(derivative.lin, motion.lin)};
  }
};

// What of an ellipsoid's derivative is asked for: MuJoCo makes it symmetric in implicitfast.
enum class DerivativePart { whole, symmetric, antisymmetric };

// Calls visit(frame, derivative) for all that the fluid acts on at body i: the derivative of the force by the
// velocity, both in `frame`. Boxes have no antisymmetric part and are left out there.
template <DerivativePart kPart, class V, class Visit>
MANIPLE_FUNCTION void for_each_fluid_derivative(const Model<ScalarOf<V>>& m, const State<V>& s,
                                                const Data<V>& d, int i, const Visit& visit) {
  if (!in_fluid<V>(m, i)) return;
  if (m.body_flags[i] & body_ellipsoids) {
    for_each_ellipsoid(m, i, [&](int g) {
      const FrameInFluid<V> frame = geom_in_fluid(m, s, d, g);
      VelocityDerivative<V> derivative = EllipsoidInFluid<V>(m, s, g).derivative(frame.velocity);
      if constexpr (kPart == DerivativePart::symmetric)
        derivative = half_sum_with_transpose(derivative, V(1));
      if constexpr (kPart == DerivativePart::antisymmetric)
        derivative = half_sum_with_transpose(derivative, V(-1));
      visit(frame, derivative);
    });
    return;
  }
  if constexpr (kPart == DerivativePart::antisymmetric) return;
  const LaneModel<V> lanes(m, s);
  const FrameInFluid<V> frame = body_in_fluid(m, d, i);
  visit(frame, BoxDerivative<V>{V(-1) * rotational_damping(lanes, i, V(2), frame.velocity.rot),
                                V(-1) * linear_damping(lanes, i, V(2), frame.velocity.lin)});
}

// Adds `scale` times the damping of every body, in joint space, to a matrix packed as qM: the pattern holds
// it exactly, except where MuJoCo keeps the rows of simple dofs diagonal. Of ellipsoids, the symmetric part.
template <class V>
MANIPLE_FUNCTION void add_fluid_damping(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                        V scale, const DataField<V>& matrix) {
  for (int i = 1; i < m.nbody; ++i)
    for_each_fluid_derivative<DerivativePart::symmetric>(
        m, s, d, i, [&](const FrameInFluid<V>& frame, const auto& derivative) {
          for (int k = m.body_lastdof[i]; k >= 0; k = m.dof_parentid[k]) {
            const Spatial<V> axis = load6<V>(d.cdof, 6 * k),
                             force = (-scale) * frame.force(derivative * frame.motion(axis));
            int address = m.dof_Madr[k];
            matrix[address] += dot(axis, force);
            if (keeps_diagonal(m, k)) continue;
            for (int j = m.dof_parentid[k]; j >= 0; j = m.dof_parentid[j])
              matrix[++address] += dot(load6<V>(d.cdof, 6 * j), force);
          }
        });
}

// Adds `scale` times the antisymmetric part of the damping of ellipsoids to a matrix whose elements
// (k, ancestor) are in `lower`, (ancestor, k) in `upper`, both packed as qM.
template <class V>
MANIPLE_FUNCTION void add_fluid_antisymmetry(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                             V scale, const DataField<V>& lower, const DataField<V>& upper) {
  for (int i = 1; i < m.nbody; ++i)
    for_each_fluid_derivative<DerivativePart::antisymmetric>(
        m, s, d, i, [&](const FrameInFluid<V>& frame, const auto& derivative) {
          for (int k = m.body_lastdof[i]; k >= 0; k = m.dof_parentid[k]) {
            const Spatial<V> force =
                (-scale) * frame.force(derivative * frame.motion(load6<V>(d.cdof, 6 * k)));
            int address = m.dof_Madr[k];
            for (int j = m.dof_parentid[k]; j >= 0; j = m.dof_parentid[j]) {
              const V element = dot(load6<V>(d.cdof, 6 * j), force);
              upper[++address] += element;
              lower[address] -= element;
            }
          }
        });
}

// Adds `scale` times the damping of the bodies of a tree whose only joint is the free joint of `root`, to its
// 6x6 block: of ellipsoids as it is.
template <class V>
MANIPLE_FUNCTION void add_free_fluid_damping(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                             int root, int dof, V scale, V (&a)[36]) {
  for (int body = root; body < root + m.body_freealone[root]; ++body)
    for_each_fluid_derivative<DerivativePart::whole>(
        m, s, d, body, [&](const FrameInFluid<V>& frame, const auto& derivative) {
          for (int j = 0; j < 6; ++j) {
            const Spatial<V> force =
                (-scale) * frame.force(derivative * frame.motion(load6<V>(d.cdof, 6 * (dof + j))));
            for (int i = 0; i < 6; ++i) a[6 * i + j] += dot(load6<V>(d.cdof, 6 * (dof + i)), force);
          }
        });
}

}  // namespace maniple
