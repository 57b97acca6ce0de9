// The family of contact rows of models with elliptic friction cones, or with contacts of more than three
// dimensions (mj_instantiateContact, mj_makeImpedance): one for each slot that some lane uses, of
// `contactdim` base rows, whose law is in cone.hpp. All other models have ContactRows, which are faster.
#pragma once

#include "kernels/physics/constraint/cone.hpp"
#include "kernels/physics/constraint/contact_family.hpp"

namespace maniple {

// Loads and stores the base rows of a slot, or of a column of J.
template <class V, class Field>
MANIPLE_FUNCTION ConeRow<V> load_cone(const Field& field, int at, int rows) {
  ConeRow<V> result;
  for (int i = 0; i < kMostConeRows; ++i) result.x[i] = i < rows ? V(field[rows * at + i]) : V(0);
  return result;
}
template <class V, class Field>
MANIPLE_FUNCTION void store_cone(const Field& field, int at, int rows, const ConeRow<V>& row) {
  for (int i = 0; i < rows; ++i) field[rows * at + i] = row.x[i];
}

// Stiffness, cone, reference and friction of the contacts of a slot. Writes contact_D, contact_mu and
// contact_dim, and contact_aref but for its part from the velocity. `index`: geom pairs. Also writes
// contact_friction and contact_invweight where they vary.
template <class V>
struct ConeParameters {
  V B[2];  // of the normal, and of friction
  V friction[kMostConeRows - 1];
  MaskOf<V> active;
};
template <class V>
MANIPLE_FUNCTION ConeParameters<V> cone_parameters(const Model<ScalarOf<V>>& m, const State<V>& s,
                                                   const Data<V>& d, int slot, MaskOf<V> valid, V index) {
  using T = ScalarOf<V>;
  constexpr int kFrictions = kMostConeRows - 1;
  ConeParameters<V> result;
  result.B[0] = result.B[1] = V(0);
  for (V& friction : result.friction) friction = V(0);
  result.active = MaskOf<V>(false);
  const LaneModel<V> lanes(m, s);
  const V dist = d.contact_dist[slot], invweight = contact_weight(lanes, index);
  const V kind = gather(m.geompair_class, index, 1, 0);
  const bool elliptic = m.cone == cone_elliptic;
  V D(0), mu(1), dim(0), reference(0);
  for (int c = 0; c < m.ncontactclass; ++c) {
    const V beyond = dist - V(m.contactclass_margin[c]);
    const MaskOf<V> here = valid && kind == V(static_cast<T>(c)) && beyond < V(0);
    if (!any_lane(here)) continue;
    const int condim = m.contactclass_condim[c];
    V friction[kFrictions];
    for (int i = 0; i < kFrictions; ++i) {
      friction[i] = V(i + 1 < condim ? m.contactclass_friction[kFrictions * c + i] : T(0));
      if (i < 2 && condim > 1 && varies_friction(m))
        friction[i] = varied_friction(lanes, index, i, friction[i]);
      result.friction[i] = select(here, friction[i], result.friction[i]);
    }
    const V imp = impedance(m.contactclass_solimp + 5 * c, beyond), square = friction[0] * friction[0];
    const bool pyramid = !elliptic && condim > 1;
    V R = regularization(imp, pyramid ? (V(1) + square) * invweight : invweight);
    // the edges of a pyramid match the friction impedance of the cone
    if (pyramid) R *= V(T(2)) * square / V(m.impratio);
    D = select(here, V(1) / R, D);
    if (elliptic && condim > 1) mu = select(here, friction[0] / sqrt(V(m.impratio)), mu);
    dim = select(here, V(static_cast<T>(condim)), dim);
    reference = select(here, V(-m.contactclass_K[c]) * imp * beyond, reference);
    result.B[0] = select(here, V(m.contactclass_B[c]), result.B[0]);
    result.B[1] = select(here, V(m.contactclass_frictionB[c]), result.B[1]);
    result.active = result.active || here;
  }
  if (m.nvariedcontact > 0) {
    d.contact_invweight[slot] = invweight;
    d.contact_friction[2 * slot] = result.friction[0];
    d.contact_friction[2 * slot + 1] = result.friction[1];
  }
  d.contact_D[slot] = D;
  d.contact_mu[slot] = mu;
  d.contact_dim[slot] = dim;
  for (int i = 0; i < m.contactdim; ++i) d.contact_aref[m.contactdim * slot + i] = i == 0 ? reference : V(0);
  return result;
}

// Base rows of the Jacobian of a slot: slot_dofnum, slot_dof and contact_J. Zero in lanes whose contact the
// dof does not move.
template <class V>
MANIPLE_FUNCTION void cone_jacobian(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot,
                                    const ConeParameters<V>& parameters, V index) {
  const int rows = m.contactdim;
  const Vec3<V> normal = load3<V>(d.contact_frame, 6 * slot);
  Vec3<V> tangent = load3<V>(d.contact_frame, 6 * slot + 3), other;
  contact_tangents(normal, tangent, other);
  for_each_dof_of_slot(m, d, slot, parameters.active, index,
                       [&](int at, int dof, MaskOf<V> moves1, MaskOf<V> moves2, const Vec3<V>& motion) {
                         const auto entry = [&](const Vec3<V>& axis, const Vec3<V>& rate) {
                           const V value = dot(axis, rate);
                           return select(moves2, value, select(moves1, -value, V(0)));
                         };
                         const Vec3<V> axes[3] = {normal, tangent, other};
                         const Vec3<V> turn = m.dof_translation[dof] ? zero3<V>() : load3<V>(d.cdof, 6 * dof);
                         d.contact_J[rows * at] = entry(normal, motion);
                         for (int i = 1; i < rows; ++i)
                           d.contact_J[rows * at + i] =
                               parameters.friction[i - 1] * entry(axes[i % 3], i < 3 ? motion : turn);
                       });
}

// J x of a slot.
template <class V, class Field>
MANIPLE_FUNCTION ConeRow<V> cone_times(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot,
                                       const Field x) {
  const int rows = m.contactdim, first = slot * m.nv, last = first + d.slot_dofnum[slot];
  ConeRow<V> sum;
  for (V& value : sum.x) value = V(0);
  for (int k = first; k < last; ++k) {
    const V value = x[d.slot_dof[k]];
    for (int i = 0; i < rows; ++i) sum.x[i] = multiply_add(V(d.contact_J[rows * k + i]), value, sum.x[i]);
  }
  return sum;
}

// See ContactFamily; its values are ConeRow.
template <class V>
struct ConeRows : ContactFamily<ConeRows<V>, V> {
  using Family = ContactFamily<ConeRows<V>, V>;
  using T = ScalarOf<V>;
  using Family::m, Family::d, Family::slots, Family::Family;
  static constexpr int kRows = 0;                  // of the dual solver: it has none
  static constexpr int kBaseRows = kMostConeRows;  // of J, at most

