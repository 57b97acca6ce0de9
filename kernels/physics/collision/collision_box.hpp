// Contacts of spheres and capsules with boxes, with the contact points and the order of MuJoCo's
// (engine_collision_box.c). Called by MANIPLE_GEOM_PAIR_TYPES; two boxes are in collision_box_box.hpp.
#pragma once

#include "kernels/physics/collision/alone.hpp"

namespace maniple {

// A sphere and a box. From a center outside along the shortest way to the box; from one inside out through
// the nearest face.
template <class V, class Emit>
MANIPLE_FUNCTION void sphere_box(const Vec3<V>& sphere_center, V radius, const GeomPose<V>& box, V margin,
                                 const Emit& emit) {
  const Vec3<V> size = box.sizes();
  const Vec3<V> center = transpose(box.mat) * (sphere_center - box.pos);
  const Vec3<V> surface{clamp(center.x, -size.x, size.x), clamp(center.y, -size.y, size.y),
                        clamp(center.z, -size.z, size.z)};
  const Vec3<V> way = surface - center;
  const V distance = sqrt(dot(way, way));
  const MaskOf<V> hit = distance - radius <= margin;
  if (!any_lane(hit)) return;
  const MaskOf<V> inside = distance <= V(kMinimumValue);
  const V inverse = V(1) / select(inside, V(1), distance);
  Vec3<V> normal = inverse * way;
  Vec3<V> middle = V(0.5) * surface + V(0.5) * (center + radius * normal);
  V dist = distance;
  if (any_lane(inside)) {
    V depth = V(2) * (size.x + size.y + size.z);
    Vec3<V> inward = zero3<V>();
    const auto face = [&](V to_face, const Vec3<V>& against) {
      const MaskOf<V> nearer = abs(to_face) < depth;
      depth = select(nearer, abs(to_face), depth);
      inward = select<V>(nearer, against, inward);
    };
    face(size.x + center.x, {V(1), V(0), V(0)});
    face(size.x - center.x, {V(-1), V(0), V(0)});
    face(size.y + center.y, {V(0), V(1), V(0)});
    face(size.y - center.y, {V(0), V(-1), V(0)});
    face(size.z + center.z, {V(0), V(0), V(1)});
    face(size.z - center.z, {V(0), V(0), V(-1)});
    normal = select<V>(inside, inward, normal);
    middle = select<V>(inside, center + (V(0.5) * (radius - depth)) * inward, middle);
    dist = select(inside, -depth, dist);
  }
  emit(hit, ContactPoint<V>{dist - radius, box.mat * middle + box.pos, box.mat * normal, zero3<V>()});
}

template <class V, class Emit>
MANIPLE_FUNCTION void sphere_box(const GeomPose<V>& sphere, const GeomPose<V>& box, V margin,
                                 const Emit& emit) {
  sphere_box(sphere.pos, sphere.size[0], box, margin, emit);
}

// The axis of a capsule in the frame of a box: center + t half, t from -1 to 1, and its direction.
template <class T>
struct SegmentAndBox {
  T center[3], half[3], axis[3];
  const T* size;  // of the box
  T length;       // of half
};

// What of a box is nearest to the segment. Numbers of corners have one bit for each axis.
template <class T>
struct NearestFeature {
  enum Kind { none, inside, face, edge, corner };
  Kind kind = none;
  T along = 0;          // the segment's t
  int axis = 0;         // of the face's normal, or along the edge
  int corner_bits = 0;  // the corner, or the lower one of the edge
  T along_edge = 0;     // from -1 to 1
};

// By the ends of the segment that face a side of the box, and by the twelve edges.
template <class T>
MANIPLE_FUNCTION NearestFeature<T> nearest_feature(const SegmentAndBox<T>& s, T largest) {
  using Feature = NearestFeature<T>;
  Feature nearest;
  T best = largest;
  for (int end = -1; end <= 1; end += 2) {
    int beyond = 0, axis = -1;
    T square = 0;
    for (int k = 0; k < 3; ++k) {
      const T x = s.center[k] + static_cast<T>(end) * s.half[k];
      if (abs(x) <= s.size[k]) continue;
      ++beyond;
      axis = k;
      square = (abs(x) - s.size[k]) * (abs(x) - s.size[k]);
    }
    if (beyond > 1 || !(square < best)) continue;
    best = square;
    nearest.kind = axis < 0 ? Feature::inside : Feature::face;
    nearest.axis = axis;
    nearest.along = static_cast<T>(end);
  }
  const T mc = s.length * s.length;
  for (int j = 0; j < 3; ++j) {
    const T ma = s.size[j] * s.size[j], mb = -s.size[j] * s.half[j];
    const T det = ma * mc - mb * mb;
    if (abs(det) < T(kMinimumValue)) continue;
    for (int bits = 0; bits < 8; ++bits) {
      if (bits & (1 << j)) continue;
      T start[3];  // from the segment's center to the edge's
      for (int k = 0; k < 3; ++k)
        start[k] = (k == j ? T(0) : bits & (1 << k) ? s.size[k] : -s.size[k]) - s.center[k];
      const T u = -s.size[j] * start[j];
      const T v = s.half[0] * start[0] + s.half[1] * start[1] + s.half[2] * start[2];
      // nearest points of two segments, as of two capsules; `side` tells to which end of the edge the
      // solution went
      T x1 = (mc * u - mb * v) / det, x2 = (ma * v - mb * u) / det;
      int side = 0;
      const auto limit_edge = [&] {
        if (abs(x1) <= 1) return false;
        side = x1 > 0 ? 1 : -1;
        x1 = static_cast<T>(side);
        return true;
      };
      if (limit_edge()) x2 = (v - mb * x1) / mc;
      if (abs(x2) > 1) {
        x2 = x2 > 0 ? T(1) : T(-1);
        x1 = (u - mb * x2) / ma;
        limit_edge();
      }
      T square = 0;
      for (int k = 0; k < 3; ++k) {
        const T gap = start[k] - x2 * s.half[k] + (k == j ? s.size[j] * x1 : T(0));
        square += gap * gap;
      }
      if (!(square < best - T(kMinimumValue))) continue;
      best = square;
      nearest.kind = side == 0 ? Feature::edge : Feature::corner;
      nearest.axis = j;
      nearest.along = x2;
      nearest.along_edge = x1;
      nearest.corner_bits = bits + (side > 0 ? 1 << j : 0);
    }
  }
  return nearest;
}

// How far along the segment from the nearest point a second contact is; 0 with `found` false: nowhere. It is
// where the segment, which lies along a face or an edge, ends or leaves the box.
template <class T>
MANIPLE_FUNCTION T second_point(const SegmentAndBox<T>& s, const NearestFeature<T>& nearest, bool& found) {
  using Feature = NearestFeature<T>;
  found = false;
  // segment lengths until it has come this far along an axis
  const auto reach = [&](T distance, int axis) { return distance / abs(s.half[axis]); };
  const auto smaller = [](T a, T b) { return b < a ? b : a; };  // a where b is not a number
  int upward = 0;
  for (int k = 0; k < 3; ++k) upward |= s.half[k] > 0 ? 1 << k : 0;
  int away = upward ^ nearest.corner_bits;
  const T t = nearest.along;
  const auto is_one_bit = [](int bits) { return bits == 1 || bits == 2 || bits == 4; };
  const auto position = [](int bit) { return bit == 1 ? 0 : bit == 2 ? 1 : 2; };

  if (nearest.kind == Feature::corner) {
    if (away == 0 || away == 7) return 0;  // it points to the corner
    const bool single = is_one_bit(away);
    const T direction = single ? T(1) : T(-1);
    if (!single) away = 7 - away;
    const int axis = position(away);
    found = true;
    // along the edge, or over the face
    if (s.axis[axis] * s.axis[axis] > T(0.5))
      return direction * smaller(1 - direction * t, reach(2 * s.size[axis], axis));
    const int axis1 = (axis + 1) % 3, axis2 = (axis + 2) % 3;
    const T length = smaller(1 + direction * t, reach(2 * s.size[axis1], axis1));
    return -direction * smaller(length, reach(2 * s.size[axis2], axis2));
  }
  if (nearest.kind == Feature::edge) {
    away &= 7 - (1 << nearest.axis);
    if (!is_one_bit(away)) return 0;  // a T, where only the foot touches
    // over the face to which the segment has the smaller angle
    const int axis1 = (nearest.axis + 1) % 3, axis2 = (nearest.axis + 2) % 3;
    const int across = abs(s.axis[axis1]) > abs(s.axis[axis2]) ? axis1 : axis2;
    const T direction = away & (1 << across) ? T(1) : T(-1);
    T length = smaller(1 - direction * t, reach(2 * s.size[across], across));
    const bool to_upper_end = ((upward & (1 << nearest.axis)) != 0) == (direction > 0);
    const T left = to_upper_end ? 1 - nearest.along_edge : 1 + nearest.along_edge;
    length = smaller(length, reach(s.size[nearest.axis] * left, nearest.axis));
    found = true;
    return direction * length;
  }
  if (nearest.kind == Feature::face) {
    // from this end to where the other one leaves the face
    const T direction = -t;
    T length = 2;
    for (int k = 0; k < 3; ++k) {
      if (k == nearest.axis) continue;
      const T start = s.center[k] + t * s.half[k];
      for (int sign = 1; sign >= -1; sign -= 2) {
        const T there = (static_cast<T>(sign) * s.size[k] - start) / s.half[k] * direction;
        if (there > 0 && there < length) length = there;
      }
    }
    found = true;
    return direction * length;
  }
  return 0;
}

// A capsule and a box: the spheres at the nearest point of the capsule's axis, and at a second one where it
// lies along a face or an edge.
template <class T>
MANIPLE_STAGE void capsule_box_alone(const GeomPose<T>& capsule, const GeomPose<T>& box, T margin,
                                     FoundContacts<T>& found) {
  const Mat3<T> to_box = transpose(box.mat);
  const Vec3<T> center = to_box * (capsule.pos - box.pos), axis = to_box * capsule.mat.column_z();
  const T length = capsule.size[1];
  const Vec3<T> half = length * axis;
  const SegmentAndBox<T> segment{
      {center.x, center.y, center.z}, {half.x, half.y, half.z}, {axis.x, axis.y, axis.z}, box.size, length};
  const T largest = margin + 2 * (capsule.size[0] + length + box.size[0] + box.size[1] + box.size[2]);
  const NearestFeature<T> nearest = nearest_feature(segment, largest);
  if (nearest.kind == NearestFeature<T>::none) return;
  const auto sphere_at = [&](T t) {
    sphere_box(box.mat * (center + t * half) + box.pos, capsule.size[0], box, margin,
               [&](bool hit, const ContactPoint<T>& point) {
                 if (hit) found.add(point);
               });
  };
  sphere_at(nearest.along);
  bool two = false;
  const T step = second_point(segment, nearest, two);
  if (two) sphere_at(step + nearest.along);
}
template <class V, class Emit>
MANIPLE_FUNCTION void capsule_box(const GeomPose<V>& capsule, const GeomPose<V>& box, V margin,
                                  const Emit& emit) {
  using T = ScalarOf<V>;
  find_alone(
      capsule, capsule_radius(capsule.size), box, box_radius(box.size), margin,
      [](const GeomPose<T>& pose1, const GeomPose<T>& pose2, T margin_of_lane, FoundContacts<T>& found) {
        capsule_box_alone(pose1, pose2, margin_of_lane, found);
      },
      emit);
}

}  // namespace maniple
