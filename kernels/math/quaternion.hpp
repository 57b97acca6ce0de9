// Unit quaternions (w, x, y, z) over lane values, with MuJoCo's conventions: q rotates from the local to
// the parent frame, angular velocities of ball joints are local (engine_util_spatial.c).
#pragma once

#include "kernels/math/functions.hpp"
#include "kernels/math/vector.hpp"

namespace maniple {

template <class V>
struct Quat {
  V w, x, y, z;
};

template <class V>
MANIPLE_FUNCTION V dot(const Quat<V>& a, const Quat<V>& b) {
  return multiply_add(a.z, b.z, multiply_add(a.y, b.y, multiply_add(a.x, b.x, a.w * b.w)));
}
template <class V>
MANIPLE_FUNCTION Quat<V> operator*(const Quat<V>& a, const Quat<V>& b) {
  return {dot(a, Quat<V>{b.w, -b.x, -b.y, -b.z}), dot(a, Quat<V>{b.x, b.w, b.z, -b.y}),
          dot(a, Quat<V>{b.y, -b.z, b.w, b.x}), dot(a, Quat<V>{b.z, b.y, -b.x, b.w})};
}
template <class V>
MANIPLE_FUNCTION Quat<V> conjugate(const Quat<V>& q) {
  return {q.w, -q.x, -q.y, -q.z};
}
template <class V>
MANIPLE_FUNCTION Quat<V> operator*(V s, const Quat<V>& q) {
  return {s * q.w, s * q.x, s * q.y, s * q.z};
}

// q / |q|, but q where its length is one up to 1e-15, and the identity where it is below that
// (mju_normalize4).
template <class V>
MANIPLE_FUNCTION Quat<V> normalize(const Quat<V>& q) {
  const V norm = sqrt(dot(q, q));
  const MaskOf<V> zero = norm < V(kMinimumValue);
  const V inverse = V(1) / select(zero || abs(norm - V(1)) <= V(kMinimumValue), V(1), norm);
  return {select(zero, V(1), q.w * inverse), select(zero, V(0), q.x * inverse),
          select(zero, V(0), q.y * inverse), select(zero, V(0), q.z * inverse)};
}

// The same for a q whose length differs from one by rounding only: one Newton step from 1 is then exact.
template <class V>
MANIPLE_FUNCTION Quat<V> renormalize(const Quat<V>& q) {
  const V excess = dot(q, q) - V(1);
  return select(abs(excess) <= V(2 * kMinimumValue), V(1), multiply_add(V(-0.5), excess, V(1))) * q;
}

// Rotation of v by q: v + 2 w (u x v) + 2 u x (u x v).
template <class V>
MANIPLE_FUNCTION Vec3<V> rotate(const Quat<V>& q, const Vec3<V>& v) {
  const Vec3<V> u{q.x, q.y, q.z};
  const Vec3<V> t = multiply_add(q.w, v, cross(u, v));
  return multiply_add(V(2), cross(u, t), v);
}

// The diagonal is summed and rounded as in mju_quat2Mat: where a geom touches by a rounding, this decides.
template <class V>
MANIPLE_FUNCTION Mat3<V> matrix(const Quat<V>& q) {
  const V x2 = q.x + q.x, y2 = q.y + q.y, z2 = q.z + q.z;
  const V wx = q.w * x2, wy = q.w * y2, wz = q.w * z2;
  const V ww = q.w * q.w, xx = q.x * q.x, yy = q.y * q.y, zz = q.z * q.z, less = ww - xx;
  return {
      ww + xx - yy - zz, multiply_add(q.x, y2, -wz), multiply_add(q.x, z2, wy),  multiply_add(q.x, y2, wz),
      less + yy - zz,    multiply_add(q.y, z2, -wx), multiply_add(q.x, z2, -wy), multiply_add(q.y, z2, wx),
      less - yy + zz};
}

// Rotation vector (axis times angle in [-pi, pi]) of a unit quaternion: mju_quat2Vel with dt = 1.
template <class V>
MANIPLE_FUNCTION Vec3<V> rotation_vector(const Quat<V>& q) {
  const Vec3<V> u{q.x, q.y, q.z};
  const V sine = sqrt(dot(u, u));
  const MaskOf<V> zero = sine < V(kMinimumValue);
  V angle = V(2) * atan2(sine, q.w);
  angle = select(angle > V(3.14159265358979323846), angle - V(6.28318530717958647692), angle);
  const V scale = angle / select(zero, V(1), sine);
  return {select(zero, angle, scale * q.x), select(zero, V(0), scale * q.y), select(zero, V(0), scale * q.z)};
}

// Rotation vector from b to a in the frame of b: mju_subQuat.
template <class V>
MANIPLE_FUNCTION Vec3<V> difference(const Quat<V>& a, const Quat<V>& b) {
  return rotation_vector(conjugate(b) * a);
}

// q turned by the local angular velocity v [rad/s] for the time dt [s]: mju_quatIntegrate.
template <class V>
MANIPLE_FUNCTION Quat<V> integrate(const Quat<V>& q, const Vec3<V>& v, V dt) {
  const V speed = sqrt(dot(v, v));
  const V inverse = V(1) / max(speed, V(kMinimumValue));
  V sine, cosine;
  sincos(V(0.5) * dt * speed, sine, cosine);
  const Vec3<V> u = (sine * inverse) * v;
  return normalize(q) * Quat<V>{cosine, u.x, u.y, u.z};
}

template <class V, class Field>
MANIPLE_FUNCTION Quat<V> load4(const Field& field, int first) {
  return {field[first], field[first + 1], field[first + 2], field[first + 3]};
}
template <class V, class Field>
MANIPLE_FUNCTION void store4(const Field& field, int first, const Quat<V>& q) {
  field[first] = q.w;
  field[first + 1] = q.x;
  field[first + 2] = q.y;
  field[first + 3] = q.z;
}
template <class V>
MANIPLE_FUNCTION Quat<V> uniform4(const ScalarOf<V>* p) {
  return {V(p[0]), V(p[1]), V(p[2]), V(p[3])};
}

}  // namespace maniple
