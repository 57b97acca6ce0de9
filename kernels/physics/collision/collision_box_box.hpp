// Contacts of two boxes, with the contact points and the order of MuJoCo's (mjc_BoxBox): the axis that
// separates them most (Gottschalk, Lin, Manocha 1996) is the normal; two faces give the corners of one
// clipped by the sides of the other (Sutherland, Hodgman 1974), two edges their nearest points. Called by
// MANIPLE_GEOM_PAIR_TYPES.
#pragma once

#include "kernels/physics/collision/alone.hpp"

namespace maniple {

// What rounding makes of products of sizes and rotations, in units of what they are made of.
template <class T>
struct BoxRounding {
  static constexpr bool single = sizeof(T) == 4;
  static constexpr T separation = single ? T(1e-6) : T(1e-13);  // of the sum of all sizes
  static constexpr T parallel = single ? T(1e-7) : T(1e-16);    // squared sine of edges without a normal
  static constexpr T support = single ? T(1e-5) : T(1e-9);      // component that selects no side
  static constexpr T same = single ? T(1e-10) : T(1e-14);       // squared, of the face's: one corner
};

MANIPLE_FUNCTION constexpr int next_axis(int axis) {
  return axis == 2 ? 0 : axis + 1;
}

// Two boxes. `rotation[i][j]` is component i, in the frame of box 1, of axis j of box 2; the centers are seen
// from the other box.
template <class T>
struct BoxPair {
  const T *size1, *size2;
  T rotation[3][3], center2[3], center1[3];

  MANIPLE_FUNCTION BoxPair(const GeomPose<T>& box1, const GeomPose<T>& box2)
      : size1(box1.size), size2(box2.size) {
    const Mat3<T> inverse1 = transpose(box1.mat), inverse2 = transpose(box2.mat);
    const Vec3<T> way = box2.pos - box1.pos;
    put(inverse1 * way, center2);
    put(inverse2 * -way, center1);
    const Mat3<T> m = inverse1 * box2.mat;
    put(m.row_x(), rotation[0]);
    put(m.row_y(), rotation[1]);
    put(m.row_z(), rotation[2]);
  }
  static MANIPLE_FUNCTION void put(const Vec3<T>& v, T* numbers) {
    numbers[0] = v.x;
    numbers[1] = v.y;
    numbers[2] = v.z;
  }
  // Component, along axis j of box 2, of a vector in the frame of box 1.
  MANIPLE_FUNCTION T along2(const T* vector, int j) const {
    return vector[0] * rotation[0][j] + vector[1] * rotation[1][j] + vector[2] * rotation[2][j];
  }
  // axis i of box 1 x axis j of box 2, in the frame of box 1, not normalized; returns its square.
  MANIPLE_FUNCTION T cross(int i, int j, T* axis) const {
    const int i1 = next_axis(i), i2 = next_axis(i1);
    axis[i] = 0;
    axis[i1] = -rotation[i2][j];
    axis[i2] = rotation[i1][j];
    return axis[i1] * axis[i1] + axis[i2] * axis[i2];
  }
};

// The axis along which two boxes are farthest apart, or overlap least.
struct BoxAxis {
  enum Kind { none, face1, face2, edges };
  Kind kind = none;
  int axis1 = 0, axis2 = 0;  // of the box whose face it is, or of both edges
};

// None if they are farther apart than `margin`.
template <class T>
MANIPLE_FUNCTION BoxAxis separating_axis(const BoxPair<T>& boxes, T margin) {
  const T *const size1 = boxes.size1, *const size2 = boxes.size2;
  const auto& rotation = boxes.rotation;
  const T smallest(-1e10);
  T best = smallest;
  BoxAxis found;
  for (int i = 0; i < 3; ++i) {
    const T reach =
        abs(rotation[i][0]) * size2[0] + abs(rotation[i][1]) * size2[1] + abs(rotation[i][2]) * size2[2];
    const T separation = abs(boxes.center2[i]) - size1[i] - reach;
    if (separation > margin) return {};
    if (separation > best) {
      best = separation;
      found = {BoxAxis::face1, i, 0};
    }
  }
  for (int j = 0; j < 3; ++j) {
    const T reach =
        abs(rotation[0][j]) * size1[0] + abs(rotation[1][j]) * size1[1] + abs(rotation[2][j]) * size1[2];
    const T separation = abs(boxes.center1[j]) - size2[j] - reach;
    if (separation > margin) return {};
    if (separation > best) {
      best = separation;
      found = {BoxAxis::face2, 0, j};
    }
  }
  // edges must be better by more than rounding: faces touch in more points
  const BoxAxis face = found;
  const T best_of_faces = best;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      T axis[3];
      const T square = boxes.cross(i, j, axis);
      if (square < BoxRounding<T>::parallel) continue;
      const T inverse = 1 / sqrt(square);
      const int i1 = next_axis(i), i2 = next_axis(i1), j1 = next_axis(j), j2 = next_axis(j1);
      axis[i1] *= inverse;
      axis[i2] *= inverse;
      const T reach1 = size1[i1] * abs(axis[i1]) + size1[i2] * abs(axis[i2]);
      const T first = axis[i1] * rotation[i1][j1] + axis[i2] * rotation[i2][j1];
      const T second = axis[i1] * rotation[i1][j2] + axis[i2] * rotation[i2][j2];
      const T reach2 = size2[j1] * abs(first) + size2[j2] * abs(second);
      const T separation = abs(axis[i1] * boxes.center2[i1] + axis[i2] * boxes.center2[i2]) - reach1 - reach2;
      if (separation > margin) return {};
      if (separation - T(1e-6) * abs(separation) > best && separation > best_of_faces) {
        best = separation;
        found = {BoxAxis::edges, i, j};
      }
    }
  if (found.kind != BoxAxis::edges) return found;
  // within about 8 degrees of the face's normal they are the same contact, unless they are much better
  T axis[3];
  const T square = boxes.cross(found.axis1, found.axis2, axis);
  const T along =
      (face.kind == BoxAxis::face1 ? axis[face.axis1] : boxes.along2(axis, face.axis2)) / sqrt(square);
  const bool alike = abs(along) > T(0.99);
  return alike && best < best_of_faces + T(0.05) * abs(best_of_faces) + T(kMinimumValue) ? face : found;
}

