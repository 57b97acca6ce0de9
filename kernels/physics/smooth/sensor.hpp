// Sensors and their cutoff (engine_sensor.c): of joints, tendons and actuators, of frames on bodies, of
// subtrees, and the clock. MuJoCo evaluates a sensor in the stage that computes what it reads.
#pragma once

#include "kernels/physics/smooth/center_of_mass.hpp"
#include "kernels/physics/smooth/motion.hpp"
#include "kernels/physics/smooth/post_constraint.hpp"
#include "kernels/physics/smooth/subtree.hpp"

namespace maniple {

enum class SensorStage { position_and_velocity, acceleration };

// Does a sensor of this type read accelerations or forces.
MANIPLE_FUNCTION bool reads_forces(int type) {
  switch (type) {
    case sensor_touch:
    case sensor_accelerometer:
    case sensor_force:
    case sensor_torque:
    case sensor_actuatorfrc:
    case sensor_jointactuatorfrc:
    case sensor_tendonactuatorfrc:
    case sensor_framelinacc:
    case sensor_frameangacc:
      return true;
    default:
      return false;
  }
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

// Where the frame of sensor i is.
template <class V>
MANIPLE_FUNCTION Frame<V> sensor_frame(const Model<ScalarOf<V>>& m, const Data<V>& d, int i) {
  return frame_on_body(d, m.sensor_bodyid[i], m.sensor_pos + 3 * i, m.sensor_quat + 4 * i);
}
template <class V>
MANIPLE_FUNCTION Frame<V> sensor_reference(const Model<ScalarOf<V>>& m, const Data<V>& d, int i) {
  return frame_on_body(d, m.sensor_refbodyid[i], m.sensor_refpos + 3 * i, m.sensor_refquat + 4 * i);
}

// Position, orientation or an axis of a frame, in the reference frame if there is one.
template <class V>
MANIPLE_FUNCTION void frame_pose_sensor(const Model<ScalarOf<V>>& m, const Data<V>& d, int i) {
  const int type = m.sensor_type[i], adr = m.sensor_adr[i];
  const bool relative = m.sensor_refbodyid[i] >= 0;
  Frame<V> frame = sensor_frame(m, d, i);
  if (relative) {
    const Frame<V> reference = sensor_reference(m, d, i);
    const Quat<V> inverse = conjugate(reference.quat);
    frame = {matrix(inverse) * (frame.pos - reference.pos), inverse * frame.quat};
  }
  if (type == sensor_framepos)
    store3(d.sensordata, adr, frame.pos);
  else if (type == sensor_framequat)
    store4(d.sensordata, adr, frame.quat);
  else if (type == sensor_framexaxis)
    store3(d.sensordata, adr, matrix(frame.quat).column_x());
  else if (type == sensor_frameyaxis)
    store3(d.sensordata, adr, matrix(frame.quat).column_y());
  else
    store3(d.sensordata, adr, matrix(frame.quat).column_z());
}

// Velocity of a frame: in the frame itself (velocimeter, gyro), in the world's axes, or as seen from the
// moving reference frame and in its axes.
template <class V>
MANIPLE_FUNCTION void frame_velocity_sensor(const Model<ScalarOf<V>>& m, const Data<V>& d, int i) {
  const int type = m.sensor_type[i], adr = m.sensor_adr[i];
  const int body = m.sensor_bodyid[i], reference_body = m.sensor_refbodyid[i];
  const Frame<V> frame = sensor_frame(m, d, i);
  Spatial<V> velocity = velocity_at(m, d, body, from_tree_center(m, d, body, frame.pos));
  if (type == sensor_velocimeter || type == sensor_gyro) {
    const Mat3<V> inverse = matrix(conjugate(frame.quat));
    velocity = {inverse * velocity.rot, inverse * velocity.lin};
  } else if (reference_body >= 0) {
    const Frame<V> reference = sensor_reference(m, d, i);
    const Spatial<V> moving =
        velocity_at(m, d, reference_body, from_tree_center(m, d, reference_body, reference.pos));
    const Mat3<V> inverse = matrix(conjugate(reference.quat));
    const Vec3<V> carried = cross(moving.rot, frame.pos - reference.pos);
    velocity = {inverse * (velocity.rot - moving.rot), inverse * (velocity.lin - moving.lin - carried)};
  }
  const bool linear = type == sensor_velocimeter || type == sensor_framelinvel;
  store3(d.sensordata, adr, linear ? velocity.lin : velocity.rot);
}

// Acceleration of a frame, or the force and torque between its body and the parent, in its axes.
template <class V>
MANIPLE_FUNCTION void frame_force_sensor(const Model<ScalarOf<V>>& m, const Data<V>& d, int i) {
  const int type = m.sensor_type[i], adr = m.sensor_adr[i], body = m.sensor_bodyid[i];
  const Frame<V> frame = sensor_frame(m, d, i);
  const Vec3<V> offset = from_tree_center(m, d, body, frame.pos);
  if (type == sensor_framelinacc || type == sensor_frameangacc || type == sensor_accelerometer) {
    const Spatial<V> acceleration = acceleration_at(m, d, body, offset);
    if (type == sensor_accelerometer)
      store3(d.sensordata, adr, matrix(conjugate(frame.quat)) * acceleration.lin);
    else
      store3(d.sensordata, adr, type == sensor_framelinacc ? acceleration.lin : acceleration.rot);
    return;
  }
  const Spatial<V> force = load6<V>(d.cfrc_int, 6 * body);
  const Vec3<V> torque = force.rot - cross(offset, force.lin);
  store3(d.sensordata, adr, matrix(conjugate(frame.quat)) * (type == sensor_force ? force.lin : torque));
}

// Writes the sensordata of one stage, and before that the fields that sensors alone read.
template <class V>
MANIPLE_SUBSTAGE void sensors(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                              SensorStage stage) {
  if (!(m.flags & model_sensors)) {
    for (int i = 0; i < m.nsensordata; ++i) d.sensordata[i] = V(0);
    return;
  }
  if (stage == SensorStage::position_and_velocity && (m.flags & model_subtree_sensors)) {
    subtree_centers(m, d);
    subtree_velocities(m, d);
  }
  if (stage == SensorStage::acceleration && (m.flags & model_force_sensors)) {
    external_forces(m, d);
    internal_forces(m, d);
  }
  if (stage == SensorStage::acceleration && (m.flags & model_touch_sensors)) touch_sensors(m, d);
  for (int i = 0; i < m.nsensor; ++i) {
    const int type = m.sensor_type[i], id = m.sensor_objid[i], adr = m.sensor_adr[i];
    if (reads_forces(type) != (stage == SensorStage::acceleration)) continue;
    switch (type) {
      case sensor_accelerometer:
      case sensor_force:
      case sensor_torque:
      case sensor_framelinacc:
      case sensor_frameangacc:
        frame_force_sensor(m, d, i);
        break;
      case sensor_velocimeter:
      case sensor_gyro:
      case sensor_framelinvel:
      case sensor_frameangvel:
        frame_velocity_sensor(m, d, i);
        break;
      case sensor_framepos:
      case sensor_framequat:
      case sensor_framexaxis:
      case sensor_frameyaxis:
      case sensor_framezaxis:
        frame_pose_sensor(m, d, i);
        break;
      case sensor_touch:  // all of them at once, above
        break;
      case sensor_jointpos:
        d.sensordata[adr] = s.qpos[m.jnt_qposadr[id]];
        break;
      case sensor_jointvel:
        d.sensordata[adr] = s.qvel[m.jnt_dofadr[id]];
        break;
      case sensor_tendonpos:
        d.sensordata[adr] = d.ten_length[id];
        break;
      case sensor_tendonvel:
        d.sensordata[adr] = d.ten_velocity[id];
        break;
      case sensor_actuatorpos:
        d.sensordata[adr] = d.actuator_length[id];
        break;
      case sensor_actuatorvel:
        d.sensordata[adr] = d.actuator_velocity[id];
        break;
      case sensor_actuatorfrc:
        d.sensordata[adr] = d.actuator_force[id];
        break;
      case sensor_jointactuatorfrc:
        d.sensordata[adr] = d.qfrc_actuator[m.jnt_dofadr[id]];
        break;
      case sensor_tendonactuatorfrc: {
        V force(0);
        for (int k = 0; k < m.nu; ++k)
          if (m.actuator_trntype[k] == transmission_tendon && m.actuator_trnid[2 * k] == id)
            force += d.actuator_force[k];
        d.sensordata[adr] = force;
        break;
      }
      case sensor_ballquat:
        store4(d.sensordata, adr, normalize(load4<V>(s.qpos, m.jnt_qposadr[id])));
        break;
      case sensor_ballangvel:
        store3(d.sensordata, adr, load3<V>(s.qvel, m.jnt_dofadr[id]));
        break;
      case sensor_subtreecom:
        store3(d.sensordata, adr, load3<V>(d.subtree_com, 3 * id));
        break;
      case sensor_subtreelinvel:
        store3(d.sensordata, adr, load3<V>(d.subtree_linvel, 3 * id));
        break;
      case sensor_subtreeangmom:
        store3(d.sensordata, adr, load3<V>(d.subtree_angmom, 3 * id));
        break;
      case sensor_clock:
        d.sensordata[adr] = s.time[0];
        break;
    }
    if (m.sensor_cutoff[i] > 0) cut_off(m, d, i);
  }
}

}  // namespace maniple
