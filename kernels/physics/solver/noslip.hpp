// Friction without slip (mj_solNoSlip). The solver's regularization lets contacts creep. After it, sweeps
// over the rows of dry friction and the friction of contacts find their forces again without regularization;
// normal forces, limits and equality constraints stay as they are. Models with noslip_iterations have
// ConeRows for all contacts.
#pragma once

#include "kernels/physics/constraint/row_families.hpp"
#include "kernels/physics/smooth/inertia.hpp"
#include "kernels/physics/solver/islands.hpp"

namespace maniple {

// The rows whose forces change, in the order of the sweeps: those of dry friction, then contactdim - 1 of
// each slot, the base rows of its friction. Fields noslip_*.
template <class V>
struct NoslipRows {
  using T = ScalarOf<V>;
  const Model<T>& m;
  const Data<V>& d;
  FrictionRows<V> friction;
  ConeRows<V> cones;

  MANIPLE_FUNCTION NoslipRows(const Model<T>& model, const Data<V>& data, const ActiveRows& rows)
      : m(model),
        d(data),
        friction(model, data, rows.counts[RowFamilies::number<FrictionRows<V>>]),
        cones(model, data, rows.counts[RowFamilies::number<ConeRows<V>>]) {}
  MANIPLE_FUNCTION int dims() const { return m.contactdim - 1; }
  MANIPLE_FUNCTION DataField<V> column(int row) const { return d.noslip_column.from(row * m.nv); }
  // Element (i, j) of J M^-1 J', j <= i, within a row of dry friction or the rows of a slot from `first` on.
  MANIPLE_FUNCTION V& A(int first, int i, int j) const { return d.noslip_A[m.contactdim * (first + i) + j]; }

