// The points at which flat and straight sides of two shapes touch, where GJK and EPA have found one: a face
// of one, or a line on its surface, is clipped by the sides of a face of the other (Sutherland, Hodgman
// 1974). Called by collision_convex.hpp; the faces, lines and tolerances are those of MuJoCo's multiccd.
#pragma once

#include "kernels/physics/collision/epa.hpp"

namespace maniple {

// Corners of the polygon that stands for the end of a cylinder.
inline constexpr int kCapCorners = 16;

// A convex polygon, or with two corners a line.
template <class T>
struct ContactPolygon {
  static constexpr int kCapacity = 2 * kCapCorners;
  Vec3<T> corner[kCapacity];
  int count = 0;

  MANIPLE_FUNCTION void add(const Vec3<T>& point) {
    if (count < kCapacity) corner[count++] = point;
  }
};

// The end of a cylinder that looks along its axis (sign 1) or against it, clockwise seen from outside.
template <class T>
MANIPLE_FUNCTION ContactPolygon<T> cap_of(const ConvexShape<T>& cylinder, T sign) {
  constexpr T kCosine[5] = {T(1), T(0.92387953251128676), T(0.70710678118654757), T(0.38268343236508977),
                            T(0)};
  ContactPolygon<T> cap;
  for (int k = 0; k < kCapCorners; ++k) {
    const int quarter = k / 4, rest = k % 4;
    const T c = kCosine[rest], s = kCosine[4 - rest];
    const T x = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
    const T y = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
    cap.add(plain_multiply(cylinder.mat, Vec3<T>{cylinder.size[0] * x, -sign * (cylinder.size[0] * y),
                                                 sign * cylinder.size[1]}) +
            cylinder.pos);
  }
  return cap;
}

// A face of a box, across one of its axes, clockwise seen from outside.
template <class T>
MANIPLE_FUNCTION ContactPolygon<T> face_of(const ConvexShape<T>& box, int axis, T sign) {
  // signs of the corners of the upper and the lower face across x, y and z
  constexpr signed char kCorners[6][4][3] = {
      {{1, 1, 1}, {1, 1, -1}, {1, -1, -1}, {1, -1, 1}}, {{-1, 1, -1}, {-1, 1, 1}, {-1, -1, 1}, {-1, -1, -1}},
      {{-1, 1, -1}, {1, 1, -1}, {1, 1, 1}, {-1, 1, 1}}, {{-1, -1, 1}, {1, -1, 1}, {1, -1, -1}, {-1, -1, -1}},
      {{-1, 1, 1}, {1, 1, 1}, {1, -1, 1}, {-1, -1, 1}}, {{1, 1, -1}, {-1, 1, -1}, {-1, -1, -1}, {1, -1, -1}}};
  ContactPolygon<T> face;
  for (const auto& c : kCorners[2 * axis + (sign > 0 ? 0 : 1)])
    face.add(plain_multiply(box.mat,
                            Vec3<T>{T(c[0]) * box.size[0], T(c[1]) * box.size[1], T(c[2]) * box.size[2]}) +
             box.pos);
  return face;
}

// The part of a polygon within the sides of `window` and at most `height` above it; `normal` is the window's.
template <class T>
MANIPLE_FUNCTION void clip_by(const ContactPolygon<T>& window, const Vec3<T>& normal, T height,
                              ContactPolygon<T>& polygon) {
  for (int e = 0; e < window.count; ++e) {
    const Vec3<T> from = window.corner[e], to = window.corner[e + 1 == window.count ? 0 : e + 1];
    const Vec3<T> outward = plain_normalize(plain_cross(to - from, (from + normal) - from));
    const T limit = plain_dot(outward, from);
    const auto inside = [&](const Vec3<T>& p) { return plain_dot(p - from, outward) > -T(kMinimumValue); };
    ContactPolygon<T> kept;
    for (int i = 0; i < polygon.count; ++i) {
      const Vec3<T> p = polygon.corner[i], q = polygon.corner[i + 1 == polygon.count ? 0 : i + 1];
      const bool p_inside = inside(p), q_inside = inside(q);
      if (!p_inside && !q_inside) continue;
      if (!(p_inside && q_inside)) {
        const Vec3<T> way = q - p;
        const T along = plain_dot(outward, way);
        if (along != 0) {
          const T t = (limit - plain_dot(outward, p)) / along;
          if (t >= 0 && t <= 1) kept.add(p + t * way);
        }
      }
      if (q_inside) kept.add(q);
    }
    polygon = kept;
  }
  int below = 0;
  for (int i = 0; i < polygon.count; ++i)
    if (plain_dot(polygon.corner[i] - window.corner[0], normal) <= height)
      polygon.corner[below++] = polygon.corner[i];
  polygon.count = below;
}

// Four corners of a polygon with about the largest area; `chosen` gets their numbers.
template <class T>
MANIPLE_FUNCTION void choose_four(const ContactPolygon<T>& polygon, int* chosen) {
  const auto next = [&](int i) { return i + 1 == polygon.count ? 0 : i + 1; };
  const auto area = [&](int a, int b, int c, int d) {
    return T(0.5) *
           length(plain_cross(polygon.corner[c] - polygon.corner[a], polygon.corner[d] - polygon.corner[b]));
  };
  int a = 0, b = 1, c = 2, d = 3;
  T most = area(a, b, c, d);
  const auto keep = [&] {
    chosen[0] = a;
    chosen[1] = b;
    chosen[2] = c;
    chosen[3] = d;
  };
  keep();
  for (; a < polygon.count; ++a) {
    for (;;) {
      T larger = area(a, b, c, next(d));
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
template <class T>
struct Witnesses {
  Support<T> corner[3];
  int count = 0;
  Vec3<T> point1, point2;
};

// What a shape shows the other one: faces that may be its side of the contact, and a line on its surface.
template <class T>
struct ContactSide {
  Vec3<T> normal[3];
  int face[3];  // 2 axis, and 1 more for the lower one
  int normals = 0;
  bool has_line = false, from_upper_end = false;
  Vec3<T> line_middle;

  MANIPLE_FUNCTION void add(const ConvexShape<T>& shape, int number) {
    const Mat3<T>& m = shape.mat;
    const Vec3<T> axis = number < 2 ? m.column_x() : number < 4 ? m.column_y() : m.column_z();
    face[normals] = number;
    normal[normals++] = number % 2 == 0 ? axis : -axis;
  }
};

// Angles up to 5.1 degrees count as none: cosine between faces, and sine between a line and a face.
inline constexpr double kFacesAlike = 0.996, kLineOnFace = 0.0888;

// The line of a capsule goes along its deepest point, that of a cylinder along and from the first corner; a
// cylinder shows the end that has all corners.
template <class T>
MANIPLE_FUNCTION void show_round_side(const ConvexShape<T>& shape, const Witnesses<T>& found, bool first,
                                      ContactSide<T>& side) {
  const Vec3<T> z = shape.mat.column_z();
  const auto from_axis = [&](const Vec3<T>& point) {
    const Vec3<T> way = point - shape.pos;
    return way - plain_dot(way, z) * z;
  };
  const auto corner = [&](int k) { return first ? found.corner[k].point1 : found.corner[k].point2; };
  side.has_line = true;
  if (shape.type == geom_capsule) {
    side.line_middle = shape.pos + from_axis(first ? found.point1 : found.point2);
    return;
  }
  side.line_middle = shape.pos + shape.size[0] * plain_normalize(from_axis(corner(0)));
  side.from_upper_end = plain_dot(corner(0) - shape.pos, z) > 0;
  int above = 0;
  for (int k = 0; k < found.count; ++k) above += plain_dot(corner(k) - shape.pos, z) > 0;
  if (above == 0 || above == found.count) side.add(shape, above == 0 ? 5 : 4);
}

// A box shows the faces that have all corners; of a diagonal the one that looks along the contact.
template <class T>
MANIPLE_FUNCTION void show_box(const ConvexShape<T>& box, const Witnesses<T>& found, bool first,
                               const Vec3<T>& toward, ContactSide<T>& side) {
  const Mat3<T>& m = box.mat;
  int distinct[3] = {0, 0, 0}, dimension = 0, upper = 7, lower = 7;
  for (int k = 0; k < found.count; ++k) {
    const Vec3<T> way = (first ? found.corner[k].point1 : found.corner[k].point2) - box.pos;
    const int bits = (plain_dot(m.column_x(), way) > 0 ? 1 : 0) | (plain_dot(m.column_y(), way) > 0 ? 2 : 0) |
                     (plain_dot(m.column_z(), way) > 0 ? 4 : 0);
    bool known = false;
    for (int j = 0; j < dimension; ++j) known = known || distinct[j] == bits;
    if (!known) distinct[dimension++] = bits;
    upper &= bits;
    lower &= ~bits;
  }
  for (int k = 0; k < 3; ++k)
    if ((upper | lower) & (1 << k)) side.add(box, 2 * k + (upper & (1 << k) ? 0 : 1));
  if (side.normals == 4 - dimension) return;
  side.normals = 0;
  const Vec3<T> unit = plain_normalize(toward);
  for (int number = 0; number < 6; ++number) {
    side.add(box, number);
    if (plain_dot(unit, side.normal[0]) > T(kFacesAlike)) return;
    side.normals = 0;
  }
}

// `toward`: from the shape's deepest point out of it.
template <class T>
MANIPLE_FUNCTION ContactSide<T> contact_side(const ConvexShape<T>& shape, const Witnesses<T>& found,
                                             bool first, const Vec3<T>& toward) {
  ContactSide<T> side;
  if (shape.type == geom_box) {
    show_box(shape, found, first, toward, side);
  } else {
    show_round_side(shape, found, first, side);
  }
  return side;
}

template <class T>
MANIPLE_FUNCTION ContactPolygon<T> polygon_of(const ConvexShape<T>& shape, const ContactSide<T>& side,
                                              int j) {
  const int axis = side.face[j] / 2;
  const T sign = side.face[j] % 2 == 0 ? T(1) : T(-1);
  return shape.type == geom_cylinder ? cap_of(shape, sign) : face_of(shape, axis, sign);
}

// Two corners of a clipped line, the farthest ones; clipping doubles them.
template <class T>
MANIPLE_FUNCTION void choose_two(const ContactPolygon<T>& line, int* chosen) {
  T most = 0;
  chosen[0] = 0;
  chosen[1] = 1;
  for (int a = 0; a < line.count; ++a)
    for (int b = a + 1; b < line.count; ++b) {
      const Vec3<T> way = line.corner[b] - line.corner[a];
      const T square = plain_dot(way, way);
      if (!(square > most)) continue;
      most = square;
      chosen[0] = a;
      chosen[1] = b;
    }
}

// Replaces the contact by those of two faces, or of a line and a face, if they touch so.
template <class T>
MANIPLE_STAGE void find_patch(const ConvexShape<T>& shape1, const ConvexShape<T>& shape2,
                              const Witnesses<T>& found, T margin, FoundContacts<T>& contacts) {
  const Vec3<T> outward = found.point1 - found.point2;
  const ContactSide<T> side1 = contact_side(shape1, found, true, outward),
                       side2 = contact_side(shape2, found, false, -outward);
  for (int i = 0; i < side1.normals; ++i)
    for (int j = 0; j < side2.normals; ++j) {
      if (!(plain_dot(side1.normal[i], side2.normal[j]) < T(-kFacesAlike))) continue;
      const ContactPolygon<T> window = polygon_of(shape1, side1, i);
      ContactPolygon<T> polygon = polygon_of(shape2, side2, j);
      const T cosine = abs(plain_dot(side1.normal[i], side2.normal[j]));
      clip_by(window, side1.normal[i], shape1.inflation + shape2.inflation * cosine, polygon);
      if (polygon.count == 0) return;
      int chosen[4] = {0, 1, 2, 3};
      if (polygon.count > 4) choose_four(polygon, chosen);
      // from where face 1 is above the corner to face 2
      contacts.count = 0;
      for (int k = 0; k < (polygon.count > 4 ? 4 : polygon.count); ++k) {
        const Vec3<T> v = polygon.corner[chosen[k]];
        const T height = plain_dot(v - window.corner[0], side1.normal[i]), dist = height * cosine;
        contacts.add({dist, v - height * side1.normal[i] - (T(0.5) * dist) * side2.normal[j],
                      -side2.normal[j], zero3<T>()});
      }
      return;
    }
  const bool of1 = side1.has_line && side2.normals > 0, of2 = side2.has_line && side1.normals > 0;
  if (!of1 && !of2) return;
  const ConvexShape<T>&lined = of1 ? shape1 : shape2, &faced = of1 ? shape2 : shape1;
  const ContactSide<T>&line = of1 ? side1 : side2, &face = of1 ? side2 : side1;
  for (int j = 0; j < face.normals; ++j) {
    const Vec3<T> axis = lined.mat.column_z(), plane = face.normal[j];
    if (!(abs(plain_dot(axis, plane)) < T(kLineOnFace))) continue;
    ContactPolygon<T> window = polygon_of(faced, face, j);
    for (int k = 0; k < window.count; ++k) window.corner[k] = window.corner[k] + faced.inflation * plane;
    // (the deepest point of a capsule is inflated already)
    const Vec3<T> middle =
        lined.type == geom_cylinder ? line.line_middle - lined.inflation * plane : line.line_middle;
    const Vec3<T> end = (line.from_upper_end ? lined.size[1] : -lined.size[1]) * axis;
    ContactPolygon<T> polygon;
    polygon.add(middle + end);
    polygon.add(middle - end);
    clip_by(window, plane, T(0), polygon);
    if (polygon.count == 0) return;
    int chosen[2] = {0, 1};
    if (polygon.count > 2) choose_two(polygon, chosen);
    contacts.count = 0;
    for (int k = 0; k < (polygon.count == 1 ? 1 : 2); ++k) {
      const Vec3<T> v = polygon.corner[chosen[k]];
      const T depth = abs(plain_dot(v - window.corner[0], plane));
      contacts.add({margin - depth, v + (T(0.5) * depth) * plane, of1 ? -plane : plane, zero3<T>()});
    }
    return;
  }
}

}  // namespace maniple
