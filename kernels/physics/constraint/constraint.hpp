// Common parts of the families of constraint rows: the impedance of a row (mj_makeImpedance), rows along
// tendons, and SingleRows, the base of families whose rows each have a law of their own (row_law.hpp). The
// families themselves are in *_rows.hpp, their list in row_families.hpp.
#pragma once

#include "kernels/math/minimum_value.hpp"
#include "kernels/model/data.hpp"
#include "kernels/physics/constraint/row_law.hpp"
#include "kernels/physics/smooth/tendon.hpp"

namespace maniple {

// Address of element (i, j) of the Hessian H, j <= i.
MANIPLE_FUNCTION int hessian_address(int i, int j) {
  return i * (i + 1) / 2 + j;
}

// a to the power of b, without a call for the powers that models use.
template <class V>
MANIPLE_FUNCTION V impedance_power(V a, ScalarOf<V> b) {
  if (b == 1) return a;
  if (b == 2) return a * a;
  return pow(a, V(b));
}

// Impedance d at the distance `beyond` of the margin: rises from solimp[0] to solimp[1] over the width
// solimp[2], as a power function about the midpoint (getimpedance).
template <class V>
MANIPLE_FUNCTION V impedance(const ScalarOf<V>* solimp, V beyond) {
  using T = ScalarOf<V>;
  const T start = solimp[0], end = solimp[1], width = solimp[2], midpoint = solimp[3], exponent = solimp[4];
  if (start == end || width <= T(kMinimumValue)) return V(T(0.5) * (start + end));
  const V x = min(abs(beyond) / V(width), V(1));
  V y = x;
  if (exponent != 1) {
    const V below = impedance_power(x, exponent) / impedance_power(V(midpoint), exponent - 1);
    const V above =
        V(1) - impedance_power(V(1) - x, exponent) / impedance_power(V(1) - V(midpoint), exponent - 1);
    y = select(x <= V(midpoint), below, above);
  }
  return select(x >= V(1), V(end), V(start) + y * V(end - start));
}

// Regularization R of a row with this impedance; `invweight` approximates the diagonal of J M^-1 J'.
template <class V>
MANIPLE_FUNCTION V regularization(V impedance, V invweight) {
  return max((V(1) - impedance) * invweight / impedance, V(kMinimumValue));
}

// The least regularization of a row along tendons, whose number at dof dofs[k] is value(k). MuJoCo gives it
// no weight where the tendon moves nothing at qpos0, whatever it moves elsewhere. Beside so stiff a row
// nothing but rounding would be left of other forces and of the inertia. So the row is softened: in single
// precision to what the largest impedance allows, in double precision by 1e-11 of its force.
template <class V, class Value>
MANIPLE_FUNCTION V least_regularization(const Model<ScalarOf<V>>& m, const Data<V>& d, int count,
                                        const int* dofs, const Value& value) {
  // of J M^-1 J'; (1 - impedance) / impedance at 0.9999 is 1e-4
  constexpr double kLeast = sizeof(ScalarOf<V>) == 8 ? 1e-11 : 1e-4;
  V square(0);
  for (int k = 0; k < count; ++k) {
    const V number = value(k);
    square += number * number / V(d.qM[m.dof_Madr[dofs[k]]]);
  }
  return V(ScalarOf<V>(kLeast)) * square;
}

// H += J' D J of a row along tendon t.
template <class V>
MANIPLE_FUNCTION void add_tendon_hessian(const Model<ScalarOf<V>>& m, const Data<V>& d, int t, V D) {
  const DofRow<V> row = tendon_row(m, d, t);
  for (int k = 0; k < row.count; ++k)
    for (int l = 0; l <= k; ++l) d.H[hessian_address(row.dofs[k], row.dofs[l])] += row[k] * row[l] * D;
}

// Calls visit(tree) for the trees that a row on a dof, or else along a tendon, is about in one lane.
template <class V, class Visit>
MANIPLE_FUNCTION void for_each_tree_of_row(const Model<ScalarOf<V>>& m, const Data<V>& d, int dof, int tendon,
                                           int lane, const Visit& visit) {
  if (dof >= 0) return visit(m.dof_treeid[dof]);
  const DofRow<V> row = tendon_jacobian(m, d, tendon);
  for (int k = 0; k < row.count; ++k)
    if ((m.flags & model_sparse_rows) || get_lane(row[k], lane) != ScalarOf<V>(0))
      visit(m.dof_treeid[row.dofs[k]]);
}

// The lanes in which a tendon moves some dof, or all where MuJoCo's rows are sparse. In the others MuJoCo
// makes no rows along the tendon (mj_addConstraint).
template <class V>
MANIPLE_FUNCTION MaskOf<V> tendon_has_rows(const Model<ScalarOf<V>>& m, const Data<V>& d, int tendon) {
  if (m.flags & model_sparse_rows) return MaskOf<V>(true);
  const DofRow<V> row = tendon_row(m, d, tendon);
  MaskOf<V> moves(false);
  for (int k = 0; k < row.count && any_lane(!moves); ++k) moves = moves || row[k] != V(0);
  return moves;
}

// Copies elements first ... first + count - 1 of one lane to the fields of wide_data, and back.
template <class V>
MANIPLE_FUNCTION void copy_to_wide(const DataField<V> from, int lane, const DataField<Wide> to, int first,
                                   int count) {
  for (int i = first; i < first + count; ++i) to[i] = Wide(get_lane(V(from[i]), lane));
}
template <class V>
MANIPLE_FUNCTION void copy_from_wide(const DataField<Wide> from, const DataField<V> to, int lane, int first,
                                     int count) {
  for (int i = first; i < first + count; ++i)
    set_lane(to[i], lane, static_cast<ScalarOf<V>>(static_cast<float>(from[i])));
}

// The Jacobian of a tendon, if it depends on the pose.
template <class V>
MANIPLE_FUNCTION void copy_tendon_to_wide(const Model<ScalarOf<V>>& m, const Data<V>& d, int lane,
                                          const Data<Wide>& x, int tendon) {
  if (tendon >= 0 && m.ten_J_spatialadr[tendon] >= 0)
    copy_to_wide(d.ten_J, lane, x.ten_J, m.ten_J_spatialadr[tendon], m.ten_J_rownnz[tendon]);
}

// The first row of a family in row_force, where the dual solver leaves the forces of all rows of the model.
// row_families.hpp knows the order.
template <class Rows>
MANIPLE_FUNCTION int first_row(const ModelSizes& sizes);

// The base of a family of single rows: `Rows` derives from it and has
//   kInEveryLane    all lanes have all rows of the model; else each lane has some of them
//   kKeepsJar       whether the solver is to hand back the residuals: store_jar(i, lanes, jar)
//   most(sizes)     rows of the model
//   build(m, s, d)  writes the rows and adds to nefc; returns how many act in some lane of the pack: count()
//   number(i)       which of the model's rows row i of these is, 0 <= i < count()
//   counts(i)       if kInEveryLane, the lanes in which MuJoCo has the row; in the others it does nothing
//   law(i)          its law; of one lane, by the model's number: law_of_lane(r, lane)
//   scaled_law(i)   its law if residual and force are scaled such that D = 1; the same for all i unless
//                   kInEveryLane
//   aref(i)         its reference acceleration
//   times(i, x)     J x
//   for_each_column(i, visit)            visit(dof, V) for the elements of J that may not be zero
//   for_each_tree(r, lane, visit)        visit(tree) for the trees that row r of the model is about
//   add_force(i, force, result)          result += J' force
//   add_hessian(i, D)                    H += J' D J
//   to_wide(x, lane), from_wide(x, count, lane)
//                   the rows of a lane to the fields of wide_data, and their residuals back; the first
//                   returns their number
// Residuals are computed when they are asked for, unless the family has members of its own to keep them.
template <class Rows, class V>
struct SingleRows {
  using Value = V;
  static constexpr int kRows = 1;      // of the dual solver
  static constexpr int kBaseRows = 1;  // of J
  const Model<ScalarOf<V>>& m;
  const Data<V>& d;
  int active;

