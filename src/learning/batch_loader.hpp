// Makes batches ahead of the trainer: a thread of each rank gathers what this rank learns from of the next
// batches, normalizes it, and lays it into blocks as the kernels read them. A bounded number of batches
// waits. The thread calls neither MPI nor the device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/nn/cloning_loss.hpp"
#include "src/learning/policy.hpp"
#include "src/learning/samples.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

// Numbers by which the data are normalized, as data.normalize_observations and data.normalize_actions say, of
// the policy's inputs: of each key the frames of the stack, the oldest first.
DataUnits units_of(const Config& config, const Demonstrations& demonstrations);

// One batch, or a part of one, as far as it is this rank's.
struct LoadedBatch {
  Sampler::Batch batch;       // the whole one
  Partition partition;        // of its samples over ranks and parts
  std::vector<float> blocks;  // [step of the sequences][tile][layout.elements][32]
};

class BatchLoader {
 public:
  struct Input {
    const Demonstrations& demonstrations;
    const Windows& windows;
    const Sampler& sampler;
    DataUnits units;
    DemonstratedLayout layout;
    WindowShape
        shape;  // of each frame of a sequence: a stack of observations, the last of which has the action
    int rank = 0, ranks = 1;
    // In place of the above lays a sample into its block, whose elements are kTileWidth apart.
    std::function<void(std::int64_t sample, float* block)> lay = {};
    std::int64_t parts = 1;  // in which a rank goes through its share of a batch (learning.accumulate)
  };
  // Begins with the batch of update `first` and ends before that of `after`. At most `prefetch` batches wait.
  // What `input` refers to outlives this.
  BatchLoader(const Input& input, std::int64_t first, std::int64_t after, int prefetch);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // Waits for the next batch, or the next part of one. Throws what the thread threw.
  LoadedBatch next();
  // A batch whose memory is free again.
  void give_back(LoadedBatch batch);

  // A part of a batch, without a thread.
  static void fill(const Input& input, std::int64_t step, std::int64_t part, LoadedBatch& batch);

 private:
  void run(std::int64_t first, std::int64_t after);

  const Input input_;
  const std::size_t prefetch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<LoadedBatch> ready_;
  std::vector<LoadedBatch> free_;
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace maniple
