// Sensors and their cutoff (engine_sensor.c): of joints, tendons and actuators, of frames on bodies, of
// subtrees, and the clock. MuJoCo evaluates a sensor in the stage that computes what it reads. The sensors of
// each row of MANIPLE_SENSOR_TYPES have a function here, which returns the reading of sensor i.
#pragma once

#include "kernels/model/sensor_types.hpp"
#include "kernels/physics/sensor/contact_sensor.hpp"
#include "kernels/physics/sensor/distance_sensor.hpp"
#include "kernels/physics/sensor/energy.hpp"
#include "kernels/physics/sensor/post_constraint.hpp"
#include "kernels/physics/sensor/rangefinder.hpp"
#include "kernels/physics/sensor/sensor_history.hpp"
#include "kernels/physics/sensor/subtree.hpp"
#include "kernels/physics/smooth/motion.hpp"
#include "kernels/physics/smooth/transmission.hpp"

namespace maniple {

// Of joints, tendons and actuators.
template <class V>
MANIPLE_FUNCTION V jointpos_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>&, int i) {
  return s.qpos[m.jnt_qposadr[m.sensor_objid[i]]];
}
template <class V>
MANIPLE_FUNCTION V jointvel_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>&, int i) {
  return s.qvel[m.jnt_dofadr[m.sensor_objid[i]]];
}
template <class V>
MANIPLE_FUNCTION Quat<V> ballquat_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>&,
                                         int i) {
  return normalize(load4<V>(s.qpos, m.jnt_qposadr[m.sensor_objid[i]]));
}
template <class V>
MANIPLE_FUNCTION Vec3<V> ballangvel_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>&,
                                           int i) {
  return load3<V>(s.qvel, m.jnt_dofadr[m.sensor_objid[i]]);
}
template <class V>
MANIPLE_FUNCTION V tendonpos_sensor(const Model<ScalarOf<V>>& m, const State<V>&, const Data<V>& d, int i) {
  return d.ten_length[m.sensor_objid[i]];
}
template <class V>
MANIPLE_FUNCTION V tendonvel_sensor(const Model<ScalarOf<V>>& m, const State<V>&, const Data<V>& d, int i) {
  return d.ten_velocity[m.sensor_objid[i]];
}
template <class V>
MANIPLE_FUNCTION V actuatorpos_sensor(const Model<ScalarOf<V>>& m, const State<V>&, const Data<V>& d, int i) {
  return d.actuator_length[m.sensor_objid[i]];
}
template <class V>
MANIPLE_FUNCTION V actuatorvel_sensor(const Model<ScalarOf<V>>& m, const State<V>&, const Data<V>& d, int i) {
  return d.actuator_velocity[m.sensor_objid[i]];
}
template <class V>
MANIPLE_FUNCTION V actuatorfrc_sensor(const Model<ScalarOf<V>>& m, const State<V>&, const Data<V>& d, int i) {
  return d.actuator_force[m.sensor_objid[i]];
}
template <class V>
MANIPLE_FUNCTION V jointactuatorfrc_sensor(const Model<ScalarOf<V>>& m, const State<V>&, const Data<V>& d,
                                           int i) {
  return d.qfrc_actuator[m.jnt_dofadr[m.sensor_objid[i]]];
}
template <class V>
MANIPLE_FUNCTION V tendonactuatorfrc_sensor(const Model<ScalarOf<V>>& m, const State<V>&, const Data<V>& d,
                                            int i) {
  V force(0);
  for (int k = 0; k < m.nactuator; ++k)
    if (is_on_tendon(m, k, m.sensor_objid[i])) force += d.actuator_force[k];
  return force;
}

