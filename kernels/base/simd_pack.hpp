// One SIMD register of environments, with the functions of lanes for it. GPU
// builds leave out this part of pack.hpp. The wrapper stands over the compiler's
// vector extensions because std::experimental::simd measured 1.3x slower.
#pragma once

#include <utility>

#include "kernels/base/lane_traits.hpp"

// The few operations for which the compiler has no vector expression (or poor code) use intrinsics.
#ifdef __AVX__
#define MANIPLE_X86_INTRINSICS
#include <immintrin.h>
#endif

namespace maniple {

// Bytes of one SIMD register of the target; decides how many environments one pack holds.
#if defined(__AVX512F__)
inline constexpr int kRegisterBytes = 64;
#elif defined(__AVX__)
inline constexpr int kRegisterBytes = 32;
#else
inline constexpr int kRegisterBytes = 16;
#endif

// One truth value per lane; all bits set or none.
template <class T, int W>
struct Mask {
  using Integer = MaskInteger<T>;
  typedef Integer Register __attribute__((vector_size(W * sizeof(T)), may_alias));
  Register bits;

  Mask() = default;
  MANIPLE_FUNCTION explicit Mask(Register value) : bits(value) {}
  MANIPLE_FUNCTION Mask(bool value) : bits(Register{} - static_cast<Integer>(value)) {}
  MANIPLE_FUNCTION bool operator[](int lane) const { return bits[lane] != 0; }
  MANIPLE_FUNCTION void set(int lane, bool value) { bits[lane] = -static_cast<Integer>(value); }
  friend MANIPLE_FUNCTION Mask operator&&(Mask a, Mask b) { return Mask(a.bits & b.bits); }
  friend MANIPLE_FUNCTION Mask operator||(Mask a, Mask b) { return Mask(a.bits | b.bits); }
  friend MANIPLE_FUNCTION Mask operator!(Mask a) { return Mask(~a.bits); }
  friend MANIPLE_FUNCTION Mask operator!=(Mask a, Mask b) { return Mask(a.bits ^ b.bits); }
};

// W values of type T, one per environment; arithmetic is lane by lane, so that the bits of an
// environment never depend on its neighbours.
template <class T, int W>
struct Pack {
  static_assert(std::is_arithmetic_v<T>);
  typedef T Register __attribute__((vector_size(W * sizeof(T)), may_alias));
  Register value;

  Pack() = default;
  MANIPLE_FUNCTION explicit Pack(Register v) : value(v) {}
  template <class U, class = std::enable_if_t<std::is_arithmetic_v<U>>>
  MANIPLE_FUNCTION Pack(U uniform) : value(static_cast<T>(uniform) - Register{}) {}  // keeps -0

  MANIPLE_FUNCTION T operator[](int lane) const { return value[lane]; }
  MANIPLE_FUNCTION void set(int lane, T v) { value[lane] = v; }

  friend MANIPLE_FUNCTION Pack operator+(Pack a, Pack b) { return Pack(a.value + b.value); }
  friend MANIPLE_FUNCTION Pack operator-(Pack a, Pack b) { return Pack(a.value - b.value); }
  friend MANIPLE_FUNCTION Pack operator*(Pack a, Pack b) { return Pack(a.value * b.value); }
  friend MANIPLE_FUNCTION Pack operator/(Pack a, Pack b) { return Pack(a.value / b.value); }
  friend MANIPLE_FUNCTION Pack operator-(Pack a) { return Pack(-a.value); }
  MANIPLE_FUNCTION Pack& operator+=(Pack b) {
    value += b.value;
    return *this;
  }
  MANIPLE_FUNCTION Pack& operator-=(Pack b) {
    value -= b.value;
    return *this;
  }
  MANIPLE_FUNCTION Pack& operator*=(Pack b) {
    value *= b.value;
    return *this;
  }
  MANIPLE_FUNCTION Pack& operator/=(Pack b) {
    value /= b.value;
    return *this;
  }

