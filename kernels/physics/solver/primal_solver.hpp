// Newton's method for the constrained acceleration (mj_solNewton): the qacc that minimizes
//   1/2 (qacc - qacc_smooth)' M (qacc - qacc_smooth) + sum of the rows' costs(J qacc - aref).
// Lanes finish one by one; what a finished lane holds no longer changes, so its bits do not depend on its
// neighbours. The linear algebra is that of `Dofs`: TreeDofs, or DenseDofs for robots of few dofs.
#pragma once

#include "kernels/physics/constraint/row_families.hpp"
#include "kernels/physics/solver/dense_dofs.hpp"
#include "kernels/physics/solver/line_search.hpp"
#include "kernels/physics/solver/tree_dofs.hpp"

namespace maniple {

// Twice the cost of the rows after a step alpha along the search direction.
template <class V>
MANIPLE_FUNCTION V twice_row_cost(const Model<ScalarOf<V>>& m, const Data<V>& d, const ActiveRows& rows,
                                  V alpha) {
  V cost(0);
  RowFamilies::for_each_row<V>(m, d, rows, [&](const auto& family, int i) MANIPLE_INLINE_LAMBDA {
    cost += family.law(i).twice_cost(moved(family.jar(i), family.change(i), alpha));
  });
  return cost;
}

// qfrc_constraint = J' force.
template <class V, class Dofs>
MANIPLE_FUNCTION void constraint_forces(const Model<ScalarOf<V>>& m, const Data<V>& d, const Dofs& dofs,
                                        ActiveRows rows) {
  for (const int i : d.team.share(dofs.count())) d.qfrc_constraint[i] = V(0);
  RowFamilies::for_each<V>(m, d, rows, [&](const auto& family) MANIPLE_INLINE_LAMBDA {
    family.add_forces(dofs, d.qfrc_constraint);
  });
}

// H = M + J' D J over the rows that are in their quadratic state.
template <class V, class Dofs>
MANIPLE_FUNCTION void hessian(const Model<ScalarOf<V>>& m, const Data<V>& d, const Dofs& dofs,
                              ActiveRows rows) {
  dofs.start_hessian();
  RowFamilies::for_each<V>(m, d, rows,
                           [&](const auto& family) MANIPLE_INLINE_LAMBDA { family.add_hessians(dofs); });
}

// `square`: of the search direction in the norm of M. `decrement`: the search direction times the negative
// gradient.
template <class V>
MANIPLE_FUNCTION LinePoint<V> line_point(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                         const ActiveRows& rows, V square, V decrement, V alpha) {
  LinePoint<V> point{square, square};
  RowFamilies::for_each_row<V>(m, d, rows, [&](const auto& family, int i) MANIPLE_INLINE_LAMBDA {
    family.law(i).add_to_line(point, family.jar(i), family.change(i), alpha);
  });
  point.error = point.start - decrement;
  return point;
}

// For the lanes in `active`; see line_point for `decrement`.
template <class V>
MANIPLE_FUNCTION LineMinimum<V> line_search(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                            const ActiveRows& rows, MaskOf<V> active, V decrement, V scale) {
  V square(0), norm(0);
  for (int i = 0; i < m.nv; ++i) {
    square += d.search[i] * d.Msearch[i];
    norm += d.search[i] * d.search[i];
  }
  const V enough = V(m.tolerance * m.ls_tolerance) * sqrt(norm) / (scale * decrement);
  const auto line_at = [&](V alpha) { return line_point(m, d, rows, max(square, V(0)), decrement, alpha); };
  return minimize_on_line(line_at(V(1)), line_at, active, enough, m.ls_iterations,
                          m.flags & model_ends_early);
}

// The rows' residuals at the acceleration in qacc.
template <class V, class Dofs>
MANIPLE_FUNCTION void evaluate_rows(const Model<ScalarOf<V>>& m, const Data<V>& d, const Dofs& dofs,
                                    ActiveRows rows) {
  RowFamilies::for_each<V>(m, d, rows,
                           [&](const auto& family) MANIPLE_INLINE_LAMBDA { family.evaluate(dofs); });
}

// Msearch and the rows' changes along the search direction.
template <class V, class Dofs>
MANIPLE_FUNCTION void evaluate_search(const Model<ScalarOf<V>>& m, const Data<V>& d, const Dofs& dofs,
                                      ActiveRows rows) {
  dofs.multiply_inertia(d.search, d.Msearch);
  RowFamilies::for_each<V>(m, d, rows,
                           [&](const auto& family) MANIPLE_INLINE_LAMBDA { family.evaluate_change(dofs); });
}

// Moves qacc, Ma and jar of the active lanes by alpha along the search direction.
template <class V>
MANIPLE_FUNCTION void move_along_search(const Model<ScalarOf<V>>& m, const Data<V>& d, const ActiveRows& rows,
                                        MaskOf<V> active, V alpha) {
  const auto move = [&](V& value, V change) { value = select(active, value + alpha * change, value); };
  for (const int i : d.team.share(m.nv)) {
    move(d.qacc[i], d.search[i]);
    move(d.Ma[i], d.Msearch[i]);
  }
  RowFamilies::for_each<V>(m, d, rows,
                           [&](const auto& family) MANIPLE_INLINE_LAMBDA { family.move(active, alpha); });
}

// The start of the iterations: qacc_warmstart, which lies at the end of the search direction, where its cost
// is lower than that of qacc_smooth. Writes qacc, Ma and jar.
template <class V, class Dofs>
MANIPLE_FUNCTION void warm_start(const Model<ScalarOf<V>>& m, const Data<V>& d, const Dofs& dofs,
                                 ActiveRows rows, MaskOf<V> active) {
  for (const int i : d.team.share(dofs.count())) d.Ma[i] = d.qfrc_smooth[i];
  evaluate_rows(m, d, dofs, rows);
  if (m.disableflags & disable_warmstart) return;
  evaluate_search(m, d, dofs, rows);
  V square(0);
  for (int i = 0; i < dofs.count(); ++i) square = multiply_add(V(d.search[i]), V(d.Msearch[i]), square);
  const V smooth = twice_row_cost(m, d, rows, V(0)), warm = square + twice_row_cost(m, d, rows, V(1));
  move_along_search(m, d, rows, active && warm <= smooth, V(1));
}

// A step that should end at the minimum has done so if no more than this fraction of the gradient's square is
// left. Where rounding leaves more, stiff rows are still far from their equilibrium, or what it leaves of
// their forces is much for a direction in which nothing is stiff.
template <class V>
inline constexpr double kSolvedSquare = sizeof(V) == lane_width<V> * sizeof(float) ? 1e-4 : 1e-16;

// qacc of the lanes in `active`, jar of their rows and qfrc_constraint, from the rows and the warm start,
// whose difference to qacc_smooth is in `search`.
template <class Dofs, class V>
MANIPLE_STAGE void solve_over(const Model<ScalarOf<V>>& m, const Data<V>& d, const ActiveRows& rows,
                              MaskOf<V> active, V scale, V tolerance) {
  Dofs dofs(m, d);
  dofs.begin(rows.slots());
  warm_start(m, d, dofs, rows, active);
  const auto descent = [&](int i) { return d.qfrc_smooth[i] + d.qfrc_constraint[i] - d.Ma[i]; };
  const auto gradient_square = [&] {
    constraint_forces(m, d, dofs, rows);
    V square(0);
    for (int i = 0; i < dofs.count(); ++i) {
      const V component = descent(i);  // of the negative gradient
      square += component * component;
    }
    return square;
  };
  const V solved(kSolvedSquare<V>);
  SolverProgress<V> progress;
  V square = gradient_square();
  for (int iteration = 0; iteration < m.iterations; ++iteration) {
    active = active && sqrt(square) * scale >= tolerance;
    if (!any_lane(active)) break;
    for (const int i : d.team.share(dofs.count())) d.search[i] = descent(i);
    hessian(m, d, dofs, rows);
    dofs.factor();
    dofs.solve(d.search);
    V decrement(0);
    for (int i = 0; i < dofs.count(); ++i) decrement += d.search[i] * descent(i);
    evaluate_search(m, d, dofs, rows);
    const LineMinimum<V> minimum = line_search(m, d, rows, active, decrement, scale);
    move_along_search(m, d, rows, active, minimum.alpha);
    active = active && minimum.alpha > V(0) &&
             progress.goes_on(minimum.prospect * scale, tolerance, !minimum.exact);
    // where no row has changed its state, the gradient is gone but for rounding
    const V before = square;
    square = gradient_square();
    active = active && !(minimum.exact && square <= solved * before);
  }
}

// The same with the linear algebra that suits the model.
template <class V>
MANIPLE_FUNCTION void solve_in_dof_space(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                         ActiveRows rows, MaskOf<V> active, V scale, V tolerance) {
  for (const int i : d.team.share(m.nv)) d.search[i] = s.qacc_warmstart[i] - d.qacc_smooth[i];
  if (m.nv > kDenseDofs) return solve_over<TreeDofs<V>>(m, d, rows, active, scale, tolerance);
  unroll<1, kDenseDofs + 1>([&](auto count) {
    if (m.nv == count) solve_over<DenseDofs<count, V>>(m, d, rows, active, scale, tolerance);
  });
}

}  // namespace maniple
