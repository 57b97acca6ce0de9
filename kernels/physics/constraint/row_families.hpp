// The families of constraint rows in MuJoCo's order: the one list that solvers walk. A family says how many
// rows act in a pack and, for each of them, its law (row_law.hpp), its residual, the product of its Jacobian
// with a vector, and what it adds to a force and to the Hessian of the cost. Rows are counted 0 ... count() -
// 1; values are a lane value for single rows, BaseRows for contacts. A new family is a type here and a place
// in RowFamilies.
//
// `Dofs` is the linear algebra of the solver that asks (tree_dofs.hpp, dense_dofs.hpp).
#pragma once

#include "kernels/physics/constraint/contact.hpp"

namespace maniple {

// Dry friction of joints and tendons, in every lane. Residuals are computed when they are asked for.
template <class V>
struct FrictionRows {
  const Model<ScalarOf<V>>& m;
  const Data<V>& d;

  MANIPLE_FUNCTION FrictionRows(const Model<ScalarOf<V>>& model, const Data<V>& data, ActiveRows)
      : m(model), d(data) {}
  MANIPLE_FUNCTION int count() const { return m.nfriction; }
  MANIPLE_FUNCTION BoundedLaw<V> law(int r) const { return friction_law<V>(m, r); }
  MANIPLE_FUNCTION V jar(int r) const { return friction_jar(m, d, r, d.qacc); }
  MANIPLE_FUNCTION V change(int r) const { return friction_jacobian_times<V>(m, r, d.search); }
  // What of the rows is kept in memory: nothing.
  template <class Dofs>
  MANIPLE_FUNCTION void store_jar(const Dofs&) const {}
  template <class Dofs>
  MANIPLE_FUNCTION void store_change(const Dofs&) const {}
  MANIPLE_FUNCTION void move(MaskOf<V>, V) const {}
  template <class Dofs>
  MANIPLE_FUNCTION void add_forces(const Dofs&, const DataField<V> result) const {
    d.team.once([&] {
      for (int r = 0; r < count(); ++r) add_friction_force(m, r, friction_force(m, d, r), result);
    });
  }
  template <class Dofs>
  MANIPLE_FUNCTION void add_hessians(const Dofs&) const {
    d.team.once([&] {
      for (int r = 0; r < count(); ++r) {
        const V curvature = law(r).curvature(jar(r));
        const int dof = m.friction_dofid[r];
        if (dof >= 0)
          d.H[hessian_address(dof, dof)] += curvature;
        else
          add_tendon_hessian(m, m.friction_tendonid[r], curvature, d.H);
      }
    });
  }
};

// Limits of joints and tendons, of which those count that act in some lane (limit_active).
template <class V>
struct LimitRows {
  const Model<ScalarOf<V>>& m;
  const Data<V>& d;
  int active;

  MANIPLE_FUNCTION LimitRows(const Model<ScalarOf<V>>& model, const Data<V>& data, ActiveRows rows)
      : m(model), d(data), active(rows.limits) {}
  MANIPLE_FUNCTION int count() const { return active; }
  MANIPLE_FUNCTION OneSidedLaw<V> law(int a) const { return {d.limit_D[d.limit_active[a]]}; }
  MANIPLE_FUNCTION V jar(int a) const { return d.limit_jar[d.limit_active[a]]; }
  MANIPLE_FUNCTION V change(int a) const { return d.limit_search[d.limit_active[a]]; }
  // Writes the residuals of qacc.
  template <class Dofs>
  MANIPLE_FUNCTION void store_jar(const Dofs&) const {
    for (const int a : d.team.share(active)) {
      const int r = d.limit_active[a];
      d.limit_jar[r] = limit_jacobian_times(m, d, r, d.qacc) - d.limit_aref[r];
    }
  }
  // Writes their changes along the search direction.
  template <class Dofs>
  MANIPLE_FUNCTION void store_change(const Dofs&) const {
    for (const int a : d.team.share(active)) {
      const int r = d.limit_active[a];
      d.limit_search[r] = limit_jacobian_times(m, d, r, d.search);
    }
  }
  // Takes the residuals of the lanes in `lanes` along by alpha.
  MANIPLE_FUNCTION void move(MaskOf<V> lanes, V alpha) const {
    for (const int a : d.team.share(active)) {
      const int r = d.limit_active[a];
      V& value = d.limit_jar[r];
      value = select(lanes, value + alpha * d.limit_search[r], value);
    }
  }
  template <class Dofs>
  MANIPLE_FUNCTION void add_forces(const Dofs&, const DataField<V> result) const {
    d.team.once([&] {
      for (int a = 0; a < active; ++a) {
        const int r = d.limit_active[a];
        add_limit_force(m, d, r, limit_force(m, d, r), result);
      }
    });
  }
  template <class Dofs>
  MANIPLE_FUNCTION void add_hessians(const Dofs&) const {
    d.team.once([&] {
      for (int a = 0; a < active; ++a) add_limit_hessian(m, d, d.limit_active[a], law(a).curvature(jar(a)));
    });
  }
};

// Contacts, one for each slot that some lane uses.
template <class V>
struct ContactRows {
  const Model<ScalarOf<V>>& m;
  const Data<V>& d;
  int slots;

