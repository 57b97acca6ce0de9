// The controls of actuators: those of now or of some time ago, within their ranges, and what their setpoints
// mean on a circle (mj_readCtrl, wrapSetpoint).
#pragma once

#include "kernels/physics/smooth/actuator_law.hpp"

namespace maniple {

// The setpoint that is equivalent to u and nearest to `length`, of a servo with the given period.
template <class V>
MANIPLE_FUNCTION V nearest_setpoint(V u, V length, ScalarOf<V> period) {
  const V shift(bits::Format<ScalarOf<V>>::rounding_shift);
  const V turns = ((u - length) * V(1 / period) + shift) - shift;
  return u - V(period) * turns;
}

// First control of actuator i, or with a delay the one of that long ago (mj_readCtrl): what the steps before
// had, between them by the actuator's interpolation, and the oldest or newest of them beyond. `elapsed`: time
// since the time step began, in time steps.
template <class V>
MANIPLE_FUNCTION V delayed_control(const Model<ScalarOf<V>>& m, const State<V>& s, int i,
                                   ScalarOf<V> elapsed) {
  using T = ScalarOf<V>;
  const int first = m.actuator_historyadr[i];
  if (first < 0) return s.ctrl[m.actuator_ctrladr[i]];
  const int count = m.actuator_history[2 * i], order = m.actuator_history[2 * i + 1];
  const auto steps_ago = [&](int steps) { return V(s.ctrl_history[first + count - steps]); };
  const T back = m.actuator_delaysteps[i] - elapsed;
  if (back <= T(1)) return steps_ago(1);
  if (back >= T(count)) return steps_ago(count);
  const int later = static_cast<int>(back), earlier = later + 1;
  const T alpha = T(earlier) - back;
  if (alpha == T(1)) return steps_ago(later);
  const V from = steps_ago(earlier), to = steps_ago(later);
  if (order == 0) return from;
  if (order == 1) return from + V(alpha) * (to - from);
  // cubic, with the slopes of Catmull and Rom; none at the ends
  const V half(T(0.5));
  const V slope_from = earlier < count ? half * (to - steps_ago(earlier + 1)) : V(0);
  const V slope_to = later > 1 ? half * (steps_ago(later - 1) - from) : V(0);
  const T square = alpha * alpha, cube = square * alpha;
  return V(T(2) * cube - T(3) * square + T(1)) * from + V(cube - T(2) * square + alpha) * slope_from +
         V(T(3) * square - T(2) * cube) * to + V(cube - square) * slope_to;
}

// Control u, an actuator's first one as it acts now, within its range.
template <class V>
MANIPLE_FUNCTION V within_range(const Model<ScalarOf<V>>& m, int u, V control) {
  if (!m.actuator_ctrllimited[u] || (m.disableflags & disable_clampctrl)) return control;
  return clamp(control, V(m.actuator_ctrlrange[2 * u]), V(m.actuator_ctrlrange[2 * u + 1]));
}

// Control number k of actuator i within its range, see delayed_control. Only an actuator with a single
// control has a delay.
template <class V>
MANIPLE_FUNCTION V clamped_control(const Model<ScalarOf<V>>& m, const State<V>& s, int i, int k,
                                   ScalarOf<V> elapsed) {
  const int u = m.actuator_ctrladr[i] + k;
  return within_range(m, u, k > 0 ? V(s.ctrl[u]) : delayed_control(m, s, i, elapsed));
}

// Environments in which some control is invalid: MuJoCo takes all of their controls as zero.
template <class V>
MANIPLE_FUNCTION MaskOf<V> invalid_controls(const Model<ScalarOf<V>>& m, const State<V>& s,
                                            ScalarOf<V> elapsed) {
  MaskOf<V> invalid(false);
  for (int i = 0; i < m.nactuator; ++i)
    for (int k = 0; k < m.actuator_ctrlnum[i]; ++k)
      invalid = invalid || is_bad(clamped_control(m, s, i, k, elapsed));
  return invalid;
}

// The controls of an actuator by their meaning; zero where it lacks one.
template <class V>
struct ControlInputs {
  V pos, vel, ff, voltage;
};

// Those of actuator i; all zero in the environments `zeroed`, see invalid_controls.
template <class V>
MANIPLE_FUNCTION ControlInputs<V> control_inputs(const Model<ScalarOf<V>>& m, const State<V>& s, int i,
                                                 MaskOf<V> zeroed, ScalarOf<V> elapsed) {
  const int spec = m.actuator_ctrlspec[i];
  int k = 0;
  const auto next = [&](CtrlInput input) MANIPLE_INLINE_LAMBDA {
    return spec & input ? select(zeroed, V(0), clamped_control(m, s, i, k++, elapsed)) : V(0);
  };
  ControlInputs<V> inputs;
  inputs.pos = next(input_pos);
  inputs.vel = next(input_vel);
  inputs.ff = next(input_ff);
  inputs.voltage = next(input_voltage);
  return inputs;
}

// A setpoint that moves away from the one before by at most `rate` times the time step, of a servo with the
// given period, 0: none (slewLimit). Writes the rate of that one, its activation.
template <class V>
MANIPLE_FUNCTION V slew_limited(V setpoint, V before, ScalarOf<V> rate, ScalarOf<V> timestep,
                                ScalarOf<V> period, V& act_dot) {
  if (period > 0) setpoint = nearest_setpoint(setpoint, before, period);
  const V most(rate * timestep);
  const V moved = clamp(setpoint, before - most, before + most);
  act_dot = (moved - before) / V(timestep);
  return moved;
}

// The rate of the integral of an error, which does not grow beyond `most`; 0: it may.
template <class V>
MANIPLE_FUNCTION V without_windup(V error, V integral, ScalarOf<V> most) {
  if (!(most > 0)) return error;
  return select(integral >= V(most), min(error, V(0)), select(integral <= V(-most), max(error, V(0)), error));
}

}  // namespace maniple