// value(row, motion) of the first limit that acts on the joint or tendon of sensor i, else 0.
template <class V, class Value>
MANIPLE_FUNCTION V of_first_limit(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i,
                                  const Value& value) {
  const int object = m.sensor_objid[i];
  const bool of_tendon = m.sensor_objtype[i] == object_tendon;
  V reading(0);
  MaskOf<V> found(false);
  for (int r = 0; r < m.nlimit; ++r) {
    if (of_tendon ? m.limit_tendonid[r] != object
                  : m.limit_tendonid[r] >= 0 || m.limit_dofid[r] != m.jnt_dofadr[object])
      continue;
    const LimitMotion<V> motion = limit_motion(m, s, d, r);
    const MaskOf<V> first = motion.acts && !found;
    if (!any_lane(first)) continue;
    reading = select(first, value(r, motion), reading);
    found = found || first;
  }
  return reading;
}
template <class V>
MANIPLE_FUNCTION V jointlimitpos_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                        int i) {
  return of_first_limit(m, s, d, i, [](int, const LimitMotion<V>& motion) { return motion.beyond; });
}
template <class V>
MANIPLE_FUNCTION V jointlimitvel_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                        int i) {
  return of_first_limit(m, s, d, i, [](int, const LimitMotion<V>& motion) { return motion.velocity; });
}
template <class V>
MANIPLE_FUNCTION V jointlimitfrc_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                        int i) {
  return of_first_limit(m, s, d, i, [&](int r, const LimitMotion<V>&) { return limit_force(m, d, r); });
}
template <class V>
MANIPLE_FUNCTION V tendonlimitpos_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                         int i) {
  return jointlimitpos_sensor(m, s, d, i);
}
template <class V>
MANIPLE_FUNCTION V tendonlimitvel_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                         int i) {
  return jointlimitvel_sensor(m, s, d, i);
}
template <class V>
MANIPLE_FUNCTION V tendonlimitfrc_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                         int i) {
  return jointlimitfrc_sensor(m, s, d, i);
}

// The frame of sensor i, in the reference frame if there is one.
template <class V>
MANIPLE_STAGE Frame<V> relative_frame(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                      int i) {
  const Frame<V> frame = sensor_frame(m, s, d, i);
  if (m.sensor_refbodyid[i] < 0) return frame;
  const Frame<V> reference = sensor_reference(m, s, d, i);
  const Quat<V> inverse = conjugate(reference.quat);
  return {matrix(inverse) * (frame.pos - reference.pos), inverse * frame.quat};
}

// The magnetic flux in the frame of the site.
template <class V>
MANIPLE_FUNCTION Vec3<V> magnetometer_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                             int i) {
  const Vec3<V> magnetic{V(m.magnetic[0]), V(m.magnetic[1]), V(m.magnetic[2])};
  return matrix(conjugate(sensor_frame(m, s, d, i).quat)) * magnetic;
}

// A reading that is in sensordata already.
struct WrittenReading {};

// Where the site is in the picture of the camera [pixels from the lower left].
template <class V>
MANIPLE_FUNCTION WrittenReading camprojection_sensor(const Model<ScalarOf<V>>& m, const State<V>& s,
                                                     const Data<V>& d, int i) {
  const Frame<V> camera = sensor_reference(m, s, d, i);
  const Vec3<V> seen = matrix(conjugate(camera.quat)) * (sensor_frame(m, s, d, i).pos - camera.pos);
  const V least(kMinimumValue);
  const V depth = select(seen.z < V(0), min(seen.z, -least), max(seen.z, least));
  const ScalarOf<V>* const projection = m.sensor_projection + 4 * i;
  d.sensordata[m.sensor_adr[i]] = V(projection[2]) - V(projection[0]) * (seen.x / depth);
  d.sensordata[m.sensor_adr[i] + 1] = V(projection[3]) + V(projection[1]) * (seen.y / depth);
  return {};
}

// Position, orientation or an axis of a frame.
template <class V>
MANIPLE_FUNCTION Vec3<V> framepos_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                         int i) {
  return relative_frame(m, s, d, i).pos;
}
template <class V>
MANIPLE_FUNCTION Quat<V> framequat_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                          int i) {
  return relative_frame(m, s, d, i).quat;
}
template <class V>
MANIPLE_FUNCTION Vec3<V> framexaxis_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                           int i) {
  return matrix(relative_frame(m, s, d, i).quat).column_x();
}
template <class V>
MANIPLE_FUNCTION Vec3<V> frameyaxis_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                           int i) {
  return matrix(relative_frame(m, s, d, i).quat).column_y();
}
template <class V>
MANIPLE_FUNCTION Vec3<V> framezaxis_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                           int i) {
  return matrix(relative_frame(m, s, d, i).quat).column_z();
}

