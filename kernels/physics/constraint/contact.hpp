// Constraint rows of contacts (mj_instantiateContact, mj_diagApprox, mj_makeImpedance). A contact without
// friction is one row along its normal. One with friction is a pyramid of four rows (pyramid.hpp). Four equal
// edges with a quarter of the stiffness stand for the frictionless row, so that lanes with either kind share
// a slot.
#pragma once

#include "kernels/math/functions.hpp"
#include "kernels/math/spatial.hpp"
#include "kernels/model/lane_model.hpp"
#include "kernels/physics/collision/collision_primitive.hpp"
#include "kernels/physics/constraint/constraint.hpp"
#include "kernels/physics/constraint/pyramid.hpp"

namespace maniple {

// Calls body(tangents) with slot_tangents as a constant: the loops over a slot's dofs leave out base rows
// that are zero in every lane. Bit 0 is the first tangent, bit 1 the second. A planar robot uses one of them,
// contacts without friction neither. The terms that are left out would not change a bit of the results.
template <int kTangents>
using Tangents = std::integral_constant<int, kTangents>;
template <class Body>
MANIPLE_FUNCTION void with_tangents(int tangents, const Body& body) {
  switch (tangents) {
    case 0:
      return body(Tangents<0>());
    case 1:
      return body(Tangents<1>());
    case 2:
      return body(Tangents<2>());
    default:
      return body(Tangents<3>());
  }
}
// Column k of J, with zeros for the rows that are left out.
template <int kTangents, class V>
MANIPLE_FUNCTION BaseRows<V> load_column(const DataField<V> J, int k) {
  BaseRows<V> column{J[3 * k], V(0), V(0)};
  if constexpr (kTangents & 1) column.t = J[3 * k + 1];
  if constexpr (kTangents & 2) column.u = J[3 * k + 2];
  return column;
}
// sum += value * column.
template <int kTangents, class V>
MANIPLE_FUNCTION void add_column(BaseRows<V>& sum, const BaseRows<V>& column, V value) {
  sum.n = multiply_add(column.n, value, sum.n);
  if constexpr (kTangents & 1) sum.t = multiply_add(column.t, value, sum.t);
  if constexpr (kTangents & 2) sum.u = multiply_add(column.u, value, sum.u);
}
// sum += w' b.
template <int kTangents, class V>
MANIPLE_FUNCTION void add_product(V& sum, const BaseRows<V>& w, const BaseRows<V>& b) {
  sum = multiply_add(w.n, b.n, sum);
  if constexpr (kTangents & 1) sum = multiply_add(w.t, b.t, sum);
  if constexpr (kTangents & 2) sum = multiply_add(w.u, b.u, sum);
}

// J x of the base rows of a slot.
template <class V, class Field>
MANIPLE_FUNCTION BaseRows<V> contact_jacobian_times(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot,
                                                    const Field x) {
  BaseRows<V> sum{V(0), V(0), V(0)};
  const int first = slot * m.nv, last = first + d.slot_dofnum[slot];
  const DataField<V> J = d.contact_J;
  const IndexField<V> dofs = d.slot_dof;
  with_tangents(d.slot_tangents[slot], [&]<int kTangents>(Tangents<kTangents>) {
    for (int k = first; k < last; ++k)
      add_column<kTangents>(sum, load_column<kTangents>(J, k), V(x[dofs[k]]));
  });
  return sum;
}

// result += J' force of the base rows of a slot.
template <class V>
MANIPLE_FUNCTION void add_contact_force(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot,
                                        const BaseRows<V>& force, const DataField<V> result) {
  const int first = slot * m.nv;
  const DataField<V> J = d.contact_J;
  const IndexField<V> dofs = d.slot_dof;
  with_tangents(d.slot_tangents[slot], [&]<int kTangents>(Tangents<kTangents>) {
    for (const int k : d.team.share(d.slot_dofnum[slot]))
      add_product<kTangents>(result[dofs[first + k]], load_column<kTangents>(J, first + k), force);
  });
}

// Members are in contact_rows.hpp.
template <class V>
struct ContactRows;

// The solver's forces along the edges of a slot, and along its base rows.
template <class V>
MANIPLE_FUNCTION Edges<V> edge_forces(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot) {
  if (m.solver != solver_pgs)
    return PyramidLaw<V>{d.contact_D[slot]}.edge_forces(load_base<V>(d.contact_jar, slot));
  const int first = first_row<ContactRows<V>>(m) + 4 * slot;
  Edges<V> force;
  for (int e = 0; e < 4; ++e) force.value[e] = d.row_force[first + e];
  return force;
}
template <class V>
MANIPLE_FUNCTION BaseRows<V> pyramid_force(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot) {
  return base_of(edge_forces(m, d, slot));
}

// The weights of the edges that push.
template <class V>
MANIPLE_FUNCTION BaseWeights<V> base_weights(const Data<V>& d, int slot) {
  return PyramidLaw<V>{d.contact_D[slot]}.curvature(load_base<V>(d.contact_jar, slot));
}

// x, y, z axes of a contact: the given normal and a tangent that is made orthogonal to it (mju_makeFrame).
template <class V>
MANIPLE_FUNCTION void contact_tangents(const Vec3<V>& normal, Vec3<V>& tangent, Vec3<V>& other) {
  const MaskOf<V> given = dot(tangent, tangent) >= V(0.25);
  const MaskOf<V> use_y = normal.y < V(0.5) && normal.y > V(-0.5);
  const Vec3<V> any{V(0), select(use_y, V(1), V(0)), select(use_y, V(0), V(1))};
  tangent = select<V>(given, tangent, any);
  tangent = normalize(tangent - dot(normal, tangent) * normal);
  other = cross(normal, tangent);
}

// table[scale * index + offset] of each lane's own index.
template <class V, class Number>
MANIPLE_FUNCTION V gather(const Number* table, V index, int scale, int offset) {
  ScalarOf<V> values[lane_width<V>];
  for (int lane = 0; lane < lane_width<V>; ++lane)
    values[lane] = static_cast<ScalarOf<V>>(table[static_cast<int>(get_lane(index, lane)) * scale + offset]);
  V result;
  memcpy(&result, values, sizeof(V));
  return result;
}
// The same for words of sets; their bits are kept as they are.
template <class V>
MANIPLE_FUNCTION bits::Integer<V> gather_set(const int* table, V index, int scale, int offset,
                                             MaskOf<V> where) {
  MaskInteger<ScalarOf<V>> words[lane_width<V>];
  for (int lane = 0; lane < lane_width<V>; ++lane) {
    const int word = table[static_cast<int>(get_lane(index, lane)) * scale + offset];
    words[lane] = get_lane(where, lane) ? static_cast<std::uint32_t>(word) : 0;
  }
  bits::Integer<V> result;
  memcpy(&result, words, sizeof(result));
  return result;
}
// The elements that are in the set of some lane.
template <class V>
MANIPLE_FUNCTION std::uint32_t union_of_lanes(bits::Integer<V> set) {
  MaskInteger<ScalarOf<V>> words[lane_width<V>];
  memcpy(words, &set, sizeof(set));
  std::uint32_t all = 0;
  for (int lane = 0; lane < lane_width<V>; ++lane) all |= static_cast<std::uint32_t>(words[lane]);
  return all;
}

// Sliding friction along a tangent of each lane's own geom pair, where it varies: the larger one of both
// geoms', that of the geom with priority, or that of an explicit pair (mj_contactParam). `uniform`: in the
// model, for the kind that does not vary.
template <class V>
MANIPLE_FUNCTION V varied_friction(const LaneModel<V>& lanes, V index, int tangent, V uniform) {
  const V smallest{ScalarOf<V>(kSmallestFriction)};
  const V geom1 = gather(lanes.m.geompair_frictiongeom, index, 2, 0),
          geom2 = gather(lanes.m.geompair_frictiongeom, index, 2, 1);
  V result = uniform;
  if (lanes.m.varied.geom_friction >= 0) {
    const V larger = max(gather_own(lanes.geom_friction(), max(geom1, V(0)), 0),
                         gather_own(lanes.geom_friction(), max(geom2, V(0)), 0));
    result = select(geom1 < V(0), result, max(smallest, larger));
  }
  if (lanes.m.varied.pair_friction >= 0 && lanes.m.npair > 0) {
    const V own = gather_own(lanes.pair_friction(), max(V(-1) - geom1, V(0)), tangent);
    result = select(geom1 < V(0), max(smallest, own), result);
  }
  return result;
}

// Inverse weight of the two bodies of each lane's own geom pair.
template <class V>
MANIPLE_FUNCTION V contact_weight(const LaneModel<V>& lanes, V index) {
  if (lanes.m.varied.body_invweight0 < 0) return gather(lanes.m.geompair_invweight, index, 1, 0);
  const V body1 = gather(lanes.m.geompair_bodyid, index, 2, 0),
          body2 = gather(lanes.m.geompair_bodyid, index, 2, 1);
  return gather_own(lanes.body_invweight0(), body1, 0) + gather_own(lanes.body_invweight0(), body2, 0);
}

// Stiffness, reference and friction of the contacts of a slot. Writes contact_D, and contact_aref but for its
// part from the velocity; D = 0 where there is no contact or none that pushes. `index`: geom pairs. Also
// writes contact_friction and contact_invweight where they vary.
template <class V>
struct SlotParameters {
  V B, friction1, friction2;
  MaskOf<V> active, frictional;
};
template <class V>
MANIPLE_FUNCTION SlotParameters<V> slot_parameters(const Model<ScalarOf<V>>& m, const State<V>& s,
                                                   const Data<V>& d, int slot, MaskOf<V> valid, V index) {
  using T = ScalarOf<V>;
  SlotParameters<V> result{V(0), V(0), V(0), MaskOf<V>(false), MaskOf<V>(false)};
  const LaneModel<V> lanes(m, s);
  const V dist = d.contact_dist[slot], invweight = contact_weight(lanes, index);
  const V kind = gather(m.geompair_class, index, 1, 0);
  V stiffness(0), reference(0);
  for (int c = 0; c < m.ncontactclass; ++c) {
    const V beyond = dist - V(m.contactclass_margin[c]);
    const MaskOf<V> here = valid && kind == V(static_cast<T>(c)) && beyond < V(0);
    if (!any_lane(here)) continue;
    const bool frictional = m.contactclass_condim[c] > 1;
    const V imp = impedance(m.contactclass_solimp + 5 * c, beyond);
    // numbers where the friction is the same in all lanes
    const auto add_friction = [&](auto friction1, auto friction2) MANIPLE_INLINE_LAMBDA {
      using F = decltype(friction1);
      const F square = friction1 * friction1;
      const V weight = frictional ? V(F(T(1)) + square) * invweight : invweight;
      V R = regularization(imp, weight);
      // the edges of a pyramid match the friction impedance of the cone; see the top of this file for
      // contacts without friction
      R *= frictional ? V(F(T(2)) * square / F(m.impratio)) : V(T(4));
      stiffness = select(here, V(1) / R, stiffness);
      result.friction1 = select(here, V(friction1), result.friction1);
      result.friction2 = select(here, V(friction2), result.friction2);
    };
    const T friction1 = m.contactclass_friction[5 * c], friction2 = m.contactclass_friction[5 * c + 1];
    if (frictional && varies_friction(m))
      add_friction(varied_friction(lanes, index, 0, V(friction1)),
                   varied_friction(lanes, index, 1, V(friction2)));
    else
      add_friction(friction1, friction2);
    reference = select(here, V(-m.contactclass_K[c]) * imp * beyond, reference);
    result.B = select(here, V(m.contactclass_B[c]), result.B);
    result.active = result.active || here;
    if (frictional) result.frictional = result.frictional || here;
  }
  if (m.nvariedcontact > 0) {
    d.contact_invweight[slot] = invweight;
    d.contact_friction[2 * slot] = result.friction1;
    d.contact_friction[2 * slot + 1] = result.friction2;
  }
  d.contact_D[slot] = stiffness;
  store_base(d.contact_aref, slot, BaseRows<V>{reference, V(0), V(0)});
  return result;
}

// Calls visit(at, dof, moves1, moves2, motion) for the dofs that move the contact of some lane of `active`,
// or for all if they are few, where column `at` of contact_J is the dof's, which moves geom 1 or 2 in the
// lanes of moves1 or moves2, and `motion` is the velocity of a point of the body at the contact. Writes
// slot_dof and slot_dofnum.
template <class V, class Visit>
MANIPLE_FUNCTION void for_each_dof_of_slot(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot,
                                           MaskOf<V> active, V index, const Visit& visit) {
  using Word = bits::Integer<V>;
  const Vec3<V> pos = load3<V>(d.contact_pos, 3 * slot);
  const int first = slot * m.nv;
  int count = 0, root = -1;
  Vec3<V> arm;  // from the center of mass of the dof's tree
  for (int w = m.ndofword - 1; w >= 0; --w) {
    const Word set1 = gather_set(m.geompair_dofset1, index, m.ndofword, w, active);
    const Word set2 = gather_set(m.geompair_dofset2, index, m.ndofword, w, active);
    std::uint32_t left = m.nv <= kDenseDofs ? (1u << m.nv) - 1u : union_of_lanes<V>(set1 | set2);
    while (left != 0) {
      const int bit = highest_bit(left), dof = 32 * w + bit, at = first + count;
      left ^= 1u << bit;
      d.slot_dof[at] = dof;
      ++count;
      if (m.dof_rootid[dof] != root) {
        root = m.dof_rootid[dof];
        arm = pos - load3<V>(d.subtree_com, 3 * root);
      }
      Vec3<V> motion = load3<V>(d.cdof, 6 * dof + 3);
      if (!m.dof_translation[dof]) motion = motion + cross(load3<V>(d.cdof, 6 * dof), arm);
      const Word mark = Word{} + static_cast<MaskInteger<ScalarOf<V>>>(1u << bit);
      visit(at, dof, bits::any_bit<V>(set1 & mark), bits::any_bit<V>(set2 & mark), motion);
    }
  }
  d.slot_dofnum[slot] = count;
}

// Base rows of the Jacobian of a slot: slot_dofnum, slot_dof, contact_J, and which of its tangents differ
// from zero: slot_tangents. Zero in lanes whose contact the dof does not move.
template <class V>
MANIPLE_FUNCTION void slot_jacobian(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot,
                                    const SlotParameters<V>& parameters, V index) {
  const Vec3<V> normal = load3<V>(d.contact_frame, 6 * slot);
  const bool frictionless = !any_lane(parameters.frictional);
  Vec3<V> tangent = load3<V>(d.contact_frame, 6 * slot + 3), other;
  if (!frictionless) contact_tangents(normal, tangent, other);
  MaskOf<V> tangent_moves(false), other_moves(false);
  for_each_dof_of_slot(
      m, d, slot, parameters.active, index,
      [&](int at, int, MaskOf<V> moves1, MaskOf<V> moves2, const Vec3<V>& motion) MANIPLE_INLINE_LAMBDA {
        const auto entry = [&](const Vec3<V>& axis) {
          const V value = dot(axis, motion);
          return select(moves2, value, select(moves1, -value, V(0)));
        };
        d.contact_J[3 * at] = entry(normal);
        if (frictionless) return;
        const V t = parameters.friction1 * entry(tangent), u = parameters.friction2 * entry(other);
        d.contact_J[3 * at + 1] = t;
        d.contact_J[3 * at + 2] = u;
        tangent_moves = tangent_moves || t != V(0);
        other_moves = other_moves || u != V(0);
      });
  d.slot_tangents[slot] = (any_lane(tangent_moves) ? 1 : 0) | (any_lane(other_moves) ? 2 : 0);
}

// Slots in use: the most contacts of a lane.
template <class V>
MANIPLE_FUNCTION int contact_slots(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  return m.ngeompair == 0 ? 0 : static_cast<int>(max_lane(V(d.ncon[0])));
}

// All rows of contacts, but for those of ConeRows. Returns the number of slots in use. Adds to nefc.
template <class V>
MANIPLE_FUNCTION int contact_rows(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  if (m.ncone > 0) return 0;
  const int slots = contact_slots(m, d);
  V rows(0);  // of this member's slots
  for (const int slot : d.team.share(slots)) {
    const MaskOf<V> valid = d.ncon[0] > V(static_cast<ScalarOf<V>>(slot));
    const V index = select(valid, V(d.contact_geompair[slot]), V(0));
    const SlotParameters<V> parameters = slot_parameters(m, s, d, slot, valid, index);
    rows += select(parameters.frictional, V(4), select(parameters.active, V(1), V(0)));
    slot_jacobian(m, d, slot, parameters, index);
    const BaseRows<V> velocity = contact_jacobian_times(m, d, slot, s.qvel);
    BaseRows<V> aref = load_base<V>(d.contact_aref, slot);
    aref.n -= parameters.B * velocity.n;
    aref.t -= parameters.B * velocity.t;
    aref.u -= parameters.B * velocity.u;
    store_base(d.contact_aref, slot, aref);
  }
  const V all_rows = d.team.total(rows);
  d.team.once([&] { d.nefc[0] += all_rows; });
  return slots;
}

// Which lanes have a contact in a slot, and of which geom pairs.
template <class V>
struct SlotContacts {
  MaskOf<V> active;
  V geompair;
};
template <class V>
MANIPLE_FUNCTION SlotContacts<V> slot_contacts(const Data<V>& d, int slot) {
  // no contact of this environment pushes, or there is none in this slot
  const MaskOf<V> active = d.ncon[0] > V(static_cast<ScalarOf<V>>(slot)) && d.contact_D[slot] > V(0);
  return {active, select(active, V(d.contact_geompair[slot]), V(0))};
}

// Friction coefficient i of a slot's contacts, one for each base row after the normal.
template <class V>
MANIPLE_FUNCTION V contact_friction(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot,
                                    const SlotContacts<V>& contacts, int i) {
  if (m.nvariedcontact > 0 && i < 2) return d.contact_friction[2 * slot + i];
  return gather(m.contactclass_friction, max(gather(m.geompair_class, contacts.geompair, 1, 0), V(0)), 5, i);
}

// Calls visit(tree) for the trees of both geoms of a lane's contact in a slot.
template <class V, class Visit>
MANIPLE_FUNCTION void for_each_tree_of_contact(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot,
                                               int lane, const Visit& visit) {
  const int geompair = static_cast<int>(lane_element(d.contact_geompair, slot, lane));
  for (int side = 0; side < 2; ++side) {
    const int tree = m.body_treeid[m.geompair_bodyid[2 * geompair + side]];
    if (tree >= 0) visit(tree);
  }
}

// The axes of the base rows of a slot's contacts: the normal, and both tangents times the friction along
// them. Undefined in lanes without a contact.
template <class V>
struct ContactAxes {
  Vec3<V> normal, tangent, other;
};
template <class V>
MANIPLE_FUNCTION ContactAxes<V> contact_axes(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot,
                                             const SlotContacts<V>& contacts) {
  const Vec3<V> normal = load3<V>(d.contact_frame, 6 * slot);
  Vec3<V> tangent = load3<V>(d.contact_frame, 6 * slot + 3), other;
  contact_tangents(normal, tangent, other);
  return {normal, contact_friction(m, d, slot, contacts, 0) * tangent,
          contact_friction(m, d, slot, contacts, 1) * other};
}

}  // namespace maniple
