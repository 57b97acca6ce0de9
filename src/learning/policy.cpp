// Building, initialising and saving of policies.
#include "src/learning/policy.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/nn/gaussian.hpp"
#include "src/base/error.hpp"
#include "src/learning/block_training.hpp"
#include "src/learning/samples.hpp"
#include "src/simulation/environment_blocks.hpp"

namespace maniple {
namespace {

// Added to the variance before the root, as in rl_games' RunningMeanStd.
constexpr double kObservationVarianceFloor = 1e-5;
// ln 0.0001: of a mixture's draws where it is evaluated, as in robomimic's GMMActorNetwork.
constexpr float kLowNoiseLogStd = -9.21034037f;

Activation activation_of(ActivationChoice choice) {
  switch (choice) {
    case ActivationChoice::elu:
      return Activation::elu;
    case ActivationChoice::relu:
      return Activation::relu;
    case ActivationChoice::tanh:
      return Activation::tanh;
    case ActivationChoice::leaky_relu:
      return Activation::leaky_relu;
    case ActivationChoice::silu:
      return Activation::silu;
    case ActivationChoice::gelu:
      return Activation::gelu;
    case ActivationChoice::identity:
      return Activation::identity;
  }
  return Activation::identity;
}

// A matrix [rows][columns] with orthonormal rows or columns, whichever are fewer, uniform among all: normal
// numbers orthonormalized by Gram and Schmidt, twice for the rounding.
std::vector<double> orthogonal_matrix(int rows, int columns, std::uint32_t seed, int layer) {
  const bool tall = rows > columns;
  const auto count = static_cast<std::size_t>(std::min(rows, columns));
  const auto length = static_cast<std::size_t>(std::max(rows, columns));
  std::vector<double> vectors(count * length);
  for (std::size_t k = 0; k < count; ++k) {
    double* const own = vectors.data() + k * length;
    for (std::size_t i = 0; i < length; ++i)
      own[i] = action_noise<double>(seed, RandomPurpose::parameters, static_cast<std::int64_t>(tall ? k : i),
                                    static_cast<std::uint32_t>(tall ? i : k), 4 * layer);
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t j = 0; j < k; ++j) {
        const double* const other = vectors.data() + j * length;
        double product = 0;
        for (std::size_t i = 0; i < length; ++i) product += own[i] * other[i];
        for (std::size_t i = 0; i < length; ++i) own[i] -= product * other[i];
      }
    double squares = 0;
    for (std::size_t i = 0; i < length; ++i) squares += own[i] * own[i];
    for (std::size_t i = 0; i < length; ++i) own[i] /= std::sqrt(squares);
  }
  if (!tall) return vectors;
  std::vector<double> turned(vectors.size());
  for (std::size_t k = 0; k < count; ++k)
    for (std::size_t i = 0; i < length; ++i) turned[i * count + k] = vectors[k * length + i];
  return turned;
}

// (nvcc wants loops on the device outside of classes.)
void rescale_row(const Kokkos::View<float*, MemorySpace>& parameters, std::int64_t weight, std::int64_t bias,
                 int inputs, float factor, float offset) {
  Kokkos::parallel_for(
      "maniple::rescale_values", Kokkos::RangePolicy<ExecutionSpace>(0, inputs + 1),
      MANIPLE_LAMBDA(std::int64_t i) {
        if (i < inputs)
          parameters(weight + i) *= factor;
        else
          parameters(bias) = factor * parameters(bias) + offset;
      });
}

void upload(const std::vector<float>& values, const Kokkos::View<float*, MemorySpace>& to) {
  const auto host = Kokkos::create_mirror_view(to);
  std::copy(values.begin(), values.end(), host.data());
  Kokkos::deep_copy(to, host);
}

}  // namespace

