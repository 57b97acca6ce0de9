// The memory that the environments of a rank will take, for refusals and reports before anything is
// allocated. It counts what BatchSimulation allocates (batch_simulation.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/config/config.hpp"
#include "src/tasks/compile/prepared.hpp"

namespace maniple {

struct MemoryEstimate {
  std::size_t bytes_per_env = 0;  // state, task, exported fields
  std::size_t scratch_bytes = 0;  // per rank, shared by all its environments
  std::size_t rank_bytes = 0;     // per_env * environments of this rank + scratch
  // of the task: what learning's memory depends on
  int num_observations = 0, num_critic_observations = 0, num_actions = 0, num_reward_terms = 0,
      num_metrics = 0;
};

// The memory of the configured batch on a rank with `envs` environments, without learning.
MemoryEstimate estimate_memory(const Config& config, const Prepared& prepared, std::int64_t envs);

}  // namespace maniple
