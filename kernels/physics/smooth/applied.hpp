// Forces from outside, as users and tasks set them: State::qfrc_applied on dofs, State::xfrc_applied on
// bodies. They are part of qfrc_smooth (mj_fwdAcceleration) and of the external forces that sensors read.
#pragma once

#include "kernels/physics/smooth/motion.hpp"

namespace maniple {

// The force and torque on body i about the center of mass of its tree, and in which lanes there is any.
template <class V>
struct AppliedWrench {
  MaskOf<V> acts;
  Spatial<V> wrench;
};
template <class V>
MANIPLE_FUNCTION AppliedWrench<V> applied_wrench(const Model<ScalarOf<V>>& m, const State<V>& s,
                                                 const Data<V>& d, int i) {
  const Vec3<V> force = load3<V>(s.xfrc_applied, 6 * i), torque = load3<V>(s.xfrc_applied, 6 * i + 3);
  // (a step does not place the inertial frames of massless bodies)
  Vec3<V> center = load3<V>(d.xipos, 3 * i);
  if (m.body_flags[i] & body_massless)
    center =
        load3<V>(d.xpos, 3 * i) + matrix(load4<V>(d.xquat, 4 * i)) * LaneModel<V>(m, s).body_ipos().vector(i);
  const Vec3<V> offset = from_tree_center(m, d, i, center);
  const V size = abs(force.x) + abs(force.y) + abs(force.z) + abs(torque.x) + abs(torque.y) + abs(torque.z);
  return {size != V(0), {torque + cross(offset, force), force}};
}

// Adds them to qfrc_smooth (mj_xfrcAccumulate), the first guess of qacc_smooth. Where nothing acts no bit
// changes.
template <class V>
MANIPLE_SUBSTAGE void add_applied_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (const int i : d.team.share(m.nqfrc)) d.qfrc_smooth[i] += s.qfrc_applied[i];
  d.team.once([&] {
    for (int i = 1; i < m.nxfrc; ++i) {
      const AppliedWrench<V> applied = applied_wrench(m, s, d, i);
      if (!any_lane(applied.acts)) continue;
      for (int k = m.body_lastdof[i]; k >= 0; k = m.dof_parentid[k]) {
        const V force = dot(load3<V>(d.cdof, 6 * k), applied.wrench.rot) +
                        dot(load3<V>(d.cdof, 6 * k + 3), applied.wrench.lin);
        d.qfrc_smooth[k] = select(applied.acts, d.qfrc_smooth[k] + force, V(d.qfrc_smooth[k]));
      }
    }
  });
  for (const int i : d.team.share(m.nv)) d.qacc_smooth[i] = d.qfrc_smooth[i];
}

// Adds them to cfrc_ext.
template <class V>
MANIPLE_FUNCTION void add_applied_wrenches(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (int i = 1; i < m.nxfrc; ++i)
    store6(d.cfrc_ext, 6 * i, load6<V>(d.cfrc_ext, 6 * i) + applied_wrench(m, s, d, i).wrench);
}

}  // namespace maniple
