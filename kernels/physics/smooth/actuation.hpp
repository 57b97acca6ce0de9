// Actuators: length and velocity through their transmission, activation dynamics, force by their law, and the
// resulting joint forces (mj_transmission, mj_fwdActuation).
#pragma once

#include "kernels/model/data.hpp"
#include "kernels/physics/smooth/actuator_law.hpp"
#include "kernels/physics/smooth/transmission.hpp"

namespace maniple {

// Writes actuator_length.
template <class V>
MANIPLE_FUNCTION void actuator_lengths(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (const int i : d.team.share(m.nu)) d.actuator_length[i] = transmission_length(m, s, d, i);
}

// Writes actuator_velocity.
template <class V>
MANIPLE_FUNCTION void actuator_velocities(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const bool off = m.disableflags & disable_actuation;
  for (const int i : d.team.share(m.nu))
    d.actuator_velocity[i] = off ? V(0) : transmission_velocity(m, s, d, i);
}

// Activation of actuator i after one time step with the rate act_dot: mj_nextActivation.
template <class V>
MANIPLE_FUNCTION V next_activation(const Model<ScalarOf<V>>& m, int i, V act, V act_dot) {
  V next = act + act_dot * V(m.actuator_step[i]);
  if (m.actuator_actlimited[i])
    next = clamp(next, V(m.actuator_actrange[2 * i]), V(m.actuator_actrange[2 * i + 1]));
  return next;
}

// The setpoint that is equivalent to u and nearest to `length`, of a servo with the given period.
template <class V>
MANIPLE_FUNCTION V nearest_setpoint(V u, V length, ScalarOf<V> period) {
  const V shift(bits::Format<ScalarOf<V>>::rounding_shift);
  const V turns = ((u - length) * V(1 / period) + shift) - shift;
  return u - V(period) * turns;
}

// The same of actuator i, which has a period, in the environments where its gains make it a servo.
template <class V>
MANIPLE_FUNCTION V own_setpoint(const Model<ScalarOf<V>>& m, const State<V>& s, int i, V u, V length) {
  const V nearest = nearest_setpoint(u, length, m.actuator_period[i]);
  if (m.varied.actuator_gainprm < 0 && m.varied.actuator_biasprm < 0) return nearest;
  const LaneModel<V> lanes(m, s);
  return select(lanes.actuator_gainprm(i) == -lanes.actuator_biasprm(i, 1), nearest, u);
}

// Control of actuator i, or with a delay the one of that long ago (mj_readCtrl): what the steps before had,
// between them by the actuator's interpolation, and the oldest or newest of them beyond. `elapsed`: time
// since the time step began, in time steps.
template <class V>
MANIPLE_FUNCTION V delayed_control(const Model<ScalarOf<V>>& m, const State<V>& s, int i,
                                   ScalarOf<V> elapsed) {
  using T = ScalarOf<V>;
  const int first = m.actuator_historyadr[i];
  if (first < 0) return s.ctrl[i];
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

// After a time step: what the actuators with a delay remember.
template <class V>
MANIPLE_FUNCTION void remember_controls(const Model<ScalarOf<V>>& m, const State<V>& s, const Team<V>& team) {
  for (const int i : team.share(m.nu)) {
    const int first = m.actuator_historyadr[i];
    if (first < 0) continue;
    const int last = first + m.actuator_history[2 * i] - 1;
    for (int k = first; k < last; ++k) s.ctrl_history[k] = s.ctrl_history[k + 1];
    s.ctrl_history[last] = s.ctrl[i];
  }
}

// Control of actuator i within its range, see delayed_control.
template <class V>
MANIPLE_FUNCTION V clamped_control(const Model<ScalarOf<V>>& m, const State<V>& s, int i,
                                   ScalarOf<V> elapsed) {
  const V control = delayed_control(m, s, i, elapsed);
  if (!m.actuator_ctrllimited[i] || (m.disableflags & disable_clampctrl)) return control;
  return clamp(control, V(m.actuator_ctrlrange[2 * i]), V(m.actuator_ctrlrange[2 * i + 1]));
}

// Environments in which some control is invalid: MuJoCo takes all of their controls as zero.
template <class V>
MANIPLE_FUNCTION MaskOf<V> invalid_controls(const Model<ScalarOf<V>>& m, const State<V>& s,
                                            ScalarOf<V> elapsed) {
  MaskOf<V> invalid(false);
  for (int i = 0; i < m.nu; ++i) invalid = invalid || is_bad(clamped_control(m, s, i, elapsed));
  return invalid;
}

// What multiplies the gain of actuator i: control or activation, `zeroed` where controls are invalid.
template <class V>
MANIPLE_FUNCTION V actuator_input(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i,
                                  MaskOf<V> zeroed, ScalarOf<V> elapsed) {
  const int adr = m.actuator_actadr[i];
  V input;
  if (adr < 0) {
    input = select(zeroed, V(0), clamped_control(m, s, i, elapsed));
  } else {
    input = s.act[adr];
    if (m.actuator_actearly[i]) input = next_activation(m, i, input, V(d.act_dot[adr]));
  }
  if (m.actuator_period[i] > 0) input = own_setpoint(m, s, i, input, V(d.actuator_length[i]));
  return input;
}

// Scales the forces of actuators that share a tendon where their sum leaves the tendon's range.
template <class V>
MANIPLE_FUNCTION void limit_tendon_forces(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  for (int t = 0; t < m.ntendon; ++t) {
    if (!m.tendon_actfrclimited[t]) continue;
    V total(0);
    for (int i = 0; i < m.nu; ++i)
      if (is_on_tendon(m, i, t)) total += d.actuator_force[i];
    const V limited = clamp(total, V(m.tendon_actfrcrange[2 * t]), V(m.tendon_actfrcrange[2 * t + 1]));
    const MaskOf<V> inside = limited == total || total == V(0);
    const V scale = select(inside, V(1), limited / select(inside, V(1), total));
    for (int i = 0; i < m.nu; ++i)
      if (is_on_tendon(m, i, t)) d.actuator_force[i] *= scale;
  }
}

// Adds the forces of the actuators to qfrc_actuator.
template <class V>
MANIPLE_FUNCTION void add_actuator_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (int i = 0; i < m.nu; ++i)
    if (!m.actuator_disabled[i]) add_transmitted_force(m, s, d, i, V(d.actuator_force[i]));
}

// d(force of actuator i)/d(its velocity): mjd_actuator_vel; zero where the force is clamped.
template <class V>
MANIPLE_FUNCTION V actuator_velocity_derivative(const Model<ScalarOf<V>>& m, const State<V>& s,
                                                const Data<V>& d, int i) {
  const V length = d.actuator_length[i], velocity = d.actuator_velocity[i];
  const LaneModel<V> lanes(m, s);
  V derivative = bias_derivative(lanes, i, length, velocity);
  if (gain_depends_on_velocity(m, i)) {
    // MuJoCo does not check here whether some other control is invalid
    const V input = actuator_input(m, s, d, i, MaskOf<V>(false), ScalarOf<V>(0));
    derivative += gain_derivative(lanes, i, length, velocity) * input;
  }
  if (m.actuator_forcelimited[i]) {
    const V force = d.actuator_force[i];
    derivative = select(force <= lanes.actuator_forcerange(i, 0) || force >= lanes.actuator_forcerange(i, 1),
                        V(0), derivative);
  }
  return derivative;
}

// Writes act_dot, actuator_force, qfrc_actuator. `elapsed`: time since the time step began, in time steps.
template <class V>
MANIPLE_SUBSTAGE void actuation(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                ScalarOf<V> elapsed) {
  const int nv = m.nv, nu = m.nu;
  for (const int i : d.team.share(nv)) d.qfrc_actuator[i] = V(0);
  if (!(m.flags & model_actuation)) {
    for (const int i : d.team.share(nu)) d.actuator_force[i] = V(0);
    for (const int i : d.team.share(m.na)) d.act_dot[i] = V(0);
    return;
  }
  const LaneModel<V> lanes(m, s);
  const MaskOf<V> zeroed = invalid_controls(m, s, elapsed);
  for (const int i : d.team.share(nu)) {
    const int adr = m.actuator_actadr[i];
    if (adr >= 0) {
      const V control = select(zeroed, V(0), clamped_control(m, s, i, elapsed));
      d.act_dot[adr] = act_rate(m, i, control, V(s.act[adr]));
    }
    d.actuator_force[i] = m.actuator_disabled[i]
                              ? V(0)
                              : actuator_law(lanes, i, V(d.actuator_length[i]), V(d.actuator_velocity[i]),
                                             actuator_input(m, s, d, i, zeroed, elapsed));
  }
  if (m.flags & model_tendon_actfrclimited) d.team.once([&] { limit_tendon_forces(m, d); });
  for (const int i : d.team.share(nu)) {
    if (m.actuator_disabled[i] || !m.actuator_forcelimited[i]) continue;
    V& force = d.actuator_force[i];
    force = clamp(force, lanes.actuator_forcerange(i, 0), lanes.actuator_forcerange(i, 1));
  }
  d.team.once([&] { add_actuator_forces(m, s, d); });

  if (m.flags & model_actgravcomp)
    for (const int i : d.team.share(nv))
      if (m.jnt_actgravcomp[m.dof_jntid[i]]) d.qfrc_actuator[i] += d.qfrc_gravcomp[i];
  if (m.flags & model_actfrclimited)
    for (const int j : d.team.share(m.njnt))
      if (m.jnt_actfrclimited[j]) {
        V& force = d.qfrc_actuator[m.jnt_dofadr[j]];
        force = clamp(force, V(m.jnt_actfrcrange[2 * j]), V(m.jnt_actfrcrange[2 * j + 1]));
      }
}

// Advances act by one time step with the given rates: the activation part of mj_advance.
template <class V>
MANIPLE_FUNCTION void advance_activations(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                          const DataField<V>& act_dot) {
  if (!(m.flags & model_actuation)) return;
  for (const int i : d.team.share(m.nu)) {
    const int adr = m.actuator_actadr[i];
    if (adr < 0) continue;
    V act = next_activation(m, i, V(s.act[adr]), m.actuator_disabled[i] ? V(0) : V(act_dot[adr]));
    if (m.actuator_dyntype[i] == dynamics_integrator && m.actuator_period[i] > 0)
      act = own_setpoint(m, s, i, act, V(d.actuator_length[i]));
    s.act[adr] = act;
  }
}

}  // namespace maniple
