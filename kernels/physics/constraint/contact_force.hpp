// Contact forces as bodies and touch sensors feel them, once the solver has found them
// (mj_contactForce, the contact part of mj_rnePostConstraint, mjSENS_TOUCH).
#pragma once

#include "kernels/physics/collision/ray.hpp"
#include "kernels/physics/constraint/row_families.hpp"
#include "kernels/physics/smooth/motion.hpp"

namespace maniple {

// The solver's forces along the base rows of a slot: the normal, and friction.
template <class V>
MANIPLE_FUNCTION ConeRow<V> contact_force(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot) {
  if (m.ncone > 0) {
    ConeRow<V> force = ConeRows<V>(m, d, 0).force(slot);
    for (int i = 1; m.nnosliprow > 0 && i < m.contactdim; ++i)
      force.x[i] = d.noslip_force[m.nfriction + (m.contactdim - 1) * slot + i - 1];
    return force;
  }
  const BaseRows<V> base = pyramid_force(m, d, slot);
  return {{base.n, base.t, base.u, V(0), V(0), V(0)}};
}

// Force [N] and torque [N m] on geom 2 of the contacts of a slot, in the world's axes; zero in lanes without
// one.
template <class V>
MANIPLE_FUNCTION Spatial<V> contact_wrench_on_geom2(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot,
                                                    const SlotContacts<V>& contacts) {
  const ConeRow<V> force = contact_force(m, d, slot);
  const ContactAxes<V> axes = contact_axes(m, d, slot, contacts);
  const Vec3<V> sum = force.x[0] * axes.normal + force.x[1] * axes.tangent + force.x[2] * axes.other;
  Vec3<V> torque = zero3<V>();
  if (m.contactdim > 3) {
    const Vec3<V> normal = load3<V>(d.contact_frame, 6 * slot);
    Vec3<V> tangent = load3<V>(d.contact_frame, 6 * slot + 3), other;
    contact_tangents(normal, tangent, other);
    const auto along = [&](int row) {
      return contact_friction(m, d, slot, contacts, row - 1) * force.x[row];
    };
    torque = along(3) * normal + along(4) * tangent + along(5) * other;
  }
  return {select<V>(contacts.active, torque, zero3<V>()), select<V>(contacts.active, sum, zero3<V>())};
}

// Adds the contacts to cfrc_ext, about the center of mass of each body's tree.
template <class V>
MANIPLE_FUNCTION void add_contact_wrenches(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  using T = ScalarOf<V>;
  const int slots = contact_slots(m, d);
  for (int slot = 0; slot < slots; ++slot) {
    const SlotContacts<V> contacts = slot_contacts(d, slot);
    if (!any_lane(contacts.active)) continue;
    const Spatial<V> on_geom2 = contact_wrench_on_geom2(m, d, slot, contacts);
    const Vec3<V> force = on_geom2.lin, torque = on_geom2.rot;
    for_each_lane(contacts.active, [&](int lane) {
      const auto at = [lane](const V& value) { return get_lane(value, lane); };
      const int geompair = static_cast<int>(at(contacts.geompair));
      for (int side = 0; side < 2; ++side) {
        const int body = m.geompair_bodyid[2 * geompair + side];
        if (body == 0) continue;
        const T sign = side == 0 ? T(-1) : T(1);
        const int com = 3 * m.body_rootid[body];
        const T f[3] = {sign * at(force.x), sign * at(force.y), sign * at(force.z)};
        const T t[3] = {sign * at(torque.x), sign * at(torque.y), sign * at(torque.z)};
        T arm[3];
        for (int k = 0; k < 3; ++k) arm[k] = at(d.contact_pos[3 * slot + k]) - at(d.subtree_com[com + k]);
        const T wrench[6] = {t[0] + (arm[1] * f[2] - arm[2] * f[1]),
                             t[1] + (arm[2] * f[0] - arm[0] * f[2]),
                             t[2] + (arm[0] * f[1] - arm[1] * f[0]),
                             f[0],
                             f[1],
                             f[2]};
        for (int k = 0; k < 6; ++k)
          set_lane(d.cfrc_ext[6 * body + k], lane, at(d.cfrc_ext[6 * body + k]) + wrench[k]);
      }
    });
  }
}

// Reading of touch sensor i: the normal forces [N] of the contacts of its site's body whose ray along the
// normal meets the site.
template <class V>
MANIPLE_STAGE V touching_force(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i) {
  const int body = m.sensor_bodyid[i], site = m.sensor_objid[i], slots = contact_slots(m, d);
  const V own(static_cast<ScalarOf<V>>(body));
  V reading(0);
  for (int slot = 0; slot < slots; ++slot) {
    const SlotContacts<V> contacts = slot_contacts(d, slot);
    const V body2 = gather(m.geompair_bodyid, contacts.geompair, 2, 1);
    const MaskOf<V> side2 = body2 == own,
                    either = gather(m.geompair_bodyid, contacts.geompair, 2, 0) == own || side2;
    const V force = contact_force(m, d, slot).x[0];
    const MaskOf<V> feels = contacts.active && force > V(0) && either;
    if (!any_lane(feels)) continue;
    const Vec3<V> pos = load3<V>(d.contact_pos, 3 * slot), normal = load3<V>(d.contact_frame, 6 * slot);
    const V side = select(side2, V(-1), V(1));
    const Frame<V> frame = sensor_frame(m, s, d, i);
    const Mat3<V> to_site = transpose(matrix(frame.quat));
    const V distance = ray_distance(m.site_type[site], m.site_size + 3 * site, to_site * (pos - frame.pos),
                                    to_site * (side * normal));
    reading += select(feels && distance >= V(0), force, V(0));
  }
  return reading;
}

}  // namespace maniple
