// What learners from demonstrations have in common: how batches are dealt out, and what a run that goes on
// has to agree with.
#pragma once

#include <cstdint>

#include "src/config/config.hpp"

namespace maniple {

// The most tiles that a rank has of a batch at a time.
std::int64_t most_tiles_of_batch(const Config& config, int ranks);

// Iterations that learning.steps updates take.
std::int64_t imitation_iterations(const LearningConfig& config);

// What a position in the data depends on.
struct DataPosition {
  std::int64_t checksum = 0, batch_size = 0, epoch_samples = 0;
};
// InputError where a checkpoint's is another than the run's.
void check_position(const Config& config, const DataPosition& of_checkpoint, const DataPosition& of_run);

}  // namespace maniple