void forget_states(const Environment& environment, const TiledView<float>& states,
                   const TiledView<float>& ages, int horizon) {
  if (states.elements == 0) return;
  const TiledView<float> terminated = environment.terminated(), truncated = environment.truncated(),
                         invalid = environment.invalid();
  const int count = states.elements;
  const bool by_age = ages.elements > 0;
  const auto most = static_cast<float>(horizon);
  Kokkos::parallel_for(
      "maniple::forget_states", Kokkos::RangePolicy<ExecutionSpace>(0, states.tiles * kTileWidth),
      MANIPLE_LAMBDA(std::int64_t env) {
        bool over = terminated.at(env, 0) + truncated.at(env, 0) + invalid.at(env, 0) != 0.0f;
        if (by_age) {
          const float age = ages.at(env, 0) + 1.0f;
          over = over || age >= most;
          ages.at(env, 0) = over ? 0.0f : age;
        }
        if (!over) return;
        for (int k = 0; k < count; ++k) states.at(env, k) = 0.0f;
      });
}

PolicySizes policy_sizes(const Environment& environment) {
  return {environment.num_observations(), environment.critic_observation().elements,
          environment.num_actions()};
}

Network make_network(const Config& config, const PolicySizes& sizes) {
  PolicySizes own = sizes;
  if (config.learning.imitates()) {
    own.critic = false;
    own.critic_observations = 0;
  }
  if (config.learning.mixes()) own.modes = config.policy.modes;
  return make_network(config.policy, own, config.learning.blas_width, config.where_of("policy.hidden"),
                      config.where_of("policy.shared"));
}

namespace {

// Adds layers to a network, each where the last one ends.
class NetworkBuilder {
 public:
  NetworkBuilder(const PolicyConfig& config, std::int64_t blas_width, Network& network)
      : config_(config),
        blas_width_(blas_width),
        activation_(activation_of(config.activation)),
        network_(network) {}

  Layer& add(LayerKind kind, int source, int inputs, int outputs, Activation own = Activation::identity,
             Activation below = Activation::identity) {
    Layer& layer = network_.layers[network_.num_layers++];
    layer.kind = kind;
    layer.inputs = inputs;
    layer.outputs = outputs;
    layer.source = source;
    layer.target = network_.units;
    layer.activation = own;
    layer.source_activation = below;
    network_.units += outputs;
    if (layer.is_dense() || kind == LayerKind::layer_norm) {
      layer.weight = network_.parameters;
      network_.parameters += layer.is_dense() ? outputs * layer.stride() : padded_parameters(outputs);
      layer.bias = network_.parameters;
      network_.parameters += padded_parameters(outputs);
    }
    if (layer.is_dense()) {
      network_.widest = std::max({network_.widest, inputs, outputs});
      layer.library = std::max(inputs, outputs) >= blas_width_ && std::min(inputs, outputs) >= 16;
    }
    if (kind == LayerKind::layer_norm) network_.units += outputs + 1;  // see kernels/nn/layers.hpp
    if (kind == LayerKind::gru) network_.units += 3 * outputs;
    if (kind == LayerKind::lstm) network_.units += 6 * outputs;
    return layer;
  }

  // Recurrent cells, where there are any, hidden layers of these widths, and outputs.
  Head chain(const std::vector<int>& widths, int outputs, int source, int inputs) {
    if (config_.recurrent != Recurrence::none)
      for (int number = 0; number < config_.recurrent_layers; ++number) {
        source = add_cell(source, inputs);
        inputs = config_.recurrent_units;
      }
    Activation below = Activation::identity;
    for (const int width : widths) {
      const bool apart = needs_input(activation_);
      const Activation own = apart ? Activation::identity : activation_;
      source = add(LayerKind::dense, source, inputs, width, own, below).target;
      below = own;
      if (apart) source = add(LayerKind::activation, source, width, width, activation_).target;
      if (config_.layer_norm) {
        source = add(LayerKind::layer_norm, source, width, width, Activation::identity, below).target;
        below = Activation::identity;
      }
      inputs = width;
    }
    return {add(LayerKind::dense, source, inputs, outputs, Activation::identity, below).target, outputs};
  }

 private:
  int add_cell(int source, int inputs) {
    const bool lstm = config_.recurrent == Recurrence::lstm;
    const int units = config_.recurrent_units, gate_units = (lstm ? 4 : 3) * units;
    const int gates = add(LayerKind::gates, source, inputs, gate_units).target;
    const int state_gates = add(LayerKind::gates, state_, units, gate_units).target;
    Layer& cell = add(lstm ? LayerKind::lstm : LayerKind::gru, gates, gate_units, units);
    cell.state_gates = state_gates;
    cell.state = state_;
    state_ += cell.state_units();
    return cell.target;
  }

