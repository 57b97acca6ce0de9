// Sums that kernels gather worker by worker, each rank its own: added over workers and ranks. Kernels round
// what they add (kernels/nn/exact_totals.hpp), so the sums are exact and the same for any number of ranks.
#pragma once

#include <vector>

#include "kernels/base/tiles.hpp"
#include "kernels/nn/exact_totals.hpp"
#include "src/base/timing.hpp"
#include "src/parallel/collectives.hpp"

namespace maniple {

template <class T>
using Numbers = Kokkos::View<T*, MemorySpace>;

class TotalsSum {
 public:
  // The time that it takes counts as "communication".
  TotalsSum(Collectives& collectives, int workers, StageClock& clock)
      : collectives_(collectives), workers_(workers), clock_(clock) {}

  int workers() const { return workers_; }

  // Collective. totals: [worker][count], the sums are in totals[0 .. count) afterwards, on every rank.
  // Returns a host copy of those from `first` on. `single`, where it has `count` elements: ranks exchange
  // single precision instead, half the bytes for sums that are no longer exact.
  std::vector<double> operator()(const Numbers<double>& totals, std::int64_t count, std::int64_t first = 0,
                                 const Numbers<float>& single = {}) const;

  // As above, for totals that workers share where they can, [totals_workers()][count].
  std::vector<double> of_shared(const Numbers<double>& totals, std::int64_t count, std::int64_t first,
                                const Numbers<float>& single) const {
    return sum(totals, count, totals_workers(workers_), first, single);
  }

  // Collective. sizes: [worker][count], none negative; the largest of each over workers and ranks.
  std::vector<double> largest(const Numbers<double>& sizes, std::size_t count) const;

 private:
  std::vector<double> sum(const Numbers<double>& totals, std::int64_t count, int arrays, std::int64_t first,
                          const Numbers<float>& single) const;

  Collectives& collectives_;
  int workers_;
  StageClock& clock_;
};

}  // namespace maniple
