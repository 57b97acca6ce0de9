// Newton's method for the constrained acceleration (mj_solNewton): the qacc that minimizes
//   1/2 (qacc - qacc_smooth)' M (qacc - qacc_smooth) + sum of the rows' costs(J qacc - aref).
// The rows of joints keep the sparsity of M, so that H = M + J' D J is factored like M. Lanes finish one by
// one; what a finished lane holds no longer changes, hence its bits do not depend on its neighbours.
#pragma once

#include "kernels/physics/constraint.hpp"
#include "kernels/physics/inertia.hpp"

namespace maniple {

// The cost of the acceleration in qacc.
template <class V>
MANIPLE_FUNCTION V constraint_cost(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  using T = ScalarOf<V>;
  V cost(0);
  for (int i = 0; i < m.nv; ++i) cost += (d.Ma[i] - d.qfrc_smooth[i]) * (d.qacc[i] - d.qacc_smooth[i]);
  for (int r = 0; r < m.nlimit; ++r) {
    const V jar = min(V(d.limit_jar[r]), V(0));
    cost += d.limit_D[r] * jar * jar;
  }
  cost *= V(T(0.5));
  for (int r = 0; r < m.nfriction; ++r) cost += friction_row(m, r, friction_jar(m, s, r, d.qacc)).cost;
  return cost;
}

// Ma and limit_jar of the acceleration in qacc.
template <class V>
MANIPLE_FUNCTION void evaluate_rows(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  multiply_inertia(m, d.qM, d.qacc, d.Ma);
  for (int r = 0; r < m.nlimit; ++r) d.limit_jar[r] = limit_jacobian_times(m, d, r, d.qacc) - d.limit_aref[r];
}

// qfrc_constraint = J' force.
template <class V>
MANIPLE_FUNCTION void constraint_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (int i = 0; i < m.nv; ++i) d.qfrc_constraint[i] = V(0);
  for (int r = 0; r < m.nfriction; ++r)
    d.qfrc_constraint[m.friction_dofid[r]] += friction_row(m, r, friction_jar(m, s, r, d.qacc)).force;
  for (int r = 0; r < m.nlimit; ++r) {
    const V force = -d.limit_D[r] * min(V(d.limit_jar[r]), V(0));
    const int dof = m.jnt_dofadr[m.limit_jntid[r]];
    if (m.limit_ballid[r] < 0) {
      d.qfrc_constraint[dof] += V(static_cast<ScalarOf<V>>(m.limit_side[r])) * force;
      continue;
    }
    for (int k = 0; k < 3; ++k) d.qfrc_constraint[dof + k] -= force * d.limit_axis[3 * m.limit_ballid[r] + k];
  }
}

// qH = the factor of M + J' D J over the rows that are in their quadratic zone.
template <class V>
MANIPLE_FUNCTION void factor_hessian(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (int i = 0; i < m.nM; ++i) d.qH[i] = d.qM[i];
  for (int r = 0; r < m.nfriction; ++r)
    d.qH[m.dof_Madr[m.friction_dofid[r]]] += friction_row(m, r, friction_jar(m, s, r, d.qacc)).curvature;
  for (int r = 0; r < m.nlimit; ++r) {
    const V D = select(d.limit_jar[r] < V(0), V(d.limit_D[r]), V(0));
    const int dof = m.jnt_dofadr[m.limit_jntid[r]];
    if (m.limit_ballid[r] < 0) {
      d.qH[m.dof_Madr[dof]] += D;
      continue;
    }
    const Vec3<V> axis = load3<V>(d.limit_axis, 3 * m.limit_ballid[r]);
    const V component[3] = {axis.x, axis.y, axis.z};
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j <= i; ++j) d.qH[m.dof_Madr[dof + i] + i - j] += D * component[i] * component[j];
  }
  factor_inertia(m, d.qH, d.qHDiagInv);
}

// First and second derivative of the cost along the search direction, at the step alpha.
template <class V>
struct LineDerivatives {
  V first, second;
};
template <class V>
MANIPLE_FUNCTION LineDerivatives<V> line_derivatives(const Model<ScalarOf<V>>& m, const State<V>& s,
                                                     const Data<V>& d, V slope, V curvature, V alpha) {
  LineDerivatives<V> sum{multiply_add(alpha, curvature, slope), curvature};
  for (int r = 0; r < m.nlimit; ++r) {
    const V change = d.limit_search[r];
    const V jar = multiply_add(alpha, change, V(d.limit_jar[r]));
    const V D = select(jar < V(0), V(d.limit_D[r]), V(0));
    sum.first += D * jar * change;
    sum.second += D * change * change;
  }
  for (int r = 0; r < m.nfriction; ++r) {
    const V change = d.search[m.friction_dofid[r]];
    const FrictionRow<V> row = friction_row(m, r, multiply_add(alpha, change, friction_jar(m, s, r, d.qacc)));
    sum.first -= row.force * change;
    sum.second += row.curvature * change * change;
  }
  return sum;
}