  // `rows` of them act in some lane of the pack.
  MANIPLE_FUNCTION SingleRows(const Model<ScalarOf<V>>& model, const Data<V>& data, int rows)
      : m(model), d(data), active(rows) {}
  MANIPLE_FUNCTION int count() const { return active; }
  // Those of some lanes.
  MANIPLE_FUNCTION int count_of(MaskOf<V>) const { return active; }
  MANIPLE_FUNCTION V residual(int i, const DataField<V> x) const {
    return self().times(i, x) - self().aref(i);
  }
  MANIPLE_FUNCTION V jar(int i) const { return residual(i, d.qacc); }
  MANIPLE_FUNCTION V change(int i) const { return self().times(i, d.search); }
  // The solver's force.
  MANIPLE_FUNCTION V force(int i) const {
    if (m.solver == solver_pgs) return d.row_force[first_row<Rows>(m) + self().number(i)];
    return self().law(i).force(self().jar(i));
  }
  // What of the rows is kept in memory: nothing.
  template <class Dofs>
  MANIPLE_FUNCTION void evaluate(const Dofs&) const {}
  template <class Dofs>
  MANIPLE_FUNCTION void evaluate_change(const Dofs&) const {}
  MANIPLE_FUNCTION void move(MaskOf<V>, V) const {}
  template <class Dofs>
  MANIPLE_FUNCTION void add_forces(const Dofs&, const DataField<V> result) const {
    d.team.once([&] {
      for (int i = 0; i < active; ++i) self().add_force(i, force(i), result);
    });
  }
  template <class Dofs>
  MANIPLE_FUNCTION void add_hessians(const Dofs&) const {
    d.team.once([&] {
      for (int i = 0; i < active; ++i) self().add_hessian(i, self().law(i).curvature(self().jar(i)));
    });
  }
  // The lanes with a row that is too stiff for V (wide_solver.hpp).
  MANIPLE_FUNCTION MaskOf<V> is_stiff() const { return MaskOf<V>(false); }

