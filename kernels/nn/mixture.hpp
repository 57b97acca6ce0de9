// The mixture head: several Gaussians ("modes") with weights of their own (Bishop 1994), of independent
// actions each, in the form of robomimic's GMMActorNetwork. Its loss is the negative log likelihood of an
// action, and an action is drawn by drawing a mode first.
#pragma once

#include "kernels/nn/gaussian.hpp"
#include "kernels/nn/network.hpp"

namespace maniple {

// What a network gives for one pack of samples.
template <class V>
struct Mixture {
  int modes = 0, actions = 0;
  Varying<V> means, log_stds;   // [mode][action]
  Varying<V> logits;            // [mode]
  bool squash_actions = false;  // a mean is tanh of the network's number; draws about it are not squashed

  MANIPLE_FUNCTION Mixture(const Network& network, const Varying<V>& output, bool squash)
      : modes(network.sizes.modes),
        actions(network.sizes.actions),
        means(output.from(network.actor.first)),
        log_stds(output.from(network.deviation.first)),
        logits(output.from(network.logits.first)),
        squash_actions(squash) {}

  MANIPLE_FUNCTION V mean(int mode, int action) const {
    const V x = means[mode * actions + action];
    return squash_actions ? tanh(x) : x;
  }
  MANIPLE_FUNCTION V log_std(int mode, int action) const { return log_stds[mode * actions + action]; }
  MANIPLE_FUNCTION V largest_logit() const {
    V largest = logits[0];
    for (int mode = 1; mode < modes; ++mode) largest = max(largest, logits[mode]);
    return largest;
  }
  MANIPLE_FUNCTION V log_sum_of_weights() const {
    const V largest = largest_logit();
    V sum(ScalarOf<V>(0));
    for (int mode = 0; mode < modes; ++mode) sum += exp(logits[mode] - largest);
    return largest + log(sum);
  }

  // The mode that a uniform number in [0, 1) falls to, as a number.
  MANIPLE_FUNCTION V drawn_mode(V uniform) const {
    using T = ScalarOf<V>;
    const V sum = log_sum_of_weights();
    V mode(T(0)), below(T(0));
    for (int m = 0; m + 1 < modes; ++m) {
      below += exp(logits[m] - sum);
      mode = select(uniform < below, mode, V(T(m + 1)));
    }
    return mode;
  }
  // The mode of the largest weight, the first of equal ones.
  MANIPLE_FUNCTION V likeliest_mode() const {
    using T = ScalarOf<V>;
    V mode(T(0)), largest = logits[0];
    for (int m = 1; m < modes; ++m) {
      mode = select(logits[m] > largest, V(T(m)), mode);
      largest = max(largest, logits[m]);
    }
    return mode;
  }
  // Mean and log standard deviation of an action in a mode that may be another for each sample.
  MANIPLE_FUNCTION V mean_in(V mode, int action) const {
    V x = mean(0, action);
    for (int m = 1; m < modes; ++m) x = select(mode == V(ScalarOf<V>(m)), mean(m, action), x);
    return x;
  }
  MANIPLE_FUNCTION V log_std_in(V mode, int action) const {
    V x = log_std(0, action);
    for (int m = 1; m < modes; ++m) x = select(mode == V(ScalarOf<V>(m)), log_std(m, action), x);
    return x;
  }
};

// Negative log likelihood of actions [action], and the mean over modes and components of their squared
// distance from the modes' means. Writes the derivatives of scale * loss by what the network gives, zero
// where a lane is not real: [mode][action], [mode][action], [mode].
template <class V>
MANIPLE_FUNCTION V mixture_loss(const Mixture<V>& mixture, const Varying<V>& action, MaskOf<V> real,
                                ScalarOf<V> scale, const Varying<V>& mean_delta,
                                const Varying<V>& log_std_delta, const Varying<V>& logit_delta,
                                V& squared_error) {
  using T = ScalarOf<V>;
  const V zero(T(0)), one(T(1)), log_weights = mixture.log_sum_of_weights();
  // ln(weight * density) of each mode, which lies where its derivative is to go
  V largest(zero);
  for (int m = 0; m < mixture.modes; ++m) {
    V joint = mixture.logits[m] - log_weights;
    for (int k = 0; k < mixture.actions; ++k) {
      const V log_std = mixture.log_std(m, k);
      joint += gaussian_log_density((mixture.mean(m, k) - action[k]) * exp(-log_std), log_std);
    }
    logit_delta[m] = joint;
    largest = m == 0 ? joint : max(largest, joint);
  }
  V sum(zero);
  for (int m = 0; m < mixture.modes; ++m) sum += exp(logit_delta[m] - largest);
  const V log_density = largest + log(sum);
  squared_error = zero;
  for (int m = 0; m < mixture.modes; ++m) {
    const V weight = exp(mixture.logits[m] - log_weights);  // of the mode
    const V blame = exp(logit_delta[m] - largest) / sum;    // its probability once the action is seen
    V squares(zero);
    for (int k = 0; k < mixture.actions; ++k) {
      const V mean = mixture.mean(m, k), inverse_std = exp(-mixture.log_std(m, k));
      const V error = mean - action[k], z = error * inverse_std;
      V derivative = blame * z * inverse_std;
      if (mixture.squash_actions) derivative *= one - mean * mean;
      mean_delta[m * mixture.actions + k] = select(real, V(scale) * derivative, zero);
      log_std_delta[m * mixture.actions + k] = select(real, V(scale) * blame * (one - z * z), zero);
      squares += error * error;
    }
    squared_error += weight * squares * V(T(1) / T(mixture.actions));
    logit_delta[m] = select(real, V(scale) * (weight - blame), zero);
  }
  return -log_density;
}

}  // namespace maniple
