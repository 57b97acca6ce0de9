// A muscle: activation dynamics with different time constants up and down, and forces by length and velocity
// relative to its optimum length (mju_muscleDynamics, mju_muscleGain, mju_muscleBias, mjd_muscleGain_vel).
// actuator_law.hpp lists these functions beside those of other actuators.
#pragma once

#include "kernels/model/lane_model.hpp"

namespace maniple {

// The parameters of a gain or bias of type muscle, in their order.
enum MuscleParameter : int {
  muscle_range0,
  muscle_range1,
  muscle_force,
  muscle_scale,
  muscle_lmin,
  muscle_lmax,
  muscle_vmax,
  muscle_fpmax,
  muscle_fvmax
};

// Muscle i at a length: its peak force, optimum length and length in units of that.
template <class V>
struct MuscleState {
  V force, optimum, length;
};
// `own`: those of its first parameters that may vary; `prm`: all of them.
template <class V>
MANIPLE_FUNCTION MuscleState<V> muscle_state(const LaneModel<V>& lanes, const LaneField<V, 3, 10>& own,
                                             const ScalarOf<V>* prm, int i, V length) {
  const V least(kMinimumValue);
  const V start = own(i, muscle_range0), end = own(i, muscle_range1), force = own(i, muscle_force);
  const ScalarOf<V>* const range = lanes.m.actuator_lengthrange + 2 * i;
  const V optimum = V(range[1] - range[0]) / max(least, end - start);
  return {select(force < V(0), V(prm[muscle_scale]) / max(least, lanes.actuator_acc0(i)), force), optimum,
          start + (length - V(range[0])) / max(least, optimum)};
}

// Active force by length, at most 1: four parabolas between lmin and lmax (mju_muscleGainLength).
template <class V>
MANIPLE_FUNCTION V muscle_gain_of_length(V length, ScalarOf<V> lmin, ScalarOf<V> lmax) {
  using T = ScalarOf<V>;
  const T a = T(0.5) * (lmin + 1), b = T(0.5) * (1 + lmax), least(kMinimumValue);
  const V half(T(0.5)), one(1);
  const auto over = [&](V x, T width) { return x / V(max(least, width)); };
  const auto rising = [&](V x) { return half * x * x; };
  const auto falling = [&](V x) { return one - half * x * x; };
  const V right =
      select(length <= V(b), falling(over(length - one, b - 1)), rising(over(V(lmax) - length, lmax - b)));
  const V left =
      select(length <= V(a), rising(over(length - V(lmin), a - lmin)), falling(over(one - length, 1 - a)));
  return select(length >= V(lmin) && length <= V(lmax), select(length <= one, left, right), V(0));
}

// Active force by velocity, in units of the fastest: 0 where it shortens at vmax, 1 at rest, fvmax at most;
// and its derivative.
template <class V>
struct MuscleVelocity {
  V force, derivative;
};
template <class V>
MANIPLE_FUNCTION MuscleVelocity<V> muscle_gain_of_velocity(V velocity, ScalarOf<V> fvmax) {
  using T = ScalarOf<V>;
  const T y = fvmax - 1;
  const V one(1), width(max(T(kMinimumValue), y)), left = V(y) - velocity;
  const MaskOf<V> shortening = velocity <= V(0), stretching = velocity <= V(y), still = velocity <= -one;
  const V force = select(shortening, (velocity + one) * (velocity + one),
                         select(stretching, V(fvmax) - left * left / width, V(fvmax)));
  const V derivative = select(shortening, V(2) * velocity + V(2),
                              select(stretching, (V(-2) * velocity + V(2 * y)) / width, V(0)));
  return {select(still, V(0), force), select(still, V(0), derivative)};
}

// Gain and its derivative by the velocity: negative, since muscles pull.
template <class V>
MANIPLE_FUNCTION V muscle_gain(const LaneModel<V>& lanes, int i, V length, V velocity) {
  const ScalarOf<V>* const prm = lanes.m.actuator_gainprm + 10 * i;
  const MuscleState<V> state = muscle_state(lanes, lanes.actuator_gainprm(), prm, i, length);
  const V speed = velocity / max(V(kMinimumValue), state.optimum * V(prm[muscle_vmax]));
  return -state.force * muscle_gain_of_length(state.length, prm[muscle_lmin], prm[muscle_lmax]) *
         muscle_gain_of_velocity(speed, prm[muscle_fvmax]).force;
}
template <class V>
MANIPLE_FUNCTION V muscle_gain_derivative(const LaneModel<V>& lanes, int i, V length, V velocity) {
  const ScalarOf<V>* const prm = lanes.m.actuator_gainprm + 10 * i;
  const MuscleState<V> state = muscle_state(lanes, lanes.actuator_gainprm(), prm, i, length);
  const V fastest = max(V(kMinimumValue), state.optimum * V(prm[muscle_vmax]));
  return -state.force * muscle_gain_of_length(state.length, prm[muscle_lmin], prm[muscle_lmax]) *
         muscle_gain_of_velocity(V(velocity / fastest), prm[muscle_fvmax]).derivative / fastest;
}

// Passive force, added to `force`: half a parabola from the optimum length to the middle between it and lmax,
// straight beyond.
template <class V>
MANIPLE_FUNCTION V muscle_bias(const LaneModel<V>& lanes, int i, V length, V, V force) {
  using T = ScalarOf<V>;
  const T* const prm = lanes.m.actuator_biasprm + 10 * i;
  const MuscleState<V> state = muscle_state(lanes, lanes.actuator_biasprm(), prm, i, length);
  const T b = T(0.5) * (1 + prm[muscle_lmax]);
  const V width(max(T(kMinimumValue), b - 1)), half(T(0.5));
  const V near = (state.length - V(1)) / width, beyond = (state.length - V(b)) / width;
  const V scale = -state.force * V(prm[muscle_fpmax]);
  const V passive = select(state.length <= V(b), scale * half * near * near, scale * (half + beyond));
  return force + select(state.length <= V(1), V(0), passive);
}
template <class V>
MANIPLE_FUNCTION V muscle_bias_derivative(const LaneModel<V>&, int, V, V) {
  return V(0);
}

// Rate of the activation, 1/s, after Millard et al. (2013), https://doi.org/10.1115/1.4023390.
template <class V>
MANIPLE_FUNCTION V muscle_act_dot(const Model<ScalarOf<V>>& m, int i, V control, V act) {
  using T = ScalarOf<V>;
  const T* const prm = m.actuator_dynprm + 10 * i;
  const V half(T(0.5)), factor = half + V(T(1.5)) * clamp(act, V(0), V(1));
  const V up = V(prm[0]) * factor, down = V(prm[1]) / factor;
  const V excess = clamp(control, V(0), V(1)) - act;
  V tau;
  if (prm[2] < T(kMinimumValue)) {
    tau = select(excess > V(0), up, down);
  } else {
    // mju_sigmoid of the excess, over a width
    const V x = clamp(excess / V(prm[2]) + half, V(0), V(1));
    tau = down + (up - down) * (x * x * x * (V(3) * x * (V(2) * x - V(5)) + V(10)));
  }
  return excess / max(V(kMinimumValue), tau);
}

}  // namespace maniple
