// The Gaussian policy head: independent actions, on request squashed by tanh into (-1, 1).
#pragma once

#include "kernels/base/philox.hpp"
#include "kernels/nn/activations.hpp"

namespace maniple {

inline constexpr double kEntropyOfUnitGaussian = 1.41893853320467274178;  // [nat], 1/2 ln(2 pi e)

// Standard normal numbers, one per lane: the index-th of the stream of (seed, purpose, of_lane(lane), step).
// Box and Muller's transform: four numbers share one block of random words, each pair of words gives a pair
// of normals.
template <class V, class OfLane>
MANIPLE_FUNCTION V normal_noise(std::uint32_t seed, RandomPurpose purpose, const OfLane& of_lane,
                                std::uint32_t step, int index) {
  using T = ScalarOf<V>;
  V radius, angle;
  const int first_word = index / 2 % 2 * 2;
  for (int lane = 0; lane < lane_width<V>; ++lane) {
    const PhiloxBlock block =
        random_block(seed, purpose, of_lane(lane), step, static_cast<std::uint32_t>(index / 4));
    set_lane(radius, lane, uniform01_open_zero<T>(block.word[first_word]));
    set_lane(angle, lane, uniform01<T>(block.word[first_word + 1]));
  }
  V s, c;
  sincos(angle * V(T(6.28318530717958647693)), s, c);
  return sqrt(V(T(-2)) * log(radius)) * (index % 2 == 0 ? c : s);
}

// The noise of an environment's action `index` at a control step; lane l belongs to global environment
// first_env + l.
template <class V>
MANIPLE_FUNCTION V action_noise(std::uint32_t seed, RandomPurpose purpose, std::int64_t first_env,
                                std::uint32_t control_step, int index) {
  return normal_noise<V>(
      seed, purpose, [&](int lane) { return static_cast<std::uint64_t>(first_env + lane); }, control_step,
      index);
}

// Uniform numbers in [0, 1) of the same streams, behind the normal ones of `actions` actions.
template <class V>
MANIPLE_FUNCTION V action_choice(std::uint32_t seed, RandomPurpose purpose, std::int64_t first_env,
                                 std::uint32_t control_step, int actions) {
  using T = ScalarOf<V>;
  V x;
  for (int lane = 0; lane < lane_width<V>; ++lane)
    set_lane(x, lane,
             uniform01<T>(random_block(seed, purpose, static_cast<std::uint64_t>(first_env + lane),
                                       control_step, static_cast<std::uint32_t>((actions + 3) / 4))
                              .word[0]));
  return x;
}

// log of the density at z standard deviations from the mean, of one action.
template <class V>
MANIPLE_FUNCTION V gaussian_log_density(V z, V log_std) {
  using T = ScalarOf<V>;
  return V(T(-0.5)) * z * z - (log_std + V(T(0.91893853320467274178)));
}

// ln(d tanh(u) / du), without the cancellation of ln(1 - tanh(u)^2). The density of tanh(u) is that of u over
// this derivative; both policies that a ratio or a divergence compares have the same, so these are those of u
// and what is stored is u. Entropies are not: that of tanh(u) is higher by the mean of this.
template <class V>
MANIPLE_FUNCTION V log_tanh_slope(V u) {
  using T = ScalarOf<V>;
  return V(T(2)) * (V(T(0.69314718055994530942)) - u - softplus(V(T(-2)) * u));
}

// Log standard deviations of a sample's actions: the same for all samples, or its own.
template <class V>
struct LogStd {
  const ScalarOf<V>* shared = nullptr;
  Varying<V> own;

  MANIPLE_FUNCTION V operator[](int k) const { return shared ? V(shared[k]) : own[k]; }
};

}  // namespace maniple
