// The integrator implicit (mj_implicit): (M - h*qDeriv) qacc = forces, where qDeriv is the derivative by qvel
// of all smooth forces, that of the bias force included, which makes the matrix unsymmetric. Row i of qH
// holds the elements (i, ancestor of i), packed as qM, and qH_upper the elements (ancestor of i, i) at the
// same addresses.
#pragma once

#include "kernels/physics/integration/integrate.hpp"

namespace maniple {

// Writes bias_velocity, bias_acceleration and bias_force of the bodies that dof j moves: the derivatives by
// its velocity of cvel, of the acceleration without qacc, and of the force on the body with all that it
// carries. One column of mjd_comVel_vel and mjd_rne_vel. (These bodies are numbered consecutively.)
template <class V>
MANIPLE_FUNCTION void bias_derivatives(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                       int j) {
  const int first = m.dof_bodyid[j];
  int body = first;
  for (; body < m.nbody && (body == first || m.body_parentid[body] >= first); ++body) {
    const int parent = 6 * m.body_parentid[body];
    Spatial<V> velocity = body == first ? zero6<V>() : load6<V>(d.bias_velocity, parent);
    Spatial<V> acceleration = body == first ? zero6<V>() : load6<V>(d.bias_acceleration, parent);
    Spatial<V> before = velocity;  // that of the joint
    const int begin = body == first ? j : m.body_dofadr[body],
              end = m.body_dofadr[body] + m.body_dofnum[body];
    for (int k = begin; k < end; ++k) {
      const int joint = m.dof_jntid[k], number = k - m.jnt_dofadr[joint];
      const bool of_free = m.jnt_type[joint] == joint_free;
      if (number == 0 || (of_free && number == 3)) before = velocity;
      const Spatial<V> axis = load6<V>(d.cdof, 6 * k);
      // cdof of a free joint's translations does not turn
      if (!of_free || number >= 3) acceleration = acceleration + V(s.qvel[k]) * cross_motion(before, axis);
      if (k != j) continue;
      acceleration = acceleration + load6<V>(d.cdof_dot, 6 * k);
      velocity = velocity + axis;
    }
    const Inertia<V> inertia = load10<V>(d.cinert, 10 * body);
    const Spatial<V> cvel = load6<V>(d.cvel, 6 * body);
    store6(d.bias_velocity, 6 * body, velocity);
    store6(d.bias_acceleration, 6 * body, acceleration);
    store6(d.bias_force, 6 * body,
           inertia * acceleration + cross_force(velocity, inertia * cvel) +
               cross_force(cvel, inertia * velocity));
  }
  for (int i = body - 1; i > first; --i) {
    const int parent = 6 * m.body_parentid[i];
    store6(d.bias_force, parent, load6<V>(d.bias_force, parent) + load6<V>(d.bias_force, 6 * i));
  }
}

// Adds h times the derivative of qfrc_bias by qvel to qH and qH_upper.
template <class V>
MANIPLE_FUNCTION void add_bias_derivative(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                          V h) {
  for (int j = 0; j < m.nv; ++j) {
    bias_derivatives(m, s, d, j);
    const Spatial<V> force = h * load6<V>(d.bias_force, 6 * m.dof_bodyid[j]);
    int address = m.dof_Madr[j];
    d.qH[address] += dot(load6<V>(d.cdof, 6 * j), force);
    for (int i = m.dof_parentid[j]; i >= 0; i = m.dof_parentid[i])
      d.qH_upper[++address] += dot(load6<V>(d.cdof, 6 * i), force);
    for (int i = j + 1; i <= j + m.dof_descendants[j]; ++i)
      d.qH[m.dof_Mrootadr[i] - m.dof_ancestors[j]] +=
          h * dot(load6<V>(d.cdof, 6 * i), load6<V>(d.bias_force, 6 * m.dof_bodyid[i]));
  }
}

// In place: qH and qH_upper become L and U of U*L, U with a diagonal of ones, without fill-in
// (mju_factorLUSparse). Where a pivot is zero the result is not finite; MuJoCo ends the program there.
template <class V>
MANIPLE_FUNCTION void factor_unsymmetric(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  const DataField<V> lower = d.qH, upper = d.qH_upper;
  const int* const Madr = m.dof_Madr;
  for (int i = m.nv - 1; i > 0; --i) {
    const int row = Madr[i] + 1, depth = m.dof_ancestors[i], *ancestor = m.dof_ancestorlist + i * (i - 1) / 2;
    const V inverse = V(1) / lower[Madr[i]];
    for (const int a : d.team.share(depth)) {
      const V factor = upper[row + a] * inverse;
      upper[row + a] = factor;
      for (int b = 0; b < depth; ++b) {
        V& element = b < a ? upper[Madr[ancestor[b]] + a - b] : lower[Madr[ancestor[a]] + b - a];
        element = multiply_add(-factor, V(lower[row + b]), element);
      }
    }
  }
}

// In place: x = (U*L)^-1 x (mju_solveLUSparse).
template <class V>
MANIPLE_FUNCTION void solve_unsymmetric(const Model<ScalarOf<V>>& m, const Data<V>& d, const DataField<V> x) {
  const DataField<V> lower = d.qH, upper = d.qH_upper;
  const int* const Madr = m.dof_Madr;
  for (int i = m.nv - 1; i > 0; --i) {
    const V value = -x[i];
    const int row = Madr[i] + 1, *ancestor = m.dof_ancestorlist + i * (i - 1) / 2;
    for (const int a : d.team.share(m.dof_ancestors[i]))
      x[ancestor[a]] = multiply_add(V(upper[row + a]), value, V(x[ancestor[a]]));
  }
  for (int i = 0; i < m.nv; ++i) {
    d.team.once([&] { x[i] = x[i] / lower[Madr[i]]; });
    const V value = -x[i];
    const int first = i + 1, depth = m.dof_ancestors[i], *const root = m.dof_Mrootadr + first;
    for (const int b : d.team.share(m.dof_descendants[i]))
      x[first + b] = multiply_add(V(lower[root[b] - depth]), value, V(x[first + b]));
  }
}

template <class V>
MANIPLE_FUNCTION void integrate_implicit(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const V h(m.timestep);
  symmetric_matrix(m, s, d, h);
  for (const int i : d.team.share(m.nM)) d.qH_upper[i] = d.qH[i];
  if (m.flags & model_ellipsoids) d.team.once([&] { add_fluid_antisymmetry(m, s, d, h, d.qH, d.qH_upper); });
  d.team.once([&] { add_bias_derivative(m, s, d, h); });
  factor_unsymmetric(m, d);
  solve_unsymmetric(m, d, d.qacc_implicit);
  advance(m, s, d, d.act_dot, d.qacc_implicit, s.qvel);
}

}  // namespace maniple
