// Penetration depth of two convex shapes: van den Bergen's expanding polytope,
// which begins with the simplex of GJK, with MuJoCo's order and stopping rules
// (engine_collision_gjk.c). The polytope has a fixed size and lies on the stack.
#pragma once

#include <cstdint>

#include "kernels/physics/collision/gjk.hpp"

namespace maniple {

// A closed surface of triangles around the origin, in the difference of two shapes. 8 KiB, which a thread of
// a GPU has in its local memory.
template <class S>
class Polytope {
 public:
  using Shape = ConvexShape<S>;
  static constexpr int kCorners = 5 + kMostEpaIterations, kFaces = 2 * kCorners;
  static constexpr std::uint8_t kNowhere = 255, kDeleted = 254;
  struct Face {
    std::uint8_t corner[3], adjacent[3];  // the neighbours across corner k and the next one
    std::uint8_t place;                   // in the list of candidates; kNowhere, kDeleted
    Vec3<double> nearest;                 // its plane's point nearest to the origin, outward
    double square;                        // of its length
  };
  static_assert(kFaces < kDeleted);

  // Begins with the simplex of GJK; false if MuJoCo finds no contact then.
  MANIPLE_FUNCTION bool begin(Shape& shape1, Shape& shape2, const GjkResult& simplex) {
    if (simplex.count == 2) return begin_with_line(shape1, shape2, simplex.corner);
    if (simplex.count == 3) return begin_with_triangle(shape1, shape2, simplex.corner, simplex.dist);
    return begin_with_tetrahedron(shape1, shape2, simplex.corner, simplex.dist);
  }

  // Expands; false if it found no face. Otherwise the nearest points, and their distance, which is negative.
  MANIPLE_FUNCTION bool expand(Shape& shape1, Shape& shape2, const ConvexOptions& options,
                               Vec3<double>& point1, Vec3<double>& point2, double& dist) {
    double upper = kNoDistance, upper_square = kNoDistance;
    Face best;  // a copy, because it is deleted before its successor is known
    bool found = false;
    const bool discrete = shape1.is_discrete() && shape2.is_discrete();
    const int most = options.iterations < kMostEpaIterations ? options.iterations : kMostEpaIterations;
    for (int iteration = 0; iteration < most; ++iteration) {
      double lower_square = kNoDistance;
      int chosen = -1;
      for (int i = 0; i < candidate_count_; ++i)
        if (faces_[candidates_[i]].square < lower_square) {
          chosen = candidates_[i];
          lower_square = faces_[chosen].square;
        }
      if (lower_square > upper_square || chosen < 0) break;
      best = faces_[chosen];
      found = true;
      if (lower_square <= 0) break;
      const double lower = sqrt(lower_square);
      const int added = add_support(shape1, shape2, best.nearest, lower);
      const Vec3<double> w = corners_[added].difference();
      const double reach = plain_dot(best.nearest, w) / lower;
      if (reach < upper) {
        upper = reach;
        upper_square = upper * upper;
      }
      if (upper - lower < (discrete ? kMinimumValue : options.tolerance)) {
        if (iteration == 0 && upper < lower - 1e-10) found = false;
        break;
      }
      if (discrete && is_known(added)) break;
      remove_visible(chosen, w);
      if (edge_count_ < 3) {
        found = false;
        break;
      }
      if (edge_count_ > free_count_) break;
      if (!close_with(added, lower_square, upper_square)) {
        found = false;
        break;
      }
      if (candidate_count_ == 0) break;
    }
    if (!found) return false;
    for (int k = 0; k < 3; ++k) nearest_[k] = best.corner[k];
    const Support &a = corners_[best.corner[0]], &b = corners_[best.corner[1]], &c = corners_[best.corner[2]];
    const Barycentric weights(a.difference(), b.difference(), c.difference(), best.nearest);
    const double at_a = weights.part[0] / weights.sum, at_b = weights.part[1] / weights.sum,
                 at_c = weights.part[2] / weights.sum;
    point1 = at_a * a.point1 + at_b * b.point1 + at_c * c.point1;
    point2 = at_a * a.point2 + at_b * b.point2 + at_c * c.point2;
    dist = -sqrt(best.square);
    return true;
  }

  // A corner of the face that expand() has found.
  MANIPLE_FUNCTION const Support& nearest(int k) const { return corners_[nearest_[k]]; }

