// Generalised advantage estimation (Schulman, Moritz, Levine, Jordan, Abbeel 2016, equation 16), backwards
// over the steps of a rollout. An episode's end, of either kind, cuts the sum; a time-out has had its
// bootstrap value added to the reward before.
#pragma once

#include "kernels/base/pack.hpp"

namespace maniple {

// One step: returns the advantage, given those of the step after. `done` is 1 where the episode ended.
template <class V>
MANIPLE_FUNCTION V gae_step(V reward, V done, V value, V next_value, V next_advantage, ScalarOf<V> gamma,
                            ScalarOf<V> lambda) {
  const V alive = V(ScalarOf<V>(1)) - done;
  const V discounted = V(gamma) * alive;
  const V delta = multiply_add(discounted, next_value, reward) - value;
  return multiply_add(discounted * V(lambda), next_advantage, delta);
}

}  // namespace maniple