  // Calls visit(dof, V) for the elements of the Jacobian of base row `row` of a slot.
  template <class Visit>
  MANIPLE_FUNCTION void for_each_column(int slot, int row, const Visit& visit) const {
    const int first = slot * m.nv, last = first + d.slot_dofnum[slot];
    for (int k = first; k < last; ++k) visit(d.slot_dof[k], V(d.contact_J[m.contactdim * k + row]));
  }
  MANIPLE_FUNCTION V times(int slot, int row, const DataField<V> x) const {
    V sum(0);
    for_each_column(slot, row, [&](int dof, V J) { sum = multiply_add(J, V(x[dof]), sum); });
    return sum;
  }
  // The force of a row changes: qacc and qfrc_constraint follow.
  template <class ForEachColumn>
  MANIPLE_FUNCTION void change(int row, V delta, const ForEachColumn& each) const {
    const DataField<V> per_force = column(row);
    for (int k = 0; k < m.nv; ++k) d.qacc[k] = multiply_add(V(per_force[k]), delta, V(d.qacc[k]));
    each([&](int dof, V J) { d.qfrc_constraint[dof] = multiply_add(J, delta, V(d.qfrc_constraint[dof])); });
    d.noslip_force[row] += delta;
  }
};

// noslip_force as the solver has left it, and noslip_bound: what the force may not exceed, dry friction, the
// sum of both edges of a pyramid, or the normal force of a cone.
template <class V>
MANIPLE_FUNCTION void begin_noslip(const NoslipRows<V>& rows) {
  const Model<ScalarOf<V>>& m = rows.m;
  const Data<V>& d = rows.d;
  for (const int r : d.team.share(m.nfriction)) {
    const auto law = rows.friction.law(r);
    d.noslip_force[r] = law.force(rows.friction.jar(r));
    d.noslip_bound[r] = law.force_bounds().high;
  }
  for (const int slot : d.team.share(rows.cones.count())) {
    const ConeLaw<V> law = rows.cones.law(slot);
    const ConeRow<V> jar = rows.cones.jar(slot), force = law.force(jar);
    for (int i = 0; i < rows.dims(); ++i) {
      const int row = m.nfriction + rows.dims() * slot + i;
      d.noslip_force[row] = force.x[i + 1];
      d.noslip_bound[row] = law.elliptic ? force.x[0] : law.edge_sum(jar, i + 1);
    }
  }
}

// noslip_column, M^-1 J' of each row, and noslip_A.
template <class V>
MANIPLE_STAGE void noslip_matrix(const NoslipRows<V>& rows) {
  const Model<ScalarOf<V>>& m = rows.m;
  const Data<V>& d = rows.d;
  const auto solve = [&](int row, const auto& for_each_column) {
    const DataField<V> column = rows.column(row);
    for (const int k : d.team.share(m.nv)) column[k] = V(0);
    d.team.once([&] { for_each_column([&](int dof, V J) { column[dof] += J; }); });
    solve_inertia(m, d, d.qM_factor, d.qLDiagInv, column);
  };
  for (int r = 0; r < m.nfriction; ++r)
    solve(r, [&](const auto& visit) { rows.friction.for_each_column(r, visit); });
  const int slots = rows.cones.count(), dims = rows.dims();
  for (int slot = 0; slot < slots; ++slot)
    for (int i = 0; i < dims; ++i)
      solve(m.nfriction + dims * slot + i,
            [&](const auto& visit) { rows.for_each_column(slot, i + 1, visit); });
  for (const int r : d.team.share(m.nfriction)) rows.A(r, 0, 0) = rows.friction.times(r, rows.column(r));
  for (const int slot : d.team.share(slots)) {
    const int first = m.nfriction + dims * slot;
    for (int i = 0; i < dims; ++i)
      for (int j = 0; j <= i; ++j) rows.A(first, i, j) = rows.times(slot, i + 1, rows.column(first + j));
  }
}

// Least of ||x|| <= r for 1/2 x' A x + b' x (mju_QCQP2, mju_QCQP3, mju_QCQP) with up to five unknowns;
// `count` of them are those of each lane, and those from `most` on are not used. Whether the bound holds x,
// too.
template <class V>
struct BoundedMinimum {
  static constexpr int kMost = kMostConeRows - 1;
  V x[kMost];
  MaskOf<V> bounded;
};
template <class V>
MANIPLE_FUNCTION BoundedMinimum<V> bounded_minimum(const V (&A)[kMostConeRows - 1][kMostConeRows - 1],
                                                   const V (&b)[kMostConeRows - 1], V r, V count, int most) {
  using T = ScalarOf<V>;
  constexpr int kMost = kMostConeRows - 1, kIterations = 20;
  const V small(T(1e-10));
  // what rounding leaves of a determinant that is zero: friction of a body that moves in one direction alone
  const V rounding(sizeof(T) == 4 ? T(1e-5) : T(0));
  BoundedMinimum<V> result;
  V multiplier(0);
  MaskOf<V> done(false);
  for (V& x : result.x) x = V(0);
  for (int iteration = 0; iteration < kIterations && !all_lanes(done); ++iteration) {
    // A + multiplier = L D L', D in its diagonal
    V L[kMost][kMost], determinant(1), volume(1);
    MaskOf<V> singular(false);
    for (int j = 0; j < most; ++j) {
      const V whole = A[j][j] + multiplier;
      V diagonal = whole;
      for (int k = 0; k < j; ++k) diagonal -= L[j][k] * L[j][k] * L[k][k];
      const MaskOf<V> here = V(static_cast<T>(j)) < count;
      determinant = select(here, determinant * diagonal, determinant);
      volume = select(here, volume * whole, volume);
      // two and three unknowns are judged by the determinant, more of them one by one
      singular = singular || (here && count > V(3) && diagonal < max(small, rounding * whole));
      L[j][j] = select(diagonal > V(0), diagonal, V(1));
      for (int i = j + 1; i < most; ++i) {
        V value = A[i][j];
        for (int k = 0; k < j; ++k) value -= L[i][k] * L[j][k] * L[k][k];
        L[i][j] = value / L[j][j];
      }
    }
    singular = singular || (count <= V(3) && determinant < max(small, rounding * volume));
    const auto solve = [&](V(&y)[kMost]) {
      for (int i = 0; i < most; ++i)
        for (int k = 0; k < i; ++k) y[i] -= L[i][k] * y[k];
      for (int i = most - 1; i >= 0; --i) {
        y[i] = y[i] / L[i][i];
        for (int k = i + 1; k < most; ++k) y[i] -= L[k][i] * y[k];
      }
    };
    V x[kMost], y[kMost], beyond = -r * r, product(0);
    for (int i = 0; i < most; ++i) x[i] = -b[i];
    solve(x);
    for (int i = 0; i < most; ++i) {
      y[i] = x[i];
      beyond = multiply_add(x[i], x[i], beyond);
    }
    solve(y);
    for (int i = 0; i < most; ++i) product = multiply_add(x[i], y[i], product);
    for (int i = 0; i < most; ++i) result.x[i] = select(done, result.x[i], select(singular, V(0), x[i]));
    multiplier = select(!done && singular, V(0), multiplier);
    done = done || singular || beyond < small;
    const V step = beyond / (V(2) * select(product > V(0), product, V(1)));
    done = done || step < small;
    multiplier = select(done, multiplier, multiplier + step);
  }
  result.bounded = multiplier != V(0);
  return result;
}

// What the sweeps have gained in each island of bodies that touch (mj_island), and whether they go on there.
// Islands are numbered by one of their trees.
template <class V>
struct NoslipIslands {
  using T = ScalarOf<V>;
  const Model<T>& m;
  const Data<V>& d;

