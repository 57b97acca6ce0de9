// Moments of adhesion actuators (mj_transmission, mjTRN_BODY): the mean of the Jacobians of the normals of
// all contacts that a body has, turned around, so that a force pulls at what touches it.
#pragma once

#include "kernels/physics/smooth/site_moment.hpp"

namespace maniple {

// Adds the moment of actuator i to its row, which is zero. Contacts count that only their margin's gap lists,
// too, but none between bodies that nothing moves.
template <class V>
MANIPLE_STAGE void adhesion_moment(const Model<ScalarOf<V>>& m, const Data<V>& d, int i,
                                   const DofRow<V>& row) {
  using T = ScalarOf<V>;
  const int body = m.actuator_trnid[2 * i],
            slots = m.ngeompair == 0 ? 0 : static_cast<int>(max_lane(V(d.ncon[0])));
  V count(0);
  for (int c = 0; c < m.ngeompair; ++c) {
    const int body1 = m.geompair_bodyid[2 * c], body2 = m.geompair_bodyid[2 * c + 1];
    if ((body1 != body && body2 != body) || m.geompair_class[c] < 0) continue;
    const int common = last_common_dof(m, body1, body2);
    for (int slot = 0; slot < slots; ++slot) {
      const MaskOf<V> here =
          d.ncon[0] > V(static_cast<T>(slot)) && d.contact_geompair[slot] == V(static_cast<T>(c));
      if (!any_lane(here)) continue;
      count += select(here, V(1), V(0));
      const Vec3<V> point = select<V>(here, load3<V>(d.contact_pos, 3 * slot), zero3<V>()),
                    normal = select<V>(here, load3<V>(d.contact_frame, 6 * slot), zero3<V>());
      add_pull(m, d, row, body1, point, normal, zero3<V>(), common);
      add_pull(m, d, row, body2, point, -normal, zero3<V>(), common);
    }
  }
  const V share = V(1) / max(count, V(1));
  for (int k = 0; k < row.count; ++k) row.own[k] = share * row.own[k];
}

}  // namespace maniple
