#include "src/learning/diffusion_policy.hpp"

#include <algorithm>
#include <map>

#include "src/base/to_device.hpp"

namespace maniple {
namespace {

using Range = Kokkos::RangePolicy<ExecutionSpace>;

int features_of(const CameraEncoders* cameras) {
  return cameras ? features_of(cameras->cameras()) : 0;
}

// One element of every environment. (nvcc wants loops on the device outside of classes.)
void copy_left(const TiledView<float>& memory, int element, const Kokkos::View<float*, MemorySpace>& to) {
  Kokkos::parallel_for(
      "maniple::copy_left", Range(0, static_cast<std::int64_t>(to.extent(0))),
      MANIPLE_LAMBDA(std::int64_t env) {
        to(env) = memory.tile(env / kTileWidth)[element * kTileWidth + env % kTileWidth];
      });
}

// Each environment has the action sequence that its own episode asks for; those that need a new one at a
// control step are gathered into tiles, since a sequence does not depend on its place there.
class ActionSequenceRunner : public PolicyRunner {
 public:
  ActionSequenceRunner(DiffusionPolicy& policy, Environment& environment)
      : PolicyRunner(environment),
        policy_(policy),
        layout_(environment.num_observations(), policy.config().observation_horizon,
                environment.num_actions(), policy.config().action_horizon),
        denoising_(policy.config().prediction_horizon * environment.num_actions()),
        steps_(policy.schedule().denoising()),
        memory_("maniple::action_sequences", environment.partition().tiles, layout_.elements),
        left_("maniple::actions_left", static_cast<std::size_t>(environment.partition().tiles * kTileWidth)),
        left_host_(Kokkos::create_mirror_view(left_)),
        conditions_("maniple::action_sequence_conditions",
                    lanes() * static_cast<std::size_t>(policy.shape().condition)),
        blocks_("maniple::action_sequence_blocks", lanes() * static_cast<std::size_t>(denoising_.elements)),
        local_("maniple::sampled_environments", lanes()),
        global_("maniple::sampled_global_environments", lanes()),
        observation_mean_(
            to_device("maniple::action_sequence_observation_mean", policy.normalization().observation_mean)),
        observation_scale_(to_device("maniple::action_sequence_observation_scale",
                                     policy.normalization().observation_scale)),
        action_mean_(to_device("maniple::action_sequence_action_mean", policy.normalization().action_mean)),
        action_scale_(
            to_device("maniple::action_sequence_action_scale", policy.normalization().action_scale)) {}

  // What a diffusion policy does is always drawn: it has no mean action.
  void act(Determinism, std::uint32_t seed, std::int64_t control_step) override {
    const std::int64_t padded = environment_.partition().tiles * kTileWidth;
    Kokkos::parallel_for("maniple::remember_observation", Range(0, padded),
                         RememberObservation<float>{.layout = layout_,
                                                    .observation = environment_.observation(),
                                                    .memory = memory_,
                                                    .mean = observation_mean_,
                                                    .scale = observation_scale_});
    const std::vector<std::int64_t> envs = without_actions();
    for (std::size_t first = 0; first < envs.size(); first += lanes())
      sample(envs.data() + first, std::min(envs.size() - first, lanes()), seed,
             static_cast<std::uint32_t>(control_step));
    Kokkos::parallel_for(
        "maniple::take_actions", Range(0, padded),
        TakeActions<float>{.layout = layout_, .memory = memory_, .action = environment_.action()});
  }
  void forget_ended() override { forget_states(environment_, memory_); }

 private:
  std::size_t lanes() const { return static_cast<std::size_t>(policy_.network().most_tiles()) * kTileWidth; }

  std::vector<std::int64_t> without_actions() const {
    copy_left(memory_, layout_.left, left_);
    Kokkos::deep_copy(left_host_, left_);
    std::vector<std::int64_t> envs;
    for (std::int64_t env = 0; env < environment_.partition().envs(); ++env)
      if (left_host_(static_cast<std::size_t>(env)) == 0.0f) envs.push_back(env);
    return envs;
  }

  void sample(const std::int64_t* envs, std::size_t count, std::uint32_t seed, std::uint32_t control_step) {
    const auto tiles = static_cast<int>((count + kTileWidth - 1) / kTileWidth);
    const auto places = std::int64_t{tiles} * kTileWidth;
    const auto local = Kokkos::create_mirror_view(local_), global = Kokkos::create_mirror_view(global_);
    for (std::size_t place = 0; place < static_cast<std::size_t>(places); ++place) {
      local(place) = place < count ? envs[place] : -1;
      global(place) = place < count ? environment_.partition().first_env() + envs[place] : -1;
    }
    Kokkos::deep_copy(local_, local);
    Kokkos::deep_copy(global_, global);
    Kokkos::parallel_for(
        "maniple::gather_conditions", Range(0, places),
        GatherConditions<float>{
            .layout = layout_, .memory = memory_, .envs = local_.data(), .conditions = conditions_.data()});
    Denoise<float> denoise{.layout = denoising_,
                           .blocks = blocks_.data(),
                           .envs = global_.data(),
                           .begins = true,
                           .next_step = steps_.front().step,
                           .seed = seed,
                           .control_step = control_step};
    for_tiles("maniple::begin_action_sequences", tiles, tile_workers(tiles), denoise);
    const std::int64_t tile_stride = std::int64_t{denoising_.elements} * kTileWidth;
    const auto part = [&](int element) { return blocks_.data() + element * kTileWidth; };
    const UnetInput<float> input{
        .tiles = tiles,
        .noisy = {part(denoising_.noisy), tile_stride},
        .step = {part(denoising_.step), tile_stride},
        .condition = {conditions_.data(), std::int64_t{policy_.shape().condition} * kTileWidth}};
    denoise.begins = false;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      policy_.network().forward(policy_.parameters(), input, {part(denoising_.prediction), tile_stride});
      denoise.coefficients = steps_[i];
      denoise.number = static_cast<int>(i) + 1;
      denoise.next_step = i + 1 < steps_.size() ? steps_[i + 1].step : 0;
      for_tiles("maniple::denoise", tiles, tile_workers(tiles), denoise);
    }
    Kokkos::parallel_for("maniple::store_action_sequences", Range(0, places),
                         StoreActionSequences<float>{.layout = layout_,
                                                     .denoising = denoising_,
                                                     .memory = memory_,
                                                     .envs = local_.data(),
                                                     .blocks = blocks_.data(),
                                                     .mean = action_mean_,
                                                     .scale = action_scale_});
  }

