// Newton's method in double precision for single environments of a single-precision model: those with a
// contact whose friction is next to nothing. The edges of its pyramid are almost parallel and very stiff
// (1/(2 friction^2) times as stiff as other rows), so that rounding an acceleration to a float already
// changes forces by more than they are. It is the solver of primal_solver.hpp over the lane value Wide.
#pragma once

#include "kernels/physics/solver/primal_solver.hpp"

namespace maniple {

// The lanes with a contact that is too stiff for V. (A contact holds its normal by up to four edges.)
template <class V>
MANIPLE_FUNCTION MaskOf<V> needs_wide(const Model<ScalarOf<V>>& m, const Data<V>& d, int slots) {
  MaskOf<V> stiff(false);
  if (sizeof(ScalarOf<V>) == 8 || m.nwide == 0) return stiff;
  for (int slot = 0; slot < slots; ++slot) {
    const SlotContacts<V> contacts = slot_contacts(d, slot);
    const V invweight = gather(m.geompair_invweight, contacts.geompair, 1, 0);
    stiff = stiff || (contacts.active && V(4) * d.contact_D[slot] * invweight > V(kStiffRow));
  }
  return stiff;
}

// qacc of the environments of `lanes`, and jar of their rows, from the rows and the warm start.
template <class V>
MANIPLE_STAGE void solve_wide(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                              ActiveRows rows, MaskOf<V> lanes, V scale) {
  const int nv = m.nv;
  const Data<Wide> x = wide_data(m, d.wide);
  d.team.once([&] {
    for_each_lane(lanes, [&](int lane) {
      const auto at = [&](const V& value) { return Wide(get_lane(value, lane)); };
      const auto take = [&](const DataField<V>& from, const DataField<Wide>& to, int first, int count) {
        for (int i = first; i < first + count; ++i) to[i] = at(from[i]);
      };
      take(d.qM, x.qM, 0, m.nM);
      take(d.qacc_smooth, x.qacc_smooth, 0, nv);
      take(d.qacc_smooth, x.qacc, 0, nv);
      take(d.qfrc_smooth, x.qfrc_smooth, 0, nv);
      for (int i = 0; i < nv; ++i) x.search[i] = at(s.qacc_warmstart[i]) - x.qacc_smooth[i];
      take(d.friction_aref, x.friction_aref, 0, m.nfriction);
      ActiveRows own{0, static_cast<int>(get_lane(V(d.ncon[0]), lane))};
      for (int a = 0; a < rows.limits; ++a) {
        const int r = d.limit_active[a];
        if (!(get_lane(V(d.limit_D[r]), lane) > 0)) continue;
        x.limit_active[own.limits++] = r;
        take(d.limit_D, x.limit_D, r, 1);
        take(d.limit_aref, x.limit_aref, r, 1);
        if (m.limit_ballid[r] >= 0) take(d.limit_axis, x.limit_axis, 3 * m.limit_ballid[r], 3);
      }
      take(d.contact_geompair, x.contact_geompair, 0, own.slots);
      take(d.contact_D, x.contact_D, 0, own.slots);
      take(d.contact_aref, x.contact_aref, 0, 3 * own.slots);
      for (int slot = 0; slot < own.slots; ++slot) {
        const int first = slot * nv, count = d.slot_dofnum[slot];
        x.slot_tangents[slot] = d.slot_tangents[slot];
        x.slot_dofnum[slot] = count;
        for (int k = first; k < first + count; ++k) x.slot_dof[k] = d.slot_dof[k];
        take(d.contact_J, x.contact_J, 3 * first, 3 * count);
      }
      solve_over<TreeDofs<Wide>>(m, x, own, true, at(scale), Wide(m.tolerance));
      const auto give = [&](const DataField<Wide>& from, const DataField<V>& to, int first, int count) {
        for (int i = first; i < first + count; ++i)
          set_lane(to[i], lane, static_cast<ScalarOf<V>>(static_cast<float>(from[i])));
      };
      give(x.qacc, d.qacc, 0, nv);
      // rows that only other lanes have get a number, too
      for (int a = 0; a < rows.limits; ++a) set_lane(d.limit_jar[d.limit_active[a]], lane, ScalarOf<V>(0));
      for (int i = 0; i < 3 * rows.slots; ++i) set_lane(d.contact_jar[i], lane, ScalarOf<V>(0));
      for (int a = 0; a < own.limits; ++a) give(x.limit_jar, d.limit_jar, x.limit_active[a], 1);
      give(x.contact_jar, d.contact_jar, 0, 3 * own.slots);
    });
  });
}

}  // namespace maniple
