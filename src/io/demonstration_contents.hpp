// The contents of files of demonstrations: observations, cameras, actions, and the frames of each
// demonstration. They are known before any number is read (demonstrations.hpp), so that a run can say what it
// learns from and what memory that takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/config/config.hpp"

namespace maniple {

struct Demonstration {
  std::string name;         // in its file; "": the file is the demonstration
  int file = 0;             // of data.file, which has the file or names it
  std::int64_t first = 0;   // row of its first frame
  std::int64_t frames = 0;  // at least one
  std::string path = "";    // of its file
};

struct DemonstrationContents {
  struct Key {
    std::string name;
    int first = 0, width = 0;  // of its numbers in a row
  };
  // A key of images, [height][width][channels] of each frame.
  struct Camera {
    std::string name;
    int height = 0, width = 0, channels = 0;
    std::size_t first = 0;  // of its bytes in a frame's images

    std::size_t bytes() const {
      return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
             static_cast<std::size_t>(channels);
    }
  };
  std::vector<Key> observations;  // that are vectors
  std::vector<Camera> cameras;
  std::size_t image_bytes = 0;  // of a frame, of all cameras
  int observation_width = 0;    // of all vectors together: a row is [observation, action]
  int action_width = 0;
  // To learn from: of the first file, by number, then of the next; then likewise those that are held out.
  std::vector<Demonstration> demonstrations;
  std::size_t held_out = 0;          // demonstrations of data.validation_filter
  std::size_t unused = 0;            // demonstrations of the files that data.filter_key does not list
  std::vector<std::string> layouts;  // by file of data.file
  // Observations that are there and not among those taken, where data.observations names none: "flag (bool)",
  // those that only another file than the first has with its path.
  std::vector<std::string> left_out;
  std::int64_t frames = 0;          // of all
  std::int64_t learned_frames = 0;  // of those to learn from, the first ones

  int row_width() const { return observation_width + action_width; }
  std::size_t row_bytes() const {
    return static_cast<std::size_t>(frames) * static_cast<std::size_t>(row_width()) * sizeof(float);
  }
  std::size_t bytes() const { return row_bytes() + static_cast<std::size_t>(frames) * image_bytes; }
};

// Looks into the files of data.file. InputError, which names the key of the deck and the file, where one is
// damaged, has another layout, lacks an observation or a filter key, where filters have demonstrations in
// common, or where demonstrations do not have the same widths, or images the same sizes.
DemonstrationContents inspect_demonstrations(const Config& config);

}  // namespace maniple
