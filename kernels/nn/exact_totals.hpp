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

// Sums of numbers of unknown units lie in bins, each for another range of sizes, with what it holds
// multiplied by a power of two. (Numbers in bins by their exponents: Ahrens, Demmel and Nguyen, "Algorithms
// for efficient reproducible floating point summation", ACM TOMS 46, 2020.)
inline constexpr int kBins = 3;
MANIPLE_FUNCTION constexpr double bin_factor(int bin) {
  return bin == 0 ? 0x1p26 : bin == 1 ? 1 : 0x1p-26;
}
// A bin takes terms of numbers whose mean size is below this.
MANIPLE_FUNCTION constexpr double bin_limit(int bin) {
  return bin == 0 ? 0x1p-14 : bin == 1 ? 0x1p12 : 0x1p38;
}

// total[bin] += scale * sum, rounded, for the sum of `count` numbers of all 1 / scale. Returns whether it was
// too large, or not finite.
MANIPLE_FUNCTION bool add_to_bins(double sum, int count, double scale, double* total) {
  const double mean_size = ::fabs(sum) / count;
  int bin = 0;
  while (bin + 1 < kBins && !(mean_size < bin_limit(bin))) ++bin;
  total[bin] += exact_round(sum * scale * bin_factor(bin));
  return !(mean_size < bin_limit(kBins - 1));
}
// scale * the sum of all numbers.
inline double sum_of_bins(const double* total) {
  double sum = 0;
  for (int bin = 0; bin < kBins; ++bin) sum += total[bin] / bin_factor(bin);
  return sum;
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
