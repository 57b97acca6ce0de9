// Laws of actuators, from control to force (mj_fwdActuation): the rate of activation (dynamics), and the
// force, gain times input plus bias, with its derivative by velocity (mjd_actuator_vel). A type is a row of a
// table here and its functions; the import refuses types without a row.
#pragma once

#include "kernels/model/lane_model.hpp"
#include "kernels/physics/smooth/muscle.hpp"

namespace maniple {

// Dynamics `filter` are the function filter_act_dot, and so on.
//  name, mjtDyn and its value
#define MANIPLE_DYNAMICS_TYPES(ROW) \
  ROW(none, NONE, 0)                \
  ROW(integrator, INTEGRATOR, 1)    \
  ROW(filter, FILTER, 2)            \
  ROW(filterexact, FILTEREXACT, 3)  \
  ROW(muscle, MUSCLE, 4)

// Gain `fixed` is fixed_gain and fixed_gain_derivative.
//  name, mjtGain and its value, whether it depends on the velocity, given its parameters `prm`
#define MANIPLE_GAIN_TYPES(ROW)       \
  ROW(fixed, FIXED, 0, false)         \
  ROW(affine, AFFINE, 1, prm[2] != 0) \
  ROW(muscle, MUSCLE, 2, true)

// Bias `none` is none_bias and none_bias_derivative.
//  name, mjtBias and its value, whether it depends on the velocity, given its parameters `prm`
#define MANIPLE_BIAS_TYPES(ROW)       \
  ROW(none, NONE, 0, false)           \
  ROW(affine, AFFINE, 1, prm[2] != 0) \
  ROW(muscle, MUSCLE, 2, false)

// Actuators with several controls or activations: a file of their own makes their force of these, without the
// functions below. The types of gain; dynamics of the same names are theirs alone.
//  name, mjtGain and its value, mjtDyn's value, whether the gain depends on the velocity
#define MANIPLE_CONTROLLER_TYPES(ROW) \
  ROW(dcmotor, DCMOTOR, 3, 5, true)   \
  ROW(pid, PID, 5, 6, false)

// libmujoco's other dynamics.
//  mjtDyn, what such an actuator has
#define MANIPLE_OTHER_DYNAMICS_TYPES(ROW) ROW(USER, "user-defined dynamics")

// Values of mjtDyn, mjtGain and mjtBias, as far as they are in the tables.
#define MANIPLE_ROW(name, mujoco, value) dynamics_##name = value,
#define MANIPLE_CONTROLLER(name, mujoco, gain, dynamics, velocity) dynamics_##name = dynamics,
enum DynamicsType : int { MANIPLE_DYNAMICS_TYPES(MANIPLE_ROW) MANIPLE_CONTROLLER_TYPES(MANIPLE_CONTROLLER) };
#undef MANIPLE_CONTROLLER
#undef MANIPLE_ROW
#define MANIPLE_ROW(name, mujoco, value, velocity) gain_##name = value,
#define MANIPLE_CONTROLLER(name, mujoco, gain, dynamics, velocity) gain_##name = gain,
enum GainType : int { MANIPLE_GAIN_TYPES(MANIPLE_ROW) MANIPLE_CONTROLLER_TYPES(MANIPLE_CONTROLLER) };
#undef MANIPLE_CONTROLLER
#undef MANIPLE_ROW
#define MANIPLE_ROW(name, mujoco, value, velocity) bias_##name = value,
enum BiasType : int { MANIPLE_BIAS_TYPES(MANIPLE_ROW) bias_dcmotor = 3 };
#undef MANIPLE_ROW

// mjtCtrlInput as far as such actuators have it: the controls that an actuator may have, in their order.
enum CtrlInput : int { input_pos = 1, input_vel = 2, input_ff = 4, input_voltage = 8, input_none = 16 };

// The activations that such an actuator may have (mjDCMotorSlots), in their order: the setpoint that a rate
// limits, the integral of the position's error, and of a DC motor temperature, bristle and current.
enum ActuatorSlot : int { slot_slew, slot_integral, slot_temperature, slot_bristle, slot_current };

// Has actuator i a file of its own.
template <class T>
MANIPLE_FUNCTION bool is_controller(const Model<T>& m, int i) {
  return m.actuator_gaintype[i] == gain_pid || m.actuator_gaintype[i] == gain_dcmotor;
}

// Activation of actuator i in a slot; -1: none.
template <class T>
MANIPLE_FUNCTION int slot_address(const Model<T>& m, int i, ActuatorSlot slot) {
  return m.actuator_slotadr[5 * i + slot];
}

// Does a gain, or a bias, of this type and with these parameters depend on the actuator's velocity.
template <class T>
MANIPLE_FUNCTION bool gain_depends_on_velocity(int type, const T* prm) {
  switch (type) {
#define MANIPLE_ROW(name, mujoco, value, velocity) \
  case gain_##name:                                \
    return velocity;
    MANIPLE_GAIN_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
#define MANIPLE_ROW(name, mujoco, gain, dynamics, velocity) \
  case gain_##name:                                         \
    return velocity;
    MANIPLE_CONTROLLER_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  return false;
}
template <class T>
MANIPLE_FUNCTION bool bias_depends_on_velocity(int type, const T* prm) {
  switch (type) {
#define MANIPLE_ROW(name, mujoco, value, velocity) \
  case bias_##name:                                \
    return velocity;
    MANIPLE_BIAS_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  return false;
}

// Does the gain, or the force, of actuator i depend on its velocity. What varies between environments may.
template <class T>
MANIPLE_FUNCTION bool gain_depends_on_velocity(const Model<T>& m, int i) {
  const int type = m.actuator_gaintype[i];
  return gain_depends_on_velocity(type, m.actuator_gainprm + 10 * i) ||
         (m.varied.actuator_gainprm >= 0 && type != gain_fixed && !is_controller(m, i));
}
template <class T>
MANIPLE_FUNCTION bool force_depends_on_velocity(const Model<T>& m, int i) {
  const int type = m.actuator_biastype[i];
  return bias_depends_on_velocity(type, m.actuator_biasprm + 10 * i) ||
         (m.varied.actuator_biasprm >= 0 && type == bias_affine) || gain_depends_on_velocity(m, i);
}

// Rates of the activation, 1/s.
template <class V>
MANIPLE_FUNCTION V none_act_dot(const Model<ScalarOf<V>>&, int, V, V) {
  return V(0);
}
template <class V>
MANIPLE_FUNCTION V integrator_act_dot(const Model<ScalarOf<V>>&, int, V control, V) {
  return control;
}
template <class V>
MANIPLE_FUNCTION V filter_act_dot(const Model<ScalarOf<V>>& m, int i, V control, V act) {
  return (control - act) * V(m.actuator_inversetau[i]);
}
// Its time step is another one: actuator_step.
template <class V>
MANIPLE_FUNCTION V filterexact_act_dot(const Model<ScalarOf<V>>& m, int i, V control, V act) {
  return filter_act_dot(m, i, control, act);
}

// Gains, and their derivatives by the velocity.
template <class V>
MANIPLE_FUNCTION V fixed_gain(const LaneModel<V>& lanes, int i, V, V) {
  return lanes.actuator_gainprm(i);
}
template <class V>
MANIPLE_FUNCTION V fixed_gain_derivative(const LaneModel<V>&, int, V, V) {
  return V(0);
}
template <class V>
MANIPLE_FUNCTION V affine_gain(const LaneModel<V>& lanes, int i, V length, V velocity) {
  const LaneField<V, 3, 10> prm = lanes.actuator_gainprm();
  return prm(i, 0) + (prm(i, 1) * length + prm(i, 2) * velocity);
}
template <class V>
MANIPLE_FUNCTION V affine_gain_derivative(const LaneModel<V>& lanes, int i, V, V) {
  return lanes.actuator_gainprm(i, 2);
}

// Biases, added to a force, and their derivatives by the velocity.
template <class V>
MANIPLE_FUNCTION V none_bias(const LaneModel<V>&, int, V, V, V force) {
  return force;
}
template <class V>
MANIPLE_FUNCTION V none_bias_derivative(const LaneModel<V>&, int, V, V) {
  return V(0);
}
template <class V>
MANIPLE_FUNCTION V affine_bias(const LaneModel<V>& lanes, int i, V length, V velocity, V force) {
  const LaneField<V, 3, 10> prm = lanes.actuator_biasprm();
  return force + (prm(i, 0) + prm(i, 1) * length + prm(i, 2) * velocity);
}
template <class V>
MANIPLE_FUNCTION V affine_bias_derivative(const LaneModel<V>& lanes, int i, V, V) {
  return lanes.actuator_biasprm(i, 2);
}

// The functions above by the type of actuator i.
template <class V>
MANIPLE_FUNCTION V act_rate(const Model<ScalarOf<V>>& m, int i, V control, V act) {
  switch (m.actuator_dyntype[i]) {
#define MANIPLE_ROW(name, mujoco, value) \
  case dynamics_##name:                  \
    return name##_act_dot(m, i, control, act);
    MANIPLE_DYNAMICS_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  return V(0);
}
template <class V>
MANIPLE_FUNCTION V actuator_gain(const LaneModel<V>& lanes, int i, V length, V velocity) {
  switch (lanes.m.actuator_gaintype[i]) {
#define MANIPLE_ROW(name, mujoco, value, depends_on_velocity) \
  case gain_##name:                                           \
    return name##_gain(lanes, i, length, velocity);
    MANIPLE_GAIN_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  return V(0);
}
template <class V>
MANIPLE_FUNCTION V with_bias(const LaneModel<V>& lanes, int i, V length, V velocity, V force) {
  switch (lanes.m.actuator_biastype[i]) {
#define MANIPLE_ROW(name, mujoco, value, depends_on_velocity) \
  case bias_##name:                                           \
    return name##_bias(lanes, i, length, velocity, force);
    MANIPLE_BIAS_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  return force;
}
template <class V>
MANIPLE_FUNCTION V gain_derivative(const LaneModel<V>& lanes, int i, V length, V velocity) {
  switch (lanes.m.actuator_gaintype[i]) {
#define MANIPLE_ROW(name, mujoco, value, depends_on_velocity) \
  case gain_##name:                                           \
    return name##_gain_derivative(lanes, i, length, velocity);
    MANIPLE_GAIN_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  return V(0);
}
template <class V>
MANIPLE_FUNCTION V bias_derivative(const LaneModel<V>& lanes, int i, V length, V velocity) {
  switch (lanes.m.actuator_biastype[i]) {
#define MANIPLE_ROW(name, mujoco, value, depends_on_velocity) \
  case bias_##name:                                           \
    return name##_bias_derivative(lanes, i, length, velocity);
    MANIPLE_BIAS_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  return V(0);
}

// Activation of actuator i after one time step with the rate act_dot: mj_nextActivation.
template <class V>
MANIPLE_FUNCTION V next_activation(const Model<ScalarOf<V>>& m, int i, V act, V act_dot) {
  V next = act + act_dot * V(m.actuator_step[i]);
  if (m.actuator_actlimited[i])
    next = clamp(next, V(m.actuator_actrange[2 * i]), V(m.actuator_actrange[2 * i + 1]));
  return next;
}

// Force of actuator i with the given input, control or activation.
template <class V>
MANIPLE_FUNCTION V actuator_law(const LaneModel<V>& lanes, int i, V length, V velocity, V input) {
  return with_bias(lanes, i, length, velocity, V(actuator_gain(lanes, i, length, velocity) * input));
}

}  // namespace maniple