  friend MANIPLE_FUNCTION Mask<T, W> operator<(Pack a, Pack b) { return Mask<T, W>(a.value < b.value); }
  friend MANIPLE_FUNCTION Mask<T, W> operator<=(Pack a, Pack b) { return Mask<T, W>(a.value <= b.value); }
  friend MANIPLE_FUNCTION Mask<T, W> operator>(Pack a, Pack b) { return Mask<T, W>(a.value > b.value); }
  friend MANIPLE_FUNCTION Mask<T, W> operator>=(Pack a, Pack b) { return Mask<T, W>(a.value >= b.value); }
  friend MANIPLE_FUNCTION Mask<T, W> operator==(Pack a, Pack b) { return Mask<T, W>(a.value == b.value); }
  friend MANIPLE_FUNCTION Mask<T, W> operator!=(Pack a, Pack b) { return Mask<T, W>(a.value != b.value); }
};

template <class T, int W>
struct LaneTraits<Pack<T, W>> {
  using Scalar = T;
  using MaskType = Mask<T, W>;
  static constexpr int width = W;
};
template <class T, int W>
MANIPLE_FUNCTION Pack<T, W> select(Mask<T, W> mask, Pack<T, W> yes, Pack<T, W> no) {
  return Pack<T, W>(mask.bits ? yes.value : no.value);
}
template <class T, int W>
MANIPLE_FUNCTION bool any_lane(Mask<T, W> mask) {
#ifdef MANIPLE_X86_INTRINSICS
#ifdef __AVX512F__
  if constexpr (sizeof(mask.bits) == 64)
    return _mm512_test_epi64_mask((__m512i)mask.bits, (__m512i)mask.bits) != 0;
#endif
  if constexpr (sizeof(mask.bits) == 32) return !_mm256_testz_si256((__m256i)mask.bits, (__m256i)mask.bits);
  if constexpr (sizeof(mask.bits) == 16) return !_mm_testz_si128((__m128i)mask.bits, (__m128i)mask.bits);
#endif
  MaskInteger<T> any = 0;
  for (int lane = 0; lane < W; ++lane) any |= mask.bits[lane];
  return any != 0;
}
template <class T, int W>
MANIPLE_FUNCTION bool all_lanes(Mask<T, W> mask) {
  return !any_lane(!mask);
}
template <class T, int W>
MANIPLE_FUNCTION std::uint32_t lane_bits(Mask<T, W> mask) {
#ifdef MANIPLE_X86_INTRINSICS
#ifdef __AVX512F__
  if constexpr (sizeof(mask.bits) == 64 && sizeof(T) == 4)
    return _mm512_test_epi32_mask((__m512i)mask.bits, (__m512i)mask.bits);
  if constexpr (sizeof(mask.bits) == 64 && sizeof(T) == 8)
    return _mm512_test_epi64_mask((__m512i)mask.bits, (__m512i)mask.bits);
#endif
  if constexpr (sizeof(mask.bits) == 32 && sizeof(T) == 4)
    return static_cast<std::uint32_t>(_mm256_movemask_ps((__m256)mask.bits));
  if constexpr (sizeof(mask.bits) == 32 && sizeof(T) == 8)
    return static_cast<std::uint32_t>(_mm256_movemask_pd((__m256d)mask.bits));
#endif
  std::uint32_t bits = 0;
  for (int lane = 0; lane < W; ++lane) bits |= (mask[lane] ? 1u : 0u) << lane;
  return bits;
}
template <class T, int W>
MANIPLE_FUNCTION T max_lane(Pack<T, W> v) {
  T largest = v[0];
  for (int lane = 1; lane < W; ++lane) largest = largest < v[lane] ? v[lane] : largest;
  return largest;
}
template <class T, int W>
MANIPLE_FUNCTION T get_lane(Pack<T, W> v, int lane) {
  return v[lane];
}
template <class T, int W>
MANIPLE_FUNCTION bool get_lane(Mask<T, W> mask, int lane) {
  return mask[lane];
}
template <class T, int W>
MANIPLE_FUNCTION void set_lane(Pack<T, W>& v, int lane, T value) {
  v.set(lane, value);
}
template <class T, int W>
MANIPLE_FUNCTION Pack<T, W> min(Pack<T, W> a, Pack<T, W> b) {
#ifdef MANIPLE_X86_INTRINSICS
  // one instruction with exactly this meaning: the second operand unless the comparison holds
  using R [[maybe_unused]] = typename Pack<T, W>::Register;
  if constexpr (std::is_same_v<T, float>) {
#ifdef __AVX512F__
    if constexpr (W == 16)
      return Pack<T, W>((R)_mm512_maskz_min_ps(__mmask16(-1), (__m512)b.value, (__m512)a.value));
#endif
    if constexpr (W == 8) return Pack<T, W>((R)_mm256_min_ps((__m256)b.value, (__m256)a.value));
    if constexpr (W == 4) return Pack<T, W>((R)_mm_min_ps((__m128)b.value, (__m128)a.value));
  } else if constexpr (std::is_same_v<T, double>) {
#ifdef __AVX512F__
    if constexpr (W == 8)
      return Pack<T, W>((R)_mm512_maskz_min_pd(__mmask8(-1), (__m512d)b.value, (__m512d)a.value));
#endif
    if constexpr (W == 4) return Pack<T, W>((R)_mm256_min_pd((__m256d)b.value, (__m256d)a.value));
    if constexpr (W == 2) return Pack<T, W>((R)_mm_min_pd((__m128d)b.value, (__m128d)a.value));
  }
#endif
  return select(b < a, b, a);
}
template <class T, int W>
MANIPLE_FUNCTION Pack<T, W> max(Pack<T, W> a, Pack<T, W> b) {
#ifdef MANIPLE_X86_INTRINSICS
  // one instruction with exactly this meaning: the second operand unless the comparison holds
  using R [[maybe_unused]] = typename Pack<T, W>::Register;
  if constexpr (std::is_same_v<T, float>) {
#ifdef __AVX512F__
    if constexpr (W == 16)
      return Pack<T, W>((R)_mm512_maskz_max_ps(__mmask16(-1), (__m512)b.value, (__m512)a.value));
#endif
    if constexpr (W == 8) return Pack<T, W>((R)_mm256_max_ps((__m256)b.value, (__m256)a.value));
    if constexpr (W == 4) return Pack<T, W>((R)_mm_max_ps((__m128)b.value, (__m128)a.value));
  } else if constexpr (std::is_same_v<T, double>) {
#ifdef __AVX512F__
    if constexpr (W == 8)
      return Pack<T, W>((R)_mm512_maskz_max_pd(__mmask8(-1), (__m512d)b.value, (__m512d)a.value));
#endif
    if constexpr (W == 4) return Pack<T, W>((R)_mm256_max_pd((__m256d)b.value, (__m256d)a.value));
    if constexpr (W == 2) return Pack<T, W>((R)_mm_max_pd((__m128d)b.value, (__m128d)a.value));
  }
#endif
  return select(a < b, b, a);
}
template <class T, int W>
MANIPLE_FUNCTION Pack<T, W> abs(Pack<T, W> x) {
  using Integers = typename Mask<T, W>::Register;
  constexpr MaskInteger<T> magnitude = std::numeric_limits<MaskInteger<T>>::max();  // all but the sign
  return Pack<T, W>((typename Pack<T, W>::Register)((Integers)x.value & magnitude));
}
template <class T, int W>
MANIPLE_FUNCTION Pack<T, W> sqrt(Pack<T, W> x) {
  using R = typename Pack<T, W>::Register;
#ifdef MANIPLE_X86_INTRINSICS
  if constexpr (std::is_same_v<T, float>) {
#ifdef __AVX512F__
    if constexpr (W == 16) return Pack<T, W>((R)_mm512_maskz_sqrt_ps(__mmask16(-1), (__m512)x.value));
#endif
    if constexpr (W == 8) return Pack<T, W>((R)_mm256_sqrt_ps((__m256)x.value));
    if constexpr (W == 4) return Pack<T, W>((R)_mm_sqrt_ps((__m128)x.value));
  } else {
#ifdef __AVX512F__
    if constexpr (W == 8) return Pack<T, W>((R)_mm512_maskz_sqrt_pd(__mmask8(-1), (__m512d)x.value));
#endif
    if constexpr (W == 4) return Pack<T, W>((R)_mm256_sqrt_pd((__m256d)x.value));
    if constexpr (W == 2) return Pack<T, W>((R)_mm_sqrt_pd((__m128d)x.value));
  }
#endif
  R result{};
  for (int lane = 0; lane < W; ++lane) result[lane] = std::sqrt(x.value[lane]);
  return Pack<T, W>(result);
}
template <class T, int W>
MANIPLE_FUNCTION Pack<T, W> multiply_add(Pack<T, W> a, Pack<T, W> b, Pack<T, W> c) {
#if defined(MANIPLE_X86_INTRINSICS) && defined(__FMA__)
  using R = typename Pack<T, W>::Register;
  if constexpr (std::is_same_v<T, float>) {
#ifdef __AVX512F__
    if constexpr (W == 16)
      return Pack<T, W>((R)_mm512_fmadd_ps((__m512)a.value, (__m512)b.value, (__m512)c.value));
#endif
    if constexpr (W == 8)
      return Pack<T, W>((R)_mm256_fmadd_ps((__m256)a.value, (__m256)b.value, (__m256)c.value));
    if constexpr (W == 4)
      return Pack<T, W>((R)_mm_fmadd_ps((__m128)a.value, (__m128)b.value, (__m128)c.value));
  } else {
#ifdef __AVX512F__
    if constexpr (W == 8)
      return Pack<T, W>((R)_mm512_fmadd_pd((__m512d)a.value, (__m512d)b.value, (__m512d)c.value));
#endif
    if constexpr (W == 4)
      return Pack<T, W>((R)_mm256_fmadd_pd((__m256d)a.value, (__m256d)b.value, (__m256d)c.value));
    if constexpr (W == 2)
      return Pack<T, W>((R)_mm_fmadd_pd((__m128d)a.value, (__m128d)b.value, (__m128d)c.value));
  }
  // wider than the registers of this machine
  R result{};
  for (int lane = 0; lane < W; ++lane) result[lane] = std::fma(a.value[lane], b.value[lane], c.value[lane]);
  return Pack<T, W>(result);
#else
  return a * b + c;
#endif
}
template <class T, int W>
MANIPLE_FUNCTION T sum_lanes(Pack<T, W> v) {
  if constexpr (W == 1) {
    return v[0];
  } else {
    Pack<T, W / 2> half[2];
    memcpy(half, &v, sizeof(v));
    return sum_lanes(half[0] + half[1]);
  }
}

// Number i of the packs that follow each other in v, in every lane of the result.
template <int N, class T, int W>
MANIPLE_FUNCTION Pack<T, W> broadcast_element(const Pack<T, W> (&v)[N], int i) {
#ifdef __AVX2__
  // from registers; memory would cost more than the rest of what a solver does between two of these
  using R [[maybe_unused]] = typename Pack<T, W>::Register;
#ifdef __AVX512F__
  if constexpr (sizeof(R) == 64 && N <= 2) {
    if constexpr (std::is_same_v<T, float>) {
      const __m512i at = _mm512_set1_epi32(i);
      if constexpr (N == 1)
        return Pack<T, W>((R)_mm512_maskz_permutexvar_ps(__mmask16(-1), at, (__m512)v[0].value));
      else
        return Pack<T, W>((R)_mm512_permutex2var_ps((__m512)v[0].value, at, (__m512)v[1].value));
    } else {
      const __m512i at = _mm512_set1_epi64(i);
      if constexpr (N == 1)
        return Pack<T, W>((R)_mm512_maskz_permutexvar_pd(__mmask8(-1), at, (__m512d)v[0].value));
      else
        return Pack<T, W>((R)_mm512_permutex2var_pd((__m512d)v[0].value, at, (__m512d)v[1].value));
    }
  }
#endif
  if constexpr (sizeof(R) == 32 && N <= 2) {
    const __m256i at =
        sizeof(T) == 4 ? _mm256_set1_epi32(i)
                       : _mm256_add_epi32(_mm256_set1_epi32(2 * i), _mm256_set_epi32(1, 0, 1, 0, 1, 0, 1, 0));
    const __m256 first = _mm256_permutevar8x32_ps((__m256)v[0].value, at);
    if constexpr (N == 1) return Pack<T, W>((R)first);
    const __m256 second = _mm256_permutevar8x32_ps((__m256)v[N - 1].value, at);
    const __m256i of_first = _mm256_set1_epi32(i - W);  // its sign
    return Pack<T, W>((R)_mm256_blendv_ps(second, first, (__m256)of_first));
  }
#endif
  T values[N * W];
  memcpy(values, v, sizeof(values));
  return Pack<T, W>(values[i]);
}

// Exchanges, between a and b, the lanes of a with the bit Step in their number and those of b without.
template <int Step, class T, int W, std::size_t... Lane>
MANIPLE_FUNCTION void exchange_lanes(Pack<T, W>& a, Pack<T, W>& b, std::index_sequence<Lane...>) {
  const Pack<T, W> first(__builtin_shufflevector(
      a.value, b.value, (Lane & Step ? W + static_cast<int>(Lane) - Step : static_cast<int>(Lane))...));
  b = Pack<T, W>(__builtin_shufflevector(
      a.value, b.value, (Lane & Step ? W + static_cast<int>(Lane) : static_cast<int>(Lane) + Step)...));
  a = first;
}
// Lane j of rows[i] and lane i of rows[j] change places: squares of half the size first.
template <int Step, class T, int W>
MANIPLE_FUNCTION void transpose_squares(Pack<T, W> (&rows)[W]) {
  if constexpr (Step > 0) {
    for (int i = 0; i < W; ++i)
      if ((i & Step) == 0)
        exchange_lanes<Step>(rows[i], rows[i + Step],
                             std::make_index_sequence<static_cast<std::size_t>(W)>());
    transpose_squares<Step / 2>(rows);
  }
}
template <class T, int W>
MANIPLE_FUNCTION void transpose(Pack<T, W> (&rows)[W]) {
  transpose_squares<W / 2>(rows);
}

}  // namespace maniple