// One edge of each box.
template <class T>
MANIPLE_FUNCTION void touch_at_edges(const BoxPair<T>& boxes, const GeomPose<T>& box1, int i, int j, T margin,
                                     FoundContacts<T>& found) {
  const T *const size1 = boxes.size1, *const size2 = boxes.size2;
  const auto& rotation = boxes.rotation;
  const int i1 = next_axis(i), i2 = next_axis(i1), j1 = next_axis(j), j2 = next_axis(j1);
  T axis[3];  // from box 1 to box 2
  T scale = 1 / sqrt(boxes.cross(i, j, axis));
  if (axis[i1] * boxes.center2[i1] + axis[i2] * boxes.center2[i2] < 0) scale = -scale;
  axis[i1] *= scale;
  axis[i2] *= scale;
  const T axis_in2[3] = {boxes.along2(axis, 0), boxes.along2(axis, 1), boxes.along2(axis, 2)};
  const T direction2[3] = {rotation[0][j], rotation[1][j], rotation[2][j]};

  // the edges that reach farthest; where a component does not tell the side, both are tried
  const auto unclear = [](const T* of, int first, int second) {
    return abs(of[first]) < BoxRounding<T>::support    ? first
           : abs(of[second]) < BoxRounding<T>::support ? second
                                                       : -1;
  };
  const int unclear1 = unclear(axis, i1, i2), unclear2 = unclear(axis_in2, j1, j2);
  const T cosine = direction2[i], square_of_sine = 1 - cosine * cosine;
  T nearest(1e10);
  T point1[3] = {0, 0, 0}, point2[3] = {0, 0, 0};
  for (int side1 = 0; side1 < (unclear1 >= 0 ? 2 : 1); ++side1)
    for (int side2 = 0; side2 < (unclear2 >= 0 ? 2 : 1); ++side2) {
      T middle1[3], local[3], middle2[3], way[3];
      middle1[i] = 0;
      local[j] = 0;
      for (const int k : {i1, i2}) {
        middle1[k] = axis[k] >= 0 ? size1[k] : -size1[k];
        if (side1 == 1 && k == unclear1) middle1[k] = -middle1[k];
      }
      for (const int k : {j1, j2}) {
        local[k] = axis_in2[k] >= 0 ? -size2[k] : size2[k];
        if (side2 == 1 && k == unclear2) local[k] = -local[k];
      }
      for (int k = 0; k < 3; ++k) {
        middle2[k] = rotation[k][0] * local[0] + rotation[k][1] * local[1] + rotation[k][2] * local[2] +
                     boxes.center2[k];
        way[k] = middle2[k] - middle1[k];
      }
      const T along1 = way[i];
      const T along2 = direction2[0] * way[0] + direction2[1] * way[1] + direction2[2] * way[2];
      T s = square_of_sine < T(kMinimumValue) ? T(0) : (along1 - cosine * along2) / square_of_sine;
      s = clamp(s, -size1[i], size1[i]);
      const T t = clamp(cosine * s - along2, -size2[j], size2[j]);
      s = clamp(along1 + cosine * t, -size1[i], size1[i]);
      middle1[i] += s;
      T square = 0;
      for (int k = 0; k < 3; ++k) {
        middle2[k] += t * direction2[k];
        square += (middle2[k] - middle1[k]) * (middle2[k] - middle1[k]);
      }
      if (!(square < nearest)) continue;
      nearest = square;
      for (int k = 0; k < 3; ++k) {
        point1[k] = middle1[k];
        point2[k] = middle2[k];
      }
    }
  const T dist = (point2[0] - point1[0]) * axis[0] + (point2[1] - point1[1]) * axis[1] +
                 (point2[2] - point1[2]) * axis[2];
  if (dist > margin) return;
  const Vec3<T> middle{T(0.5) * (point1[0] + point2[0]), T(0.5) * (point1[1] + point2[1]),
                       T(0.5) * (point1[2] + point2[2])};
  found.add({dist, box1.mat * middle + box1.pos, box1.mat * Vec3<T>{axis[0], axis[1], axis[2]}, zero3<T>()});
}

