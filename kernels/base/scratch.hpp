// Working memory of kernels: one block of lane values per worker (a thread of the execution space, or a team
// of them), allocated once and reused by every pack that the worker steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/base/team.hpp"

namespace maniple {

// Workers at a time, if they are threads. On a GPU an eighth of those that it can hold: with all the
// registers that a thread can have, as the kernels need them, no more fit on it anyway.
inline int thread_count() {
  if constexpr (kScalarLanes) {
    // where memory is estimated without a device: as many threads as an H100 holds
    const int held = Kokkos::is_initialized() ? static_cast<int>(ExecutionSpace().concurrency()) : 132 * 2048;
    return std::max(1, held / 8);
  }
  return static_cast<int>(Kokkos::Experimental::UniqueToken<ExecutionSpace>().size());
}

// Memory of a GPU that its workers may have, a quarter of it; where it is scarce, they are fewer.
inline std::size_t scratch_bytes() {
#ifdef KOKKOS_ENABLE_CUDA
  if (Kokkos::is_initialized()) return ExecutionSpace().cuda_device_prop().totalGlobalMem / 4;
#endif
  return std::size_t{20} << 30;  // where memory is estimated without a device: of an H100
}

template <class V>
class Scratch {
 public:
  Scratch() = default;
  // `elements` lane values for each worker.
  Scratch(const std::string& label, int elements, int workers)
      : elements_(elements), workers_(workers), memory_(label, count(elements, workers)) {}

  static std::size_t bytes(int elements, int workers) {
    return count(elements, workers) * sizeof(ScalarOf<V>);
  }
  // How many workers there should be for this many environments: on a GPU no more than find work.
  static int workers_for(int elements, std::int64_t environments) {
    if constexpr (!kScalarLanes) return thread_count();
    const std::size_t fit = scratch_bytes() / std::max<std::size_t>(1, bytes(elements, 1));
    const auto most = static_cast<std::size_t>(std::min<std::int64_t>(environments, thread_count()));
    return std::max(1, static_cast<int>(std::min(fit, most)));
  }

  // Element i of a worker that is a thread is base(worker)[i * stride()]: on a GPU neighbours interleave.
  MANIPLE_FUNCTION V* base(int worker) const {
    V* const first = reinterpret_cast<V*>(memory_.data());
    return kScalarLanes ? first + worker : first + static_cast<std::ptrdiff_t>(worker) * elements_;
  }
  MANIPLE_FUNCTION int stride() const { return kScalarLanes ? workers_ : 1; }
  // Its number among those that lie together.
  MANIPLE_FUNCTION static int offset(int worker) { return kScalarLanes ? worker : 0; }
  // Element i of a worker that is a team is team_base(worker)[i]. A launch has workers of one kind.
  MANIPLE_FUNCTION V* team_base(int worker) const {
    return reinterpret_cast<V*>(memory_.data()) + static_cast<std::ptrdiff_t>(worker) * elements_;
  }
  int workers() const { return workers_; }

 private:
  static std::size_t count(int elements, int workers) {
    return static_cast<std::size_t>(elements) * static_cast<std::size_t>(workers) * lane_width<V>;
  }

  int elements_ = 0;
  int workers_ = 0;
  Kokkos::View<ScalarOf<V>*, MemorySpace> memory_;
};

// Runs body(item, worker) for every item by the workers of a scratch; no other item meets the worker at that
// time.
template <class Body>
void for_each_item(const std::string& label, std::int64_t items, [[maybe_unused]] int workers,
                   const Body& body) {
#ifdef MANIPLE_SCALAR_LANES
  // (blocks of a warp, which spread over all processors where workers are few)
  using Launch = Kokkos::RangePolicy<ExecutionSpace, Kokkos::LaunchBounds<32, 8>>;
  Kokkos::parallel_for(
      label, Launch(0, workers), MANIPLE_LAMBDA(int worker) {
        for (std::int64_t item = worker; item < items; item += workers) body(item, worker);
      });
#else
  const Kokkos::Experimental::UniqueToken<ExecutionSpace> token;
  Kokkos::parallel_for(
      label, Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(0, items),
      MANIPLE_LAMBDA(std::int64_t item) {
        const int worker = token.acquire();
        body(item, worker);
        token.release(worker);
      });
#endif
}

// Runs body(tile, lane, worker) for every pack that holds one of `environments`, likewise: lane is the pack's
// first lane in its tile.
template <class V, class Body>
void for_each_pack(const std::string& label, std::int64_t environments, int workers, const Body& body) {
  constexpr int packs_per_tile = 32 / lane_width<V>;
  for_each_item(
      label, whole_packs<V>(environments) / lane_width<V>, workers,
      MANIPLE_LAMBDA(std::int64_t pack, int worker) {
        body(pack / packs_per_tile, static_cast<int>(pack % packs_per_tile) * lane_width<V>, worker);
      });
}

#ifdef MANIPLE_SCALAR_LANES
// Bytes of fast memory of a team; the integers that the members exchange come first. Every GPU has this much
// for the teams that it holds: as many as have all the registers that their threads can have.
inline constexpr int kTeamBytes = 11 * 1024;
inline constexpr int kTeamExchangeBytes = kTeamThreads * static_cast<int>(sizeof(int));
inline constexpr int kTeamsPerProcessor = 8;

// The same with workers that are teams: body(team, shared, item, worker), where `shared` are
// kTeamBytes - kTeamExchangeBytes of a team's fast memory. The body's first write is behind a barrier.
template <class T, class Body>
void for_each_item_by_team(const std::string& label, std::int64_t items, int workers, const Body& body) {
  using Launch = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<kTeamThreads, kTeamsPerProcessor>>;
  constexpr int threads = kLaunchesTeams ? kTeamThreads : 1;
  const int teams = std::min(workers, std::max(1, thread_count() / threads));
  Kokkos::parallel_for(
      label, Launch(teams, threads).set_scratch_size(0, Kokkos::PerTeam(kTeamBytes)),
      MANIPLE_LAMBDA(const TeamMember& member) {
        const int bytes = kTeamBytes;  // Kokkos takes it by reference
        char* const memory = static_cast<char*>(member.team_scratch(0).get_shmem(bytes));
        const Team<T> team(member, reinterpret_cast<int*>(memory));
        T* const shared = reinterpret_cast<T*>(memory + kTeamExchangeBytes);
        const int worker = member.league_rank();
        for (std::int64_t item = worker; item < items; item += teams) body(team, shared, item, worker);
      });
}
#endif

}  // namespace maniple
