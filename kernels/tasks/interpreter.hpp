// Runs a task's bytecode for the environments of one pack. All lanes execute the same instructions, so
// that an environment's numbers never depend on its neighbours; masks decide what is stored.
#pragma once

#include "kernels/base/varying.hpp"
#include "kernels/math/functions.hpp"
#include "kernels/tasks/program.hpp"

namespace maniple {

// The memory that each bank stands for, for one pack.
template <class V>
struct Banks {
  Varying<V> bank[kBanks];

  MANIPLE_FUNCTION Varying<V>& operator[](Bank which) { return bank[static_cast<int>(which)]; }
  MANIPLE_FUNCTION const Varying<V>& operator[](Bank which) const { return bank[static_cast<int>(which)]; }
  MANIPLE_FUNCTION V& at(Bank which, int index) const { return (*this)[which][index]; }
};

// Largest integer not above x: the shift rounds to the nearest integer while |x| < 2^23 (2^52).
template <class V>
MANIPLE_FUNCTION V floor(V x) {
  using T = ScalarOf<V>;
  const V shift(sizeof(T) == 8 ? T(4503599627370496.0) : T(8388608.0));
  const V size = abs(x);
  const V nearest = copysign((size + shift) - shift, x);
  const V down = select(nearest > x, nearest - V(1), nearest);
  return select(size < shift, down, x);
}

// 1 where the mask is true, 0 elsewhere.
template <class V>
MANIPLE_FUNCTION V truth(MaskOf<V> mask) {
  return select(mask, V(1), V(0));
}

// Executes the program. Reserved registers and inputs must have been set.
template <class V>
MANIPLE_STAGE void run_program(const ProgramView& program, const Banks<V>& banks) {
  const Instruction* const end = program.instructions + program.count;
  for (const Instruction* at = program.instructions; at != end; ++at) {
    const Instruction i = *at;
    V& target = banks.at(i.bank_target, i.target);
    const V a = banks.at(i.bank_a, i.a);
    const V& b = banks.at(i.bank_b, i.b);
    switch (i.operation) {
      case Operation::copy:
        target = a;
        break;
      case Operation::negate:
        target = -a;
        break;
      case Operation::add:
        target = a + b;
        break;
      case Operation::subtract:
        target = a - b;
        break;
      case Operation::multiply:
        target = a * b;
        break;
      case Operation::divide:
        target = a / b;
        break;
      case Operation::multiply_add:
        target = a * b + banks.at(i.bank_c, i.c);
        break;
      case Operation::less:
        target = truth<V>(a < b);
        break;
      case Operation::less_equal:
        target = truth<V>(a <= b);
        break;
      case Operation::equal:
        target = truth<V>(a == b);
        break;
      case Operation::not_equal:
        target = truth<V>(a != b);
        break;
      case Operation::logical_and:
        target = truth<V>(a != V(0) && b != V(0));
        break;
      case Operation::logical_or:
        target = truth<V>(a != V(0) || b != V(0));
        break;
      case Operation::logical_not:
        target = truth<V>(a == V(0));
        break;
      case Operation::select:
        target = select(a != V(0), V(b), V(banks.at(i.bank_c, i.c)));
        break;
      case Operation::minimum:
        target = min(a, V(b));
        break;
      case Operation::maximum:
        target = max(a, V(b));
        break;
      case Operation::absolute:
        target = abs(a);
        break;
      case Operation::sign:
        target = truth<V>(a > V(0)) - truth<V>(a < V(0));
        break;
      case Operation::floor:
        target = floor(a);
        break;
      case Operation::square_root:
        target = sqrt(a);
        break;
      case Operation::exponential:
        target = exp(a);
        break;
      case Operation::logarithm:
        target = log(a);
        break;
      case Operation::sine:
        target = sin(a);
        break;
      case Operation::cosine:
        target = cos(a);
        break;
      case Operation::tangent:
        target = sin(a) / cos(a);
        break;
      case Operation::hyperbolic_tangent:
        target = tanh(a);
        break;
      case Operation::arc_sine:
        target = asin(a);
        break;
      case Operation::arc_cosine:
        target = acos(a);
        break;
      case Operation::arc_tangent2:
        target = atan2(a, V(b));
        break;
      case Operation::power:
        target = pow(a, V(b));
        break;
    }
  }
}

}  // namespace maniple
