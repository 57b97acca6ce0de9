// Implementation of kernels/physics/contact_queries.hpp.
#pragma once

#include "kernels/physics/constraint/contact_force.hpp"
#include "kernels/physics/contact_queries.hpp"

namespace maniple {

// Answers [query][ContactAnswer], of the contacts in `d`. Sums run over the contacts in the order of the
// list.
template <class V>
MANIPLE_FUNCTION void answer_contact_queries(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                             const ContactQueries& queries, const Varying<V> answers) {
  for (int i = 0; i < queries.answers(); ++i) answers[i] = V(0);
  const int slots = contact_slots(m, d);
  for (int slot = 0; slot < slots; ++slot) {
    const MaskOf<V> listed = d.ncon[0] > V(static_cast<ScalarOf<V>>(slot));
    const V geompair = select(listed, V(d.contact_geompair[slot]), V(0));
    const Vec3<V> force = contact_wrench_on_geom2(m, d, slot, slot_contacts(d, slot)).lin;
    const V strength = sqrt(dot(force, force));
    for (int query = 0; query < queries.count; ++query) {
      // -1: geom 2 of the pair belongs to the first group, 1: geom 1 does, 0: the pair is not asked for
      const V side = gather<V>(queries.sides, geompair, queries.count, query);
      const MaskOf<V> asked = listed && side != V(0);
      if (!any_lane(asked)) continue;
      const Varying<V> answer = answers.from(kContactAnswers * query);
      const V sign = select(asked, -side, V(0));
      answer[contact_force_x] += sign * force.x;
      answer[contact_force_y] += sign * force.y;
      answer[contact_force_z] += sign * force.z;
      answer[contact_found] = select(asked, V(1), V(answer[contact_found]));
      answer[contact_strongest] =
          select(asked, max(V(answer[contact_strongest]), strength), V(answer[contact_strongest]));
    }
  }
}

}  // namespace maniple
