// The contact sensor (mjSENS_CONTACT): numbers about the contacts of two objects, the nearest or strongest
// ones first, or of all of them together. Which geom pairs concern a sensor, and which way its contacts then
// point, follows from the model: sensor_contactmatch.
#pragma once

#include "kernels/model/sensor_types.hpp"
#include "kernels/physics/constraint/contact_force.hpp"
#include "kernels/physics/smooth/motion.hpp"

namespace maniple {

// mjtConDataField, as bits of the first of a sensor's sensor_intprm, and what the second says.
enum ContactSensorData : int {
  contact_data_found = 1,
  contact_data_force = 2,
  contact_data_torque = 4,
  contact_data_dist = 8,
  contact_data_pos = 16,
  contact_data_normal = 32,
  contact_data_tangent = 64
};
enum ContactSensorReduce : int {
  reduce_none = 0,
  reduce_mindist = 1,
  reduce_maxforce = 2,
  reduce_netforce = 3
};

// Whether a point is inside of a shape with this frame (mju_insideGeom).
template <class V>
MANIPLE_FUNCTION MaskOf<V> is_inside(int type, const ScalarOf<V>* size, const Frame<V>& frame,
                                     const Vec3<V>& point) {
  const Vec3<V> p = matrix(conjugate(frame.quat)) * (point - frame.pos);
  const V a(size[0]), b(size[1]), c(size[2]);
  switch (type) {
    case geom_sphere:
      return dot(p, p) < a * a;
    case geom_capsule: {
      const V z = p.z - clamp(p.z, -b, b);
      return p.x * p.x + p.y * p.y + z * z < a * a;
    }
    case geom_ellipsoid:
      return p.x * p.x / (a * a) + p.y * p.y / (b * b) + p.z * p.z / (c * c) < V(1);
    case geom_cylinder:
      return abs(p.z) < b && p.x * p.x + p.y * p.y < a * a;
    case geom_box:
      return abs(p.x) < a && abs(p.y) < b && abs(p.z) < c;
    default:
      return MaskOf<V>(false);
  }
}

// The contacts of a slot, as a sensor reads them: in the axes of the contact, force and torque on geom 2.
template <class V>
struct SensedContact {
  V sign;  // -1: the contact looks the other way; 0: it does not concern the sensor
  V dist;
  Vec3<V> pos, normal, tangent, other, force, torque;
};
template <class V>
MANIPLE_STAGE SensedContact<V> sensed_contact(const Model<ScalarOf<V>>& m, const State<V>& s,
                                              const Data<V>& d, int i, int slot) {
  using T = ScalarOf<V>;
  const MaskOf<V> listed = d.ncon[0] > V(static_cast<T>(slot));
  const V geompair = select(listed, V(d.contact_geompair[slot]), V(0));
  SensedContact<V> contact;
  contact.sign = select(
      listed, gather<V>(m.sensor_contactmatch + m.sensor_contactid[i] * m.ngeompair, geompair, 1, 0), V(0));
  contact.dist = d.contact_dist[slot];
  contact.pos = load3<V>(d.contact_pos, 3 * slot);
  contact.normal = load3<V>(d.contact_frame, 6 * slot);
  contact.tangent = load3<V>(d.contact_frame, 6 * slot + 3);
  contact_tangents(contact.normal, contact.tangent, contact.other);
  if (m.sensor_objtype[i] == object_site) {
    const int site = m.sensor_objid[i];
    const Frame<V> frame = sensor_frame(m, s, d, i);
    const MaskOf<V> inside = is_inside(m.site_type[site], m.site_size + 3 * site, frame, contact.pos);
    contact.sign = select(inside, contact.sign, V(0));
  }
  const Spatial<V> wrench = contact_wrench_on_geom2(m, d, slot, slot_contacts(d, slot));
  const auto along = [&](const Vec3<V>& v) {
    return Vec3<V>{dot(v, contact.normal), dot(v, contact.tangent), dot(v, contact.other)};
  };
  contact.force = along(wrench.lin);
  contact.torque = along(wrench.rot);
  return contact;
}

// Writes the parts of a contact that the sensor is asked for, in the lanes of a mask.
template <class V>
MANIPLE_FUNCTION void write_contact(const Data<V>& d, int adr, int parts, MaskOf<V> where, V found,
                                    const SensedContact<V>& contact) {
  int at = adr;
  const auto number = [&](int part, V value) {
    if (!(parts & part)) return;
    d.sensordata[at] = select(where, value, V(d.sensordata[at]));
    ++at;
  };
  const auto vector = [&](int part, const Vec3<V>& value) {
    number(part, value.x);
    number(part, value.y);
    number(part, value.z);
  };
  number(contact_data_found, found);
  vector(contact_data_force, contact.force);
  vector(contact_data_torque, contact.torque);
  number(contact_data_dist, contact.dist);
  vector(contact_data_pos, contact.pos);
  vector(contact_data_normal, contact.normal);
  vector(contact_data_tangent, contact.tangent);
}

// Force and torque of all contacts about the middle of their points, weighted by force, in the world's axes.
template <class V>
MANIPLE_FUNCTION void sense_net_contact(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                        int i, int slots) {
  V found(0), weights(0);
  SensedContact<V> net{V(1), V(0), zero3<V>(), zero3<V>(), zero3<V>(), zero3<V>(), zero3<V>(), zero3<V>()};
  for (int slot = 0; slot < slots; ++slot) {
    const SensedContact<V> contact = sensed_contact(m, s, d, i, slot);
    const MaskOf<V> matches = contact.sign != V(0);
    const V weight = select(matches, sqrt(dot(contact.force, contact.force)), V(0));
    found += select(matches, V(1), V(0));
    weights += weight;
    net.pos = net.pos + weight * select<V>(matches, contact.pos, zero3<V>());
  }
  net.pos = (V(1) / max(weights, V(kMinimumValue))) * net.pos;
  net.normal.x = net.tangent.y = min(found, V(1));
  for (int slot = 0; slot < slots; ++slot) {
    const SensedContact<V> contact = sensed_contact(m, s, d, i, slot);
    const auto turned = [&](const Vec3<V>& v) {
      return contact.sign * (v.x * contact.normal + v.y * contact.tangent + v.z * contact.other);
    };
    const Vec3<V> force = turned(contact.force),
                  torque = turned(contact.torque) + cross(contact.pos - net.pos, force);
    const MaskOf<V> matches = contact.sign != V(0);
    net.force = net.force + select<V>(matches, force, zero3<V>());
    net.torque = net.torque + select<V>(matches, torque, zero3<V>());
  }
  write_contact(d, m.sensor_adr[i], m.sensor_intprm[kSensorParameters * i], MaskOf<V>(true), found, net);
}

// Writes the sensordata of contact sensor i.
template <class V>
MANIPLE_STAGE void sense_contacts(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i) {
  using T = ScalarOf<V>;
  const int parts = m.sensor_intprm[kSensorParameters * i],
            reduce = m.sensor_intprm[kSensorParameters * i + 1];
  const int slots = contact_slots(m, d), first = m.sensor_adr[i], last = first + m.sensor_dim[i];
  for (int k = first; k < last; ++k) d.sensordata[k] = V(0);
  if (reduce == reduce_netforce) return sense_net_contact(m, s, d, i, slots);
  constexpr int kSizes[] = {1, 3, 3, 1, 3, 3, 3};
  int size = 0;
  for (int part = 0; part < 7; ++part) size += parts & (1 << part) ? kSizes[part] : 0;
  // contacts in the order of this number, and of the list where it is the same
  const auto criterion = [&](const SensedContact<V>& contact) {
    if (reduce == reduce_mindist) return contact.dist;
    if (reduce == reduce_maxforce)
      return -(dot(contact.force, contact.force) + dot(contact.torque, contact.torque));
    return V(0);
  };
  V found(0), criterion_before(-kUnbounded), slot_before(-1);
  for (int slot = 0; slot < slots; ++slot)
    found += select(sensed_contact(m, s, d, i, slot).sign != V(0), V(1), V(0));
  for (int at = first; at < last; at += size) {
    V best(kUnbounded), best_slot(-1);
    for (int slot = 0; slot < slots; ++slot) {
      const SensedContact<V> contact = sensed_contact(m, s, d, i, slot);
      const V value = criterion(contact), number(static_cast<T>(slot));
      const MaskOf<V> later = value > criterion_before || (value == criterion_before && number > slot_before);
      const MaskOf<V> better = contact.sign != V(0) && later && value < best;
      best = select(better, value, best);
      best_slot = select(better, number, best_slot);
    }
    if (!any_lane(best_slot >= V(0))) return;
    for (int slot = 0; slot < slots; ++slot) {
      const MaskOf<V> here = best_slot == V(static_cast<T>(slot));
      if (!any_lane(here)) continue;
      SensedContact<V> contact = sensed_contact(m, s, d, i, slot);
      contact.normal = contact.sign * contact.normal;
      contact.tangent = contact.sign * contact.tangent;
      contact.force.z *= contact.sign;
      contact.torque.z *= contact.sign;
      write_contact(d, at, parts, here, found, contact);
    }
    // lanes without another contact look for one beyond all
    criterion_before = select(best_slot >= V(0), best, V(kUnbounded));
    slot_before = best_slot;
  }
}

}  // namespace maniple
