// Building, initialising and saving of policies.
#include "src/learning/policy.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/nn/gaussian.hpp"
#include "src/base/error.hpp"

namespace maniple {
namespace {

// Added to the variance before the root, as in rl_games' RunningMeanStd.
constexpr double kVarianceFloor = 1e-5;

Activation activation_of(ActivationChoice choice) {
  switch (choice) {
    case ActivationChoice::elu:
      return Activation::elu;
    case ActivationChoice::relu:
      return Activation::relu;
    case ActivationChoice::tanh:
      return Activation::tanh;
  }
  return Activation::identity;
}

// A matrix [rows][columns] with orthonormal rows or columns, whichever are fewer, uniform among all: normal
// numbers orthonormalised by Gram and Schmidt, twice for the rounding.
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
      KOKKOS_LAMBDA(std::int64_t i) {
        if (i < inputs)
          parameters(weight + i) *= factor;
        else
          parameters(bias) = factor * parameters(bias) + offset;
      });
}

}  // namespace

PolicySizes policy_sizes(const Environment& environment) {
  return {environment.num_observations(), environment.critic_observation().elements,
          environment.num_actions()};
}

Network make_network(const Config& config, const PolicySizes& sizes) {
  return make_network(config.policy, sizes, config.learning.blas_width, config.where_of("policy.hidden"),
                      config.where_of("policy.shared"));
}

Network make_network(const PolicyConfig& config, const PolicySizes& sizes, std::int64_t blas_width,
                     const SourceLocation& where_hidden, const SourceLocation& where_shared) {
  const Activation activation = activation_of(config.activation);
  const int chains = config.shared ? 1 : 2;
  const int layers = chains * (static_cast<int>(config.hidden.size()) + 1);
  if (layers > Network::max_layers)
    throw InputError(where_hidden, "policy.hidden",
                     "found " + std::to_string(config.hidden.size()) + " layers",
                     "allowed: at most " + std::to_string(Network::max_layers / chains - 1));
  if (config.shared && sizes.critic_observations > 0)
    throw InputError(where_shared, "policy.shared", "found true with task.critic_observations",
                     "allowed: false, so that the critic has layers of its own");
  Network network;
  network.sizes = sizes;
  network.widest = std::max(sizes.observations, sizes.critic_observations);
  const auto add = [&](int source, int inputs, int outputs, Activation own, Activation below) {
    DenseLayer& layer = network.layers[network.num_layers++];
    layer.inputs = inputs;
    layer.outputs = outputs;
    layer.source = source;
    layer.target = network.units;
    layer.activation = own;
    layer.source_activation = below;
    layer.weight = network.parameters;
    network.parameters += outputs * layer.stride();
    layer.bias = network.parameters;
    network.parameters += padded_parameters(outputs);
    network.units += outputs;
    network.widest = std::max({network.widest, inputs, outputs});
    layer.library = std::max(inputs, outputs) >= blas_width && std::min(inputs, outputs) >= 16;
    return layer.target;
  };
  const auto chain = [&](int outputs, int source, int inputs) -> Head {
    for (const int width : config.hidden) {
      source = add(source, inputs, width, activation, source < 0 ? Activation::identity : activation);
      inputs = width;
    }
    return {
        add(source, inputs, outputs, Activation::identity, source < 0 ? Activation::identity : activation),
        outputs};
  };
  if (config.shared) {
    const Head both = chain(sizes.actions + 1, kObservation, sizes.observations);
    network.actor = {both.first, sizes.actions};
    network.critic = {both.first + sizes.actions, 1};
  } else {
    network.actor = chain(sizes.actions, kObservation, sizes.observations);
    network.critic = sizes.critic_observations > 0 ? chain(1, kCriticObservation, sizes.critic_observations)
                                                   : chain(1, kObservation, sizes.observations);
  }
  network.log_std = network.parameters;
  network.parameters += padded_parameters(sizes.actions);
  return network;
}

TileScratch make_scratch(const Network& network, const SampleLayout& layout) {
  constexpr int metrics_and_count = 16;
  return TileScratch(network, layout,
                     std::max({network.sizes.actions + metrics_and_count, network.sizes.inputs(), 2}),
                     network.parameters + metrics_and_count);
}

std::size_t policy_bytes(const Network& network, const TileScratch& scratch, int workers) {
  return sizeof(float) * static_cast<std::size_t>(network.parameters + 2 * network.sizes.inputs() +
                                                  workers * scratch.elements);
}

