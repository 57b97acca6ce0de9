// The batch of an update on this many ranks. A deck's batch is global; learning.batch_per_rank,
// learning.accumulate and learning.lr_scaling follow other conventions of the field, and are resolved here
// once, so that learners know one batch and one learning rate.
#pragma once

#include <string>

#include "src/config/config.hpp"

namespace maniple {

// Samples of an update over all ranks: for ppo of a minibatch, of which there may be a few more or less.
std::int64_t effective_batch(const Config& config, int ranks);

// `given` with learning.batch_size the effective batch, of which each rank goes through its share in
// learning.accumulate parts, and learning.learning_rate scaled from learning.lr_base_batch to it: in
// proportion (Goyal et al. 2017), or by the square root (Krizhevsky 2014).
Config for_ranks(const Config& given, int ranks);

// The effective batch in words, for the deck as it was given; empty if the deck itself says it.
std::string effective_batch_text(const Config& given, int ranks);

}  // namespace maniple
