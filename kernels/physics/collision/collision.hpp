// Contacts of every environment (mj_collision): a walk over the model's geom pairs in MuJoCo's order,
// first by bounding spheres, then exactly. Contact k of a lane lands in slot k, or in the records of
// regroup.hpp; contacts beyond the capacity are counted and dropped.
#pragma once

#include "kernels/model/geom_pair_types.hpp"
#include "kernels/model/lane_model.hpp"
#include "kernels/physics/collision/collision_box.hpp"
#include "kernels/physics/collision/collision_box_box.hpp"
#include "kernels/physics/collision/collision_convex.hpp"
#include "kernels/physics/collision/collision_hfield.hpp"
#include "kernels/physics/collision/collision_primitive.hpp"

namespace maniple {

template <class V>
MANIPLE_FUNCTION GeomPose<V> geom_pose(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                       int g) {
  const int flags = m.geom_flags[g];
  GeomPose<V> pose;
  pose.pos = load3<V>(d.geom_xpos, 3 * g);
  put_sizes(LaneModel<V>(m, s), g, pose.size);
  pose.data = m.geom_dataid[g];
  pose.rbound = m.geom_rbound[g];
  pose.aabb = m.geom_aabb + 6 * g;
  pose.size_of_model = sizes_of_meshes(m, g);
  if (flags & geom_needs_frame) pose.mat = load9<V>(d.geom_xmat, 9 * g);
  if (flags & geom_needs_axis) {
    pose.mat.xz = d.geom_xmat[9 * g + 2];
    pose.mat.yz = d.geom_xmat[9 * g + 5];
    pose.mat.zz = d.geom_xmat[9 * g + 8];
  }
  return pose;
}

// A contact as a list of numbers: geom pair, distance, position, normal, tangent. Element `e` of a slot.
inline constexpr int kContactElements = 11;
template <class V>
MANIPLE_FUNCTION V& contact_element(const Data<V>& d, int slot, int e) {
  if (e == 0) return d.contact_geompair[slot];
  if (e == 1) return d.contact_dist[slot];
  if (e < 5) return d.contact_pos[3 * slot + e - 2];
  return d.contact_frame[6 * slot + e - 5];
}

// The elements of a contact of geom pair c.
template <class V>
struct ContactElements {
  V value[kContactElements];
};
template <class V>
MANIPLE_FUNCTION ContactElements<V> contact_elements(int c, const ContactPoint<V>& point) {
  const Vec3<V>&pos = point.pos, &normal = point.normal, &tangent = point.tangent;
  return {{V(static_cast<ScalarOf<V>>(c)), point.dist, pos.x, pos.y, pos.z, normal.x, normal.y, normal.z,
           tangent.x, tangent.y, tangent.z}};
}

// Counts a contact of geom pair c for each of the lanes in `hit`; where there is room for it, its elements go
// to store(lane, slot, e, value).
template <class V, class Store>
MANIPLE_FUNCTION void append_contact(const Model<ScalarOf<V>>& m, const Data<V>& d, int c, MaskOf<V> hit,
                                     const ContactPoint<V>& point, const Store& store) {
  using T = ScalarOf<V>;
  const ContactElements<V> elements = contact_elements(c, point);
  for_each_lane(hit, [&](int lane) {
    const int slot = static_cast<int>(get_lane(V(d.ncon[0]), lane));
    if (slot >= m.ncontact) {
      set_lane(d.contact_dropped[0], lane, get_lane(V(d.contact_dropped[0]), lane) + T(1));
      return;
    }
    set_lane(d.ncon[0], lane, static_cast<T>(slot + 1));
    for (int e = 0; e < kContactElements; ++e) store(lane, slot, e, get_lane(elements.value[e], lane));
  });
}

// Whether the bounding spheres of a pair's geoms overlap in some environment.
template <class V>
MANIPLE_FUNCTION bool bounding_spheres_overlap(const Model<ScalarOf<V>>& m, const State<V>& s,
                                               const Data<V>& d, int c) {
  const int g1 = m.geompair_geom1[c], g2 = m.geompair_geom2[c];
  const Vec3<V> difference = load3<V>(d.geom_xpos, 3 * g2) - load3<V>(d.geom_xpos, 3 * g1);
  V bound(m.geompair_bound[c]);
  if (m.varied.geom_rbound >= 0) {
    const LaneModel<V> lanes(m, s);
    bound = lanes.geom_rbound(g1) + lanes.geom_rbound(g2) + V(m.geompair_margin[c]);
  }
  if (m.geom_type[g1] == geom_plane) {
    const Vec3<V> normal{d.geom_xmat[9 * g1 + 2], d.geom_xmat[9 * g1 + 5], d.geom_xmat[9 * g1 + 8]};
    return any_lane(dot(difference, normal) <= bound);
  }
  return any_lane(dot(difference, difference) <= bound * bound);
}

// The contacts of two geoms by the function in the row `types` of the tables; none for -1.
template <class V, class Emit>
MANIPLE_FUNCTION void narrowphase(const Model<ScalarOf<V>>& m, int types, const GeomPose<V>& pose1,
                                  const GeomPose<V>& pose2, V margin, const Emit& emit) {
  int convex1 = -1, convex2 = -1, over_hfield = -1;
  switch (types) {
#define MANIPLE_ROW(type1, type2, most_contacts, function) \
  case geom_pair_types(geom_##type1, geom_##type2):        \
    return function(pose1, pose2, margin, emit);
    MANIPLE_GEOM_PAIR_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
#define MANIPLE_ROW(type1, type2, most_contacts)    \
  case geom_pair_types(geom_##type1, geom_##type2): \
    convex1 = geom_##type1;                         \
    convex2 = geom_##type2;                         \
    break;
    MANIPLE_CONVEX_PAIR_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
#define MANIPLE_ROW(type1, type2, most_contacts)    \
  case geom_pair_types(geom_##type1, geom_##type2): \
    over_hfield = geom_##type2;                     \
    break;
    MANIPLE_HFIELD_PAIR_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  if (convex1 >= 0) convex_convex(m, convex1, pose1, convex2, pose2, margin, emit);
  if (over_hfield >= 0) hfield_convex(m, pose1, over_hfield, pose2, margin, emit);
}

// The contacts of geom pair c: emit(hit, point), where `hit` are the lanes that have the contact.
template <class V, class Emit>
MANIPLE_FUNCTION void narrowphase(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int c,
                                  const Emit& emit) {
  narrowphase(m, m.geompair_types[c], geom_pose(m, s, d, m.geompair_geom1[c]),
              geom_pose(m, s, d, m.geompair_geom2[c]), V(m.geompair_margin[c]), emit);
}

// Writes ncon, adds to contact_dropped, and hands the elements of all contacts to store(lane, slot, e,
// value).
template <class V, class Store>
MANIPLE_FUNCTION void find_contacts(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                    const Store& store) {
  d.ncon[0] = V(0);
  for (int c = 0; c < m.ngeompair; ++c) {
    if (!bounding_spheres_overlap(m, s, d, c)) continue;
    narrowphase(m, s, d, c, [&](MaskOf<V> hit, const ContactPoint<V>& point) {
      if (any_lane(hit)) append_contact(m, d, c, hit, point, store);
    });
  }
}

// What collide() does, by a team, which has one environment: every member takes a geom pair and learns from
// the number of its contacts which slots are theirs.
template <class T>
MANIPLE_FUNCTION void collide_by_team(const Model<T>& m, const State<T>& s, const Data<T>& d) {
  int length = 0;
  for (int first = 0; first < m.ngeompair; first += d.team.size()) {
    const int c = first + d.team.rank();
    const bool near = c < m.ngeompair && bounding_spheres_overlap(m, s, d, c);
    FoundContacts<T, kMostGeomPairContacts> found;
    if (near)
      narrowphase(m, s, d, c, [&](bool hit, const ContactPoint<T>& point) {
        if (hit) found.add(point);
      });
    const int slot = d.team.reserve(found.count, length);
    for (int k = 0; k < found.count && slot + k < m.ncontact; ++k) {
      const ContactElements<T> elements = contact_elements(c, found.point[k]);
      for (int e = 0; e < kContactElements; ++e) contact_element(d, slot + k, e) = elements.value[e];
    }
  }
  d.team.once([&] {
    const int kept = length < m.ncontact ? length : m.ncontact;
    d.ncon[0] = static_cast<T>(kept);
    d.contact_dropped[0] += static_cast<T>(length - kept);
  });
}

// Writes ncon, contact_geompair, contact_dist, contact_pos and contact_frame; adds to contact_dropped.
template <class V>
MANIPLE_SUBSTAGE void collide(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  if constexpr (lane_width<V> == 1)
    if (d.team.size() > 1) return collide_by_team(m, s, d);
  find_contacts(m, s, d, [&](int lane, int slot, int e, ScalarOf<V> value) {
    set_lane(contact_element(d, slot, e), lane, value);
  });
}

}  // namespace maniple
