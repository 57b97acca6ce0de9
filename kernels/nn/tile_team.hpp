// Launches over tiles of 32 samples. On a CPU one worker (a thread of the execution space) walks whole
// tiles, so that a tile's activations stay in its first-level cache; on a GPU a team of threads shares a
// tile, a sample for each of the first 32, and units of dense layers for all. Code written against TileTeam
// serves both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/base/team.hpp"
#include "kernels/base/varying.hpp"

namespace maniple {

#ifdef MANIPLE_SCALAR_LANES
class TileTeam {
 public:
  // One thread alone, of the host (src/driver/self_test_learning.cpp).
  TileTeam() = default;
  MANIPLE_FUNCTION explicit TileTeam(const TeamMember& member) : member_(&member) {}
  // The same team for the first lanes of a tile.
  MANIPLE_FUNCTION TileTeam of_lanes(int width) const {
    TileTeam team = *this;
    team.width_ = width;
    return team;
  }

  // body(lane) for each group of `Packs` packs of V in the tile.
  template <class V, int Packs, class Body>
  MANIPLE_FUNCTION void lanes(const Body& body) const {
    for (int lane = rank(); lane < width_; lane += size()) body(lane);
  }
  // body(lane, block) for each lane of the tile and 0 <= block < count, in any order.
  template <class Body>
  MANIPLE_FUNCTION void blocks(int count, const Body& body) const {
    for (int i = rank(); i < kTileWidth * count; i += size()) body(i % kTileWidth, i / kTileWidth);
  }
  // body(i) for 0 <= i < count, in any order.
  template <class Body>
  MANIPLE_FUNCTION void items(std::int64_t count, const Body& body) const {
    for (std::int64_t i = rank(); i < count; i += size()) body(i);
  }
  MANIPLE_FUNCTION bool leads() const { return rank() == 0; }
  MANIPLE_FUNCTION void barrier() const {
    if (member_ != nullptr) member_->team_barrier();
  }

 private:
  MANIPLE_FUNCTION int rank() const { return member_ == nullptr ? 0 : member_->team_rank(); }
  MANIPLE_FUNCTION int size() const { return member_ == nullptr ? 1 : member_->team_size(); }

  const TeamMember* member_ = nullptr;
  int width_ = kTileWidth;
};
#else
class TileTeam {
 public:
  // The same team for the first lanes of a tile.
  TileTeam of_lanes(int width) const {
    TileTeam team;
    team.width_ = width;
    return team;
  }
  int width() const { return width_; }

  // body(lane) for each group of `Packs` packs of V in the tile.
  template <class V, int Packs, class Body>
  MANIPLE_FUNCTION void lanes(const Body& body) const {
    for (int lane = 0; lane < width_; lane += Packs * lane_width<V>) body(lane);
  }
  // body(i) for 0 <= i < count, in any order.
  template <class Body>
  MANIPLE_FUNCTION void items(std::int64_t count, const Body& body) const {
    for (std::int64_t i = 0; i < count; ++i) body(i);
  }
  MANIPLE_FUNCTION bool leads() const { return true; }
  MANIPLE_FUNCTION void barrier() const {}

 private:
  int width_ = kTileWidth;
};
#endif

// How many samples the tiles of a run hold. Those of a small batch are summed by blocks of fewer samples than
// a tile has (src/parallel/partition.hpp); then lanes behind the last block are neither computed nor summed.
struct TileSamples {
  int block = kTileWidth;
  std::int64_t samples = 0;  // of the tiles of the batch; counted where blocks are smaller than tiles
  std::int64_t first = 0;    // tile of the run
  int maps = 1;              // consecutive tiles that hold the same samples

  // Whole blocks of a tile of the run.
  MANIPLE_FUNCTION int blocks(std::int64_t tile) const {
    const std::int64_t left = samples - (first + tile) / maps * kTileWidth;
    return block == kTileWidth || left >= kTileWidth ? kTileWidth / block
                                                     : static_cast<int>((left + block - 1) / block);
  }
  // Lanes that these take, in whole packs.
  template <class V>
  MANIPLE_FUNCTION int width(std::int64_t tile) const {
    return whole_packs<V>(blocks(tile) * block);
  }
};

// Packs of a tile that a register block holds at once.
inline constexpr int kTilePacks = kScalarLanes ? 1 : 2;

// The most workers that share tiles, however many these are.
inline int max_tile_workers() {
  return kScalarLanes ? 1024 : std::max(1, static_cast<int>(ExecutionSpace().concurrency()));
}
// How many workers share `tiles` tiles; each needs scratch and totals of its own.
inline int tile_workers(std::int64_t tiles) {
  return static_cast<int>(std::clamp<std::int64_t>(tiles, 1, max_tile_workers()));
}

// Threads of a team that passes through dense layers (Body::kThreads): eight warps, for a minibatch seldom
// has more tiles than a GPU has processors. All others have one.
inline constexpr int kDenseThreads = 256;
template <class Body>
inline constexpr int kThreadsOf = kTileWidth;
template <class Body>
requires(Body::kThreads > 0) inline constexpr int kThreadsOf<Body> = Body::kThreads;

// Calls body(team, tile, worker) for every tile; a worker's tiles are contiguous and in order.
template <class Body>
void for_tiles(const std::string& name, std::int64_t tiles, int workers, const Body& body) {
#ifdef MANIPLE_SCALAR_LANES
  Kokkos::parallel_for(
      name, Kokkos::TeamPolicy<ExecutionSpace>(workers, kLaunchesTeams ? kThreadsOf<Body> : 1),
      MANIPLE_LAMBDA(const TeamMember& member) {
        const int worker = member.league_rank();
        for (std::int64_t tile = tiles * worker / workers; tile < tiles * (worker + 1) / workers; ++tile) {
          body(TileTeam(member), tile, worker);
          member.team_barrier();
        }
      });
#else
  Kokkos::parallel_for(
      name, Kokkos::RangePolicy<ExecutionSpace>(0, workers), MANIPLE_LAMBDA(int worker) {
        for (std::int64_t tile = tiles * worker / workers; tile < tiles * (worker + 1) / workers; ++tile)
          body(TileTeam(), tile, worker);
      });
#endif
}

// Which lanes of the pack that starts at environment `first` of this rank are among its `count` real
// ones: the last tile of the global batch is padded.
template <class V>
MANIPLE_FUNCTION MaskOf<V> real_lanes(std::int64_t first, std::int64_t count) {
  if (first + lane_width<V> <= count) return MaskOf<V>(true);
  MaskOf<V> mask(false);
  if constexpr (lane_width<V> == 1) {
    mask = first < count;
  } else {
    for (int lane = 0; lane < lane_width<V>; ++lane) mask.set(lane, first + lane < count);
  }
  return mask;
}

}  // namespace maniple
