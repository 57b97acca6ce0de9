// Actuators: length and velocity through their transmission, activation dynamics, force by their law, and the
// resulting joint forces (mj_transmission, mj_fwdActuation).
#pragma once

#include "kernels/model/data.hpp"
#include "kernels/physics/smooth/dcmotor.hpp"
#include "kernels/physics/smooth/pid.hpp"
#include "kernels/physics/smooth/transmission.hpp"

namespace maniple {

// Writes actuator_length.
template <class V>
MANIPLE_FUNCTION void actuator_lengths(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (const int i : d.team.share(m.nactuator)) d.actuator_length[i] = transmission_length(m, s, d, i);
}

// Writes actuator_velocity.
template <class V>
MANIPLE_FUNCTION void actuator_velocities(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const bool off = m.disableflags & disable_actuation;
  for (const int i : d.team.share(m.nactuator))
    d.actuator_velocity[i] = off ? V(0) : transmission_velocity(m, s, d, i);
}

// The setpoint that is equivalent to u and nearest to `length` of actuator i, which has a period, in the
// environments where its gains make it a servo.
template <class V>
MANIPLE_FUNCTION V own_setpoint(const Model<ScalarOf<V>>& m, const State<V>& s, int i, V u, V length) {
  const V nearest = nearest_setpoint(u, length, m.actuator_period[i]);
  if (m.varied.actuator_gainprm < 0 && m.varied.actuator_biasprm < 0) return nearest;
  const LaneModel<V> lanes(m, s);
  return select(lanes.actuator_gainprm(i) == -lanes.actuator_biasprm(i, 1), nearest, u);
}

// After a time step: what the actuators with a delay remember.
template <class V>
MANIPLE_FUNCTION void remember_controls(const Model<ScalarOf<V>>& m, const State<V>& s, const Team<V>& team) {
  for (const int i : team.share(m.nactuator)) {
    const int first = m.actuator_historyadr[i];
    if (first < 0) continue;
    const int last = first + m.actuator_history[2 * i] - 1;
    for (int k = first; k < last; ++k) s.ctrl_history[k] = s.ctrl_history[k + 1];
    s.ctrl_history[last] = s.ctrl[m.actuator_ctrladr[i]];
  }
}

// What multiplies the gain of actuator i: control or activation, `zeroed` where controls are invalid.
template <class V>
MANIPLE_FUNCTION V actuator_input(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i,
                                  MaskOf<V> zeroed, ScalarOf<V> elapsed) {
  const int adr = m.actuator_actadr[i];
  V input;
  if (adr < 0) {
    input = select(zeroed, V(0), clamped_control(m, s, i, 0, elapsed));
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
    for (int i = 0; i < m.nactuator; ++i)
      if (is_on_tendon(m, i, t)) total += d.actuator_force[i];
    const V limited = clamp(total, V(m.tendon_actfrcrange[2 * t]), V(m.tendon_actfrcrange[2 * t + 1]));
    const MaskOf<V> inside = limited == total || total == V(0);
    const V scale = select(inside, V(1), limited / select(inside, V(1), total));
    for (int i = 0; i < m.nactuator; ++i)
      if (is_on_tendon(m, i, t)) d.actuator_force[i] *= scale;
  }
}

// Adds the forces of the actuators to qfrc_actuator.
template <class V>
MANIPLE_FUNCTION void add_actuator_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (int i = 0; i < m.nactuator; ++i)
    if (!m.actuator_disabled[i]) add_transmitted_force(m, s, d, i, V(d.actuator_force[i]));
}