  const PolicyConfig& config_;
  const std::int64_t blas_width_;
  const Activation activation_;
  Network& network_;
  int state_ = 0;  // of the next cell
};

// Refuses networks with too many layers, and layers that cannot be shared.
void check_network(const PolicyConfig& config, const PolicySizes& sizes, std::size_t hidden, int others,
                   const SourceLocation& where_hidden, const SourceLocation& where_shared) {
  // entries of the list: of a hidden layer
  const int each = 1 + (needs_input(activation_of(config.activation)) ? 1 : 0) + (config.layer_norm ? 1 : 0);
  const int most = (Network::max_layers - others) / each;
  if (static_cast<int>(hidden) > most)
    throw InputError(where_hidden, "policy.hidden",
                     "found " + std::to_string(hidden) + " layers" +
                         (config.shared || !sizes.critic ? "" : " of policy and critic together"),
                     "allowed: at most " + std::to_string(most));
  if (config.shared && sizes.critic_observations > 0)
    throw InputError(where_shared, "policy.shared", "found true with task.critic_observations",
                     "allowed: false, so that the critic has separate layers");
}

}  // namespace

Network make_network(const PolicyConfig& config, const PolicySizes& sizes, std::int64_t blas_width,
                     const SourceLocation& where_hidden, const SourceLocation& where_shared) {
  const std::vector<int>& critic_hidden = config.critic_hidden.empty() ? config.hidden : config.critic_hidden;
  const bool one_chain = config.shared || !sizes.critic;
  const int chains = one_chain ? 1 : 2;
  const int cells = config.recurrent != Recurrence::none ? config.recurrent_layers : 0;  // of a chain
  const bool gives_deviations = config.state_dependent_std || sizes.modes > 0;
  check_network(config, sizes, config.hidden.size() + (one_chain ? 0 : critic_hidden.size()),
                chains * (1 + 3 * cells) + (gives_deviations ? 1 : 0), where_hidden, where_shared);
  Network network;
  network.sizes = sizes;
  network.sizes.deviations = config.state_dependent_std ? sizes.actions : 0;
  network.widest = std::max(sizes.observations, sizes.critic_observations);
  network.state_units =
      chains * cells * config.recurrent_units * (config.recurrent == Recurrence::lstm ? 2 : 1);
  network.units = network.state_units;
  NetworkBuilder builder(config, blas_width, network);
  const int means = sizes.actions * std::max(1, sizes.modes);
  const int both = sizes.modes > 0 ? 2 * means + sizes.modes : means + network.sizes.deviations;
  if (!sizes.critic) {
    network.actor = builder.chain(config.hidden, both, kObservation, sizes.observations);
  } else if (config.shared) {
    network.actor = builder.chain(config.hidden, both + 1, kObservation, sizes.observations);
    network.critic = {network.actor.first + both, 1};
  } else {
    network.actor = builder.chain(config.hidden, both, kObservation, sizes.observations);
    network.critic = sizes.critic_observations > 0
                         ? builder.chain(critic_hidden, 1, kCriticObservation, sizes.critic_observations)
                         : builder.chain(critic_hidden, 1, kObservation, sizes.observations);
  }
  network.actor.units = means;
  if (sizes.modes > 0) network.logits = {network.actor.first + 2 * means, sizes.modes};
  if (gives_deviations) {
    const Layer& deviation = builder.add(LayerKind::deviation, network.actor.first + means, means, means);
    network.deviation = {deviation.target, means};
    const bool softplus = config.std_transform == StdTransform::softplus;
    network.deviation_law = softplus ? DeviationLaw::softplus : DeviationLaw::exponential;
    if (softplus || sizes.modes > 0)
      network.deviation_offset = config.min_std;
    else if (config.min_std > 0)
      network.lowest_log_std = std::log(config.min_std);
    if (config.max_std > 0) network.highest_log_std = std::log(config.max_std);
  }
  network.log_std = network.parameters;
  network.parameters += padded_parameters(network.own_deviations());
  return network;
}