// A face that is clipped: its corners in a row, in the two directions of the other face and above it. Four
// cuts make eight corners of four; rounding may make a few more.
template <class T>
struct ClippedFace {
  static constexpr int kCapacity = 12;
  T corner[kCapacity][3];
  int count = 0;

  MANIPLE_FUNCTION void add(T x, T y, T height) {
    if (count == kCapacity) return;
    corner[count][0] = x;
    corner[count][1] = y;
    corner[count][2] = height;
    ++count;
  }
};
// The part of a face where sign * (coordinate k) <= limit.
template <class T>
MANIPLE_FUNCTION void clip(ClippedFace<T>& face, int k, T sign, T limit) {
  const auto beyond = [&](int i) { return sign * face.corner[i][k] - limit; };
  bool inside = true;
  for (int i = 0; i < face.count; ++i) inside = inside && beyond(i) <= 0;
  if (inside) return;
  ClippedFace<T> kept;
  for (int i = 0; i < face.count; ++i) {
    const T *const p = face.corner[i], *const q = face.corner[i + 1 == face.count ? 0 : i + 1];
    const T here = beyond(i), there = sign * q[k] - limit;
    if (here <= 0) kept.add(p[0], p[1], p[2]);
    if ((here < 0 && there > 0) || (here > 0 && there < 0)) {
      const T t = here / (here - there);
      kept.add(p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1]), p[2] + t * (q[2] - p[2]));
    }
  }
  face = kept;
}

