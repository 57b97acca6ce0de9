// The constrained acceleration: which solver finds it for which environments. Models that ask for PGS are
// solved in the dual, and those that end their solver before it has converged by MuJoCo's own iterations.
// Newton's method works in the space of the rows for environments with few contacts that
// are not too stiff, in that of the dofs for the others, and in double precision where single precision does
// not suffice; which of the three depends on the environment alone, so that its bits do.
#pragma once

#include "kernels/physics/solver/dual_solver.hpp"
#include "kernels/physics/solver/mujoco_solver.hpp"
#include "kernels/physics/solver/noslip.hpp"
#include "kernels/physics/solver/primal_solver.hpp"
#include "kernels/physics/solver/row_solver.hpp"
#include "kernels/physics/solver/wide_solver.hpp"
#include "kernels/physics/stage_times.hpp"

namespace maniple {

// qacc, qfrc_constraint and nefc, from the contacts, qacc_smooth and the warm start. Returns which rows act.
template <class V>
MANIPLE_SUBSTAGE ActiveRows solve_constraints(const Model<ScalarOf<V>>& m, const State<V>& s,
                                              const Data<V>& d) {
  using T = ScalarOf<V>;
  const int nv = m.nv;
  for (const int i : d.team.share(nv)) {
    d.qacc[i] = d.qacc_smooth[i];
    d.qfrc_constraint[i] = V(0);
  }
  d.team.once([&] { d.nefc[0] = V(0); });
  if (m.nrowdof == 0) return ActiveRows{};
  const ActiveRows rows = RowFamilies::build(m, s, d);
  end_stage(d, PhysicsStage::constraint_rows);
  const MaskOf<V> active = d.nefc[0] > V(0);
  if (!any_lane(active)) return rows;
  if (m.solver == solver_pgs) {
    dual_forces(m, s, d, rows);
    constraint_forces(m, d, TreeDofs<V>(m, d), rows);
    for (const int i : d.team.share(nv)) d.qacc[i] = d.qfrc_constraint[i];
    solve_inertia(m, d, d.qM_factor, d.qLDiagInv, d.qacc);
    for (const int i : d.team.share(nv)) d.qacc[i] += d.qacc_smooth[i];
    return rows;
  }
  // in single precision a smaller tolerance would ask for less than rounding
  const V tolerance(sizeof(T) == 4 ? max(m.tolerance, T(1e-6)) : m.tolerance);
  if (m.nsolvertree > 0) {
    solve_as_mujoco(m, s, d, rows, active, tolerance);
    remove_slip(m, d, rows);
    return rows;
  }
  const V scale(T(1) / (m.meaninertia * static_cast<T>(nv)));
  const MaskOf<V> wide = needs_wide(m, d, rows);
  RowSpace<V> row_space;
  row_space.lanes = MaskOf<V>(m.nspaceblock > 0) && d.ncon[0] <= V(static_cast<T>(m.nrowcontact)) && !wide;
  if (any_lane(row_space.lanes)) row_space = begin_row_space(m, s, d, rows, row_space.lanes);
  // it goes first because it writes all lanes; the other solvers write only their own
  const MaskOf<V> in_dofs = !(row_space.lanes || wide);
  if (any_lane(in_dofs)) solve_in_dof_space(m, s, d, rows, active && in_dofs, scale, tolerance);
  if (any_lane(row_space.lanes))
    solve_in_row_space(m, d, row_space, active && row_space.lanes, scale, tolerance);
  if constexpr (sizeof(T) == 4)
    if (any_lane(wide)) solve_wide(m, s, d, rows, wide, scale);
  // Computed again for all lanes: each solver sums in an order of its own, and which of them ran depends on
  // the neighbours. Where only TreeDofs ran, they are there already.
  if (nv <= kDenseDofs || any_lane(row_space.lanes || wide)) constraint_forces(m, d, TreeDofs<V>(m, d), rows);
  remove_slip(m, d, rows);
  return rows;
}

}  // namespace maniple
