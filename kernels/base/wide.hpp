// The lane value of a single-precision model where single precision does not suffice: one environment at a
// time, computed in double precision. Stages take it for V like any other; the model's numbers stay floats.
#pragma once

#include "kernels/base/pack.hpp"

namespace maniple {

struct Wide {
  double value;

  Wide() = default;
  template <class U, class = std::enable_if_t<std::is_arithmetic_v<U>>>
  MANIPLE_FUNCTION Wide(U number) : value(static_cast<double>(number)) {}
  MANIPLE_FUNCTION explicit operator float() const { return static_cast<float>(value); }
  MANIPLE_FUNCTION explicit operator int() const { return static_cast<int>(value); }

  friend MANIPLE_FUNCTION Wide operator+(Wide a, Wide b) { return a.value + b.value; }
  friend MANIPLE_FUNCTION Wide operator-(Wide a, Wide b) { return a.value - b.value; }
  friend MANIPLE_FUNCTION Wide operator*(Wide a, Wide b) { return a.value * b.value; }
  friend MANIPLE_FUNCTION Wide operator/(Wide a, Wide b) { return a.value / b.value; }
  friend MANIPLE_FUNCTION Wide operator-(Wide a) { return -a.value; }
  MANIPLE_FUNCTION Wide& operator+=(Wide b) { return *this = *this + b; }
  MANIPLE_FUNCTION Wide& operator-=(Wide b) { return *this = *this - b; }
  MANIPLE_FUNCTION Wide& operator*=(Wide b) { return *this = *this * b; }
  friend MANIPLE_FUNCTION bool operator<(Wide a, Wide b) { return a.value < b.value; }
  friend MANIPLE_FUNCTION bool operator<=(Wide a, Wide b) { return a.value <= b.value; }
  friend MANIPLE_FUNCTION bool operator>(Wide a, Wide b) { return a.value > b.value; }
  friend MANIPLE_FUNCTION bool operator>=(Wide a, Wide b) { return a.value >= b.value; }
  friend MANIPLE_FUNCTION bool operator==(Wide a, Wide b) { return a.value == b.value; }
  friend MANIPLE_FUNCTION bool operator!=(Wide a, Wide b) { return a.value != b.value; }
};

template <>
struct LaneTraits<Wide> {
  using Scalar = float;
  using MaskType = bool;
  static constexpr int width = 1;
};

MANIPLE_FUNCTION Wide select(bool mask, Wide yes, Wide no) {
  return mask ? yes : no;
}
MANIPLE_FUNCTION Wide get_lane(Wide v, int) {
  return v;
}
MANIPLE_FUNCTION Wide min(Wide a, Wide b) {
  return min(a.value, b.value);
}
MANIPLE_FUNCTION Wide max(Wide a, Wide b) {
  return max(a.value, b.value);
}
MANIPLE_FUNCTION Wide abs(Wide x) {
  return abs(x.value);
}
MANIPLE_FUNCTION Wide sqrt(Wide x) {
  return sqrt(x.value);
}
MANIPLE_FUNCTION Wide copysign(Wide size, Wide sign) {
  return ::copysign(size.value, sign.value);
}
MANIPLE_FUNCTION Wide multiply_add(Wide a, Wide b, Wide c) {
  return multiply_add(a.value, b.value, c.value);
}

}  // namespace maniple
