#include "src/learning/initial_parameters.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/base/philox.hpp"
#include "kernels/nn/gaussian.hpp"

namespace maniple {
namespace {

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

}  // namespace

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

}  // namespace maniple
