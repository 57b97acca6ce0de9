// Working memory of kernels: one block of lane values per worker (a thread of the execution space),
// allocated once and reused by every pack that the worker steps.
#pragma once

#include <string>

#include "kernels/base/pack.hpp"

namespace maniple {

template <class V>
class Scratch {
 public:
  using Token = Kokkos::Experimental::UniqueToken<ExecutionSpace>;

  Scratch() = default;
  // `elements` lane values per worker.
  Scratch(const std::string& label, int elements)
      : elements_(elements), workers_(Token().size()), memory_(label, count(elements, workers_)) {}

  static std::size_t bytes(int elements) { return count(elements, Token().size()) * sizeof(ScalarOf<V>); }

  // The worker's block: element i is base[i * stride]. On a GPU neighbouring threads interleave.
  MANIPLE_FUNCTION V* base(int worker) const {
    V* const first = reinterpret_cast<V*>(memory_.data());
    return kScalarLanes ? first + worker : first + static_cast<std::ptrdiff_t>(worker) * elements_;
  }
  MANIPLE_FUNCTION int stride() const { return kScalarLanes ? workers_ : 1; }
  int workers() const { return workers_; }

 private:
  static std::size_t count(int elements, int workers) {
    return static_cast<std::size_t>(elements) * static_cast<std::size_t>(workers) * lane_width<V>;
  }

  int elements_ = 0;
  int workers_ = 0;
  Kokkos::View<ScalarOf<V>*, MemorySpace> memory_;
};

// Runs body(item, worker) for every item; no other item meets the worker at that time.
template <class Body>
void for_each_item(const std::string& label, std::int64_t items, const Body& body) {
  const Kokkos::Experimental::UniqueToken<ExecutionSpace> token;
  Kokkos::parallel_for(
      label, Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(0, items),
      KOKKOS_LAMBDA(std::int64_t item) {
        const int worker = token.acquire();
        body(item, worker);
        token.release(worker);
      });
}

// Runs body(tile, lane, worker) for every pack of the tiles: lane is the pack's first lane in its tile.
template <class V, class Body>
void for_each_pack(const std::string& label, std::int64_t tiles, const Body& body) {
  constexpr int packs_per_tile = 32 / lane_width<V>;
  for_each_item(
      label, tiles * packs_per_tile, KOKKOS_LAMBDA(std::int64_t pack, int worker) {
        body(pack / packs_per_tile, static_cast<int>(pack % packs_per_tile) * lane_width<V>, worker);
      });
}

}  // namespace maniple