// Velocity of the frame of sensor i, in the world's axes.
template <class V>
MANIPLE_FUNCTION Spatial<V> frame_velocity(const Model<ScalarOf<V>>& m, const Data<V>& d, int i,
                                           const Frame<V>& frame) {
  const int body = m.sensor_bodyid[i];
  return velocity_at(m, d, body, from_tree_center(m, d, body, frame.pos));
}
// The same in the frame itself.
template <class V>
MANIPLE_STAGE Spatial<V> own_velocity(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                      int i) {
  const Frame<V> frame = sensor_frame(m, s, d, i);
  const Spatial<V> velocity = frame_velocity(m, d, i, frame);
  const Mat3<V> inverse = matrix(conjugate(frame.quat));
  return {inverse * velocity.rot, inverse * velocity.lin};
}
// The same as seen from the moving reference frame and in its axes, if there is one.
template <class V>
MANIPLE_STAGE Spatial<V> relative_velocity(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                           int i) {
  const int reference_body = m.sensor_refbodyid[i];
  const Frame<V> frame = sensor_frame(m, s, d, i);
  const Spatial<V> velocity = frame_velocity(m, d, i, frame);
  if (reference_body < 0) return velocity;
  const Frame<V> reference = sensor_reference(m, s, d, i);
  const Spatial<V> moving =
      velocity_at(m, d, reference_body, from_tree_center(m, d, reference_body, reference.pos));
  const Mat3<V> inverse = matrix(conjugate(reference.quat));
  const Vec3<V> carried = cross(moving.rot, frame.pos - reference.pos);
  return {inverse * (velocity.rot - moving.rot), inverse * (velocity.lin - moving.lin - carried)};
}
template <class V>
MANIPLE_FUNCTION Vec3<V> velocimeter_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                            int i) {
  return own_velocity(m, s, d, i).lin;
}
template <class V>
MANIPLE_FUNCTION Vec3<V> gyro_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                     int i) {
  return own_velocity(m, s, d, i).rot;
}
template <class V>
MANIPLE_FUNCTION Vec3<V> framelinvel_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                            int i) {
  return relative_velocity(m, s, d, i).lin;
}
template <class V>
MANIPLE_FUNCTION Vec3<V> frameangvel_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                            int i) {
  return relative_velocity(m, s, d, i).rot;
}

// Acceleration of the frame of sensor i, in the world's axes.
template <class V>
MANIPLE_STAGE Spatial<V> frame_acceleration(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                            int i) {
  const int body = m.sensor_bodyid[i];
  return acceleration_at(m, d, body, from_tree_center(m, d, body, sensor_frame(m, s, d, i).pos));
}
// Torque and force between the body of sensor i and its parent, about the sensor's frame and in its axes.
template <class V>
MANIPLE_STAGE Spatial<V> interaction_force(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                           int i) {
  const int body = m.sensor_bodyid[i];
  const Frame<V> frame = sensor_frame(m, s, d, i);
  const Vec3<V> offset = from_tree_center(m, d, body, frame.pos);
  const Spatial<V> force = load6<V>(d.cfrc_int, 6 * body);
  const Mat3<V> inverse = matrix(conjugate(frame.quat));
  return {inverse * (force.rot - cross(offset, force.lin)), inverse * force.lin};
}
template <class V>
MANIPLE_FUNCTION Vec3<V> accelerometer_sensor(const Model<ScalarOf<V>>& m, const State<V>& s,
                                              const Data<V>& d, int i) {
  return matrix(conjugate(sensor_frame(m, s, d, i).quat)) * frame_acceleration(m, s, d, i).lin;
}
template <class V>
MANIPLE_FUNCTION Vec3<V> framelinacc_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                            int i) {
  return frame_acceleration(m, s, d, i).lin;
}
template <class V>
MANIPLE_FUNCTION Vec3<V> frameangacc_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                            int i) {
  return frame_acceleration(m, s, d, i).rot;
}
template <class V>
MANIPLE_FUNCTION Vec3<V> force_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                      int i) {
  return interaction_force(m, s, d, i).lin;
}
template <class V>
MANIPLE_FUNCTION Vec3<V> torque_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                       int i) {
  return interaction_force(m, s, d, i).rot;
}