std::int64_t first_of_critic(const Network& network) {
  std::int64_t first = network.log_std;
  bool behind_actor = false;
  for (int l = 0; l < network.num_layers; ++l) {
    const Layer& layer = network.layers[l];
    if (behind_actor && layer.is_dense()) first = std::min(first, layer.weight);
    behind_actor = behind_actor || layer.target == network.actor.first;
  }
  return first;
}

TileScratch make_scratch(const Network& network, const SampleLayout& layout, int steps, bool by_blocks) {
  constexpr int metrics_and_count = 16;
  return TileScratch(
      network, layout, std::max({network.sizes.actions + metrics_and_count, network.sizes.inputs(), 2}),
      network.parameters + metrics_and_count, network.recurrent() || by_blocks ? steps : 1, by_blocks);
}

namespace {
bool learns_by_blocks(const Config& config) {
  const int block = config.learning.imitates() ? block_of_samples(config.learning)
                                               : block_of_environments(config, config.batch.num_envs);
  return block < kTileWidth;
}
}  // namespace

int steps_of_tile(const Config& config) {
  const LearningConfig& learning = config.learning;
  if (learning.imitates()) return window_shape(config).sequence;
  return learns_by_blocks(config)
             ? kept_positions((learning.horizon + learning.minibatches - 1) / learning.minibatches)
             : learning.horizon;
}

std::size_t policy_bytes(const Config& config, const Network& network, int workers) {
  const TileScratch scratch =
      make_scratch(network, SampleLayout(network.sizes), steps_of_tile(config), learns_by_blocks(config));
  return sizeof(float) * static_cast<std::size_t>(network.parameters + 2 * network.sizes.inputs() +
                                                  workers * scratch.elements);
}

std::vector<float> initial_parameters(const Network& network, const PolicyConfig& config,
                                      std::uint32_t seed) {
  std::vector<float> parameters(static_cast<std::size_t>(network.parameters), 0.0f);
  const bool mixes = network.sizes.modes > 0;
  const int first_action = network.actor.first, last_action = first_action + network.actor.units,
            last_deviation = last_action + network.deviation.units;
  // what the network's number for a standard deviation begins with
  const double deviation = config.std_transform == StdTransform::softplus
                               ? std::log(std::expm1(config.init_std - config.min_std))
                               : std::log(config.init_std - (mixes ? config.min_std : 0));
  const auto uniform = [&](int layer, int output, int input) {
    const PhiloxBlock random =
        random_block(seed, RandomPurpose::parameters, static_cast<std::uint64_t>(input),
                     static_cast<std::uint32_t>(output), static_cast<std::uint32_t>(layer));
    return 2.0f * uniform01<float>(random.word[0]) - 1.0f;
  };
  for (int l = 0; l < network.num_layers; ++l) {
    const Layer& layer = network.layers[l];
    const bool gates = layer.kind == LayerKind::gates;
    float* const weight = parameters.data() + layer.weight;
    if (layer.kind == LayerKind::layer_norm) std::fill_n(weight, layer.outputs, 1.0f);
    if (!layer.is_dense()) continue;
    if (!gates)
      for (int unit = std::max(last_action, layer.target);
           unit < std::min(last_deviation, layer.target + layer.outputs); ++unit)
        parameters[static_cast<std::size_t>(layer.bias + unit - layer.target)] =
            static_cast<float>(deviation);
    // a mixture's modes differ from the beginning on wherever the observation is, 0 included
    if (mixes)
      for (int unit = std::max(first_action, layer.target);
           unit < std::min(last_action, layer.target + layer.outputs); ++unit)
        parameters[static_cast<std::size_t>(layer.bias + unit - layer.target)] =
            uniform(l, unit - layer.target, layer.inputs) / std::sqrt(static_cast<float>(layer.inputs));
    if (config.initialization == Initialization::orthogonal) {
      const std::vector<double> matrix = orthogonal_matrix(layer.outputs, layer.inputs, seed, l);
      for (int o = 0; o < layer.outputs; ++o) {
        const int unit = layer.target + o;
        const bool actor = unit >= first_action && unit < last_deviation;
        const bool critic = network.critic.units > 0 && unit == network.critic.first;
        const double gain = gates    ? 1
                            : actor  ? config.actor_gain
                            : critic ? config.critic_gain
                                     : config.hidden_gain;
        for (int i = 0; i < layer.inputs; ++i)
          weight[o * layer.stride() + i] = static_cast<float>(
              gain * matrix[static_cast<std::size_t>(o) * static_cast<std::size_t>(layer.inputs) +
                            static_cast<std::size_t>(i)]);
      }
      continue;
    }
    const int fan = gates ? config.recurrent_units : layer.inputs;
    float bound = 1.0f / std::sqrt(static_cast<float>(fan));
    if (config.initialization == Initialization::lecun_uniform && !gates) bound *= std::sqrt(3.0f);
    for (int o = 0; o < layer.outputs; ++o)
      for (int i = 0; i < layer.inputs; ++i) weight[o * layer.stride() + i] = uniform(l, o, i) * bound;
  }
  for (int k = 0; k < network.own_deviations(); ++k)
    parameters[static_cast<std::size_t>(network.log_std + k)] = static_cast<float>(std::log(config.init_std));
  return parameters;
}

