// The integrators: semi-implicit Euler with implicit damping, RK4 and implicitfast (mj_Euler,
// mj_RungeKutta, mj_implicit); implicit.hpp has implicit. They advance the state in place.
#pragma once

#include "kernels/physics/smooth/actuation.hpp"
#include "kernels/physics/smooth/inertia.hpp"
#include "kernels/physics/smooth/passive.hpp"

namespace maniple {

// qpos advanced by the velocity `qvel` over the time dt [s]: mj_integratePos.
template <class V, class Field>
MANIPLE_FUNCTION void integrate_positions(const Model<ScalarOf<V>>& m, const Team<V>& team,
                                          const StateField<V>& qpos, const Field& qvel, V dt) {
  for (const int j : team.share(m.njnt)) {
    const int type = m.jnt_type[j];
    int q = m.jnt_qposadr[j], dof = m.jnt_dofadr[j];
    if (type == joint_slide || type == joint_hinge) {
      qpos[q] += dt * qvel[dof];
      continue;
    }
    if (type == joint_free) {
      for (int k = 0; k < 3; ++k) qpos[q + k] += dt * qvel[dof + k];
      q += 3;
      dof += 3;
    }
    store4(qpos, q, integrate(load4<V>(qpos, q), load3<V>(qvel, dof), dt));
  }
}

// act, qvel, qpos and time advanced by one time step: mj_advance. `velocity` moves the positions.
template <class V, class Field>
MANIPLE_FUNCTION void advance(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                              const DataField<V>& act_dot, const DataField<V>& qacc, const Field& velocity) {
  const V h(m.timestep);
  advance_activations(m, s, d, act_dot);
  if (m.nhistory > 0) remember_controls(m, s, d.team);
  if (m.nsensorhistory > 0) remember_readings(m, s, d);
  for (const int i : d.team.share(m.nv)) {
    s.qvel[i] += h * qacc[i];
    s.qacc_warmstart[i] = d.qacc[i];
  }
  integrate_positions(m, d.team, s.qpos, velocity, h);
  d.team.once([&] {
    if constexpr (sizeof(ScalarOf<V>) == sizeof(double)) {
      s.time[0] += h;
    } else {
      // with compensation (Kahan 1965): a million steps of 2 ms would end 18 s early
      const V began(s.time[0]), step = h + s.time_residual[0], now = began + step;
      s.time[0] = now;
      s.time_residual[0] = step - (now - began);
    }
  });
}

template <class V>
MANIPLE_FUNCTION void integrate_euler(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  if (!(m.flags & model_implicit_damping)) {
    advance(m, s, d, d.act_dot, d.qacc, s.qvel);
    return;
  }
  // (M + h * d(damping force)/d(qvel)) qacc = forces
  const V h(m.timestep);
  for (const int i : d.team.share(m.nM)) d.qH[i] = d.qM[i];
  for (const int i : d.team.share(m.nv)) {
    d.qH[m.dof_Madr[i]] += h * damping_derivative(m, s, i, V(s.qvel[i]));
    d.qacc_implicit[i] = d.qfrc_smooth[i] + d.qfrc_constraint[i];
  }
  factor_inertia(m, d, d.qH, d.qHDiagInv);
  solve_inertia(m, d, d.qH, d.qHDiagInv, d.qacc_implicit);
  advance(m, s, d, d.act_dot, d.qacc_implicit, s.qvel);
}

// Adds h * d(bias force)/d(qvel) of a free joint that is the only one of its tree to its 6x6 block: linear
// rows by rotational columns, and rotational rows by rotational columns (mjd_freeMhat). In the body frame, in
// which the angular velocity is given, the bodies of the tree together are one rigid body.
template <class V>
MANIPLE_FUNCTION void add_free_bias_derivative(const Model<ScalarOf<V>>& m, const State<V>& s,
                                               const Data<V>& d, int body, int dof, V (&a)[36]) {
  const LaneModel<V> lanes(m, s);
  const V h(m.timestep), mass = lanes.body_subtreemass(body);
  const Vec3<V> com = lanes.body_freecom().vector(body), w = load3<V>(s.qvel, dof + 3);
  const LaneField<V, 9, 9> own = lanes.body_freeinertia();
  const Mat3<V> inertia{own(body, 0), own(body, 1), own(body, 2), own(body, 3), own(body, 4),
                        own(body, 5), own(body, 6), own(body, 7), own(body, 8)};
  const Vec3<V> momentum = inertia * w, turning = cross(w, com);
  const V along = dot(w, com);
  // [w x com] + [w][com], as cross-product matrices
  const Mat3<V> k{com.x * w.x - along,     com.x * w.y - turning.z, com.x * w.z + turning.y,
                  com.y * w.x + turning.z, com.y * w.y - along,     com.y * w.z - turning.x,
                  com.z * w.x - turning.y, com.z * w.y + turning.x, com.z * w.z - along};
  const Mat3<V> p = cross_matrix(com) * k, q = cross_matrix(w) * inertia, r = cross_matrix(momentum);
  const Mat3<V> linear = matrix(load4<V>(d.xquat, 4 * body)) * k;
  const V factor = -h * mass;
  const V linear_rows[9] = {linear.xx, linear.xy, linear.xz, linear.yx, linear.yy,
                            linear.yz, linear.zx, linear.zy, linear.zz};
  const V rotational_rows[9] = {
      q.xx - mass * p.xx - r.xx, q.xy - mass * p.xy - r.xy, q.xz - mass * p.xz - r.xz,
      q.yx - mass * p.yx - r.yx, q.yy - mass * p.yy - r.yy, q.yz - mass * p.yz - r.yz,
      q.zx - mass * p.zx - r.zx, q.zy - mass * p.zy - r.zy, q.zz - mass * p.zz - r.zz};
  for (int row = 0; row < 3; ++row)
    for (int column = 0; column < 3; ++column) {
      a[6 * row + 3 + column] += factor * linear_rows[3 * row + column];
      a[6 * (3 + row) + 3 + column] += h * rotational_rows[3 * row + column];
    }
}

// x = a^-1 x for an unsymmetric 6x6, by elimination with pivots from the column (mju_factorLU6,
// mju_solveLU6). Returns in which lanes a is regular; x is undefined in the others.
template <class V>
MANIPLE_FUNCTION MaskOf<V> solve6(V (&a)[36], V (&x)[6]) {
  MaskOf<V> regular(true);
  const auto swap = [](MaskOf<V> where, V& one, V& other) {
    const V kept = one;
    one = select(where, other, one);
    other = select(where, kept, other);
  };
  for (int k = 0; k < 6; ++k) {
    // the largest element moves up; all that matters is that its row becomes the pivot's
    for (int i = k + 1; i < 6; ++i) {
      const MaskOf<V> larger = abs(a[6 * i + k]) > abs(a[7 * k]);
      if (!any_lane(larger)) continue;
      for (int j = k; j < 6; ++j) swap(larger, a[6 * k + j], a[6 * i + j]);
      swap(larger, x[k], x[i]);
    }
    regular = regular && !(abs(a[7 * k]) < V(kMinimumValue));
    const V inverse = V(1) / a[7 * k];
    for (int i = k + 1; i < 6; ++i) {
      const V factor = a[6 * i + k] * inverse;
      for (int j = k + 1; j < 6; ++j) a[6 * i + j] -= factor * a[6 * k + j];
      x[i] -= factor * x[k];
    }
  }
  for (int i = 5; i >= 0; --i) {
    for (int j = i + 1; j < 6; ++j) x[i] -= a[6 * i + j] * x[j];
    x[i] = x[i] / a[7 * i];
  }
  return regular;
}

// Writes M to the rows of qH of free joints that are the only ones of their trees: the fallback where
// solve_free_bodies meets a singular block.
template <class V>
MANIPLE_FUNCTION void keep_inertia_of_free_bodies(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  for (int body = 1; body < m.nbody; ++body) {
    if (!m.body_freealone[body]) continue;
    const int dof = m.jnt_dofadr[m.body_jntadr[body]];
    for (int k = m.dof_Madr[dof]; k <= m.dof_Mrootadr[dof + 5]; ++k) d.qH[k] = d.qM[k];
  }
}

// Adds -h * d(force)/d(qvel) of spatial tendons, and of actuators on these and on sites, to the block of a
// free joint.
template <class V>
MANIPLE_FUNCTION void add_row_damping(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                      int dof, V h, V (&a)[36]) {
  for (int t = 0; t < m.ntendon && (m.flags & model_tendon_dampers); ++t)
    if (m.ten_J_spatialadr[t] >= 0 && tendon_is_damped<V>(m, t))
      add_product_to_block(tendon_jacobian(m, d, t), h * tendon_damping_derivative(m, d, t), dof, a);
  for (int k = 0; k < m.nactuator && (m.flags & model_actuator_velocity); ++k) {
    if (m.actuator_disabled[k] || !force_depends_on_velocity(m, k)) continue;
    const DofRow<V> row = actuator_row(m, d, k);
    if (row.count == 0) continue;
    const ScalarOf<V> scale = actuator_row_scale(m, k);
    add_product_to_block(row, -(h * V(scale * scale)) * actuator_velocity_derivative(m, s, d, k), dof, a);
  }
}

// Overwrites qacc_implicit of free joints that are the only ones of their trees: their 6x6 blocks are solved
// with the gyroscopic derivative that implicitfast leaves out elsewhere.
template <class V>
MANIPLE_FUNCTION void solve_free_bodies(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const V h(m.timestep);
  for (int body = 1; body < m.nbody; ++body) {
    if (!m.body_freealone[body]) continue;
    const int joint = m.body_jntadr[body], dof = m.jnt_dofadr[joint];
    V a[36], x[6];
    for (int i = 0; i < 6; ++i) {
      for (int j = 0; j <= i; ++j) a[6 * i + j] = a[6 * j + i] = d.qM[m.dof_Madr[dof + i] + i - j];
      if (m.flags & model_dampers) a[7 * i] += h * damping_derivative(m, s, dof + i, V(s.qvel[dof + i]));
      x[i] = d.qfrc_smooth[dof + i] + d.qfrc_constraint[dof + i];
    }
    for (int k = 0; k < m.nactuator && (m.flags & model_actuator_velocity); ++k) {
      if (m.actuator_disabled[k] || !is_on_joint(m, k, joint) || !force_depends_on_velocity(m, k)) continue;
      const V derivative = h * actuator_velocity_derivative(m, s, d, k);
      const Moment<V> moment = actuator_moment(m, s, k);
      for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 6; ++j) a[6 * i + j] -= derivative * moment.value[i] * moment.value[j];
    }
    if (m.nmoment + m.nJspatial > 0) add_row_damping(m, s, d, dof, h, a);
    if (m.flags & model_fluid) add_free_fluid_damping(m, s, d, body, dof, h, a);
    add_free_bias_derivative(m, s, d, body, dof, a);
    const MaskOf<V> regular = solve6(a, x);
    for (int i = 0; i < 6; ++i) d.qacc_implicit[dof + i] = select(regular, x[i], V(d.qacc_implicit[dof + i]));
  }
}

