// The field tables of Model, State and Data: the one place that lists what exists. Allocation,
// checkpoints, dumps, poisoning, comparison and output by name are all driven by these lines.
// Names, shapes and meanings are MuJoCo's (mjmodel.h, mjdata.h); frames are MuJoCo's too.
#pragma once

// Persistent state of one environment, kept in tiles and written to checkpoints.
//      name, size, what the elements are of (FieldElement), unit, description
#define MANIPLE_STATE_FIELDS(FIELD)                                                                        \
  FIELD(qpos, nq, qpos, "m or rad", "generalized position")                                                \
  FIELD(qvel, nv, dof, "m/s or rad/s", "generalized velocity")                                             \
  FIELD(act, na, activation, "1", "actuator activation")                                                   \
  FIELD(ctrl, nu, control, "actuator", "control of the last step")                                         \
  FIELD(qfrc_applied, nqfrc, dof, "N or N m", "force from outside on each dof")                            \
  FIELD(xfrc_applied, 6 * nxfrc, body, "N, N m",                                                           \
        "force and torque from outside on each body, world frame, at its center of mass")                  \
  FIELD(mocap_pos, 3 * nmocap, mocap, "m", "position of each mocap body")                                  \
  FIELD(mocap_quat, 4 * nmocap, mocap, "1", "orientation of each mocap body")                              \
  FIELD(eq_active, neq, equality, "1", "1 where the equality constraint is active")                        \
  FIELD(ctrl_history, nhistory, none, "actuator", "past controls of actuators with a delay, oldest first") \
  FIELD(sensordata_history, nsensorhistory, none, "sensor",                                                \
        "what sensors with a delay or an interval remember")                                               \
  FIELD(qacc_warmstart, nv, dof, "m/s^2 or rad/s^2", "acceleration used for warm start")                   \
  FIELD(time, 1, none, "s", "simulation time since the last reset")                                        \
  FIELD(time_residual, 1, none, "s", "what rounding has left out of time")                                 \
  FIELD(model_values, nmodelvalue, none, "model", "numbers of the model that are this environment's own")

