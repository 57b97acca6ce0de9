// Vectors and matrices of three dimensions over lane values. Plain structs of named components, so that a
// compiler keeps them in registers; matrices are row-major as MuJoCo's. Sums of products state where they
// round, so that rounding does not depend on the code around them.
#pragma once

#include "kernels/base/varying.hpp"
#include "kernels/math/minimum_value.hpp"

namespace maniple {

template <class V>
struct Vec3 {
  V x, y, z;

  friend MANIPLE_FUNCTION Vec3 operator+(const Vec3& a, const Vec3& b) {
    return {a.x + b.x, a.y + b.y, a.z + b.z};
  }
  friend MANIPLE_FUNCTION Vec3 operator-(const Vec3& a, const Vec3& b) {
    return {a.x - b.x, a.y - b.y, a.z - b.z};
  }
  friend MANIPLE_FUNCTION Vec3 operator-(const Vec3& a) { return {-a.x, -a.y, -a.z}; }
  friend MANIPLE_FUNCTION Vec3 operator*(V s, const Vec3& a) { return {s * a.x, s * a.y, s * a.z}; }
};

template <class V>
MANIPLE_FUNCTION V dot(const Vec3<V>& a, const Vec3<V>& b) {
  return multiply_add(a.z, b.z, multiply_add(a.y, b.y, a.x * b.x));
}
template <class V>
MANIPLE_FUNCTION Vec3<V> cross(const Vec3<V>& a, const Vec3<V>& b) {
  return {multiply_add(a.y, b.z, -(a.z * b.y)), multiply_add(a.z, b.x, -(a.x * b.z)),
          multiply_add(a.x, b.y, -(a.y * b.x))};
}
// s a + b.
template <class V>
MANIPLE_FUNCTION Vec3<V> multiply_add(V s, const Vec3<V>& a, const Vec3<V>& b) {
  return {multiply_add(s, a.x, b.x), multiply_add(s, a.y, b.y), multiply_add(s, a.z, b.z)};
}
template <class V>
MANIPLE_FUNCTION Vec3<V> zero3() {
  return {V(0), V(0), V(0)};
}
// v / |v|; (1, 0, 0) where v is zero: mju_normalize3.
template <class V>
MANIPLE_FUNCTION Vec3<V> normalize(const Vec3<V>& v) {
  const V length = sqrt(dot(v, v));
  const MaskOf<V> zero = length < V(kMinimumValue);
  const V inverse = V(1) / select(zero, V(1), length);
  return {select(zero, V(1), inverse * v.x), select(zero, V(0), inverse * v.y),
          select(zero, V(0), inverse * v.z)};
}

template <class V>
MANIPLE_FUNCTION Vec3<V> select(MaskOf<V> mask, const Vec3<V>& yes, const Vec3<V>& no) {
  return {select(mask, yes.x, no.x), select(mask, yes.y, no.y), select(mask, yes.z, no.z)};
}

// 3x3, row-major.
template <class V>
struct Mat3 {
  V xx, xy, xz, yx, yy, yz, zx, zy, zz;