void ObservationNormalizer::merge(const std::vector<double>& z_mean, const std::vector<double>& z_square_mean,
                                  double samples, const std::vector<float>& used_mean,
                                  const std::vector<float>& used_scale) {
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double deviation = 1.0 / static_cast<double>(used_scale[i]);
    const double batch_mean = static_cast<double>(used_mean[i]) + deviation * z_mean[i];
    const double batch_variance =
        deviation * deviation * std::max(0.0, z_square_mean[i] - z_mean[i] * z_mean[i]);
    RunningMoments moments{mean[i], variance[i], count};
    moments.merge(batch_mean, batch_variance, samples);
    mean[i] = moments.mean;
    variance[i] = moments.variance;
  }
  count += samples;
}

Policy::Policy(const Config& config, const PolicySizes& sizes, CameraEncoders* cameras)
    : config_(config.policy),
      imitates_(config.learning.imitates()),
      cameras_(cameras),
      network_(make_network(config, sizes)),
      layout_(network_.sizes),
      parameters_("maniple::policy_parameters",
                  static_cast<std::size_t>((cameras ? cameras->parameters() : 0) + network_.parameters)),
      network_parameters_(Kokkos::subview(
          parameters_, std::make_pair(parameters_.extent(0) - static_cast<std::size_t>(network_.parameters),
                                      parameters_.extent(0)))),
      normalizer_(network_.sizes.inputs()),
      normal_mean_("maniple::normal_mean", static_cast<std::size_t>(network_.sizes.inputs())),
      normal_scale_("maniple::normal_scale", static_cast<std::size_t>(network_.sizes.inputs())),
      action_mean_("maniple::action_mean", static_cast<std::size_t>(network_.sizes.actions)),
      action_scale_("maniple::action_scale", static_cast<std::size_t>(network_.sizes.actions)),
      used_mean_(static_cast<std::size_t>(network_.sizes.inputs())),
      used_scale_(static_cast<std::size_t>(network_.sizes.inputs())) {
  if (imitates_) normalization_ = DataNormalization(network_.sizes.inputs(), network_.sizes.actions);
  scratch_ = make_scratch(network_, layout_, steps_of_tile(config), learns_by_blocks(config));
  for (int l = 0; l < network_.num_layers; ++l) library_ = library_ || network_.layers[l].library;
  parameters_host_ = Kokkos::create_mirror_view(parameters_);
  std::vector<float> initial;
  if (cameras_) initial = cameras_->initial_parameters(config.batch.seed);
  const std::vector<float> of_network = initial_parameters(network_, config_, config.batch.seed);
  initial.insert(initial.end(), of_network.begin(), of_network.end());
  std::copy(initial.begin(), initial.end(), parameters_host_.data());
  Kokkos::deep_copy(parameters_, parameters_host_);
  upload_normalizer();
}

