// Forces of spatial tendons on the bodies at their ends and bends: the total force along each, of springs,
// dampers, actuators, constraint rows and its own inertia, as a part of cfrc_ext (mj_rnePostConstraint).
#pragma once

#include "kernels/physics/constraint/equality_rows.hpp"
#include "kernels/physics/constraint/friction_rows.hpp"
#include "kernels/physics/constraint/limit_rows.hpp"
#include "kernels/physics/smooth/transmission.hpp"

namespace maniple {

// Force of the constraint rows of tendon t.
template <class V>
MANIPLE_FUNCTION V tendon_row_force(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int t) {
  V force(0);
  for (int e = 0; e < m.neq && m.nequality > 0; ++e) {
    if (m.eq_type[e] != equality_tendon || m.eq_rownum[e] == 0) continue;
    const bool first = m.eq_obj1id[e] == t, second = m.eq_obj2id[e] == t;
    const MaskOf<V> active = s.eq_active[e] > V(0);
    if (!(first || second) || !any_lane(active)) continue;
    const V row = select(active, equality_force(m, d, m.eq_rowadr[e]), V(0));
    if (first) force += row;
    if (second) force -= coupling(m, s, d, e).slope * row;
  }
  for (int r = 0; r < m.nfriction; ++r)
    if (m.friction_tendonid[r] == t) force += friction_force(m, d, r);
  for (int r = 0; r < m.nlimit; ++r) {
    if (m.limit_tendonid[r] != t) continue;
    const MaskOf<V> acts = limit_motion(m, s, d, r).acts;
    if (!any_lane(acts)) continue;
    const V side(static_cast<ScalarOf<V>>(m.limit_side[r]));
    force += select(acts, side * limit_force(m, d, r), V(0));
  }
  return force;
}

// All forces along spatial tendon t, positive where they lengthen it.
template <class V>
MANIPLE_FUNCTION V tendon_force(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int t) {
  V force = tendon_row_force(m, s, d, t);
  if ((m.flags & model_tendon_springs) && tendon_is_sprung<V>(m, t)) force += tendon_spring_force(m, d, t);
  if ((m.flags & model_tendon_dampers) && tendon_is_damped<V>(m, t)) force += tendon_damper_force(m, d, t);
  for (int i = 0; i < m.nactuator; ++i)
    if (is_on_tendon(m, i, t) && !m.actuator_disabled[i])
      force += V(m.actuator_gear[6 * i]) * d.actuator_force[i];
  if (m.tendon_totalarmature[t] != 0) {
    const V acceleration = tendon_jacobian(m, d, t).times(d.qacc) + spatial_tendon_drift(m, s, d, t);
    force -= V(m.tendon_totalarmature[t]) * acceleration;
  }
  return force;
}

// Adds what spatial tendons do to their bodies to cfrc_ext, about the center of mass of each body's tree.
template <class V>
MANIPLE_STAGE void add_tendon_wrenches(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (int t = 0; t < m.ntendon; ++t) {
    if (m.ten_J_spatialadr[t] < 0) continue;
    const V force = tendon_force(m, s, d, t);
    // bodies that are welded to each other pass forces on, which their sensors read
    const auto are_one = [](int a, int b) { return a == b; };
    walk_tendon(m, s, d, t, are_one, [&](int body, const Vec3<V>& point, const Vec3<V>& direction) {
      if (body == 0) return;
      const Vec3<V> pull = force * direction;
      const Spatial<V> wrench{cross(from_tree_center(m, d, body, point), pull), pull};
      store6(d.cfrc_ext, 6 * body, load6<V>(d.cfrc_ext, 6 * body) + wrench);
    });
  }
}

}  // namespace maniple
