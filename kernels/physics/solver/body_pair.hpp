// The Hessian of the contacts between one pair of bodies, which the same dofs move: the sole of a foot, the
// corners of a box. With S, the bodies' motion against each other per unit of each dof, and B, the base rows
// of a contact per unit of that motion, both about a point of the body pair, J is B S, and the sum of J' W J
// is S' (sum of B' W B) S: what a contact adds has the size of a rigid motion (6x6), whatever the number of
// dofs. This pays where many contacts of a pair act at once; the model says which pairs these are.
#pragma once

#include "kernels/base/unroll.hpp"
#include "kernels/physics/constraint/contact.hpp"

namespace maniple {

// The body pairs of a slot's contacts, as bits; also writes contact_bodypair, and contact_B if there are any.
template <class V>
MANIPLE_FUNCTION std::uint32_t body_pairs_of_slot(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot) {
  using T = ScalarOf<V>;
  const SlotContacts<V> contacts = slot_contacts(d, slot);
  const V body_pair = select(contacts.active, gather(m.geompair_bodypair, contacts.geompair, 1, 0), V(-1));
  const MaskOf<V> has_body_pair = body_pair >= V(0);
  std::uint32_t body_pairs = 0;
  for_each_lane(has_body_pair,
                [&](int lane) { body_pairs |= 1u << static_cast<int>(get_lane(body_pair, lane)); });
  d.contact_bodypair[slot] = body_pair;
  if (body_pairs == 0) return 0;
  const Vec3<V> pos = load3<V>(d.contact_pos, 3 * slot);
  Vec3<V> arm = zero3<V>();  // from the body pair's point
  for_each_bit(body_pairs, [&](int p) {
    const Vec3<V> point = load3<V>(d.xpos, 3 * m.bodypair_bodyid[p]);
    arm = select<V>(body_pair == V(static_cast<T>(p)), pos - point, arm);
  });
  const auto row = [&](int r, const Vec3<V>& axis) {
    const Vec3<V> force = select<V>(has_body_pair, axis, zero3<V>()), torque = cross(arm, force);
    const V values[6] = {torque.x, torque.y, torque.z, force.x, force.y, force.z};
    for (int c = 0; c < 6; ++c) d.contact_B[3 * (6 * slot + c) + r] = values[c];
  };
  const ContactAxes<V> axes = contact_axes(m, d, slot, contacts);
  row(0, axes.normal);
  row(1, axes.tangent);
  row(2, axes.other);
  return body_pairs;
}

// Writes bodypair_S.
template <class V>
MANIPLE_FUNCTION void body_pair_motion(const Model<ScalarOf<V>>& m, const Data<V>& d, int body_pair) {
  using T = ScalarOf<V>;
  const Vec3<V> point = load3<V>(d.xpos, 3 * m.bodypair_bodyid[body_pair]);
  const int first = body_pair * m.nv;
  for (const int at : d.team.share(m.bodypair_dofnum[body_pair])) {
    const int k = first + at, dof = m.bodypair_dof[k];
    const Vec3<V> arm = point - load3<V>(d.subtree_com, 3 * m.dof_rootid[dof]);
    const Spatial<V> motion = load6<V>(d.cdof, 6 * dof);
    const Spatial<V> about_point{motion.rot, motion.lin + cross(motion.rot, arm)};
    store6(d.bodypair_S, 6 * k, V(static_cast<T>(m.bodypair_sign[k])) * about_point);
  }
}

// bodypair_W += B' W B of the contacts of a slot in the lanes where they belong to a body pair.
template <class V>
MANIPLE_FUNCTION void add_body_pair_weights(const Data<V>& d, int slot, const BaseWeights<V>& W) {
  using T = ScalarOf<V>;
  const auto body_pairs = static_cast<std::uint32_t>(d.slot_bodypairs[slot]);
  if (body_pairs == 0) return;
  BaseRows<V> B[6];
  unroll<0, 6>([&](auto c) { B[c] = load_base<V>(d.contact_B, 6 * slot + c); });
  for_each_bit(body_pairs, [&](int p) {
    const BaseWeights<V> own = W.where(d.contact_bodypair[slot] == V(static_cast<T>(p)));
    const DataField<V> sum = d.bodypair_W.from(21 * p);
    unroll<0, 6>([&](auto i) {
      const BaseRows<V> w = own.template times<3>(B[i]);
      unroll<0, i + 1>([&](auto j) { add_product<3>(sum[hessian_address(i, j)], w, B[j]); });
    });
  });
}

// H += S' bodypair_W S.
template <class V>
MANIPLE_FUNCTION void add_body_pair_hessian(const Model<ScalarOf<V>>& m, const Data<V>& d, int body_pair) {
  const DataField<V> S = d.bodypair_S, H = d.H, W = d.bodypair_W.from(21 * body_pair);
  const int first = body_pair * m.nv, last = first + m.bodypair_dofnum[body_pair];
  // row i of W S for dof k
  const auto weighted = [&](int k, auto i) {
    V sum = W[hessian_address(i, 0)] * S[6 * k];
    unroll<1, 6>([&](auto j) {
      constexpr int row = i < j ? j : i, column = i < j ? i : j;
      sum = multiply_add(V(W[hessian_address(row, column)]), V(S[6 * k + j]), sum);
    });
    return sum;
  };
  const auto add = [&](V& element, const V(&w)[6], int k) {
    V sum = element;
    unroll<0, 6>([&](auto i) { sum = multiply_add(w[i], V(S[6 * k + i]), sum); });
    element = sum;
  };
  // rows that are taken together share what is loaded of S
  share_runs<2, 1>(d.team, last - first, [&]<int C>(std::integral_constant<int, C>, int begin) {
    const int a = first + begin;
    int row[C];
    V w[C][6];
    unroll<0, C>([&](auto r) {
      row[r] = hessian_address(m.bodypair_dof[a + r], 0);
      unroll<0, 6>([&](auto i) { w[r][i] = weighted(a + r, i); });
    });
    unroll<0, C - 1>([&](auto r) {
      unroll<0, r + 1>([&](auto k) { add(H[row[k] + m.bodypair_dof[a + r]], w[k], a + r); });
    });
    for (int b = a + C - 1; b < last; ++b)
      unroll<0, C>([&](auto r) { add(H[row[r] + m.bodypair_dof[b]], w[r], b); });
  });
}

}  // namespace maniple
