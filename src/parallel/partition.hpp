// This rank's share of the environments, or samples, of the global batch: whole blocks, contiguous, as even
// as blocks allow. A block is a tile of 32, or less for a small batch; its size follows from the batch alone:
// everything that must not depend on the number of ranks is expressed in blocks of the whole batch. A rank's
// blocks fill tiles of its own, the last of which is padded.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/varying.hpp"

namespace maniple {

// The sizes of a block: a large batch is shared in tiles; smaller blocks take a little more work and share a
// small batch more evenly. All are even, so that the rows of a block fill whole words of a file.
inline constexpr int kLargeBlock = kTileWidth, kSmallBlock = 8, kSmallestBlock = 2;

// How many environments or samples of a batch make up a block: the largest size that gives the batch at least
// kFewest blocks, or the smallest.
inline int block_of_batch(std::int64_t batch) {
  constexpr std::int64_t kFewest = 8;
  if (batch > (kFewest - 1) * kLargeBlock) return kLargeBlock;
  return batch > (kFewest - 1) * kSmallBlock ? kSmallBlock : kSmallestBlock;
}

struct Partition {
  std::int64_t num_envs = 0;     // of the whole batch
  std::int64_t num_blocks = 0;   // of the whole batch
  std::int64_t first_block = 0;  // of this rank
  std::int64_t blocks = 0;       // of this rank; 0 on a rank that has none
  std::int64_t tiles = 0;        // of this rank, which its blocks take
  int block = kTileWidth;        // environments of a block, but the last one of the batch

  Partition() = default;
  Partition(std::int64_t envs, int rank, int ranks, int of_block = kTileWidth)
      : num_envs(envs), num_blocks((envs + of_block - 1) / of_block), block(of_block) {
    take(num_blocks * rank / ranks, num_blocks * (rank + 1) / ranks);
  }
  // One of `parts` parts of what this rank has, as even as blocks allow; some may be empty.
  Partition part(std::int64_t index, std::int64_t parts) const {
    Partition result = *this;
    result.take(first_block + blocks * index / parts, first_block + blocks * (index + 1) / parts);
    return result;
  }
  std::int64_t first_env() const { return first_block * block; }
  // Environments of this rank that are real, without the padding of the last tile.
  std::int64_t envs() const {
    return std::max<std::int64_t>(0, std::min(num_envs, (first_block + blocks) * block) - first_env());
  }

 private:
  void take(std::int64_t first, std::int64_t after) {
    first_block = first;
    blocks = after - first;
    tiles = (blocks * block + kTileWidth - 1) / kTileWidth;
  }
};

// Tiles of that one of `ranks` ranks, and of `parts` parts of what it has, that has most of them.
inline std::int64_t most_tiles(const Partition& whole, std::int64_t ranks, std::int64_t parts = 1) {
  const std::int64_t of_rank = (whole.num_blocks + ranks - 1) / ranks;
  return ((of_rank + parts - 1) / parts * whole.block + kTileWidth - 1) / kTileWidth;
}

}  // namespace maniple
