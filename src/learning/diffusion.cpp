#include "src/learning/diffusion.hpp"

#include <algorithm>

#include "src/base/to_device.hpp"
#include "src/learning/parameter_average.hpp"

namespace maniple {
namespace {

constexpr int kNumMetrics = 1;  // the loss

int sequence_of(const Config& config, int actions) {
  return config.diffusion.prediction_horizon * actions;
}

// Adds the losses of the blocks of samples of a run, as all totals are added.
void add_losses(const Numbers<double>& sums, int blocks, bool exact, double* loss, double* inexact) {
  Kokkos::parallel_for(
      "maniple::add_losses", Kokkos::RangePolicy<ExecutionSpace>(0, 1), MANIPLE_LAMBDA(int) {
        for (int block = 0; block < blocks; ++block)
          *inexact += exact ? add_exactly(&sums(block), 1, loss) : add_fast(&sums(block), 1, loss);
      });
}

// For the runs of tiles that the denoising network works on; null: there are no images.
std::unique_ptr<CameraEncoders> make_cameras(const Config& config, const DemonstrationContents& contents,
                                             std::int64_t tiles) {
  const std::vector<Camera> cameras = cameras_of(config, contents);
  if (cameras.empty()) return nullptr;
  const UnetShape shape =
      unet_shape(config, contents.observation_width + features_of(cameras), contents.action_width);
  return std::make_unique<CameraEncoders>(cameras, config.diffusion.observation_horizon,
                                          tiles_of_run(shape, tiles), config.learning.mixed());
}

}  // namespace

LearnerMemory Diffusion::memory(const Config& config, const EnvironmentSizes& sizes) {
  const int observations = sizes.observations + features_of(sizes.cameras),
            frames = config.diffusion.observation_horizon;
  const UnetShape shape = unet_shape(config, observations, sizes.actions);
  const std::int64_t of_cameras = CameraEncoders::parameters(sizes.cameras),
                     parameters = of_cameras + ConditionalUnet<float>::parameters(shape);
  const int sequence = sequence_of(config, sizes.actions), run = tiles_of_run(shape, sizes.tiles);
  LearnerMemory memory = Optimizer::memory(config.learning, parameters, kNumMetrics, 1);
  const std::size_t copies = config.learning.ema ? 2 : 1;
  memory.network_bytes += ConditionalUnet<float>::bytes(shape, run, true, config.learning.mixed()) +
                          DiffusionPolicy::bytes(config, observations, sizes.actions, sizes.acting_tiles) +
                          2 * sizeof(float) * static_cast<std::size_t>(of_cameras) +
                          (copies - 1) * sizeof(float) * static_cast<std::size_t>(parameters);
  memory.encoder_bytes = CameraEncoders::bytes(sizes.cameras, frames, run, config.learning.mixed());
  memory.snapshot_bytes += copies * sizeof(float) * static_cast<std::size_t>(parameters);
  memory.batch_bytes +=
      sizeof(float) * kTileWidth *
      (static_cast<std::size_t>(sizes.tiles * loaded_batches(config)) *
           static_cast<std::size_t>(SequenceLayout(sequence, shape.condition).elements) +
       static_cast<std::size_t>(run) * static_cast<std::size_t>(DenoisingLayout(sequence).elements));
  memory.batch_bytes += static_cast<std::size_t>(frames * sizes.tiles * kTileWidth * loaded_batches(config)) *
                        static_cast<std::size_t>(pixels_of(sizes.cameras));
  return memory;
}

Diffusion::Diffusion(const Demonstrations& demonstrations, const Config& config, const RankTiles& tiles)
    : demonstrations_(demonstrations),
      config_(config),
      cameras_(make_cameras(config, demonstrations.contents(), tiles.of_batch)),
      policy_(config, demonstrations.contents().observation_width, demonstrations.contents().action_width,
              tiles.acting, cameras_.get()),
      data_(sequence_of(config, demonstrations.contents().action_width), policy_.shape().condition),
      layout_(sequence_of(config, demonstrations.contents().action_width)),
      unet_(policy_.shape(), tiles_of_run(policy_.shape(), tiles.of_batch), true, config.learning.mixed()),
      parameters_(policy_.parameters()),
      blocks_("maniple::denoising_blocks",
              static_cast<std::size_t>(unet_.most_tiles() * layout_.elements * kTileWidth)),
      signal_(to_device("maniple::noise_schedule_signal", policy_.schedule().sqrt_alphas_cumprod())),
      noise_(to_device("maniple::noise_schedule_noise", policy_.schedule().sqrt_one_minus_alphas_cumprod())),
      sums_("maniple::denoising_losses",
            static_cast<std::size_t>(unet_.most_tiles() * kTileWidth / tiles.block)) {
  policy_.set_normalization(normalization_of(config, demonstrations));
  if (config.learning.ema) {
    parameters_ = Numbers<float>("maniple::learned_parameters", policy_.parameters().extent(0));
    Kokkos::deep_copy(parameters_, policy_.parameters());
  }
  parameters_host_ = Kokkos::create_mirror_view(parameters_);
  network_parameters_ = Kokkos::subview(
      parameters_,
      std::make_pair(static_cast<std::size_t>(policy_.first_of_network()), parameters_.extent(0)));
}

std::vector<IterationReport::Value> Diffusion::losses() const {
  return {{"loss", "1", "mean squared error of the prediction, mean over the iteration's updates"}};
}

SampleBlocks Diffusion::sample_blocks() const {
  using Rows = SampleBlocks::Rows;
  SampleBlocks blocks{.elements = data_.elements,
                      .lay = [this](const Rows& rows, float* block, std::size_t) { lay(rows, block); }};
  if (cameras_) {
    blocks.pixels = cameras_->frames() * pixels_of(cameras_->cameras());
    blocks.lay_images = [this](const Rows& rows, std::int64_t update, std::int64_t place,
                               std::uint8_t* first) {
      const Rows seen(rows.begin(), rows.begin() + cameras_->frames());
      maniple::lay_images(cameras_->cameras(), demonstrations_, seen, config_.batch.seed, update, place,
                          first);
    };
  }
  return blocks;
}

template <class Body>
void Diffusion::for_features(float* samples, const Body& body) const {
  const std::int64_t tile_stride = std::int64_t{data_.elements} * kTileWidth;
  int place = data_.condition;
  for (int frame = 0; frame < cameras_->frames(); ++frame) {
    place += demonstrations_.contents().observation_width;
    for (std::size_t camera = 0; camera < cameras_->cameras().size(); ++camera) {
      const int count = cameras_->cameras()[camera].encoder.features;
      body(cameras_->features(camera, frame),
           FeatureMap<float>{samples + place * kTileWidth, tile_stride, 1, count, count});
      place += count;
    }
  }
}

void Diffusion::learn(const LoadedBatch& batch, float* blocks, const std::uint8_t* images,
                      std::int64_t update, double scale, double* totals) {
  const bool exact = config_.learning.reduction == Reduction::exact;
  double* const loss = totals + parameters_.extent(0);
  double* const inexact = loss + kNumMetrics;
  const int block = batch.partition.block;
  for (std::int64_t first = 0; first < batch.partition.tiles; first += unet_.most_tiles()) {
    const int tiles =
        static_cast<int>(std::min<std::int64_t>(batch.partition.tiles - first, unet_.most_tiles()));
    float* const samples = blocks + first * data_.elements * kTileWidth;
    const TileSamples real{
        .block = block, .samples = batch.partition.envs() - first * kTileWidth, .first = 0, .maps = 1};
    const auto copy = [&](const FeatureMap<const float>& from, const FeatureMap<float>& to) {
      for_tiles("maniple::copy_map", tiles, tile_workers(tiles), CopyMap<float>{from, to});
    };
    const std::uint8_t* pixels = nullptr;
    if (cameras_) {
      pixels = images + first * cameras_->frames() * pixels_of(cameras_->cameras()) * kTileWidth;
      cameras_->encode(parameters_.data(), pixels, tiles, real);
      for_features(samples, copy);
    }
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
                                    .update = static_cast<std::uint32_t>(update),
                                    .first_sample = batch.partition.first_env() + first * kTileWidth};
    for_tiles("maniple::add_noise", tiles, tile_workers(tiles), add_noise);
    const std::int64_t tile_stride = std::int64_t{layout_.elements} * kTileWidth;
    const auto part = [&](int element) { return blocks_.data() + element * kTileWidth; };
    const UnetInput<float> input{
        .tiles = tiles,
        .noisy = {part(layout_.noisy), tile_stride},
        .step = {part(layout_.step), tile_stride},
        .condition = {samples + data_.condition * kTileWidth, std::int64_t{data_.elements} * kTileWidth},
        .samples = real};
    unet_.forward(network_parameters_, input, {part(layout_.prediction), tile_stride});
    const DenoisingLoss<float> denoising_loss{.data = data_,
                                              .layout = layout_,
                                              .samples = samples,
                                              .blocks = blocks_.data(),
                                              .real = real,
                                              .scale = scale / static_cast<double>(batch.batch.samples),
                                              .sums = sums_.data()};
    for_tiles("maniple::denoising_loss", tiles, tile_workers(tiles), denoising_loss);
    add_losses(sums_, tiles * (kTileWidth / block), exact, loss, inexact);
    if (update == kHeldOut) continue;
    TileRun<float> condition_delta;
    if (cameras_)
      condition_delta = {samples + data_.condition * kTileWidth, std::int64_t{data_.elements} * kTileWidth};
    unet_.backward(network_parameters_, input, {part(layout_.delta), tile_stride}, exact,
                   totals + policy_.first_of_network(), inexact, condition_delta);
    if (!cameras_) continue;
    for_features(samples, [&](const FeatureMap<float>& delta, const FeatureMap<float>& condition) {
      copy(condition, delta);
    });
    cameras_->backward(parameters_.data(), pixels, tiles, real, exact, totals, inexact);
  }
}

