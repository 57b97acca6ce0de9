#include "src/learning/samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/base/permutation.hpp"
#include "src/base/counted.hpp"

namespace maniple {

namespace {

[[noreturn]] void refuse_short(const Config& config, const WindowShape& shape,
                               const Demonstration& demonstration, std::int64_t least) {
  std::vector<std::string> paddings;
  if (!shape.pad_stack && shape.stack > 1) paddings.push_back("data.pad_frame_stack: true");
  if (shape.padding_after() < shape.sequence - 1)
    paddings.push_back(config.learning.diffuses() ? "a larger diffusion.pad_after"
                                                  : "data.pad_sequence: true");
  const std::string& name = demonstration.name;  // none where the file is the demonstration
  throw InputError(config.where_of("data.file"), "data.file",
                   fmt::format("{}{}{} has {} frames", name, name.empty() ? "" : " of ", demonstration.path,
                               demonstration.frames),
                   fmt::format("allowed: at least {} without padding, or less with {}", least,
                               fmt::join(paddings, " or ")));
}

}  // namespace

Windows::Windows(const Config& config, const DemonstrationContents& contents, const WindowShape& shape)
    : demonstrations_(contents.demonstrations), shape_(shape), of_files_(contents.layouts.size(), 0) {
  first_.push_back(0);
  for (const Demonstration& demonstration : demonstrations_) {
    std::int64_t count = demonstration.frames;
    if (!shape.pad_stack) count -= shape.stack - 1;
    count -= shape.sequence - 1 - shape.padding_after();
    if (count < 1) {
      ++skipped_;
      skipped_frames_ += demonstration.frames;
      count = 0;
    }
    first_.push_back(first_.back() + count);
    if (first_.size() > demonstrations_.size() - contents.held_out + 1) continue;
    learned_ += count;
    of_files_[static_cast<std::size_t>(demonstration.file)] += count;
  }
  if (learned_ == 0 && !demonstrations_.empty())
    refuse_short(config, shape, demonstrations_.front(),
                 shape.frames() - (shape.pad_stack ? shape.stack - 1 : 0) - shape.padding_after());
}

void Windows::rows(std::int64_t sample, std::int64_t* rows) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), sample);
  const auto index = static_cast<std::size_t>(after - first_.begin()) - 1;
  const Demonstration& demonstration = demonstrations_[index];
  const std::int64_t oldest = sample - first_[index] - (shape_.pad_stack ? shape_.stack - 1 : 0);
  for (int i = 0; i < shape_.frames(); ++i)
    rows[i] = demonstration.first + std::clamp<std::int64_t>(oldest + i, 0, demonstration.frames - 1);
}

Sampler::Sampler(const std::vector<Source>& sources, std::uint32_t seed, std::int64_t batch_size,
                 bool drop_last)
    : seed_(seed), batch_size_(batch_size) {
  std::int64_t first = 0;
  for (const Source& source : sources) {
    const auto places =
        static_cast<std::int64_t>(std::llround(source.weight * static_cast<double>(source.samples)));
    parts_.push_back({first, source.samples, places_, places});
    first += source.samples;
    places_ += places;
  }
  batches_ = drop_last ? places_ / batch_size : (places_ + batch_size - 1) / batch_size;
}

Sampler::Batch Sampler::batch(std::int64_t step) const {
  const std::int64_t first = step % batches_ * batch_size_;
  return {step / batches_, first, std::min(batch_size_, places_ - first)};
}

std::int64_t Sampler::sample(std::int64_t epoch, std::int64_t place) const {
  const std::int64_t dealt = permuted(place, places_, seed_, static_cast<std::uint32_t>(epoch));
  auto part = std::upper_bound(parts_.begin(), parts_.end(), dealt,
                               [](std::int64_t p, const Part& row) { return p < row.first_place; });
  --part;
  const std::int64_t within = dealt - part->first_place;
  if (part->places == part->samples) return part->first_sample + within;
  // the file's samples, over and over, each time in another order
  const std::int64_t running = epoch * part->places + within;
  const auto stream = static_cast<std::uint32_t>(1 + (part - parts_.begin()));
  return part->first_sample + permuted(running % part->samples, part->samples, seed_,
                                       static_cast<std::uint32_t>(running / part->samples), stream);
}