  MANIPLE_FUNCTION ContactRows(const Model<ScalarOf<V>>& model, const Data<V>& data, ActiveRows rows)
      : m(model), d(data), slots(rows.slots) {}
  MANIPLE_FUNCTION int count() const { return slots; }
  MANIPLE_FUNCTION PyramidLaw<V> law(int slot) const { return {d.contact_D[slot]}; }
  MANIPLE_FUNCTION BaseRows<V> jar(int slot) const { return load_base<V>(d.contact_jar, slot); }
  MANIPLE_FUNCTION BaseRows<V> change(int slot) const { return load_base<V>(d.contact_search, slot); }
  template <class Dofs>
  MANIPLE_FUNCTION void store_jar(const Dofs& dofs) const {
    for (const int slot : d.team.share(slots)) {
      const BaseRows<V> x = dofs.contact_times(slot, d.qacc), aref = load_base<V>(d.contact_aref, slot);
      store_base(d.contact_jar, slot, BaseRows<V>{x.n - aref.n, x.t - aref.t, x.u - aref.u});
    }
  }
  template <class Dofs>
  MANIPLE_FUNCTION void store_change(const Dofs& dofs) const {
    for (const int slot : d.team.share(slots))
      store_base(d.contact_search, slot, dofs.contact_times(slot, d.search));
  }
  MANIPLE_FUNCTION void move(MaskOf<V> lanes, V alpha) const {
    for (const int k : d.team.share(3 * slots)) {
      V& value = d.contact_jar[k];
      value = select(lanes, value + alpha * d.contact_search[k], value);
    }
  }
  template <class Dofs>
  MANIPLE_FUNCTION void add_forces(const Dofs& dofs, const DataField<V> result) const {
    for (int slot = 0; slot < slots; ++slot) dofs.add_contact_force(slot, contact_force(m, d, slot), result);
  }
  template <class Dofs>
  MANIPLE_FUNCTION void add_hessians(const Dofs& dofs) const {
    dofs.add_contact_hessians(slots);
  }
};

template <template <class> class... Family>
struct RowFamilyList {
  // Calls visit(family) for each of them.
  template <class V, class Visit>
  static MANIPLE_FUNCTION void for_each(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows rows,
                                        const Visit& visit) {
    (visit(Family<V>(m, d, rows)), ...);
  }
  // The same for each row: visit(family, i).
  template <class V, class Visit>
  static MANIPLE_FUNCTION void for_each_row(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows rows,
                                            const Visit& visit) {
    (visit_rows(Family<V>(m, d, rows), visit), ...);
  }

 private:
  template <class Rows, class Visit>
  static MANIPLE_FUNCTION void visit_rows(const Rows& family, const Visit& visit) {
    for (int i = 0, count = family.count(); i < count; ++i) visit(family, i);
  }
};
using RowFamilies = RowFamilyList<FrictionRows, LimitRows, ContactRows>;

}  // namespace maniple
