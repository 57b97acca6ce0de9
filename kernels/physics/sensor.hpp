// Sensors on joints and actuators and the clock, with their cutoff (engine_sensor.c). MuJoCo evaluates a
// sensor in the stage that computes what it reads.
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/model/data.hpp"

namespace maniple {

enum class SensorStage { position_and_velocity, acceleration };

template <class V>
MANIPLE_FUNCTION void cut_off(const Model<ScalarOf<V>>& m, const Data<V>& d, int i) {
  const V cutoff(m.sensor_cutoff[i]);
  const int type = m.sensor_datatype[i];
  for (int k = m.sensor_adr[i], end = k + m.sensor_dim[i]; k < end; ++k) {
    if (type == data_real) d.sensordata[k] = clamp(V(d.sensordata[k]), -cutoff, cutoff);
    if (type == data_positive) d.sensordata[k] = min(cutoff, V(d.sensordata[k]));
  }
}

// Writes the sensordata of one stage.
template <class V>
MANIPLE_FUNCTION void sensors(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                              SensorStage stage) {
  if (!(m.flags & model_sensors)) {
    for (int i = 0; i < m.nsensordata; ++i) d.sensordata[i] = V(0);
    return;
  }
  for (int i = 0; i < m.nsensor; ++i) {
    const int type = m.sensor_type[i], id = m.sensor_objid[i], adr = m.sensor_adr[i];
    const bool of_force = type == sensor_actuatorfrc || type == sensor_jointactuatorfrc;
    if (of_force != (stage == SensorStage::acceleration)) continue;
    switch (type) {
      case sensor_jointpos:
        d.sensordata[adr] = s.qpos[m.jnt_qposadr[id]];
        break;
      case sensor_jointvel:
        d.sensordata[adr] = s.qvel[m.jnt_dofadr[id]];
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
      case sensor_ballquat:
        store4(d.sensordata, adr, normalize(load4<V>(s.qpos, m.jnt_qposadr[id])));
        break;
      case sensor_ballangvel:
        store3(d.sensordata, adr, load3<V>(s.qvel, m.jnt_dofadr[id]));
        break;
      case sensor_clock:
        d.sensordata[adr] = s.time[0];
        break;
    }
    if (m.sensor_cutoff[i] > 0) cut_off(m, d, i);
  }
}

}  // namespace maniple
