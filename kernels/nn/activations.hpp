// Activation functions and their derivatives, the latter as functions of the output, so that the
// backward pass needs no inputs.
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

template <class V>
MANIPLE_FUNCTION V activate(Activation activation, V x) {
  switch (activation) {
    case Activation::elu:
      return elu(x);
    case Activation::relu:
      return max(x, V(ScalarOf<V>(0)));
    case Activation::tanh:
      return tanh(x);
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
    default:
      return one;
  }
}

}  // namespace maniple
