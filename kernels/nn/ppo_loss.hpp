// The loss of proximal policy optimisation as a minibatch learns from it (kernels/nn/training.hpp): of a
// Gaussian actor and a critic, on samples that a rollout has stored.
#pragma once

#include "kernels/nn/losses.hpp"
#include "kernels/nn/training.hpp"

namespace maniple {

template <class T>
struct PpoLoss {
  static constexpr int num_metrics = kNumLossMetrics;
  SampleLayout layout;
  LossSettings settings;
  T* reference_log_std = nullptr;  // [step][tile][own deviations]: of the policy that KL is measured from
  bool move_reference = false;     // KL from the previous epoch instead of the rollout
  // Entropy of squashed actions: one draw for each sample and epoch.
  std::uint32_t seed = 0, first_step = 0;  // control step of the rollout's first
  int epoch = 0;
  std::int64_t first_env = 0, tiles = 1;  // of this rank

  MANIPLE_FUNCTION ParameterRange own_parameters(const Network& network) const {
    return {network.log_std, network.own_deviations()};
  }

  template <class V>
  MANIPLE_FUNCTION void operator()(const Network& network, const T* parameters, std::int64_t index,
                                   const SampleView<V>& view, MaskOf<V> real, T scale) const {
    const int actions = network.sizes.actions, actor = network.actor.first, critic = network.critic.first;
    const bool own = network.deviation.units > 0;
    const Varying<V>& stored = view.stored;
    const Varying<V> deviation = view.output.from(network.deviation.first),
                     deviation_delta = view.delta.from(network.deviation.first),
                     old_deviation = stored.from(layout.log_std);
    const LossOperands<V> x{
        .action = stored.from(layout.action),
        .old_mean = stored.from(layout.mean),
        .mean = view.output.from(actor),
        .old_log_prob = stored[layout.log_prob],
        .old_value = stored[layout.value],
        .advantage = stored[layout.advantage],
        .target = stored[layout.target],
        .value = view.output[critic],
        .log_std = {own ? nullptr : parameters + network.log_std, deviation},
        .old_log_std = {own ? nullptr : reference_log_std + index * actions, old_deviation}};
    if (own)
      for (int k = 0; k < actions; ++k) deviation_delta[k] = V(T(0));
    const auto noise = [&](int k) {
      const std::int64_t env = first_env + index % tiles * kTileWidth + view.lane;
      // of the actions' own stream, behind the numbers that they took
      return action_noise<V>(seed, RandomPurpose::action, env,
                             first_step + static_cast<std::uint32_t>(index / tiles),
                             (actions + 3) / 4 * 4 * (epoch + 1) + k);
    };
    ppo_loss<V>(settings, actions, x, noise, real, scale, view.delta.from(actor), view.delta[critic],
                own ? deviation_delta : view.parameter_delta, view.metrics);
    if (!move_reference) return;
    for (int k = 0; k < actions; ++k) {
      stored[layout.mean + k] = view.output[actor + k];
      if (own) old_deviation[k] = deviation[k];
    }
  }

  MANIPLE_FUNCTION void after(const TileTeam& team, const Network& network, const T* parameters,
                              std::int64_t index) const {
    const int count = network.own_deviations();
    T* const reference = reference_log_std + index * count;
    if (move_reference)
      team.items(count, [&](std::int64_t k) { reference[k] = parameters[network.log_std + k]; });
  }
};

}  // namespace maniple
