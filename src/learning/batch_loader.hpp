// The loader of batches ahead of the trainer: a thread of each rank gathers this rank's part of the next
// batches, normalizes it, and lays it into blocks as the kernels read them. A bounded number of batches
// waits. The thread calls neither MPI nor the device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/base/macros.hpp"
#include "src/learning/samples.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

// How a sample lies in a batch: for each step of its sequence a block of numbers, whose elements are
// kTileWidth apart, since 32 samples share a tile.
struct SampleBlocks {
  using Rows = std::vector<std::int64_t>;  // of the frames of a sample, the oldest first

  int elements = 0, steps = 1;
  // Lays a sample; `step_stride` is from the block of a step to that of the next.
  std::function<void(const Rows& rows, float* first, std::size_t step_stride)> lay;
  // Lays the sample's images, those of all steps in one block of this many pixels. `place`: the sample's in
  // the update's batch over all ranks.
  int pixels = 0;
  std::function<void(const Rows& rows, std::int64_t update, std::int64_t place, std::uint8_t* first)>
      lay_images = {};
};

// How many batches a rank has in memory at a time: those that wait, the one that is learned from, and a copy
// of its numbers on the device; with held out demonstrations two more.
inline std::int64_t loaded_batches(const Config& config) {
  return config.data.prefetch + (config.data.validation_filter.empty() ? 2 : 4);
}

// One batch, or a part of one, as far as it is this rank's. Threads hand it on by its address: Kokkos counts
// the references to a view, and without threads of its own it does not count atomically.
struct LoadedBatch {
  LoadedBatch() = default;
  LoadedBatch(const LoadedBatch&) = delete;
  LoadedBatch& operator=(const LoadedBatch&) = delete;

  Sampler::Batch batch;  // the whole one
  Partition partition;   // of its samples over ranks and parts
  // [step of the sequences][tile][elements][32], with room for the largest part
  Kokkos::View<float*, PinnedSpace> blocks;
  std::size_t numbers = 0;  // that this batch takes of them
  // [tile][pixels][32], likewise, and how many this batch takes of them
  Kokkos::View<std::uint8_t*, PinnedSpace> images;
  std::size_t pixels = 0;
};

class BatchLoader {
 public:
  struct Input {
    const Sampler& sampler;
    const Windows& windows;
    std::int64_t first_sample = 0;  // of the windows, which is the sampler's first
    SampleBlocks blocks;
    int rank = 0, ranks = 1;
    int block = kTileWidth;  // of samples, in which ranks share a batch
    std::int64_t parts = 1;  // in which a rank goes through its share of a batch (learning.accumulate)
    std::int64_t tiles = 1;  // at most in a part
  };
  // Begins with the batch of update `first` and ends before that of `after`. At most `prefetch` batches wait.
  // What `input` refers to outlives this.
  BatchLoader(const Input& input, std::int64_t first, std::int64_t after, int prefetch);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // Waits for the next batch, or the next part of one. Throws what the thread threw.
  std::unique_ptr<LoadedBatch> next();
  // A batch whose memory is free again.
  void give_back(std::unique_ptr<LoadedBatch> batch);

 private:
  void run(std::int64_t first, std::int64_t after);
  void fill(std::int64_t step, std::int64_t part, LoadedBatch& batch) const;

  const Input input_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<LoadedBatch>> ready_;
  std::vector<std::unique_ptr<LoadedBatch>> free_;
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace maniple
