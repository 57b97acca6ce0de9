// Intersection of a ray with a height field, with MuJoCo's answer (mj_rayHfield): the base is a box, above it
// the triangles of the cells, and the sides below the outermost ones. Of the cells only those are looked at
// that the ray passes, up to the nearest hit. For one environment at a time.
#pragma once

#include "kernels/model/model.hpp"
#include "kernels/physics/collision/ray_triangle.hpp"

namespace maniple {

// Distances along a ray to the sides of a box around the origin, each -1 where the ray misses it: two for
// each axis, the lower side first.
template <class T>
struct BoxSides {
  T at[6];

  MANIPLE_FUNCTION BoxSides(const T (&half_size)[3], const T (&p)[3], const T (&u)[3]) {
    for (T& side : at) side = -1;
    for (int axis = 0; axis < 3; ++axis) {
      if (abs(u[axis]) <= T(kMinimumValue)) continue;
      const int b = axis == 0 ? 1 : 0, c = axis == 2 ? 1 : 2;
      for (int side = 0; side < 2; ++side) {
        const T there = ((side == 0 ? -half_size[axis] : half_size[axis]) - p[axis]) / u[axis];
        if (there >= 0 && abs(p[b] + there * u[b]) <= half_size[b] &&
            abs(p[c] + there * u[c]) <= half_size[c])
          at[2 * axis + side] = there;
      }
    }
  }
  MANIPLE_FUNCTION T nearest() const {
    T least = -1;
    for (const T side : at)
      if (side >= 0 && (least < 0 || side < least)) least = side;
    return least;
  }
  MANIPLE_FUNCTION T farthest() const {
    T most = -1;
    for (const T side : at) most = max(most, side);
    return most;
  }
};

// Along one axis of a height field: its bands of cells, and the ray above them.
template <class T>
struct RayOverBands {
  T half, step, at, along, begins,
      leaves;  // m; of the field, a band, the ray's start, its direction and length
  int last;    // number of bands

  // How far beyond a band, in bands, rounding may lead.
  MANIPLE_FUNCTION T margin() const { return T(1e-3) + T(1e-6) * static_cast<T>(last); }
  // The bands below the part of the ray between two distances.
  MANIPLE_FUNCTION void range(T from, T to, int& first, int& end) const {
    const T a = (at + from * along + half) / step, b = (at + to * along + half) / step;
    const T low = floor(min(a, b) - margin()), high = ceil(max(a, b) + margin());
    first = low < 0 ? 0 : static_cast<int>(low);
    end = high > static_cast<T>(last) ? last : static_cast<int>(high);
  }
  // Between which distances the ray is above band i; from > to: nowhere.
  MANIPLE_FUNCTION void above(int i, T& from, T& to) const {
    const T slack = margin() * step;
    from = begins - slack;
    to = leaves + slack;
    if (abs(along) <= T(kMinimumValue)) return;
    const T low = (step * (static_cast<T>(i) - margin()) - half - at) / along,
            high = (step * (static_cast<T>(i + 1) + margin()) - half - at) / along;
    from = max(from, min(low, high));
    to = min(to, max(low, high));
  }
  // Band k of those from `first` to before `end`, in the order in which the ray passes them.
  MANIPLE_FUNCTION int in_order(int k, int first, int end) const {
    return along < 0 ? end - 1 - (k - first) : k;
  }
};

// Distance along the unit vector u from p to height field `id`, both in its frame; -1 where the ray misses
// it.
template <class T>
MANIPLE_FUNCTION T hfield_distance(const Model<T>& m, int id, const Vec3<T>& p, const Vec3<T>& u) {
  const T *const size = m.hfield_size + 4 * id, *const data = m.hfield_data + m.hfield_adr[id];
  const int rows = m.hfield_nrow[id], columns = m.hfield_ncol[id];
  const T direction[3] = {u.x, u.y, u.z};
  const auto sides = [&](T low, T high) {
    const T half_size[3] = {size[0], size[1], T(0.5) * (high - low)},
            point[3] = {p.x, p.y, p.z - T(0.5) * (low + high)};
    return BoxSides<T>(half_size, point, direction);
  };
  T nearest = sides(-size[3], T(0)).nearest();
  const auto keep = [&](T there) {
    if (there >= 0 && (nearest < 0 || there < nearest)) nearest = there;
  };
  const BoxSides<T> top = sides(T(0), size[2]);
  const T enters = top.nearest();
  if (enters < 0) return nearest;
  const T leaves = top.farthest(), begins = leaves > enters ? enters : T(0);
  const T step_x = 2 * size[0] / static_cast<T>(columns - 1), step_y = 2 * size[1] / static_cast<T>(rows - 1);
  const RayOverBands<T> over_columns{.half = size[0],
                                     .step = step_x,
                                     .at = p.x,
                                     .along = u.x,
                                     .begins = begins,
                                     .leaves = leaves,
                                     .last = columns - 1},
      over_rows{.half = size[1],
                .step = step_y,
                .at = p.y,
                .along = u.y,
                .begins = begins,
                .leaves = leaves,
                .last = rows - 1};
  int first_row, last_row;
  over_rows.range(begins, leaves, first_row, last_row);
  const auto corner = [&](int row, int column) -> Vec3<T> {
    return {step_x * static_cast<T>(column) - size[0], step_y * static_cast<T>(row) - size[1],
            data[row * columns + column] * size[2]};
  };
  for (int i = first_row; i < last_row; ++i) {
    const int row = over_rows.in_order(i, first_row, last_row);
    T from, to;
    over_rows.above(row, from, to);
    if (nearest >= 0 && from > nearest) break;
    if (from > to) continue;
    int first_column, last_column;
    over_columns.range(from, to, first_column, last_column);
    for (int k = first_column; k < last_column; ++k) {
      const int column = over_columns.in_order(k, first_column, last_column);
      over_columns.above(column, from, to);
      if (nearest >= 0 && from > nearest) break;
      const Vec3<T> a = corner(row, column), c = corner(row + 1, column + 1);
      keep(triangle_distance(a, corner(row, column + 1), c, p, u));
      keep(triangle_distance(a, c, corner(row + 1, column), p, u));
    }
  }
  // the sides, below the line between two heights
  for (int side = 0; side < 4; ++side) {
    const T there = top.at[side];
    if (there < 0) continue;
    const bool along_y = side < 2;
    const T place = along_y ? (p.y + there * u.y + size[1]) / step_y : (p.x + there * u.x + size[0]) / step_x;
    const int last = (along_y ? rows : columns) - 2, at = static_cast<int>(floor(place));
    const int first = at < 0 ? 0 : at > last ? last : at;
    const auto height = [&](int i) {
      return along_y ? data[i * columns + (side == 1 ? columns - 1 : 0)]
                     : data[(side == 3 ? (rows - 1) * columns : 0) + i];
    };
    const T share = place - static_cast<T>(first);
    if (p.z + there * u.z < size[2] * (height(first) * (1 - share) + height(first + 1) * share)) keep(there);
  }
  return nearest;
}

}  // namespace maniple
