// Spatial (6D) vectors and inertias about a common reference point, MuJoCo's convention: rotation first,
// then translation (engine_util_spatial.c; Featherstone, "Rigid Body Dynamics Algorithms", 2008).
#pragma once

#include "kernels/math/vector.hpp"

namespace maniple {

// A motion (angular, linear velocity) or a force (torque, force).
template <class V>
struct Spatial {
  Vec3<V> rot, lin;

  friend MANIPLE_FUNCTION Spatial operator+(const Spatial& a, const Spatial& b) {
    return {a.rot + b.rot, a.lin + b.lin};
  }
  friend MANIPLE_FUNCTION Spatial operator*(V s, const Spatial& a) { return {s * a.rot, s * a.lin}; }
};

template <class V>
MANIPLE_FUNCTION V dot(const Spatial<V>& a, const Spatial<V>& b) {
  return dot(a.rot, b.rot) + dot(a.lin, b.lin);
}
template <class V>
MANIPLE_FUNCTION Spatial<V> zero6() {
  return {zero3<V>(), zero3<V>()};
}

// Rate of change of the motion v carried along by the motion `velocity`: mji_crossMotion.
template <class V>
MANIPLE_FUNCTION Spatial<V> cross_motion(const Spatial<V>& velocity, const Spatial<V>& v) {
  return {cross(velocity.rot, v.rot), cross(velocity.rot, v.lin) + cross(velocity.lin, v.rot)};
}
// The same for a force: mji_crossForce.
template <class V>
MANIPLE_FUNCTION Spatial<V> cross_force(const Spatial<V>& velocity, const Spatial<V>& f) {
  return {cross(velocity.rot, f.rot) + cross(velocity.lin, f.lin), cross(velocity.rot, f.lin)};
}

// Inertia about the reference point: symmetric 3x3 rotational part, mass times center of mass, mass.
template <class V>
struct Inertia {
  V xx, yy, zz, xy, xz, yz;
  Vec3<V> moment;
  V mass;
};
template <class V>
MANIPLE_FUNCTION Inertia<V> zero10() {
  return {V(0), V(0), V(0), V(0), V(0), V(0), zero3<V>(), V(0)};
}

// Momentum (or force) of the motion v: mju_mulInertVec.
template <class V>
MANIPLE_FUNCTION Spatial<V> operator*(const Inertia<V>& i, const Spatial<V>& v) {
  const Mat3<V> rotational{i.xx, i.xy, i.xz, i.xy, i.yy, i.yz, i.xz, i.yz, i.zz};
  return {rotational * v.rot + cross(i.moment, v.lin), multiply_add(i.mass, v.lin, cross(v.rot, i.moment))};
}

// Principal inertia `diagonal` [kg m^2] in a frame with orientation `mat`, of a mass whose center lies at
// `offset` from the reference point: mju_inertCom.
template <class V>
MANIPLE_FUNCTION Inertia<V> inertia_about(const Vec3<V>& diagonal, const Mat3<V>& mat, const Vec3<V>& offset,
                                          V mass) {
  const auto scaled = [&](const Vec3<V>& row) {
    return Vec3<V>{diagonal.x * row.x, diagonal.y * row.y, diagonal.z * row.z};
  };
  const Vec3<V> x = mat.row_x(), y = mat.row_y(), z = mat.row_z(), scaled_x = scaled(x), scaled_y = scaled(y);
  const Vec3<V> moment = mass * offset;
  const auto plus = [](V sum, V a, V b) { return multiply_add(a, b, sum); };
  return {plus(plus(dot(scaled_x, x), moment.y, offset.y), moment.z, offset.z),
          plus(plus(dot(scaled_y, y), moment.x, offset.x), moment.z, offset.z),
          plus(plus(dot(scaled(z), z), moment.x, offset.x), moment.y, offset.y),
          plus(dot(scaled_x, y), -moment.x, offset.y),
          plus(dot(scaled_x, z), -moment.x, offset.z),
          plus(dot(scaled_y, z), -moment.y, offset.z),
          moment,
          mass};
}

template <class V, class Field>
MANIPLE_FUNCTION Spatial<V> load6(const Field& field, int first) {
  return {load3<V>(field, first), load3<V>(field, first + 3)};
}
template <class V, class Field>
MANIPLE_FUNCTION void store6(const Field& field, int first, const Spatial<V>& v) {
  store3(field, first, v.rot);
  store3(field, first + 3, v.lin);
}
template <class V, class Field>
MANIPLE_FUNCTION Inertia<V> load10(const Field& field, int first) {
  return {field[first],     field[first + 1], field[first + 2],           field[first + 3],
          field[first + 4], field[first + 5], load3<V>(field, first + 6), field[first + 9]};
}
template <class V, class Field>
MANIPLE_FUNCTION void store10(const Field& field, int first, const Inertia<V>& i) {
  field[first] = i.xx;
  field[first + 1] = i.yy;
  field[first + 2] = i.zz;
  field[first + 3] = i.xy;
  field[first + 4] = i.xz;
  field[first + 5] = i.yz;
  store3(field, first + 6, i.moment);
  field[first + 9] = i.mass;
}

}  // namespace maniple
