// Newton's method for the constrained acceleration (mj_solNewton): the qacc that minimizes
//   1/2 (qacc - qacc_smooth)' M (qacc - qacc_smooth) + sum of the rows' costs(J qacc - aref).
// Lanes finish one by one; what a finished lane holds no longer changes, hence its bits do not depend on its
// neighbours. The Hessian H = M + J' D J has the sparsity of M, but for contacts between two branches of a
// tree: the columns of its rows are found anew for every pack of environments.
#pragma once

#include "kernels/physics/dual_solver.hpp"

namespace maniple {

// Address of element (i, j) of H, j <= i.
MANIPLE_FUNCTION int hessian_address(int i, int j) {
  return i * (i + 1) / 2 + j;
}

// Ma and the rows' jar of the acceleration in qacc.
template <class V>
MANIPLE_FUNCTION void evaluate_rows(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows rows) {
  multiply_inertia(m, d.qM, d.qacc, d.Ma);
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a];
    d.limit_jar[r] = limit_jacobian_times(m, d, r, d.qacc) - d.limit_aref[r];
  }
  for (int slot = 0; slot < rows.slots; ++slot) {
    const BaseRows<V> x = contact_jacobian_times(m, d, slot, d.qacc);
    const BaseRows<V> aref = load_base<V>(d.contact_aref, slot);
    store_base(d.contact_jar, slot, BaseRows<V>{x.n - aref.n, x.t - aref.t, x.u - aref.u});
  }
}

// The cost of the acceleration in qacc.
template <class V>
MANIPLE_FUNCTION V constraint_cost(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                   ActiveRows rows) {
  using T = ScalarOf<V>;
  V cost(0);
  for (int i = 0; i < m.nv; ++i) cost += (d.Ma[i] - d.qfrc_smooth[i]) * (d.qacc[i] - d.qacc_smooth[i]);
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a];
    const V jar = min(V(d.limit_jar[r]), V(0));
    cost += d.limit_D[r] * jar * jar;
  }
  for (int slot = 0; slot < rows.slots; ++slot) {
    const Edges<V> edges = edges_of(load_base<V>(d.contact_jar, slot));
    V sum(0);
    for (const V edge : edges.value) {
      const V jar = min(edge, V(0));
      sum += jar * jar;
    }
    cost += d.contact_D[slot] * sum;
  }
  cost *= V(T(0.5));
  for (int r = 0; r < m.nfriction; ++r) cost += friction_row(m, r, friction_jar(m, s, r, d.qacc)).cost;
  return cost;
}

// qfrc_constraint = J' force.
template <class V>
MANIPLE_FUNCTION void constraint_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                        ActiveRows rows) {
  for (int i = 0; i < m.nv; ++i) d.qfrc_constraint[i] = V(0);
  for (int r = 0; r < m.nfriction; ++r) d.qfrc_constraint[m.friction_dofid[r]] += friction_force(m, s, d, r);
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a];
    const V force = limit_force(m, d, r);
    const int dof = m.jnt_dofadr[m.limit_jntid[r]];
    if (m.limit_ballid[r] < 0) {
      d.qfrc_constraint[dof] += V(static_cast<ScalarOf<V>>(m.limit_side[r])) * force;
      continue;
    }
    for (int k = 0; k < 3; ++k) d.qfrc_constraint[dof + k] -= force * d.limit_axis[3 * m.limit_ballid[r] + k];
  }
  for (int slot = 0; slot < rows.slots; ++slot)
    add_contact_force(m, d, slot, contact_force(m, d, slot), d.qfrc_constraint);
}

// Which elements of H may differ from zero.
struct HessianPattern {
  IndexList colnum, col;      // columns before the diagonal, row by row, descending
  IndexList belownum, below;  // rows after the diagonal, column by column, ascending
};