 private:
  // squared distance from the origin below which it is on a face of the first polytope
  static constexpr double kOnFace = kMinimumValue * kMinimumValue;

  MANIPLE_FUNCTION void clear() {
    corner_count_ = candidate_count_ = edge_count_ = 0;
    free_count_ = kFaces;
    for (int i = 0; i < kFaces; ++i) free_[i] = static_cast<std::uint8_t>(kFaces - 1 - i);
  }
  MANIPLE_FUNCTION int add_corner(const Support& corner) {
    corners_[corner_count_] = corner;
    return corner_count_++;
  }
  MANIPLE_FUNCTION int add_support(Shape& shape1, Shape& shape2, const Vec3<double>& direction, double norm) {
    Vec3<double> unit{1, 0, 0};
    if (norm > kMinimumValue) unit = {direction.x / norm, direction.y / norm, direction.z / norm};
    return add_corner(support(shape1, shape2, unit));
  }
  MANIPLE_FUNCTION Vec3<double> corner(int i) const { return corners_[i].difference(); }

  // Sets a face; returns the square of its distance from the origin, 0 if it has no plane.
  MANIPLE_FUNCTION double set_face(int f, int v1, int v2, int v3, int beside1, int beside2, int beside3) {
    Face& face = faces_[f];
    const int corners[3] = {v1, v2, v3}, beside[3] = {beside1, beside2, beside3};
    for (int k = 0; k < 3; ++k) {
      face.corner[k] = static_cast<std::uint8_t>(corners[k]);
      face.adjacent[k] = static_cast<std::uint8_t>(beside[k]);
    }
    face.place = kNowhere;
    face.square = 0;
    if (!project_origin(corner(v3), corner(v2), corner(v1), face.nearest)) return 0;
    if (plain_dot(face.nearest, corner(v1) - center_) < 0) face.nearest = -face.nearest;
    face.square = plain_dot(face.nearest, face.nearest);
    return face.square;
  }
  // The faces of a first polytope are numbered as they come; all of them are candidates.
  MANIPLE_FUNCTION double set_first_face(int v1, int v2, int v3, int beside1, int beside2, int beside3) {
    const int f = free_[--free_count_];
    return set_face(f, v1, v2, v3, beside1, beside2, beside3);
  }
  MANIPLE_FUNCTION void take_all_as_candidates() {
    for (int f = 0; f < kFaces - free_count_; ++f) add_candidate(f);
  }
  MANIPLE_FUNCTION void add_candidate(int f) {
    faces_[f].place = static_cast<std::uint8_t>(candidate_count_);
    candidates_[candidate_count_++] = static_cast<std::uint8_t>(f);
  }
  MANIPLE_FUNCTION void remove(int f) {
    if (faces_[f].place < kDeleted) {
      const std::uint8_t last = candidates_[--candidate_count_];
      candidates_[faces_[f].place] = last;
      faces_[last].place = faces_[f].place;
    }
    faces_[f].place = kDeleted;
    free_[free_count_++] = static_cast<std::uint8_t>(f);
  }

  // ---- first polytopes ----
  static MANIPLE_FUNCTION bool on_same_side(const Vec3<double>& p0, const Vec3<double>& p1,
                                            const Vec3<double>& p2, const Vec3<double>& p3) {
    const Vec3<double> normal = plain_cross(p1 - p0, p2 - p0);
    return same_sign(plain_dot(normal, p3 - p0), plain_dot(normal, -p0));
  }
  static MANIPLE_FUNCTION bool holds_origin(const Vec3<double>& p0, const Vec3<double>& p1,
                                            const Vec3<double>& p2, const Vec3<double>& p3) {
    return on_same_side(p0, p1, p2, p3) && on_same_side(p1, p2, p3, p0) && on_same_side(p2, p3, p0, p1) &&
           on_same_side(p3, p0, p1, p2);
  }
  static MANIPLE_FUNCTION bool is_in_triangle(const Vec3<double>& v1, const Vec3<double>& v2,
                                              const Vec3<double>& v3, const Vec3<double>& p) {
    const Barycentric weights(v1, v2, v3, p);
    const double a = weights.part[0] / weights.sum, b = weights.part[1] / weights.sum,
                 c = weights.part[2] / weights.sum;
    if (a < 0 || b < 0 || c < 0) return false;
    return length(a * v1 + b * v2 + c * v3 - p) < kMinimumValue;
  }