  DiffusionPolicy& policy_;
  const ActionSequenceLayout layout_;
  const DenoisingLayout denoising_;
  const std::vector<DenoisingStep> steps_;
  const TiledView<float> memory_;
  const Kokkos::View<float*, MemorySpace> left_;  // actions left of each environment's sequence
  const Kokkos::View<float*, MemorySpace>::HostMirror left_host_;
  const Kokkos::View<float*, MemorySpace> conditions_, blocks_;
  const Kokkos::View<std::int64_t*, MemorySpace> local_, global_;
  const Kokkos::View<const float*, MemorySpace> observation_mean_, observation_scale_, action_mean_,
      action_scale_;
};

}  // namespace

UnetShape unet_shape(const Config& config, int observations, int actions) {
  const DiffusionConfig& diffusion = config.diffusion;
  UnetShape shape;
  shape.actions = actions;
  shape.horizon = diffusion.prediction_horizon;
  shape.condition = diffusion.observation_horizon * observations;
  shape.step_embedding = diffusion.step_embedding;
  shape.widths = diffusion.down_dims;
  shape.kernel_size = diffusion.kernel_size;
  shape.groups = diffusion.groups;
  shape.predict_scale = diffusion.film_scale;
  if (const auto fault = fault_of(shape)) {
    static const std::map<std::string, std::string> keys{{"horizon", "diffusion.prediction_horizon"},
                                                         {"step_embedding", "diffusion.step_embedding"},
                                                         {"widths", "diffusion.down_dims"},
                                                         {"kernel_size", "diffusion.kernel_size"},
                                                         {"groups", "diffusion.groups"},
                                                         {"condition", "diffusion.observation_horizon"}};
    const auto key = keys.find(fault->member);
    const std::string name = key == keys.end() ? "diffusion" : key->second;
    throw InputError(config.where_of(name), name, "found " + fault->found, "allowed: " + fault->allowed);
  }
  return shape;
}

int tiles_of_run(const UnetShape& shape, std::int64_t tiles) {
  return static_cast<int>(std::clamp<std::int64_t>(tiles, 1, ConditionalUnet<float>::good_run(shape)));
}

DiffusionPolicy::DiffusionPolicy(const Config& config, int observations, int actions, std::int64_t tiles,
                                 CameraEncoders* cameras)
    : config_(config.diffusion),
      schedule_(config.diffusion),
      cameras_(cameras),
      unet_(unet_shape(config, observations + features_of(cameras), actions),
            tiles_of_run(unet_shape(config, observations + features_of(cameras), actions), tiles), false),
      normalization_(observations, actions) {
  std::vector<float> initial;
  if (cameras_) initial = cameras_->initial_parameters(config.batch.seed);
  const std::vector<float> of_network = unet_.initial_parameters(config.batch.seed);
  initial.insert(initial.end(), of_network.begin(), of_network.end());
  parameters_ = to_device("maniple::policy_parameters", initial);
  parameters_host_ = Kokkos::create_mirror_view(parameters_);
}

std::size_t DiffusionPolicy::bytes(const Config& config, int observations, int actions, std::int64_t tiles) {
  const UnetShape shape = unet_shape(config, observations, actions);
  return ConditionalUnet<float>::bytes(shape, tiles_of_run(shape, tiles), false) +
         2 * sizeof(float) * static_cast<std::size_t>(ConditionalUnet<float>::parameters(shape));
}

std::unique_ptr<PolicyRunner> DiffusionPolicy::act_in(Environment& environment) {
  return std::make_unique<ActionSequenceRunner>(*this, environment);
}

void DiffusionPolicy::describe(Archive& archive) {
  Kokkos::deep_copy(parameters_host_, parameters_);
  const float* const all = parameters_host_.data();
  if (cameras_) cameras_->describe(archive, all);
  tensors_ = in_torch_order(unet_.tensors(),
                            std::vector<float>(all + first_of_network(), all + parameters_host_.extent(0)));
  describe_tensors(unet_.tensors(), "policy/", tensors_.data(), archive);
  normalization_.describe(archive);
}

void DiffusionPolicy::restored() {
  const std::vector<float> flat = from_torch_order(unet_.tensors(), tensors_);
  std::copy(flat.begin(), flat.end(), parameters_host_.data() + first_of_network());
  if (cameras_) cameras_->restored(parameters_host_.data());
  Kokkos::deep_copy(parameters_, parameters_host_);
}

}  // namespace maniple