// Of subtrees, of contacts, and the time.
template <class V>
MANIPLE_FUNCTION Vec3<V> subtreecom_sensor(const Model<ScalarOf<V>>& m, const State<V>&, const Data<V>& d,
                                           int i) {
  return load3<V>(d.subtree_com, 3 * m.sensor_objid[i]);
}
template <class V>
MANIPLE_FUNCTION Vec3<V> subtreelinvel_sensor(const Model<ScalarOf<V>>& m, const State<V>&, const Data<V>& d,
                                              int i) {
  return load3<V>(d.subtree_linvel, 3 * m.sensor_objid[i]);
}
template <class V>
MANIPLE_FUNCTION Vec3<V> subtreeangmom_sensor(const Model<ScalarOf<V>>& m, const State<V>&, const Data<V>& d,
                                              int i) {
  return load3<V>(d.subtree_angmom, 3 * m.sensor_objid[i]);
}
template <class V>
MANIPLE_FUNCTION V touch_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i) {
  return touching_force(m, s, d, i);
}
template <class V>
MANIPLE_FUNCTION V insidesite_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                     int i) {
  const int site = m.sensor_refid[i], body = m.sensor_objid[i];
  // a body without mass of its own is where those below it are
  const bool of_subtree = m.sensor_objtype[i] == object_body && body > 0 &&
                          m.body_mass[body] < ScalarOf<V>(kMinimumValue) &&
                          m.body_subtreemass[body] >= ScalarOf<V>(kMinimumValue);
  const Vec3<V> pos = of_subtree ? load3<V>(d.subtree_com, 3 * body) : sensor_frame(m, s, d, i).pos;
  return select(is_inside(m.site_type[site], m.site_size + 3 * site, sensor_reference(m, s, d, i), pos), V(1),
                V(0));
}
template <class V>
MANIPLE_FUNCTION WrittenReading contact_sensor(const Model<ScalarOf<V>>& m, const State<V>& s,
                                               const Data<V>& d, int i) {
  sense_contacts(m, s, d, i);
  return {};
}
template <class V>
MANIPLE_FUNCTION WrittenReading rangefinder_sensor(const Model<ScalarOf<V>>& m, const State<V>& s,
                                                   const Data<V>& d, int i) {
  sense_ray(m, s, d, i);
  return {};
}
template <class V>
MANIPLE_FUNCTION V distance_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i) {
  return shortest_segment(m, s, d, i).dist;
}
template <class V>
MANIPLE_FUNCTION Vec3<V> normal_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                       int i) {
  const Segment<V> segment = shortest_segment(m, s, d, i);
  const Vec3<V> way = segment.to - segment.from;
  const V square = dot(way, way);
  const V scale = V(1) / sqrt(select(square > V(0), square, V(1)));
  return scale * way;
}
template <class V>
MANIPLE_FUNCTION WrittenReading fromto_sensor(const Model<ScalarOf<V>>& m, const State<V>& s,
                                              const Data<V>& d, int i) {
  const Segment<V> segment = shortest_segment(m, s, d, i);
  store3(d.sensordata, m.sensor_adr[i], segment.from);
  store3(d.sensordata, m.sensor_adr[i] + 3, segment.to);
  return {};
}
template <class V>
MANIPLE_FUNCTION V e_potential_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int) {
  return potential_energy(m, s, d);
}
template <class V>
MANIPLE_FUNCTION V e_kinetic_sensor(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int) {
  return kinetic_energy(m, s, d);
}
template <class V>
MANIPLE_FUNCTION V clock_sensor(const Model<ScalarOf<V>>&, const State<V>& s, const Data<V>&, int) {
  return s.time[0];
}

// Writes a reading, whose size is the table's, to sensordata from element `adr` on.
template <int kSize, class V>
MANIPLE_FUNCTION void write_reading(const Data<V>& d, int adr, const V& reading) {
  static_assert(kSize == 1);
  d.sensordata[adr] = reading;
}
template <int kSize, class V>
MANIPLE_FUNCTION void write_reading(const Data<V>& d, int adr, const Vec3<V>& reading) {
  static_assert(kSize == 3);
  store3(d.sensordata, adr, reading);
}
template <int kSize, class V>
MANIPLE_FUNCTION void write_reading(const Data<V>& d, int adr, const Quat<V>& reading) {
  static_assert(kSize == 4);
  store4(d.sensordata, adr, reading);
}

template <int kSize, class V>
MANIPLE_FUNCTION void write_reading(const Data<V>&, int, WrittenReading) {
  static_assert(kSize == 0);
}