  friend MANIPLE_FUNCTION Vec3<V> operator*(const Mat3& m, const Vec3<V>& v) {
    return {dot(m.row_x(), v), dot(m.row_y(), v), dot(m.row_z(), v)};
  }
  friend MANIPLE_FUNCTION Mat3 operator*(const Mat3& a, const Mat3& b) {
    const Vec3<V> x = b.column_x(), y = b.column_y(), z = b.column_z();
    return {dot(a.row_x(), x), dot(a.row_x(), y), dot(a.row_x(), z), dot(a.row_y(), x), dot(a.row_y(), y),
            dot(a.row_y(), z), dot(a.row_z(), x), dot(a.row_z(), y), dot(a.row_z(), z)};
  }
  MANIPLE_FUNCTION Vec3<V> row_x() const { return {xx, xy, xz}; }
  MANIPLE_FUNCTION Vec3<V> row_y() const { return {yx, yy, yz}; }
  MANIPLE_FUNCTION Vec3<V> row_z() const { return {zx, zy, zz}; }
  MANIPLE_FUNCTION Vec3<V> column_x() const { return {xx, yx, zx}; }
  MANIPLE_FUNCTION Vec3<V> column_y() const { return {xy, yy, zy}; }
  MANIPLE_FUNCTION Vec3<V> column_z() const { return {xz, yz, zz}; }
};
template <class V>
MANIPLE_FUNCTION Mat3<V> transpose(const Mat3<V>& a) {
  return {a.xx, a.yx, a.zx, a.xy, a.yy, a.zy, a.xz, a.yz, a.zz};
}
// The matrix that multiplies by v from the left as a cross product.
template <class V>
MANIPLE_FUNCTION Mat3<V> cross_matrix(const Vec3<V>& v) {
  return {V(0), -v.z, v.y, v.z, V(0), -v.x, -v.y, v.x, V(0)};
}

// ---- between fields of lane values (any type with operator[](int)) and registers ----
template <class V, class Field>
MANIPLE_FUNCTION Vec3<V> load3(const Field& field, int first) {
  return {field[first], field[first + 1], field[first + 2]};
}
template <class V, class Field>
MANIPLE_FUNCTION void store3(const Field& field, int first, const Vec3<V>& v) {
  field[first] = v.x;
  field[first + 1] = v.y;
  field[first + 2] = v.z;
}
template <class V, class Field>
MANIPLE_FUNCTION Mat3<V> load9(const Field& field, int first) {
  return {field[first],     field[first + 1], field[first + 2], field[first + 3], field[first + 4],
          field[first + 5], field[first + 6], field[first + 7], field[first + 8]};
}
template <class V, class Field>
MANIPLE_FUNCTION void store9(const Field& field, int first, const Mat3<V>& a) {
  field[first] = a.xx;
  field[first + 1] = a.xy;
  field[first + 2] = a.xz;
  field[first + 3] = a.yx;
  field[first + 4] = a.yy;
  field[first + 5] = a.yz;
  field[first + 6] = a.zx;
  field[first + 7] = a.zy;
  field[first + 8] = a.zz;
}
// The same numbers in every lane, from the model.
template <class V>
MANIPLE_FUNCTION Vec3<V> uniform3(const ScalarOf<V>* p) {
  return {V(p[0]), V(p[1]), V(p[2])};
}
template <class V>
MANIPLE_FUNCTION Mat3<V> uniform9(const ScalarOf<V>* p) {
  return {V(p[0]), V(p[1]), V(p[2]), V(p[3]), V(p[4]), V(p[5]), V(p[6]), V(p[7]), V(p[8])};
}

// Componentwise.
template <class V>
MANIPLE_FUNCTION Vec3<V> scaled(const Vec3<V>& scale, const Vec3<V>& v) {
  return {scale.x * v.x, scale.y * v.y, scale.z * v.z};
}

// a b'
template <class V>
MANIPLE_FUNCTION Mat3<V> outer(const Vec3<V>& a, const Vec3<V>& b) {
  return {a.x * b.x, a.x * b.y, a.x * b.z, a.y * b.x, a.y * b.y, a.y * b.z, a.z * b.x, a.z * b.y, a.z * b.z};
}

// m scaled column by column: m diag(scale)
template <class V>
MANIPLE_FUNCTION Mat3<V> scaled_columns(const Mat3<V>& m, const Vec3<V>& scale) {
  return {m.xx * scale.x, m.xy * scale.y, m.xz * scale.z, m.yx * scale.x, m.yy * scale.y,
          m.yz * scale.z, m.zx * scale.x, m.zy * scale.y, m.zz * scale.z};
}

// a + factor b
template <class V>
MANIPLE_FUNCTION Mat3<V> add_scaled(const Mat3<V>& a, V factor, const Mat3<V>& b) {
  return {a.xx + factor * b.xx, a.xy + factor * b.xy, a.xz + factor * b.xz,
          a.yx + factor * b.yx, a.yy + factor * b.yy, a.yz + factor * b.yz,
          a.zx + factor * b.zx, a.zy + factor * b.zy, a.zz + factor * b.zz};
}

template <class V>
MANIPLE_FUNCTION Mat3<V> diagonal(V x, V y, V z) {
  return {x, V(0), V(0), V(0), y, V(0), V(0), V(0), z};
}

}  // namespace maniple
