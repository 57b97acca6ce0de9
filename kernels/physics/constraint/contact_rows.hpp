// The family of contact rows: one for each slot that some lane uses, of three base rows (pyramid.hpp) and, in
// the dual solver, four edges. How the rows come about is in contact.hpp.
#pragma once

#include "kernels/physics/constraint/contact_family.hpp"

namespace maniple {

// See ContactFamily. Beside the members of SingleRows, with BaseRows for values, the solvers that work on
// rows take
//   acts_in(i, lane)          whether the lane has contact i
//   is_single_row(i, lane)    whether it is a single row, for whose sum the edges stand
//   for_each_column(i, visit) visit(tangents, dof, BaseRows) with slot_tangents as a constant
template <class V>
struct ContactRows : ContactFamily<ContactRows<V>, V> {
  using Family = ContactFamily<ContactRows<V>, V>;
  using T = ScalarOf<V>;
  using Family::m, Family::d, Family::slots, Family::Family;
  static constexpr int kRows = 4;      // of the dual solver
  static constexpr int kBaseRows = 3;  // of J

  static MANIPLE_FUNCTION int most(const ModelSizes& sizes) { return sizes.ncone > 0 ? 0 : sizes.ncontact; }
  static MANIPLE_FUNCTION int build(const Model<T>& m, const State<V>& s, const Data<V>& d) {
    return contact_rows(m, s, d);
  }
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
  MANIPLE_FUNCTION BaseRows<V> jar(int slot) const { return load_base<V>(d.contact_jar, slot); }
  MANIPLE_FUNCTION BaseRows<V> change(int slot) const { return load_base<V>(d.contact_search, slot); }
  MANIPLE_FUNCTION void store(const DataField<V> field, int slot, const BaseRows<V>& row) const {
    store_base(field, slot, row);
  }
  template <class Dofs>
  MANIPLE_FUNCTION BaseRows<V> times(const Dofs& dofs, int slot, const DataField<V> x) const {
    return dofs.contact_times(slot, x);
  }
  template <class Visit>
  MANIPLE_FUNCTION void for_each_column(int slot, const Visit& visit) const {
    const DataField<V> J = d.contact_J;
    const IndexField<V> dofs = d.slot_dof;
    const int first = slot * m.nv, last = first + d.slot_dofnum[slot];
    with_tangents(d.slot_tangents[slot], [&]<int kTangents>(Tangents<kTangents> tangents) {
      for (int k = first; k < last; ++k) visit(tangents, dofs[k], load_column<kTangents>(J, k));
    });
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
    return this->is_stiffer([](int) { return V(4); });
  }
  MANIPLE_FUNCTION int to_wide(const Data<Wide>& x, int lane) const {
    if (m.ncone > 0) return 0;
    const int count = this->contacts_to_wide(x, lane);
    for (int slot = 0; slot < count; ++slot) x.slot_tangents[slot] = d.slot_tangents[slot];
    return count;
  }

 private:
  MANIPLE_FUNCTION int geompair(int slot, int lane) const {
    return static_cast<int>(lane_element(d.contact_geompair, slot, lane));
  }
};

}  // namespace maniple
