// A DC motor: torque by current, and current by voltage, at once or with the time constant of the windings. A
// controller may make the voltage of setpoints. Optional: resistance by temperature, cogging, LuGre friction.
#pragma once

#include "kernels/model/data.hpp"
#include "kernels/physics/smooth/controls.hpp"

namespace maniple {

// The parameters of a DC motor's gain, bias and dynamics, in their order.
enum MotorGain : int {
  motor_resistance,
  motor_constant,
  motor_alpha,  // of the resistance, by temperature
  motor_T0,     // temperature at which it is motor_resistance
  motor_kp,
  motor_ki,
  motor_kd,
  motor_vmax
};
enum MotorBias : int {
  motor_cogging,
  motor_periodicity,
  motor_phase,
  motor_coulomb,
  motor_static,
  motor_stribeck
};
enum MotorDynamics : int {
  motor_timeconst,
  motor_current_rate,
  motor_thermal_resistance,
  motor_thermal_capacitance,
  motor_ambient,
  motor_stiffness,
  motor_damping,
  motor_slewmax,
  motor_imax
};

// Does a controller of motor i make its voltage, or a part of it.
template <class T>
MANIPLE_FUNCTION bool motor_is_controlled(const Model<T>& m, int i) {
  return m.actuator_ctrlspec[i] & (input_pos | input_vel | input_ff);
}

// Its current has a time constant, and is an activation.
template <class T>
MANIPLE_FUNCTION bool motor_has_current(const Model<T>& m, int i) {
  return slot_address(m, i, slot_current) >= 0;
}

// Resistance of motor i at its temperature.
template <class V>
MANIPLE_FUNCTION V motor_resistance_now(const Model<ScalarOf<V>>& m, const State<V>& s, int i) {
  const ScalarOf<V>* const gain = m.actuator_gainprm + 10 * i;
  const V cold(gain[motor_resistance]);
  const int adr = slot_address(m, i, slot_temperature);
  if (adr < 0) return cold;
  const V warmer = s.act[adr] + V(m.actuator_dynprm[10 * i + motor_ambient] - gain[motor_T0]);
  return cold * (V(1) + V(gain[motor_alpha]) * warmer);
}

// Voltage of motor i: what its controller makes of the inputs and of the integral of the position's error,
// and the voltage that is an input itself.
template <class V>
MANIPLE_FUNCTION V motor_voltage(const Model<ScalarOf<V>>& m, int i, const ControlInputs<V>& inputs, V length,
                                 V velocity, V integral) {
  if (!motor_is_controlled(m, i)) return inputs.voltage;
  using T = ScalarOf<V>;
  const T* const gain = m.actuator_gainprm + 10 * i;
  const V torque = V(gain[motor_kp]) * (inputs.pos - length) + V(gain[motor_kd]) * (inputs.vel - velocity) +
                   V(gain[motor_ki]) * integral + inputs.ff;
  const T constant = gain[motor_constant], most = gain[motor_vmax];
  V voltage = V(gain[motor_resistance] / constant) * torque + V(constant) * velocity;
  if (most > 0) voltage = clamp(voltage, V(-most), V(most));
  return voltage + inputs.voltage;
}

// Change of the bristles' deflection of motor i with friction, by their deflection: never positive.
template <class V>
MANIPLE_FUNCTION V bristle_decay(const Model<ScalarOf<V>>& m, int i, V velocity) {
  using T = ScalarOf<V>;
  const T* const bias = m.actuator_biasprm + 10 * i;
  const T least(kMinimumValue);
  const V ratio = velocity / V(max(least, bias[motor_stribeck]));
  const V friction =
      V(bias[motor_coulomb]) + V(bias[motor_static] - bias[motor_coulomb]) * exp(-(ratio * ratio));
  return V(-m.actuator_dynprm[10 * i + motor_stiffness]) * abs(velocity) / max(V(least), friction);
}

// Activation of motor i in a slot after one time step: mj_nextActivation. Bristles follow the velocity,
// whatever their rate is.
template <class V>
MANIPLE_FUNCTION V next_motor_activation(const Model<ScalarOf<V>>& m, const Data<V>& d, int i,
                                         ActuatorSlot slot, V act, V act_dot) {
  using T = ScalarOf<V>;
  const T h = m.timestep;
  if (slot == slot_current) return act + act_dot * V(m.actuator_step[i]);
  if (slot == slot_bristle) {
    const V velocity = d.actuator_velocity[i], decay = bristle_decay(m, i, velocity);
    const V kept = exp(decay * V(h));
    const MaskOf<V> moves = abs(decay) > V(T(kMinimumValue));
    const V gained = select(moves, (kept - V(1)) / select(moves, decay, V(1)), V(h));
    return kept * act + gained * velocity;
  }
  const V next = act + act_dot * V(h);
  const T most = m.actuator_dynprm[10 * i + motor_imax];
  return slot == slot_integral && most > 0 ? clamp(next, V(-most), V(most)) : next;
}

// Writes act_dot of motor i, and returns its force without that of motor_mechanical_force.
template <class V>
MANIPLE_FUNCTION V motor_actuation(const LaneModel<V>& lanes, const Data<V>& d, int i,
                                   ControlInputs<V> inputs) {
  using T = ScalarOf<V>;
  const Model<T>& m = lanes.m;
  const T *const dynamics = m.actuator_dynprm + 10 * i, *const gain = m.actuator_gainprm + 10 * i;
  const V length = d.actuator_length[i], velocity = d.actuator_velocity[i];
  const auto act = [&](int adr) MANIPLE_INLINE_LAMBDA { return V(lanes.s.act[adr]); };

  if (const int adr = slot_address(m, i, slot_slew); adr >= 0) {
    // of the first control, whichever it is
    V rate;
    V& first = m.actuator_ctrlspec[i] & input_pos   ? inputs.pos
               : m.actuator_ctrlspec[i] & input_vel ? inputs.vel
                                                    : inputs.ff;
    first = slew_limited(first, act(adr), dynamics[motor_slewmax], m.timestep, T(0), rate);
    d.act_dot[adr] = rate;
  }
  V integral(0);
  if (const int adr = slot_address(m, i, slot_integral); adr >= 0) {
    integral = act(adr);
    d.act_dot[adr] = without_windup(V(inputs.pos - length), integral, dynamics[motor_imax]);
  }
  const V voltage = motor_voltage(m, i, inputs, length, velocity, integral);

  const int current_adr = slot_address(m, i, slot_current);
  const V constant(gain[motor_constant]);
  const V resistance = motor_resistance_now(m, lanes.s, i);
  if (const int adr = slot_address(m, i, slot_temperature); adr >= 0) {
    const V current = current_adr >= 0 ? act(current_adr) : (voltage - constant * velocity) / resistance;
    d.act_dot[adr] = (resistance * current * current - act(adr) / V(dynamics[motor_thermal_resistance])) /
                     V(dynamics[motor_thermal_capacitance]);
  }
  if (const int adr = slot_address(m, i, slot_bristle); adr >= 0)
    d.act_dot[adr] = bristle_decay(m, i, velocity) * act(adr) + velocity;
  if (current_adr < 0) {
    const V per_volt = constant / max(V(T(kMinimumValue)), resistance);
    return per_volt * voltage - per_volt * constant * velocity;
  }
  const V now = act(current_adr);
  V rate = (voltage / resistance - constant / resistance * velocity - now) / V(dynamics[motor_timeconst]);
  if (const T most = dynamics[motor_current_rate]; most > 0) rate = clamp(rate, V(-most), V(most));
  d.act_dot[current_adr] = rate;
  return constant * (m.actuator_actearly[i] ? next_motor_activation(m, d, i, slot_current, now, rate) : now);
}

// Cogging and friction of motor i, which no range of forces limits.
template <class V>
MANIPLE_FUNCTION V motor_mechanical_force(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                          int i) {
  const ScalarOf<V>*const dynamics = m.actuator_dynprm + 10 * i, *const bias = m.actuator_biasprm + 10 * i;
  V force(0);
  if (bias[motor_cogging] != 0)
    force = V(bias[motor_cogging]) *
            sin(V(bias[motor_periodicity]) * V(d.actuator_length[i]) + V(bias[motor_phase]));
  if (const int adr = slot_address(m, i, slot_bristle); adr >= 0)
    force -= V(dynamics[motor_stiffness]) * V(s.act[adr]) + V(dynamics[motor_damping]) * V(d.act_dot[adr]);
  return force;
}

// d(force of motor i)/d(its velocity), as in mjd_actuator_vel: whatever the voltage is limited to, and of
// friction the damping of its bristles alone.
template <class V>
MANIPLE_FUNCTION V motor_velocity_derivative(const Model<ScalarOf<V>>& m, const State<V>& s, int i) {
  using T = ScalarOf<V>;
  const T *const dynamics = m.actuator_dynprm + 10 * i, *const gain = m.actuator_gainprm + 10 * i;
  const T constant = gain[motor_constant];
  T voltage = -constant;  // d(voltage at the resistance)/d(velocity)
  if (motor_is_controlled(m, i))
    voltage = -gain[motor_kd] * max(T(kMinimumValue), gain[motor_resistance]) / constant;
  V derivative = V(constant * voltage) / max(V(T(kMinimumValue)), motor_resistance_now(m, s, i));
  if (motor_has_current(m, i)) derivative *= V(m.actuator_step[i] / dynamics[motor_timeconst]);
  return dynamics[motor_damping] > 0 ? derivative - V(dynamics[motor_damping]) : derivative;
}

}  // namespace maniple
