#include "src/io/demonstrations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/activity.hpp"
#include "src/base/fnv.hpp"
#include "src/io/checksum.hpp"
#include "src/io/demonstration_file.hpp"
#include "src/io/hdf5.hpp"

namespace maniple {
namespace {

// Reads one file into the rows and images of all.
class FrameReader {
 public:
  FrameReader(const Config& config, const DemonstrationContents& contents, const std::string& path,
              float* rows, std::uint8_t* images)
      : config_(config), contents_(contents), path_(path), file_(config, path), rows_(rows), images_(images) {
    const bool none = config.data.normalize_actions == DataNormalizer::none;
    bounded_.assign(static_cast<std::size_t>(contents.action_width), none);
    const bool reaches_beyond = config.learning.algorithm == "diffusion" ? !config.diffusion.clip_sample
                                                                         : !config.policy.squash_actions;
    if (reaches_beyond) return;
    for (const int component : config.data.actions_not_normalized)
      bounded_[static_cast<std::size_t>(component)] = true;
  }

  void read(const Demonstration& demonstration) {
    for (const DemonstrationContents::Key& key : contents_.observations)
      read_numbers(demonstration, file_.observation(demonstration.name, key.name), key.first, key.width);
    for (const DemonstrationContents::Camera& camera : contents_.cameras)
      read_images(demonstration, file_.observation(demonstration.name, camera.name), camera);
    int place = contents_.observation_width;
    for (const std::string& action : file_.actions(demonstration.name)) {
      const int size = file_.extents(action, DemonstrationFile::kKey).second.front();
      read_numbers(demonstration, action, place, size);
      place += size;
    }
  }

 private:
  // `first`: of a row's numbers.
  void read_numbers(const Demonstration& demonstration, const std::string& dataset, int first, int size) {
    const hdf5::Dataset opened = hdf5::open_dataset(file_.id(), dataset);
    hdf5::Shape origin{0}, count{static_cast<hsize_t>(demonstration.frames)};
    if (hdf5::shape_of(opened).size() == 2) {
      origin.push_back(0);
      count.push_back(static_cast<hsize_t>(size));
    }
    values_.resize(static_cast<std::size_t>(demonstration.frames * size));
    hdf5::read_box(opened, H5T_NATIVE_FLOAT, origin, count, values_.data(), path_ + ": /" + dataset);
    const int first_action = first - contents_.observation_width;
    for (std::int64_t frame = 0; frame < demonstration.frames; ++frame)
      for (int i = 0; i < size; ++i) {
        const float value = values_[static_cast<std::size_t>(frame * size + i)];
        if (!std::isfinite(value))
          file_.refuse(
              DemonstrationFile::kKey,
              fmt::format("/{} has {} in frame {}", dataset, std::isnan(value) ? "NaN" : "infinity", frame),
              "allowed: finite numbers");
        if (first_action >= 0 && bounded_[static_cast<std::size_t>(first_action + i)] &&
            std::abs(value) > 1.0f + 1e-6f)
          file_.refuse(DemonstrationFile::kKey, fmt::format("/{} has {} in frame {}", dataset, value, frame),
                       remedy(first_action + i));
        rows_[(demonstration.first + frame) * contents_.row_width() + first + i] = value;
      }
  }

  std::string remedy(int component) const {
    if (config_.data.normalize_actions == DataNormalizer::none)
      return "allowed: [-1, 1], or data.normalize_actions: min_max | mean_std";
    return fmt::format("allowed: [-1, 1], which the policy's actions lie in, or {} not among {}", component,
                       "data.actions_not_normalized");
  }