float* Policy::memory(int workers) {
  const std::size_t needed = static_cast<std::size_t>(workers) * static_cast<std::size_t>(scratch_.elements);
  if (memory_.extent(0) < needed)
    memory_ = Kokkos::View<float*, MemorySpace>("maniple::network_scratch", needed);
  return memory_.data();
}

TiledView<float> Policy::fresh_states(std::int64_t tiles) const {
  return {"maniple::policy_states", tiles, network_.state_units};
}

namespace {

// Acts with the states of the policy's recurrent cells.
class NetworkRunner : public PolicyRunner {
 public:
  NetworkRunner(Policy& policy, Environment& environment)
      : PolicyRunner(environment),
        policy_(policy),
        states_(policy.fresh_states(environment.partition().tiles)),
        ages_("maniple::policy_state_ages", environment.partition().tiles,
              policy.state_horizon() > 0 && states_.elements > 0 ? 1 : 0) {}
  void act(Determinism determinism, std::uint32_t seed, std::int64_t control_step) override;
  void forget_ended() override;

 private:
  Policy& policy_;
  const TiledView<float> states_;
  const TiledView<float> ages_;  // steps that they have seen; no elements where only episodes end them
};

void NetworkRunner::act(Determinism determinism, std::uint32_t seed, std::int64_t control_step) {
  const Partition& partition = environment_.partition();
  const int workers = tile_workers(partition.tiles);
  with_forward_dense(policy_.uses_library(), partition.block, [&](auto dense) {
    auto act = policy_.actor<decltype(dense)>(workers);
    act.observation = environment_.observation();
    act.critic_observation = environment_.critic_observation();
    act.action = environment_.action();
    act.state = states_;
    act.moves_state = policy_.network().recurrent();
    act.low_noise = determinism == Determinism::automatic;
    act.low_noise_log_std = kLowNoiseLogStd;
    act.deterministic =
        determinism == Determinism::deterministic || (act.low_noise && policy_.network().sizes.modes == 0);
    act.seed = seed;
    act.purpose = RandomPurpose::evaluation;
    act.control_step = static_cast<std::uint32_t>(control_step);
    act.first_env = partition.first_env();
    act.envs = partition.envs();
    act.block_size = partition.block;
    for_tiles("maniple::act", partition.tiles, workers, act);
  });
}

void NetworkRunner::forget_ended() {
  forget_states(environment_, states_, ages_, policy_.state_horizon());
}

}  // namespace

std::unique_ptr<PolicyRunner> Policy::act_in(Environment& environment) {
  return std::make_unique<NetworkRunner>(*this, environment);
}

void Policy::describe(Archive& archive) {
  Kokkos::deep_copy(parameters_host_, parameters_);
  float* const of_network = parameters_host_.data() + parameters_host_.extent(0) - network_.parameters;
  int dense = 0, norms = 0, gates = 0;
  const auto numbers = [&](const std::string& name, std::int64_t first, std::int64_t count,
                           const std::string& description) {
    archive.replicated("policy/" + name, of_network + first, static_cast<std::size_t>(count), "1",
                       description);
  };
  for (int l = 0; l < network_.num_layers; ++l) {
    const Layer& layer = network_.layers[l];
    if (layer.kind == LayerKind::layer_norm) {
      const std::string name = "norm" + std::to_string(norms++);
      numbers(name + "/weight", layer.weight, layer.outputs, "factor of each normalized unit");
      numbers(name + "/bias", layer.bias, layer.outputs, "added to each normalized unit");
    }
    if (!layer.is_dense()) continue;
    // a cell's gates: of its input, then of its state
    const std::string name =
        layer.kind == LayerKind::gates
            ? text_of(config_.recurrent) + std::to_string(gates / 2) + (gates % 2 == 0 ? "/input" : "/state")
            : "layer" + std::to_string(dense);
    (layer.kind == LayerKind::gates ? gates : dense) += 1;
    numbers(name + "/weight", layer.weight, layer.outputs * layer.stride(),
            std::to_string(layer.outputs) + " rows of " + std::to_string(layer.stride()) +
                " weights, the first " + std::to_string(layer.inputs) + " of each used");
    numbers(name + "/bias", layer.bias, layer.outputs, "bias of each output");
  }
  if (network_.own_deviations() > 0)
    numbers("log_std", network_.log_std, network_.own_deviations(),
            "log of the standard deviation of each action");
  if (cameras_) cameras_->describe(archive, parameters_host_.data());
  if (imitates_) {
    normalization_.describe(archive);
  } else if (normalizes()) {
    archive.replicated("policy/observation_mean", normalizer_.mean.data(), normalizer_.mean.size(),
                       "observation", "running mean");
    archive.replicated("policy/observation_variance", normalizer_.variance.data(),
                       normalizer_.variance.size(), "observation^2", "running variance");
    archive.replicated("policy/observation_count", &normalizer_.count, 1, "1", "observations taken in");
  }
}

