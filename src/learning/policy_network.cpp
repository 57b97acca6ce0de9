#include "src/learning/policy_network.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/nn/activations.hpp"

namespace maniple {
namespace {

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

}  // namespace maniple
