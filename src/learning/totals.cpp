#include "src/learning/totals.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace maniple {
namespace {

// Small loops on the device; nvcc wants them outside of classes.
using Range = Kokkos::RangePolicy<ExecutionSpace>;

// totals[0] += totals[1] + ... where each worker has `count` of them.
void sum_workers(const Numbers<double>& totals, std::int64_t count, int workers) {
  if (workers == 1) return;
  Kokkos::parallel_for(
      "maniple::sum_workers", Range(0, count), MANIPLE_LAMBDA(std::int64_t i) {
        for (int worker = 1; worker < workers; ++worker) totals(i) += totals(worker * count + i);
      });
}

template <class From, class To>
void convert(const Numbers<From>& from, std::int64_t count, const Numbers<To>& to) {
  Kokkos::parallel_for(
      "maniple::convert", Range(0, count),
      MANIPLE_LAMBDA(std::int64_t i) { to(i) = static_cast<To>(from(i)); });
}

}  // namespace

std::vector<double> TotalsSum::operator()(const Numbers<double>& totals, std::int64_t count,
                                          std::int64_t first, const Numbers<float>& single) const {
  return sum(totals, count, workers_, first, single);
}

std::vector<double> TotalsSum::sum(const Numbers<double>& totals, std::int64_t count, int arrays,
                                   std::int64_t first, const Numbers<float>& single) const {
  const StageClock::Region region(clock_, "communication");
  sum_workers(totals, count, arrays);
  if (single.extent(0) > 0) {
    convert(totals, count, single);
    Kokkos::fence();
    collectives_.device_sum(single.data(), static_cast<std::size_t>(count));
    convert(single, count, totals);
  } else {
    Kokkos::fence();
    collectives_.device_sum(totals.data(), static_cast<std::size_t>(count));
  }
  const auto tail = Kokkos::subview(totals, std::make_pair(first, count));
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), tail);
  return std::vector<double>(host.data(), host.data() + (count - first));
}

std::vector<double> TotalsSum::largest(const Numbers<double>& sizes, std::size_t count) const {
  const StageClock::Region region(clock_, "communication");
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), sizes);
  std::vector<std::int64_t> bits(count, 0);
  for (std::size_t i = 0; i < count * static_cast<std::size_t>(workers_); ++i)
    bits[i % count] = std::max(bits[i % count], std::bit_cast<std::int64_t>(host(i)));  // ordered like them
  collectives_.max(bits.data(), count);
  std::vector<double> result;
  for (const std::int64_t pattern : bits) result.push_back(std::bit_cast<double>(pattern));
  return result;
}

}  // namespace maniple