// The pattern of M where no contact couples two branches of a tree; else that of H_set with what elimination
// fills in, which goes to H_col and H_below.
template <class V>
MANIPLE_FUNCTION HessianPattern hessian_pattern(const Model<ScalarOf<V>>& m, const Data<V>& d, bool coupled) {
  if (!coupled)
    return {IndexList(m.dof_ancestors), IndexList(m.dof_ancestorlist), IndexList(m.dof_descendants),
            IndexList(m.dof_descendantlist)};
  const int words = m.ndofword, nv = m.nv;
  for (int k = 0; k < nv; ++k) d.H_belownum[k] = 0;
  for (int k = nv - 1; k >= 0; --k) {
    int count = 0;
    for (int w = k / 32; w >= 0; --w)
      for (auto left = static_cast<std::uint32_t>(d.H_set[k * words + w]); left != 0;) {
        const int bit = highest_bit(left), i = 32 * w + bit;
        left ^= 1u << bit;
        d.H_col[k * (k - 1) / 2 + count++] = i;
        for (int v = 0; v < w; ++v) d.H_set[i * words + v] |= d.H_set[k * words + v];
        d.H_set[i * words + w] |= d.H_set[k * words + w] & static_cast<int>((1u << bit) - 1u);
      }
    d.H_colnum[k] = count;
  }
  for (int k = 0; k < nv; ++k)
    for (int c = 0; c < d.H_colnum[k]; ++c) {
      const int i = d.H_col[k * (k - 1) / 2 + c];
      d.H_below[below_address(nv, i) + d.H_belownum[i]++] = k;
    }
  return {IndexList(d.H_colnum), IndexList(d.H_col), IndexList(d.H_belownum), IndexList(d.H_below)};
}

// Adds J' D J of the edges of a slot that push: B' W B with the base rows B and a symmetric W.
template <class V>
MANIPLE_FUNCTION void add_contact_hessian(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot) {
  const Edges<V> edges = edges_of(load_base<V>(d.contact_jar, slot));
  const V D = d.contact_D[slot];
  V push[4];
  for (int e = 0; e < 4; ++e) push[e] = select(edges.value[e] < V(0), D, V(0));
  const V tt = push[0] + push[1], uu = push[2] + push[3], nn = tt + uu, nt = push[0] - push[1],
          nu = push[2] - push[3];
  if (!any_lane(nn > V(0))) return;
  const int first = slot * m.nv, last = first + d.slot_dofnum[slot];
  const DataField<V> J = d.contact_J, H = d.H;
  const IndexField<V> dofs = d.slot_dof;
  const bool frictionless = d.slot_rows[slot] == 1;
  // dofs of two lanes' contacts may meet in one slot: their elements get zeros and are not read
  for (int a = first; a < last; ++a) {
    const int row = hessian_address(dofs[a], 0);
    const V n = J[3 * a];
    if (frictionless) {
      const V wn = nn * n;
      for (int b = a; b < last; ++b) H[row + dofs[b]] += wn * J[3 * b];
      continue;
    }
    const V t = J[3 * a + 1], u = J[3 * a + 2];
    const V wn = nn * n + nt * t + nu * u, wt = nt * n + tt * t, wu = nu * n + uu * u;
    for (int b = a; b < last; ++b) H[row + dofs[b]] += wn * J[3 * b] + wt * J[3 * b + 1] + wu * J[3 * b + 2];
  }
}

// H = M + J' D J over the rows that are in their quadratic zone.
template <class V>
MANIPLE_FUNCTION void hessian(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                              ActiveRows rows) {
  const DataField<V> H = d.H, qM = d.qM;
  const int* const parent = m.dof_parentid;
  for (int i = 0; i < m.nv; ++i) {
    const int row = hessian_address(i, 0);
    // the factorization reads elements outside the pattern of coupled rows, too
    if (rows.coupled)
      for (int j = 0; j < i; ++j) H[row + j] = V(0);
    int address = m.dof_Madr[i];
    H[row + i] = qM[address];
    for (int j = parent[i]; j >= 0; j = parent[j]) H[row + j] = qM[++address];
  }
  for (int r = 0; r < m.nfriction; ++r) {
    const int dof = m.friction_dofid[r];
    d.H[hessian_address(dof, dof)] += friction_row(m, r, friction_jar(m, s, r, d.qacc)).curvature;
  }
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a];
    const V D = select(d.limit_jar[r] < V(0), V(d.limit_D[r]), V(0));
    const int dof = m.jnt_dofadr[m.limit_jntid[r]];
    if (m.limit_ballid[r] < 0) {
      d.H[hessian_address(dof, dof)] += D;
      continue;
    }
    const Vec3<V> axis = load3<V>(d.limit_axis, 3 * m.limit_ballid[r]);
    const V component[3] = {axis.x, axis.y, axis.z};
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j <= i; ++j) d.H[hessian_address(dof + i, dof + j)] += D * component[i] * component[j];
  }
  for (int slot = 0; slot < rows.slots; ++slot) add_contact_hessian(m, d, slot);
}