// Adds -h * d(force)/d(qvel) of the actuators to qH.
template <class V>
MANIPLE_FUNCTION void add_actuator_damping(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                           V h) {
  for (int k = 0; k < m.nactuator; ++k) {
    if (m.actuator_disabled[k] || !force_depends_on_velocity(m, k)) continue;
    subtract_moment_product(m, s, d, k, h * actuator_velocity_derivative(m, s, d, k), d.qH);
  }
}

// Writes qH = M - h * d(force)/d(qvel), with the derivatives of passive forces and actuators, which are
// symmetric, and the forces to qacc_implicit.
template <class V>
MANIPLE_FUNCTION void symmetric_matrix(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                       V h) {
  for (const int i : d.team.share(m.nM)) d.qH[i] = d.qM[i];
  for (const int i : d.team.share(m.nv)) {
    if (m.flags & model_dampers) d.qH[m.dof_Madr[i]] += h * damping_derivative(m, s, i, V(s.qvel[i]));
    d.qacc_implicit[i] = d.qfrc_smooth[i] + d.qfrc_constraint[i];
  }
  if (m.flags & model_actuator_velocity) d.team.once([&] { add_actuator_damping(m, s, d, h); });
  if (m.flags & model_tendon_dampers) d.team.once([&] { add_tendon_damping(m, d, h, d.qH); });
  if (m.flags & model_fluid) d.team.once([&] { add_fluid_damping(m, s, d, h, d.qH); });
}