std::vector<float> initial_parameters(const Network& network, const PolicyConfig& config,
                                      std::uint32_t seed) {
  std::vector<float> parameters(static_cast<std::size_t>(network.parameters), 0.0f);
  for (int l = 0; l < network.num_layers; ++l) {
    const DenseLayer& layer = network.layers[l];
    if (config.initialization == Initialization::orthogonal) {
      const std::vector<double> matrix = orthogonal_matrix(layer.outputs, layer.inputs, seed, l);
      for (int o = 0; o < layer.outputs; ++o) {
        const int unit = layer.target + o;
        const bool actor = unit >= network.actor.first && unit < network.actor.first + network.actor.units;
        const double gain = actor                          ? config.actor_gain
                            : unit == network.critic.first ? config.critic_gain
                                                           : config.hidden_gain;
        for (int i = 0; i < layer.inputs; ++i)
          parameters[static_cast<std::size_t>(layer.weight + o * layer.stride() + i)] = static_cast<float>(
              gain * matrix[static_cast<std::size_t>(o) * static_cast<std::size_t>(layer.inputs) +
                            static_cast<std::size_t>(i)]);
      }
      continue;
    }
    const float bound = 1.0f / std::sqrt(static_cast<float>(layer.inputs));
    for (int o = 0; o < layer.outputs; ++o)
      for (int i = 0; i < layer.inputs; ++i) {
        const PhiloxBlock random =
            random_block(seed, RandomPurpose::parameters, static_cast<std::uint64_t>(i),
                         static_cast<std::uint32_t>(o), static_cast<std::uint32_t>(l));
        parameters[static_cast<std::size_t>(layer.weight + o * layer.stride() + i)] =
            (2.0f * uniform01<float>(random.word[0]) - 1.0f) * bound;
      }
  }
  for (int k = 0; k < network.sizes.actions; ++k)
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

Policy::Policy(const Config& config, const PolicySizes& sizes)
    : config_(config.policy),
      network_(make_network(config, sizes)),
      layout_(sizes),
      parameters_("maniple::policy_parameters", static_cast<std::size_t>(network_.parameters)),
      normalizer_(sizes.inputs()),
      normal_mean_("maniple::normal_mean", static_cast<std::size_t>(sizes.inputs())),
      normal_scale_("maniple::normal_scale", static_cast<std::size_t>(sizes.inputs())),
      used_mean_(static_cast<std::size_t>(sizes.inputs())),
      used_scale_(static_cast<std::size_t>(sizes.inputs())) {
  scratch_ = make_scratch(network_, layout_);
  for (int l = 0; l < network_.num_layers; ++l) library_ = library_ || network_.layers[l].library;
  parameters_host_ = Kokkos::create_mirror_view(parameters_);
  const std::vector<float> initial = initial_parameters(network_, config_, config.batch.seed);
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

void Policy::act(const Environment& environment, bool deterministic, std::uint32_t seed,
                 std::int64_t control_step) {
  const Partition& partition = environment.partition();
  const int workers = tile_workers(partition.tiles);
  with_dense(library_, [&](auto dense) {
    auto act = actor<decltype(dense)>(workers);
    act.observation = environment.observation();
    act.critic_observation = environment.critic_observation();
    act.action = environment.action();
    act.deterministic = deterministic;
    act.seed = seed;
    act.purpose = RandomPurpose::evaluation;
    act.control_step = static_cast<std::uint32_t>(control_step);
    act.first_env = partition.first_env();
    act.envs = partition.tiles * kTileWidth;
    for_tiles("maniple::act", partition.tiles, workers, act);
  });
}

void Policy::describe(Archive& archive) {
  Kokkos::deep_copy(parameters_host_, parameters_);
  for (int l = 0; l < network_.num_layers; ++l) {
    const DenseLayer& layer = network_.layers[l];
    const std::string name = "policy/layer" + std::to_string(l);
    const std::string shape = std::to_string(layer.outputs) + " rows of " + std::to_string(layer.stride()) +
                              " weights, the first " + std::to_string(layer.inputs) + " of each used";
    archive.replicated(name + "/weight", parameters_host_.data() + layer.weight,
                       static_cast<std::size_t>(layer.outputs * layer.stride()), "1", shape);
    archive.replicated(name + "/bias", parameters_host_.data() + layer.bias,
                       static_cast<std::size_t>(layer.outputs), "1", "bias of each output");
  }
  archive.replicated("policy/log_std", parameters_host_.data() + network_.log_std,
                     static_cast<std::size_t>(network_.sizes.actions), "1",
                     "log of the standard deviation of each action");
  if (normalizes()) {
    archive.replicated("policy/observation_mean", normalizer_.mean.data(), normalizer_.mean.size(),
                       "observation", "running mean");
    archive.replicated("policy/observation_variance", normalizer_.variance.data(),
                       normalizer_.variance.size(), "observation^2", "running variance");
    archive.replicated("policy/observation_count", &normalizer_.count, 1, "1", "observations taken in");
  }
}

void Policy::restored() {
  Kokkos::deep_copy(parameters_, parameters_host_);
  upload_normalizer();
}

std::vector<float> Policy::log_std() const {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), parameters_);
  return std::vector<float>(host.data() + network_.log_std,
                            host.data() + network_.log_std + network_.sizes.actions);
}

void Policy::merge_observations(const std::vector<double>& z_mean, const std::vector<double>& z_square_mean,
                                double samples) {
  normalizer_.merge(z_mean, z_square_mean, samples, used_mean_, used_scale_);
  upload_normalizer();
}

void Policy::rescale_values(double factor, double offset) {
  for (int l = 0; l < network_.num_layers; ++l) {
    const DenseLayer& layer = network_.layers[l];
    const int row = network_.critic.first - layer.target;
    if (row < 0 || row >= layer.outputs) continue;
    rescale_row(parameters_, layer.weight + row * layer.stride(), layer.bias + row, layer.inputs,
                static_cast<float>(factor), static_cast<float>(offset));
  }
}

void Policy::upload_normalizer() {
  const auto mean = Kokkos::create_mirror_view(normal_mean_);
  const auto scale = Kokkos::create_mirror_view(normal_scale_);
  for (std::size_t i = 0; i < used_mean_.size(); ++i) {
    used_mean_[i] = mean(i) = static_cast<float>(normalizer_.mean[i]);
    used_scale_[i] = scale(i) = static_cast<float>(1.0 / std::sqrt(normalizer_.variance[i] + kVarianceFloor));
  }
  Kokkos::deep_copy(normal_mean_, mean);
  Kokkos::deep_copy(normal_scale_, scale);
}

}  // namespace maniple