// A face of box `mine` (1 or 2), across its axis a, and what of the other box faces it.
template <class T>
MANIPLE_FUNCTION void touch_at_face(const BoxPair<T>& boxes, const GeomPose<T>& my_pose, int mine, int a,
                                    T margin, FoundContacts<T>& found) {
  const bool first = mine == 1;
  const T *const size = first ? boxes.size1 : boxes.size2, *const others = first ? boxes.size2 : boxes.size1;
  const T* const center = first ? boxes.center2 : boxes.center1;
  // component r, in my frame, of the other box's axis c
  const auto rotation = [&](int r, int c) { return first ? boxes.rotation[r][c] : boxes.rotation[c][r]; };
  const T sign = center[a] >= 0 ? T(1) : T(-1);

  // the other box's face that looks at mine most
  int b = 0;
  for (int k = 1; k < 3; ++k)
    if (abs(rotation(a, k)) > abs(rotation(a, b))) b = k;
  const T toward = sign * rotation(a, b) > 0 ? T(-1) : T(1);

  // its corners, along my two other axes and above my face
  const int axes[3] = {next_axis(a), next_axis(next_axis(a)), a};
  const int u = next_axis(b), v = next_axis(u);
  T middle[3], along_u[3], along_v[3];
  for (int r = 0; r < 3; ++r) {
    const int k = axes[r];
    middle[r] = center[k] + toward * others[b] * rotation(k, b);
    along_u[r] = others[u] * rotation(k, u);
    along_v[r] = others[v] * rotation(k, v);
  }
  middle[2] = sign * middle[2] - size[a];
  along_u[2] *= sign;
  along_v[2] *= sign;
  ClippedFace<T> face;
  for (int k = 0; k < 4; ++k) {
    const T at_u = k == 0 || k == 3 ? T(1) : T(-1), at_v = k < 2 ? T(1) : T(-1);
    face.add(middle[0] + at_u * along_u[0] + at_v * along_v[0],
             middle[1] + at_u * along_u[1] + at_v * along_v[1],
             middle[2] + at_u * along_u[2] + at_v * along_v[2]);
  }
  for (int k = 0; k < 2; ++k) {
    clip(face, k, T(1), size[axes[k]]);
    clip(face, k, T(-1), size[axes[k]]);
  }

  // cuts at a corner leave it twice
  const T same = BoxRounding<T>::same * (size[axes[0]] * size[axes[0]] + size[axes[1]] * size[axes[1]]);
  const Mat3<T>& m = my_pose.mat;
  const Vec3<T> axis = a == 0 ? m.column_x() : a == 1 ? m.column_y() : m.column_z();
  const Vec3<T> normal = (first ? sign : -sign) * axis;
  ClippedFace<T> taken;
  for (int i = 0; i < face.count; ++i) {
    const T* const p = face.corner[i];
    if (p[2] > margin) continue;
    bool again = false;
    for (int k = 0; k < taken.count; ++k) {
      const T dx = taken.corner[k][0] - p[0], dy = taken.corner[k][1] - p[1];
      again = again || dx * dx + dy * dy < same;
    }
    if (again) continue;
    taken.add(p[0], p[1], p[2]);
    T local[3];
    local[axes[0]] = p[0];
    local[axes[1]] = p[1];
    local[a] = sign * (size[a] + T(0.5) * p[2]);
    found.add({p[2], m * Vec3<T>{local[0], local[1], local[2]} + my_pose.pos, normal, zero3<T>()});
  }
}

template <class T>
MANIPLE_STAGE void box_box_alone(const GeomPose<T>& box1, const GeomPose<T>& box2, T margin,
                                 FoundContacts<T>& found) {
  const BoxPair<T> boxes(box1, box2);
  const T sizes = box1.size[0] + box1.size[1] + box1.size[2] + box2.size[0] + box2.size[1] + box2.size[2];
  const T tolerant = margin + BoxRounding<T>::separation * sizes;
  const BoxAxis axis = separating_axis(boxes, tolerant);
  if (axis.kind == BoxAxis::edges)
    touch_at_edges(boxes, box1, axis.axis1, axis.axis2, tolerant, found);
  else if (axis.kind == BoxAxis::face1)
    touch_at_face(boxes, box1, 1, axis.axis1, margin, found);
  else if (axis.kind == BoxAxis::face2)
    touch_at_face(boxes, box2, 2, axis.axis2, margin, found);
}
template <class V, class Emit>
MANIPLE_FUNCTION void box_box(const GeomPose<V>& box1, const GeomPose<V>& box2, V margin, const Emit& emit) {
  using T = ScalarOf<V>;
  find_alone(
      box1, box_radius(box1.size), box2, box_radius(box2.size), margin,
      [](const GeomPose<T>& pose1, const GeomPose<T>& pose2, T margin_of_lane, FoundContacts<T>& found) {
        box_box_alone(pose1, pose2, margin_of_lane, found);
      },
      emit);
}

}  // namespace maniple
