// Where cylinders and ellipsoids touch other shapes, with the contact points of MuJoCo's
// (engine_collision_convex.c): GJK and EPA find the deepest one, contact_patch.hpp those of flat and straight
// sides. Called by MANIPLE_CONVEX_PAIR_TYPES.
#pragma once

#include "kernels/physics/collision/contact_patch.hpp"
#include "kernels/physics/collision/epa.hpp"

namespace maniple {

template <class T>
MANIPLE_FUNCTION T geom_radius(int type, const T* size) {
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

// The deepest points of two shapes, both inflated by half of the margin (mjc_penetration, mjc_ccd); false if
// they do not overlap.
template <class T>
MANIPLE_STAGE bool penetration(ConvexShape<T> shape1, ConvexShape<T> shape2, T margin,
                               const ConvexOptions<T>& options, ContactPoint<T>& contact,
                               Witnesses<T>& found) {
  Vec3<T>&point1 = found.point1, &point2 = found.point2;
  T dist = 0;
  bool known = false;
  if (margin > 0 || shape1.has_core() || shape2.has_core()) {
    // shallow: the distance of the cores
    const T coat1 = T(0.5) * margin + (shape1.has_core() ? shape1.size[0] : T(0)),
            coat2 = T(0.5) * margin + (shape2.has_core() ? shape2.size[0] : T(0));
    shape1.core = shape2.core = true;
    const GjkResult<T> cores = gjk(shape1, shape2, options, coat1 + coat2);
    if (cores.dist > options.tolerance) {
      dist = cores.dist - (coat1 + coat2);
      if (!(dist < 0)) return false;
      const Vec3<T> normal = plain_normalize(cores.point2 - cores.point1);
      point1 = cores.point1 + coat1 * normal;
      point2 = cores.point2 - coat2 * normal;
      known = true;
      found.count = cores.count < 3 ? cores.count : 3;
      for (int k = 0; k < found.count; ++k) found.corner[k] = cores.corner[k];
    }
    shape1.core = shape2.core = false;
  }
  if (!known) {
    const GjkResult<T> whole = gjk(shape1, shape2, options, T(0));
    if (whole.dist > options.tolerance || whole.count < 2 || whole.separated) return false;
    Polytope<T> polytope;
    // (MuJoCo takes it as touching)
    GjkResult<T> simplex = whole;
    simplex.dist = 0;
    if (!polytope.begin(shape1, shape2, simplex)) return false;
    if (!polytope.expand(shape1, shape2, options, point1, point2, dist) || !(dist < 0)) return false;
    found.count = 3;
    for (int k = 0; k < 3; ++k) found.corner[k] = polytope.nearest(k);
  }
  contact.dist = margin + dist;
  contact.pos = T(0.5) * (point1 + point2);
  contact.normal = plain_normalize(point1 - point2);
  contact.tangent = zero3<T>();
  return true;
}

// A geom's pose in double precision, with its own sizes.
template <class T>
struct DoublePose {
  double size[3];
  Vec3<double> pos;
  Mat3<double> mat;

  MANIPLE_FUNCTION explicit DoublePose(const GeomPose<T>& pose)
      : size{pose.size[0], pose.size[1], pose.size[2]}, pos{pose.pos.x, pose.pos.y, pose.pos.z} {
    const Mat3<T>& m = pose.mat;
    mat = {m.xx, m.xy, m.xz, m.yx, m.yy, m.yz, m.zx, m.zy, m.zz};
  }
};

// In double precision whatever T is: the stops of GJK and EPA are below what single precision resolves.
template <class T>
MANIPLE_STAGE void convex_alone(int type1, const GeomPose<T>& pose1, int type2, const GeomPose<T>& pose2,
                                T margin, const ConvexOptions<T>& options, FoundContacts<T>& found) {
  const DoublePose<T> one(pose1), other(pose2);
  const double inflation = 0.5 * static_cast<double>(margin);
  const ConvexShape<double> shape1{type1, one.pos, one.mat, one.size, inflation, false},
      shape2{type2, other.pos, other.mat, other.size, inflation, false};
  const ConvexOptions<double> in_double{static_cast<double>(options.tolerance), options.iterations,
                                        options.several};
  ContactPoint<double> deepest;
  Witnesses<double> witnesses;
  if (!penetration(shape1, shape2, static_cast<double>(margin), in_double, deepest, witnesses)) return;
  FoundContacts<double> contacts;
  contacts.add(deepest);
  const auto is_round = [](int type) { return type == geom_sphere || type == geom_ellipsoid; };
  if (options.several && !is_round(type1) && !is_round(type2))
    find_patch(shape1, shape2, witnesses, static_cast<double>(margin), contacts);
  const auto rounded = [](const Vec3<double>& v) {
    return Vec3<T>{static_cast<T>(v.x), static_cast<T>(v.y), static_cast<T>(v.z)};
  };
  for (int k = 0; k < contacts.count; ++k) {
    const ContactPoint<double>& contact = contacts.point[k];
    found.add({static_cast<T>(contact.dist), rounded(contact.pos), rounded(contact.normal), zero3<T>()});
  }
}

template <class V, class Emit>
MANIPLE_FUNCTION void convex_convex(int type1, const GeomPose<V>& pose1, int type2, const GeomPose<V>& pose2,
                                    V margin, const ConvexOptions<ScalarOf<V>>& options, const Emit& emit) {
  using T = ScalarOf<V>;
  find_alone(
      pose1, geom_radius(type1, pose1.size), pose2, geom_radius(type2, pose2.size), margin,
      [&](const GeomPose<T>& one, const GeomPose<T>& other, T margin_of_lane, FoundContacts<T>& found) {
        convex_alone(type1, one, type2, other, margin_of_lane, options, found);
      },
      emit);
}

}  // namespace maniple
