// The family of contact rows: one for each slot that some lane uses, of three base rows (pyramid.hpp) and, in
// the dual solver, four edges. How the rows come about is in contact.hpp.
#pragma once

#include "kernels/physics/constraint/contact.hpp"

namespace maniple {

// The members of SingleRows, with BaseRows for values, and those of a family of base rows:
//   acts_in(i, lane)          whether the lane has contact i
//   is_single_row(i, lane)    whether it is a single row, for whose sum the edges stand
//   for_each_column(i, visit) visit(tangents, dof, BaseRows) with slot_tangents as a constant
template <class V>
struct ContactRows {
  using Value = V;
  using T = ScalarOf<V>;
  static constexpr int kRows = 4;      // of the dual solver
  static constexpr int kBaseRows = 3;  // of J
  static constexpr bool kInEveryLane = false, kKeepsJar = true;
  const Model<T>& m;
  const Data<V>& d;
  int slots;

  MANIPLE_FUNCTION ContactRows(const Model<T>& model, const Data<V>& data, int used)
      : m(model), d(data), slots(used) {}
  static MANIPLE_FUNCTION int most(const ModelSizes& sizes) { return sizes.ncone > 0 ? 0 : sizes.ncontact; }
  static MANIPLE_FUNCTION int build(const Model<T>& m, const State<V>& s, const Data<V>& d) {
    return contact_rows(m, s, d);
  }
  MANIPLE_FUNCTION int count() const { return slots; }
  MANIPLE_FUNCTION int count_of(MaskOf<V> lanes) const {
    return static_cast<int>(max_lane(select(lanes, V(d.ncon[0]), V(0))));
  }
  MANIPLE_FUNCTION int number(int slot) const { return slot; }
  MANIPLE_FUNCTION PyramidLaw<V> law(int slot) const { return {d.contact_D[slot]}; }
  MANIPLE_FUNCTION PyramidLaw<T> law_of_lane(int slot, int lane) const {
    return {lane_element(d.contact_D, slot, lane)};
  }
  MANIPLE_FUNCTION PyramidLaw<V> scaled_law(int) const { return {V(1)}; }
  MANIPLE_FUNCTION bool acts_in(int slot, int lane) const {
    return lane_element(d.contact_D, slot, lane) > 0;
  }
  MANIPLE_FUNCTION bool is_single_row(int slot, int lane) const {
    return m.contactclass_condim[m.geompair_class[geompair(slot, lane)]] == 1;
  }
  MANIPLE_FUNCTION BaseRows<V> aref(int slot) const { return load_base<V>(d.contact_aref, slot); }
  template <class Visit>
  MANIPLE_FUNCTION void for_each_column(int slot, const Visit& visit) const {
    const DataField<V> J = d.contact_J;
    const IndexField<V> dofs = d.slot_dof;
    const int first = slot * m.nv, last = first + d.slot_dofnum[slot];
    with_tangents(d.slot_tangents[slot], [&]<int kTangents>(Tangents<kTangents> tangents) {
      for (int k = first; k < last; ++k) visit(tangents, dofs[k], load_column<kTangents>(J, k));
    });
  }
  template <class Visit>
  MANIPLE_FUNCTION void for_each_tree(int slot, int lane, const Visit& visit) const {
    for_each_tree_of_contact(m, d, slot, lane, visit);
  }
  MANIPLE_FUNCTION BaseRows<V> jar(int slot) const { return load_base<V>(d.contact_jar, slot); }
  MANIPLE_FUNCTION BaseRows<V> change(int slot) const { return load_base<V>(d.contact_search, slot); }
  template <class Dofs>
  MANIPLE_FUNCTION void evaluate(const Dofs& dofs) const {
    for (const int slot : d.team.share(slots))
      store_base(d.contact_jar, slot, dofs.contact_times(slot, d.qacc) - aref(slot));
  }
  template <class Dofs>
  MANIPLE_FUNCTION void evaluate_change(const Dofs& dofs) const {
    for (const int slot : d.team.share(slots))
      store_base(d.contact_search, slot, dofs.contact_times(slot, d.search));
  }
  MANIPLE_FUNCTION void move(MaskOf<V> lanes, V alpha) const {
    for (const int k : d.team.share(3 * slots)) {
      V& value = d.contact_jar[k];
      value = select(lanes, value + alpha * d.contact_search[k], value);
    }
  }
  MANIPLE_FUNCTION void store_jar(int slot, MaskOf<V> lanes, const BaseRows<V>& jar) const {
    const V values[3] = {jar.n, jar.t, jar.u};
    for (int r = 0; r < 3; ++r) {
      V& value = d.contact_jar[3 * slot + r];
      value = select(lanes, values[r], value);
    }
  }
  MANIPLE_FUNCTION void add_force(int slot, const BaseRows<V>& force, const DataField<V> result) const {
    add_contact_force(m, d, slot, force, result);
  }
  template <class Dofs>
  MANIPLE_FUNCTION void add_forces(const Dofs& dofs, const DataField<V> result) const {
    for (int slot = 0; slot < slots; ++slot) dofs.add_contact_force(slot, pyramid_force(m, d, slot), result);
  }
  template <class Dofs>
  MANIPLE_FUNCTION void add_hessians(const Dofs& dofs) const {
    dofs.add_contact_hessians(slots);
  }
  // (A contact holds its normal by up to four edges.)
  MANIPLE_FUNCTION MaskOf<V> is_stiff() const {
    MaskOf<V> stiff(false);
    for (int slot = 0; slot < slots; ++slot) {
      const SlotContacts<V> contacts = slot_contacts(d, slot);
      const V invweight = m.nvariedcontact > 0 ? V(d.contact_invweight[slot])
                                               : gather(m.geompair_invweight, contacts.geompair, 1, 0);
      stiff = stiff || (contacts.active && V(4) * d.contact_D[slot] * invweight > V(kStiffRow));
    }
    return stiff;
  }
  MANIPLE_FUNCTION int to_wide(const Data<Wide>& x, int lane) const {
    if (m.ncone > 0) return 0;
    const int nv = m.nv, count = static_cast<int>(get_lane(V(d.ncon[0]), lane));
    copy_to_wide(d.contact_geompair, lane, x.contact_geompair, 0, count);
    copy_to_wide(d.contact_D, lane, x.contact_D, 0, count);
    copy_to_wide(d.contact_aref, lane, x.contact_aref, 0, 3 * count);
    for (int slot = 0; slot < count; ++slot) {
      const int first = slot * nv, dofs = d.slot_dofnum[slot];
      x.slot_tangents[slot] = d.slot_tangents[slot];
      x.slot_dofnum[slot] = dofs;
      for (int k = first; k < first + dofs; ++k) x.slot_dof[k] = d.slot_dof[k];
      copy_to_wide(d.contact_J, lane, x.contact_J, 3 * first, 3 * dofs);
    }
    return count;
  }
  MANIPLE_FUNCTION void from_wide(const Data<Wide>& x, int count, int lane) const {
    // contacts that only other lanes have get a number, too
    for (int i = 0; i < 3 * slots; ++i) set_lane(d.contact_jar[i], lane, T(0));
    copy_from_wide(x.contact_jar, d.contact_jar, lane, 0, 3 * count);
  }

 private:
  MANIPLE_FUNCTION int geompair(int slot, int lane) const {
    return static_cast<int>(lane_element(d.contact_geompair, slot, lane));
  }
};

}  // namespace maniple
