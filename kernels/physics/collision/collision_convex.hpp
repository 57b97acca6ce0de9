// Contacts of cylinders, ellipsoids and meshes with other shapes, with the contact points of MuJoCo's
// (engine_collision_convex.c): GJK and EPA find the deepest one, contact_patch.hpp those of flat and straight
// sides. Called by MANIPLE_CONVEX_PAIR_TYPES.
#pragma once

#include "kernels/physics/collision/contact_patch.hpp"
#include "kernels/physics/collision/epa.hpp"

namespace maniple {

template <class V>
MANIPLE_FUNCTION V geom_radius(int type, const GeomPose<V>& pose) {
  return type == geom_mesh ? pose.mesh_radius() : shape_radius(type, pose.size);
}

// How far a geom reaches along a unit vector, from its center, a mesh's box from the center of the box.
template <class V>
MANIPLE_FUNCTION V reach_along(int type, const GeomPose<V>& pose, const Vec3<V>& direction) {
  if (type == geom_sphere) return pose.size[0];
  Vec3<V> size = pose.sizes();
  if (type == geom_mesh) size = scaled_by(uniform3<V>(pose.aabb + 3), pose.mesh_scale());
  const V z = abs(dot(pose.mat.column_z(), direction));
  if (type == geom_capsule) return size.x + size.y * z;
  const V x = abs(dot(pose.mat.column_x(), direction)), y = abs(dot(pose.mat.column_y(), direction));
  if (type == geom_cylinder) return size.x * (x + y) + size.y * z;
  return size.x * x + size.y * y + size.z * z;
}

// Where no side of the box around a mesh, or of another box, is between two geoms. Of shapes that are no
// boxes the boxes around them count; a distance that a rounding could make is none.
template <class V>
MANIPLE_FUNCTION MaskOf<V> boxes_overlap(int type1, const GeomPose<V>& pose1, int type2,
                                         const GeomPose<V>& pose2, V margin) {
  using T = ScalarOf<V>;
  const auto center = [](int type, const GeomPose<V>& pose) {
    if (type != geom_mesh) return pose.pos;
    return pose.pos + pose.mat * scaled_by(uniform3<V>(pose.aabb), pose.mesh_scale());
  };
  const Vec3<V> way = center(type2, pose2) - center(type1, pose1);
  MaskOf<V> overlap(true);
  const auto test = [&](const Vec3<V>& side) {
    const V reach = reach_along(type1, pose1, side) + reach_along(type2, pose2, side) + margin;
    overlap = overlap && abs(dot(way, side)) <= V(T(1) + T(1e-5)) * reach;
  };
  const auto test_all = [&](const GeomPose<V>& pose) {
    test(pose.mat.column_x());
    test(pose.mat.column_y());
    test(pose.mat.column_z());
  };
  test_all(pose2);
  if (type1 == geom_box || type1 == geom_mesh) test_all(pose1);
  return overlap;
}

// The deepest points of two inflated shapes (mjc_penetration, mjc_ccd), and their distance plus the margin;
// false if they do not overlap.
template <class S>
MANIPLE_STAGE bool penetration(ConvexShape<S> shape1, ConvexShape<S> shape2, double margin,
                               const ConvexOptions& options, ContactPoint<double>& contact,
                               Witnesses& found) {
  Vec3<double>&point1 = found.point1, &point2 = found.point2;
  double dist = 0;
  bool known = false;
  if (shape1.inflation > 0 || shape2.inflation > 0 || shape1.has_core() || shape2.has_core()) {
    // shallow: the distance of the cores
    const double coat1 = shape1.inflation + (shape1.has_core() ? shape1.size[0] : 0),
                 coat2 = shape2.inflation + (shape2.has_core() ? shape2.size[0] : 0);
    shape1.core = shape2.core = true;
    const GjkResult cores = gjk(shape1, shape2, options, coat1 + coat2);
    if (cores.dist > options.tolerance) {
      dist = cores.dist - (coat1 + coat2);
      if (!(dist < 0)) return false;
      const Vec3<double> normal = plain_normalize(cores.point2 - cores.point1);
      point1 = cores.point1 + coat1 * normal;
      point2 = cores.point2 - coat2 * normal;
      known = true;
      found.count = cores.count < 3 ? cores.count : 3;
      for (int k = 0; k < found.count; ++k) found.corner[k] = cores.corner[k];
    }
    shape1.core = shape2.core = false;
  }
  if (!known) {
    const GjkResult whole = gjk(shape1, shape2, options, 0);
    if (whole.dist > options.tolerance || whole.count < 2 || whole.separated) return false;
    Polytope<S> polytope;
    // (MuJoCo takes it as touching)
    GjkResult simplex = whole;
    simplex.dist = 0;
    if (!polytope.begin(shape1, shape2, simplex)) return false;
    if (!polytope.expand(shape1, shape2, options, point1, point2, dist) || !(dist < 0)) return false;
    found.count = 3;
    for (int k = 0; k < 3; ++k) found.corner[k] = polytope.nearest(k);
  }
  contact.dist = margin + dist;
  contact.pos = 0.5 * (point1 + point2);
  contact.normal = plain_normalize(point1 - point2);
  contact.tangent = zero3<double>();
  return true;
}

template <class S>
MANIPLE_FUNCTION Vec3<double> in_double(const Vec3<S>& v) {
  return {static_cast<double>(v.x), static_cast<double>(v.y), static_cast<double>(v.z)};
}
// A contact in the model's precision.
template <class S>
MANIPLE_FUNCTION ContactPoint<S> rounded(const ContactPoint<double>& contact) {
  const auto round = [](const Vec3<double>& v) {
    return Vec3<S>{static_cast<S>(v.x), static_cast<S>(v.y), static_cast<S>(v.z)};
  };
  return {static_cast<S>(contact.dist), round(contact.pos), round(contact.normal), zero3<S>()};
}
template <class S>
MANIPLE_FUNCTION ConvexShape<S> convex_shape(const Model<S>& m, int type, const GeomPose<S>& pose,
                                             double inflation) {
  const auto d = [](S x) { return static_cast<double>(x); };
  const Mat3<S>& a = pose.mat;
  return {.type = type,
          .pos = in_double(pose.pos),
          .mat = {d(a.xx), d(a.xy), d(a.xz), d(a.yx), d(a.yy), d(a.yz), d(a.zx), d(a.zy), d(a.zz)},
          .size = {d(pose.size[0]), d(pose.size[1]), d(pose.size[2])},
          .inflation = inflation,
          .mesh = convex_mesh(m, type == geom_mesh ? pose.data : -1, in_double(pose.mesh_scale())),
          .core = false,
          .vertex = -1,
          .prism = nullptr};
}

// The lowest vertex of a mesh over a plane, and the corners of the face there that is most parallel to it, at
// most four, those that are below the margin and the mesh's origin.
template <class S>
MANIPLE_FUNCTION void plane_mesh_alone(const Model<S>& m, const GeomPose<S>& plane, const GeomPose<S>& pose,
                                       double margin, FoundContacts<double>& contacts) {
  const ConvexShape<S> shape = convex_shape(m, geom_mesh, pose, 0);
  const ConvexMesh<S>& mesh = shape.mesh;
  const Vec3<double> normal = in_double(plane.mat.column_z()), origin = in_double(plane.pos);
  const Vec3<double> down{-plain_dot(shape.mat.column_x(), normal), -plain_dot(shape.mat.column_y(), normal),
                          -plain_dot(shape.mat.column_z(), normal)};
  const int lowest = mesh.farthest(down, -1);
  const auto add = [&](int vertex) {
    const Vec3<double> point = shape.in_world(mesh.vertex(vertex));
    const double dist = plain_dot(normal, point - origin);
    if (dist <= margin) contacts.add({dist, point - (0.5 * dist) * normal, normal, zero3<double>()});
  };
  add(lowest);
  if (contacts.count == 0) return;
  int face = -1;
  double most = -kNoDistance;
  for (int i = 0; i < mesh.polymapnum[lowest]; ++i) {
    const int other = mesh.polymap[mesh.polymapadr[lowest] + i];
    const double parallel = plain_dot(mesh.normal(other), down);
    if (!(parallel > most)) continue;
    most = parallel;
    face = other;
  }
  if (face < 0) return;
  // from the lowest vertex around the face
  const int* const vertices = mesh.polyvert + mesh.polyvertadr[face];
  const int count = mesh.polyvertnum[face];
  int first = 0;
  while (first + 1 < count && vertices[first] != lowest) ++first;
  const auto around = [&](int k) { return vertices[first + k < count ? first + k : first + k - count]; };
  int chosen[4] = {0, 1, 2, 3};
  if (count > 4)
    choose_four(
        count, [&](int k) { return mesh.vertex(around(k)); }, chosen);
  for (int k = 0; k < (count < 4 ? count : 4); ++k) {
    const int vertex = around(chosen[k]);
    if (vertex != lowest && plain_dot(down, mesh.vertex(vertex)) >= 0) add(vertex);
  }
}

template <class S>
MANIPLE_STAGE void convex_alone(const Model<S>& m, int type1, const GeomPose<S>& pose1, int type2,
                                const GeomPose<S>& pose2, S margin_of_pair, FoundContacts<S>& found) {
  const auto margin = static_cast<double>(margin_of_pair);
  FoundContacts<double> contacts;
  if (type1 == geom_plane) {
    plane_mesh_alone(m, pose1, pose2, margin, contacts);
  } else {
    const ConvexOptions options = convex_options(m);
    const ConvexShape<S> shape1 = convex_shape(m, type1, pose1, 0.5 * margin),
                         shape2 = convex_shape(m, type2, pose2, 0.5 * margin);
    ContactPoint<double> deepest;
    Witnesses witnesses;
    if (!penetration(shape1, shape2, margin, options, deepest, witnesses)) return;
    contacts.add(deepest);
    const auto is_round = [](int type) { return type == geom_sphere || type == geom_ellipsoid; };
    if (options.several && !is_round(type1) && !is_round(type2))
      find_patch(shape1, shape2, witnesses, margin, contacts);
  }
  for (int k = 0; k < contacts.count; ++k) found.add(rounded<S>(contacts.point[k]));
}

template <class V, class Emit>
MANIPLE_FUNCTION void convex_convex(const Model<ScalarOf<V>>& m, int type1, const GeomPose<V>& pose1,
                                    int type2, const GeomPose<V>& pose2, V margin, const Emit& emit) {
  using S = ScalarOf<V>;
  const auto find = [&](const GeomPose<S>& one, const GeomPose<S>& other, S margin_of_lane,
                        FoundContacts<S>& found) {
    convex_alone(m, type1, one, type2, other, margin_of_lane, found);
  };
  const V radius2 = geom_radius(type2, pose2);
  MaskOf<V> near = type1 == geom_plane
                       ? dot(pose2.pos - pose1.pos, pose1.mat.column_z()) <= radius2 + margin
                       : spheres_overlap(pose1, geom_radius(type1, pose1), pose2, radius2, margin);
  if (type1 != geom_plane && type2 == geom_mesh && any_lane(near))
    near = near && boxes_overlap(type1, pose1, type2, pose2, margin);
  find_alone(pose1, pose2, margin, near, find, emit);
}

}  // namespace maniple