  static MANIPLE_FUNCTION int most(const ModelSizes& sizes) { return sizes.ncone; }
  // Adds to nefc.
  static MANIPLE_FUNCTION int build(const Model<T>& m, const State<V>& s, const Data<V>& d) {
    if (m.ncone == 0) return 0;
    const int slots = contact_slots(m, d), rows = m.contactdim;
    V count(0);  // of this member's slots
    for (const int slot : d.team.share(slots)) {
      const MaskOf<V> valid = d.ncon[0] > V(static_cast<T>(slot));
      const V index = select(valid, V(d.contact_geompair[slot]), V(0));
      const ConeParameters<V> parameters = cone_parameters(m, s, d, slot, valid, index);
      const V dim = d.contact_dim[slot];
      count += m.cone == cone_elliptic ? dim : select(dim > V(1), V(T(2)) * (dim - V(1)), dim);
      cone_jacobian(m, d, slot, parameters, index);
      const ConeRow<V> velocity = cone_times(m, d, slot, s.qvel);
      for (int i = 0; i < rows; ++i)
        d.contact_aref[rows * slot + i] -= parameters.B[i == 0 ? 0 : 1] * velocity.x[i];
    }
    const V all = d.team.total(count);
    d.team.once([&] { d.nefc[0] += all; });
    return slots;
  }
  MANIPLE_FUNCTION ConeLaw<V> law(int slot) const {
    return {d.contact_D[slot], d.contact_mu[slot], d.contact_dim[slot], m.cone == cone_elliptic,
            m.contactdim};
  }
  MANIPLE_FUNCTION ConeRow<V> aref(int slot) const {
    return load_cone<V>(d.contact_aref, slot, m.contactdim);
  }
  MANIPLE_FUNCTION ConeRow<V> jar(int slot) const { return load_cone<V>(d.contact_jar, slot, m.contactdim); }
  MANIPLE_FUNCTION ConeRow<V> change(int slot) const {
    return load_cone<V>(d.contact_search, slot, m.contactdim);
  }
  MANIPLE_FUNCTION ConeRow<V> force(int slot) const { return law(slot).force(jar(slot)); }
  MANIPLE_FUNCTION void store(const DataField<V> field, int slot, const ConeRow<V>& row) const {
    store_cone(field, slot, m.contactdim, row);
  }
  template <class Dofs>
  MANIPLE_FUNCTION ConeRow<V> times(const Dofs&, int slot, const DataField<V> x) const {
    return cone_times(m, d, slot, x);
  }
  MANIPLE_FUNCTION void add_force(int slot, const ConeRow<V>& force, const DataField<V> result) const {
    const int rows = m.contactdim, first = slot * m.nv;
    for (const int k : d.team.share(d.slot_dofnum[slot])) {
      V& sum = result[d.slot_dof[first + k]];
      for (int i = 0; i < rows; ++i)
        sum = multiply_add(V(d.contact_J[rows * (first + k) + i]), force.x[i], sum);
    }
  }
  template <class Dofs>
  MANIPLE_FUNCTION void add_forces(const Dofs&, const DataField<V> result) const {
    for (int slot = 0; slot < slots; ++slot) add_force(slot, force(slot), result);
  }
  template <class Dofs>
  MANIPLE_FUNCTION void add_hessians(const Dofs&) const {
    const int rows = m.contactdim;
    for (int slot = 0; slot < slots; ++slot) {
      const ConeWeights<V> W = law(slot).curvature(jar(slot));
      if (!any_lane(W.at[0][0] > V(0))) continue;
      const int first = slot * m.nv, count = d.slot_dofnum[slot];
      for (const int a : d.team.share(count)) {
        const ConeRow<V> column = load_cone<V>(d.contact_J, first + a, rows);
        V weighted[kMostConeRows];
        for (int i = 0; i < rows; ++i) {
          weighted[i] = W.at[i][0] * column.x[0];
          for (int j = 1; j < rows; ++j) weighted[i] = multiply_add(W.at[i][j], column.x[j], weighted[i]);
        }
        const int row = hessian_address(d.slot_dof[first + a], 0);
        for (int b = a; b < count; ++b) {
          V& element = d.H[row + d.slot_dof[first + b]];
          for (int i = 0; i < rows; ++i)
            element = multiply_add(weighted[i], V(d.contact_J[rows * (first + b) + i]), element);
        }
      }
    }
  }
  // (An edge of a pyramid among up to ten holds the normal; friction of a cone is impratio times as stiff.)
  MANIPLE_FUNCTION MaskOf<V> is_stiff() const {
    if (m.cone == cone_elliptic) return this->is_stiffer([&](int) { return V(max(m.impratio, T(1))); });
    return this->is_stiffer([&](int slot) { return max(V(T(2)) * (d.contact_dim[slot] - V(1)), V(1)); });
  }
  MANIPLE_FUNCTION int to_wide(const Data<Wide>& x, int lane) const {
    if (m.ncone == 0) return 0;
    const int count = this->contacts_to_wide(x, lane);
    copy_to_wide(d.contact_mu, lane, x.contact_mu, 0, count);
    copy_to_wide(d.contact_dim, lane, x.contact_dim, 0, count);
    return count;
  }
};

}  // namespace maniple
