// The loss of proximal policy optimisation as a minibatch learns from it (kernels/nn/training.hpp): of a
// Gaussian actor with its own log standard deviations, and a critic, on samples that a rollout has stored.
#pragma once

#include "kernels/nn/losses.hpp"
#include "kernels/nn/training.hpp"

namespace maniple {

template <class T>
struct PpoLoss {
  static constexpr int num_metrics = kNumLossMetrics;
  SampleLayout layout;
  LossSettings settings;
  T* reference_log_std = nullptr;  // [step][tile][actions]: of the policy that KL is measured from
  bool move_reference = false;     // KL from the previous epoch instead of the rollout

  MANIPLE_FUNCTION ParameterRange own_parameters(const Network& network) const {
    return {network.log_std, network.sizes.actions};
  }

  template <class V>
  MANIPLE_FUNCTION void operator()(const Network& network, const T* parameters, std::int64_t index,
                                   const SampleView<V>& view, MaskOf<V> real, T scale) const {
    const int actor = network.actor.first, critic = network.critic.first;
    const Varying<V>& stored = view.stored;
    const LossOperands<V> x{stored.from(layout.action),   stored.from(layout.mean),
                            view.output.from(actor),      stored[layout.log_prob],
                            stored[layout.value],         stored[layout.advantage],
                            stored[layout.target],        view.output[critic],
                            parameters + network.log_std, reference_log_std + index * network.sizes.actions};
    ppo_loss<V>(settings, network.sizes.actions, x, real, scale, view.delta.from(actor), view.delta[critic],
                view.parameter_delta, view.metrics);
    if (move_reference)
      for (int k = 0; k < network.sizes.actions; ++k) stored[layout.mean + k] = view.output[actor + k];
  }

  MANIPLE_FUNCTION void after(const TileTeam& team, const Network& network, const T* parameters,
                              std::int64_t index) const {
    T* const reference = reference_log_std + index * network.sizes.actions;
    if (move_reference)
      team.items(network.sizes.actions,
                 [&](std::int64_t k) { reference[k] = parameters[network.log_std + k]; });
  }
};

}  // namespace maniple