WindowShape window_shape(const Config& config) {
  if (config.learning.diffuses())
    return {.stack = config.diffusion.observation_horizon,
            .sequence = config.diffusion.prediction_horizon - config.diffusion.observation_horizon + 1,
            .pad_stack = config.data.pad_frame_stack,
            .most_padding_after = config.diffusion.pad_after};
  const bool recurrent = config.policy.recurrent != Recurrence::none;
  return {.stack = config.data.frame_stack,
          .sequence = recurrent ? config.policy.recurrent_horizon : 1,
          .pad_stack = config.data.pad_frame_stack,
          .pad_sequence = config.data.pad_sequence};
}

Sampler make_sampler(const Config& config, const Windows& windows) {
  constexpr double kMostSamples = 1e12;  // of an epoch
  std::vector<Sampler::Source> sources;
  const std::vector<double>& weights = config.data.weights.numbers;
  double total = 0;
  for (const std::int64_t samples : windows.samples_of_files()) {
    const double weight = weights.size() == 1 ? weights[0] : weights[sources.size()];
    const double places = weight * static_cast<double>(samples);
    if (samples == 0) {  // all of its demonstrations are too short
      sources.push_back({0, weight});
      continue;
    }
    total += places;
    if (!(places >= 0.5 && total <= kMostSamples))
      throw InputError(
          config.where_of("data.weights"), "data.weights",
          fmt::format("found {:g} for the {} of {}", weight, counted(samples, "sample"),
                      config.data.file[sources.size()]),
          fmt::format("allowed: weights that give an epoch one sample of each file at least, and {:g} in all "
                      "at most",
                      kMostSamples));
    sources.push_back({samples, weight});
  }
  return Sampler(sources, config.batch.seed, config.learning.batch_size, config.data.drop_last);
}

void check_batch(const Config& config, const Sampler& sampler, int ranks) {
  const std::int64_t batch = config.learning.batch_size;
  if (batch > sampler.samples_per_epoch())
    throw InputError(
        config.where_of("learning.batch_size"), "learning.batch_size", fmt::format("found {}", batch),
        fmt::format("allowed: at most {}, the samples of an epoch", sampler.samples_per_epoch()));
  if (batch < ranks)
    throw InputError(config.where_of("learning.batch_size"), "learning.batch_size",
                     counted(batch, "sample") + " on " + counted(ranks, "rank"),
                     "at least one sample per rank");
}

std::string epoch_text(const Config& config, const DemonstrationContents& contents, const Windows& windows,
                       const Sampler& sampler) {
  std::string text =
      fmt::format("{}, {}, {} of {} per epoch",
                  counted(contents.demonstrations.size() - contents.held_out, "demonstration"),
                  counted(sampler.samples_per_epoch(), "sample"),
                  counted(sampler.batches_per_epoch(), "batch", "batches"), config.learning.batch_size);
  if (contents.held_out > 0)
    text += fmt::format("; {} held out", counted(contents.held_out, "demonstration"));
  if (contents.unused > 0)
    text += fmt::format("; {} of the files not in data.filter_key ({}), left out",
                        counted(contents.unused, "demonstration"), config.data.filter_key);
  const std::int64_t left = sampler.samples_per_epoch() % config.learning.batch_size;
  if (config.data.drop_last && left > 0)
    text += fmt::format("; {} of each epoch fill no batch and are left out (data.drop_last)",
                        counted(left, "sample"));
  if (contents.held_out > 0 && config.learning.steps < sampler.batches_per_epoch())
    text += fmt::format("; no validation_loss, since learning.steps ({}) end before the first epoch does",
                        config.learning.steps);
  if (windows.skipped() > 0)
    text += fmt::format("; {} ({}) of these too short, left out", counted(windows.skipped(), "demonstration"),
                        counted(windows.skipped_frames(), "frame"));
  return text;
}

Config fit_batch(Config given, const DemonstrationContents& contents, int ranks) {
  LearningConfig& learning = given.learning;
  if (given.where.contains("learning.batch_size")) return given;
  const std::int64_t samples =
      make_sampler(given, Windows(given, contents, window_shape(given))).samples_per_epoch();
  const std::int64_t parts = learning.accumulate * (learning.batch_per_rank ? ranks : 1);
  const std::int64_t fitting = std::min(learning.batch_size, samples / parts);
  if (fitting == learning.batch_size || fitting == 0) return given;
  given.notes.push_back(
      fmt::format("learning.batch_size: using {} instead of the default {}, because an epoch has {}{}",
                  fitting, learning.batch_size, counted(samples, "sample"),
                  parts > 1 ? fmt::format(" for {} such batches", parts) : ""));
  learning.batch_size = fitting;
  return given;
}

}  // namespace maniple
