// A PID servo: force by the errors of position and velocity, a feedforward force, and the integral of the
// position's error. A rate may limit its position setpoint.
#pragma once

#include "kernels/model/data.hpp"
#include "kernels/physics/smooth/controls.hpp"

namespace maniple {

// The parameters of PID dynamics and of a PID gain, in their order; the gains of position and velocity are
// those of the affine bias, negative.
enum PidDynamics : int { pid_imax, pid_slewmax };
enum PidGain : int { pid_ki };

// Writes act_dot of servo i, and returns its force.
template <class V>
MANIPLE_FUNCTION V pid_actuation(const LaneModel<V>& lanes, const Data<V>& d, int i,
                                 ControlInputs<V> inputs) {
  const Model<ScalarOf<V>>& m = lanes.m;
  const ScalarOf<V>* const dynprm = m.actuator_dynprm + 10 * i;
  const ScalarOf<V> period = m.actuator_period[i];
  const V length = d.actuator_length[i], velocity = d.actuator_velocity[i];
  V setpoint = inputs.pos;
  if (const int adr = slot_address(m, i, slot_slew); adr >= 0) {
    V rate;
    setpoint = slew_limited(setpoint, V(lanes.s.act[adr]), dynprm[pid_slewmax], m.timestep, period, rate);
    d.act_dot[adr] = rate;
  }
  const int adr = slot_address(m, i, slot_integral);
  V integral(0);
  if (adr >= 0) {
    V error = setpoint - length;
    if (period > 0) error = nearest_setpoint(error, V(0), period);
    integral = lanes.s.act[adr];
    const V rate = without_windup(error, integral, dynprm[pid_imax]);
    d.act_dot[adr] = rate;
    if (m.actuator_actearly[i]) integral = next_activation(m, i, integral, rate);
  }
  if (period > 0) setpoint = nearest_setpoint(setpoint, length, period);
  V force = inputs.ff - lanes.actuator_biasprm(i, 1) * setpoint - lanes.actuator_biasprm(i, 2) * inputs.vel;
  if (adr >= 0) force += V(m.actuator_gainprm[10 * i + pid_ki]) * integral;
  return affine_bias(lanes, i, length, velocity, force);
}

}  // namespace maniple
