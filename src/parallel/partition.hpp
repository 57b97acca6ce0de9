// Which environments of the global batch this rank owns: whole tiles, contiguous, as even as tiles
// allow. Everything that must not depend on the number of ranks is expressed in global tiles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/varying.hpp"

namespace maniple {

struct Partition {
  std::int64_t num_envs = 0;    // of the whole batch
  std::int64_t num_tiles = 0;   // of the whole batch
  std::int64_t first_tile = 0;  // of this rank
  std::int64_t tiles = 0;       // of this rank; 0 on a rank that has none

  Partition() = default;
  Partition(std::int64_t envs, int rank, int ranks)
      : num_envs(envs), num_tiles((envs + kTileWidth - 1) / kTileWidth) {
    first_tile = num_tiles * rank / ranks;
    tiles = num_tiles * (rank + 1) / ranks - first_tile;
  }
  // One of `parts` parts of what this rank has, as even as tiles allow; some may be empty.
  Partition part(std::int64_t index, std::int64_t parts) const {
    Partition result = *this;
    result.first_tile = first_tile + tiles * index / parts;
    result.tiles = first_tile + tiles * (index + 1) / parts - result.first_tile;
    return result;
  }
  std::int64_t first_env() const { return first_tile * kTileWidth; }
  // Environments of this rank that are real, without the padding of the last tile.
  std::int64_t envs() const {
    return std::max<std::int64_t>(0, std::min(num_envs, (first_tile + tiles) * kTileWidth) - first_env());
  }
};

}  // namespace maniple
