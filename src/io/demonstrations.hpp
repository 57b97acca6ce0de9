// Demonstrations from files in the layouts of robomimic, Minari and DROID (HDF5). A child process reads a
// file once at the start of a run, demonstration by demonstration, because HDF5 may crash on a bad file. All
// numbers then lie in memory or, where memory does not suffice, in one plain file: a row for each frame, and
// behind the rows the images, byte by byte as the files have them. So every frame is read equally fast,
// however the files are chunked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/config/config.hpp"
#include "src/io/demonstration_contents.hpp"
#include "src/io/isolated.hpp"

namespace maniple {

class Demonstrations {
 public:
  // Reads them. InputError, which names demonstration and frame, where a number is not finite, or an action
  // beyond [-1, 1] that is not normalized. `directory`: of a file that holds the rows; "": in memory.
  Demonstrations(const Config& config, DemonstrationContents contents, const std::string& directory = "");

  const DemonstrationContents& contents() const { return contents_; }
  // [row_width()]
  const float* row(std::int64_t frame) const {
    return static_cast<const float*>(memory_->data()) + frame * contents_.row_width();
  }
  // [height][width][channels]
  const std::uint8_t* image(std::int64_t frame, const DemonstrationContents::Camera& camera) const {
    return static_cast<const std::uint8_t*>(memory_->data()) + contents_.row_bytes() +
           static_cast<std::size_t>(frame) * contents_.image_bytes + camera.first;
  }
  // Of all numbers, and of how they are divided.
  std::int64_t checksum() const { return checksum_; }

 private:
  DemonstrationContents contents_;
  std::unique_ptr<SharedMemory> memory_;
  std::int64_t checksum_ = 0;
};

}  // namespace maniple