void Diffusion::lay(const SampleBlocks::Rows& rows, float* block) const {
  const DemonstrationContents& contents = demonstrations_.contents();
  const DataNormalization& normalization = policy_.normalization();
  const auto seen = static_cast<std::size_t>(contents.observation_width);
  const auto done = static_cast<std::size_t>(contents.action_width);
  float* action = block + data_.action * kTileWidth;
  float* condition = block + data_.condition * kTileWidth;
  const int features = cameras_ ? features_of(cameras_->cameras()) : 0;
  for (std::size_t frame = 0; frame < rows.size(); ++frame) {
    const float* const row = demonstrations_.row(rows[frame]);
    for (std::size_t k = 0; k < done; ++k, action += kTileWidth)
      *action = (row[seen + k] - normalization.action_mean[k]) / normalization.action_scale[k];
    if (frame >= static_cast<std::size_t>(config_.diffusion.observation_horizon)) continue;
    for (std::size_t i = 0; i < seen; ++i, condition += kTileWidth)
      *condition = (row[i] - normalization.observation_mean[i]) * normalization.observation_scale[i];
    condition += features * kTileWidth;
  }
  block[data_.weight * kTileWidth] = 1;
}

void Diffusion::stepped() {
  if (!config_.learning.ema) return;
  average_parameters<float>(average_decay(config_.learning, averaged_), parameters_, policy_.parameters());
  ++averaged_;
}

std::vector<IterationReport::Value> Diffusion::values() const {
  return {{"ema_decay", "1", "what the last step left of the averages that act",
           config_.learning.ema && averaged_ > 0 ? average_decay(config_.learning, averaged_ - 1) : 0}};
}

void Diffusion::describe(Archive& archive) {
  policy_.describe(archive);
  if (!config_.learning.ema) return;
  Kokkos::deep_copy(parameters_host_, parameters_);
  archive.replicated("imitation/parameters", parameters_host_.data(), parameters_host_.extent(0), "1",
                     "that learn, of which the policy has the averages; in the order of the moments");
  archive.replicated("imitation/averaged_steps", &averaged_, 1, "1", "steps that the averages followed");
}

void Diffusion::restored() {
  policy_.restored();
  if (config_.learning.ema) Kokkos::deep_copy(parameters_, parameters_host_);
}

void Diffusion::warm_started() {
  policy_.restored();
  if (config_.learning.ema) Kokkos::deep_copy(parameters_, policy_.parameters());
}

}  // namespace maniple
