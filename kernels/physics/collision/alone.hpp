// Geom pairs whose contacts take many decisions: they are found for one environment at a time, in scalars,
// and handed to the lanes that they belong to. Called by the functions of MANIPLE_GEOM_PAIR_TYPES; where a
// lane is a thread, as on a GPU, nothing is taken apart or put together.
#pragma once

#include "kernels/model/geom_pair_types.hpp"
#include "kernels/physics/collision/collision_primitive.hpp"

namespace maniple {

// The contacts of one geom pair in one environment.
template <class T, int kMost = kMostConvexContacts>
struct FoundContacts {
  ContactPoint<T> point[kMost];
  int count = 0;

  MANIPLE_FUNCTION void add(const ContactPoint<T>& found) {
    if (count < kMost) point[count++] = found;
  }
};

template <class V>
MANIPLE_FUNCTION Vec3<ScalarOf<V>> vector_of_lane(const Vec3<V>& v, int lane) {
  return {get_lane(v.x, lane), get_lane(v.y, lane), get_lane(v.z, lane)};
}
template <class V>
MANIPLE_FUNCTION GeomPose<ScalarOf<V>> pose_of_lane(const GeomPose<V>& pose, int lane) {
  const auto of = [&](V value) { return get_lane(value, lane); };
  const Mat3<V>& m = pose.mat;
  return {vector_of_lane(pose.pos, lane),
          {of(m.xx), of(m.xy), of(m.xz), of(m.yx), of(m.yy), of(m.yz), of(m.zx), of(m.zy), of(m.zz)},
          {of(pose.size[0]), of(pose.size[1]), of(pose.size[2])},
          pose.data,
          pose.rbound,
          pose.aabb,
          pose.size_of_model};
}
template <class V>
MANIPLE_FUNCTION Vec3<V> vector_of_lanes(const Vec3<ScalarOf<V>>& v) {
  return {V(v.x), V(v.y), V(v.z)};
}

template <class V>
MANIPLE_FUNCTION ContactPoint<V> in_lanes(const ContactPoint<ScalarOf<V>>& point) {
  return {V(point.dist), vector_of_lanes<V>(point.pos), vector_of_lanes<V>(point.normal),
          vector_of_lanes<V>(point.tangent)};
}

// Calls find(pose1, pose2, margin, found) for every environment in `near`, and emits what it has found.
template <class V, class Find, class Emit>
MANIPLE_FUNCTION void find_alone(const GeomPose<V>& pose1, const GeomPose<V>& pose2, V margin, MaskOf<V> near,
                                 const Find& find, const Emit& emit) {
  using T = ScalarOf<V>;
  for_each_lane(near, [&](int lane) {
    FoundContacts<T> found;
    find(pose_of_lane(pose1, lane), pose_of_lane(pose2, lane), get_lane(margin, lane), found);
    for (int k = 0; k < found.count; ++k) emit(mask_of_lane<V>(lane), in_lanes<V>(found.point[k]));
  });
}

// Where the spheres of these radii around two geoms overlap.
template <class V>
MANIPLE_FUNCTION MaskOf<V> spheres_overlap(const GeomPose<V>& pose1, V radius1, const GeomPose<V>& pose2,
                                           V radius2, V margin) {
  const Vec3<V> difference = pose2.pos - pose1.pos;
  const V bound = (radius1 + radius2) + margin;
  return dot(difference, difference) <= bound * bound;
}
// find_alone() where they do.
template <class V, class Find, class Emit>
MANIPLE_FUNCTION void find_alone(const GeomPose<V>& pose1, V radius1, const GeomPose<V>& pose2, V radius2,
                                 V margin, const Find& find, const Emit& emit) {
  find_alone(pose1, pose2, margin, spheres_overlap(pose1, radius1, pose2, radius2, margin), find, emit);
}

// Radii of the smallest spheres around geoms of these sizes, about their centers.
template <class V>
MANIPLE_FUNCTION V capsule_radius(const V* size) {
  return size[0] + size[1];
}
template <class V>
MANIPLE_FUNCTION V box_radius(const V* size) {
  return sqrt(size[0] * size[0] + size[1] * size[1] + size[2] * size[2]);
}
// The same by the type of the geom, which is no plane, mesh or height field.
template <class V>
MANIPLE_FUNCTION V shape_radius(int type, const V* size) {
  switch (type) {
    case geom_sphere:
      return size[0];
    case geom_capsule:
      return capsule_radius(size);
    case geom_cylinder:
      return sqrt(size[0] * size[0] + size[1] * size[1]);
    case geom_ellipsoid:
      return max(max(size[0], size[1]), size[2]);
    default:
      return box_radius(size);
  }
}

}  // namespace maniple
