// A rollout of random numbers in memory as kernels need it, with all arguments of the kernel of a minibatch:
// the starting point of the tests of training kernels.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/nn/ppo_loss.hpp"
#include "src/learning/initial_parameters.hpp"
#include "src/learning/policy.hpp"
#include "src/learning/policy_network.hpp"

namespace maniple {

// Memory as aligned as kernels need it.
template <class T>
struct Buffer {
  Kokkos::View<T*, Kokkos::HostSpace> view;
  explicit Buffer(std::int64_t count) : view("test", static_cast<std::size_t>(count)) {}
  T* data() const { return view.data(); }
  T& operator[](std::int64_t i) const { return view.data()[i]; }
};

template <class T>
void fill(const Buffer<T>& buffer, std::int64_t count, std::mt19937_64& generator) {
  std::uniform_real_distribution<double> draw(-1, 1);
  for (int i = 0; i < count; ++i) buffer[i] = static_cast<T>(draw(generator));
}

// A rollout of random numbers and everything that the training kernel needs, in double precision.
struct Training {
  Network network;
  SampleLayout layout;
  TileScratch scratch;
  TrainMinibatch<double, LaneDense, PpoLoss<double>> train;
  static constexpr int tiles = 2, horizon = 3, envs = 45;
  Buffer<double> parameters, memory, blocks, reference, totals;
  std::vector<std::int32_t> order;

  TiledView<double> first_state;

