// Contact forces as bodies and touch sensors feel them, once the solver has found them
// (mj_contactForce, the contact part of mj_rnePostConstraint, mjSENS_TOUCH).
#pragma once

#include "kernels/physics/constraint/row_families.hpp"
#include "kernels/physics/smooth/motion.hpp"

namespace maniple {

// Force [N] on geom 2 of the contacts of a slot, in the world's axes; zero in lanes without one.
template <class V>
MANIPLE_FUNCTION Vec3<V> contact_force_on_geom2(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot,
                                                const SlotContacts<V>& contacts) {
  const BaseRows<V> force = contact_force(m, d, slot);
  const ContactAxes<V> axes = contact_axes(m, d, slot, contacts);
  const Vec3<V> sum = force.n * axes.normal + force.t * axes.tangent + force.u * axes.other;
  return select<V>(contacts.active, sum, zero3<V>());
}

// Adds the contacts to cfrc_ext, about the center of mass of each body's tree.
template <class V>
MANIPLE_FUNCTION void add_contact_wrenches(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  using T = ScalarOf<V>;
  const int slots = contact_slots(m, d);
  for (int slot = 0; slot < slots; ++slot) {
    const SlotContacts<V> contacts = slot_contacts(d, slot);
    if (!any_lane(contacts.active)) continue;
    const Vec3<V> force = contact_force_on_geom2(m, d, slot, contacts);
    for_each_lane(contacts.active, [&](int lane) {
      const auto at = [lane](const V& value) { return get_lane(value, lane); };
      const int geompair = static_cast<int>(at(contacts.geompair));
      for (int side = 0; side < 2; ++side) {
        const int body = m.geompair_bodyid[2 * geompair + side];
        if (body == 0) continue;
        const T sign = side == 0 ? T(-1) : T(1);
        const int com = 3 * m.body_rootid[body];
        const T f[3] = {sign * at(force.x), sign * at(force.y), sign * at(force.z)};
        T arm[3];
        for (int k = 0; k < 3; ++k) arm[k] = at(d.contact_pos[3 * slot + k]) - at(d.subtree_com[com + k]);
        const T wrench[6] = {arm[1] * f[2] - arm[2] * f[1],
                             arm[2] * f[0] - arm[0] * f[2],
                             arm[0] * f[1] - arm[1] * f[0],
                             f[0],
                             f[1],
                             f[2]};
        for (int k = 0; k < 6; ++k)
          set_lane(d.cfrc_ext[6 * body + k], lane, at(d.cfrc_ext[6 * body + k]) + wrench[k]);
      }
    });
  }
}

// The part of the ray p + t u, t >= 0, for which a x^2 + 2 b x + c <= 0 or |p + t u| <= size holds: it is cut
// down by one condition after the other, and empty where low > high.
template <class V>
struct RayInterval {
  V low, high;