// In place: the factor of H = L' D L as D L, whose diagonal is D; 1/D goes to HDiagInv.
template <class V>
MANIPLE_FUNCTION void factor_hessian(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                     const HessianPattern pattern) {
  const DataField<V> H = d.H, inverse = d.HDiagInv, column = d.factor_column;
  const int nv = m.nv;
  for (int i = nv - 1; i >= 0; --i) {
    const int row = hessian_address(i, 0), list = i * (i - 1) / 2, count = pattern.colnum[i];
    const int first = below_address(nv, i), last = first + pattern.belownum[i];
    V diagonal = H[row + i];
    for (int b = first; b < last; ++b) {
      const int k = pattern.below[b];
      const V element = H[hessian_address(k, i)], factor = element * inverse[k];
      column[b - first] = factor;
      diagonal -= factor * element;
    }
    H[row + i] = diagonal;
    inverse[i] = V(1) / diagonal;
    int c = 0;
    for (; c + 4 <= count; c += 4) {
      const int j0 = pattern.col[list + c], j1 = pattern.col[list + c + 1], j2 = pattern.col[list + c + 2],
                j3 = pattern.col[list + c + 3];
      V sum0 = H[row + j0], sum1 = H[row + j1], sum2 = H[row + j2], sum3 = H[row + j3];
      for (int b = first; b < last; ++b) {
        const V factor = column[b - first];
        const int at = hessian_address(pattern.below[b], 0);
        sum0 -= factor * H[at + j0];
        sum1 -= factor * H[at + j1];
        sum2 -= factor * H[at + j2];
        sum3 -= factor * H[at + j3];
      }
      H[row + j0] = sum0;
      H[row + j1] = sum1;
      H[row + j2] = sum2;
      H[row + j3] = sum3;
    }
    for (; c < count; ++c) {
      const int j = pattern.col[list + c];
      V sum = H[row + j];
      for (int b = first; b < last; ++b) sum -= column[b - first] * H[hessian_address(pattern.below[b], j)];
      H[row + j] = sum;
    }
  }
}

// In place: x = H^-1 x.
template <class V>
MANIPLE_FUNCTION void solve_hessian(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                    const HessianPattern pattern, const DataField<V> x) {
  const DataField<V> H = d.H, inverse = d.HDiagInv;
  const int nv = m.nv;
  for (int i = nv - 1; i >= 0; --i) {
    const int first = below_address(nv, i), last = first + pattern.belownum[i];
    V value = x[i];
    for (int b = first; b < last; ++b) {
      const int k = pattern.below[b];
      value -= H[hessian_address(k, i)] * x[k];
    }
    x[i] = value * inverse[i];
  }
  for (int k = 0; k < nv; ++k) {
    const int row = hessian_address(k, 0), first = k * (k - 1) / 2, last = first + pattern.colnum[k];
    V sum(0);
    for (int c = first; c < last; ++c) {
      const int i = pattern.col[c];
      sum += H[row + i] * x[i];
    }
    x[k] -= sum * inverse[k];
  }
}

// The derivative of the cost along the search direction at the step alpha, as the line that it follows
// there: intercept + alpha * slope.
template <class V>
struct DerivativeLine {
  V intercept, slope;

