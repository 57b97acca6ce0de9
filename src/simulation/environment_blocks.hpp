// The blocks in which ranks share the environments of a run (src/parallel/partition.hpp). The deck alone
// decides on their size, so that whatever is summed block by block has the same bits on any number of ranks.
#pragma once

#include "src/config/config.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

// The size of the blocks of `num_envs` environments. Where the minibatches of PPO divide environments and not
// only steps, they take whole tiles: those of recurrent policies, and more minibatches than an iteration has
// steps.
inline int block_of_environments(const Config& config, std::int64_t num_envs) {
  const LearningConfig& learning = config.learning;
  const bool divides = config.policy.recurrent != Recurrence::none || learning.minibatches > learning.horizon;
  return !learning.imitates() && divides ? kTileWidth : block_of_batch(num_envs);
}

inline Partition environments_of(const Config& config, std::int64_t num_envs, int rank, int ranks) {
  return {num_envs, rank, ranks, block_of_environments(config, num_envs)};
}

}  // namespace maniple