  MANIPLE_FUNCTION void cut(V from, V to) {
    low = max(low, from);
    high = min(high, to);
  }
  // |p + t u| <= size of one coordinate.
  MANIPLE_FUNCTION void cut_slab(V p, V u, V size) {
    const V never(-1), always(1e30);
    const MaskOf<V> parallel = abs(u) < V(kMinimumValue);
    const V inverse = V(1) / select(parallel, V(1), u);
    const V a = (-size - p) * inverse, b = (size - p) * inverse;
    cut(select(parallel, V(0), min(a, b)),
        select(parallel, select(abs(p) <= size, always, never), max(a, b)));
  }
  // a t^2 + 2 b t + c <= 0.
  MANIPLE_FUNCTION void cut_quadratic(V a, V b, V c) {
    const V determinant = b * b - a * c;
    const MaskOf<V> flat = a < V(kMinimumValue), misses = determinant < V(kMinimumValue);
    const V inverse = V(1) / select(flat, V(1), a), root = sqrt(max(determinant, V(0)));
    const V from = (-b - root) * inverse, to = (-b + root) * inverse;
    // a ray along the axis of a cylinder stays inside or outside
    cut(select(flat, V(0), from), select(flat, select(c <= V(0), V(1e30), V(-1)), select(misses, V(-1), to)));
  }
  MANIPLE_FUNCTION MaskOf<V> meets() const { return low <= high; }
};

// Whether the ray from p along the unit vector u meets a shape, both in its frame.
template <class V>
MANIPLE_FUNCTION MaskOf<V> ray_meets(int type, const ScalarOf<V>* size, const Vec3<V>& p, const Vec3<V>& u) {
  const RayInterval<V> whole{V(0), V(1e30)};
  RayInterval<V> ray = whole;
  const V radius(size[0]);
  const auto ball = [&](V z) {
    RayInterval<V> result = whole;
    const Vec3<V> from{p.x, p.y, p.z - z};
    result.cut_quadratic(V(1), dot(from, u), dot(from, from) - radius * radius);
    return result.meets();
  };
  switch (type) {
    case geom_sphere:
      return ball(V(0));
    case geom_ellipsoid: {
      const Vec3<V> q{p.x / V(size[0]), p.y / V(size[1]), p.z / V(size[2])};
      const Vec3<V> v{u.x / V(size[0]), u.y / V(size[1]), u.z / V(size[2])};
      ray.cut_quadratic(dot(v, v), dot(q, v), dot(q, q) - V(1));
      return ray.meets();
    }
    case geom_box:
      ray.cut_slab(p.x, u.x, radius);
      ray.cut_slab(p.y, u.y, V(size[1]));
      ray.cut_slab(p.z, u.z, V(size[2]));
      return ray.meets();
    case geom_cylinder:
    case geom_capsule:
      ray.cut_quadratic(u.x * u.x + u.y * u.y, p.x * u.x + p.y * u.y,
                        p.x * p.x + p.y * p.y - radius * radius);
      ray.cut_slab(p.z, u.z, V(size[1]));
      if (type == geom_cylinder) return ray.meets();
      return ray.meets() || ball(V(size[1])) || ball(V(-size[1]));
  }
  return MaskOf<V>(false);  // the import refuses touch sensors with other shapes
}

// Reading of touch sensor i: the normal forces [N] of the contacts of its site's body whose ray along the
// normal meets the site.
template <class V>
MANIPLE_STAGE V touching_force(const Model<ScalarOf<V>>& m, const Data<V>& d, int i) {
  const int body = m.sensor_bodyid[i], site = m.sensor_objid[i], slots = contact_slots(m, d);
  const V own(static_cast<ScalarOf<V>>(body));
  V reading(0);
  for (int slot = 0; slot < slots; ++slot) {
    const SlotContacts<V> contacts = slot_contacts(d, slot);
    const V body2 = gather(m.geompair_bodyid, contacts.geompair, 2, 1);
    const MaskOf<V> side2 = body2 == own,
                    either = gather(m.geompair_bodyid, contacts.geompair, 2, 0) == own || side2;
    const V force = contact_force(m, d, slot).n;
    const MaskOf<V> feels = contacts.active && force > V(0) && either;
    if (!any_lane(feels)) continue;
    const Vec3<V> pos = load3<V>(d.contact_pos, 3 * slot), normal = load3<V>(d.contact_frame, 6 * slot);
    const V side = select(side2, V(-1), V(1));
    const Frame<V> frame = frame_on_body(d, body, m.sensor_pos + 3 * i, m.sensor_quat + 4 * i);
    const Mat3<V> to_site = transpose(matrix(frame.quat));
    const MaskOf<V> meets = ray_meets(m.site_type[site], m.site_size + 3 * site, to_site * (pos - frame.pos),
                                      to_site * (side * normal));
    reading += select(feels && meets, force, V(0));
  }
  return reading;
}

}  // namespace maniple
