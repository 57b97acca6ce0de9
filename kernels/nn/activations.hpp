// Activation functions and their derivatives. Where the derivative follows from the output, the activation is
// part of the layer before it, and the backward pass needs no inputs; the others are layers of their own
// (kernels/nn/layers.hpp).
#pragma once

#include "kernels/math/functions.hpp"
#include "kernels/nn/network.hpp"

namespace maniple {

// e^x - 1 for x <= 0, accurate for small x too: with x = n ln 2 + r it is 2^n (e^r - 1) + (2^n - 1).
template <class V>
MANIPLE_FUNCTION V exp_minus_one_of_negative(V x) {
  using T = ScalarOf<V>;
  constexpr bool single = sizeof(T) == 4;
  x = max(x, V(T(single ? -30.0 : -45.0)));  // below, the result rounds to -1
  const V shifted = multiply_add(x, V(T(1.44269504088896340736)), V(bits::Format<T>::rounding_shift));
  const V n = shifted - V(bits::Format<T>::rounding_shift);
  V r = multiply_add(n, V(single ? T(-0.693359375) : T(-6.93145751953125e-1)), x);
  r = multiply_add(n, V(single ? T(2.12194440054690583e-4) : T(-1.42860682030941723212e-6)), r);
  const V q = multiply_add(r * r, exp_tail(r), r);
  const V scale = bits::power_of_two<V>(bits::low_integer(shifted));
  return multiply_add(scale, q, scale - V(T(1)));
}

// Exponential linear unit with alpha = 1 (Clevert, Unterthiner, Hochreiter 2016).
template <class V>
MANIPLE_FUNCTION V elu(V x) {
  const V zero(ScalarOf<V>(0));
  return select(x > zero, x, exp_minus_one_of_negative(min(x, zero)));
}

// 1 / (1 + e^-x)
template <class V>
MANIPLE_FUNCTION V sigmoid(V x) {
  const V one(ScalarOf<V>(1)), zero(ScalarOf<V>(0));
  const V e = exp(-abs(x));
  return select(x >= zero, one, e) / (one + e);
}

// ln(1 + e^x), to rounding for every x.
template <class V>
MANIPLE_FUNCTION V softplus(V x) {
  const V one(ScalarOf<V>(1)), zero(ScalarOf<V>(0));
  const V e = exp(-abs(x));
  // what 1 + e rounds away is put right by the quotient (Kahan)
  const V whole = one + e, rounded = whole - one;
  const MaskOf<V> tiny = rounded == zero;
  return max(x, zero) + select(tiny, e, log(whole) * (e / select(tiny, one, rounded)));
}

// Distribution function of the standard normal distribution, to 4e-16 (double) or 2e-7 (single): for x <= 0
// it is erfc(z) / 2 with z = -x / sqrt(2), and e^(z^2) erfc(z) / 2 a polynomial in (z - k) / (z + k) (after
// Shepherd and Laframboise 1981; own least squares fit).
template <class V>
MANIPLE_FUNCTION V normal_distribution(V x) {
  using T = ScalarOf<V>;
  constexpr bool single = sizeof(T) == 4;
  const V zero(T(0)), one(T(1));
  const V z = min(abs(x) * V(T(0.70710678118654752440)), V(T(30)));
  const V k(T(single ? 1.5 : 2.5));
  const V t = (z - k) / (z + k);
  V p;
  if constexpr (single) {
    const T c[] = {0.160792738f,    -0.245433807f,   0.0972459763f,   -0.00467093568f,
                   -0.00948708132f, -0.00064113969f, 0.000971551752f, 0.00026906596f};
    p = polynomial(t, c);
  } else {
    const T c[] = {0.10540318203056878,    -0.18586836697458947,   0.12585659660782963,
                   -0.062516526189613,     0.01996126957026957,    -0.0019968504446558617,
                   -0.0013211830977911294, 0.0004379554755288202,  0.00011418507326378545,
                   -6.443395882683276e-05, -1.704852532048299e-05, 9.381542064827944e-06,
                   3.7752817334315207e-06, -1.37383750854376e-06,  -1.346003900032763e-06,
                   -4.009386921170008e-07, -4.626294579826017e-08};
    p = polynomial(t, c);
  }
  const V tail = exp(-z * z) * p;
  return select(x > zero, one - tail, tail);
}

// Whether a derivative needs what went in.
MANIPLE_FUNCTION bool needs_input(Activation activation) {
  return activation == Activation::silu || activation == Activation::gelu;
}

// x sigmoid(x) (Elfwing et al. 2017; "swish"), and x times the normal distribution function (Hendrycks and
// Gimpel 2016), with the derivative.
template <class V>
MANIPLE_FUNCTION V activate_with_slope(Activation activation, V x, V& slope) {
  using T = ScalarOf<V>;
  if (activation == Activation::silu) {
    const V s = sigmoid(x), y = x * s;
    slope = multiply_add(y, V(T(1)) - s, s);
    return y;
  }
  const V s = normal_distribution(x);
  slope = multiply_add(x * V(T(0.39894228040143267794)), exp(V(T(-0.5)) * x * x), s);
  return x * s;
}

// x tanh(softplus(x)) (Misra 2019), with the derivative. With e = e^x, tanh(softplus(x)) is n / (n + 2) for
// n = e (e + 2), and one to rounding from x = 20 (single) or 40 on.
template <class V>
MANIPLE_FUNCTION V mish(V x, V& slope) {
  using T = ScalarOf<V>;
  const V one(T(1)), two(T(2));
  const V low = min(x, V(T(sizeof(T) == 4 ? 20 : 40))), e = exp(low), n = e * (e + two);
  const V inverse = one / (n + two), share = n * inverse;
  slope = multiply_add(low * inverse, V(T(4)) * e * (e + one) * inverse, share);
  return x * share;
}

inline constexpr double kLeakySlope = 0.01;  // as in torch and jax

template <class V>
MANIPLE_FUNCTION V activate(Activation activation, V x) {
  switch (activation) {
    case Activation::elu:
      return elu(x);
    case Activation::relu:
      return max(x, V(ScalarOf<V>(0)));
    case Activation::tanh:
      return tanh(x);
    case Activation::leaky_relu:
      return max(x, V(ScalarOf<V>(kLeakySlope)) * x);
    default:
      return x;
  }
}

// d activation / d input, from the output y.
template <class V>
MANIPLE_FUNCTION V activation_derivative(Activation activation, V y) {
  using T = ScalarOf<V>;
  const V zero(T(0)), one(T(1));
  switch (activation) {
    case Activation::elu:
      return select(y > zero, one, y + one);
    case Activation::relu:
      return select(y > zero, one, zero);
    case Activation::tanh:
      return one - y * y;
    case Activation::leaky_relu:
      return select(y > zero, one, V(T(kLeakySlope)));
    default:
      return one;
  }
}

}  // namespace maniple