  explicit Training(bool shared) : Training(policy(shared)) {}
  explicit Training(const PolicyConfig& config)
      : network(make_network(config, {3, 0, 2}, 1 << 20)),
        layout(network.sizes),
        scratch(network, layout, 2 + kNumLossMetrics, minibatch_totals(network, kNumLossMetrics), horizon),
        parameters(network.parameters),
        memory(scratch.elements),
        blocks(tiles * horizon * layout.elements * 32),
        reference(tiles * horizon * 2),
        totals(minibatch_totals(network, kNumLossMetrics)),
        first_state("state", tiles, network.state_units) {
    std::mt19937_64 generator(17);
    const std::vector<float> initial = initial_parameters(network, config, 3);
    for (int i = 0; i < network.parameters; ++i) parameters[i] = static_cast<double>(initial[i]);
    if (network.own_deviations() > 0) parameters[network.log_std] = -0.3;
    for (std::int64_t i = 0; i < scratch.elements; ++i)
      memory[i] = std::nan("");  // whoever reads first, writes
    fill(blocks, tiles * horizon * layout.elements * 32, generator);
    for (int i = 0; i < tiles * horizon * layout.elements * 32; ++i)
      if (i / 32 % layout.elements == layout.log_prob) blocks[i] = -2.5 + 0.5 * blocks[i];
    if (network.recurrent()) {
      for (int i = 0; i < tiles * horizon * layout.elements * 32; ++i)
        if (i / 32 % layout.elements == layout.done) blocks[i] = blocks[i] > 0.3 ? 1 : 0;
      for (std::int64_t env = 0; env < tiles * 32; ++env)
        for (int k = 0; k < network.state_units; ++k) first_state.at(env, k) = std::sin(env + 40.0 * k);
    }
    for (int tile = 0; tile < tiles; ++tile)
      for (int step = 0; step < horizon; ++step) order.push_back((step + tile) % horizon);
    train.network = network;
    train.loss.layout = layout;
    train.scratch = scratch;
    train.loss.settings.value_coef = 2;
    train.loss.settings.entropy_coef = 0.02;
    train.loss.settings.bounds_coef = 0.1;
    train.loss.settings.kl_coef = 0.3;
    train.loss.settings.value_mean = 0.2;
    train.loss.settings.value_scale = 1.7;
    train.loss.settings.learned_std = true;
    train.parameters = parameters.data();
    train.memory = memory.data();
    train.blocks = blocks.data();
    train.loss.reference_log_std = reference.data();
    train.order = order.data();
    train.tiles = tiles;
    train.envs = envs;
    train.deal.num_tiles = tiles;
    train.deal.horizon = horizon;
    train.deal.minibatches = 2;
    train.minibatch = 0;  // takes two of the three steps
    train.scale = 1.0 / (envs * 2);
    train.loss.settings.squash_actions = config.squash_actions;
    train.loss.tiles = tiles;
    if (network.recurrent()) {  // all steps
      train.first_state = first_state;
      train.deal.horizon = train.deal.minibatches = 1;
      train.deal.steps = horizon;
      train.scale = 1.0 / (envs * horizon);
    }
    train.totals = totals.data();
  }
  static PolicyConfig policy(bool shared) {
    PolicyConfig config;
    config.hidden = {6, 5};
    config.activation = ActivationChoice::elu;
    config.initialization = Initialization::uniform;
    config.shared = shared;
    return config;
  }
  double loss() {
    const std::int64_t count = minibatch_totals(network, kNumLossMetrics);
    for (std::int64_t i = 0; i < count; ++i) totals[i] = 0;
    train.exact = false;
    for (int tile = 0; tile < tiles; ++tile) train(TileTeam(), tile, 0);
    const double* metrics = totals.data() + network.parameters;
    const bool sampled = network.deviation.units > 0 || train.loss.settings.squash_actions;
    const double entropy =
        sampled ? metrics[kEntropy] : parameters[network.log_std] + parameters[network.log_std + 1];
    return metrics[kPolicyLoss] + train.loss.settings.value_coef * metrics[kValueLoss] +
           train.loss.settings.bounds_coef * metrics[kBoundsLoss] +
           train.loss.settings.kl_coef * metrics[kKl] - train.loss.settings.entropy_coef * entropy;
  }
};

// Networks of every kind of layer, by name.
inline std::vector<std::pair<std::string, PolicyConfig>> kinds_of_networks() {
  std::vector<std::pair<std::string, PolicyConfig>> kinds;
  for (const bool shared : {true, false}) {
    const auto add = [&](const std::string& name, const std::function<void(PolicyConfig&)>& change) {
      PolicyConfig config = Training::policy(shared);
      change(config);
      kinds.emplace_back(name + (shared ? ", shared" : ""), config);
    };
    add("elu", [](PolicyConfig&) {});
    add("silu", [](PolicyConfig& c) { c.activation = ActivationChoice::silu; });
    add("gelu", [](PolicyConfig& c) { c.activation = ActivationChoice::gelu; });
    add("leaky_relu", [](PolicyConfig& c) { c.activation = ActivationChoice::leaky_relu; });
    add("layer_norm", [](PolicyConfig& c) { c.layer_norm = true; });
    add("silu layer_norm", [](PolicyConfig& c) {
      c.activation = ActivationChoice::silu;
      c.layer_norm = true;
      if (!c.shared) c.critic_hidden = {7};
    });
    add("exp std", [](PolicyConfig& c) {
      c.state_dependent_std = true;
      c.init_std = 0.8;
      c.min_std = 0.7;  // that some samples meet
      c.max_std = 0.9;
    });
    add("softplus std, squashed", [](PolicyConfig& c) {
      c.state_dependent_std = c.squash_actions = true;
      c.std_transform = StdTransform::softplus;
      c.min_std = 0.001;
    });
    add("squashed", [](PolicyConfig& c) { c.squash_actions = true; });
    add("gru", [](PolicyConfig& c) {
      c.recurrent = Recurrence::gru;
      c.recurrent_units = 5;
    });
    add("lstm", [](PolicyConfig& c) {
      c.recurrent = Recurrence::lstm;
      c.recurrent_units = 5;
    });
    add("two layers of lstm alone", [](PolicyConfig& c) {
      c.recurrent = Recurrence::lstm;
      c.recurrent_units = 4;
      c.recurrent_layers = 2;
      c.hidden = {};
    });
    add("two layers of gru", [](PolicyConfig& c) {
      c.recurrent = Recurrence::gru;
      c.recurrent_units = 4;
      c.recurrent_layers = 2;
    });
    add("gru with everything", [](PolicyConfig& c) {
      c.recurrent = Recurrence::gru;
      c.recurrent_units = 3;
      c.state_dependent_std = c.squash_actions = c.layer_norm = true;
      c.activation = ActivationChoice::silu;
    });
  }
  return kinds;
}

}  // namespace maniple
