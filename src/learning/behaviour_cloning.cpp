#include "src/learning/behaviour_cloning.hpp"

#include "kernels/nn/bfloat16.hpp"
#include "src/learning/block_training.hpp"
#include "src/learning/policy_network.hpp"

namespace maniple {
namespace {

CloningLoss loss_of(ImitationLoss loss) {
  switch (loss) {
    case ImitationLoss::l2:
      return CloningLoss::l2;
    case ImitationLoss::l1:
      return CloningLoss::l1;
    case ImitationLoss::smooth_l1:
      return CloningLoss::smooth_l1;
    case ImitationLoss::gaussian:
      return CloningLoss::gaussian;
    case ImitationLoss::gmm:
      return CloningLoss::gmm;
  }
  return CloningLoss::l2;
}

PolicySizes sizes_of(const Config& config, const DemonstrationContents& contents) {
  PolicySizes sizes;
  sizes.observations =
      (contents.observation_width + features_of(cameras_of(config, contents))) * config.data.frame_stack;
  sizes.actions = contents.action_width;
  return sizes;
}

// (nvcc wants loops on the device outside of classes.)
void add_workers(const Numbers<double>& sums, int workers, std::int64_t count, double* totals) {
  Kokkos::parallel_for(
      "maniple::add_workers", Kokkos::RangePolicy<ExecutionSpace>(0, count), MANIPLE_LAMBDA(std::int64_t i) {
        for (int worker = 0; worker < workers; ++worker) totals[i] += sums(worker * count + i);
      });
}

// How many tiles' activations are there at a time: a worker's, or for the gradient by blocks all.
int kept_tiles(int block, std::int64_t tiles) {
  return block < kTileWidth ? static_cast<int>(tiles) : tile_workers(tiles);
}

// Calls body with a minibatch.
template <class Body>
void with_cloning([[maybe_unused]] const Config& config, const Policy& policy, int block, const Body& body) {
#ifdef MANIPLE_BFLOAT16
  if (config.learning.mixed()) return body(TrainMinibatch<float, BfloatDense, CloneActions<float>>());
#endif
  with_training<CloneActions<float>>(policy.uses_library(), block, body);
}

}  // namespace

LearnerMemory BehaviourCloning::memory(const Config& config, const EnvironmentSizes& sizes) {
  PolicySizes own;
  own.observations = sizes.observations + features_of(sizes.cameras) * config.data.frame_stack;
  own.actions = sizes.actions;
  const Network network = make_network(config, own);
  const std::int64_t tiles = sizes.tiles;
  const int workers = tile_workers(tiles);
  const std::int64_t parameters = CameraEncoders::parameters(sizes.cameras) + network.parameters;
  const int frames = window_shape(config).frames();
  LearnerMemory memory =
      Optimizer::memory(config.learning, parameters, kNumCloningMetrics, sizes.cameras.empty() ? workers : 1);
  if (!sizes.cameras.empty()) {
    memory.encoder_bytes = CameraEncoders::bytes(sizes.cameras, frames, tiles, config.learning.mixed());
    memory.network_bytes +=
        sizeof(float) * static_cast<std::size_t>(CameraEncoders::parameters(sizes.cameras)) +
        sizeof(double) *
            static_cast<std::size_t>(totals_workers(workers) * minibatch_totals(network, kNumCloningMetrics));
    memory.batch_bytes += static_cast<std::size_t>(frames * tiles * kTileWidth * loaded_batches(config)) *
                          static_cast<std::size_t>(pixels_of(sizes.cameras));
  }
  const int block = block_of_samples(config.learning);
  memory.network_bytes +=
      policy_bytes(config, network, kept_tiles(block, tiles)) +
      sizeof(float) * static_cast<std::size_t>(panel_elements(block, tiles, window_shape(config).sequence));
  memory.batch_bytes +=
      sizeof(float) *
      static_cast<std::size_t>(window_shape(config).sequence * tiles * kTileWidth * loaded_batches(config)) *
      static_cast<std::size_t>(DemonstratedLayout(network.sizes).elements);
  memory.snapshot_bytes += sizeof(float) * static_cast<std::size_t>(parameters);
  return memory;
}

BehaviourCloning::BehaviourCloning(const Demonstrations& demonstrations, const Config& config,
                                   const RankTiles& tiles)
    : demonstrations_(demonstrations),
      config_(config),
      shape_(window_shape(config)),
      cameras_(demonstrations.contents().cameras.empty()
                   ? nullptr
                   : std::make_unique<CameraEncoders>(cameras_of(config, demonstrations.contents()),
                                                      shape_.frames(), tiles.of_batch,
                                                      config.learning.mixed())),
      policy_(config, sizes_of(config, demonstrations.contents()), cameras_.get()),
      layout_(policy_.network().sizes),
      workers_(tile_workers(tiles.of_batch)),
      totals_("maniple::network_totals",
              cameras_ ? static_cast<std::size_t>(totals_workers(workers_) *
                                                  minibatch_totals(policy_.network(), kNumCloningMetrics))
                       : 0),
      first_states_(policy_.fresh_states(tiles.of_batch)),
      panels_("maniple::gradient_panels",
              static_cast<std::size_t>(panel_elements(tiles.block, tiles.of_batch, shape_.sequence))),
      order_("maniple::demonstrated_order", static_cast<std::size_t>(tiles.of_batch)) {
  policy_.set_normalization(normalization_of(config, demonstrations));
}

ParameterBounds BehaviourCloning::bounds() const {
  return config_.learning.loss == ImitationLoss::gaussian ? policy_.deviation_bounds() : ParameterBounds();
}

std::vector<IterationReport::Value> BehaviourCloning::losses() const {
  return {{"loss", "1", "of actions as the network gives them, mean over the iteration's updates"},
          {"squared_error", "1", "of these actions, mean over their components"}};
}

SampleBlocks BehaviourCloning::sample_blocks() const {
  using Rows = SampleBlocks::Rows;
  SampleBlocks blocks{.elements = layout_.elements,
                      .steps = shape_.sequence,
                      .lay = [this](const Rows& rows, float* first, std::size_t step_stride) {
                        lay(rows, first, step_stride);
                      }};
  if (cameras_) {
    blocks.pixels = shape_.frames() * pixels_of(cameras_->cameras());
    blocks.lay_images = [this](const Rows& rows, std::int64_t update, std::int64_t place,
                               std::uint8_t* first) {
      maniple::lay_images(cameras_->cameras(), demonstrations_, rows, config_.batch.seed, update, place,
                          first);
    };
  }
  return blocks;
}

template <class Body>
void BehaviourCloning::for_features(float* blocks, std::int64_t tiles, const Body& body) const {
  const std::int64_t step_stride = std::int64_t{layout_.elements} * kTileWidth;
  int place = layout_.observation + demonstrations_.contents().observation_width * shape_.stack;
  for (std::size_t camera = 0; camera < cameras_->cameras().size(); ++camera)
    for (int age = 0; age < shape_.stack; ++age) {
      const int count = cameras_->cameras()[camera].encoder.features;
      for (int step = 0; step < shape_.sequence; ++step) {
        const FeatureMap<float> block{blocks + step * tiles * step_stride + place * kTileWidth, step_stride,
                                      1, count, count};
        body(cameras_->features(camera, step + age), block, age == 0 || step == shape_.sequence - 1);
      }
      place += count;
    }
}

void BehaviourCloning::lay(const SampleBlocks::Rows& rows, float* first, std::size_t step_stride) const {
  const DemonstrationContents& contents = demonstrations_.contents();
  const DataNormalization& normalization = policy_.normalization();
  for (int step = 0; step < shape_.sequence; ++step) {
    float* const block = first + static_cast<std::size_t>(step) * step_stride;
    const auto element = [&](int e) -> float& { return block[e * kTileWidth]; };
    const std::int64_t* const stack = rows.data() + step;
    int place = 0;
    for (const auto& key : contents.observations)
      for (int frame = 0; frame < shape_.stack; ++frame) {
        const float* const from = demonstrations_.row(stack[frame]) + key.first;
        for (int i = 0; i < key.width; ++i, ++place) {
          const auto p = static_cast<std::size_t>(place);
          element(layout_.observation + place) =
              (from[i] - normalization.observation_mean[p]) * normalization.observation_scale[p];
        }
      }
    const float* const action = demonstrations_.row(stack[shape_.stack - 1]) + contents.observation_width;
    for (int k = 0; k < contents.action_width; ++k) {
      const auto p = static_cast<std::size_t>(k);
      element(layout_.action + k) =
          (action[k] - normalization.action_mean[p]) / normalization.action_scale[p];
    }
    element(layout_.weight) = 1;
  }
}

void BehaviourCloning::learn(const LoadedBatch& batch, float* blocks, const std::uint8_t* images,
                             std::int64_t update, double scale, double* totals) {
  const std::int64_t tiles = batch.partition.tiles;
  const int block_size = batch.partition.block;
  const TileSamples samples{.block = block_size, .samples = batch.partition.envs(), .first = 0, .maps = 1};
  const bool exact = config_.learning.reduction == Reduction::exact;
  double* network_totals = totals;
  const float* const encoders = policy_.parameters().data();
  const auto copy = [&](const FeatureMap<const float>& from, const FeatureMap<float>& to, bool add) {
    for_tiles("maniple::copy_map", tiles, tile_workers(tiles), CopyMap<float>{from, to, add});
  };
  if (cameras_) {
    Kokkos::deep_copy(totals_, 0.0);
    network_totals = totals_.data();
    cameras_->encode(encoders, images, tiles, samples);
    for_features(blocks, tiles, [&](const FeatureMap<float>& features, const FeatureMap<float>& block, bool) {
      copy(features, block, false);
    });
  }
  with_cloning(config_, policy_, block_size, [&](auto train) {
    train.network = policy_.network();
    train.scratch = policy_.scratch();
    train.loss = {.layout = layout_,
                  .kind = loss_of(config_.learning.loss),
                  .squash_actions = config_.policy.squash_actions};
    train.parameters = policy_.network_parameters().data();
    train.memory = policy_.memory(kept_tiles(block_size, tiles));
    train.blocks = blocks;
    train.order = order_.data();
    train.tiles = batch.partition.tiles;
    train.envs = batch.partition.envs();
    train.first_state = first_states_;
    train.deal.steps = shape_.sequence;
    train.scale = scale / static_cast<double>(batch.batch.samples * shape_.sequence);
    train.exact = exact;
    train.totals = network_totals;
    if (cameras_) {
      train.first_wanted = demonstrations_.contents().observation_width * shape_.stack;
      train.wanted = policy_.network().sizes.observations - train.first_wanted;
    }
    for_tiles("maniple::clone_actions", train.tiles, workers_, train);
    if constexpr (!decltype(train)::kWholeTiles)
      if (update != kHeldOut) {
        add_gradient_by_blocks(train, tiles, panels_);
        if (train.wanted > 0)
          for_tiles("maniple::replace_inputs", train.tiles, workers_, ReplaceInputs<decltype(train)>{train});
      }
  });
  if (!cameras_) return;
  const std::int64_t count = minibatch_totals(policy_.network(), kNumCloningMetrics);
  double* const after = totals + cameras_->parameters();
  add_workers(totals_, totals_workers(workers_), count, after);
  if (update == kHeldOut) return;
  for_features(blocks, tiles,
               [&](const FeatureMap<float>& delta, const FeatureMap<float>& block, bool first) {
                 copy(block, delta, !first);
               });
  cameras_->backward(encoders, images, tiles, samples, exact, totals, after + count - 1);
}

}  // namespace maniple
