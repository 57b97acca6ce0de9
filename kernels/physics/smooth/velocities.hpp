// Motion axes, spatial inertias, velocities and bias forces of bodies about the center of mass of their tree
// (mj_comPos, mj_comVel, mj_rne with flg_acc = 0; Featherstone, "Rigid Body Dynamics Algorithms", 2008,
// chapter 5), after kinematics.hpp. Working about that moving point keeps single precision accurate far from
// the origin.
#pragma once

#include "kernels/math/spatial.hpp"
#include "kernels/physics/smooth/kinematics.hpp"

namespace maniple {

// What velocities() writes beside cdof and the velocities on which others depend. A time step needs
// `dynamics`: spatial inertias (into crb) and cfrc_body. `all` is that and cinert, cdof_dot, cvel and
// cacc_bias of all bodies. `motion` has cinert, cdof_dot and cvel of all bodies, but no forces.
enum class VelocityOutputs { motion, dynamics, all };

// The acceleration of the world as which gravity enters.
template <class V>
MANIPLE_FUNCTION Spatial<V> acceleration_of_world(const Model<ScalarOf<V>>& m, const State<V>& s) {
  const bool gravity = !(m.disableflags & disable_gravity);
  return {zero3<V>(), gravity ? -LaneModel<V>(m, s).gravity().vector(0) : zero3<V>()};
}

// One dof with motion axis `axis` joins: what it adds to the acceleration and then to the velocity.
template <class V>
MANIPLE_FUNCTION void join_dof(const Spatial<V>& axis, V qvel, bool at_rest, Spatial<V>& cvel,
                               Spatial<V>& cacc) {
  const Spatial<V> velocity = qvel * axis;
  if (!at_rest) cacc = cacc + cross_motion(cvel, velocity);
  cvel = cvel + velocity;
}
template <class V>
MANIPLE_FUNCTION void join_translation(const Vec3<V>& axis, V qvel, bool at_rest, Spatial<V>& cvel,
                                       Spatial<V>& cacc) {
  const Vec3<V> velocity = qvel * axis;
  if (!at_rest) cacc.lin = cacc.lin + cross(cvel.rot, velocity);
  cvel.lin = cvel.lin + velocity;
}

// cdof of body i, its spatial inertia (into crb), velocity, acceleration and cfrc_body, after its parent's.
template <VelocityOutputs kOutputs, class V>
MANIPLE_FUNCTION void move_body(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i,
                                const Spatial<V>& world_acceleration) {
  constexpr bool kForces = kOutputs != VelocityOutputs::motion;
  constexpr bool kAllBodies = kOutputs != VelocityOutputs::dynamics;
  const int flags = m.body_flags[i];
  const Vec3<V> com = load3<V>(d.subtree_com, 3 * m.body_rootid[i]);
  bool at_rest = flags & body_parent_static;
  Spatial<V> cvel = zero6<V>(), cacc = world_acceleration;
  if (!at_rest) {
    cvel = load6<V>(d.cvel, 6 * m.body_parentid[i]);
    if constexpr (kForces) cacc = load6<V>(d.cacc_bias, 6 * m.body_parentid[i]);
  }
  // before the dof joins
  const auto store_dot = [&](int dof, const Spatial<V>& axis) {
    if constexpr (kAllBodies) store6(d.cdof_dot, 6 * dof, at_rest ? zero6<V>() : cross_motion(cvel, axis));
  };
  for (int j = m.body_jntadr[i], end = j + m.body_jntnum[i]; j < end; ++j) {
    int dof = m.jnt_dofadr[j];
    const int type = m.jnt_type[j];
    if (type == joint_slide) {
      const Vec3<V> axis = load3<V>(d.xaxis, 3 * j);
      store6(d.cdof, 6 * dof, Spatial<V>{zero3<V>(), axis});
      store_dot(dof, Spatial<V>{zero3<V>(), axis});
      join_translation(axis, V(s.qvel[dof]), at_rest, cvel, cacc);
      at_rest = false;
      continue;
    }
    const Vec3<V> to_com = com - load3<V>(d.xanchor, 3 * j);
    if (type == joint_hinge) {
      const Vec3<V> axis = load3<V>(d.xaxis, 3 * j);
      const Spatial<V> cdof{axis, cross(axis, to_com)};
      store6(d.cdof, 6 * dof, cdof);
      store_dot(dof, cdof);
      join_dof(cdof, V(s.qvel[dof]), at_rest, cvel, cacc);
      at_rest = false;
      continue;
    }
    if (type == joint_free) {
      store6(d.cdof, 6 * dof, Spatial<V>{zero3<V>(), {V(1), V(0), V(0)}});
      store6(d.cdof, 6 * dof + 6, Spatial<V>{zero3<V>(), {V(0), V(1), V(0)}});
      store6(d.cdof, 6 * dof + 12, Spatial<V>{zero3<V>(), {V(0), V(0), V(1)}});
      // translations along the axes of the world: they do not turn
      if constexpr (kAllBodies)
        for (int k = 0; k < 3; ++k) store6(d.cdof_dot, 6 * (dof + k), zero6<V>());
      cvel.lin = cvel.lin + load3<V>(s.qvel, dof);
      dof += 3;
      at_rest = false;
    }
    // all three axes turn with the velocity before the joint
    const Mat3<V> mat = matrix(load4<V>(d.xquat, 4 * i));
    const Spatial<V> x{mat.column_x(), cross(mat.column_x(), to_com)},
        y{mat.column_y(), cross(mat.column_y(), to_com)}, z{mat.column_z(), cross(mat.column_z(), to_com)};
    store6(d.cdof, 6 * dof, x);
    store6(d.cdof, 6 * dof + 6, y);
    store6(d.cdof, 6 * dof + 12, z);
    store_dot(dof, x);
    store_dot(dof + 1, y);
    store_dot(dof + 2, z);
    const Spatial<V> velocity = V(s.qvel[dof]) * x + V(s.qvel[dof + 1]) * y + V(s.qvel[dof + 2]) * z;
    if (!at_rest) cacc = cacc + cross_motion(cvel, velocity);
    cvel = cvel + velocity;
    at_rest = false;
  }
  if (kAllBodies || !(flags & body_leaf)) {
    store6(d.cvel, 6 * i, cvel);
    if constexpr (kForces) store6(d.cacc_bias, 6 * i, cacc);
  }
  if (flags & body_massless) {
    if constexpr (kAllBodies) store10(d.cinert, 10 * i, zero10<V>());
    if constexpr (kForces) {
      store10(d.crb, 10 * i, zero10<V>());
      store6(d.cfrc_body, 6 * i, zero6<V>());
    }
    return;
  }
  const V mass = LaneModel<V>(m, s).body_mass(i);
  const Vec3<V> offset = load3<V>(d.xipos, 3 * i) - com, moment = mass * offset;
  const V x2 = moment.x * offset.x, y2 = moment.y * offset.y, z2 = moment.z * offset.z;
  const Inertia<V> inertia{d.crb[10 * i] + (y2 + z2),
                           d.crb[10 * i + 1] + (x2 + z2),
                           d.crb[10 * i + 2] + (x2 + y2),
                           d.crb[10 * i + 3] - moment.x * offset.y,
                           d.crb[10 * i + 4] - moment.x * offset.z,
                           d.crb[10 * i + 5] - moment.y * offset.z,
                           moment,
                           mass};
  if constexpr (kAllBodies) store10(d.cinert, 10 * i, inertia);
  if constexpr (!kForces) return;
  store10(d.crb, 10 * i, inertia);
  Spatial<V> force = inertia * cacc;
  if (!at_rest) force = force + cross_force(cvel, inertia * cvel);
  store6(d.cfrc_body, 6 * i, force);
}

// Roots to leaves: cdof and what VelocityOutputs says.
template <VelocityOutputs kOutputs, class V>
MANIPLE_FUNCTION void velocities(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const Spatial<V> world_acceleration = acceleration_of_world(m, s);
  const BodyLevels<V> levels(m, d);
  for (int level = 0; level < levels.count; ++level)
    for (const int k : d.team.share(levels.size(level)))
      move_body<kOutputs>(m, s, d, levels.body(level, k), world_acceleration);
}

// What velocities() leaves out: the values of the world, and with forces crb and cfrc_body of those bodies
// that nothing moves, which carry others. It comes after inertia_and_bias().
template <VelocityOutputs kOutputs, class V>
MANIPLE_FUNCTION void complete_velocities(const Model<ScalarOf<V>>& m, [[maybe_unused]] const State<V>& s,
                                          const Data<V>& d) {
  store10(d.cinert, 0, zero10<V>());
  store6(d.cvel, 0, zero6<V>());
  if constexpr (kOutputs == VelocityOutputs::motion) return;
  store10(d.crb, 0, zero10<V>());
  store6(d.cacc_bias, 0, acceleration_of_world(m, s));
  store6(d.cfrc_body, 0, zero6<V>());
  for (int i = m.nbody - 1; i > 0; --i) {
    const int parent = m.body_parentid[i];
    if (parent == 0 || !(m.body_flags[i] & body_parent_static)) continue;
    for (int k = 0; k < 10; ++k) d.crb[10 * parent + k] += d.crb[10 * i + k];
    for (int k = 0; k < 6; ++k) d.cfrc_body[6 * parent + k] += d.cfrc_body[6 * i + k];
  }
}

}  // namespace maniple