  friend MANIPLE_FUNCTION MaskOf<V> operator==(const DerivativeLine& a, const DerivativeLine& b) {
    return a.intercept == b.intercept && a.slope == b.slope;
  }
};
// `smooth`: the line of the cost without rows.
template <class V>
MANIPLE_FUNCTION DerivativeLine<V> derivative_line(const Model<ScalarOf<V>>& m, const State<V>& s,
                                                   const Data<V>& d, ActiveRows rows,
                                                   const DerivativeLine<V>& smooth, V alpha) {
  DerivativeLine<V> sum = smooth;
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a];
    const V jar = d.limit_jar[r], change = d.limit_search[r];
    const V pushed = select(multiply_add(alpha, change, jar) < V(0), d.limit_D[r] * change, V(0));
    sum.intercept += jar * pushed;
    sum.slope += change * pushed;
  }
  for (int slot = 0; slot < rows.slots; ++slot) {
    const Edges<V> jars = edges_of(load_base<V>(d.contact_jar, slot));
    const Edges<V> changes = edges_of(load_base<V>(d.contact_search, slot));
    V intercept(0), slope(0);
    for (int e = 0; e < 4; ++e) {
      const V jar = jars.value[e], change = changes.value[e];
      const V pushed = select(multiply_add(alpha, change, jar) < V(0), change, V(0));
      intercept += jar * pushed;
      slope += change * pushed;
    }
    sum.intercept += d.contact_D[slot] * intercept;
    sum.slope += d.contact_D[slot] * slope;
  }
  for (int r = 0; r < m.nfriction; ++r) {
    const V change = d.search[m.friction_dofid[r]], jar = friction_jar(m, s, r, d.qacc);
    const FrictionRow<V> row = friction_row(m, r, multiply_add(alpha, change, jar));
    const V steep = row.curvature * change;
    sum.intercept += select(row.curvature > V(0), jar * steep, -row.force * change);
    sum.slope += steep * change;
  }
  return sum;
}

// The step along `search` that minimizes the cost, and how much the cost falls if it is quadratic all the
// way. (The difference of two costs would be all rounding in single precision.) `exact`: no row has changed
// its zone on the way, so that the step has met the minimum of the cost itself.
template <class V>
struct LineMinimum {
  V alpha, improvement;
  MaskOf<V> exact;
};

// For the lanes in `active`. The derivative is piecewise linear and grows with the step: Newton's method on
// it ends where the line through one point is still the line at its zero. Bisection guards the steps.
template <class V>
MANIPLE_FUNCTION LineMinimum<V> line_search(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                            ActiveRows rows, MaskOf<V> active, V scale) {
  using T = ScalarOf<V>;
  DerivativeLine<V> smooth{V(0), V(0)};
  V square(0);
  for (int i = 0; i < m.nv; ++i) {
    smooth.intercept += d.search[i] * (d.Ma[i] - d.qfrc_smooth[i]);
    smooth.slope += d.search[i] * d.Msearch[i];
    square += d.search[i] * d.search[i];
  }
  const DerivativeLine<V> start = derivative_line(m, s, d, rows, smooth, V(0));
  const V enough = V(m.tolerance * m.ls_tolerance) * sqrt(square) / scale;
  DerivativeLine<V> line = start;
  V alpha(0), low(0), high(T(1e30));
  MaskOf<V> exact(false);
  for (int iteration = 0; iteration < m.ls_iterations; ++iteration) {
    const V newton = -line.intercept / line.slope;
    const MaskOf<V> inside = newton > low && newton < high;
    const V next = select(inside, newton, V(T(0.5)) * (low + min(high, low + low + V(1))));
    alpha = select(active, next, alpha);
    const DerivativeLine<V> found = derivative_line(m, s, d, rows, smooth, alpha);
    const MaskOf<V> met = active && inside && found == line;
    exact = exact || (met && found == start);
    line = found;
    const V derivative = multiply_add(alpha, line.slope, line.intercept);
    active = active && !met && abs(derivative) > enough;
    if (!any_lane(active)) break;
    low = select(active && derivative < V(0), alpha, low);
    high = select(active && derivative > V(0), alpha, high);
  }
  return {alpha, V(T(-0.5)) * start.intercept * alpha, exact};
}

// Msearch and the rows' changes along the search direction.
template <class V>
MANIPLE_FUNCTION void evaluate_search(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows rows) {
  multiply_inertia(m, d.qM, d.search, d.Msearch);
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a];
    d.limit_search[r] = limit_jacobian_times(m, d, r, d.search);
  }
  for (int slot = 0; slot < rows.slots; ++slot)
    store_base(d.contact_search, slot, contact_jacobian_times(m, d, slot, d.search));
}

