// Rangefinders on sites (engine_sensor.c): how far the z axis of the site reaches before it meets a geom of
// another body, moving or not, and where.
#pragma once

#include "kernels/model/data.hpp"
#include "kernels/model/sensor_types.hpp"
#include "kernels/physics/collision/ray_geom.hpp"
#include "kernels/physics/smooth/motion.hpp"

namespace maniple {

// What of a ray a rangefinder tells, as bits in this order (mjtRayDataField).
enum RayDataPart : int {
  ray_data_dist = 1 << 0,
  ray_data_dir = 1 << 1,
  ray_data_origin = 1 << 2,
  ray_data_point = 1 << 3,
  ray_data_normal = 1 << 4,
  ray_data_depth = 1 << 5
};
// Those that rangefinders here have.
inline constexpr int kRayData =
    ray_data_dist | ray_data_dir | ray_data_origin | ray_data_point | ray_data_depth;

// Distance along the unit vector `along` from `origin` to the nearest visible geom that is not on the body;
// -1 where there is none (mj_ray).
template <class V>
MANIPLE_STAGE V distance_to_others(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int body,
                                   const Vec3<V>& origin, const Vec3<V>& along) {
  V shortest(-1);
  for (int g = 0; g < m.ngeom; ++g) {
    if (!m.geom_visible[g] || m.geom_bodyid[g] == body) continue;
    const Frame<V> frame = geom_frame(m, s, d, g);
    const Vec3<V> point = origin - frame.pos;
    const MaskOf<V> near = passes_near(m, s, g, point, along);
    if (!any_lane(near)) continue;
    const Mat3<V> to_geom = matrix(conjugate(frame.quat));
    const V distance = geom_distance(m, s, g, near, to_geom * point, to_geom * along);
    const MaskOf<V> shorter = near && distance >= V(0) && (shortest < V(0) || distance < shortest);
    shortest = select(shorter, distance, shortest);
  }
  return shortest;
}

// Writes the sensordata of rangefinder i.
template <class V>
MANIPLE_FUNCTION void sense_ray(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i) {
  const int body = m.sensor_bodyid[i], parts = m.sensor_intprm[kSensorParameters * i];
  const Frame<V> site = sensor_frame(m, s, d, i);
  const Vec3<V> along = matrix(site.quat).column_z();
  const V distance = distance_to_others(m, s, d, body, site.pos, along);
  const MaskOf<V> hit = distance >= V(0);
  int at = m.sensor_adr[i];
  const auto vector = [&](int part, const Vec3<V>& value) {
    if (!(parts & part)) return;
    store3(d.sensordata, at, value);
    at += 3;
  };
  if (parts & ray_data_dist) d.sensordata[at++] = distance;
  vector(ray_data_dir, select<V>(hit, along, zero3<V>()));
  vector(ray_data_origin, site.pos);
  vector(ray_data_point, select<V>(hit, multiply_add(distance, along, site.pos), zero3<V>()));
  if (parts & ray_data_depth) d.sensordata[at] = distance;
}

}  // namespace maniple
