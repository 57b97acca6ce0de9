// Lanes: the varying value type of every kernel. On a CPU it is a Pack, one SIMD register of environments;
// on a GPU a plain float or double. Both offer the same free functions (select, any_lane, min, max,
// sqrt, ...), so that one source serves both; here are those of scalars.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/base/lane_traits.hpp"
#ifndef MANIPLE_SCALAR_LANES
#include "kernels/base/simd_pack.hpp"
#endif

namespace maniple {

// The varying type of precision T on this build's execution space.
#ifdef MANIPLE_SCALAR_LANES
template <class T>
using Lanes = T;
#else
template <class T>
using Lanes = Pack<T, kRegisterBytes / static_cast<int>(sizeof(T))>;
#endif

// ---- select: the only way in which a varying decides anything ----
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
MANIPLE_FUNCTION T select(bool mask, T yes, T no) {
  return mask ? yes : no;
}

MANIPLE_FUNCTION bool any_lane(bool mask) {
  return mask;
}
MANIPLE_FUNCTION bool all_lanes(bool mask) {
  return mask;
}

// ---- access to one lane, for the few places that must (random keys, reports) ----
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
MANIPLE_FUNCTION T get_lane(T v, int) {
  return v;
}
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
MANIPLE_FUNCTION void set_lane(T& v, int, T value) {
  v = value;
}

// The lanes in which the mask holds, as bits: for loops over the few lanes that need work of their own.
MANIPLE_FUNCTION std::uint32_t lane_bits(bool mask) {
  return mask ? 1 : 0;
}
// Position of the lowest bit of a word that has one.
MANIPLE_FUNCTION int lowest_bit(std::uint32_t word) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  return __ffs(static_cast<int>(word)) - 1;
#else
  return __builtin_ctz(word);
#endif
}
// body(position) for the bits that are set in a word, ascending.
template <class Body>
MANIPLE_FUNCTION void for_each_bit(std::uint32_t word, const Body& body) {
  for (; word != 0; word &= word - 1) body(lowest_bit(word));
}
// body(lane) for the lanes in which the mask holds.
template <class Mask, class Body>
MANIPLE_FUNCTION void for_each_lane(const Mask& mask, const Body& body) {
  for_each_bit(lane_bits(mask), body);
}
// The mask that holds in this lane alone.
template <class V>
MANIPLE_FUNCTION MaskOf<V> mask_of_lane(int lane) {
  if constexpr (lane_width<V> == 1) {
    return true;
  } else {
    MaskOf<V> mask(false);
    mask.set(lane, true);
    return mask;
  }
}
// Position of the highest bit of a word that has one.
MANIPLE_FUNCTION int highest_bit(std::uint32_t word) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  return 31 - __clz(static_cast<int>(word));
#else
  return 31 - __builtin_clz(word);
#endif
}
// Largest lane value.
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>>
MANIPLE_FUNCTION T max_lane(T v) {
  return v;
}

// ---- elementary functions that every backend computes with the same rounding ----
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>>
MANIPLE_FUNCTION T min(T a, T b) {
  return b < a ? b : a;
}
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>>
MANIPLE_FUNCTION T max(T a, T b) {
  return a < b ? b : a;
}
template <class V>
MANIPLE_FUNCTION V clamp(V x, V low, V high) {
  return min(max(x, low), high);
}
MANIPLE_FUNCTION float abs(float x) {
  return ::fabsf(x);
}
MANIPLE_FUNCTION double abs(double x) {
  return ::fabs(x);
}
MANIPLE_FUNCTION float sqrt(float x) {
  return ::sqrtf(x);
}
MANIPLE_FUNCTION double sqrt(double x) {
  return ::sqrt(x);
}

// a * b + c, rounded once where the target can (kFusedMultiplyAdd), whatever the compiler's flags.
MANIPLE_FUNCTION float multiply_add(float a, float b, float c) {
  if constexpr (kFusedMultiplyAdd) return ::fmaf(a, b, c);
  return a * b + c;
}
MANIPLE_FUNCTION double multiply_add(double a, double b, double c) {
  if constexpr (kFusedMultiplyAdd) return ::fma(a, b, c);
  return a * b + c;
}

// Sum over the lanes in a fixed binary tree: equal bits for equal lane width.
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>>
MANIPLE_FUNCTION T sum_lanes(T v) {
  return v;
}

// The largest number of a state or control (mjMAXVAL).
inline constexpr double kLargestValue = 1e10;

// Not a number, or larger than mjMAXVAL: MuJoCo's definition of a bad state (engine_util_misc).
template <class V>
MANIPLE_FUNCTION MaskOf<V> is_bad(V x) {
  return !(abs(x) <= V(ScalarOf<V>(kLargestValue)));
}

// Lane j of rows[i] and lane i of rows[j] change places.
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
MANIPLE_FUNCTION void transpose(T (&)[1]) {}

}  // namespace maniple
