// What an actuator does with its control (mj_fwdActuation): the rate of its activation, and its force, gain
// times input plus bias, with the derivative by its velocity (mjd_actuator_vel). One function for each row of
// the tables in kernels/model/actuator_types.hpp.
#pragma once

#include "kernels/base/varying.hpp"
#include "kernels/model/actuator_types.hpp"

namespace maniple {

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
MANIPLE_FUNCTION V fixed_gain(const Model<ScalarOf<V>>& m, int i, V, V) {
  return V(m.actuator_gainprm[10 * i]);
}
template <class V>
MANIPLE_FUNCTION V fixed_gain_derivative(const Model<ScalarOf<V>>&, int, V, V) {
  return V(0);
}
template <class V>
MANIPLE_FUNCTION V affine_gain(const Model<ScalarOf<V>>& m, int i, V length, V velocity) {
  const ScalarOf<V>* const prm = m.actuator_gainprm + 10 * i;
  return V(prm[0]) + (V(prm[1]) * length + V(prm[2]) * velocity);
}
template <class V>
MANIPLE_FUNCTION V affine_gain_derivative(const Model<ScalarOf<V>>& m, int i, V, V) {
  return V(m.actuator_gainprm[10 * i + 2]);
}

// Biases, added to a force, and their derivatives by the velocity.
template <class V>
MANIPLE_FUNCTION V none_bias(const Model<ScalarOf<V>>&, int, V, V, V force) {
  return force;
}
template <class V>
MANIPLE_FUNCTION V none_bias_derivative(const Model<ScalarOf<V>>&, int, V, V) {
  return V(0);
}
template <class V>
MANIPLE_FUNCTION V affine_bias(const Model<ScalarOf<V>>& m, int i, V length, V velocity, V force) {
  const ScalarOf<V>* const prm = m.actuator_biasprm + 10 * i;
  return force + (V(prm[0]) + V(prm[1]) * length + V(prm[2]) * velocity);
}
template <class V>
MANIPLE_FUNCTION V affine_bias_derivative(const Model<ScalarOf<V>>& m, int i, V, V) {
  return V(m.actuator_biasprm[10 * i + 2]);
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
MANIPLE_FUNCTION V actuator_gain(const Model<ScalarOf<V>>& m, int i, V length, V velocity) {
  switch (m.actuator_gaintype[i]) {
#define MANIPLE_ROW(name, mujoco, value, depends_on_velocity) \
  case gain_##name:                                           \
    return name##_gain(m, i, length, velocity);
    MANIPLE_GAIN_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  return V(0);
}
template <class V>
MANIPLE_FUNCTION V with_bias(const Model<ScalarOf<V>>& m, int i, V length, V velocity, V force) {
  switch (m.actuator_biastype[i]) {
#define MANIPLE_ROW(name, mujoco, value, depends_on_velocity) \
  case bias_##name:                                           \
    return name##_bias(m, i, length, velocity, force);
    MANIPLE_BIAS_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  return force;
}
template <class V>
MANIPLE_FUNCTION V gain_derivative(const Model<ScalarOf<V>>& m, int i, V length, V velocity) {
  switch (m.actuator_gaintype[i]) {
#define MANIPLE_ROW(name, mujoco, value, depends_on_velocity) \
  case gain_##name:                                           \
    return name##_gain_derivative(m, i, length, velocity);
    MANIPLE_GAIN_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  return V(0);
}
template <class V>
MANIPLE_FUNCTION V bias_derivative(const Model<ScalarOf<V>>& m, int i, V length, V velocity) {
  switch (m.actuator_biastype[i]) {
#define MANIPLE_ROW(name, mujoco, value, depends_on_velocity) \
  case bias_##name:                                           \
    return name##_bias_derivative(m, i, length, velocity);
    MANIPLE_BIAS_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  return V(0);
}

// Force of actuator i with the given input, control or activation.
template <class V>
MANIPLE_FUNCTION V actuator_law(const Model<ScalarOf<V>>& m, int i, V length, V velocity, V input) {
  return with_bias(m, i, length, velocity, V(actuator_gain(m, i, length, velocity) * input));
}

}  // namespace maniple
