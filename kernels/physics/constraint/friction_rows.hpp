// Constraint rows of dry friction in joints and tendons (mj_instantiateFriction), which act in every lane.
// Their Jacobians are unit vectors or a tendon's (tendon_row).
#pragma once

#include "kernels/model/lane_model.hpp"
#include "kernels/physics/constraint/constraint.hpp"

namespace maniple {

// See SingleRows.
template <class V>
struct FrictionRows : SingleRows<FrictionRows<V>, V> {
  using T = ScalarOf<V>;
  using SingleRows<FrictionRows<V>, V>::m, SingleRows<FrictionRows<V>, V>::d;
  using SingleRows<FrictionRows<V>, V>::SingleRows;
  static constexpr bool kInEveryLane = true, kKeepsJar = false;

  static MANIPLE_FUNCTION int most(const ModelSizes& sizes) { return sizes.nfriction; }
  // Writes friction_aref, and friction_D and friction_loss where they vary.
  static MANIPLE_FUNCTION int build(const Model<T>& m, const State<V>& s, const Data<V>& d) {
    const FrictionRows rows(m, d, m.nfriction);
    for (const int r : d.team.share(m.nfriction))
      d.friction_aref[r] = -V(m.friction_B[r]) * rows.times(r, s.qvel);
    const LaneModel<V> lanes(m, s);
    for (const int r : d.team.share(m.nvariedfriction)) {
      d.friction_D[r] = lanes.friction_D(r);
      d.friction_loss[r] = lanes.friction_loss(r);
    }
    d.team.once([&] {
      for (int r = 0; r < m.nfriction; ++r) d.nefc[0] += select(rows.counts(r), V(1), V(0));
    });
    return m.nfriction;
  }
  MANIPLE_FUNCTION int number(int r) const { return r; }
  // Dry friction that varies has rows for every dof; where it is zero MuJoCo makes none.
  MANIPLE_FUNCTION MaskOf<V> counts(int r) const {
    const int tendon = m.friction_tendonid[r];
    if (tendon >= 0) return tendon_has_rows(m, d, tendon);
    return m.nvariedfriction > 0 ? d.friction_loss[r] > V(0) : MaskOf<V>(true);
  }
  MANIPLE_FUNCTION BoundedLaw<V> law(int r) const {
    if (m.nvariedfriction > 0) return BoundedLaw<V>::of_lanes(d.friction_D[r], d.friction_loss[r]);
    return {m.friction_D[r], m.friction_loss[r]};
  }
  MANIPLE_FUNCTION BoundedLaw<T> law_of_lane(int r, int lane) const {
    if (m.nvariedfriction > 0)
      return {lane_element(d.friction_D, r, lane), lane_element(d.friction_loss, r, lane)};
    return {m.friction_D[r], m.friction_loss[r]};
  }
  MANIPLE_FUNCTION BoundedLaw<V> scaled_law(int r) const {
    if (m.nvariedfriction > 0)
      return BoundedLaw<V>::of_lanes(V(1), V(d.friction_loss[r] / sqrt(V(d.friction_D[r]))));
    return {T(1), m.friction_loss[r] / sqrt(m.friction_D[r])};
  }
  MANIPLE_FUNCTION V aref(int r) const { return d.friction_aref[r]; }
  template <class Field>
  MANIPLE_FUNCTION V times(int r, const Field& x) const {
    const int dof = m.friction_dofid[r];
    return dof >= 0 ? V(x[dof]) : V(tendon_row(m, d, m.friction_tendonid[r]).times(x));
  }
  template <class Visit>
  MANIPLE_FUNCTION void for_each_column(int r, const Visit& visit) const {
    const int dof = m.friction_dofid[r], tendon = m.friction_tendonid[r];
    if (dof >= 0) return visit(dof, V(1));
    const DofRow<V> row = tendon_row(m, d, tendon);
    for (int k = 0; k < row.count; ++k) visit(row.dofs[k], row[k]);
  }
  template <class Visit>
  MANIPLE_FUNCTION void for_each_tree(int r, int lane, const Visit& visit) const {
    for_each_tree_of_row(m, d, m.friction_dofid[r], m.friction_tendonid[r], lane, visit);
  }
  MANIPLE_FUNCTION void add_force(int r, V force, const DataField<V> result) const {
    const int dof = m.friction_dofid[r];
    if (dof >= 0)
      result[dof] += force;
    else
      tendon_row(m, d, m.friction_tendonid[r]).add_force(force, result);
  }
  MANIPLE_FUNCTION void add_hessian(int r, V D) const {
    const int dof = m.friction_dofid[r];
    if (dof >= 0)
      d.H[hessian_address(dof, dof)] += D;
    else
      add_tendon_hessian(m, d, m.friction_tendonid[r], D);
  }
  MANIPLE_FUNCTION int to_wide(const Data<Wide>& x, int lane) const {
    copy_to_wide(d.friction_aref, lane, x.friction_aref, 0, m.nfriction);
    for (int r = 0; r < m.nfriction; ++r) copy_tendon_to_wide(m, d, lane, x, m.friction_tendonid[r]);
    copy_to_wide(d.friction_D, lane, x.friction_D, 0, m.nvariedfriction);
    copy_to_wide(d.friction_loss, lane, x.friction_loss, 0, m.nvariedfriction);
    return m.nfriction;
  }
  MANIPLE_FUNCTION void from_wide(const Data<Wide>&, int, int) const {}
};

// The force of row r in the end: the solver's, or that of noslip iterations.
template <class V>
MANIPLE_FUNCTION V friction_force(const Model<ScalarOf<V>>& m, const Data<V>& d, int r) {
  return m.nnosliprow > 0 ? V(d.noslip_force[r]) : FrictionRows<V>(m, d, m.nfriction).force(r);
}

}  // namespace maniple
