// The types of actuators that the kernels simulate, one row each: what carries length and force
// (transmission), what changes the activation (dynamics), and what makes the force of it (gain and bias). The
// import refuses the others.
#pragma once

#include "kernels/model/model.hpp"

namespace maniple {

// kernels/physics/smooth/transmission.hpp: length and moment row.
//  name, mjtTrn and its value
#define MANIPLE_TRANSMISSION_TYPES(ROW) \
  ROW(joint, JOINT, 0)                  \
  ROW(jointinparent, JOINTINPARENT, 1)  \
  ROW(tendon, TENDON, 3)

// kernels/physics/smooth/actuator_law.hpp: dynamics `filter` are the function filter_act_dot, and so on.
//  name, mjtDyn and its value
#define MANIPLE_DYNAMICS_TYPES(ROW) \
  ROW(none, NONE, 0)                \
  ROW(integrator, INTEGRATOR, 1)    \
  ROW(filter, FILTER, 2)            \
  ROW(filterexact, FILTEREXACT, 3)

// The same: fixed_gain and fixed_gain_derivative.
//  name, mjtGain and its value, whether it depends on the velocity, given its parameters `prm`
#define MANIPLE_GAIN_TYPES(ROW) \
  ROW(fixed, FIXED, 0, false)   \
  ROW(affine, AFFINE, 1, prm[2] != 0)

// The same: none_bias and none_bias_derivative.
//  name, mjtBias and its value, whether it depends on the velocity, given its parameters `prm`
#define MANIPLE_BIAS_TYPES(ROW) \
  ROW(none, NONE, 0, false)     \
  ROW(affine, AFFINE, 1, prm[2] != 0)

// libmujoco's others, which the import refuses.
//  mjtTrn, what such an actuator does
#define MANIPLE_OTHER_TRANSMISSION_TYPES(ROW)     \
  ROW(SITE, "acts on a site")                     \
  ROW(SLIDERCRANK, "acts through a slider-crank") \
  ROW(BODY, "is an adhesion actuator")
//  mjtDyn, what such an actuator has
#define MANIPLE_OTHER_DYNAMICS_TYPES(ROW)    \
  ROW(MUSCLE, "muscle dynamics")             \
  ROW(DCMOTOR, "the dynamics of a DC motor") \
  ROW(PID, "PID dynamics")                   \
  ROW(USER, "user-defined dynamics")

// Values of mjtTrn, mjtDyn, mjtGain and mjtBias, as far as they are in the tables.
#define MANIPLE_ROW(name, mujoco, value) transmission_##name = value,
enum TransmissionType : int { MANIPLE_TRANSMISSION_TYPES(MANIPLE_ROW) };
#undef MANIPLE_ROW
#define MANIPLE_ROW(name, mujoco, value) dynamics_##name = value,
enum DynamicsType : int { MANIPLE_DYNAMICS_TYPES(MANIPLE_ROW) };
#undef MANIPLE_ROW
#define MANIPLE_ROW(name, mujoco, value, velocity) gain_##name = value,
enum GainType : int { MANIPLE_GAIN_TYPES(MANIPLE_ROW) };
#undef MANIPLE_ROW
#define MANIPLE_ROW(name, mujoco, value, velocity) bias_##name = value,
enum BiasType : int { MANIPLE_BIAS_TYPES(MANIPLE_ROW) };
#undef MANIPLE_ROW

// Does a gain, or a bias, of this type and with these parameters depend on the actuator's velocity.
template <class T>
MANIPLE_FUNCTION bool gain_depends_on_velocity(int type, const T* prm) {
  switch (type) {
#define MANIPLE_ROW(name, mujoco, value, velocity) \
  case gain_##name:                                \
    return velocity;
    MANIPLE_GAIN_TYPES(MANIPLE_ROW)
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

// Does the force of actuator i depend on its velocity.
template <class T>
MANIPLE_FUNCTION bool force_depends_on_velocity(const Model<T>& m, int i) {
  return bias_depends_on_velocity(m.actuator_biastype[i], m.actuator_biasprm + 10 * i) ||
         gain_depends_on_velocity(m.actuator_gaintype[i], m.actuator_gainprm + 10 * i);
}

}  // namespace maniple
