// Training of dense networks on a small batch, whose gradient is summed by blocks of fewer samples than a
// tile (kernels/nn/block_gradient.hpp): the data kept between the two launches, and the second launch.
#pragma once

#include <algorithm>

#include "kernels/nn/block_gradient.hpp"
#include "kernels/nn/training.hpp"
#include "src/learning/dense_blas.hpp"
#include "src/learning/sample_blocks.hpp"
#include "src/learning/totals.hpp"

namespace maniple {

// Calls body with a minibatch of the loss: of what computes dense layers while they learn, and of the blocks
// of its samples.
template <class Loss, class Body>
void with_training(bool library, int block, const Body& body) {
  with_block(block, [&](auto size) {
    if constexpr (size() == kTileWidth)
      return with_dense(library, [&](auto dense) { body(TrainMinibatch<float, decltype(dense), Loss>()); });
    else {
#ifndef MANIPLE_SCALAR_LANES
      if (library) return body(TrainMinibatch<float, WideDense, Loss, size()>());
#endif
      body(TrainMinibatch<float, LaneDense, Loss, size()>());
    }
  });
}

// For how many of a minibatch's `positions` activations are kept at a time: as many as a cache holds.
inline int kept_positions(int positions) {
  return std::min(positions, 16);
}
// Elements of BlockGradient's panels for `steps` kept steps.
inline std::int64_t panel_elements(int block, std::int64_t tiles, int steps) {
  return block < kTileWidth ? max_tile_workers() * BlockGradient<float, 2>::panel_elements(tiles, steps) : 0;
}

// After a launch of `train` over so many tiles: adds the gradient of what it has kept.
template <class T, class Dense, class Loss, int Block>
void add_gradient_by_blocks(const TrainMinibatch<T, Dense, Loss, Block>& train, std::int64_t tiles,
                            const Numbers<T>& panels) {
  const bool sequence = train.deal.horizon == 1;
  BlockGradient<T, Block> gradient;
  gradient.network = train.network;
  gradient.scratch = train.scratch;
  gradient.memory = train.memory;
  gradient.inputs = train.input_of(train.first_of_launch);
  gradient.next_input = std::int64_t{train.loss.layout.elements} * kTileWidth;
  gradient.next_step = train.tiles * gradient.next_input;
  gradient.tiles = static_cast<int>(tiles);
  gradient.steps = sequence ? train.deal.steps : train.kept;
  gradient.order =
      sequence ? nullptr : train.order + train.minibatch + train.first_kept * train.deal.minibatches;
  gradient.every = train.deal.minibatches;
  gradient.samples = train.real_samples();
  gradient.samples.first = train.first_of_launch;
  gradient.exact = train.exact;
  gradient.totals = train.totals;
  gradient.inexact = train.totals + minibatch_totals(train.network, Loss::num_metrics) - 1;
  gradient.panels = panels.data();
  for_tiles("maniple::block_gradient", gradient.items(), tile_workers(gradient.items()), gradient);
}

}  // namespace maniple