  // Some frames at a time: a demonstration may have any number.
  void read_images(const Demonstration& demonstration, const std::string& dataset,
                   const DemonstrationContents::Camera& camera) {
    constexpr std::size_t kMostBytes = std::size_t{1} << 24;
    const hdf5::Dataset opened = hdf5::open_dataset(file_.id(), dataset);
    const std::size_t size = camera.bytes();
    const auto most = static_cast<std::int64_t>(std::max<std::size_t>(1, kMostBytes / size));
    for (std::int64_t first = 0; first < demonstration.frames; first += most) {
      const std::int64_t frames = std::min(most, demonstration.frames - first);
      pixels_.resize(static_cast<std::size_t>(frames) * size);
      hdf5::read_box(opened, H5T_NATIVE_UINT8, {static_cast<hsize_t>(first), 0, 0, 0},
                     {static_cast<hsize_t>(frames), static_cast<hsize_t>(camera.height),
                      static_cast<hsize_t>(camera.width), static_cast<hsize_t>(camera.channels)},
                     pixels_.data(), path_ + ": /" + dataset);
      for (std::int64_t frame = 0; frame < frames; ++frame) {
        const auto row = static_cast<std::size_t>(demonstration.first + first + frame);
        std::copy_n(pixels_.data() + static_cast<std::size_t>(frame) * size, size,
                    images_ + row * contents_.image_bytes + camera.first);
      }
      note_reading();
    }
  }

  const Config& config_;
  const DemonstrationContents& contents_;
  const std::string& path_;
  const DemonstrationFile file_;
  float* const rows_;
  std::uint8_t* const images_;
  std::vector<bool> bounded_;  // components of the action that are to lie in [-1, 1]
  std::vector<float> values_;
  std::vector<std::uint8_t> pixels_;
};

// Of the numbers, and of how they are divided.
std::int64_t checksum_of(const DemonstrationContents& contents, const void* numbers) {
  Fnv shape;
  if (contents.held_out > 0) shape.add(&contents.held_out, sizeof contents.held_out);
  for (const Demonstration& demonstration : contents.demonstrations)
    shape.add(&demonstration.frames, sizeof demonstration.frames);
  for (const DemonstrationContents::Key& key : contents.observations) {
    shape.add(key.name.data(), key.name.size());
    shape.add(&key.width, sizeof key.width);
  }
  for (const DemonstrationContents::Camera& camera : contents.cameras) {
    shape.add(camera.name.data(), camera.name.size());
    for (const int size : {camera.height, camera.width, camera.channels}) shape.add(&size, sizeof size);
  }
  std::uint64_t sum = std::stoull(shape.text(), nullptr, 16);
  constexpr std::size_t kPiece = std::size_t{1} << 26;  // bytes; from memory, or from the file of data.cache
  for (std::size_t at = 0; at < contents.bytes(); at += kPiece) {
    sum += words_checksum(static_cast<const char*>(numbers) + at, std::min(kPiece, contents.bytes() - at),
                          static_cast<std::int64_t>(at));
    note_progress();
  }
  return static_cast<std::int64_t>(sum);
}

}  // namespace

Demonstrations::Demonstrations(const Config& config, DemonstrationContents contents,
                               const std::string& directory)
    : contents_(std::move(contents)), memory_(std::make_unique<SharedMemory>(contents_.bytes(), directory)) {
  auto* const rows = static_cast<float*>(memory_->data());
  auto* const images = static_cast<std::uint8_t*>(memory_->data()) + contents_.row_bytes();
  const std::vector<Demonstration>& all = contents_.demonstrations;
  // (a file comes once more where some of it is held out)
  std::vector<std::string> paths;
  std::vector<std::size_t> first;  // demonstration of each, and one more: their number
  for (std::size_t d = 0; d < all.size(); ++d)
    if (d == 0 || all[d].path != all[d - 1].path) {
      paths.push_back(all[d].path);
      first.push_back(d);
    }
  first.push_back(all.size());
  read_demonstration_files(config, paths, [&](std::size_t file) {
    FrameReader reader(config, contents_, paths[file], rows, images);
    for (std::size_t d = first[file]; d < first[file + 1]; ++d) {
      reader.read(all[d]);
      note_reading();
    }
    return std::string();
  });
  checksum_ = checksum_of(contents_, rows);
}

}  // namespace maniple
