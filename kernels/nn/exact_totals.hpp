// Totals over tiles. Each tile's partial sums are rounded to the quantum of kernels/base/exact_sum.hpp
// before they are added, so that the total has the same bits for any assignment of tiles to workers and
// ranks. The fast form adds single precision numbers as they come.
#pragma once

#include <cstdint>

#include "kernels/base/exact_sum.hpp"
#include "kernels/base/pack.hpp"

namespace maniple {

// total[i] += rounded partial[i]. Returns how many partial sums were too large (or not finite) to be
// added exactly: the caller must report them.
template <class T>
MANIPLE_FUNCTION double add_exactly(const T* __restrict__ partial, std::int64_t count,
                                    double* __restrict__ total) {
  // a count as wide as the numbers: compilers may not reorder a sum of doubles into SIMD lanes
  std::int64_t inexact = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(partial[i]);
    inexact += ::fabs(x) <= kExactLimit / 2 ? 0 : 1;
    total[i] += exact_round(x);
  }
  return static_cast<double>(inexact);
}
template <class T>
MANIPLE_FUNCTION double add_fast(const T* __restrict__ partial, std::int64_t count,
                                 double* __restrict__ total) {
  for (std::int64_t i = 0; i < count; ++i) total[i] += static_cast<double>(partial[i]);
  return 0;
}

// Workers that are threads or teams of a GPU share one array of totals: the sums of rounded terms are exact
// whoever adds them when, and an array for each of a thousand workers is cleared and read for nothing.
inline constexpr bool kSharedTotals = kScalarLanes;

// Where a worker adds its own.
MANIPLE_FUNCTION double* totals_of_worker(double* totals, std::int64_t count, int worker) {
  return kSharedTotals ? totals : totals + worker * count;
}
// How many arrays there are.
inline int totals_workers(int workers) {
  return kSharedTotals ? 1 : workers;
}
// total += rounded partial, while others add as well. Returns whether it was too large for that.
template <class T>
MANIPLE_FUNCTION bool add_shared(T partial, double* total) {
  const double x = static_cast<double>(partial);
  Kokkos::atomic_add(total, exact_round(x));
  return !(::fabs(x) <= kExactLimit / 2);
}

}  // namespace maniple
