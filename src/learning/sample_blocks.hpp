// The blocks in which ranks share the samples of a batch (src/parallel/partition.hpp): how many samples one
// has, and how code is compiled for each size. A gradient is summed, rounded and added by blocks, so their
// size, which the batch alone decides, decides on bits; the ranks that share them do not.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/base/varying.hpp"
#include "src/config/config.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

// Of a batch that demonstrations are learned from. With mixed precision blocks are tiles: there factors are
// rounded in pairs of samples.
inline int block_of_samples(const LearningConfig& learning) {
  return learning.mixed() ? kTileWidth : block_of_batch(learning.batch_size);
}

// Calls body(size), of a constant, for the size of a block.
template <class Body>
void with_block(int block, const Body& body) {
  if (block == 2)
    body(std::integral_constant<int, 2>());
  else if (block == 8)
    body(std::integral_constant<int, 8>());
  else
    body(std::integral_constant<int, kTileWidth>());
}

}  // namespace maniple