// (M - h * d(force)/d(qvel)) qacc = forces, without the derivative of the bias force.
template <class V>
MANIPLE_FUNCTION void integrate_implicitfast(const Model<ScalarOf<V>>& m, const State<V>& s,
                                             const Data<V>& d) {
  symmetric_matrix(m, s, d, V(m.timestep));
  if (m.flags & model_free_alone) d.team.once([&] { keep_inertia_of_free_bodies(m, d); });
  factor_inertia(m, d, d.qH, d.qHDiagInv);
  solve_inertia(m, d, d.qH, d.qHDiagInv, d.qacc_implicit);
  if (m.flags & model_free_alone) d.team.once([&] { solve_free_bodies(m, s, d); });
  advance(m, s, d, d.act_dot, d.qacc_implicit, s.qvel);
}

// Classical fourth-order Runge-Kutta. Quaternions are combined in the tangent space of the first stage,
// as MuJoCo does, which leaves order two for ball and free joints. `evaluate` fills qacc and act_dot;
// its arguments are the time since the step began, in time steps, and whether it is for the last time.
template <class V, class Evaluate>
MANIPLE_FUNCTION void integrate_rk4(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                    const Evaluate& evaluate) {
  const int nq = m.nq, nv = m.nv, na = m.na;
  const ScalarOf<V> h = m.timestep;
  const ScalarOf<V> sixth = ScalarOf<V>(1) / ScalarOf<V>(6), third = ScalarOf<V>(1) / ScalarOf<V>(3);
  for (const int i : d.team.share(nq)) d.qpos_start[i] = s.qpos[i];
  for (const int i : d.team.share(nv)) {
    d.qvel_start[i] = s.qvel[i];
    d.qvel_sum[i] = V(sixth) * s.qvel[i];
    d.qacc_sum[i] = V(sixth) * d.qacc[i];
  }
  for (const int i : d.team.share(na)) {
    d.act_start[i] = s.act[i];
    d.act_dot_sum[i] = V(sixth) * d.act_dot[i];
  }
  for (int stage = 1; stage < 4; ++stage) {
    // A solver that converges starts from the result of the previous stage, which saves iterations. The
    // result of one that is cut off depends on its start: MuJoCo starts every stage from the acceleration of
    // the last time step.
    if (!(m.flags & model_ends_early))
      for (const int i : d.team.share(nv)) s.qacc_warmstart[i] = d.qacc[i];
    const V dt(stage == 3 ? h : h / 2);
    const V weight(stage == 3 ? sixth : third);
    // qvel still holds the velocity of the previous stage
    for (const int i : d.team.share(nq)) s.qpos[i] = d.qpos_start[i];
    integrate_positions(m, d.team, s.qpos, s.qvel, dt);
    for (const int i : d.team.share(nv)) s.qvel[i] = d.qvel_start[i] + dt * d.qacc[i];
    for (const int i : d.team.share(na)) s.act[i] = d.act_start[i] + dt * d.act_dot[i];
    evaluate(ScalarOf<V>(stage == 3 ? 1 : 0.5), stage == 3);
    for (const int i : d.team.share(nv)) {
      d.qvel_sum[i] += weight * s.qvel[i];
      d.qacc_sum[i] += weight * d.qacc[i];
    }
    for (const int i : d.team.share(na)) d.act_dot_sum[i] += weight * d.act_dot[i];
  }
  for (const int i : d.team.share(nq)) s.qpos[i] = d.qpos_start[i];
  for (const int i : d.team.share(nv)) s.qvel[i] = d.qvel_start[i];
  for (const int i : d.team.share(na)) s.act[i] = d.act_start[i];
  advance(m, s, d, d.act_dot_sum, d.qacc_sum, d.qvel_sum);
}

}  // namespace maniple
