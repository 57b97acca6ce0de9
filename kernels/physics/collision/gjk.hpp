// Distance of two convex shapes, or a tetrahedron of their difference that holds the origin: the algorithm of
// Gilbert, Johnson and Keerthi with the signed volumes of Montanari, Petrinic and Barbieri (2017), with
// MuJoCo's order and stopping rules (engine_collision_gjk.c). EPA in epa.hpp goes on from there.
#pragma once

#include "kernels/physics/collision/convex_shape.hpp"

namespace maniple {

// What GJK has found. `dist`: between the nearest points, 0 if the shapes overlap, kNoDistance if they are
// known to be apart.
struct GjkResult {
  Support corner[4] = {};  // of the last simplex
  int count = 0;
  Vec3<double> point1, point2;  // nearest ones
  double dist = kNoDistance;
  bool separated = false;
};

MANIPLE_FUNCTION bool same_sign(double a, double b) {
  return (a > 0 && b > 0) || (a < 0 && b < 0);
}
MANIPLE_FUNCTION double determinant(const Vec3<double>& a, const Vec3<double>& b, const Vec3<double>& c) {
  return a.x * (b.y * c.z - b.z * c.y) + a.y * (b.z * c.x - b.x * c.z) + a.z * (b.x * c.y - b.y * c.x);
}

// The origin projected on the plane of a triangle, by the corner at which that is well conditioned; false if
// there is no plane.
MANIPLE_FUNCTION bool project_origin(const Vec3<double>& v1, const Vec3<double>& v2, const Vec3<double>& v3,
                                     Vec3<double>& projected) {
  const Vec3<double> way21 = v2 - v1, way31 = v3 - v1, way32 = v3 - v2;
  for (int corner = 0; corner < 3; ++corner) {
    const Vec3<double> normal = corner == 0   ? plain_cross(way32, way21)
                                : corner == 1 ? plain_cross(way21, way31)
                                              : plain_cross(way31, way32);
    const double height = plain_dot(normal, corner == 0 ? v2 : corner == 1 ? v1 : v3);
    const double square = plain_dot(normal, normal);
    if (corner < 2 && square == 0) return false;
    if (corner == 2 || (height != 0 && square > kMinimumValue)) {
      projected = (height / square) * normal;
      return true;
    }
  }
  return false;
}

// Barycentric coordinates of a point in the plane of a triangle, not yet divided by `sum`, from the
// projection along the axis that leaves most of the triangle.
struct Barycentric {
  double part[3], sum;

  MANIPLE_FUNCTION Barycentric(const Vec3<double>& v1, const Vec3<double>& v2, const Vec3<double>& v3,
                               const Vec3<double>& p) {
    const double minor_x = v2.y * v3.z - v2.z * v3.y - v1.y * v3.z + v1.z * v3.y + v1.y * v2.z - v1.z * v2.y;
    const double minor_y = v2.x * v3.z - v2.z * v3.x - v1.x * v3.z + v1.z * v3.x + v1.x * v2.z - v1.z * v2.x;
    const double minor_z = v2.x * v3.y - v2.y * v3.x - v1.x * v3.y + v1.y * v3.x + v1.x * v2.y - v1.y * v2.x;
    const double size_x = abs(minor_x), size_y = abs(minor_y), size_z = abs(minor_z);
    if (size_x >= size_y && size_x >= size_z) {
      sum = minor_x;
      set(v1.y, v1.z, v2.y, v2.z, v3.y, v3.z, p.y, p.z);
    } else if (size_y >= size_z) {
      sum = minor_y;
      set(v1.x, v1.z, v2.x, v2.z, v3.x, v3.z, p.x, p.z);
    } else {
      sum = minor_z;
      set(v1.x, v1.y, v2.x, v2.y, v3.x, v3.y, p.x, p.y);
    }
  }