void Policy::restored() {
  if (cameras_) cameras_->restored(parameters_host_.data());
  Kokkos::deep_copy(parameters_, parameters_host_);
  upload_normalizer();
}

void Policy::describe_warm_start(Archive& archive) {
  describe(archive);
  if (normalizes()) return;
  normalization_ = DataNormalization(network_.sizes.observations, network_.sizes.actions);
  normalization_.describe(archive);
}

void Policy::warm_started(bool cloned) {
  if (cloned) {
    float* const own = parameters_host_.data() + parameters_host_.extent(0) - network_.parameters;
    std::fill_n(own + network_.log_std, network_.own_deviations(),
                static_cast<float>(std::log(config_.init_std)));
    fold_normalization(normalization_, network_, own);
  }
  restored();
}

ParameterBounds Policy::deviation_bounds() const {
  const double lowest = config_.min_std, highest = config_.max_std;
  if (lowest <= 0 && highest <= 0) return {};
  return {.first = (cameras_ ? cameras_->parameters() : 0) + network_.log_std,
          .count = network_.own_deviations(),
          .lowest = lowest > 0 ? std::log(lowest) : std::numeric_limits<float>::lowest(),
          .highest = highest > 0 ? std::log(highest) : std::numeric_limits<float>::max()};
}

std::vector<float> Policy::log_std() const {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), network_parameters_);
  return std::vector<float>(host.data() + network_.log_std,
                            host.data() + network_.log_std + network_.own_deviations());
}

void Policy::set_normalization(const DataNormalization& normalization) {
  normalization_ = normalization;
  upload_normalizer();
}

void Policy::merge_observations(const std::vector<double>& z_mean, const std::vector<double>& z_square_mean,
                                double samples) {
  normalizer_.merge(z_mean, z_square_mean, samples, used_mean_, used_scale_);
  upload_normalizer();
}

void Policy::rescale_values(double factor, double offset) {
  for (int l = 0; l < network_.num_layers; ++l) {
    const Layer& layer = network_.layers[l];
    const int row = network_.critic.first - layer.target;
    if (row < 0 || row >= layer.outputs) continue;
    rescale_row(network_parameters_, layer.weight + row * layer.stride(), layer.bias + row, layer.inputs,
                static_cast<float>(factor), static_cast<float>(offset));
  }
}

void Policy::upload_normalizer() {
  if (imitates_) {
    // the features of images, which follow the observations of the data, stay as they are
    used_mean_.assign(used_mean_.size(), 0.0f);
    used_scale_.assign(used_scale_.size(), 1.0f);
    std::copy(normalization_.observation_mean.begin(), normalization_.observation_mean.end(),
              used_mean_.begin());
    std::copy(normalization_.observation_scale.begin(), normalization_.observation_scale.end(),
              used_scale_.begin());
    upload(normalization_.action_mean, action_mean_);
    upload(normalization_.action_scale, action_scale_);
  } else {
    for (std::size_t i = 0; i < used_mean_.size(); ++i) {
      used_mean_[i] = static_cast<float>(normalizer_.mean[i]);
      used_scale_[i] =
          static_cast<float>(1.0 / std::sqrt(normalizer_.variance[i] + kObservationVarianceFloor));
    }
  }
  upload(used_mean_, normal_mean_);
  upload(used_scale_, normal_scale_);
}

}  // namespace maniple
