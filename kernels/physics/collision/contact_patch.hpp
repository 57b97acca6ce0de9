// The points at which flat and straight sides of two shapes touch, where GJK and EPA have found one: a face
// of one, or a line on its surface, is clipped by the sides of a face of the other (Sutherland, Hodgman
// 1974). Called by collision_convex.hpp; the faces, lines and tolerances are those of MuJoCo's multiccd.
#pragma once

#include "kernels/physics/collision/epa.hpp"

namespace maniple {

// Corners of the polygon that stands for the end of a cylinder.
inline constexpr int kCapCorners = 16;

// A convex polygon, or with two corners a line.
template <int kCapacity>
struct ContactPolygon {
  Vec3<double> corner[kCapacity];
  int count = 0;

  MANIPLE_FUNCTION void add(const Vec3<double>& point) {
    if (count < kCapacity) corner[count++] = point;
  }
  // Moves the corners to the end of the memory, so that new ones can be added while they are read; returns
  // where they begin.
  MANIPLE_FUNCTION int begin_again() {
    const int first = kCapacity - count;
    for (int i = count - 1; i >= 0; --i) corner[first + i] = corner[i];
    count = 0;
    return first;
  }
};
// One that is clipped by another has at most as many corners as both; a line has its ends, and these again
// for each side that cuts it. Clipping by a side adds a corner, and by rounding some more, before as many are
// read.
inline constexpr int kClippingRoom = 16;
using ClippedPolygon = ContactPolygon<2 * kMostMeshFaceCorners + kClippingRoom>;
using ClippedLine = ContactPolygon<2 * kClippingRoom>;
static_assert(kMostMeshFaceCorners >= kCapCorners);

// ---- the faces of a shape by their numbers: of a box 2 axis, and 1 more for the lower one; so of a
// cylinder, whose ends are 4 and 5; of a mesh those of its hull ----

template <class S>
MANIPLE_FUNCTION Vec3<double> normal_of_face(const ConvexShape<S>& shape, int face) {
  if (shape.type == geom_mesh) return plain_multiply(shape.mat, shape.mesh.normal(face));
  const Mat3<double>& m = shape.mat;
  const Vec3<double> axis = face < 2 ? m.column_x() : face < 4 ? m.column_y() : m.column_z();
  return face % 2 == 0 ? axis : -axis;
}
template <class S>
MANIPLE_FUNCTION int corners_of_face(const ConvexShape<S>& shape, int face) {
  return shape.type == geom_mesh ? shape.mesh.polyvertnum[face] : shape.type == geom_box ? 4 : kCapCorners;
}
// Corner k of a face; they are clockwise seen from outside.
template <class S>
MANIPLE_FUNCTION Vec3<double> corner_of_face(const ConvexShape<S>& shape, int face, int k) {
  const double sign = face % 2 == 0 ? 1 : -1;
  if (shape.type == geom_mesh) {
    const ConvexMesh<S>& mesh = shape.mesh;
    return shape.in_world(
        mesh.vertex(mesh.polyvert[mesh.polyvertadr[face] + mesh.polyvertnum[face] - 1 - k]));
  }
  if (shape.type == geom_box) {
    // signs of the corners of the upper and the lower face across x, y and z
    constexpr signed char kCorners[6][4][3] = {{{1, 1, 1}, {1, 1, -1}, {1, -1, -1}, {1, -1, 1}},
                                               {{-1, 1, -1}, {-1, 1, 1}, {-1, -1, 1}, {-1, -1, -1}},
                                               {{-1, 1, -1}, {1, 1, -1}, {1, 1, 1}, {-1, 1, 1}},
                                               {{-1, -1, 1}, {1, -1, 1}, {1, -1, -1}, {-1, -1, -1}},
                                               {{-1, 1, 1}, {1, 1, 1}, {1, -1, 1}, {-1, -1, 1}},
                                               {{1, 1, -1}, {-1, 1, -1}, {-1, -1, -1}, {1, -1, -1}}};
    const signed char* const c = kCorners[face][k];
    return shape.in_world({c[0] * shape.size[0], c[1] * shape.size[1], c[2] * shape.size[2]});
  }
  constexpr double kCosine[5] = {1, 0.92387953251128676, 0.70710678118654757, 0.38268343236508977, 0};
  const int quarter = k / 4, rest = k % 4;
  const double c = kCosine[rest], s = kCosine[4 - rest];
  const double x = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
  const double y = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
  return shape.in_world({shape.size[0] * x, -sign * (shape.size[0] * y), sign * shape.size[1]});
}

// The part of a polygon within the sides of a face, which is moved by `offset`, and at most `height` above
// it.
template <class S, class Polygon>
MANIPLE_FUNCTION void clip_by(const ConvexShape<S>& shape, int face, const Vec3<double>& offset,
                              double height, Polygon& polygon) {
  const Vec3<double> normal = normal_of_face(shape, face);
  const int corners = corners_of_face(shape, face);
  const Vec3<double> first = corner_of_face(shape, face, 0) + offset;
  Vec3<double> to = first;
  for (int e = 0; e < corners && polygon.count > 0; ++e) {
    const Vec3<double> from = to;
    to = e + 1 == corners ? first : corner_of_face(shape, face, e + 1) + offset;
    const Vec3<double> outward = plain_normalize(plain_cross(to - from, (from + normal) - from));
    const double limit = plain_dot(outward, from);
    const auto inside = [&](const Vec3<double>& p) { return plain_dot(p - from, outward) > -kMinimumValue; };
    const int count = polygon.count, start = polygon.begin_again();
    Vec3<double> p = polygon.corner[start];
    const Vec3<double> last = p;
    for (int i = 0; i < count; ++i) {
      const Vec3<double> q = i + 1 == count ? last : polygon.corner[start + i + 1];
      const bool p_inside = inside(p), q_inside = inside(q);
      if (p_inside != q_inside) {
        const Vec3<double> way = q - p;
        const double along = plain_dot(outward, way);
        if (along != 0) {
          const double t = (limit - plain_dot(outward, p)) / along;
          if (t >= 0 && t <= 1) polygon.add(p + t * way);
        }
      }
      if (q_inside) polygon.add(q);
      p = q;
    }
  }
  int below = 0;
  for (int i = 0; i < polygon.count; ++i)
    if (plain_dot(polygon.corner[i] - first, normal) <= height) polygon.corner[below++] = polygon.corner[i];
  polygon.count = below;
}

// Four of the corners corner(0) to corner(count - 1) of a polygon with about the largest area; `chosen` gets
// their numbers.
template <class Corner>
MANIPLE_FUNCTION void choose_four(int count, const Corner& corner, int* chosen) {
  const auto next = [&](int i) { return i + 1 == count ? 0 : i + 1; };
  const auto area = [&](int a, int b, int c, int d) {
    return 0.5 * length(plain_cross(corner(c) - corner(a), corner(d) - corner(b)));
  };
  int a = 0, b = 1, c = 2, d = 3;
  double most = area(a, b, c, d);
  const auto keep = [&] {
    chosen[0] = a;
    chosen[1] = b;
    chosen[2] = c;
    chosen[3] = d;
  };
  keep();
  for (; a < count; ++a) {
    for (;;) {
      double larger = area(a, b, c, next(d));
      if (!(larger > most)) break;  // (nor where a corner is not a number)
      most = larger;
      d = next(d);
      keep();
      while ((larger = area(a, b, next(c), d)) > most) {
        most = larger;
        c = next(c);
        keep();
      }
      while ((larger = area(a, next(b), c, d)) > most) {
        most = larger;
        b = next(b);
        keep();
      }
    }
    if (b == a) {
      b = next(b);
      if (c == b) {
        c = next(c);
        if (d == c) d = next(d);
      }
    }
  }
}

// What GJK and EPA leave behind: the corners of the last simplex, or of the face of the polytope that is
// nearest, and the deepest points.
struct Witnesses {
  Support corner[3];
  int count = 0;
  Vec3<double> point1, point2;

