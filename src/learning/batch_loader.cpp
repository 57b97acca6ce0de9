#include "src/learning/batch_loader.hpp"

#include <algorithm>

namespace maniple {
void BatchLoader::fill(std::int64_t step, std::int64_t part, LoadedBatch& batch) const {
  batch.batch = input_.sampler.batch(step);
  batch.partition =
      Partition(batch.batch.samples, input_.rank, input_.ranks, input_.block).part(part, input_.parts);
  const std::size_t block = static_cast<std::size_t>(input_.blocks.elements) * kTileWidth;
  const std::size_t step_stride = static_cast<std::size_t>(batch.partition.tiles) * block;
  batch.numbers = static_cast<std::size_t>(input_.blocks.steps) * step_stride;
  std::fill_n(batch.blocks.data(), batch.numbers, 0.0f);
  const std::size_t images = static_cast<std::size_t>(input_.blocks.pixels) * kTileWidth;
  // (images where no sample is are some of earlier ones, which nothing is learned from)
  batch.pixels = static_cast<std::size_t>(batch.partition.tiles) * images;
  SampleBlocks::Rows rows(static_cast<std::size_t>(input_.windows.shape().frames()));
  for (std::int64_t place = 0; place < batch.partition.envs(); ++place) {
    const std::int64_t of_all = batch.partition.first_env() + place;
    const std::int64_t sample = input_.sampler.sample(batch.batch.epoch, batch.batch.first + of_all);
    input_.windows.rows(input_.first_sample + sample, rows.data());
    if (images > 0)
      input_.blocks.lay_images(
          rows, step, of_all,
          batch.images.data() + static_cast<std::size_t>(place / kTileWidth) * images + place % kTileWidth);
    input_.blocks.lay(
        rows, batch.blocks.data() + static_cast<std::size_t>(place / kTileWidth) * block + place % kTileWidth,
        step_stride);
  }
}

BatchLoader::BatchLoader(const Input& input, std::int64_t first, std::int64_t after, int prefetch)
    : input_(input) {
  // those that wait, and one that is learned from
  for (int i = 0; i <= prefetch; ++i) {
    auto batch = std::make_unique<LoadedBatch>();
    batch->blocks = Kokkos::View<float*, PinnedSpace>(
        "maniple::loaded_blocks", static_cast<std::size_t>(input.blocks.steps * input.blocks.elements) *
                                      static_cast<std::size_t>(input.tiles) * kTileWidth);
    batch->images = Kokkos::View<std::uint8_t*, PinnedSpace>(
        "maniple::loaded_images",
        static_cast<std::size_t>(input.blocks.pixels) * static_cast<std::size_t>(input.tiles) * kTileWidth);
    free_.push_back(std::move(batch));
  }
  thread_ = std::thread([this, first, after] { run(first, after); });
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BatchLoader::run(std::int64_t first, std::int64_t after) {
  try {
    for (std::int64_t piece = first * input_.parts; piece < after * input_.parts; ++piece) {
      std::unique_ptr<LoadedBatch> batch;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || !free_.empty(); });
        if (stop_) return;
        batch = std::move(free_.back());
        free_.pop_back();
      }
      fill(piece / input_.parts, piece % input_.parts, *batch);
      {
        const std::lock_guard lock(mutex_);
        ready_.push_back(std::move(batch));
      }
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

std::unique_ptr<LoadedBatch> BatchLoader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !ready_.empty() || failure_; });
  if (ready_.empty()) std::rethrow_exception(failure_);
  std::unique_ptr<LoadedBatch> batch = std::move(ready_.front());
  ready_.pop_front();
  return batch;
}

void BatchLoader::give_back(std::unique_ptr<LoadedBatch> batch) {
  Kokkos::fence();  // a device may still copy from it
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(batch));
  }
  changed_.notify_all();
}

}  // namespace maniple
