// The blocks in which ranks share the samples of a batch (src/parallel/partition.hpp): how many samples one
// has, and how code is compiled for each size. A gradient is summed, rounded and added by blocks, so their
// size, which the batch alone decides, decides on bits; the ranks that share them do not.
#pragma once

#include <string>
#include <type_traits>

#include "kernels/base/varying.hpp"
#include "src/base/error.hpp"
#include "src/config/config.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

// The block of a batch that demonstrations are learned from. With mixed precision blocks are tiles: there
// factors are rounded in pairs of samples.
inline int block_of_samples(const LearningConfig& learning) {
  return learning.mixed() ? kTileWidth : block_of_batch(learning.batch_size);
}

// Calls body(size), of a constant, for the size of a block. Throws Error for a size that no block has.
template <class Body>
void with_block(int block, const Body& body) {
  if (block == kSmallestBlock)
    body(std::integral_constant<int, kSmallestBlock>());
  else if (block == kSmallBlock)
    body(std::integral_constant<int, kSmallBlock>());
  else if (block == kLargeBlock)
    body(std::integral_constant<int, kLargeBlock>());
  else
    throw Error("no code is compiled for blocks of " + std::to_string(block));
}

}  // namespace maniple