  MANIPLE_FUNCTION Vec3<double> point(int k, bool first) const {
    return first ? corner[k].point1 : corner[k].point2;
  }
  MANIPLE_FUNCTION int vertex(int k, bool first) const {
    return first ? corner[k].vertex1 : corner[k].vertex2;
  }
};

// What a shape shows the other one: faces that may be its side of the contact, and lines on its surface, a
// round side or edges.
struct ContactSide {
  int vertex[3];     // distinct ones of the witnesses, on a box or a mesh
  int vertices = 0;  // 0: a round side
  int faces = 0, lines = 0;
  int face[3];                        // numbers of the faces,
  const int* faces_around = nullptr;  // or all around a vertex of a mesh
  Vec3<double> from, to;              // the line of a round side

  MANIPLE_FUNCTION void add(int number) { face[faces++] = number; }
  MANIPLE_FUNCTION int face_number(int i) const {
    return faces_around != nullptr ? faces_around[i] : face[i];
  }
  MANIPLE_FUNCTION bool is_round() const { return vertices == 0; }
};

// Angles up to 5.1 degrees count as none: cosine between faces, and sine between a line and a face.
inline constexpr double kFacesAlike = 0.996, kLineOnFace = 0.0888;

// The line of a capsule goes along its deepest point, that of a cylinder along and from the first corner; a
// cylinder shows the end that has all corners.
template <class S>
MANIPLE_FUNCTION void show_round_side(const ConvexShape<S>& shape, const Witnesses& found, bool first,
                                      ContactSide& side) {
  const Vec3<double> z = shape.mat.column_z();
  const auto from_axis = [&](const Vec3<double>& point) {
    const Vec3<double> way = point - shape.pos;
    return way - plain_dot(way, z) * z;
  };
  side.lines = 1;
  const auto set_line = [&](const Vec3<double>& middle, bool from_upper_end) {
    const Vec3<double> end = (from_upper_end ? shape.size[1] : -shape.size[1]) * z;
    side.from = middle + end;
    side.to = middle - end;
  };
  if (shape.type == geom_capsule)
    return set_line(shape.pos + from_axis(first ? found.point1 : found.point2), false);
  const Vec3<double> start = found.point(0, first);
  set_line(shape.pos + shape.size[0] * plain_normalize(from_axis(start)),
           plain_dot(start - shape.pos, z) > 0);
  int above = 0;
  for (int k = 0; k < found.count; ++k) above += plain_dot(found.point(k, first) - shape.pos, z) > 0;
  if (above == 0 || above == found.count) side.add(above == 0 ? 5 : 4);
}

// The distinct vertices of a box or a mesh that the witnesses have, in their order.
MANIPLE_FUNCTION void find_vertices(const Witnesses& found, bool first, ContactSide& side) {
  for (int k = 0; k < found.count; ++k) {
    bool known = false;
    for (int j = 0; j < side.vertices; ++j) known = known || side.vertex[j] == found.vertex(k, first);
    if (!known) side.vertex[side.vertices++] = found.vertex(k, first);
  }
}

// A box shows the faces that have all vertices; of a diagonal the one that looks along the contact.
template <class S>
MANIPLE_FUNCTION void show_box(const ConvexShape<S>& box, const Vec3<double>& toward, ContactSide& side) {
  int upper = 7, lower = 7;
  for (int k = 0; k < side.vertices; ++k) {
    upper &= side.vertex[k];
    lower &= ~side.vertex[k];
  }
  side.lines = side.vertices == 1 ? 3 : side.vertices == 2 ? 1 : 0;
  for (int k = 0; k < 3; ++k)
    if ((upper | lower) & (1 << k)) side.add(2 * k + (upper & (1 << k) ? 0 : 1));
  if (side.faces == 4 - side.vertices) return;
  side.faces = 0;
  const Vec3<double> unit = plain_normalize(toward);
  for (int face = 0; face < 6; ++face)
    if (plain_dot(unit, normal_of_face(box, face)) > kFacesAlike) return side.add(face);
}

// A mesh shows the faces that have all vertices.
template <class S>
MANIPLE_FUNCTION void show_mesh(const ConvexMesh<S>& mesh, ContactSide& side) {
  const auto around = [&](int k) { return mesh.polymap + mesh.polymapadr[side.vertex[k]]; };
  const auto count = [&](int k) { return mesh.polymapnum[side.vertex[k]]; };
  if (side.vertices == 1) {
    side.faces_around = around(0);
    side.faces = side.lines = count(0);
    return;
  }
  side.lines = side.vertices == 2 ? 1 : 0;
  const auto has = [&](int k, int face) {
    for (int i = 0; i < count(k); ++i)
      if (around(k)[i] == face) return true;
    return false;
  };
  // at most two faces have two vertices, and one has three
  int common = 0;
  for (int i = 0; i < count(0) && common < 2; ++i) {
    const int face = around(0)[i];
    if (!has(1, face)) continue;
    ++common;
    if (side.vertices == 2 || (side.faces == 0 && has(2, face))) side.add(face);
  }
}

// `toward`: from the shape's deepest point out of it.
template <class S>
MANIPLE_FUNCTION ContactSide contact_side(const ConvexShape<S>& shape, const Witnesses& found, bool first,
                                          const Vec3<double>& toward) {
  ContactSide side;
  if (shape.type != geom_box && shape.type != geom_mesh) {
    show_round_side(shape, found, first, side);
    return side;
  }
  find_vertices(found, first, side);
  if (shape.type == geom_box)
    show_box(shape, toward, side);
  else
    show_mesh(shape.mesh, side);
  return side;
}

// Ends of line i of a side.
template <class S>
MANIPLE_FUNCTION void line_of(const ConvexShape<S>& shape, const ContactSide& side, int i, Vec3<double>& from,
                              Vec3<double>& to) {
  if (side.is_round()) {
    from = side.from;
    to = side.to;
    return;
  }
  const auto position = [&](int vertex) {
    if (shape.type == geom_mesh) return shape.in_world(shape.mesh.vertex(vertex));
    return shape.in_world({vertex & 1 ? shape.size[0] : -shape.size[0],
                           vertex & 2 ? shape.size[1] : -shape.size[1],
                           vertex & 4 ? shape.size[2] : -shape.size[2]});
  };
  const int start = side.vertex[0];
  int end = side.vertices == 2 ? side.vertex[1] : start ^ (1 << i);
  if (shape.type == geom_mesh && side.vertices == 1) {
    // the vertex before it on its face i
    const ConvexMesh<S>& mesh = shape.mesh;
    const int face = side.face_number(i), count = mesh.polyvertnum[face];
    const int* const corners = mesh.polyvert + mesh.polyvertadr[face];
    end = start;
    for (int k = 0; k < count; ++k)
      if (corners[k] == start) end = corners[k == 0 ? count - 1 : k - 1];
  }
  from = position(start);
  to = position(end);
}

// Two corners of a clipped line, the farthest ones; clipping doubles them.
MANIPLE_FUNCTION void choose_two(const ClippedLine& line, int* chosen) {
  double most = 0;
  chosen[0] = 0;
  chosen[1] = 1;
  for (int a = 0; a < line.count; ++a)
    for (int b = a + 1; b < line.count; ++b) {
      const Vec3<double> way = line.corner[b] - line.corner[a];
      const double square = plain_dot(way, way);
      if (!(square > most)) continue;
      most = square;
      chosen[0] = a;
      chosen[1] = b;
    }
}

// The contacts of a line of one shape on a face of the other, the first pair that is parallel; a round side
// lies on faces that look toward it alone. Leaves `contacts` as they are where there is none. `sign`: 1 if
// the line is of the first shape.
template <class S>
MANIPLE_FUNCTION void touch_by_line(const ConvexShape<S>& lined, const ContactSide& line,
                                    const ConvexShape<S>& faced, const ContactSide& side,
                                    const Vec3<double>& toward, double margin, double sign,
                                    FoundContacts<double>& contacts) {
  int face = -1;
  Vec3<double> from = zero3<double>(), to = zero3<double>();
  for (int j = 0; j < side.faces && face < 0; ++j) {
    const Vec3<double> plane = normal_of_face(faced, side.face_number(j));
    if (line.is_round() && !(plain_dot(plane, toward) > 0)) continue;
    for (int i = 0; i < line.lines && face < 0; ++i) {
      line_of(lined, line, i, from, to);
      if (abs(plain_dot(plain_normalize(to - from), plane)) < kLineOnFace) face = side.face_number(j);
    }
  }
  if (face < 0) return;
  const Vec3<double> plane = normal_of_face(faced, face);
  // (the deepest point of a capsule is inflated already)
  const Vec3<double> inward = lined.type == geom_capsule ? zero3<double>() : -lined.inflation * plane;
  ClippedLine polygon;
  polygon.add(from + inward);
  polygon.add(to + inward);
  const Vec3<double> offset = faced.inflation * plane;
  clip_by(faced, face, offset, 0, polygon);
  if (polygon.count == 0) return;
  int chosen[2] = {0, 1};
  if (polygon.count > 2) choose_two(polygon, chosen);
  const Vec3<double> on_face = corner_of_face(faced, face, 0) + offset;
  contacts.count = 0;
  for (int k = 0; k < (polygon.count == 1 ? 1 : 2); ++k) {
    const Vec3<double> v = polygon.corner[chosen[k]];
    const double depth = abs(plain_dot(v - on_face, plane));
    contacts.add({margin - depth, v + (0.5 * depth) * plane, -sign * plane, zero3<double>()});
  }
}

// Replaces the contact by those of two faces, the most parallel ones, or of a line and a face, if they touch
// so.
template <class S>
MANIPLE_STAGE void find_patch(const ConvexShape<S>& shape1, const ConvexShape<S>& shape2,
                              const Witnesses& found, double margin, FoundContacts<double>& contacts) {
  if (found.count == 0) return;
  const Vec3<double> outward = found.point1 - found.point2;
  const ContactSide side1 = contact_side(shape1, found, true, outward),
                    side2 = contact_side(shape2, found, false, -outward);
  int face1 = -1, face2 = -1;
  double least = -kFacesAlike;
  for (int i = 0; i < side1.faces; ++i)
    for (int j = 0; j < side2.faces; ++j) {
      const double cosine = plain_dot(normal_of_face(shape1, side1.face_number(i)),
                                      normal_of_face(shape2, side2.face_number(j)));
      if (!(cosine < least)) continue;
      least = cosine;
      face1 = side1.face_number(i);
      face2 = side2.face_number(j);
    }
  if (face1 >= 0) {
    const Vec3<double> normal1 = normal_of_face(shape1, face1), normal2 = normal_of_face(shape2, face2);
    const double cosine = -least;
    ClippedPolygon polygon;
    for (int k = 0; k < corners_of_face(shape2, face2); ++k) polygon.add(corner_of_face(shape2, face2, k));
    clip_by(shape1, face1, zero3<double>(), shape1.inflation + shape2.inflation, polygon);
    if (polygon.count == 0) return;
    int chosen[4] = {0, 1, 2, 3};
    if (polygon.count > 4)
      choose_four(
          polygon.count, [&](int k) { return polygon.corner[k]; }, chosen);
    // from where face 1 is above the corner to face 2
    const Vec3<double> on_face1 = corner_of_face(shape1, face1, 0);
    contacts.count = 0;
    for (int k = 0; k < (polygon.count > 4 ? 4 : polygon.count); ++k) {
      const Vec3<double> v = polygon.corner[chosen[k]];
      const double height = plain_dot(v - on_face1, normal1), dist = height * cosine;
      contacts.add({dist, v - height * normal1 - (0.5 * dist) * normal2, -normal2, zero3<double>()});
    }
    return;
  }
  const bool round = side1.is_round() || side2.is_round();
  const bool of1 =
      round ? side1.is_round() && side2.faces > 0 : side1.vertices < 3 && side1.vertices <= side2.vertices;
  if (of1) {
    touch_by_line(shape1, side1, shape2, side2, -outward, margin, 1, contacts);
  } else if (round ? side2.is_round() && side1.faces > 0 : side2.vertices < 3) {
    touch_by_line(shape2, side2, shape1, side1, outward, margin, -1, contacts);
  }
}

}  // namespace maniple
