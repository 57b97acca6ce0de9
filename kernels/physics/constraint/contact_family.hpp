// What the families of contact rows have in common, whatever their cone: one for each slot that some lane
// uses, of `contactdim` base rows, whose residuals are kept.
#pragma once

#include "kernels/physics/constraint/contact.hpp"

namespace maniple {

// The base of a family of contacts. `Rows` derives from it and has
//   kRows, kBaseRows          rows of the dual solver and of J, as SingleRows
//   most(sizes), build(m, s, d), law(slot)
//                             as SingleRows
//   aref(slot), jar(slot), change(slot)
//                             values of the base rows: reference, residual, and its change along the search
//   store(field, slot, row)   writes such values
//   times(dofs, slot, x)      J x, by the linear algebra of `dofs`
//   add_force(slot, force, result)
//                             result += J' force of the base rows
//   add_forces(dofs, result), add_hessians(dofs), is_stiff()
//                             as SingleRows
template <class Rows, class V>
struct ContactFamily {
  using Value = V;
  using T = ScalarOf<V>;
  static constexpr bool kInEveryLane = false, kKeepsJar = true;
  const Model<T>& m;
  const Data<V>& d;
  int slots;

  MANIPLE_FUNCTION ContactFamily(const Model<T>& model, const Data<V>& data, int used)
      : m(model), d(data), slots(used) {}
  MANIPLE_FUNCTION int count() const { return slots; }
  template <class Visit>
  MANIPLE_FUNCTION void for_each_tree(int slot, int lane, const Visit& visit) const {
    for_each_tree_of_contact(m, d, slot, lane, visit);
  }
  template <class Dofs>
  MANIPLE_FUNCTION void evaluate(const Dofs& dofs) const {
    for (const int slot : d.team.share(slots))
      self().store(d.contact_jar, slot, self().times(dofs, slot, d.qacc) - self().aref(slot));
  }
  template <class Dofs>
  MANIPLE_FUNCTION void evaluate_change(const Dofs& dofs) const {
    for (const int slot : d.team.share(slots))
      self().store(d.contact_search, slot, self().times(dofs, slot, d.search));
  }
  MANIPLE_FUNCTION void move(MaskOf<V> lanes, V alpha) const {
    for (const int k : d.team.share(m.contactdim * slots)) {
      V& value = d.contact_jar[k];
      value = select(lanes, value + alpha * d.contact_search[k], value);
    }
  }
  // The lanes with a contact that is too stiff for V: `normal` is how many times the stiffness contact_D of a
  // slot holds its normal.
  template <class Normal>
  MANIPLE_FUNCTION MaskOf<V> is_stiffer(const Normal& normal) const {
    MaskOf<V> stiff(false);
    for (int slot = 0; slot < slots; ++slot) {
      const SlotContacts<V> contacts = slot_contacts(d, slot);
      const V invweight = m.nvariedcontact > 0 ? V(d.contact_invweight[slot])
                                               : gather(m.geompair_invweight, contacts.geompair, 1, 0);
      stiff = stiff || (contacts.active && normal(slot) * d.contact_D[slot] * invweight > V(kStiffRow));
    }
    return stiff;
  }
  // The contacts of a lane to the fields of wide_data; returns their number.
  MANIPLE_FUNCTION int contacts_to_wide(const Data<Wide>& x, int lane) const {
    const int rows = m.contactdim, count = static_cast<int>(get_lane(V(d.ncon[0]), lane));
    copy_to_wide(d.contact_geompair, lane, x.contact_geompair, 0, count);
    copy_to_wide(d.contact_D, lane, x.contact_D, 0, count);
    copy_to_wide(d.contact_aref, lane, x.contact_aref, 0, rows * count);
    for (int slot = 0; slot < count; ++slot) {
      const int first = slot * m.nv, dofs = d.slot_dofnum[slot];
      x.slot_dofnum[slot] = dofs;
      for (int k = first; k < first + dofs; ++k) x.slot_dof[k] = d.slot_dof[k];
      copy_to_wide(d.contact_J, lane, x.contact_J, rows * first, rows * dofs);
    }
    return count;
  }
  MANIPLE_FUNCTION void from_wide(const Data<Wide>& x, int count, int lane) const {
    const int rows = m.contactdim;
    // contacts that only other lanes have get a number, too
    for (int i = 0; i < rows * slots; ++i) set_lane(d.contact_jar[i], lane, T(0));
    copy_from_wide(x.contact_jar, d.contact_jar, lane, 0, rows * count);
  }

 private:
  MANIPLE_FUNCTION const Rows& self() const { return static_cast<const Rows&>(*this); }
};

}  // namespace maniple