// Moves qacc, Ma and jar of the active lanes by alpha along the search direction.
template <class V>
MANIPLE_FUNCTION void move_along_search(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows rows,
                                        MaskOf<V> active, V alpha) {
  const auto move = [&](V& value, V change) { value = select(active, value + alpha * change, value); };
  for (int i = 0; i < m.nv; ++i) {
    move(d.qacc[i], d.search[i]);
    move(d.Ma[i], d.Msearch[i]);
  }
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a];
    move(d.limit_jar[r], d.limit_search[r]);
  }
  for (int k = 0; k < 3 * rows.slots; ++k) move(d.contact_jar[k], d.contact_search[k]);
}

// Takes qacc_warmstart for the start of the iterations where its cost is lower than that of qacc_smooth.
template <class V>
MANIPLE_FUNCTION void warm_start(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                 ActiveRows rows, MaskOf<V> active) {
  evaluate_rows(m, d, rows);
  if (m.disableflags & disable_warmstart) return;
  const V cost = constraint_cost(m, s, d, rows);
  for (int i = 0; i < m.nv; ++i) d.qacc[i] = s.qacc_warmstart[i];
  evaluate_rows(m, d, rows);
  const V warm = constraint_cost(m, s, d, rows);
  const MaskOf<V> better = active && warm <= cost;
  for (int i = 0; i < m.nv; ++i) d.qacc[i] = select(better, V(d.qacc[i]), V(d.qacc_smooth[i]));
  if (!all_lanes(better)) evaluate_rows(m, d, rows);
}

// qacc, qfrc_constraint and nefc, from the contacts, qacc_smooth and the warm start.
template <class V>
MANIPLE_FUNCTION void solve_constraints(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  using T = ScalarOf<V>;
  const int nv = m.nv;
  for (int i = 0; i < nv; ++i) {
    d.qacc[i] = d.qacc_smooth[i];
    d.qfrc_constraint[i] = V(0);
  }
  d.nefc[0] = V(static_cast<T>(m.nfriction));
  if (m.nrowdof == 0) return;
  for (int i = 0; i < nv * m.ndofword; ++i) d.H_set[i] = m.dof_ancestorset[i];
  ActiveRows rows;
  rows.limits = limit_rows(m, s, d);
  rows.coupled = false;
  rows.slots = contact_rows(m, s, d, rows.coupled);
  MaskOf<V> active = d.nefc[0] > V(0);
  if (!any_lane(active)) return;
  if (m.solver == solver_pgs) {
    dual_forces(m, s, d, rows);
    constraint_forces(m, s, d, rows);
    for (int i = 0; i < nv; ++i) d.qacc[i] = d.qfrc_constraint[i];
    solve_inertia(m, d.qLD, d.qLDiagInv, d.qacc);
    for (int i = 0; i < nv; ++i) d.qacc[i] += d.qacc_smooth[i];
    return;
  }
  const HessianPattern pattern = hessian_pattern(m, d, rows.coupled);

  warm_start(m, s, d, rows, active);
  const V scale(T(1) / (m.meaninertia * static_cast<T>(nv)));
  // in single precision a smaller tolerance would ask for less than rounding
  const V tolerance(sizeof(T) == 4 ? max(m.tolerance, T(1e-6)) : m.tolerance);
  for (int iteration = 0; iteration < m.iterations; ++iteration) {
    constraint_forces(m, s, d, rows);
    V gradient(0);
    for (int i = 0; i < nv; ++i) {
      const V component = d.qfrc_smooth[i] + d.qfrc_constraint[i] - d.Ma[i];
      gradient += component * component;
      d.search[i] = component;
    }
    active = active && sqrt(gradient) * scale >= tolerance;
    if (!any_lane(active)) break;
    hessian(m, s, d, rows);
    factor_hessian(m, d, pattern);
    solve_hessian(m, d, pattern, d.search);
    evaluate_search(m, d, rows);
    const LineMinimum<V> minimum = line_search(m, s, d, rows, active, scale);
    move_along_search(m, d, rows, active, minimum.alpha);
    active = active && !minimum.exact && minimum.improvement * scale >= tolerance;
    if (!any_lane(active)) break;
  }
  constraint_forces(m, s, d, rows);
}

}  // namespace maniple
