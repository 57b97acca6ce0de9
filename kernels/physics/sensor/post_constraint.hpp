// Accelerations and forces of bodies once qacc is known (mj_rnePostConstraint), for accelerometers and force
// sensors. The recursion of velocities.hpp has done the part without joint accelerations; this adds theirs.
#pragma once

#include "kernels/model/lane_model.hpp"
#include "kernels/physics/constraint/contact_force.hpp"
#include "kernels/physics/sensor/tendon_tension.hpp"
#include "kernels/physics/smooth/applied.hpp"
#include "kernels/physics/smooth/motion.hpp"

namespace maniple {

// Adds what connects and welds do to their bodies to cfrc_ext, about the center of mass of each body's tree.
template <class V>
MANIPLE_FUNCTION void add_equality_wrenches(const Model<ScalarOf<V>>& m, const State<V>& s,
                                            const Data<V>& d) {
  for (int e = 0; e < m.neq && m.nequality > 0; ++e) {
    const MaskOf<V> active = s.eq_active[e] > V(0);
    if (m.eq_bodyid[2 * e] < 0 || m.eq_rownum[e] == 0 || !any_lane(active)) continue;
    V force[6] = {V(0), V(0), V(0), V(0), V(0), V(0)};
    for (int k = 0; k < m.eq_rownum[e]; ++k)
      force[k] = select(active, equality_force(m, d, m.eq_rowadr[e] + k), V(0));
    const Vec3<V> pull{force[0], force[1], force[2]};
    Frame<V> frame[2];
    for (int side = 0; side < 2; ++side) frame[side] = equality_frame(m, s, d, e, side);
    // the transpose of what fixed_rows() makes of rotations
    const V scale(ScalarOf<V>(0.5) * m.eq_data[kEqualityData * e + kTorqueScale]);
    const Vec3<V> torque =
        scale * turned_axes(frame[1].quat, Vec3<V>{force[3], force[4], force[5]}, conjugate(frame[0].quat));
    for (int side = 0; side < 2; ++side) {
      const int body = m.eq_bodyid[2 * e + side];
      if (body == 0) continue;
      const Spatial<V> wrench{torque + cross(from_tree_center(m, d, body, frame[side].pos), pull), pull};
      store6(d.cfrc_ext, 6 * body, load6<V>(d.cfrc_ext, 6 * body) + (side == 0 ? V(1) : V(-1)) * wrench);
    }
  }
}

// Writes cfrc_ext: forces from outside on each body, which are those applied, and of contacts, connects,
// welds and spatial tendons, about the center of mass of the body's tree.
template <class V>
MANIPLE_FUNCTION void external_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (int i = 0; i < 6 * m.nbody; ++i) d.cfrc_ext[i] = V(0);
  add_applied_wrenches(m, s, d);
  add_contact_wrenches(m, d);
  add_equality_wrenches(m, s, d);
  if (m.nJspatial > 0) add_tendon_wrenches(m, s, d);
}

// Writes cacc and cfrc_int (the force between a body and its parent) from qacc, cacc_bias, cvel, cdof and
// cfrc_ext.
template <class V>
MANIPLE_FUNCTION void internal_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const LaneModel<V> lanes(m, s);
  // first the part of qacc alone
  store6(d.cacc, 0, zero6<V>());
  for (int i = 1; i < m.nbody; ++i) {
    Spatial<V> cacc = load6<V>(d.cacc, 6 * m.body_parentid[i]);
    for (int k = m.body_dofadr[i], end = k + m.body_dofnum[i]; k < end; ++k)
      cacc = cacc + d.qacc[k] * load6<V>(d.cdof, 6 * k);
    store6(d.cacc, 6 * i, cacc);
  }
  // gravity is an upward acceleration of the world, which cacc_bias has passed on to the bodies
  const bool gravity = !(m.disableflags & disable_gravity);
  store6(d.cacc, 0, Spatial<V>{zero3<V>(), gravity ? -lanes.gravity().vector(0) : zero3<V>()});
  store6(d.cfrc_int, 0, zero6<V>());
  for (int i = 1; i < m.nbody; ++i) {
    const Spatial<V> cacc = load6<V>(d.cacc, 6 * i) + load6<V>(d.cacc_bias, 6 * i);
    store6(d.cacc, 6 * i, cacc);
    Spatial<V> force = V(-1) * load6<V>(d.cfrc_ext, 6 * i);
    if (!(m.body_flags[i] & body_massless)) {
      const Inertia<V> inertia =
          inertia_about(lanes.body_inertia().vector(i), inertial_matrix(m, d, i),
                        from_tree_center(m, d, i, load3<V>(d.xipos, 3 * i)), lanes.body_mass(i));
      const Spatial<V> cvel = m.body_lastdof[i] < 0 ? zero6<V>() : load6<V>(d.cvel, 6 * i);
      force = force + (inertia * cacc + cross_force(cvel, inertia * cvel));
    }
    store6(d.cfrc_int, 6 * i, force);
  }
  for (int i = m.nbody - 1; i > 0; --i) {
    const int parent = 6 * m.body_parentid[i];
    store6(d.cfrc_int, parent, load6<V>(d.cfrc_int, parent) + load6<V>(d.cfrc_int, 6 * i));
  }
}

}  // namespace maniple
