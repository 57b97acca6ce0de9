// The losses of behaviour cloning (Pomerleau 1989) as a minibatch learns from them (kernels/nn/training.hpp):
// what the policy would do against the action that was demonstrated. Means over samples are torch's, and
// robomimic's algo/bc.py: of squared and absolute errors also over the components of an action, of log
// likelihoods not.
#pragma once

#include "kernels/nn/mixture.hpp"
#include "kernels/nn/training.hpp"

namespace maniple {

enum class CloningLoss : int {
  l2,         // squared error
  l1,         // absolute error
  smooth_l1,  // half the squared error below 1, the absolute one less 1/2 above (Huber; robomimic's l1)
  gaussian,   // negative log likelihood
  gmm,        // the same of a mixture, which the network is to give (kernels/nn/mixture.hpp)
};

// First element of each quantity in a block of demonstrated samples, as the network takes and gives them.
struct DemonstratedLayout {
  int observation = 0, action = 0;
  int weight = 0;  // 1, or 0: no sample
  int done = 0;    // 0: the steps of a sequence follow each other
  int elements = 0;

  DemonstratedLayout() = default;
  explicit DemonstratedLayout(const PolicySizes& sizes)
      : action(sizes.observations), weight(action + sizes.actions), done(weight + 1), elements(done + 1) {}
};

enum CloningMetric : int { kCloningLoss, kSquaredError, kNumCloningMetrics };

// Loss of one action's component, with its derivatives by the mean and by the log standard deviation.
template <class V>
struct CloningTerm {
  V loss, mean_derivative, log_std_derivative;
};
template <class V>
MANIPLE_FUNCTION CloningTerm<V> cloning_term(CloningLoss kind, V mean, V log_std, V action) {
  using T = ScalarOf<V>;
  const V zero(T(0)), one(T(1)), half(T(0.5)), error = mean - action, size = abs(error);
  switch (kind) {
    case CloningLoss::l1:
      return {size, select(error > zero, one, select(error < zero, -one, zero)), zero};
    case CloningLoss::smooth_l1:
      return {select(size < one, half * error * error, size - half), clamp(error, -one, one), zero};
    case CloningLoss::gaussian: {
      const V inverse_std = exp(-log_std), z = error * inverse_std;
      return {-gaussian_log_density(z, log_std), z * inverse_std, one - z * z};
    }
    case CloningLoss::l2:
    case CloningLoss::gmm:
      break;
  }
  return {error * error, error + error, zero};
}

template <class T>
struct CloneActions {
  static constexpr int num_metrics = kNumCloningMetrics;
  DemonstratedLayout layout;
  CloningLoss kind = CloningLoss::l2;
  bool squash_actions = false;  // the mean action is tanh of the network's output

  MANIPLE_FUNCTION ParameterRange own_parameters(const Network& network) const {
    return {network.log_std, network.own_deviations()};
  }

  template <class V>
  MANIPLE_FUNCTION void operator()(const Network& network, const T* parameters, std::int64_t,
                                   const SampleView<V>& view, MaskOf<V> real, T scale) const {
    const int actions = network.sizes.actions, actor = network.actor.first;
    if (network.sizes.modes > 0) {
      V squares;
      const V loss =
          mixture_loss<V>(Mixture<V>(network, view.output, squash_actions), view.stored.from(layout.action),
                          real, scale, view.delta.from(actor), view.delta.from(network.deviation.first),
                          view.delta.from(network.logits.first), squares);
      view.metrics[kCloningLoss] += select(real, loss, V(T(0)));
      view.metrics[kSquaredError] += select(real, squares, V(T(0)));
      return;
    }
    const bool own = network.deviation.units > 0;
    const Varying<V> deviation_delta = view.delta.from(network.deviation.first);
    const LogStd<V> log_std{own ? nullptr : parameters + network.log_std,
                            view.output.from(network.deviation.first)};
    const V zero(T(0)), share(kind == CloningLoss::gaussian ? T(1) : T(1) / T(actions));
    V loss = zero, squares = zero;
    for (int k = 0; k < actions; ++k) {
      const V output = view.output[actor + k], mean = squash_actions ? tanh(output) : output;
      const V action = view.stored[layout.action + k];
      const CloningTerm<V> term = cloning_term(kind, mean, log_std[k], action);
      V derivative = term.mean_derivative * share;
      if (squash_actions) derivative *= V(T(1)) - mean * mean;
      view.delta[actor + k] = select(real, V(scale) * derivative, zero);
      const V std_delta = select(real, V(scale) * share * term.log_std_derivative, zero);
      if (own)
        deviation_delta[k] = std_delta;
      else
        view.parameter_delta[k] += std_delta;
      loss += term.loss * share;
      squares += (mean - action) * (mean - action) * V(T(1) / T(actions));
    }
    view.metrics[kCloningLoss] += select(real, loss, zero);
    view.metrics[kSquaredError] += select(real, squares, zero);
  }

  MANIPLE_FUNCTION void after(const TileTeam&, const Network&, const T*, std::int64_t) const {}
};

}  // namespace maniple
