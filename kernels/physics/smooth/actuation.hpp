// Actuators: length and velocity through their transmission, activation dynamics, force, and its way back
// into the joints (mj_transmission, mj_fwdActuation). Transmissions are joints of any type and fixed tendons.
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/model/data.hpp"
#include "kernels/physics/smooth/tendon.hpp"

namespace maniple {

// Rotational gear of actuator i (gear elements `first`..first+2) in the frame in which the dofs of its
// ball or free joint are; a quaternion in qpos[q..q+3].
template <class V>
MANIPLE_FUNCTION Vec3<V> gear_axis(const Model<ScalarOf<V>>& m, const State<V>& s, int i, int first, int q) {
  const Vec3<V> gear = uniform3<V>(m.actuator_gear + 6 * i + first);
  if (m.actuator_trntype[i] == transmission_joint) return gear;
  return rotate(conjugate(normalize(load4<V>(s.qpos, q))), gear);
}

// Row of the moment matrix of actuator i on a joint: `count` elements from dof `dof` on.
template <class V>
struct Moment {
  int dof, count;
  V value[6];
};
template <class V>
MANIPLE_FUNCTION Moment<V> actuator_moment(const Model<ScalarOf<V>>& m, const State<V>& s, int i) {
  const int joint = m.actuator_trnid[2 * i], type = m.jnt_type[joint], q = m.jnt_qposadr[joint];
  const ScalarOf<V>* gear = m.actuator_gear + 6 * i;
  Moment<V> moment;
  moment.dof = m.jnt_dofadr[joint];
  if (type == joint_ball) {
    const Vec3<V> axis = gear_axis(m, s, i, 0, q);
    moment.count = 3;
    moment.value[0] = axis.x;
    moment.value[1] = axis.y;
    moment.value[2] = axis.z;
  } else if (type == joint_free) {
    const Vec3<V> axis = gear_axis(m, s, i, 3, q + 3);
    moment.count = 6;
    moment.value[0] = V(gear[0]);
    moment.value[1] = V(gear[1]);
    moment.value[2] = V(gear[2]);
    moment.value[3] = axis.x;
    moment.value[4] = axis.y;
    moment.value[5] = axis.z;
  } else {
    moment.count = 1;
    moment.value[0] = V(gear[0]);
  }
  return moment;
}

// Writes actuator_length.
template <class V>
MANIPLE_FUNCTION void actuator_lengths(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (const int i : d.team.share(m.nu)) {
    if (m.actuator_trntype[i] == transmission_tendon) {
      d.actuator_length[i] = V(m.actuator_gear[6 * i]) * d.ten_length[m.actuator_trnid[2 * i]];
      continue;
    }
    const int joint = m.actuator_trnid[2 * i], type = m.jnt_type[joint], q = m.jnt_qposadr[joint];
    if (type == joint_free)
      d.actuator_length[i] = V(0);
    else if (type == joint_ball)
      d.actuator_length[i] = dot(rotation_vector(normalize(load4<V>(s.qpos, q))), gear_axis(m, s, i, 0, q));
    else
      d.actuator_length[i] = V(m.actuator_gear[6 * i]) * s.qpos[q];
  }
}

// Writes actuator_velocity.
template <class V>
MANIPLE_FUNCTION void actuator_velocities(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (const int i : d.team.share(m.nu)) {
    if (m.disableflags & disable_actuation) {
      d.actuator_velocity[i] = V(0);
      continue;
    }
    if (m.actuator_trntype[i] == transmission_tendon) {
      d.actuator_velocity[i] = V(m.actuator_gear[6 * i]) * d.ten_velocity[m.actuator_trnid[2 * i]];
      continue;
    }
    const int joint = m.actuator_trnid[2 * i], type = m.jnt_type[joint];
    if (type == joint_slide || type == joint_hinge) {
      d.actuator_velocity[i] = V(m.actuator_gear[6 * i]) * s.qvel[m.jnt_dofadr[joint]];
      continue;
    }
    const Moment<V> moment = actuator_moment(m, s, i);
    V velocity(0);
    for (int k = 0; k < moment.count; ++k) velocity += moment.value[k] * s.qvel[moment.dof + k];
    d.actuator_velocity[i] = velocity;
  }
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

// Control of actuator i within its range.
template <class V>
MANIPLE_FUNCTION V clamped_control(const Model<ScalarOf<V>>& m, const State<V>& s, int i) {
  const V control = s.ctrl[i];
  if (!m.actuator_ctrllimited[i] || (m.disableflags & disable_clampctrl)) return control;
  return clamp(control, V(m.actuator_ctrlrange[2 * i]), V(m.actuator_ctrlrange[2 * i + 1]));
}

// Environments in which some control is invalid: MuJoCo takes all of their controls as zero.
template <class V>
MANIPLE_FUNCTION MaskOf<V> invalid_controls(const Model<ScalarOf<V>>& m, const State<V>& s) {
  MaskOf<V> invalid(false);
  for (int i = 0; i < m.nu; ++i) invalid = invalid || is_bad(clamped_control(m, s, i));
  return invalid;
}

// What multiplies the gain of actuator i: control or activation, `zeroed` where controls are invalid.
template <class V>
MANIPLE_FUNCTION V actuator_input(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i,
                                  MaskOf<V> zeroed) {
  const int adr = m.actuator_actadr[i];
  V input;
  if (adr < 0) {
    input = select(zeroed, V(0), clamped_control(m, s, i));
  } else {
    input = s.act[adr];
    if (m.actuator_actearly[i]) input = next_activation(m, i, input, V(d.act_dot[adr]));
  }
  if (m.actuator_period[i] > 0)
    input = nearest_setpoint(input, V(d.actuator_length[i]), m.actuator_period[i]);
  return input;
}

// Scales the forces of actuators that share a tendon where their sum leaves the tendon's range.
template <class V>
MANIPLE_FUNCTION void limit_tendon_forces(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  const auto acts_on = [&](int i, int t) {
    return m.actuator_trntype[i] == transmission_tendon && m.actuator_trnid[2 * i] == t;
  };
  for (int t = 0; t < m.ntendon; ++t) {
    if (!m.tendon_actfrclimited[t]) continue;
    V total(0);
    for (int i = 0; i < m.nu; ++i)
      if (acts_on(i, t)) total += d.actuator_force[i];
    const V limited = clamp(total, V(m.tendon_actfrcrange[2 * t]), V(m.tendon_actfrcrange[2 * t + 1]));
    const MaskOf<V> inside = limited == total || total == V(0);
    const V scale = select(inside, V(1), limited / select(inside, V(1), total));
    for (int i = 0; i < m.nu; ++i)
      if (acts_on(i, t)) d.actuator_force[i] *= scale;
  }
}

// Adds the forces of the actuators to qfrc_actuator.
template <class V>
MANIPLE_FUNCTION void add_actuator_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (int i = 0; i < m.nu; ++i) {
    if (m.actuator_disabled[i]) continue;
    const V force = d.actuator_force[i];
    if (m.actuator_trntype[i] == transmission_tendon) {
      add_tendon_force(m, m.ten_J, m.actuator_trnid[2 * i], V(m.actuator_gear[6 * i]) * force,
                       d.qfrc_actuator);
      continue;
    }
    const int joint = m.actuator_trnid[2 * i], type = m.jnt_type[joint];
    if (type == joint_slide || type == joint_hinge) {
      d.qfrc_actuator[m.jnt_dofadr[joint]] += V(m.actuator_gear[6 * i]) * force;
    } else {
      const Moment<V> moment = actuator_moment(m, s, i);
      for (int k = 0; k < moment.count; ++k) d.qfrc_actuator[moment.dof + k] += moment.value[k] * force;
    }
  }
}

// Writes act_dot, actuator_force, qfrc_actuator.
template <class V>
MANIPLE_SUBSTAGE void actuation(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const int nv = m.nv, nu = m.nu;
  for (const int i : d.team.share(nv)) d.qfrc_actuator[i] = V(0);
  if (!(m.flags & model_actuation)) {
    for (const int i : d.team.share(nu)) d.actuator_force[i] = V(0);
    for (const int i : d.team.share(m.na)) d.act_dot[i] = V(0);
    return;
  }
  const MaskOf<V> zeroed = invalid_controls(m, s);
  for (const int i : d.team.share(nu)) {
    const int adr = m.actuator_actadr[i];
    if (adr >= 0) {
      const V control = select(zeroed, V(0), clamped_control(m, s, i));
      d.act_dot[adr] = m.actuator_dyntype[i] == dynamics_integrator
                           ? control
                           : (control - s.act[adr]) * V(m.actuator_inversetau[i]);
    }
    if (m.actuator_disabled[i]) {
      d.actuator_force[i] = V(0);
      continue;
    }
    const ScalarOf<V>* gain = m.actuator_gainprm + 10 * i;
    const ScalarOf<V>* bias = m.actuator_biasprm + 10 * i;
    V factor(gain[0]);
    if (m.actuator_gaintype[i] == gain_affine)
      factor += V(gain[1]) * d.actuator_length[i] + V(gain[2]) * d.actuator_velocity[i];
    V force = factor * actuator_input(m, s, d, i, zeroed);
    if (m.actuator_biastype[i] == bias_affine)
      force += V(bias[0]) + V(bias[1]) * d.actuator_length[i] + V(bias[2]) * d.actuator_velocity[i];
    d.actuator_force[i] = force;
  }
  if (m.flags & model_tendon_actfrclimited) d.team.once([&] { limit_tendon_forces(m, d); });
  for (const int i : d.team.share(nu)) {
    if (m.actuator_disabled[i] || !m.actuator_forcelimited[i]) continue;
    V& force = d.actuator_force[i];
    force = clamp(force, V(m.actuator_forcerange[2 * i]), V(m.actuator_forcerange[2 * i + 1]));
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
      act = nearest_setpoint(act, V(d.actuator_length[i]), m.actuator_period[i]);
    s.act[adr] = act;
  }
}

}  // namespace maniple
