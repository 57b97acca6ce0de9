// Sums whose bits do not depend on the order of their terms. A term is rounded to a multiple of a
// fixed quantum; a double then holds every partial sum exactly as long as it stays below 2^53 quanta,
// so any tree, any rank count and any MPI or NCCL algorithm gives the same result.
// (Pre-rounding: Demmel and Nguyen, "Fast reproducible floating-point summation", ARITH 2013.)
#pragma once

#include "kernels/base/macros.hpp"

namespace maniple {

// Quantum 2^-kExactBits = 1.8e-12; sums are exact while their size stays below 2^(53-kExactBits) = 16384,
// which leaves a factor of two to the limit that callers check.
inline constexpr int kExactBits = 39;
inline constexpr double kExactLimit = 8192.0;

// x rounded to a multiple of the quantum, for |x| < kExactLimit / 2. NaN and infinity pass through.
// Needs strict floating-point semantics: never compile with -fassociative-math.
MANIPLE_FUNCTION double exact_round(double x) {
  constexpr double shift = 1.5 * kExactLimit;  // its last bit is worth one quantum
  return (x + shift) - shift;
}

}  // namespace maniple