// d(force of actuator i)/d(its velocity): mjd_actuator_vel; zero where the force is clamped.
template <class V>
MANIPLE_FUNCTION V actuator_velocity_derivative(const Model<ScalarOf<V>>& m, const State<V>& s,
                                                const Data<V>& d, int i) {
  const V length = d.actuator_length[i], velocity = d.actuator_velocity[i];
  const LaneModel<V> lanes(m, s);
  const bool is_motor = m.actuator_gaintype[i] == gain_dcmotor;
  V derivative = is_motor ? motor_velocity_derivative(m, s, i) : bias_derivative(lanes, i, length, velocity);
  if (!is_motor && gain_depends_on_velocity(m, i)) {
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

// Writes act_dot of actuator i, which is_controller, and its force before limits.
template <class V>
MANIPLE_STAGE void controller_actuation(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                        int i, MaskOf<V> zeroed, ScalarOf<V> elapsed) {
  const LaneModel<V> lanes(m, s);
  const ControlInputs<V> inputs = control_inputs(m, s, i, zeroed, elapsed);
  const V force = m.actuator_gaintype[i] == gain_pid ? pid_actuation(lanes, d, i, inputs)
                                                     : motor_actuation(lanes, d, i, inputs);
  d.actuator_force[i] = m.actuator_disabled[i] ? V(0) : force;
}

// Writes act_dot, actuator_force, qfrc_actuator. `elapsed`: time since the time step began, in time steps.
template <class V>
MANIPLE_SUBSTAGE void actuation(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                ScalarOf<V> elapsed) {
  const int nv = m.nv, nactuator = m.nactuator;
  for (const int i : d.team.share(nv)) d.qfrc_actuator[i] = V(0);
  if (!(m.flags & model_actuation)) {
    for (const int i : d.team.share(nactuator)) d.actuator_force[i] = V(0);
    for (const int i : d.team.share(m.na)) d.act_dot[i] = V(0);
    return;
  }
  const LaneModel<V> lanes(m, s);
  const MaskOf<V> zeroed = invalid_controls(m, s, elapsed);
  for (const int i : d.team.share(nactuator)) {
    if (is_controller(m, i)) {
      controller_actuation(m, s, d, i, zeroed, elapsed);
      continue;
    }
    const int adr = m.actuator_actadr[i];
    if (adr >= 0) {
      const V control = select(zeroed, V(0), clamped_control(m, s, i, 0, elapsed));
      d.act_dot[adr] = act_rate(m, i, control, V(s.act[adr]));
    }
    d.actuator_force[i] = m.actuator_disabled[i]
                              ? V(0)
                              : actuator_law(lanes, i, V(d.actuator_length[i]), V(d.actuator_velocity[i]),
                                             actuator_input(m, s, d, i, zeroed, elapsed));
  }
  if (m.flags & model_tendon_actfrclimited) d.team.once([&] { limit_tendon_forces(m, d); });
  for (const int i : d.team.share(nactuator)) {
    if (m.actuator_disabled[i] || !m.actuator_forcelimited[i]) continue;
    V& force = d.actuator_force[i];
    force = clamp(force, lanes.actuator_forcerange(i, 0), lanes.actuator_forcerange(i, 1));
  }
  if (m.flags & model_motor_friction)
    for (const int i : d.team.share(nactuator))
      if (m.actuator_gaintype[i] == gain_dcmotor && !m.actuator_disabled[i])
        d.actuator_force[i] += motor_mechanical_force(m, s, d, i);
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

// Advances the activations of actuator i, which is_controller.
template <class V>
MANIPLE_FUNCTION void advance_controller(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                         int i, const DataField<V>& act_dot) {
  for (const ActuatorSlot slot : {slot_slew, slot_integral, slot_temperature, slot_bristle, slot_current}) {
    const int adr = slot_address(m, i, slot);
    if (adr < 0) continue;
    const V act = s.act[adr], rate = m.actuator_disabled[i] ? V(0) : V(act_dot[adr]);
    s.act[adr] = m.actuator_gaintype[i] == gain_pid ? next_activation(m, i, act, rate)
                                                    : next_motor_activation(m, d, i, slot, act, rate);
  }
}

// Advances act by one time step with the given rates: the activation part of mj_advance.
template <class V>
MANIPLE_FUNCTION void advance_activations(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                          const DataField<V>& act_dot) {
  if (!(m.flags & model_actuation)) return;
  for (const int i : d.team.share(m.nactuator)) {
    if (is_controller(m, i)) {
      advance_controller(m, s, d, i, act_dot);
      continue;
    }
    const int adr = m.actuator_actadr[i];
    if (adr < 0) continue;
    V act = next_activation(m, i, V(s.act[adr]), m.actuator_disabled[i] ? V(0) : V(act_dot[adr]));
    if (m.actuator_dyntype[i] == dynamics_integrator && m.actuator_period[i] > 0)
      act = own_setpoint(m, s, i, act, V(d.actuator_length[i]));
    s.act[adr] = act;
  }
}

}  // namespace maniple
