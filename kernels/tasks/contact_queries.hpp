// What programs of a task ask about contacts between groups of geoms: whether there is one, and the force.
#pragma once

#include "kernels/physics/constraint/contact_force.hpp"
#include "kernels/tasks/program.hpp"

namespace maniple {

// Answers to the task's queries (ContactAnswer), of the contacts in `d`: the net force [N] on the first
// group, in the world's axes, and 1 where a contact is listed. Sums run over the contacts in the order of the
// list.
template <class V>
MANIPLE_FUNCTION void answer_contact_queries(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                             const Task<ScalarOf<V>>& task, const Varying<V> answers) {
  for (int i = 0; i < kContactAnswers * task.num_contact_queries; ++i) answers[i] = V(0);
  const int slots = contact_slots(m, d);
  for (int slot = 0; slot < slots; ++slot) {
    const MaskOf<V> listed = d.ncon[0] > V(static_cast<ScalarOf<V>>(slot));
    const V geompair = select(listed, V(d.contact_geompair[slot]), V(0));
    const Vec3<V> force = contact_force_on_geom2(m, d, slot, slot_contacts(d, slot));
    for (int query = 0; query < task.num_contact_queries; ++query) {
      // -1: geom 2 of the pair belongs to the first group, 1: geom 1 does, 0: the pair is not asked for
      const V side = gather<V>(task.contact_sides, geompair, task.num_contact_queries, query);
      const MaskOf<V> asked = listed && side != V(0);
      if (!any_lane(asked)) continue;
      const Varying<V> answer = answers.from(kContactAnswers * query);
      const V sign = select(asked, -side, V(0));
      answer[contact_force_x] += sign * force.x;
      answer[contact_force_y] += sign * force.y;
      answer[contact_force_z] += sign * force.z;
      answer[contact_found] = select(asked, V(1), V(answer[contact_found]));
    }
  }
}

}  // namespace maniple
