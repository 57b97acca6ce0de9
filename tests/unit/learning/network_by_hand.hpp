// A policy's network in plain loops and double precision, built from the configuration, for tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/nn/network.hpp"
#include "src/config/config.hpp"

namespace maniple::testing_learning {

// The heads of a network for one sample in plain loops, from what the configuration says; parameters are
// found in the order of the network's layers. `state` is that before the step, and is moved to that after it.
struct Heads {
  std::vector<double> mean, log_std;
  double value = 0;
};
using Chain = std::function<std::vector<double>(const std::vector<int>&, std::vector<double>)>;
// Runs the chains of a network one after the other: the outputs of a chain's last layer, from the widths of
// its hidden layers and what it sees. What is given outlives it.
inline Chain chains_by_hand(const PolicyConfig& config, const Network& network, const double* parameters,
                            std::vector<double>& state) {
  return [&config, &network, parameters, &state, next = 0, cells = 0](const std::vector<int>& widths,
                                                                      std::vector<double> x) mutable {
    const auto dense = [&](const std::vector<double>& in) {
      while (!network.layers[next].is_dense()) ++next;
      const Layer& layer = network.layers[next++];
      std::vector<double> y;
      for (int o = 0; o < layer.outputs; ++o) {
        double sum = parameters[layer.bias + o];
        for (std::size_t i = 0; i < in.size(); ++i)
          sum += parameters[layer.weight + o * layer.stride() + static_cast<std::int64_t>(i)] * in[i];
        y.push_back(sum);
      }
      return y;
    };
    const auto logistic = [](double gate) { return 1 / (1 + std::exp(-gate)); };
    const std::size_t n = static_cast<std::size_t>(config.recurrent_units);
    for (int cell = 0; cell < config.recurrent_layers && config.recurrent == Recurrence::lstm; ++cell) {
      const auto h = state.begin() + cells++ * 2 * config.recurrent_units, c = h + config.recurrent_units;
      const std::vector<double> a = dense(x), b = dense({h, c});
      const auto gate = [&](std::size_t which, std::size_t k) { return a[which * n + k] + b[which * n + k]; };
      for (std::size_t k = 0; k < n; ++k) {
        double& kept = c[static_cast<std::ptrdiff_t>(k)];
        kept = logistic(gate(1, k)) * kept + logistic(gate(0, k)) * std::tanh(gate(2, k));
        h[static_cast<std::ptrdiff_t>(k)] = logistic(gate(3, k)) * std::tanh(kept);
      }
      x.assign(h, c);
    }
    for (int cell = 0; cell < config.recurrent_layers && config.recurrent == Recurrence::gru; ++cell) {
      const auto first = state.begin() + cells++ * config.recurrent_units;
      std::vector<double> h(first, first + config.recurrent_units);
      const std::vector<double> a = dense(x), b = dense(h);
      for (std::size_t k = 0; k < n; ++k) {
        const double r = logistic(a[k] + b[k]), z = logistic(a[n + k] + b[n + k]);
        h[k] = (1 - z) * std::tanh(a[2 * n + k] + r * b[2 * n + k]) + z * h[k];
      }
      std::copy(h.begin(), h.end(), first);
      x = h;
    }
    for (std::size_t l = 0; l < widths.size(); ++l) {
      x = dense(x);
      double mean = 0, variance = 0;
      for (double& v : x) {
        if (config.activation == ActivationChoice::elu) v = v > 0 ? v : std::expm1(v);
        if (config.activation == ActivationChoice::tanh) v = std::tanh(v);
        if (config.activation == ActivationChoice::relu) v = std::max(v, 0.0);
        if (config.activation == ActivationChoice::leaky_relu) v = v > 0 ? v : 0.01 * v;
        if (config.activation == ActivationChoice::silu) v *= logistic(v);
        if (config.activation == ActivationChoice::gelu) v *= std::erfc(-v / std::sqrt(2.0)) / 2;
        mean += v / static_cast<double>(x.size());
      }
      if (!config.layer_norm) continue;
      for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
      while (network.layers[next].kind != LayerKind::layer_norm) ++next;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto k = static_cast<std::int64_t>(i);
        x[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * parameters[network.layers[next].weight + k] +
               parameters[network.layers[next].bias + k];
      }
    }
    return dense(x);
  };
}

// The outputs of the actor's last layer.
inline std::vector<double> outputs_by_hand(const PolicyConfig& config, const Network& network,
                                           const double* parameters, const std::vector<double>& observation,
                                           std::vector<double>& state) {
  return chains_by_hand(config, network, parameters, state)(config.hidden, observation);
}

inline Heads heads_by_hand(const PolicyConfig& config, const Network& network, const double* parameters,
                           const std::vector<double>& observation, std::vector<double>& state) {
  const Chain chain = chains_by_hand(config, network, parameters, state);
  const std::vector<double> first = chain(config.hidden, observation);
  const auto actions = static_cast<std::size_t>(network.sizes.actions);
  Heads heads;
  heads.mean.assign(first.begin(), first.begin() + network.sizes.actions);
  for (std::size_t k = 0; k < actions && config.state_dependent_std; ++k) {
    double std = std::exp(first[actions + k]);
    if (config.std_transform == StdTransform::softplus)
      std = std::log1p(std) + config.min_std;
    else if (config.min_std > 0)
      std = std::max(std, config.min_std);
    if (config.max_std > 0) std = std::min(std, config.max_std);
    heads.log_std.push_back(std::log(std));
  }
  heads.value = config.shared ? first.back()
                              : chain(config.critic_hidden.empty() ? config.hidden : config.critic_hidden,
                                      observation)[0];
  return heads;
}

}  // namespace maniple::testing_learning
