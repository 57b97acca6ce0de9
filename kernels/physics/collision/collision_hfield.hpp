// Contacts of a height field with convex shapes, with the contact points of MuJoCo's (mjc_ConvexHField):
// every cell below the shape is two triangles, each the top of a prism that goes down to the base, and GJK
// and EPA find the deepest point of each prism. Called by MANIPLE_HFIELD_PAIR_TYPES.
#pragma once

#include "kernels/physics/collision/collision_convex.hpp"

namespace maniple {

// The prisms of a height field in its frame, which begin with the column before `column`: the next vertex
// takes the place of the oldest.
template <class S>
struct HfieldPrisms {
  const S *size, *data;
  int rows, columns;
  double step_x, step_y;
  Vec3<double> corner[6];  // below, and above

  MANIPLE_FUNCTION HfieldPrisms(const Model<S>& m, int id)
      : size(m.hfield_size + 4 * id),
        data(m.hfield_data + m.hfield_adr[id]),
        rows(m.hfield_nrow[id]),
        columns(m.hfield_ncol[id]),
        step_x(2 * static_cast<double>(size[0]) / (columns - 1)),
        step_y(2 * static_cast<double>(size[1]) / (rows - 1)) {
    for (Vec3<double>& point : corner) point = {0, 0, -static_cast<double>(size[3])};
  }
  MANIPLE_FUNCTION double half(int axis) const { return static_cast<double>(size[axis]); }
  MANIPLE_FUNCTION void add(int row, int column) {
    for (const int k : {0, 1, 3, 4}) corner[k] = corner[k + 1];
    const double x = step_x * column - half(0), y = step_y * row - half(1);
    const double height = static_cast<double>(data[row * columns + column]) * half(2);
    corner[2] = {x, y, -half(3)};
    corner[5] = {x, y, height};
  }
  MANIPLE_FUNCTION Vec3<double> center() const {
    Vec3<double> sum = zero3<double>();
    for (const Vec3<double>& point : corner) sum = sum + point;
    return (1.0 / 6.0) * sum;
  }
};

// Whether one of two planes separates a shape from a prism by more than GJK's tolerance, so that GJK would
// find no contact either: the plane of the prism's top, or the one across the line from a point of the top,
// about the nearest, to the middle of the shape. `upper`: the right angle of the prism is at its first
// corner, else at its last one.
template <class S>
MANIPLE_FUNCTION bool is_apart(const Vec3<double>* corner, bool upper, double inflation,
                               const ConvexOptions& options, ConvexShape<S> shape) {
  const double apart = inflation + 2 * options.tolerance;
  const Vec3<double>*const top = corner + 3, &origin = upper ? top[0] : top[2];
  Vec3<double> up = plain_cross(top[1] - top[0], top[2] - top[0]);
  up = (up.z < 0 ? -1 : 1) / length(up) * up;
  if (plain_dot(up, shape.support(-up) - origin) > apart) return true;
  // coordinates of the point along the legs of the top: 0 to 1, and at most 1 together
  const Vec3<double> leg1 = top[1] - origin, leg2 = (upper ? top[2] : top[0]) - origin,
                     way = shape.pos - origin;
  const auto along = [&](const Vec3<double>& leg) {
    return (way.x * leg.x + way.y * leg.y) / (leg.x * leg.x + leg.y * leg.y);
  };
  double part1 = max(0.0, along(leg1)), part2 = max(0.0, along(leg2));
  if (const double beyond = part1 + part2 - 1; beyond > 0) {
    // (the legs have about the same length)
    part1 = min(1.0, max(0.0, part1 - 0.5 * beyond));
    part2 = 1 - part1;
  }
  const Vec3<double> beside = origin + part1 * leg1 + part2 * leg2, apart_by = shape.pos - beside;
  const double distance = length(apart_by);
  // (from above the corners of the base are farther away than those of the top)
  if (!(distance > kMinimumValue) || apart_by.z < 0) return false;
  const Vec3<double> axis = (1 / distance) * apart_by;
  double most = plain_dot(axis, top[0]);
  for (int k = 1; k < 3; ++k) most = max(most, plain_dot(axis, top[k]));
  return plain_dot(axis, shape.support(-axis)) - most > apart;
}

// Calls add(contact) for the contacts of a shape, in the height field's frame, at most kMostGeomPairContacts.
template <class S, class Add>
MANIPLE_STAGE void touch_prisms(const Model<S>& m, int id, ConvexShape<S>& shape, double margin,
                                const Add& add) {
  HfieldPrisms<S> prisms(m, id);
  const double above[3] = {prisms.half(0), prisms.half(1), prisms.half(2)},
               below[3] = {prisms.half(0), prisms.half(1), prisms.half(3)};
  double low[3], high[3];
  for (int axis = 0; axis < 3; ++axis) {
    const Vec3<double> direction{axis == 0 ? 1.0 : 0.0, axis == 1 ? 1.0 : 0.0, axis == 2 ? 1.0 : 0.0};
    high[axis] = plain_dot(direction, shape.support(direction)) + margin;
    low[axis] = plain_dot(direction, shape.support(-direction)) - margin;
    if (low[axis] > above[axis] || high[axis] < -below[axis]) return;
  }
  const auto cell = [](double x, double half_size, int count) {
    return (x + half_size) / (2 * half_size) * (count - 1);
  };
  const auto within = [](double x, int last) { return static_cast<int>(x < 0 ? 0 : x > last ? last : x); };
  const int first_column = within(floor(cell(low[0], above[0], prisms.columns)), prisms.columns - 1),
            last_column = within(ceil(cell(high[0], above[0], prisms.columns)), prisms.columns - 1),
            first_row = within(floor(cell(low[1], above[1], prisms.rows)), prisms.rows - 1),
            last_row = within(ceil(cell(high[1], above[1], prisms.rows)), prisms.rows - 1);
  shape.inflation = 0.5 * margin;
  const ConvexOptions options = convex_options(m);
  int count = 0;
  for (int row = first_row; row < last_row; ++row) {
    prisms.add(row + 1, first_column);
    prisms.add(row, first_column);
    for (int column = first_column + 1; column <= last_column; ++column)
      for (int upper = 1; upper >= 0; --upper) {
        prisms.add(row + upper, column);
        if (prisms.corner[3].z < low[2] && prisms.corner[4].z < low[2] && prisms.corner[5].z < low[2])
          continue;
        if (is_apart(prisms.corner, upper == 1, 0.5 * margin, options, shape)) continue;
        ConvexShape<S> prism{.type = geom_hfield,
                             .pos = prisms.center(),
                             .mat = {1, 0, 0, 0, 1, 0, 0, 0, 1},
                             .size = {0, 0, 0},
                             .inflation = 0.5 * margin,
                             .mesh = {},
                             .core = false,
                             .vertex = -1,
                             .prism = prisms.corner};
        ContactPoint<double> contact;
        Witnesses witnesses;
        if (!penetration(prism, shape, margin, options, contact, witnesses)) continue;
        add(contact);
        if (++count == kMostGeomPairContacts) return;
      }
  }
}

template <class S, class Add>
MANIPLE_FUNCTION void hfield_convex_alone(const Model<S>& m, const GeomPose<S>& pose1, int type2,
                                          const GeomPose<S>& pose2, S margin, const Add& add) {
  const ConvexShape<S> field = convex_shape(m, geom_hfield, pose1, 0);
  ConvexShape<S> shape = convex_shape(m, type2, pose2, 0);
  const auto in_field = [&](const Vec3<double>& v) -> Vec3<double> {
    return {plain_dot(field.mat.column_x(), v), plain_dot(field.mat.column_y(), v),
            plain_dot(field.mat.column_z(), v)};
  };
  const Vec3<double> x = in_field(shape.mat.column_x()), y = in_field(shape.mat.column_y()),
                     z = in_field(shape.mat.column_z());
  shape.mat = {x.x, y.x, z.x, x.y, y.y, z.y, x.z, y.z, z.z};
  shape.pos = in_field(shape.pos - field.pos);
  touch_prisms(m, pose1.data, shape, static_cast<double>(margin), [&](ContactPoint<double> contact) {
    contact.pos = field.in_world(contact.pos);
    contact.normal = plain_multiply(field.mat, contact.normal);
    add(rounded<S>(contact));
  });
}

// Whether a height below a box reaches it, in the height field's frame: most shapes are above all of them,
// which takes no prism to see. `half` is so large that rounding hides none.
template <class S>
MANIPLE_FUNCTION bool reaches(const Model<S>& m, int id, const Vec3<S>& center, const Vec3<S>& half) {
  const S *const size = m.hfield_size + 4 * id, *const data = m.hfield_data + m.hfield_adr[id];
  const int columns = m.hfield_ncol[id], rows = m.hfield_nrow[id];
  const auto place = [](S x, S end, int count) {
    const S at = (x + end) / (2 * end) * static_cast<S>(count - 1);
    return at < 0 ? 0 : at > static_cast<S>(count - 1) ? count - 1 : static_cast<int>(at);
  };
  const int first_column = place(center.x - half.x, size[0], columns),
            last_column = place(center.x + half.x, size[0], columns) + 1,
            first_row = place(center.y - half.y, size[1], rows),
            last_row = place(center.y + half.y, size[1], rows) + 1;
  const S lowest = center.z - half.z;
  for (int row = first_row; row <= last_row && row < rows; ++row)
    for (int column = first_column; column <= last_column && column < columns; ++column)
      if (data[row * columns + column] * size[2] >= lowest) return true;
  return false;
}

template <class V, class Emit>
MANIPLE_FUNCTION void hfield_convex(const Model<ScalarOf<V>>& m, const GeomPose<V>& pose1, int type2,
                                    const GeomPose<V>& pose2, V margin, const Emit& emit) {
  using S = ScalarOf<V>;
  const Vec3<V> apart = pose2.pos - pose1.pos;
  const S* const size = m.hfield_size + 4 * pose1.data;
  const V slack = margin + V(S(1e-6) * (size[0] + size[1] + size[2]));
  const Vec3<V> axes[3] = {pose1.mat.column_x(), pose1.mat.column_y(), pose1.mat.column_z()};
  const Vec3<V> center{dot(axes[0], apart), dot(axes[1], apart), dot(axes[2], apart)};
  // (the box of a mesh may stand anywhere around its center)
  const auto reach = [&](const Vec3<V>& axis) {
    return slack + (type2 == geom_mesh ? pose2.mesh_radius() : reach_along(type2, pose2, axis));
  };
  const Vec3<V> half{reach(axes[0]), reach(axes[1]), reach(axes[2])};
  const auto along = [](const V& x, const V& extent, S below, S above) {
    return x - extent <= V(above) && x + extent >= V(-below);
  };
  const MaskOf<V> near = along(center.x, half.x, size[0], size[0]) &&
                         along(center.y, half.y, size[1], size[1]) &&
                         along(center.z, half.z, size[3], size[2]);
  for_each_lane(near, [&](int lane) {
    if (!reaches(m, pose1.data, vector_of_lane(center, lane), vector_of_lane(half, lane))) return;
    hfield_convex_alone(
        m, pose_of_lane(pose1, lane), type2, pose_of_lane(pose2, lane), get_lane(margin, lane),
        [&](const ContactPoint<S>& contact) { emit(mask_of_lane<V>(lane), in_lanes<V>(contact)); });
  });
}

}  // namespace maniple