  // Both sides of a triangle that holds the origin; `dist`: how far GJK found them apart.
  MANIPLE_FUNCTION bool begin_with_triangle(Shape& shape1, Shape& shape2, const Support* simplex,
                                            double dist) {
    clear();
    const Vec3<double> v1 = simplex[0].difference(), v2 = simplex[1].difference(),
                       v3 = simplex[2].difference();
    center_ = 1.0 / 3.0 * (v1 + v2 + v3);
    const Vec3<double> normal = plain_cross(v2 - v1, v3 - v1);
    const double norm = length(normal);
    if (norm < kMinimumValue) return false;
    for (int k = 0; k < 3; ++k) add_corner(simplex[k]);
    add_support(shape1, shape2, -normal, norm);
    add_support(shape1, shape2, normal, norm);
    const int below = 3, above = 4;
    const Vec3<double> v4 = corner(above), v5 = corner(below);
    if (is_in_triangle(v1, v2, v3, v4) || is_in_triangle(v1, v2, v3, v5)) return false;
    if (dist > 10 * kMinimumValue && !holds_origin(v1, v2, v3, v4) && !holds_origin(v1, v2, v3, v5))
      return false;
    if (set_first_face(above, 0, 1, 1, 3, 2) < kOnFace || set_first_face(above, 2, 0, 2, 4, 0) < kOnFace ||
        set_first_face(above, 1, 2, 0, 5, 1) < kOnFace || set_first_face(below, 1, 0, 5, 0, 4) < kOnFace ||
        set_first_face(below, 0, 2, 3, 1, 5) < kOnFace || set_first_face(below, 2, 1, 4, 2, 3) < kOnFace)
      return false;
    take_all_as_candidates();
    return true;
  }
  // The same with a face of this polytope, on which the origin is.
  MANIPLE_FUNCTION bool begin_with_face(Shape& shape1, Shape& shape2, int a, int b, int c, double dist) {
    const Support simplex[3] = {corners_[a], corners_[b], corners_[c]};
    return begin_with_triangle(shape1, shape2, simplex, dist);
  }

  MANIPLE_FUNCTION bool begin_with_tetrahedron(Shape& shape1, Shape& shape2, const Support* simplex,
                                               double dist) {
    clear();
    for (int k = 0; k < 4; ++k) add_corner(simplex[k]);
    center_ = 0.25 * (corner(0) + corner(1) + corner(2) + corner(3));
    const std::uint8_t face[4][6] = {
        {0, 1, 2, 1, 3, 2}, {0, 3, 1, 2, 3, 0}, {0, 2, 3, 0, 3, 1}, {3, 2, 1, 2, 0, 1}};
    for (const auto& f : face)
      if (set_first_face(f[0], f[1], f[2], f[3], f[4], f[5]) < kOnFace)
        return begin_with_face(shape1, shape2, f[0], f[1], f[2], dist);
    if (!holds_origin(corner(0), corner(1), corner(2), corner(3))) return false;
    take_all_as_candidates();
    return true;
  }

  // Three more points around a line that holds the origin.
  MANIPLE_FUNCTION bool begin_with_line(Shape& shape1, Shape& shape2, const Support* simplex) {
    clear();
    const Vec3<double> v1 = simplex[0].difference(), v2 = simplex[1].difference(), way = v2 - v1;
    center_ = 0.5 * (v1 + v2);
    const double x = abs(way.x), y = abs(way.y), z = abs(way.z);
    const Vec3<double> axis = x <= y && x <= z ? Vec3<double>{1, 0, 0}
                              : y <= z         ? Vec3<double>{0, 1, 0}
                                               : Vec3<double>{0, 0, 1};
    // a third of a turn about the line
    const double norm = length(way), u1 = way.x / norm, u2 = way.y / norm, u3 = way.z / norm;
    const double sine = 0.86602540378, cosine = -0.5, rest = 1 - cosine;
    const Mat3<double> turn{
        cosine + u1 * u1 * rest,    u1 * u2 * rest - u3 * sine, u1 * u3 * rest + u2 * sine,
        u2 * u1 * rest + u3 * sine, cosine + u2 * u2 * rest,    u2 * u3 * rest - u1 * sine,
        u1 * u3 * rest - u2 * sine, u2 * u3 * rest + u1 * sine, cosine + u3 * u3 * rest};
    const Vec3<double> d1 = plain_cross(axis, way), d2 = plain_multiply(turn, d1),
                       d3 = plain_multiply(turn, d2);
    add_corner(simplex[0]);
    add_corner(simplex[1]);
    add_support(shape1, shape2, d1, length(d1));
    add_support(shape1, shape2, d2, length(d2));
    add_support(shape1, shape2, d3, length(d3));
    const std::uint8_t face[6][6] = {{0, 2, 3, 1, 3, 2}, {0, 4, 2, 2, 4, 0}, {0, 3, 4, 0, 5, 1},
                                     {1, 3, 2, 5, 0, 4}, {1, 2, 4, 3, 1, 5}, {1, 4, 3, 4, 2, 3}};
    for (const auto& f : face)
      if (set_first_face(f[0], f[1], f[2], f[3], f[4], f[5]) < kOnFace)
        return begin_with_face(shape1, shape2, f[0], f[1], f[2], 0);
    // the line must go through the triangle
    const Vec3<double> to3 = corner(2) - v1, to4 = corner(3) - v1, to5 = corner(4) - v1;
    const double side1 = determinant(to3, to4, way), side2 = determinant(to4, to5, way),
                 side3 = determinant(to5, to3, way);
    if (!(side1 >= 0 && side2 >= 0 && side3 >= 0) && !(side1 <= 0 && side2 <= 0 && side3 <= 0)) return false;
    take_all_as_candidates();
    return true;
  }