// Intermediate results of one step (mjData), in scratch; exported to files and tasks by name.
//      name, size, whether wide_data has it too (FieldWidth), what the elements are of, the stage that fills
//      it (FieldStage), unit, description
#define MANIPLE_DATA_FIELDS(FIELD)                                                                           \
  FIELD(xpos, 3 * nbody, narrow, body, kinematics, "m", "body frame position, world frame")                  \
  FIELD(xquat, 4 * nbody, narrow, body, kinematics, "1", "body frame orientation, world frame")              \
  FIELD(xmat, 9 * nbody, narrow, body, kinematics, "1", "body frame orientation as a matrix")                \
  FIELD(xipos, 3 * nbody, narrow, body, kinematics, "m", "body inertial frame position, world frame")        \
  FIELD(ximat, 9 * nbody, narrow, body, kinematics, "1", "body inertial frame orientation")                  \
  FIELD(xanchor, 3 * njnt, narrow, joint, kinematics, "m", "joint anchor, world frame")                      \
  FIELD(xaxis, 3 * njnt, narrow, joint, kinematics, "1", "joint axis, world frame")                          \
  FIELD(geom_xpos, 3 * ngeom, narrow, geom, kinematics, "m", "geom position, world frame")                   \
  FIELD(geom_xmat, 9 * ngeom, narrow, geom, kinematics, "1", "geom orientation, world frame")                \
  FIELD(site_xpos, 3 * nsite, narrow, site, kinematics, "m", "site position, world frame")                   \
  FIELD(site_xmat, 9 * nsite, narrow, site, kinematics, "1", "site orientation, world frame")                \
  FIELD(subtree_com, 3 * nbody, narrow, body, kinematics, "m", "center of mass of each subtree")             \
  FIELD(cinert, 10 * nbody, narrow, body, kinematics, "kg m^2", "inertia about the subtree com of the root") \
  FIELD(crb, 10 * nbody, narrow, body, forward, "kg m^2", "composite inertia of each subtree")               \
  FIELD(cdof, 6 * nv, narrow, dof, kinematics, "1", "motion axis of each dof (rot:lin)")                     \
  FIELD(cvel, 6 * nbody, narrow, body, kinematics, "1/s", "spatial velocity (rot:lin)")                      \
  FIELD(cdof_dot, 6 * nv, narrow, dof, kinematics, "1/s", "time derivative of cdof")                         \
  FIELD(cacc_bias, 6 * nbody, narrow, body, forward, "1/s^2", "cacc of the recursion, for qacc = 0")         \
  FIELD(cfrc_body, 6 * nbody, narrow, body, forward, "N", "spatial force (rot:lin) of the recursion")        \
  FIELD(qM, nM, wide, none, forward, "kg", "inertia matrix, ancestor-packed rows")                           \
  FIELD(qM_factor, nM, narrow, none, forward, "kg", "L'*D*L factor of qM, packed as qM")                     \
  FIELD(qLDiagInv, nv, narrow, dof, forward, "1/kg", "1/diag(D)")                                            \
  FIELD(qfrc_spring, nv, narrow, dof, forward, "N", "passive spring force")                                  \
  FIELD(qfrc_damper, nv, narrow, dof, forward, "N", "passive damper force")                                  \
  FIELD(qfrc_gravcomp, nv, narrow, dof, forward, "N", "passive gravity compensation force")                  \
  FIELD(qfrc_fluid, nv, narrow, dof, forward, "N", "passive force of the fluid")                             \
  FIELD(qfrc_passive, nv, narrow, dof, forward, "N", "total passive force")                                  \
  FIELD(qfrc_bias, nv, narrow, dof, forward, "N", "C(qpos,qvel)")                                            \
  FIELD(ten_length, ntendon, narrow, tendon, kinematics, "m or rad", "tendon length")                        \
  FIELD(ten_velocity, ntendon, narrow, tendon, kinematics, "m/s or rad/s", "tendon velocity")                \
  FIELD(actuator_length, nactuator, narrow, actuator, kinematics, "m or rad", "actuator length")             \
  FIELD(actuator_velocity, nactuator, narrow, actuator, kinematics, "m/s or rad/s", "actuator velocity")     \
  FIELD(actuator_force, nactuator, narrow, actuator, forward, "N", "actuator force in actuation space")      \
  FIELD(act_dot, na, narrow, activation, forward, "1/s", "time derivative of act")                           \
  FIELD(qfrc_actuator, nv, narrow, dof, forward, "N", "actuator force in joint space")                       \
  FIELD(qfrc_smooth, nv, wide, dof, forward, "N", "net unconstrained force")                                 \
  FIELD(qacc_smooth, nv, wide, dof, forward, "m/s^2", "unconstrained acceleration")                          \
  FIELD(qfrc_constraint, nv, wide, dof, forward, "N", "constraint force")                                    \
  FIELD(qacc, nv, wide, dof, forward, "m/s^2", "acceleration")                                               \
  FIELD(qfrc_inverse, nv, narrow, dof, forward, "N", "force from outside on each dof that qacc takes")       \
  FIELD(ncon, 1, narrow, none, forward, "1", "contacts, those in the gap included")                          \
  FIELD(nefc, 1, narrow, none, forward, "1", "constraint rows that act")                                     \
  FIELD(subtree_linvel, 3 * nbody, narrow, body, forward, "m/s", "velocity of each subtree's com")           \
  FIELD(subtree_angmom, 3 * nbody, narrow, body, forward, "kg m^2/s", "angular momentum about that com")     \
  FIELD(cacc, 6 * nbody, narrow, body, forward, "1/s^2", "spatial acceleration (rot:lin)")                   \
  FIELD(cfrc_int, 6 * nbody, narrow, body, forward, "N", "spatial force from the parent (rot:lin)")          \
  FIELD(cfrc_ext, 6 * nbody, narrow, body, forward, "N", "spatial force from outside (rot:lin)")             \
  FIELD(sensordata, nsensordata, narrow, sensor, sensor, "sensor", "sensor readings")
