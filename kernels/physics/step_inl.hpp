// Definitions of step.hpp: the stages in MuJoCo's order (engine_forward.c). Include step.hpp instead;
// this is for the files that instantiate it.
#pragma once

#include "kernels/physics/collision/collision.hpp"
#include "kernels/physics/integration/implicit.hpp"
#include "kernels/physics/sensor/sensor.hpp"
#include "kernels/physics/set_const.hpp"
#include "kernels/physics/smooth/applied.hpp"
#include "kernels/physics/smooth/inertia.hpp"
#include "kernels/physics/smooth/velocities.hpp"
#include "kernels/physics/solver/inverse.hpp"
#include "kernels/physics/solver/solver.hpp"
#include "kernels/physics/stage_times.hpp"
#include "kernels/physics/step.hpp"

namespace maniple {

// Actuators, passive forces, accelerations and constraints, after kinematics, inertia and bias. `elapsed`:
// time since the time step began, in time steps. Returns which rows of constraints act.
template <class V>
MANIPLE_SUBSTAGE ActiveRows accelerations(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                          ScalarOf<V> elapsed) {
  if (m.ntendon > 0) {
    tendon_lengths(m, s, d);
    tendon_velocities(m, s, d);
    if (m.flags & model_tendon_armature)
      d.team.once([&] {
        add_tendon_inertia(m, d);
        add_tendon_bias(m, s, d);
      });
  }
  for (const int i : d.team.share(m.nM)) d.qM_factor[i] = d.qM[i];
  factor_inertia(m, d, d.qM_factor, d.qLDiagInv);
  actuator_lengths(m, s, d);
  actuator_velocities(m, s, d);
  passive_forces(m, s, d);
  actuation(m, s, d, elapsed);
  for (const int i : d.team.share(m.nv)) {
    const V force = d.qfrc_passive[i] - d.qfrc_bias[i] + d.qfrc_actuator[i];
    d.qfrc_smooth[i] = force;
    d.qacc_smooth[i] = force;
  }
  if (m.nxfrc + m.nqfrc > 0) add_applied_forces(m, s, d);
  solve_inertia(m, d, d.qM_factor, d.qLDiagInv, d.qacc_smooth);
  end_stage(d, PhysicsStage::smooth_acceleration);
  return solve_constraints(m, s, d);
}

// The fields that neither the passes nor a later stage of a time step writes. Nothing of what a step goes on
// to read changes: it comes after the accelerations and before the integrator.
template <class V>
MANIPLE_FUNCTION void complete_fields(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                      const ActiveRows& rows) {
  complete_velocities<VelocityOutputs::all>(m, s, d);
  complete_poses(m, s, d);
  if (!(m.flags & model_fluid))
    for (int i = 0; i < m.nv; ++i) d.qfrc_fluid[i] = V(0);
  inverse_dynamics(m, d, rows);
}

// mj_forward without sensors. No bit of what a time step needs depends on whether every field is asked for.
// Returns which rows of constraints act.
template <class V>
MANIPLE_SUBSTAGE ActiveRows dynamics(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                     StepRequest request, ScalarOf<V> elapsed = 0) {
  kinematics(m, s, d, !request.contacts_known);
  end_stage(d, PhysicsStage::kinematics);
  // implicit reads cinert and cdof_dot
  if (request.all_fields || m.integrator == implicit)
    velocities<VelocityOutputs::all>(m, s, d);
  else
    velocities<VelocityOutputs::dynamics>(m, s, d);
  sum_over_subtrees(m, d);
  inertia_and_bias(m, s, d);
  end_stage(d, PhysicsStage::inertia_and_bias);
  if (!request.contacts_known) collide(m, s, d);
  end_stage(d, PhysicsStage::collision);
  const ActiveRows rows = accelerations(m, s, d, elapsed);
  end_stage(d, PhysicsStage::solver);
  if (request.all_fields) complete_fields(m, s, d, rows);
  return rows;
}

// All sensors, stage by stage.
template <class V>
MANIPLE_FUNCTION void all_sensors(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  if (m.nsensordata == 0) return;
  sensors(m, s, d, SensorPass::positions_and_velocities);
  sensors(m, s, d, SensorPass::accelerations);
}

// Fields that follow from the accelerations, which no stage of a time step needs unless a sensor reads them.
template <class V>
MANIPLE_STAGE void derived_fields(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  subtree_velocities(m, s, d);
  external_forces(m, s, d);
  internal_forces(m, s, d);
}

template <class V>
MANIPLE_STAGE void forward(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, bool inverse) {
  d.contact_dropped[0] = V(0);
  const ActiveRows rows = dynamics(m, s, d, StepRequest{.all_fields = true, .contacts_known = false});
  all_sensors(m, s, d);
  derived_fields(m, s, d);
  if (!inverse) return;
  for (int i = 0; i < m.nv; ++i) d.qacc[i] = s.qacc_warmstart[i];
  inverse_dynamics(m, d, rows);
}

template <class V>
MANIPLE_STAGE void forward_kinematics(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  kinematics(m, s, d, false);
  velocities<VelocityOutputs::motion>(m, s, d);
  complete_velocities<VelocityOutputs::motion>(m, s, d);
  complete_poses(m, s, d);
  tendon_lengths(m, s, d);
  tendon_velocities(m, s, d);
  if (m.flags & model_adhesion) {
    d.contact_dropped[0] = V(0);
    collide(m, s, d);
  }
  actuator_lengths(m, s, d);
  actuator_velocities(m, s, d);
  if (m.nsensordata > 0) sensors(m, s, d, SensorPass::positions_and_velocities);
}

// The same by a team.
template <class V>
MANIPLE_FUNCTION void reset_to_default(const Model<ScalarOf<V>>& m, const Team<V>& team, const State<V>& s,
                                       MaskOf<V> which) {
  for (const int i : team.share(m.nq)) s.qpos[i] = select(which, LaneModel<V>(m, s).qpos0(i), V(s.qpos[i]));
  for (const int i : team.share(m.nv)) {
    s.qvel[i] = select(which, V(0), V(s.qvel[i]));
    s.qacc_warmstart[i] = select(which, V(0), V(s.qacc_warmstart[i]));
  }
  for (const int i : team.share(m.na)) s.act[i] = select(which, V(0), V(s.act[i]));
  for (const int i : team.share(m.nu)) s.ctrl[i] = select(which, V(0), V(s.ctrl[i]));
  for (const int i : team.share(m.nhistory)) s.ctrl_history[i] = select(which, V(0), V(s.ctrl_history[i]));
  for (const int i : team.share(m.nsensorhistory))
    s.sensordata_history[i] = select(which, V(m.sensordata_history0[i]), V(s.sensordata_history[i]));
  for (const int i : team.share(m.nqfrc)) s.qfrc_applied[i] = select(which, V(0), V(s.qfrc_applied[i]));
  for (const int i : team.share(6 * m.nxfrc)) s.xfrc_applied[i] = select(which, V(0), V(s.xfrc_applied[i]));
  for (const int i : team.share(m.nmocap > 0 ? m.nbody : 0)) {
    const int mocap = m.body_mocapid[i];
    if (mocap < 0) continue;
    const auto begin = [&](const StateField<V>& field, int row, const ScalarOf<V>* numbers) {
      for (int k = 0; k < row; ++k)
        field[row * mocap + k] = select(which, V(numbers[row * i + k]), V(field[row * mocap + k]));
    };
    begin(s.mocap_pos, 3, m.body_pos);
    begin(s.mocap_quat, 4, m.body_quat);
  }
  for (const int e : team.share(m.neq))
    s.eq_active[e] = select(which, V(static_cast<ScalarOf<V>>(m.eq_active0[e])), V(s.eq_active[e]));
  team.once([&] {
    s.time[0] = select(which, V(0), V(s.time[0]));
    s.time_residual[0] = select(which, V(0), V(s.time_residual[0]));
  });
}

template <class V>
MANIPLE_STAGE void reset_to_default(const Model<ScalarOf<V>>& m, const State<V>& s, MaskOf<V> which) {
  reset_to_default(m, Team<V>(), s, which);
}

template <class V>
MANIPLE_STAGE MaskOf<V> step(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                             StepRequest request) {
  const bool resets = !(m.disableflags & disable_autoreset);
  request.all_fields = request.all_fields || m.nsensorhistory > 0;
  MaskOf<V> bad(false);
  for (int i = 0; i < m.nq; ++i) bad = bad || is_bad(V(s.qpos[i]));
  for (int i = 0; i < m.nv; ++i) bad = bad || is_bad(V(s.qvel[i]));
  if (resets && any_lane(bad)) {
    reset_to_default(m, d.team, s, bad);
    request.contacts_known = false;
  }

  // a bad acceleration restarts its environment; the others repeat the stage and get the same bits
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!request.contacts_known) d.team.once([&] { d.contact_dropped[0] = V(0); });
    dynamics(m, s, d, request);
    MaskOf<V> bad_acceleration(false);
    for (int i = 0; i < m.nv; ++i) bad_acceleration = bad_acceleration || is_bad(V(d.qacc[i]));
    bad = bad || bad_acceleration;
    if (attempt == 1 || !resets || !any_lane(bad_acceleration)) break;
    reset_to_default(m, d.team, s, bad_acceleration);
    request.contacts_known = false;
  }
  if (request.all_fields) all_sensors(m, s, d);

  switch (m.integrator) {
    case RK4:
      integrate_rk4(m, s, d, [&](ScalarOf<V> elapsed, bool last) {
        dynamics(m, s, d, StepRequest{.all_fields = request.all_fields && last, .contacts_known = false},
                 elapsed);
      });
      break;
    case implicit:
      integrate_implicit(m, s, d);
      break;
    case implicitfast:
      integrate_implicitfast(m, s, d);
      break;
    default:
      integrate_euler(m, s, d);
  }
  if (request.all_fields) derived_fields(m, s, d);
  end_stage(d, PhysicsStage::integrator);
  return bad;
}

}  // namespace maniple
