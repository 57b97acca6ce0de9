// Where a ray meets a triangle: what height fields and meshes are made of.
#pragma once

#include "kernels/base/varying.hpp"
#include "kernels/math/vector.hpp"

namespace maniple {

// Distance along a ray to a triangle, negative where it lies behind or the ray misses it (Moller, Trumbore
// 1997).
template <class V>
MANIPLE_FUNCTION V triangle_distance(const Vec3<V>& a, const Vec3<V>& b, const Vec3<V>& c, const Vec3<V>& p,
                                     const Vec3<V>& u) {
  const Vec3<V> ab = b - a, ac = c - a, across = cross(u, ac);
  V determinant = dot(ab, across);
  MaskOf<V> met = abs(determinant) >= V(kMinimumValue);
  if (!any_lane(met)) return V(-1);
  determinant = select(met, determinant, V(1));
  const Vec3<V> from = p - a;
  const V s = dot(from, across) / determinant;
  met = met && s >= V(0) && s <= V(1);
  if (!any_lane(met)) return V(-1);
  const Vec3<V> along = cross(from, ab);
  const V t = dot(u, along) / determinant;
  met = met && t >= V(0) && s + t <= V(1);
  if (!any_lane(met)) return V(-1);
  return select(met, dot(ac, along) / determinant, V(-1));
}

}  // namespace maniple