  MANIPLE_FUNCTION bool single() const { return m.nnosliptree == 1; }
  // Joins the trees that rows are about: noslip_island, and noslip_inertia of the islands' dofs.
  MANIPLE_FUNCTION void find(const ActiveRows& rows) const {
    const DataField<V> island = d.noslip_island;
    for (int t = 0; t < m.nnosliptree; ++t) {
      island[t] = V(static_cast<T>(t));
      d.noslip_open[t] = V(1);
      d.noslip_inertia[t] = V(0);
    }
    if (single()) {
      for (int k = 0; k < m.nv; ++k) d.noslip_inertia[0] += d.qM[m.dof_Madr[k]];
      return;
    }
    join_trees_of_rows(m, d, rows, m.nnosliptree, island);
    for (int k = 0; k < m.nv; ++k)
      for (int lane = 0; lane < lane_width<V>; ++lane) {
        const int own = static_cast<int>(lane_element(island, m.dof_treeid[k], lane));
        lane_element(d.noslip_inertia, own, lane) += lane_element(d.qM, m.dof_Madr[k], lane);
      }
  }
  // Calls visit(lane, tree) for the lanes in which a row acts, with the tree by which its island is called.
  template <class Rows, class Visit>
  MANIPLE_FUNCTION void for_each_island(const Rows& family, int number, const Visit& visit) const {
    for (int lane = 0; lane < lane_width<V>; ++lane) {
      if (!(stiffness_of_row(family, number, lane) > 0)) continue;
      int first = -1;
      family.for_each_tree(number, lane, [&](int tree) { first = first < 0 ? tree : first; });
      if (first >= 0) visit(lane, static_cast<int>(lane_element(d.noslip_island, first, lane)));
    }
  }
  // 1 in the lanes where the sweeps go on in the island of a row.
  template <class Rows>
  MANIPLE_FUNCTION V open(const Rows& family, int number) const {
    if (single()) return d.noslip_open[0];
    V result(0);
    for_each_island(family, number, [&](int lane, int tree) {
      set_lane(result, lane, lane_element(d.noslip_open, tree, lane));
    });
    return result;
  }
  // A row has lowered the cost by `gain`.
  template <class Rows>
  MANIPLE_FUNCTION void add(const Rows& family, int number, V gain) const {
    if (single()) {
      d.noslip_gain[0] += gain;
      return;
    }
    for_each_island(family, number, [&](int lane, int tree) {
      lane_element(d.noslip_gain, tree, lane) += get_lane(gain, lane);
    });
  }
  // The cost of the regularization, which the first sweep leaves out.
  MANIPLE_FUNCTION void add_regularization(const ActiveRows& rows) const {
    RowFamilies::for_each_row<V>(m, d, rows, [&](const auto& family, int i) MANIPLE_INLINE_LAMBDA {
      const auto law = family.law(i);
      const auto jar = family.jar(i);
      V twice_cost(0);  // f^2 / D
      if constexpr (decltype(law)::kSaturates)
        twice_cost = law.force(jar) * law.force(jar) / law.D;
      else
        twice_cost = law.twice_cost(jar);
      add(family, number_of_row(family, i), V(T(0.5)) * twice_cost);
    });
  }
  // After a sweep: whether there is an island in which another one follows.
  MANIPLE_FUNCTION bool end_sweep() const {
    MaskOf<V> some(false);
    for (int t = 0; t < m.nnosliptree; ++t) {
      const V enough = V(m.noslip_tolerance) * d.noslip_inertia[t];
      const V open = select(d.noslip_gain[t] < enough, V(0), V(d.noslip_open[t]));
      d.noslip_open[t] = open;
      some = some || open > V(0);
    }
    return any_lane(some);
  }
};

// One row of dry friction, or along a direction of a pyramid: its best force within the bounds. Returns by
// how much the cost falls.
template <class V, class ForEachColumn>
MANIPLE_FUNCTION V sweep_row(const NoslipRows<V>& rows, int row, V a, V residual, V open, bool pyramid,
                             const ForEachColumn& each) {
  const Data<V>& d = rows.d;
  const V old = d.noslip_force[row], bound = d.noslip_bound[row];
  V best = clamp(old - residual / max(a, V(kMinimumValue)), -bound, bound);
  // (a pyramid's rows are half the difference of two edges of MuJoCo's)
  if (pyramid) best = select(V(4) * a < V(kMinimumValue), V(0), best);
  V delta = best - old, rise = delta * multiply_add(V(ScalarOf<V>(0.5)) * a, delta, residual);
  delta = select(open > V(0) && !(rise > V(ScalarOf<V>(1e-10))), delta, V(0));
  rise = select(delta != V(0), rise, V(0));
  rows.change(row, delta, each);
  return -rise;
}

// The friction of the elliptic cones of a slot.
template <class V>
MANIPLE_FUNCTION V sweep_cone(const NoslipRows<V>& rows, int slot, V open) {
  using T = ScalarOf<V>;
  constexpr int kMost = kMostConeRows - 1;
  const Model<T>& m = rows.m;
  const Data<V>& d = rows.d;
  const int dims = rows.dims(), first = m.nfriction + dims * slot;
  const SlotContacts<V> contacts = slot_contacts(d, slot);
  const V count = d.contact_dim[slot] - V(1), normal = d.noslip_bound[first];
  V A[kMost][kMost], residual[kMost], old[kMost], b[kMost];
  for (int i = 0; i < dims; ++i) {
    const MaskOf<V> here = V(static_cast<T>(i)) < count;
    for (int j = 0; j < i; ++j) A[i][j] = A[j][i] = select(here, rows.A(first, i, j), V(0));
    const V friction = contact_friction(m, d, slot, contacts, i);
    A[i][i] = select(here, max(V(rows.A(first, i, i)), V(T(1e-10)) * friction * friction), V(1));
    old[i] = d.noslip_force[first + i];
    residual[i] =
        select(here, rows.times(slot, i + 1, d.qacc) - d.contact_aref[m.contactdim * slot + i + 1], V(0));
  }
  for (int i = 0; i < dims; ++i) {
    b[i] = residual[i];
    for (int j = 0; j < dims; ++j) b[i] -= A[i][j] * old[j];
  }
  const BoundedMinimum<V> best = bounded_minimum(A, b, normal, count, dims);
  V square(0), rise(0), delta[kMost];
  for (int i = 0; i < dims; ++i) square = multiply_add(best.x[i], best.x[i], square);
  const V onto = select(best.bounded, normal / sqrt(max(square, V(kMinimumValue))), V(1));
  for (int i = 0; i < dims; ++i)
    delta[i] = select(normal < V(kMinimumValue), V(0), onto * best.x[i]) - old[i];
  for (int i = 0; i < dims; ++i) {
    V product = residual[i];
    for (int j = 0; j < dims; ++j) product = multiply_add(V(T(0.5)) * A[i][j], delta[j], product);
    rise = multiply_add(delta[i], product, rise);
  }
  const MaskOf<V> moves = open > V(0) && contacts.active && count > V(0) && !(rise > V(T(1e-10)));
  for (int i = 0; i < dims; ++i)
    rows.change(first + i, select(moves, delta[i], V(0)),
                [&](const auto& visit) { rows.for_each_column(slot, i + 1, visit); });
  return select(moves, -rise, V(0));
}

// One sweep over all rows.
template <class V>
MANIPLE_FUNCTION void noslip_sweep(const NoslipRows<V>& rows, const NoslipIslands<V>& islands) {
  const Model<ScalarOf<V>>& m = rows.m;
  for (int r = 0; r < m.nfriction; ++r) {
    const V gain = sweep_row(rows, r, rows.A(r, 0, 0), rows.friction.residual(r, rows.d.qacc),
                             islands.open(rows.friction, r), false,
                             [&](const auto& visit) { rows.friction.for_each_column(r, visit); });
    islands.add(rows.friction, r, gain);
  }
  const int dims = rows.dims();
  for (int slot = 0; slot < rows.cones.count(); ++slot) {
    const V open = islands.open(rows.cones, slot);
    if (m.cone == cone_elliptic) {
      islands.add(rows.cones, slot, sweep_cone(rows, slot, open));
      continue;
    }
    V gain(0);
    for (int i = 0; i < dims; ++i) {
      const V residual =
          rows.times(slot, i + 1, rows.d.qacc) - rows.d.contact_aref[m.contactdim * slot + i + 1];
      const int first = m.nfriction + dims * slot;
      gain += sweep_row(rows, first + i, rows.A(first, i, i), residual, open, true,
                        [&](const auto& visit) { rows.for_each_column(slot, i + 1, visit); });
    }
    islands.add(rows.cones, slot, gain);
  }
}

// qacc, qfrc_constraint and noslip_force, from qfrc_constraint and the residuals that the solver has left.
template <class V>
MANIPLE_STAGE void remove_slip(const Model<ScalarOf<V>>& m, const Data<V>& d, const ActiveRows& active) {
  if (m.nnosliprow == 0) return;
  const NoslipRows<V> rows(m, d, active);
  begin_noslip(rows);
  noslip_matrix(rows);
  const NoslipIslands<V> islands{m, d};
  d.team.once([&] {
    islands.find(active);
    for (int t = 0; t < m.nnosliptree; ++t) d.noslip_gain[t] = V(0);
    islands.add_regularization(active);
  });
  // the solver's own acceleration has not quite these forces
  for (const int k : d.team.share(m.nv)) d.qacc[k] = d.qfrc_constraint[k];
  solve_inertia(m, d, d.qM_factor, d.qLDiagInv, d.qacc);
  for (const int k : d.team.share(m.nv)) d.qacc[k] += d.qacc_smooth[k];
  d.team.once([&] {
    for (int iteration = 0; iteration < m.noslip_iterations; ++iteration) {
      if (iteration > 0)
        for (int t = 0; t < m.nnosliptree; ++t) d.noslip_gain[t] = V(0);
      noslip_sweep(rows, islands);
      if (!islands.end_sweep()) break;
    }
  });
}

}  // namespace maniple