 private:
  MANIPLE_FUNCTION const Rows& self() const { return static_cast<const Rows&>(*this); }
};

// Where a family of KeptRows lists the rows that act in some lane, by the model's numbers, and keeps their
// residuals and the changes of these along the search direction.
template <class V>
struct KeptFields {
  IndexField<V> active;
  DataField<V> jar, search;
};

// The base of a family of single rows of which each lane has some, and whose residuals are kept. `Rows` has
// the members of SingleRows but for number(), and
//   fields(x)                  its KeptFields in the data x
//   row_to_wide(x, r, lane)    row r of the model to the fields of wide_data
template <class Rows, class V>
struct KeptRows : SingleRows<Rows, V> {
  using SingleRows<Rows, V>::m, SingleRows<Rows, V>::d, SingleRows<Rows, V>::active;
  using SingleRows<Rows, V>::SingleRows;
  static constexpr bool kInEveryLane = false, kKeepsJar = true;

  MANIPLE_FUNCTION int number(int i) const { return kept().active[i]; }
  MANIPLE_FUNCTION V jar(int i) const { return kept().jar[number(i)]; }
  MANIPLE_FUNCTION V change(int i) const { return kept().search[number(i)]; }
  template <class Dofs>
  MANIPLE_FUNCTION void evaluate(const Dofs&) const {
    for (const int i : d.team.share(active)) kept().jar[number(i)] = self().times(i, d.qacc) - self().aref(i);
  }
  template <class Dofs>
  MANIPLE_FUNCTION void evaluate_change(const Dofs&) const {
    for (const int i : d.team.share(active)) kept().search[number(i)] = self().times(i, d.search);
  }
  MANIPLE_FUNCTION void move(MaskOf<V> lanes, V alpha) const {
    for (const int i : d.team.share(active)) {
      const int r = number(i);
      V& value = kept().jar[r];
      value = select(lanes, value + alpha * kept().search[r], value);
    }
  }
  MANIPLE_FUNCTION void store_jar(int i, MaskOf<V> lanes, V jar) const {
    V& value = kept().jar[number(i)];
    value = select(lanes, jar, value);
  }
  MANIPLE_FUNCTION int to_wide(const Data<Wide>& x, int lane) const {
    int count = 0;
    for (int i = 0; i < active; ++i) {
      const int r = number(i);
      if (!(self().law_of_lane(r, lane).D > 0)) continue;
      Rows::fields(x).active[count++] = r;
      self().row_to_wide(x, r, lane);
    }
    return count;
  }
  MANIPLE_FUNCTION void from_wide(const Data<Wide>& x, int count, int lane) const {
    const KeptFields<V> to = kept();
    const KeptFields<Wide> from = Rows::fields(x);
    // rows that only other lanes have get a number, too
    for (int i = 0; i < active; ++i) set_lane(to.jar[number(i)], lane, ScalarOf<V>(0));
    for (int i = 0; i < count; ++i) copy_from_wide(from.jar, to.jar, lane, from.active[i], 1);
  }

 private:
  MANIPLE_FUNCTION const Rows& self() const { return static_cast<const Rows&>(*this); }
  MANIPLE_FUNCTION KeptFields<V> kept() const { return Rows::fields(d); }
};

}  // namespace maniple
