#include "src/learning/imitation_learner.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.hpp"
#include "src/base/log.hpp"
#include "src/learning/evaluation.hpp"
#include "src/learning/sample_blocks.hpp"
#include "src/parallel/partition.hpp"
#include "src/simulation/environment_blocks.hpp"

namespace maniple {

RankTiles::RankTiles(const Config& config, int ranks) : block(block_of_samples(config.learning)) {
  of_batch =
      most_tiles(Partition(config.learning.batch_size, 0, 1, block), ranks, config.learning.accumulate);
  if (config.task.present && config.evaluation.every > 0)
    acting = most_tiles(environments_of(config, periodic_evaluation_environments(config), 0, 1), ranks);
}

std::int64_t ImitationLearner::iterations(const LearningConfig& config) {
  return (config.steps + config.report_every - 1) / config.report_every;
}

ImitationLearner::ImitationLearner(const Demonstrations& demonstrations, const Config& config,
                                   Collectives& collectives, Make make)
    : demonstrations_(demonstrations),
      config_(config),
      collectives_(collectives),
      windows_(config, demonstrations.contents(), window_shape(config)),
      sampler_(make_sampler(config, windows_)),
      tiles_(config, collectives.size()),
      model_(make(demonstrations, config_, tiles_)),
      sample_blocks_(model_->sample_blocks()),
      sum_(collectives, model_->workers(), clock_),
      optimizer_(config.learning, static_cast<std::int64_t>(model_->parameters().extent(0)),
                 static_cast<int>(model_->losses().size()), model_->workers()),
      blocks_("maniple::demonstrated_blocks",
              static_cast<std::size_t>(sample_blocks_.steps * tiles_.of_batch * sample_blocks_.elements *
                                       kTileWidth)),
      images_("maniple::demonstrated_images",
              static_cast<std::size_t>(tiles_.of_batch * sample_blocks_.pixels * kTileWidth)),
      checksum_(demonstrations.checksum()),
      batch_size_(config.learning.batch_size),
      places_(sampler_.samples_per_epoch()) {
  check_batch(config, sampler_, collectives.size());
  optimizer_.keep_within(model_->bounds());
  info(epoch_text(config, demonstrations.contents(), windows_, sampler_));
  for (const char* stage : {"loader", "update", "communication"}) clock_.add(stage, 0.0);
}

IterationReport ImitationLearner::iterate(const std::function<void()>& between_steps) {
  const LearningConfig& learning = config_.learning;
  if (!loader_)
    loader_ = std::make_unique<BatchLoader>(BatchLoader::Input{.sampler = sampler_,
                                                               .windows = windows_,
                                                               .blocks = sample_blocks_,
                                                               .rank = collectives_.rank(),
                                                               .ranks = collectives_.size(),
                                                               .block = tiles_.block,
                                                               .parts = learning.accumulate,
                                                               .tiles = tiles_.of_batch},
                                            step_, learning.steps, config_.data.prefetch);
  Sums sums;
  sums.losses.resize(model_->losses().size());
  const double waited = clock_.seconds("loader");
  const std::int64_t end = std::min(learning.steps, (iteration_ + 1) * learning.report_every);
  for (; step_ < end; ++step_) {
    double* const totals = optimizer_.clear_totals();
    for (std::int64_t part = 0; part < learning.accumulate; ++part) {
      std::unique_ptr<LoadedBatch> batch = [&] {
        const StageClock::Region region(clock_, "loader");
        return loader_->next();
      }();
      {
        const StageClock::Region region(clock_, "update");
        learn(*batch, step_, totals);
      }
      loader_->give_back(std::move(batch));
    }
    between_steps();
    const std::vector<double> losses = optimizer_.sum_totals(sum_);
    const std::optional<double> norm = [&] {
      const StageClock::Region region(clock_, "update");
      optimizer_.anneal(iteration_, step_);
      std::optional<double> made = optimizer_.step(model_->parameters());
      if (made) model_->stepped();
      return made;
    }();
    ++sums.updates;
    for (std::size_t i = 0; i < sums.losses.size(); ++i) sums.losses[i] += losses[i];
    sums.gradient_norm += norm.value_or(0);
    sums.skipped += norm ? 0 : 1;
    check_steps(norm.has_value());
    if (windows_.held_out_samples() > 0 && (step_ + 1) % sampler_.batches_per_epoch() == 0)
      validation_loss_ = validation_loss(between_steps);
  }
  ++iteration_;
  auto nanoseconds = static_cast<std::int64_t>(1e9 * (clock_.seconds("loader") - waited));
  collectives_.max(&nanoseconds, 1);
  sums.waited = 1e-9 * static_cast<double>(nanoseconds);
  if (sums.skipped > 0)
    warn(
        fmt::format("{} of {} updates of iteration {} made no step: their sums are not finite or too large; "
                    "if this goes on, use a smaller learning.learning_rate, or learning.max_grad_norm",
                    sums.skipped, sums.updates, iteration_));
  return report(sums);
}

void ImitationLearner::learn(const LoadedBatch& batch, std::int64_t update, double* totals) {
  const auto numbers = std::make_pair(std::size_t{0}, batch.numbers);
  Kokkos::deep_copy(Kokkos::subview(blocks_, numbers), Kokkos::subview(batch.blocks, numbers));
  const auto pixels = std::make_pair(std::size_t{0}, batch.pixels);
  Kokkos::deep_copy(Kokkos::subview(images_, pixels), Kokkos::subview(batch.images, pixels));
  model_->learn(batch, blocks_.data(), images_.data(), update, optimizer_.scale(), totals);
}

double ImitationLearner::validation_loss(const std::function<void()>& between_steps) {
  const std::int64_t samples = windows_.held_out_samples();
  // one batch of all, whose samples have the same places each time
  const Sampler sampler({{.samples = samples}}, config_.batch.seed, samples, false);
  SampleBlocks blocks = sample_blocks_;
  blocks.lay_images = [lay = sample_blocks_.lay_images](const SampleBlocks::Rows& rows, std::int64_t,
                                                        std::int64_t place,
                                                        std::uint8_t* to) { lay(rows, kHeldOut, place, to); };
  // as many on each rank, since all ranks may leave between two; those of some are empty
  const std::int64_t tiles = most_tiles(Partition(samples, 0, 1, tiles_.block), collectives_.size());
  const std::int64_t parts = (tiles + tiles_.of_batch - 1) / tiles_.of_batch;
  double* const totals = optimizer_.clear_totals();
  BatchLoader loader({.sampler = sampler,
                      .windows = windows_,
                      .first_sample = windows_.samples(),
                      .blocks = blocks,
                      .rank = collectives_.rank(),
                      .ranks = collectives_.size(),
                      .block = tiles_.block,
                      .parts = parts,
                      .tiles = tiles_.of_batch},
                     0, 1, 1);
  for (std::int64_t part = 0; part < parts; ++part) {
    {
      const StageClock::Region region(clock_, "validation");
      std::unique_ptr<LoadedBatch> batch = loader.next();
      learn(*batch, kHeldOut, totals);
      loader.give_back(std::move(batch));
    }
    between_steps();
  }
  return optimizer_.sum_totals(sum_).front();
}

void ImitationLearner::check_steps(bool stepped) {
  constexpr std::int64_t kLeast = 100;  // updates that say so, however short an epoch is
  skipped_ = stepped ? 0 : skipped_ + 1;
  const std::int64_t steps = config_.learning.steps;
  const bool whole_run = step_ + 1 == steps && skipped_ == steps;
  if (skipped_ < sampler_.batches_per_epoch() || (skipped_ < kLeast && !whole_run)) return;
  throw Error(fmt::format(
      "none of the last {} updates made a step: sums of losses and gradients are not finite or too large to "
      "be exact; set data.normalize_observations and data.normalize_actions for data of large size, and a "
      "smaller learning.learning_rate where parameters grow",
      skipped_));
}

IterationReport ImitationLearner::report(const Sums& sums) const {
  IterationReport result;
  const auto add = [&](const std::string& name, const std::string& unit, const std::string& description,
                       double value, bool reproducible = true) {
    result.values.push_back({name, unit, description, value, reproducible});
  };
  const double updates = std::max(1.0, static_cast<double>(sums.updates));
  const double epoch = static_cast<double>(step_) / static_cast<double>(sampler_.batches_per_epoch());
  add("iteration", "1", "iterations done", static_cast<double>(iteration_));
  add("updates", "1", "updates done", static_cast<double>(step_));
  add("epoch", "1", "passes over the data done", epoch);
  std::vector<IterationReport::Value> losses = model_->losses();
  for (std::size_t i = 0; i < losses.size(); ++i) {
    losses[i].value = sums.losses[i] / updates;
    result.values.push_back(losses[i]);
  }
  result.summary = fmt::format("loss {:.5g}  epoch {:.2f}", losses.front().value, epoch);
  if (windows_.held_out_samples() > 0) {
    add("validation_loss", losses.front().unit,
        "loss over the demonstrations that are held out, after the latest epoch; NaN before the first",
        validation_loss_);
    if (!std::isnan(validation_loss_))
      result.summary += fmt::format("  validation loss {:.5g}", validation_loss_);
  }
  add("gradient_norm", "1", "before clipping, mean over the steps made",
      sums.gradient_norm / std::max(1.0, static_cast<double>(sums.updates - sums.skipped)));
  add("learning_rate", "1", "at the end", optimizer_.learning_rate());
  for (const IterationReport::Value& value : model_->values()) result.values.push_back(value);
  add("skipped_minibatches", "1", "updates without a step: sums not finite or too large to be exact",
      static_cast<double>(sums.skipped));
  add("loader_wait", "s",
      "in which the updates of the iteration waited for data, on the rank that waited longest", sums.waited,
      false);
  return result;
}

IterationReport ImitationLearner::report_names() const {
  Sums none;
  none.losses.resize(model_->losses().size());
  IterationReport names = report(none);
  for (auto& value : names.values) value.value = 0;
  return names;
}

Learner::Share ImitationLearner::share() const {
  return {
      Partition(config_.learning.batch_size, collectives_.rank(), collectives_.size(), tiles_.block).envs(),
      "samples of an update"};
}

Learner::Work ImitationLearner::work_per_iteration() const {
  return {static_cast<double>(config_.learning.report_every * config_.learning.batch_size), "samples"};
}

void ImitationLearner::describe(Archive& archive) {
  model_->describe(archive);
  optimizer_.describe(archive, "imitation");
  archive.replicated("imitation/updates", &step_, 1, "1", "updates done");
  archive.replicated("imitation/iteration", &iteration_, 1, "1", "iterations done");
  if (windows_.held_out_samples() > 0)
    archive.replicated("imitation/validation_loss", &validation_loss_, 1, "1",
                       "over the demonstrations that are held out, after the latest epoch");
  archive.replicated("imitation/data_checksum", &checksum_, 1, "1", "of the demonstrations");
  archive.replicated("imitation/batch_size", &batch_size_, 1, "samples", "of an update");
  archive.replicated("imitation/epoch_samples", &places_, 1, "samples", "of an epoch");
}

void ImitationLearner::restored() {
  const auto check = [&](const std::string& key, std::int64_t found, std::int64_t wanted,
                         const std::string& what) {
    if (found != wanted)
      throw InputError(config_.where_of(key), key, fmt::format("{} {}", what, wanted),
                       fmt::format("the checkpoint to continue from has {}", found));
  };
  check("data.file", checksum_, demonstrations_.checksum(), "demonstrations with the checksum");
  check(
      "learning.batch_size", batch_size_, config_.learning.batch_size,
      config_.learning.batch_per_rank || config_.learning.accumulate > 1 ? "an effective batch of" : "found");
  check("data.weights", places_, sampler_.samples_per_epoch(), "samples of an epoch:");
  model_->restored();
  optimizer_.restored();
}

void ImitationLearner::describe_warm_start(Archive& archive) {
  model_->policy().describe(archive);
  optimizer_.describe_moments(archive, "imitation");
}

void ImitationLearner::warm_started(const WarmStart&) {
  model_->warm_started();
  optimizer_.restored();
}

}  // namespace maniple
