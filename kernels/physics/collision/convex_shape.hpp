// Convex shapes as GJK and EPA see them: by the point that reaches farthest in a direction, here with
// MuJoCo's choice where there are several (engine_collision_convex.c). Scalars only: these algorithms run for
// one environment at a time.
#pragma once

#include "kernels/physics/collision/alone.hpp"

namespace maniple {

// Sums whose products are rounded one by one, as MuJoCo's are: which corner or face comes next depends on it
// where several are as near.
template <class T>
MANIPLE_FUNCTION T plain_dot(const Vec3<T>& a, const Vec3<T>& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}
template <class T>
MANIPLE_FUNCTION Vec3<T> plain_cross(const Vec3<T>& a, const Vec3<T>& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
template <class T>
MANIPLE_FUNCTION T length(const Vec3<T>& v) {
  return sqrt(plain_dot(v, v));
}
template <class T>
MANIPLE_FUNCTION Vec3<T> plain_normalize(const Vec3<T>& v) {
  const T norm = length(v);
  if (norm < T(kMinimumValue)) return {T(1), T(0), T(0)};
  return (1 / norm) * v;
}
template <class T>
MANIPLE_FUNCTION Vec3<T> plain_multiply(const Mat3<T>& m, const Vec3<T>& v) {
  return {plain_dot(m.row_x(), v), plain_dot(m.row_y(), v), plain_dot(m.row_z(), v)};
}

// A geom, inflated by a distance; its core, which a sphere and a capsule have, is a point or a line.
template <class T>
struct ConvexShape {
  int type;
  Vec3<T> pos;
  Mat3<T> mat;
  const T* size;
  T inflation;
  bool core;

  // The point that reaches farthest in the direction of a unit vector.
  MANIPLE_FUNCTION Vec3<T> support(const Vec3<T>& direction) const {
    const Vec3<T> point = support_of_geom(direction);
    return inflation > 0 && !core ? point + inflation * direction : point;
  }
  MANIPLE_FUNCTION bool has_core() const { return type == geom_sphere || type == geom_capsule; }

 private:
  MANIPLE_FUNCTION Vec3<T> support_of_geom(const Vec3<T>& direction) const {
    if (type == geom_sphere) return core ? pos : size[0] * direction + pos;
    if (type == geom_capsule) {  // of its mat only the axis is set
      const Vec3<T> axis = mat.column_z();
      const Vec3<T> end = (plain_dot(axis, direction) >= 0 ? size[1] : -size[1]) * axis;
      return core ? end + pos : size[0] * direction + end + pos;
    }
    const Vec3<T> u{plain_dot(mat.column_x(), direction), plain_dot(mat.column_y(), direction),
                    plain_dot(mat.column_z(), direction)};
    Vec3<T> local;
    if (type == geom_ellipsoid) {
      local = {u.x * size[0], u.y * size[1], u.z * size[2]};
      const T square = plain_dot(local, local);
      if (square < T(kMinimumValue) * T(kMinimumValue)) return size[0] * mat.column_x() + pos;
      const T inverse = 1 / sqrt(square);
      local = {local.x * (inverse * size[0]), local.y * (inverse * size[1]), local.z * (inverse * size[2])};
    } else if (type == geom_cylinder) {
      const T square = u.x * u.x + u.y * u.y;
      const T scale = square >= T(kMinimumValue) * T(kMinimumValue) ? size[0] / sqrt(square) : T(0);
      local = {scale * u.x, scale * u.y, u.z >= 0 ? size[1] : -size[1]};
    } else {
      local = {u.x >= 0 ? size[0] : -size[0], u.y >= 0 ? size[1] : -size[1], u.z >= 0 ? size[2] : -size[2]};
    }
    return plain_multiply(mat, local) + pos;
  }
};

// A corner of the difference of two shapes: the points of both.
template <class T>
struct Support {
  Vec3<T> point1, point2;
  MANIPLE_FUNCTION Vec3<T> difference() const { return point1 - point2; }
};
template <class T>
MANIPLE_FUNCTION Support<T> support(const ConvexShape<T>& shape1, const ConvexShape<T>& shape2,
                                    const Vec3<T>& direction) {
  return {shape1.support(direction), shape2.support(-direction)};
}

// How GJK and EPA stop: MuJoCo's options.
template <class T>
struct ConvexOptions {
  T tolerance;     // ccd_tolerance [m]
  int iterations;  // ccd_iterations
  bool several;    // whether flat and straight sides touch at several points: multiccd
};

}  // namespace maniple
