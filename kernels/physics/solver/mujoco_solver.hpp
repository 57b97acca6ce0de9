// MuJoCo's own iterations for the constrained acceleration (mj_solPrimal of engine_solver.c), Newton's method
// or conjugate gradients: the same start, directions, line searches and stops, island by island, to where the
// model ends them. For models that do not let their solver converge, and decks that ask for it; all others
// have primal_solver.hpp, whose parts this path shares.
#pragma once

#include "kernels/physics/solver/islands.hpp"
#include "kernels/physics/solver/mujoco_line_search.hpp"
#include "kernels/physics/solver/primal_solver.hpp"

namespace maniple {

// The islands of the rows of each lane, by number; of a single tree, or with the model's flag `island` off,
// all dofs are one.
template <class V>
struct SolverIslands {
  using T = ScalarOf<V>;
  const Model<T>& m;
  const Data<V>& d;

  MANIPLE_FUNCTION bool single() const { return m.nsolvertree == 1; }
  // Writes solver_island. Returns how many some lane has.
  MANIPLE_FUNCTION int find(const ActiveRows& rows) const {
    if (single()) return 1;
    return d.team.once([&] {
      for (int t = 0; t < m.nsolvertree; ++t) d.solver_island[t] = V(-1);
      join_trees_of_rows(m, d, rows, m.nsolvertree, d.solver_island);
      int most = 0;
      for (int lane = 0; lane < lane_width<V>; ++lane) {
        int count = 0;
        for (int t = 0; t < m.nsolvertree; ++t) {
          T& own = lane_element(d.solver_island, t, lane);
          if (own < 0) continue;
          // the islands of the trees before are numbered
          own = own == static_cast<T>(t) ? static_cast<T>(count++)
                                         : lane_element(d.solver_island, static_cast<int>(own), lane);
        }
        most = count > most ? count : most;
      }
      return most;
    });
  }
  MANIPLE_FUNCTION V of_dof(int i) const { return d.solver_island[m.dof_treeid[i]]; }
  // The lanes that have an island.
  MANIPLE_FUNCTION MaskOf<V> has(int island) const {
    if (single()) return MaskOf<V>(true);
    MaskOf<V> found(false);
    for (int t = 0; t < m.nsolvertree; ++t) found = found || d.solver_island[t] == number(island);
    return found;
  }
  // x in the lanes where dof i is of the island, zero in the others.
  MANIPLE_FUNCTION V within(int island, int i, V x) const {
    return single() ? x : select(of_dof(i) == number(island), x, V(0));
  }
  // What improvements and gradients are multiplied by before they are compared with the tolerance.
  MANIPLE_FUNCTION V scale(int island) const {
    if (m.disableflags & disable_island) return V(T(1) / (m.meaninertia * static_cast<T>(m.nv)));
    V inertia(0);
    for (int i = 0; i < m.nv; ++i) inertia += within(island, i, d.qM[m.dof_Madr[i]]);
    return V(1) / select(inertia > V(0), inertia, V(1));
  }
  // Dofs without rows have their acceleration already.
  MANIPLE_FUNCTION void rest_others() const {
    if (single()) return;
    for (const int i : d.team.share(m.nv)) {
      const MaskOf<V> other = of_dof(i) < V(0);
      d.qacc[i] = select(other, V(d.qacc_smooth[i]), V(d.qacc[i]));
      d.Ma[i] = select(other, V(d.qfrc_smooth[i]), V(d.Ma[i]));
    }
  }

 private:
  static MANIPLE_FUNCTION V number(int island) { return V(static_cast<T>(island)); }
};

// The negative gradient of the cost within an island.
template <class V>
struct IslandDescent {
  const SolverIslands<V>& islands;
  int island;