template <class V>
MANIPLE_FUNCTION void cut_off(const Model<ScalarOf<V>>& m, const Data<V>& d, int i) {
  const V cutoff(m.sensor_cutoff[i]);
  const int type = m.sensor_datatype[i];
  for (int k = m.sensor_adr[i], end = k + m.sensor_dim[i]; k < end; ++k) {
    if (type == data_real) d.sensordata[k] = clamp(V(d.sensordata[k]), -cutoff, cutoff);
    if (type == data_positive) d.sensordata[k] = min(cutoff, V(d.sensordata[k]));
  }
}

// Writes the sensordata of sensor i, of the present.
template <class V>
MANIPLE_STAGE void sense(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i) {
  switch (m.sensor_type[i]) {
#define MANIPLE_ROW(name, mujoco, value, stage, size, needs)                  \
  case sensor_##name:                                                         \
    write_reading<size, V>(d, m.sensor_adr[i], name##_sensor<V>(m, s, d, i)); \
    break;
    MANIPLE_SENSOR_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  const bool has_own_cutoff = m.sensor_type[i] == sensor_contact || m.sensor_type[i] == sensor_fromto;
  if (m.sensor_cutoff[i] > 0 && !has_own_cutoff) cut_off(m, d, i);
}

// The same, with a delay or an interval of what it remembers.
template <class V>
MANIPLE_FUNCTION void sense_or_remember(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                        int i) {
  using T = ScalarOf<V>;
  if (m.sensor_historyadr[i] < 0) return sense(m, s, d, i);
  const SensorHistory<V> history(m, s, i);
  const T back = m.sensor_delaysteps[i];
  const MaskOf<V> present = back > 0 ? MaskOf<V>(false) : is_due(m, history, i);
  if (any_lane(present)) sense(m, s, d, i);
  for (int k = 0; k < history.dim; ++k) {
    V& reading = d.sensordata[m.sensor_adr[i] + k];
    reading = select(present, reading, history.at(back, k));
  }
}

// At the end of a time step: what sensors with a delay or an interval go on to remember, the part of
// mj_advance about them. sensordata keeps what it has.
template <class V>
MANIPLE_STAGE void remember_readings(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  if (!(m.flags & model_sensors)) return;
  for (int i = 0; i < m.nsensor; ++i) {
    if (m.sensor_historyadr[i] < 0) continue;
    const SensorHistory<V> history(m, s, i);
    const MaskOf<V> due = is_due(m, history, i);
    const int adr = m.sensor_adr[i];
    if (any_lane(due)) {
      const bool delayed = m.sensor_delaysteps[i] > 0;
      for (int k = 0; delayed && k < history.dim; ++k) d.sensordata_kept[k] = d.sensordata[adr + k];
      if (delayed) sense(m, s, d, i);
      history.make_room(due);
      for (int k = 0; k < history.dim; ++k) {
        V& newest = history.reading(history.count - 1, k);
        newest = select(due, V(d.sensordata[adr + k]), newest);
        if (delayed) d.sensordata[adr + k] = d.sensordata_kept[k];
      }
    }
    for (int sample = 0; sample < history.count; ++sample) history.age(sample) += V(1);
    history.wait() += select(due, V(m.sensor_intervalsteps[i]), V(0)) - V(1);
  }
}

// Sensors of positions and velocities can be read before the forces are known.
enum class SensorPass { positions_and_velocities, accelerations };

// Writes the sensordata of one pass, and before that the fields that sensors alone read.
template <class V>
MANIPLE_SUBSTAGE void sensors(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                              SensorPass pass) {
  if (!(m.flags & model_sensors)) {
    for (int i = 0; i < m.nsensordata; ++i) d.sensordata[i] = V(0);
    return;
  }
  const bool accelerations = pass == SensorPass::accelerations;
  if (!accelerations && (m.flags & model_subtree_sensors)) subtree_velocities(m, s, d);
  if (accelerations && (m.flags & model_force_sensors)) {
    external_forces(m, s, d);
    internal_forces(m, s, d);
  }
  for (int i = 0; i < m.nsensor; ++i)
    if ((sensor_stage(m.sensor_type[i]) == SensorStage::acceleration) == accelerations)
      sense_or_remember(m, s, d, i);
}

}  // namespace maniple
