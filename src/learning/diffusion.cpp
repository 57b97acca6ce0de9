#include "src/learning/diffusion.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/log.hpp"
#include "src/learning/imitation_data.hpp"
#include "src/learning/parameter_average.hpp"

namespace maniple {
namespace {

constexpr int kNumMetrics = 1;  // the loss

int sequence_of(const Config& config, int actions) {
  return config.diffusion.prediction_horizon * actions;
}

int tiles_of_run(const UnetShape& shape, std::int64_t tiles) {
  return static_cast<int>(std::clamp<std::int64_t>(tiles, 1, ConditionalUnet<float>::good_run(shape)));
}

Numbers<float> on_device(const std::string& label, const std::vector<float>& values) {
  const Numbers<float> view(label, values.size());
  const auto host = Kokkos::create_mirror_view(view);
  std::copy(values.begin(), values.end(), host.data());
  Kokkos::deep_copy(view, host);
  return view;
}

// Of the tiles of a run, added as all totals are.
void add_losses(const Numbers<double>& sums, int tiles, bool exact, double* loss, double* inexact) {
  Kokkos::parallel_for(
      "maniple::add_losses", Kokkos::RangePolicy<ExecutionSpace>(0, 1), KOKKOS_LAMBDA(int) {
        for (int tile = 0; tile < tiles; ++tile)
          *inexact += exact ? add_exactly(&sums(tile), 1, loss) : add_fast(&sums(tile), 1, loss);
      });
}

}  // namespace

LearnerMemory Diffusion::memory(const Config& config, const EnvironmentSizes& sizes) {
  const UnetShape shape = unet_shape(config, sizes.observations, sizes.actions);
  const std::int64_t parameters = ConditionalUnet<float>::parameters(shape);
  const int sequence = sequence_of(config, sizes.actions), run = tiles_of_run(shape, sizes.tiles);
  LearnerMemory memory = Optimizer::memory(config.learning, parameters, kNumMetrics, 1);
  const std::size_t copies = config.learning.ema ? 2 : 1;
  memory.network_bytes += ConditionalUnet<float>::bytes(shape, run, true) +
                          DiffusionPolicy::bytes(config, sizes.observations, sizes.actions, 1) +
                          (copies - 1) * sizeof(float) * static_cast<std::size_t>(parameters);
  memory.snapshot_bytes += copies * sizeof(float) * static_cast<std::size_t>(parameters);
  memory.batch_bytes +=
      sizeof(float) * kTileWidth *
      (static_cast<std::size_t>(sizes.tiles * (config.data.prefetch + 2)) *
           static_cast<std::size_t>(SequenceLayout(sequence, shape.condition).elements) +
       static_cast<std::size_t>(run) * static_cast<std::size_t>(DenoisingLayout(sequence).elements));
  return memory;
}

Diffusion::Diffusion(const Demonstrations& demonstrations, const Config& config, Collectives& collectives)
    : demonstrations_(demonstrations),
      config_(config),
      collectives_(collectives),
      windows_(config, demonstrations.contents(), window_shape(config)),
      sampler_(make_sampler(config, windows_)),
      policy_(config, demonstrations.contents().observation_width, demonstrations.contents().action_width,
              config.task.present ? (config.batch.num_envs + kTileWidth - 1) / kTileWidth : 1),
      data_(sequence_of(config, demonstrations.contents().action_width), policy_.shape().condition),
      layout_(sequence_of(config, demonstrations.contents().action_width)),
      unet_(policy_.shape(), tiles_of_run(policy_.shape(), most_tiles_of_batch(config, collectives.size())),
            true),
      sum_(collectives, 1, clock_),
      optimizer_(config.learning, unet_.parameters(), kNumMetrics, 1),
      parameters_(policy_.parameters()),
      samples_("maniple::demonstrated_sequences",
               static_cast<std::size_t>(most_tiles_of_batch(config, collectives.size()) * data_.elements *
                                        kTileWidth)),
      blocks_("maniple::denoising_blocks",
              static_cast<std::size_t>(unet_.most_tiles() * layout_.elements * kTileWidth)),
      signal_(on_device("maniple::noise_schedule_signal", policy_.schedule().signal())),
      noise_(on_device("maniple::noise_schedule_noise", policy_.schedule().noise())),
      sums_("maniple::denoising_losses", static_cast<std::size_t>(unet_.most_tiles())),
      checksum_(demonstrations.checksum()),
      batch_size_(config.learning.batch_size),
      places_(sampler_.samples_per_epoch()) {
  info(epoch_text(config, demonstrations.contents(), sampler_, collectives.size()));
  policy_.set_units(units_of(config, demonstrations));
  if (config.learning.ema) {
    parameters_ = Numbers<float>("maniple::learned_parameters", policy_.parameters().extent(0));
    Kokkos::deep_copy(parameters_, policy_.parameters());
  }
  parameters_host_ = Kokkos::create_mirror_view(parameters_);
  for (const char* stage : {"loader", "update", "communication"}) clock_.add(stage, 0.0);
}

void Diffusion::learn(const LoadedBatch& batch, double* totals) {
  const bool exact = config_.learning.reduction == Reduction::exact;
  using Host = Kokkos::View<const float*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  Kokkos::deep_copy(Kokkos::subview(samples_, std::make_pair(std::size_t{0}, batch.blocks.size())),
                    Host(batch.blocks.data(), batch.blocks.size()));
  double* const loss = totals + unet_.parameters();
  double* const inexact = loss + kNumMetrics;
  for (std::int64_t first = 0; first < batch.partition.tiles; first += unet_.most_tiles()) {
    const int tiles =
        static_cast<int>(std::min<std::int64_t>(batch.partition.tiles - first, unet_.most_tiles()));
    const float* const samples = samples_.data() + first * data_.elements * kTileWidth;
    const AddNoise<float> add_noise{.data = data_,
                                    .layout = layout_,
                                    .samples = samples,
                                    .blocks = blocks_.data(),
                                    .signal = signal_.data(),
                                    .noise = noise_.data(),
                                    .steps = policy_.schedule().steps(),
                                    .prediction = config_.diffusion.prediction == PredictionChoice::epsilon
                                                      ? NoisePrediction::epsilon
                                                      : NoisePrediction::sample,
                                    .seed = config_.batch.seed,
                                    .update = static_cast<std::uint32_t>(step_),
                                    .first_sample = batch.partition.first_env() + first * kTileWidth};
    for_tiles("maniple::add_noise", tiles, tile_workers(tiles), add_noise);
    const std::int64_t distance = std::int64_t{layout_.elements} * kTileWidth;
    const auto part = [&](int element) { return blocks_.data() + element * kTileWidth; };
    const UnetInput<float> input{
        .tiles = tiles,
        .noisy = {part(layout_.noisy), distance},
        .step = {part(layout_.step), distance},
        .condition = {samples + data_.condition * kTileWidth, std::int64_t{data_.elements} * kTileWidth}};
    unet_.forward(parameters_, input, {part(layout_.prediction), distance});
    const DenoisingLoss<float> denoising_loss{.data = data_,
                                              .layout = layout_,
                                              .samples = samples,
                                              .blocks = blocks_.data(),
                                              .scale = 1.0 / static_cast<double>(batch.batch.samples),
                                              .sums = sums_.data()};
    for_tiles("maniple::denoising_loss", tiles, tile_workers(tiles), denoising_loss);
    add_losses(sums_, tiles, exact, loss, inexact);
    unet_.backward(parameters_, input, {part(layout_.delta), distance}, exact, totals, inexact);
  }
}

void Diffusion::lay_sample(const DataUnits& units, std::int64_t sample, std::vector<std::int64_t>& rows,
                           float* to) const {
  const DemonstrationContents& contents = demonstrations_.contents();
  const auto seen = static_cast<std::size_t>(contents.observation_width);
  const auto done = static_cast<std::size_t>(contents.action_width);
  windows_.rows(sample, rows.data());
  float* action = to + data_.action * kTileWidth;
  float* condition = to + data_.condition * kTileWidth;
  for (std::size_t frame = 0; frame < rows.size(); ++frame) {
    const float* const row = demonstrations_.row(rows[frame]);
    for (std::size_t k = 0; k < done; ++k, action += kTileWidth)
      *action = (row[seen + k] - units.action_mean[k]) / units.action_scale[k];
    if (frame >= static_cast<std::size_t>(config_.diffusion.observation_horizon)) continue;
    for (std::size_t i = 0; i < seen; ++i, condition += kTileWidth)
      *condition = (row[i] - units.observation_mean[i]) * units.observation_scale[i];
  }
  to[data_.weight * kTileWidth] = 1;
}

void Diffusion::average() {
  if (!config_.learning.ema) return;
  average_parameters<float>(average_decay(config_.learning, averaged_), parameters_, policy_.parameters());
  ++averaged_;
}

IterationReport Diffusion::iterate(const std::function<void()>& between_steps) {
  const LearningConfig& learning = config_.learning;
  if (!loader_) {
    DemonstratedLayout block;
    block.elements = data_.elements;
    BatchLoader::Input input{.demonstrations = demonstrations_,
                             .windows = windows_,
                             .sampler = sampler_,
                             .units = policy_.units(),
                             .layout = block,
                             .shape = {},
                             .rank = collectives_.rank(),
                             .ranks = collectives_.size(),
                             .parts = learning.accumulate};
    const auto frames = static_cast<std::size_t>(config_.diffusion.prediction_horizon);
    input.lay = [this, units = policy_.units(), rows = std::vector<std::int64_t>(frames)](
                    std::int64_t sample, float* to) mutable { lay_sample(units, sample, rows, to); };
    loader_ = std::make_unique<BatchLoader>(input, step_, learning.steps, config_.data.prefetch);
  }
  Sums sums;
  const double waited = clock_.seconds("loader");
  optimizer_.anneal(iteration_);
  const std::int64_t end = std::min(learning.steps, (iteration_ + 1) * learning.report_every);
  for (; step_ < end; ++step_) {
    double* const totals = optimizer_.clear_totals();
    for (std::int64_t part = 0; part < learning.accumulate; ++part) {
      LoadedBatch batch = [&] {
        const StageClock::Region region(clock_, "loader");
        return loader_->next();
      }();
      {
        const StageClock::Region region(clock_, "update");
        learn(batch, totals);
      }
      loader_->give_back(std::move(batch));
    }
    between_steps();
    const std::vector<double> metrics = optimizer_.sum_totals(sum_);
    const StageClock::Region region(clock_, "update");
    optimizer_.anneal_update(step_);
    const std::optional<double> norm = optimizer_.step(parameters_);
    if (norm) average();
    ++sums.updates;
    sums.loss += metrics[0];
    sums.gradient_norm += norm.value_or(0);
    sums.skipped += norm ? 0 : 1;
  }
  ++iteration_;
  auto nanoseconds = static_cast<std::int64_t>(1e9 * (clock_.seconds("loader") - waited));
  collectives_.max(&nanoseconds, 1);
  sums.waited = 1e-9 * static_cast<double>(nanoseconds);
  if (sums.skipped > 0)
    warn(fmt::format("{} of {} updates of iteration {} made no step: their sums are not finite or too large",
                     sums.skipped, sums.updates, iteration_));
  return report(sums);
}

IterationReport Diffusion::report(const Sums& sums) const {
  IterationReport result;
  const auto add = [&](const std::string& name, const std::string& unit, const std::string& description,
                       double value, bool reproducible = true) {
    result.values.push_back({name, unit, description, value, reproducible});
  };
  const double updates = std::max(1.0, static_cast<double>(sums.updates));
  const double epoch = static_cast<double>(step_) / static_cast<double>(sampler_.batches_per_epoch());
  result.summary = fmt::format("loss {:.5g}  epoch {:.2f}", sums.loss / updates, epoch);
  add("iteration", "1", "iterations done", static_cast<double>(iteration_));
  add("updates", "1", "updates done", static_cast<double>(step_));
  add("epoch", "1", "passes over the data done", epoch);
  add("loss", "1", "mean squared error of what is predicted, mean over the iteration's updates",
      sums.loss / updates);
  add("gradient_norm", "1", "before clipping, mean over the steps made",
      sums.gradient_norm / std::max(1.0, static_cast<double>(sums.updates - sums.skipped)));
  add("learning_rate", "1", "at the end", optimizer_.learning_rate());
  add("ema_decay", "1", "what the last step left of the averages that act",
      config_.learning.ema && averaged_ > 0 ? average_decay(config_.learning, averaged_ - 1) : 0);
  add("skipped_minibatches", "1", "updates without a step: sums not finite or too large to be exact",
      static_cast<double>(sums.skipped));
  add("loader_wait", "s",
      "in which the updates of the iteration waited for data, on the rank that waited longest", sums.waited,
      false);
  return result;
}

IterationReport Diffusion::report_names() const {
  IterationReport names = report(Sums());
  for (auto& value : names.values) value.value = 0;
  return names;
}

Learner::Work Diffusion::work_per_iteration() const {
  return {static_cast<double>(config_.learning.report_every * config_.learning.batch_size), "samples"};
}

void Diffusion::describe(Archive& archive) {
  policy_.describe(archive);
  if (config_.learning.ema) {
    Kokkos::deep_copy(parameters_host_, parameters_);
    archive.replicated("imitation/parameters", parameters_host_.data(), parameters_host_.extent(0), "1",
                       "that learn, of which the policy has the averages; in the order of the moments");
    archive.replicated("imitation/averaged_steps", &averaged_, 1, "1", "steps that the averages followed");
  }
  optimizer_.describe(archive, "imitation");
  archive.replicated("imitation/updates", &step_, 1, "1", "updates done");
  archive.replicated("imitation/iteration", &iteration_, 1, "1", "iterations done");
  archive.replicated("imitation/data_checksum", &checksum_, 1, "1", "of the demonstrations");
  archive.replicated("imitation/batch_size", &batch_size_, 1, "samples", "of an update");
  archive.replicated("imitation/epoch_samples", &places_, 1, "samples", "of an epoch");
}

void Diffusion::restored() {
  check_position(config_, {checksum_, batch_size_, places_},
                 {demonstrations_.checksum(), config_.learning.batch_size, sampler_.samples_per_epoch()});
  policy_.restored();
  if (config_.learning.ema) Kokkos::deep_copy(parameters_, parameters_host_);
  optimizer_.restored();
}

void Diffusion::describe_learned(Archive& archive, bool to_go_on) {
  policy_.describe(archive);
  if (to_go_on) optimizer_.describe_moments(archive, "imitation");
}

void Diffusion::warm_started(const std::vector<std::string>&) {
  policy_.restored();
  if (config_.learning.ema) Kokkos::deep_copy(parameters_, policy_.parameters());
  optimizer_.restored();
}

}  // namespace maniple
