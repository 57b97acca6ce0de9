#include "src/model_import/derive_sensors.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/model/geom_pair_types.hpp"
#include "kernels/model/sensor_types.hpp"
#include "src/model_import/geom_pairs.hpp"

namespace maniple {
namespace {

// Where a frame is: on which body, and its pose there.
struct FramePose {
  int body = -1;
  double pos[3] = {0, 0, 0};
  double quat[4] = {1, 0, 0, 0};
};

FramePose pose_of(const Model<double>& m, int type, int id) {
  FramePose pose;
  const auto copy = [&](const double* pos, const double* quat) {
    for (int k = 0; k < 3; ++k) pose.pos[k] = pos[3 * id + k];
    for (int k = 0; k < 4; ++k) pose.quat[k] = quat[4 * id + k];
  };
  switch (type) {
    case object_xbody:
      pose.body = id;
      break;
    case object_body:
      pose.body = id;
      copy(m.body_ipos, m.body_iquat);
      break;
    case object_geom:
      pose.body = m.geom_bodyid[id];
      copy(m.geom_pos, m.geom_quat);
      break;
    case object_camera:
      pose.body = m.cam_bodyid[id];
      copy(m.cam_pos, m.cam_quat);
      break;
    case object_site:
      pose.body = m.site_bodyid[id];
      copy(m.site_pos, m.site_quat);
      break;
  }
  return pose;
}

// Whether a geom is one that an object of a contact sensor stands for (checkMatch of engine_sensor.c); a site
// says where, not what.
bool is_of_object(const Model<double>& m, int geom, int type, int id) {
  int body = m.geom_bodyid[geom];
  switch (type) {
    case object_geom:
      return geom == id;
    case object_body:
      return body == id;
    case object_xbody:  // with all bodies below
      while (body > id) body = m.body_parentid[body];
      return body == id;
    default:
      return true;
  }
}

// sensor_contactmatch of two geoms (matchContact of engine_sensor.c).
int contact_match(const Model<double>& m, int geom1, int geom2, int sensor) {
  const int type1 = m.sensor_objtype[sensor], id1 = m.sensor_objid[sensor];
  const int type2 = m.sensor_reftype[sensor], id2 = m.sensor_refid[sensor];
  const bool regular1 = is_of_object(m, geom1, type1, id1), regular2 = is_of_object(m, geom2, type2, id2);
  const bool reverse1 = is_of_object(m, geom2, type1, id1), reverse2 = is_of_object(m, geom1, type2, id2);
  if ((!regular1 && !reverse1) || (!regular2 && !reverse2)) return 0;
  if (type1 == object_unknown && type2 == object_unknown) return 1;
  if (type2 == object_unknown) return regular1 ? 1 : -1;
  if (type1 == object_unknown) return regular2 ? 1 : -1;
  if (regular1 && regular2) return 1;
  return reverse1 && reverse2 ? -1 : 0;
}

// visit(geom1, geom2, row of their types) for each pair whose distance sensor i measures, in MuJoCo's order.
template <class Visit>
void for_each_distance_pair(const Model<double>& m, int i, const Visit& visit) {
  if (!is_of_distance(m.sensor_type[i])) return;
  const GeomRange objects = geoms_of(m, m.sensor_objtype[i], m.sensor_objid[i]),
                  references = geoms_of(m, m.sensor_reftype[i], m.sensor_refid[i]);
  for (int g1 = objects.first; g1 < objects.end; ++g1)
    for (int g2 = references.first; g2 < references.end; ++g2) {
      const int type1 = m.geom_type[g1], type2 = m.geom_type[g2];
      const int types = geom_pair_types(std::min(type1, type2), std::max(type1, type2));
      if (types >= 0) visit(g1, g2, types);
    }
}

// Focal lengths and middle of the picture of the camera of a camprojection sensor [pixels] (cam_project).
void derive_projection(const Model<double>& m, int camera, double* projection) {
  const int* const resolution = m.cam_resolution + 2 * camera;
  const double* const size = m.cam_sensorsize + 2 * camera;
  for (int k = 0; k < 2; ++k) {
    projection[k] = size[0] != 0 && size[1] != 0
                        ? m.cam_intrinsic[4 * camera + k] / size[k] * resolution[k]
                        : 0.5 / std::tan(m.cam_fovy[camera] * M_PI / 360) * resolution[1];
    projection[2 + k] = 0.5 * resolution[k];
  }
}

bool remembers(const Model<double>& m, int sensor) {
  return m.sensor_history[2 * sensor] > 0 &&
         (m.sensor_delay[sensor] > 0 || m.sensor_interval[2 * sensor] > 0);
}
// Numbers of a sensor in sensordata_history, see SensorHistory.
int remembered_numbers(const Model<double>& m, int sensor) {
  return remembers(m, sensor) ? 1 + m.sensor_history[2 * sensor] * (1 + m.sensor_dim[sensor]) : 0;
}

// Delay and interval of sensor i, and what it remembers after a reset (mj_resetData): readings of zero, an
// interval apart where it has one.
void derive_history(const Model<double>& m, const DerivedFields& derived, int i, int first) {
  const double interval = in_time_steps(m.sensor_interval[2 * i] / m.timestep),
               phase = in_time_steps(m.sensor_interval[2 * i + 1] / m.timestep);
  derived.sensor_delaysteps[i] = in_time_steps(m.sensor_delay[i] / m.timestep);
  derived.sensor_intervalsteps[i] = interval;
  derived.sensor_historyadr[i] = remembers(m, i) ? first : -1;
  if (!remembers(m, i)) return;
  const int samples = m.sensor_history[2 * i];
  double* const history = derived.sensordata_history0 + first;
  std::fill_n(history, remembered_numbers(m, i), 0.0);
  const double last = phase == 0 ? -interval : phase;  // time of the newest
  if (interval > 0) history[0] = last + interval;
  for (int k = 0; k < samples; ++k) {
    const int before = samples - 1 - k;
    history[1 + k] = interval > 0 ? -std::ceil(in_time_steps(last - before * interval)) : before + 1;
  }
}

}  // namespace

void count_sensors(const Model<double>& m, ModelSizes& sizes) {
  sizes.ncontactsensor =
      static_cast<int>(std::count(m.sensor_type, m.sensor_type + m.nsensor, sensor_contact));
  sizes.ndistancepair = sizes.nsensorhistory = sizes.nsensorkept = 0;
  for (int i = 0; i < m.nsensor; ++i) {
    sizes.nsensorhistory += remembered_numbers(m, i);
    if (m.sensor_delay[i] > 0) sizes.nsensorkept = std::max(sizes.nsensorkept, m.sensor_dim[i]);
    for_each_distance_pair(m, i, [&](int, int, int) { ++sizes.ndistancepair; });
  }
}

void derive_sensors(const Model<double>& m, const DerivedFields& derived) {
  int contact_sensors = 0, distance_pairs = 0, history = 0;
  for (int i = 0; i < m.nsensor; ++i) {
    derive_history(m, derived, i, history);
    history += remembered_numbers(m, i);
    const FramePose object = pose_of(m, m.sensor_objtype[i], m.sensor_objid[i]);
    const FramePose reference =
        m.sensor_refid[i] < 0 ? FramePose{} : pose_of(m, m.sensor_reftype[i], m.sensor_refid[i]);
    derived.sensor_bodyid[i] = object.body;
    derived.sensor_refbodyid[i] = reference.body;
    for (int k = 0; k < 3; ++k) {
      derived.sensor_pos[3 * i + k] = object.pos[k];
      derived.sensor_refpos[3 * i + k] = reference.pos[k];
    }
    for (int k = 0; k < 4; ++k) {
      derived.sensor_quat[4 * i + k] = object.quat[k];
      derived.sensor_refquat[4 * i + k] = reference.quat[k];
    }
    derived.sensor_pairadr[i] = distance_pairs;
    for_each_distance_pair(m, i, [&](int g1, int g2, int types) {
      derived.distancepair_geom[2 * distance_pairs] = g1;
      derived.distancepair_geom[2 * distance_pairs + 1] = g2;
      derived.distancepair_types[distance_pairs++] = types;
    });
    derived.sensor_pairnum[i] = distance_pairs - derived.sensor_pairadr[i];
    std::fill_n(derived.sensor_projection + 4 * i, 4, 0.0);
    if (m.sensor_type[i] == sensor_camprojection)
      derive_projection(m, m.sensor_refid[i], derived.sensor_projection + 4 * i);
    derived.sensor_contactid[i] = -1;
    if (m.sensor_type[i] != sensor_contact) continue;
    derived.sensor_contactid[i] = contact_sensors;
    for (int c = 0; c < m.ngeompair; ++c)
      derived.sensor_contactmatch[contact_sensors * m.ngeompair + c] =
          contact_match(m, derived.geompair_geom1[c], derived.geompair_geom2[c], i);
    ++contact_sensors;
  }
}

}  // namespace maniple
