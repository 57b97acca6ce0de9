// The losses of proximal policy optimisation (Schulman, Wolski, Dhariwal, Radford, Klimov 2017) for one
// pack of samples, with their derivatives with respect to mean action, log standard deviation and value.
//
//   loss = policy + value_coef * value - entropy_coef * entropy + bounds_coef * bounds + kl_coef * kl
//   policy = max(-A ratio, -A clamp(ratio, 1 - clip, 1 + clip)),   ratio = exp(log p - log p_old)
//   value  = 1/2 max((v - target)^2, (v_old + clamp(v - v_old, -clip, clip) - target)^2)
//   bounds = sum over actions of the squared excess of the mean beyond +-1.1
//   kl     = KL(reference || policy)
// as in rl_games, whose critic_coef is value_coef; rsl_rl's value_loss_coef is half of it. The entropy of
// actions that are squashed by tanh has no closed form: each sample draws one action for it, as in Brax.
#pragma once

#include "kernels/base/varying.hpp"
#include "kernels/nn/gaussian.hpp"

namespace maniple {

struct LossSettings {
  double clip_ratio = 0.2;
  double value_coef = 1;
  bool clip_value = true;
  double entropy_coef = 0;
  double bounds_coef = 0;
  double kl_coef = 0;
  bool learned_std = false;
  bool squash_actions = false;
  double advantage_mean = 0, advantage_scale = 1;  // normalization: (A - mean) * scale
  double value_mean = 0, value_scale = 1;          // of stored values and targets, likewise
};

// What is summed over samples and reported.
enum LossMetric : int {
  kPolicyLoss,
  kValueLoss,
  kBoundsLoss,
  kKl,
  kClipped,
  kEntropy,    // this and the next: where the policy's parameters alone do not say it
  kDeviation,  // mean over the actions
  kNumLossMetrics
};

// Value loss of one sample and its derivative with respect to the value.
template <class V>
MANIPLE_FUNCTION V value_loss(V value, V old_value, V target, V clip, bool clipped, V& derivative) {
  using T = ScalarOf<V>;
  const V half(T(0.5));
  const V error = value - target;
  derivative = error;
  V loss = half * error * error;
  if (clipped) {
    const V change = value - old_value;
    const V clipped_error = old_value + clamp(change, -clip, clip) - target;
    const V clipped_loss = half * clipped_error * clipped_error;
    const MaskOf<V> use_clipped = clipped_loss > loss;
    // outside the clip range the clipped value does not move with the value
    const V clipped_derivative = select(abs(change) <= clip, clipped_error, V(T(0)));
    derivative = select(use_clipped, clipped_derivative, derivative);
    loss = select(use_clipped, clipped_loss, loss);
  }
  return loss;
}

// Policy loss of one sample and its derivative with respect to the new log probability.
template <class V>
MANIPLE_FUNCTION V policy_loss(V log_prob, V old_log_prob, V advantage, V clip, V& derivative, V& clipped) {
  using T = ScalarOf<V>;
  const V one(T(1)), zero(T(0));
  const V ratio = exp(log_prob - old_log_prob);
  const V loss = -advantage * ratio;
  const V clipped_loss = -advantage * clamp(ratio, one - clip, one + clip);
  const MaskOf<V> use_clipped = clipped_loss > loss;
  derivative = select(use_clipped, zero, loss);  // d ratio / d log_prob = ratio
  clipped = select(abs(ratio - one) > clip, one, zero);
  return max(loss, clipped_loss);
}

// Excess of a mean action beyond +-1.1, squared, and its derivative (rl_games' bound_loss).
template <class V>
MANIPLE_FUNCTION V bounds_loss(V mean, V& derivative) {
  using T = ScalarOf<V>;
  const V zero(T(0)), bound(T(1.1));
  const V excess = max(mean - bound, zero) + min(mean + bound, zero);
  derivative = V(T(2)) * excess;
  return excess * excess;
}

// KL divergence of one action's Gaussian from the one it was before: KL(old || new).
template <class V>
MANIPLE_FUNCTION V gaussian_kl(V mean, V log_std, V old_mean, V old_log_std) {
  using T = ScalarOf<V>;
  const V difference = mean - old_mean;
  const V inverse_variance = exp(V(T(-2)) * log_std);
  const V old_variance = exp(V(T(2)) * old_log_std);
  return (log_std - old_log_std - V(T(0.5))) +
         V(T(0.5)) * inverse_variance * multiply_add(difference, difference, old_variance);
}

// The stored quantities of a sample and the network's outputs for it: element i at pointer[i * lane_stride].
template <class V>
struct LossOperands {
  Varying<V> action, old_mean, mean;
  V old_log_prob, old_value, advantage, target, value;
  LogStd<V> log_std, old_log_std;
};

// Writes the derivatives of scale * loss (zero where a lane is not real; those of the log standard deviations
// are added) and adds the metrics, unscaled. noise(k): standard normal numbers, asked for with
// squash_actions.
template <class V, class Noise>
MANIPLE_FUNCTION void ppo_loss(const LossSettings& settings, int num_actions, const LossOperands<V>& x,
                               const Noise& noise, MaskOf<V> real, ScalarOf<V> scale, Varying<V> mean_delta,
                               V& value_delta, Varying<V> log_std_delta, Varying<V> metrics) {
  using T = ScalarOf<V>;
  const V zero(T(0));
  V log_prob = zero, kl = zero, bounds = zero, entropy = zero, deviation = zero;
  for (int k = 0; k < num_actions; ++k) {
    const V z = (x.action[k] - x.mean[k]) * exp(-x.log_std[k]);
    log_prob += gaussian_log_density(z, x.log_std[k]);
    kl += gaussian_kl(x.mean[k], x.log_std[k], x.old_mean[k], x.old_log_std[k]);
  }
  const V advantage = (x.advantage - V(T(settings.advantage_mean))) * V(T(settings.advantage_scale));
  const V clip(T(settings.clip_ratio));
  V policy_derivative, clipped;
  const V policy = policy_loss(log_prob, x.old_log_prob, advantage, clip, policy_derivative, clipped);
  V value_derivative;
  const auto normal = [&](V v) { return (v - V(T(settings.value_mean))) * V(T(settings.value_scale)); };
  const V value =
      value_loss(x.value, normal(x.old_value), normal(x.target), clip, settings.clip_value, value_derivative);
  value_delta = select(real, V(scale * T(settings.value_coef)) * value_derivative, zero);
  for (int k = 0; k < num_actions; ++k) {
    const V inverse_std = exp(-x.log_std[k]);
    const V z = (x.action[k] - x.mean[k]) * inverse_std;
    V bounds_derivative;
    bounds += bounds_loss(x.mean[k], bounds_derivative);
    V derivative = policy_derivative * z * inverse_std + V(T(settings.bounds_coef)) * bounds_derivative;
    // the entropy of a Gaussian grows by one with its log standard deviation
    V std_derivative = policy_derivative * (z * z - V(T(1))) - V(T(settings.entropy_coef));
    if (settings.kl_coef != 0) {
      const V coef(T(settings.kl_coef));
      const V change = (x.mean[k] - x.old_mean[k]) * inverse_std;
      const V spread = exp(x.old_log_std[k] - x.log_std[k]);
      derivative += coef * change * inverse_std;
      std_derivative += coef * (V(T(1)) - change * change - spread * spread);
    }
    if (settings.squash_actions || x.log_std.shared == nullptr) {
      const V std = exp(x.log_std[k]);
      deviation += std;
      entropy += x.log_std[k] + V(T(kEntropyOfUnitGaussian));
      if (settings.squash_actions) {
        const V away = std * noise(k), u = x.mean[k] + away;
        entropy += log_tanh_slope(u);
        const V pull = V(T(2 * settings.entropy_coef)) * tanh(u);
        derivative += pull;
        std_derivative += pull * away;
      }
    }
    mean_delta[k] = select(real, V(scale) * derivative, zero);
    if (settings.learned_std) log_std_delta[k] += select(real, V(scale) * std_derivative, zero);
  }
  metrics[kPolicyLoss] += select(real, policy, zero);
  metrics[kValueLoss] += select(real, value, zero);
  metrics[kBoundsLoss] += select(real, bounds, zero);
  metrics[kKl] += select(real, kl, zero);
  metrics[kClipped] += select(real, clipped, zero);
  metrics[kEntropy] += select(real, entropy, zero);
  metrics[kDeviation] += select(real, deviation * V(T(1) / T(num_actions)), zero);
}

}  // namespace maniple