 private:
  MANIPLE_FUNCTION void set(double x1, double y1, double x2, double y2, double x3, double y3, double x,
                            double y) {
    part[0] = x * y2 + y * x3 + x2 * y3 - x * y3 - y * x2 - x3 * y2;
    part[1] = x * y3 + y * x1 + x3 * y1 - x * y1 - y * x3 - x1 * y3;
    part[2] = x * y1 + y * x2 + x1 * y2 - x * y2 - y * x1 - x2 * y1;
  }
};

// ---- the point of a simplex that is nearest to the origin, as weights of its corners ----

MANIPLE_FUNCTION void nearest_on_line(const Vec3<double>& s1, const Vec3<double>& s2, double* weight) {
  const Vec3<double> way = s2 - s1;
  const double scale = -(plain_dot(s2, way) / plain_dot(way, way));
  const Vec3<double> p{s2.x + scale * way.x, s2.y + scale * way.y, s2.z + scale * way.z};
  double most = s1.x - s2.x, part1 = p.x - s2.x, part2 = s1.x - p.x;
  if (abs(s1.y - s2.y) >= abs(most)) {
    most = s1.y - s2.y;
    part1 = p.y - s2.y;
    part2 = s1.y - p.y;
  }
  if (abs(s1.z - s2.z) >= abs(most)) {
    most = s1.z - s2.z;
    part1 = p.z - s2.z;
    part2 = s1.z - p.z;
  }
  const bool inside = same_sign(most, part1) && same_sign(most, part2);
  weight[0] = inside ? part1 / most : 0;
  weight[1] = inside ? part2 / most : 1;
}

MANIPLE_FUNCTION void nearest_on_triangle(const Vec3<double>& s1, const Vec3<double>& s2,
                                          const Vec3<double>& s3, double* weight) {
  Vec3<double> p;
  if (!project_origin(s1, s2, s3, p)) {
    nearest_on_line(s1, s2, weight);
    weight[2] = 0;
    return;
  }
  const Barycentric of_origin(s1, s2, s3, p);
  const bool inside1 = same_sign(of_origin.sum, of_origin.part[0]),
             inside2 = same_sign(of_origin.sum, of_origin.part[1]),
             inside3 = same_sign(of_origin.sum, of_origin.part[2]);
  if (inside1 && inside2 && inside3) {
    for (int k = 0; k < 3; ++k) weight[k] = of_origin.part[k] / of_origin.sum;
    return;
  }
  double nearest = kNoDistance;
  const auto try_side = [&](const Vec3<double>& a, const Vec3<double>& b, int at_a, int at_b, bool always) {
    double of_line[2];
    nearest_on_line(a, b, of_line);
    const Vec3<double> x = of_line[0] * a + of_line[1] * b;
    const double square = plain_dot(x, x);
    if (!always && !(square < nearest)) return;
    nearest = square;
    weight[0] = weight[1] = weight[2] = 0;
    weight[at_a] = of_line[0];
    weight[at_b] = of_line[1];
  };
  if (!inside1) try_side(s2, s3, 1, 2, true);
  if (!inside2) try_side(s1, s3, 0, 2, false);
  if (!inside3) try_side(s1, s2, 0, 1, false);
}

MANIPLE_FUNCTION void nearest_on_tetrahedron(const Vec3<double> (&s)[4], double* weight) {
  const double volume[4] = {-determinant(s[1], s[2], s[3]), determinant(s[0], s[2], s[3]),
                            -determinant(s[0], s[1], s[3]), determinant(s[0], s[1], s[2])};
  const double sum = volume[0] + volume[1] + volume[2] + volume[3];
  bool inside = true;
  for (int k = 0; k < 4; ++k) inside = inside && same_sign(sum, volume[k]);
  if (inside) {
    for (int k = 0; k < 4; ++k) weight[k] = volume[k] / sum;
    return;
  }
  double nearest = kNoDistance;
  for (int left_out = 0; left_out < 4; ++left_out) {
    if (same_sign(sum, volume[left_out])) continue;
    const int a = left_out == 0 ? 1 : 0, b = left_out <= 1 ? 2 : 1, c = left_out == 3 ? 2 : 3;
    double of_face[3];
    nearest_on_triangle(s[a], s[b], s[c], of_face);
    const Vec3<double> x = of_face[0] * s[a] + of_face[1] * s[b] + of_face[2] * s[c];
    const double square = plain_dot(x, x);
    if (left_out > 0 && !(square < nearest)) continue;
    nearest = square;
    weight[left_out] = 0;
    weight[a] = of_face[0];
    weight[b] = of_face[1];
    weight[c] = of_face[2];
  }
}

// ---- the algorithm ----

// Whether the origin is in the difference of two shapes, by tetrahedra that move to it: 1 and the last one,
// 0, or -1 where rounding hides it. `iteration` goes on from GJK's.
template <class S>
MANIPLE_FUNCTION int find_origin(ConvexShape<S>& shape1, ConvexShape<S>& shape2, const ConvexOptions& options,
                                 GjkResult& result, int& iteration) {
  Support corner[4] = {result.corner[0], result.corner[1], result.corner[2], result.corner[3]};
  int order[4] = {0, 1, 2, 3};
  for (; iteration < options.iterations; ++iteration) {
    // the faces' distances from the origin, positive inside
    Vec3<double> normal[4];
    double dist[4];
    const auto face = [&](int k, int a, int b, int c) {
      const Vec3<double> va = corner[order[a]].difference(), vb = corner[order[b]].difference(),
                         vc = corner[order[c]].difference();
      normal[k] = plain_cross(vc - va, vb - va);
      const double square = plain_dot(normal[k], normal[k]);
      dist[k] = kNoDistance;
      if (!(square > kMinimumValue * kMinimumValue && square < 1e20)) return;
      normal[k] = (1 / sqrt(square)) * normal[k];
      dist[k] = plain_dot(normal[k], va);
    };
    face(0, 2, 1, 3);
    face(1, 0, 2, 3);
    face(2, 1, 0, 3);
    face(3, 0, 1, 2);
    if (dist[0] == 0 || dist[1] == 0 || dist[2] == 0 || dist[3] == 0) return -1;
    const int i = dist[0] < dist[1] ? 0 : 1, j = dist[2] < dist[3] ? 2 : 3;
    const int worst = dist[i] < dist[j] ? i : j;
    if (dist[worst] > 0) {
      for (int k = 0; k < 4; ++k) result.corner[k] = corner[order[k]];
      result.count = 4;
      return 1;
    }
    corner[order[worst]] = support(shape1, shape2, normal[worst]);
    if (plain_dot(normal[worst], corner[order[worst]].difference()) < 0) {
      result.count = 0;
      return 0;
    }
    // keeps the orientation
    const int next = (worst + 1) & 3, after = (worst + 2) & 3, kept = order[next];
    order[next] = order[after];
    order[after] = kept;
  }
  return -1;
}

// Distance of two shapes if it is less than `cutoff`; with a cutoff of 0 only whether they overlap.
template <class S>
MANIPLE_FUNCTION GjkResult gjk(ConvexShape<S>& shape1, ConvexShape<S>& shape2, const ConvexOptions& options,
                               double cutoff) {
  GjkResult result;
  result.point1 = shape1.pos;
  result.point2 = shape2.pos;
  const bool discrete = shape1.is_discrete() && shape2.is_discrete();
  const double enough = discrete ? 0 : 0.5 * (options.tolerance * options.tolerance);
  const double touching = discrete ? kMinimumValue : options.tolerance;
  bool search = !(cutoff > 0);
  const bool distances = cutoff > 0;
  Vec3<double> x = result.point1 - result.point2;
  double norm = length(x), norm_before = 0;
  double weight[4] = {0, 0, 0, 0};
  int count = 0;
  const auto separate = [&] {
    result.separated = true;
    result.count = 0;
    result.dist = kNoDistance;
  };
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    if (norm < touching || abs(norm_before - norm) < kMinimumValue) break;
    result.corner[count] = support(shape1, shape2, -((1 / norm) * x));
    const Vec3<double> s = result.corner[count].difference();
    if (plain_dot(x, x - s) < enough) break;  // Frank and Wolfe's duality gap
    const double lower = plain_dot(x, s);
    if (lower > 0 && (!distances || lower >= cutoff * norm)) {
      separate();
      return result;
    }
    if (count == 3 && search) {
      const int found = find_origin(shape1, shape2, options, result, iteration);
      if (found >= 0) {
        result.separated = found == 0;
        result.dist = found > 0 ? 0 : kNoDistance;
        return result;
      }
      search = false;
    }
    const Vec3<double> v[4] = {result.corner[0].difference(), result.corner[1].difference(),
                               result.corner[2].difference(), result.corner[3].difference()};
    weight[0] = count == 0 ? 1 : 0;
    weight[1] = weight[2] = weight[3] = 0;
    if (count == 3)
      nearest_on_tetrahedron(v, weight);
    else if (count == 2)
      nearest_on_triangle(v[0], v[1], v[2], weight);
    else if (count == 1)
      nearest_on_line(v[0], v[1], weight);
    count = 0;
    for (int k = 0; k < 4; ++k) {
      if (weight[k] == 0) continue;
      result.corner[count] = result.corner[k];
      weight[count++] = weight[k];
    }
    if (count < 1) {
      separate();
      return result;
    }
    x = weight[0] * result.corner[0].difference();
    for (int k = 1; k < count; ++k) x = x + weight[k] * result.corner[k].difference();
    norm_before = norm;
    norm = length(x);
    if (count == 4) break;
  }
  if (count > 0) {
    result.point1 = weight[0] * result.corner[0].point1;
    result.point2 = weight[0] * result.corner[0].point2;
    for (int k = 1; k < count; ++k) {
      result.point1 = result.point1 + weight[k] * result.corner[k].point1;
      result.point2 = result.point2 + weight[k] * result.corner[k].point2;
    }
  }
  if (norm > 0) result.separated = plain_dot(x, support(shape1, shape2, -((1 / norm) * x)).difference()) > 0;
  result.count = count;
  result.dist = count == 4 && !result.separated ? 0 : norm;
  return result;
}

}  // namespace maniple
