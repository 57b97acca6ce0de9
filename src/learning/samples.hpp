// The frames of a sample of demonstrations, and the samples of a batch. Both are computed from numbers alone:
// any rank may ask for any part of any epoch, and gets the same.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "src/io/demonstrations.hpp"

namespace maniple {

// Samples as robomimic's SequenceDataset cuts them out of demonstrations: for each frame (without padding:
// each that has its neighbours) `stack` - 1 frames before it, itself, and `sequence` - 1 after it. Where a
// demonstration begins or ends within, its first or last frame is repeated.
struct WindowShape {
  int stack = 1, sequence = 1;
  bool pad_stack = true, pad_sequence = true;
  int most_padding_after = std::numeric_limits<int>::max();  // frames of a sample after the last frame

  int frames() const { return stack - 1 + sequence; }
  // Frames behind a demonstration's last that a sample may ask for.
  int padding_after() const { return pad_sequence ? std::min(sequence - 1, most_padding_after) : 0; }
};

class Windows {
 public:
  // Demonstrations that are too short without padding have no samples. InputError, with data.file's place in
  // the deck, where all to learn from are.
  Windows(const Config& config, const DemonstrationContents& contents, const WindowShape& shape);

  const WindowShape& shape() const { return shape_; }
  // How many are of demonstrations to learn from; the held out ones come behind these.
  std::int64_t samples() const { return learned_; }
  std::int64_t held_out_samples() const { return first_.back() - learned_; }
  // How many demonstrations are too short, and the frames of these.
  std::int64_t skipped() const { return skipped_; }
  std::int64_t skipped_frames() const { return skipped_frames_; }
  // By file, to learn from.
  const std::vector<std::int64_t>& samples_of_files() const { return of_files_; }
  // Rows of a sample's frames: [shape.frames()], the oldest first.
  void rows(std::int64_t sample, std::int64_t* rows) const;

 private:
  const std::vector<Demonstration> demonstrations_;
  const WindowShape shape_;
  std::vector<std::int64_t> first_;  // sample of each demonstration, and one more: their number
  std::int64_t learned_ = 0;         // samples
  std::int64_t skipped_ = 0, skipped_frames_ = 0;
  std::vector<std::int64_t> of_files_;
};

// The order of samples: each epoch takes every one once, in a permutation that (seed, epoch) choose. With a
// weight w, an epoch has w times as many samples of that file as there are, which come one permutation after
// the other, so that all of them come equally often.
class Sampler {
 public:
  struct Source {
    std::int64_t samples = 0;
    double weight = 1;
  };
  // `sources`: one after the other, as their samples are counted.
  Sampler(const std::vector<Source>& sources, std::uint32_t seed, std::int64_t batch_size, bool drop_last);

  std::int64_t samples_per_epoch() const { return places_; }
  std::int64_t batches_per_epoch() const { return batches_; }

  // The batch of an update, counted from 0 over all epochs: these places of that epoch.
  struct Batch {
    std::int64_t epoch = 0, first = 0, samples = 0;
  };
  Batch batch(std::int64_t step) const;
  // The sample at a place of an epoch.
  std::int64_t sample(std::int64_t epoch, std::int64_t place) const;

 private:
  struct Part {
    std::int64_t first_sample = 0, samples = 0;
    std::int64_t first_place = 0, places = 0;  // of an epoch, before it is permuted
  };
  std::vector<Part> parts_;
  const std::uint32_t seed_;
  const std::int64_t batch_size_;
  std::int64_t places_ = 0, batches_ = 0;
};

// What a deck makes of demonstrations: samples for a policy, with sequences where it is recurrent, and their
// order. InputError where a weight leaves a file out of an epoch, or makes it endless.
WindowShape window_shape(const Config& config);
Sampler make_sampler(const Config& config, const Windows& windows);
// InputError where a batch is larger than an epoch, or has fewer samples than there are ranks.
void check_batch(const Config& config, const Sampler& sampler, int ranks);
// "12 demonstrations, 250 samples, 3 batches of 100 per epoch; 2 demonstrations held out", and what of them
// is too short.
std::string epoch_text(const Config& config, const DemonstrationContents& contents, const Windows& windows,
                       const Sampler& sampler);
// `given` with a batch that an epoch of these demonstrations fills on this many ranks, where nobody gave one.
Config fit_batch(Config given, const DemonstrationContents& contents, int ranks);

}  // namespace maniple
