// Elementary functions of lane values: sin, cos, exp, log, tanh, pow, atan2, asin, acos for a float, a
// double or a Pack of either. Own polynomials instead of libm, because libm would be called lane by lane
// and rounds differently on every machine; every lane takes the same branch-free path, so the bits of an
// environment never depend on its neighbours. Errors: at most 2 units in the last place (2e-7, 4e-16).
//
// Methods and most coefficients: S. Moshier, Cephes Mathematical Library (sin, cos, tanh, atan, asin in
// single precision); Sun Microsystems' fdlibm (log, asin in double precision). Coefficients of exp are a
// Chebyshev fit of (e^r - 1 - r) / r^2 on |r| <= ln(2)/2.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/base/pack.hpp"

namespace maniple {

// ---- bit patterns: the only place that looks inside a floating-point number ----
namespace bits {

template <class V>
struct IntegerLanes {
  using Type = MaskInteger<V>;
  using Unsigned = std::make_unsigned_t<Type>;
};
#ifndef MANIPLE_SCALAR_LANES
template <class T, int W>
struct IntegerLanes<Pack<T, W>> {
  using Type = typename Mask<T, W>::Register;
  typedef std::make_unsigned_t<MaskInteger<T>> Unsigned
      __attribute__((vector_size(W * sizeof(T)), may_alias));
};
#endif
// One signed integer per lane, as wide as the lane's scalar.
template <class V>
using Integer = typename IntegerLanes<V>::Type;

template <class V>
MANIPLE_FUNCTION Integer<V> of(V x) {
  static_assert(sizeof(Integer<V>) == sizeof(V));
  Integer<V> result;
  memcpy(&result, &x, sizeof(V));
  return result;
}
template <class V>
MANIPLE_FUNCTION V value(Integer<V> integer) {
  V result;
  memcpy(&result, &integer, sizeof(V));
  return result;
}

// Sum and difference that wrap around: numbers that are too large for an argument come here, too.
template <class V>
MANIPLE_FUNCTION Integer<V> sum(Integer<V> a, Integer<V> b) {
  using Unsigned = typename IntegerLanes<V>::Unsigned;
  return (Integer<V>)((Unsigned)a + (Unsigned)b);
}
template <class V>
MANIPLE_FUNCTION Integer<V> difference(Integer<V> a, Integer<V> b) {
  using Unsigned = typename IntegerLanes<V>::Unsigned;
  return (Integer<V>)((Unsigned)a - (Unsigned)b);
}
// The same integer in every lane.
template <class V>
MANIPLE_FUNCTION Integer<V> uniform(MaskInteger<ScalarOf<V>> integer) {
  return Integer<V>{} + integer;
}

template <class T>
struct Format;
template <>
struct Format<float> {
  static constexpr int mantissa = 23, bias = 127;
  static constexpr float rounding_shift = 12582912.0f;  // 1.5 * 2^23
};
template <>
struct Format<double> {
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double rounding_shift = 6755399441055744.0;  // 1.5 * 2^52
};

// The integer in the low bits of x + rounding_shift, where x + rounding_shift is given.
template <class V>
MANIPLE_FUNCTION Integer<V> low_integer(V shifted) {
  return difference<V>(of(shifted), of(V(Format<ScalarOf<V>>::rounding_shift)));
}
// 2^n for -bias < n <= bias.
template <class V>
MANIPLE_FUNCTION V power_of_two(Integer<V> n) {
  return value<V>(sum<V>(n, uniform<V>(Format<ScalarOf<V>>::bias)) << Format<ScalarOf<V>>::mantissa);
}
template <class V>
MANIPLE_FUNCTION V sign_bit_of(V x) {
  return value<V>(of(x) & of(V(ScalarOf<V>(-0.0))));
}
template <class V>
MANIPLE_FUNCTION V xor_sign(V x, V sign) {
  return value<V>(of(x) ^ of(sign));
}

// Lanes in which the integer is not zero.
template <class V>
MANIPLE_FUNCTION MaskOf<V> any_bit(Integer<V> x) {
  return MaskOf<V>(x != Integer<V>{});
}

}  // namespace bits

// |x| with the sign bit of y, also for zeros and NaN.
template <class V>
MANIPLE_FUNCTION V copysign(V x, V y) {
  return bits::value<V>((bits::of(x) & ~bits::of(V(ScalarOf<V>(-0.0)))) | bits::of(bits::sign_bit_of(y)));
}

// c[0] + c[1] x + ... by Horner's rule.
template <class V, int N>
MANIPLE_FUNCTION V polynomial(V x, const ScalarOf<V> (&c)[N]) {
  V sum(c[N - 1]);
  for (int i = N - 2; i >= 0; --i) sum = multiply_add(sum, x, V(c[i]));
  return sum;
}

// Sine and cosine of x [rad]; full accuracy for |x| < 1e5. Larger finite values lose accuracy
// gradually; infinity and NaN give NaN; the sine of -0 is +0.
template <class V>
MANIPLE_FUNCTION void sincos(V x, V& sine, V& cosine) {
  using T = ScalarOf<V>;
  // x = n pi/2 + r (Cody and Waite). With a fused multiply-add, x - n * first is exact because its
  // last bit is that of `first`; without one, the parts are so short that each product is exact.
  const V shifted = multiply_add(x, V(T(0.63661977236758134308)), V(bits::Format<T>::rounding_shift));
  const V n = shifted - V(bits::Format<T>::rounding_shift);
  V r = x;
  if constexpr (sizeof(T) == 4 && kFusedMultiplyAdd) {
    r = multiply_add(n, V(-0x1.921fb4p+0f), r);
    r = multiply_add(n, V(-0x1.4442dp-24f), r);
    r = multiply_add(n, V(-0x1.846988p-48f), r);
  } else if constexpr (sizeof(T) == 4) {
    r = r - n * V(0x1.92p+0f);
    r = r - n * V(0x1.fap-12f);
    r = r - n * V(0x1.54p-20f);
    r = r - n * V(0x1.1p-30f);
    r = r - n * V(0x1.68p-39f);
    r = r - n * V(5.390302858158119e-15f);
  } else if constexpr (kFusedMultiplyAdd) {
    r = multiply_add(n, V(-0x1.921fb54442d18p+0), r);
    r = multiply_add(n, V(-0x1.1a62633145c06p-54), r);
    r = multiply_add(n, V(-0x1.c1cd129024e08p-107), r);
  } else {
    r = r - n * V(0x1.921fb54440000p+0);
    r = r - n * V(0x1.68c234c4c0000p-39);
    r = r - n * V(0x1.98a2e03700000p-77);
  }
  const V z = r * r;
  V s, c;
  if constexpr (sizeof(T) == 4) {
    const T odd[] = {-1.6666654611e-1f, 8.3321608736e-3f, -1.9515295891e-4f};
    const T even[] = {4.166664568298827e-2f, -1.388731625493765e-3f, 2.443315711809948e-5f};
    s = multiply_add(r * z, polynomial(z, odd), r);
    c = multiply_add(z * z, polynomial(z, even), multiply_add(z, V(T(-0.5)), V(T(1))));
  } else {
    const T odd[] = {-1.66666666666666307295e-1, 8.33333333332211858878e-3,  -1.98412698295895385996e-4,
                     2.75573136213857245213e-6,  -2.50507477628578072866e-8, 1.58962301576546568060e-10};
    const T even[] = {4.16666666666665929218e-2,  -1.38888888888730564116e-3, 2.48015872888517045348e-5,
                      -2.75573141792967388112e-7, 2.08757008419747316778e-9,  -1.13585365213876817300e-11};
    s = multiply_add(r * z, polynomial(z, odd), r);
    c = multiply_add(z * z, polynomial(z, even), multiply_add(z, V(T(-0.5)), V(T(1))));
  }
  // quadrant: odd ones exchange the two; the sine is negative in 2 and 3, the cosine in 1 and 2
  const auto quadrant = bits::low_integer(shifted);
  const MaskOf<V> exchange((quadrant & 1) != 0);
  constexpr int to_sign = 8 * static_cast<int>(sizeof(T)) - 2;
  const V sine_sign = bits::value<V>((quadrant & 2) << to_sign);
  const V cosine_sign = bits::value<V>((bits::sum<V>(quadrant, bits::uniform<V>(1)) & 2) << to_sign);
  sine = bits::xor_sign(select(exchange, c, s), sine_sign);
  cosine = bits::xor_sign(select(exchange, s, c), cosine_sign);
}
template <class V>
MANIPLE_FUNCTION V sin(V x) {
  V s, c;
  sincos(x, s, c);
  return s;
}
template <class V>
MANIPLE_FUNCTION V cos(V x) {
  V s, c;
  sincos(x, s, c);
  return c;
}

// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2.
template <class V>
MANIPLE_FUNCTION V exp_tail(V r) {
  using T = ScalarOf<V>;
  if constexpr (sizeof(T) == 4) {
    const T c[] = {0.5f, 0.16666576989698775f, 0.041666554617204574f, 0.008363179052722578f,
                   0.0013926183587713494f};
    return polynomial(r, c);
  } else {
    const T c[] = {0.5000000000000001,     0.16666666666666669,    0.04166666666662413,
                   0.008333333333330062,   0.0013888888917213717,  0.00019841269863053618,
                   2.4801521295954376e-05, 2.7557268459997064e-06, 2.7620088445409746e-07,
                   2.510038549551032e-08};
    return polynomial(r, c);
  }
}

// e^(x + correction) for a correction far smaller than x; overflows to infinity, underflows through
// the subnormal numbers to 0, keeps NaN.
template <class V>
MANIPLE_FUNCTION V exp_corrected(V x, V correction) {
  using T = ScalarOf<V>;
  constexpr bool single = sizeof(T) == 4;
  x = clamp(x, V(T(single ? -105.0 : -750.0)), V(T(single ? 90.0 : 711.0)));
  const V shifted = multiply_add(x, V(T(1.44269504088896340736)), V(bits::Format<T>::rounding_shift));
  const V n = shifted - V(bits::Format<T>::rounding_shift);
  // ln(2) in two parts, the first so short that n times it is exact
  V r = multiply_add(n, V(single ? T(-0.693359375) : T(-6.93145751953125e-1)), x);
  r = multiply_add(n, V(single ? T(2.12194440054690583e-4) : T(-1.42860682030941723212e-6)), r) + correction;
  const V y = multiply_add(r * r, exp_tail(r), r) + V(T(1));
  // 2^n in two factors, so that neither leaves the normal numbers
  const auto whole = bits::low_integer(shifted);
  const auto half = whole >> 1;
  return y * bits::power_of_two<V>(half) * bits::power_of_two<V>(bits::difference<V>(whole, half));
}
template <class V>
MANIPLE_FUNCTION V exp(V x) {
  return exp_corrected(x, V(0));
}

// x = 2^exponent (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for finite x > 0, subnormal ones too.
template <class V>
MANIPLE_FUNCTION void split_exponent(V x, V& exponent, V& f) {
  using T = ScalarOf<V>;
  using Format = bits::Format<T>;
  const MaskOf<V> tiny = x < V(std::numeric_limits<T>::min());
  const T scale = T(sizeof(T) == 4 ? 0x1p25 : 0x1p54);
  x = select(tiny, x * V(scale), x);
  const V root_half(T(0.70710678118654752440));
  // counting in units of sqrt(1/2) puts the mantissa's range where it is wanted
  const auto difference = bits::difference<V>(bits::of(x), bits::of(root_half));
  const auto e = difference >> Format::mantissa;
  f = bits::value<V>(bits::difference<V>(bits::of(x), e << Format::mantissa)) - V(T(1));
  // integer to floating point through the low bits of the rounding shift
  exponent = bits::value<V>(bits::sum<V>(bits::of(V(Format::rounding_shift)), e)) - V(Format::rounding_shift);
  exponent = exponent - select(tiny, V(T(sizeof(T) == 4 ? 25 : 54)), V(0));
}

// Natural logarithm; 0 gives -infinity, negative numbers and NaN give NaN.
template <class V>
MANIPLE_FUNCTION V log(V x) {
  using T = ScalarOf<V>;
  constexpr bool single = sizeof(T) == 4;
  V k, f;
  split_exponent(select(x > V(0), x, V(T(1))), k, f);
  const V s = f / (V(T(2)) + f);
  const V z = s * s;
  V p;
  if constexpr (single) {
    const T c[] = {0.66666662693f, 0.40000972152f, 0.28498786688f, 0.24279078841f};
    p = polynomial(z, c);
  } else {
    const T c[] = {6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                   2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
                   1.479819860511658591e-01};
    p = polynomial(z, c);
  }
  const V half_square = V(T(0.5)) * f * f;
  const V low = V(single ? T(9.0580006145e-06) : T(1.90821492927058770002e-10));
  const V high = V(single ? T(6.9313812256e-01) : T(6.93147180369123816490e-01));
  const V inner = multiply_add(s, multiply_add(z, p, half_square), k * low);
  V result = k * high - ((half_square - inner) - f);
  const T infinity = std::numeric_limits<T>::infinity();
  result = select(x == V(0), V(-infinity), result);
  result = select(x == V(infinity), x, result);
  return select(x >= V(0), result, V(std::numeric_limits<T>::quiet_NaN()));
}

// The rounding error of product = a * b.
template <class V>
MANIPLE_FUNCTION V product_error(V a, V b, V product) {
  if constexpr (kFusedMultiplyAdd) {
    return multiply_add(a, b, -product);
  } else {
    // Dekker: each factor in two halves whose products are exact
    const V splitter(ScalarOf<V>(sizeof(ScalarOf<V>) == 4 ? 4097.0 : 134217729.0));
    const V ah = a * splitter - (a * splitter - a), bh = b * splitter - (b * splitter - b);
    const V al = a - ah, bl = b - bh;
    return ((ah * bh - product) + ah * bl + al * bh) + al * bl;
  }
}

// ln(x) = high + low for finite x > 0, with about ten more bits than V holds: the exponent of pow
// needs them. Same reduction as log; the series in s = f / (2 + f) is carried in two parts.
template <class V>
MANIPLE_FUNCTION void log_in_two_parts(V x, V& high, V& low) {
  using T = ScalarOf<V>;
  constexpr bool single = sizeof(T) == 4;
  V k, f;
  split_exponent(x, k, f);
  const V two(T(2));
  const V t = two + f, t_low = (two - t) + f;
  const V s = f / t;
  const V st = s * t;
  const V s_low = ((f - st) - product_error(s, t, st) - s * t_low) / t;
  const V z = s * s;
  const V z_low = product_error(s, s, z) + two * s * s_low;
  V tail;  // 2/5 + 2/7 z + ...
  if constexpr (single) {
    const T c[] = {0.3999999990489421f, 0.28571531853761295f, 0.22204758518676376f, 0.1912055204666405f};
    tail = z * polynomial(z, c);
  } else {
    const T c[] = {0.4,
                   0.2857142857142937,
                   0.2222222222165554,
                   0.18181818335471234,
                   0.15384594954138783,
                   0.13334805149566298,
                   0.11706224136681292,
                   0.11723306221321021};
    tail = z * polynomial(z, c);
  }
  const V third(T(single ? 0x1.555556p-1 : 0x1.5555555555555p-1));  // 2/3 and what is missing
  const V third_low(T(single ? -0x1.555556p-26 : 0x1.5555555555555p-55));
  const V q = third + tail, q_low = (third - q) + tail + third_low;
  const V w = z * q, w_low = product_error(z, q, w) + z * q_low + z_low * q;
  const V u = two + w, u_low = (two - u) + w + w_low;
  const V l = s * u, l_low = product_error(s, u, l) + s * u_low + s_low * u;
  const V a = k * V(T(single ? 0.693359375 : 6.93145751953125e-1));  // exact: few bits each
  high = a + l;
  low = ((a - high) + l) +
        multiply_add(k, V(T(single ? -2.12194440054690583e-4 : 1.42860682030941723212e-6)), l_low);
}

// x^y as C's pow, special values included (a negative x needs a whole y, of size below 2^22 in single
// and 2^51 in double precision; larger ones count as even).
template <class V>
MANIPLE_FUNCTION V pow(V x, V y) {
  using T = ScalarOf<V>;
  const V infinity(std::numeric_limits<T>::infinity());
  const V size = abs(x);
  V l, l_low;
  log_in_two_parts(size, l, l_low);
  l = select(size == V(0), -infinity, select(size == infinity, infinity, select(size == size, l, x)));
  const V e = y * l;
  V e_low = multiply_add(y, l_low, product_error(y, l, e));
  e_low = select(abs(e_low) < V(T(1)), e_low, V(0));  // nothing to correct where e is not finite
  V result = exp_corrected(e, e_low);
  const V shift(bits::Format<T>::rounding_shift);
  const V largest(T(sizeof(T) == 4 ? 0x1p22 : 0x1p51));
  const V half = V(T(0.5)) * y;
  const MaskOf<V> huge = abs(y) >= largest;
  const MaskOf<V> whole = huge || (y + shift) - shift == y;
  const MaskOf<V> odd = whole && !huge && (half + shift) - shift != half;
  result = select(odd, copysign(result, x), result);
  result = select(x < V(0) && !whole && size < infinity, V(std::numeric_limits<T>::quiet_NaN()), result);
  const MaskOf<V> unit = x == V(T(1)) || y == V(0) || (size == V(T(1)) && abs(y) == infinity);
  return select(unit, V(T(1)), result);
}

// Hyperbolic tangent.
template <class V>
MANIPLE_FUNCTION V tanh(V x) {
  using T = ScalarOf<V>;
  const V size = abs(x);
  const V z = x * x;
  V small;
  if constexpr (sizeof(T) == 4) {
    const T c[] = {-3.33332819422e-1f, 1.33314422036e-1f, -5.37397155531e-2f, 2.06390887954e-2f,
                   -5.70498872745e-3f};
    small = multiply_add(x * z, polynomial(z, c), x);
  } else {
    const T p[] = {-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1};
    const T q[] = {4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1.0};
    small = multiply_add(x * z, polynomial(z, p) / polynomial(z, q), x);
  }
  const V large = V(T(1)) - V(T(2)) / (exp(size + size) + V(T(1)));
  return copysign(select(size < V(T(0.625)), small, large), x);
}

// Angle of the point (x, y) [rad] in [-pi, pi], with the signs of zeros as in C. Subnormal
// coordinates lose accuracy.
template <class V>
MANIPLE_FUNCTION V atan2(V y, V x) {
  using T = ScalarOf<V>;
  const V ax = abs(x), ay = abs(y);
  const MaskOf<V> steep = ay > ax;
  V a = select(steep, ax, ay), b = select(steep, ay, ax);
  const V infinity(std::numeric_limits<T>::infinity());
  const MaskOf<V> both_infinite = a == infinity;
  a = select(both_infinite, V(T(1)), a);
  b = select(both_infinite, V(T(1)), b);
  // atan(a/b) for a <= b; above tan(pi/8): pi/4 + atan((a-b)/(a+b)), halved against overflow
  const MaskOf<V> upper = a > b * V(T(0.41421356237309504880));
  const V half(T(0.5));
  V q = select(upper, half * (a - b), a) / select(upper, half * a + half * b, b);
  q = select(b == V(0), V(0), q);
  const V z = q * q;
  V angle;
  if constexpr (sizeof(T) == 4) {
    const T c[] = {-3.33329491539e-1f, 1.99777106478e-1f, -1.38776856032e-1f, 8.05374449538e-2f};
    angle = multiply_add(q * z, polynomial(z, c), q);
  } else {
    const T p[] = {-6.485021904942025371773e1, -1.228866684490136173410e2, -7.500855792314704667340e1,
                   -1.615753718733365076637e1, -8.750608600031904122785e-1};
    const T d[] = {1.945506571482613964425e2, 4.853903996359136964868e2, 4.328810604912902668951e2,
                   1.650270098316988542046e2, 2.485846490142306297962e1, 1.0};
    angle = multiply_add(q * z, polynomial(z, p) / polynomial(z, d), q);
  }
  // the small parts of pi/4, pi/2 and pi that T cannot hold go in first
  const T quarter = T(0.78539816339744830962);
  const T low = sizeof(T) == 4 ? T(-2.1855694143368964e-8) : T(3.061616997868383018e-17);
  angle = select(upper, V(quarter) + (angle + V(low)), angle);
  angle = select(steep, V(T(2) * quarter) - (angle - V(T(2) * low)), angle);
  const MaskOf<V> left((bits::of(x) & bits::of(V(T(-0.0)))) != 0);
  angle = select(left, V(T(4) * quarter) - (angle - V(T(4) * low)), angle);
  const MaskOf<V> not_a_number = !(x == x) || !(y == y);
  return select(not_a_number, x + y, copysign(angle, y));
}

// asin(x) = x + x g(x^2) for |x| <= 1/2.
template <class V>
MANIPLE_FUNCTION V asin_excess(V z) {
  using T = ScalarOf<V>;
  if constexpr (sizeof(T) == 4) {
    const T c[] = {1.6666752422e-1f, 7.4953002686e-2f, 4.5470025998e-2f, 2.4181311049e-2f, 4.2163199048e-2f};
    return z * polynomial(z, c);
  } else {
    const T p[] = {1.66666666666666657415e-01,  -3.25565818622400915405e-01, 2.01212532134862925881e-01,
                   -4.00555345006794114027e-02, 7.91534994289814532176e-04,  3.47933107596021167570e-05};
    const T q[] = {1.0, -2.40339491173441421878e+00, 2.02094576023350569471e+00, -6.88283971605453293030e-01,
                   7.70381505559019352791e-02};
    return z * polynomial(z, p) / polynomial(z, q);
  }
}
// Inverse sine [rad]; NaN outside [-1, 1].
template <class V>
MANIPLE_FUNCTION V asin(V x) {
  using T = ScalarOf<V>;
  const V size = abs(x);
  const MaskOf<V> large = size > V(T(0.5));
  const V z = select(large, V(T(0.5)) * (V(T(1)) - size), x * x);
  const V s = select(large, sqrt(z), size);
  V angle = multiply_add(s, asin_excess(z), s);
  const T half_pi = T(1.57079632679489661923);
  const T low = sizeof(T) == 4 ? T(-4.371138828673793e-8) : T(6.123233995736766036e-17);
  angle = select(large, V(half_pi) - (V(T(2)) * angle - V(low)), angle);
  return copysign(angle, x);
}
// Inverse cosine [rad]; NaN outside [-1, 1].
template <class V>
MANIPLE_FUNCTION V acos(V x) {
  using T = ScalarOf<V>;
  const V size = abs(x);
  const MaskOf<V> large = size > V(T(0.5));
  const V z = select(large, V(T(0.5)) * (V(T(1)) - size), x * x);
  const V s = select(large, sqrt(z), size);
  const V angle = multiply_add(s, asin_excess(z), s);
  const T half_pi = T(1.57079632679489661923);
  const T low = sizeof(T) == 4 ? T(-4.371138828673793e-8) : T(6.123233995736766036e-17);
  const MaskOf<V> negative = x < V(0);
  const V middle = V(half_pi) - (select(negative, -angle, angle) - V(low));
  const V twice = V(T(2)) * angle;
  return select(large, select(negative, V(T(2) * half_pi) - (twice - V(T(2) * low)), twice), middle);
}

}  // namespace maniple