  // ---- expansion ----
  // Whether an earlier corner is of the same vertices.
  MANIPLE_FUNCTION bool is_known(int added) const {
    for (int i = 0; i < added; ++i)
      if (corners_[i].vertex1 == corners_[added].vertex1 && corners_[i].vertex2 == corners_[added].vertex2)
        return true;
    return false;
  }
  // Removes the faces that see w, from face `first` on, and lists the edges around them. A walk over the
  // faces that turns at every one that does not.
  MANIPLE_FUNCTION void remove_visible(int first, const Vec3<double>& w) {
    edge_count_ = 0;
    int depth = 0;
    const auto enter = [&](int f, int edge, int step) {
      remove(f);
      path_[depth][0] = static_cast<std::uint8_t>(f);
      path_[depth][1] = static_cast<std::uint8_t>(edge);
      path_[depth][2] = static_cast<std::uint8_t>(step);
      ++depth;
    };
    enter(first, 0, 0);
    while (depth > 0) {
      std::uint8_t* const here = path_[depth - 1];
      if (here[2] == 3) {
        --depth;
        continue;
      }
      const Face& face = faces_[here[0]];
      const int i = (here[1] + here[2]++) % 3, beside = face.adjacent[i];
      const Face& other = faces_[beside];
      if (other.place == kDeleted) continue;
      const int start = face.corner[i == 2 ? 0 : i + 1];
      const int edge = other.corner[0] == start ? 0 : other.corner[1] == start ? 1 : 2;
      if (plain_dot(other.nearest, w) - other.square > kMinimumValue) {
        enter(beside, edge, 1);
      } else if (edge_count_ < kCorners) {
        edges_[edge_count_][0] = static_cast<std::uint8_t>(beside);
        edges_[edge_count_++][1] = static_cast<std::uint8_t>(edge);
      }
    }
  }

  // Faces between the listed edges and a corner; false if one has no plane.
  MANIPLE_FUNCTION bool close_with(int added, double lower_square, double upper_square) {
    const std::uint8_t* const taken = free_ + free_count_ - edge_count_;
    free_count_ -= edge_count_;
    for (int i = 0; i < edge_count_; ++i) {
      const int beside = edges_[i][0], edge = edges_[i][1], f = taken[i];
      Face& outer = faces_[beside];
      const int v1 = outer.corner[edge], v2 = outer.corner[edge == 2 ? 0 : edge + 1];
      outer.adjacent[edge] = static_cast<std::uint8_t>(f);
      const double square = set_face(f, added, v2, v1, taken[i == 0 ? edge_count_ - 1 : i - 1], beside,
                                     taken[i + 1 == edge_count_ ? 0 : i + 1]);
      if (square == 0) return false;
      if (square >= lower_square && square <= upper_square) add_candidate(f);
    }
    return true;
  }

  Support corners_[kCorners];
  Face faces_[kFaces];
  Vec3<double> center_;
  int corner_count_, candidate_count_, free_count_, edge_count_;
  std::uint8_t nearest_[3], candidates_[kFaces], free_[kFaces], edges_[kCorners][2], path_[kFaces][3];
};

}  // namespace maniple