// The step along `search` that minimizes the cost, and how much the cost falls if it is quadratic all the
// way. (The difference of two costs would be all rounding in single precision.)
template <class V>
struct LineMinimum {
  V alpha, improvement;
};

// For the lanes in `active`. The derivative grows with the step and is piecewise linear, so that Newton's
// method ends exactly; bisection guards it.
template <class V>
MANIPLE_FUNCTION LineMinimum<V> line_search(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                            MaskOf<V> active, V scale) {
  using T = ScalarOf<V>;
  V slope(0), curvature(0), square(0);
  for (int i = 0; i < m.nv; ++i) {
    slope += d.search[i] * (d.Ma[i] - d.qfrc_smooth[i]);
    curvature += d.search[i] * d.Msearch[i];
    square += d.search[i] * d.search[i];
  }
  LineDerivatives<V> at = line_derivatives(m, s, d, slope, curvature, V(0));
  const V start = at.first;
  // smaller changes of the step are below what rounding lets the derivative tell
  const V change(sizeof(T) == 4 ? T(1e-5) : T(1e-13));
  const V enough = V(m.tolerance * m.ls_tolerance) * sqrt(square) / scale;
  V alpha(0), low(0), high(T(1e30));
  for (int iteration = 0; iteration < m.ls_iterations; ++iteration) {
    const V newton = alpha - at.first / at.second;
    const MaskOf<V> inside = newton > low && newton < high;
    const V next = select(inside, newton, V(T(0.5)) * (low + min(high, low + low + V(1))));
    alpha = select(active, next, alpha);
    at = line_derivatives(m, s, d, slope, curvature, alpha);
    active = active && abs(at.first) > max(enough, at.second * alpha * change);
    if (!any_lane(active)) break;
    low = select(active && at.first < V(0), alpha, low);
    high = select(active && at.first > V(0), alpha, high);
  }
  return {alpha, V(T(-0.5)) * start * alpha};
}

// qacc and qfrc_constraint, from qacc_smooth and the warm start.
template <class V>
MANIPLE_FUNCTION void solve_constraints(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  using T = ScalarOf<V>;
  const int nv = m.nv;
  for (int i = 0; i < nv; ++i) {
    d.qacc[i] = d.qacc_smooth[i];
    d.qfrc_constraint[i] = V(0);
  }
  if (m.nlimit + m.nfriction == 0) return;
  MaskOf<V> active = limit_rows(m, s, d);
  if (m.nfriction > 0) active = MaskOf<V>(true);
  if (!any_lane(active)) return;

  evaluate_rows(m, d);
  if (!(m.disableflags & disable_warmstart)) {
    const V cost = constraint_cost(m, s, d);
    for (int i = 0; i < nv; ++i) d.qacc[i] = s.qacc_warmstart[i];
    evaluate_rows(m, d);
    const V warm = constraint_cost(m, s, d);
    const MaskOf<V> better = active && warm <= cost;
    for (int i = 0; i < nv; ++i) d.qacc[i] = select(better, V(d.qacc[i]), V(d.qacc_smooth[i]));
    evaluate_rows(m, d);
  }
  const V scale(T(1) / (m.meaninertia * static_cast<T>(nv)));
  // in single precision a smaller tolerance would ask for less than rounding
  const V tolerance(sizeof(T) == 4 ? max(m.tolerance, T(1e-6)) : m.tolerance);
  for (int iteration = 0; iteration < m.iterations; ++iteration) {
    constraint_forces(m, s, d);
    V gradient(0);
    for (int i = 0; i < nv; ++i) {
      const V component = d.qfrc_smooth[i] + d.qfrc_constraint[i] - d.Ma[i];
      gradient += component * component;
      d.search[i] = component;
    }
    active = active && sqrt(gradient) * scale >= tolerance;
    if (!any_lane(active)) break;
    factor_hessian(m, s, d);
    solve_inertia(m, d.qH, d.qHDiagInv, d.search);
    multiply_inertia(m, d.qM, d.search, d.Msearch);
    for (int r = 0; r < m.nlimit; ++r) d.limit_search[r] = limit_jacobian_times(m, d, r, d.search);
    const LineMinimum<V> minimum = line_search(m, s, d, active, scale);
    const V alpha = minimum.alpha;
    for (int i = 0; i < nv; ++i) {
      d.qacc[i] = select(active, V(d.qacc[i] + alpha * d.search[i]), V(d.qacc[i]));
      d.Ma[i] = select(active, V(d.Ma[i] + alpha * d.Msearch[i]), V(d.Ma[i]));
    }
    for (int r = 0; r < m.nlimit; ++r)
      d.limit_jar[r] = select(active, V(d.limit_jar[r] + alpha * d.limit_search[r]), V(d.limit_jar[r]));
    active = active && minimum.improvement * scale >= tolerance;
    if (!any_lane(active)) break;
  }
  constraint_forces(m, s, d);
}

}  // namespace maniple