  MANIPLE_FUNCTION V operator()(int i) const {
    const Data<V>& d = islands.d;
    return islands.within(island, i, d.qfrc_smooth[i] + d.qfrc_constraint[i] - d.Ma[i]);
  }
  MANIPLE_FUNCTION V length() const {
    V square(0);
    for (int i = 0; i < islands.m.nv; ++i) square = multiply_add((*this)(i), (*this)(i), square);
    return sqrt(square);
  }
  // Half of its product with x, but not less than zero.
  MANIPLE_FUNCTION V half_product(const DataField<V> x) const {
    V sum(0);
    for (int i = 0; i < islands.m.nv; ++i) sum = multiply_add((*this)(i), V(x[i]), sum);
    return V(ScalarOf<V>(0.5)) * max(sum, V(0));
  }
};

// Keeps the gradient, and its product with M^-1 that `preconditioned` has, for the next direction.
template <class V>
MANIPLE_FUNCTION void keep_gradient(const IslandDescent<V>& descent, const DataField<V> preconditioned) {
  const Data<V>& d = descent.islands.d;
  for (const int i : d.team.share(descent.islands.m.nv)) {
    d.cg_descent[i] = descent(i);
    d.cg_direction[i] = preconditioned[i];
  }
}

// The next direction of conjugate gradients, after Hager and Zhang, to `search`. Overwrites Msearch.
template <class V>
MANIPLE_FUNCTION void conjugate_direction(const IslandDescent<V>& descent) {
  using T = ScalarOf<V>;
  const Model<T>& m = descent.islands.m;
  const Data<V>& d = descent.islands.d;
  const V least(kMinimumValue);
  const DataField<V> steepest = d.Msearch;
  for (const int i : d.team.share(m.nv)) steepest[i] = descent(i);
  solve_inertia(m, d, d.qM_factor, d.qLDiagInv, steepest);
  // MuJoCo's names: y is the change of the gradient g, M the inverse of the inertia matrix
  V d_y(0), y_My(0), y_Mg(0), d_g(0), d_d(0), g_g(0);
  for (int i = 0; i < m.nv; ++i) {
    const V direction = d.search[i], g = -descent(i), Mg = -steepest[i];
    const V y = g + d.cg_descent[i], My = Mg + d.cg_direction[i];
    d_y = multiply_add(direction, y, d_y);
    y_My = multiply_add(y, My, y_My);
    y_Mg = multiply_add(y, Mg, y_Mg);
    d_g = multiply_add(direction, g, d_g);
    d_d = multiply_add(direction, direction, d_d);
    g_g = multiply_add(g, g, g_g);
  }
  const MaskOf<V> conjugate = d_y >= least;
  const V divisor = select(conjugate, d_y, V(1));
  const V beta = (y_Mg - V(T(2)) * (y_My / divisor) * d_g) / divisor;
  const V lowest = V(T(-1)) / max(least, sqrt(d_d) * min(V(T(0.01)), sqrt(g_g)));
  const V part = select(conjugate, max(lowest, beta), V(0));
  for (const int i : d.team.share(m.nv)) d.search[i] = steepest[i] + part * d.search[i];
  keep_gradient(descent, steepest);
}

// The step along `search` from qacc; evaluates the rows' changes and Msearch.
template <class V>
MANIPLE_FUNCTION SearchResult<V> search_from_here(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                                  const TreeDofs<V>& dofs, const ActiveRows& rows,
                                                  MaskOf<V> active, V tolerance, V scale) {
  evaluate_search(m, d, dofs, rows);
  V norm(0), slope(0), square(0);
  for (int i = 0; i < m.nv; ++i) {
    const V direction = d.search[i];
    norm = multiply_add(direction, direction, norm);
    slope = multiply_add(direction, d.Ma[i] - d.qfrc_smooth[i], slope);
    square = multiply_add(direction, V(d.Msearch[i]), square);
  }
  norm = sqrt(norm);
  SearchResult<V> result;
  search_line(SearchLine<V>{m, d, rows, slope, V(ScalarOf<V>(0.5)) * square},
              active && norm >= V(kMinimumValue), tolerance * V(m.ls_tolerance) * norm / scale, result);
  return result;
}

// qacc and jar of an island, in the lanes of `active`, and qfrc_constraint.
template <class V>
MANIPLE_STAGE void solve_island(const TreeDofs<V>& dofs, const ActiveRows& rows,
                                const SolverIslands<V>& islands, int island, MaskOf<V> active, V tolerance) {
  const Model<ScalarOf<V>>& m = islands.m;
  const Data<V>& d = islands.d;
  const bool newton = m.solver == solver_newton;
  const V scale = islands.scale(island);
  const IslandDescent<V> descent{islands, island};
  const auto start_search = [&] {
    for (const int i : d.team.share(m.nv)) d.search[i] = descent(i);
  };
  constraint_forces(m, d, dofs, rows);
  const MaskOf<V> flat = scale * descent.length() < tolerance;
  // The cost is at most this above its minimum; Newton's method also wants the gradient to be small.
  if (!newton || any_lane(active && flat)) {
    start_search();
    solve_inertia(m, d, d.qM_factor, d.qLDiagInv, d.search);
    const MaskOf<V> solved = scale * descent.half_product(d.search) < tolerance;
    active = active && !(newton ? solved && flat : solved);
    if (!newton) keep_gradient(descent, d.search);
  }
  for (int iteration = 0; iteration < m.iterations && any_lane(active); ++iteration) {
    if (newton) {
      start_search();
      hessian(m, d, dofs, rows);
      dofs.factor();
      dofs.solve(d.search);
      const MaskOf<V> solved = scale * descent.half_product(d.search) < tolerance;
      active = active && !(iteration == 0 ? solved && flat : solved);
      if (!any_lane(active)) return;
    } else if (iteration > 0) {
      conjugate_direction(descent);
    }
    const SearchResult<V> step = search_from_here(m, d, dofs, rows, active, tolerance, scale);
    active = active && step.alpha != V(0);
    move_along_search(m, d, rows, active, step.alpha);
    constraint_forces(m, d, dofs, rows);
    const V improvement = scale * step.improvement;
    active =
        active && !(improvement > V(0) && improvement < tolerance) && !(scale * descent.length() < tolerance);
  }
}

// qacc of the lanes in `active`, jar of their rows and qfrc_constraint, from the rows and the warm start.
template <class V>
MANIPLE_STAGE void solve_as_mujoco(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                   const ActiveRows& rows, MaskOf<V> active, V tolerance) {
  TreeDofs<V> dofs(m, d);
  dofs.begin(rows.slots());
  for (const int i : d.team.share(m.nv)) d.search[i] = s.qacc_warmstart[i] - d.qacc_smooth[i];
  warm_start(m, d, dofs, rows, active);
  const SolverIslands<V> islands{m, d};
  const int count = islands.find(rows);
  islands.rest_others();
  for (int island = 0; island < count; ++island)
    solve_island(dofs, rows, islands, island, active && islands.has(island), tolerance);
}

}  // namespace maniple
