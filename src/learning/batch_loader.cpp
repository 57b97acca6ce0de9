#include "src/learning/batch_loader.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace maniple {
namespace {

// x -> (x - mean) * scale
struct Affine {
  double mean = 0, scale = 1;
};

// Of each number of a row, over all frames to learn from: robomimic's mean and standard deviation, to which
// 0.001 is added; diffusion policy's [-1, 1] (model/common/normalizer.py), where a number that does not
// change goes to 0.
std::vector<Affine> row_units(const Config& config, const Demonstrations& demonstrations) {
  constexpr double kFloor = 1e-3, kLeastRange = 1e-4;
  const DemonstrationContents& contents = demonstrations.contents();
  const auto width = static_cast<std::size_t>(contents.row_width());
  std::vector<DataNormalizer> kinds(width, config.data.normalize_actions);
  const auto has = [](const auto& list, const auto& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  for (const auto& key : contents.observations)
    std::fill_n(kinds.begin() + key.first, key.width,
                has(config.data.not_normalized, key.name) ? DataNormalizer::none
                                                          : config.data.normalize_observations);
  for (const int component : config.data.actions_not_normalized)
    kinds[static_cast<std::size_t>(contents.observation_width + component)] = DataNormalizer::none;
  std::vector<double> mean(width, 0.0), squares(width, 0.0), low(width, std::numeric_limits<double>::max()),
      high(width, std::numeric_limits<double>::lowest());
  const auto frames = static_cast<double>(contents.learned_frames);
  for (std::int64_t frame = 0; frame < contents.learned_frames; ++frame)
    for (std::size_t i = 0; i < width; ++i) {
      const auto x = static_cast<double>(demonstrations.row(frame)[i]);
      mean[i] += x / frames;
      low[i] = std::min(low[i], x);
      high[i] = std::max(high[i], x);
    }
  for (std::int64_t frame = 0; frame < contents.learned_frames; ++frame)
    for (std::size_t i = 0; i < width; ++i) {
      const double away = static_cast<double>(demonstrations.row(frame)[i]) - mean[i];
      squares[i] += away * away / frames;
    }
  std::vector<Affine> units(width);
  for (std::size_t i = 0; i < width; ++i) {
    if (kinds[i] == DataNormalizer::mean_std) units[i] = {mean[i], 1 / (std::sqrt(squares[i]) + kFloor)};
    if (kinds[i] == DataNormalizer::min_max)
      units[i] = {(low[i] + high[i]) / 2, high[i] - low[i] < kLeastRange ? 1 : 2 / (high[i] - low[i])};
  }
  return units;
}

}  // namespace

DataUnits units_of(const Config& config, const Demonstrations& demonstrations) {
  const DemonstrationContents& contents = demonstrations.contents();
  const std::vector<Affine> rows = row_units(config, demonstrations);
  DataUnits units(contents.observation_width * config.data.frame_stack, contents.action_width);
  std::size_t input = 0;
  for (const auto& key : contents.observations)
    for (int frame = 0; frame < config.data.frame_stack; ++frame)
      for (int i = key.first; i < key.first + key.width; ++i, ++input) {
        units.observation_mean[input] = static_cast<float>(rows[static_cast<std::size_t>(i)].mean);
        units.observation_scale[input] = static_cast<float>(rows[static_cast<std::size_t>(i)].scale);
      }
  for (std::size_t k = 0; k < units.action_mean.size(); ++k) {
    const Affine& own = rows[static_cast<std::size_t>(contents.observation_width) + k];
    units.action_mean[k] = static_cast<float>(own.mean);
    units.action_scale[k] = static_cast<float>(1 / own.scale);
  }
  return units;
}

void BatchLoader::fill(std::int64_t step, std::int64_t part, LoadedBatch& batch) const {
  batch.batch = input_.sampler.batch(step);
  batch.partition = Partition(batch.batch.samples, input_.rank, input_.ranks).part(part, input_.parts);
  const std::size_t block = static_cast<std::size_t>(input_.blocks.elements) * kTileWidth;
  const std::size_t distance = static_cast<std::size_t>(batch.partition.tiles) * block;
  batch.numbers = static_cast<std::size_t>(input_.blocks.steps) * distance;
  std::fill_n(batch.blocks.data(), batch.numbers, 0.0f);
  const std::size_t pictures = static_cast<std::size_t>(input_.blocks.pixels) * kTileWidth;
  // (pictures where no sample is are some of earlier ones, which nothing is learned from)
  batch.pixels = static_cast<std::size_t>(batch.partition.tiles) * pictures;
  for (std::int64_t place = 0; place < batch.partition.envs(); ++place) {
    const std::int64_t of_all = batch.partition.first_env() + place;
    const std::int64_t sample = input_.sampler.sample(batch.batch.epoch, batch.batch.first + of_all);
    if (pictures > 0)
      input_.blocks.lay_pictures(sample, step, of_all,
                                 batch.pictures.data() +
                                     static_cast<std::size_t>(place / kTileWidth) * pictures +
                                     place % kTileWidth);
    input_.blocks.lay(
        sample,
        batch.blocks.data() + static_cast<std::size_t>(place / kTileWidth) * block + place % kTileWidth,
        distance);
  }
}

BatchLoader::BatchLoader(const Input& input, std::int64_t first, std::int64_t after, int prefetch)
    : input_(input) {
  // those that wait, and one that is learned from
  for (int i = 0; i <= prefetch; ++i) {
    LoadedBatch batch;
    batch.blocks = Kokkos::View<float*, PinnedSpace>(
        "maniple::loaded_blocks", static_cast<std::size_t>(input.blocks.steps * input.blocks.elements) *
                                      static_cast<std::size_t>(input.tiles) * kTileWidth);
    batch.pictures = Kokkos::View<std::uint8_t*, PinnedSpace>(
        "maniple::loaded_pictures",
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
      LoadedBatch batch;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || !free_.empty(); });
        if (stop_) return;
        batch = std::move(free_.back());
        free_.pop_back();
      }
      fill(piece / input_.parts, piece % input_.parts, batch);
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

LoadedBatch BatchLoader::next() {
  LoadedBatch batch;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || failure_; });
    if (ready_.empty()) std::rethrow_exception(failure_);
    batch = std::move(ready_.front());
    ready_.pop_front();
  }
  return batch;
}

void BatchLoader::give_back(LoadedBatch batch) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(batch));
  }
  changed_.notify_all();
}

}  // namespace maniple
