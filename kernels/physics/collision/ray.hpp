// Intersections of rays with geoms: closed formulas for planes, spheres, capsules, ellipsoids, cylinders and
// boxes, with MuJoCo's answers (mj_ray). Touch sensors ask whether a contact's normal meets their site, tasks
// how far it is to the ground.
#pragma once

#include "kernels/base/varying.hpp"
#include "kernels/math/vector.hpp"
#include "kernels/model/model.hpp"

namespace maniple {

// What of a line p + t u lies in a convex shape, as low <= t <= high: the shape's conditions cut it down one
// after the other. Empty where low > high.
template <class V>
struct LineInterval {
  V low = V(-1e30), high = V(1e30);

  MANIPLE_FUNCTION void cut(MaskOf<V> somewhere, V from, V to) {
    low = select(somewhere, max(low, from), V(1e30));
    high = select(somewhere, min(high, to), V(-1e30));
  }
  // |p + t u| <= size of one coordinate.
  MANIPLE_FUNCTION void cut_slab(V p, V u, V size) {
    const MaskOf<V> parallel = abs(u) < V(kMinimumValue);
    const V inverse = V(1) / select(parallel, V(1), u);
    const V a = (-size - p) * inverse, b = (size - p) * inverse;
    cut(!parallel || abs(p) <= size, select(parallel, low, min(a, b)), select(parallel, high, max(a, b)));
  }
  // |p + t u| <= radius. From the point of the line that is nearest to the center, so that little is lost to
  // rounding where p is far away.
  MANIPLE_FUNCTION void cut_ball(const Vec3<V>& p, const Vec3<V>& u, V radius) {
    const V square = dot(u, u);
    const MaskOf<V> still = square < V(kMinimumValue);
    const V inverse = V(1) / select(still, V(1), square);
    const V middle = select(still, V(0), -dot(p, u) * inverse);
    const Vec3<V> nearest = multiply_add(middle, u, p);
    const V beyond = radius * radius - dot(nearest, nearest);
    const V half = sqrt(max(beyond, V(0)) * inverse);
    cut(beyond >= V(0), select(still, low, middle - half), select(still, high, middle + half));
  }
  MANIPLE_FUNCTION MaskOf<V> is_empty() const { return low > high; }
  // Both shapes, whose union is convex.
  MANIPLE_FUNCTION void join(const LineInterval& other) {
    const MaskOf<V> mine = !is_empty(), others = !other.is_empty();
    low = min(select(mine, low, V(1e30)), select(others, other.low, V(1e30)));
    high = max(select(mine, high, V(-1e30)), select(others, other.high, V(-1e30)));
  }
  // The smallest t >= 0 on the surface; -1: none.
  MANIPLE_FUNCTION V first() const {
    return select(!is_empty() && high >= V(0), select(low >= V(0), low, high), V(-1));
  }
};

// Whether rays meet geoms of a type: those of ray_distance() below, and height fields (ray_hfield.hpp).
MANIPLE_FUNCTION constexpr bool ray_meets(int type) {
  return type == geom_hfield || type == geom_plane || type == geom_sphere || type == geom_capsule ||
         type == geom_ellipsoid || type == geom_cylinder || type == geom_box;
}

// Distance along the unit vector u from p to the surface of a geom (mju_rayGeom), both in its frame; -1 where
// the ray misses it. From within it is the way out; a plane is seen from above alone, and as far as its sizes
// go that are not 0. Sizes are scalars, or lane values.
template <class V, class Size>
MANIPLE_FUNCTION V ray_distance(int type, const Size* size, const Vec3<V>& p, const Vec3<V>& u) {
  if (!ray_meets(type)) return V(-1);
  LineInterval<V> line;
  const V radius(size[0]);
  switch (static_cast<GeomType>(type)) {  // no default: the compiler names a type that is left out
    case geom_plane: {
      const MaskOf<V> down = u.z <= V(-kMinimumValue);
      const V distance = -p.z / select(down, u.z, V(-1));
      MaskOf<V> met = down && distance >= V(0);
      const auto keep_within = [&](V extent, V place) {
        if (any_lane(extent > V(0))) met = met && (extent <= V(0) || abs(place) <= extent);
      };
      keep_within(radius, multiply_add(distance, u.x, p.x));
      keep_within(V(size[1]), multiply_add(distance, u.y, p.y));
      return select(met, distance, V(-1));
    }
    case geom_sphere:
      line.cut_ball(p, u, radius);
      return line.first();
    case geom_ellipsoid:
      line.cut_ball({p.x / V(size[0]), p.y / V(size[1]), p.z / V(size[2])},
                    {u.x / V(size[0]), u.y / V(size[1]), u.z / V(size[2])}, V(1));
      return line.first();
    case geom_box:
      line.cut_slab(p.x, u.x, radius);
      line.cut_slab(p.y, u.y, V(size[1]));
      line.cut_slab(p.z, u.z, V(size[2]));
      return line.first();
    case geom_cylinder:
    case geom_capsule:
      line.cut_ball({p.x, p.y, V(0)}, {u.x, u.y, V(0)}, radius);
      line.cut_slab(p.z, u.z, V(size[1]));
      for (int end = -1; type == geom_capsule && end <= 1; end += 2) {
        LineInterval<V> ball;
        ball.cut_ball({p.x, p.y, p.z - V(static_cast<ScalarOf<V>>(end)) * V(size[1])}, u, radius);
        line.join(ball);
      }
      return line.first();
    case geom_hfield:
    case geom_mesh:  // (ray_meets)
      break;
  }
  return V(-1);
}

}  // namespace maniple
