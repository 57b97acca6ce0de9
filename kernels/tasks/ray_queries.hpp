// Ray queries of a task's programs: distances from points
// of a frame, along rays, to the nearest geom of a group.
#pragma once

#include "kernels/model/data.hpp"
#include "kernels/physics/collision/ray_geom.hpp"
#include "kernels/tasks/program.hpp"

namespace maniple {

// The turn about the world's z that takes x to where the frame's x axis points, seen from above; where that
// axis points nearly up or down, the y axis decides (mjlab's RayCastSensor).
template <class V>
MANIPLE_FUNCTION Mat3<V> yaw_of(const Mat3<V>& frame) {
  const V size = sqrt(frame.xx * frame.xx + frame.yx * frame.yx);
  const MaskOf<V> upright = size >= V(0.1);
  const V x = select(upright, frame.xx, frame.yy), y = select(upright, frame.yx, -frame.xy);
  const V inverse = V(1) / max(sqrt(x * x + y * y), V(1e-6));
  const V c = x * inverse, s = y * inverse;
  return {c, -s, V(0), s, c, V(0), V(0), V(0), V(1)};
}

template <class V>
MANIPLE_FUNCTION void load_frame(const Data<V>& d, RayFrame frame, int id, Vec3<V>& pos, Mat3<V>& mat) {
  switch (frame) {
    case RayFrame::body:
      pos = load3<V>(d.xpos, 3 * id);
      mat = load9<V>(d.xmat, 9 * id);
      return;
    case RayFrame::site:
      pos = load3<V>(d.site_xpos, 3 * id);
      mat = load9<V>(d.site_xmat, 9 * id);
      return;
    case RayFrame::geom:
      pos = load3<V>(d.geom_xpos, 3 * id);
      mat = load9<V>(d.geom_xmat, 9 * id);
  }
}

// Lengths [m] of the task's rays, of the poses in `d`, which must have all of its frames and geoms; -1 where
// a ray meets nothing within its query's distance.
template <class V>
MANIPLE_STAGE void answer_ray_queries(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                      const Task<ScalarOf<V>>& task, const Varying<V> answers) {
  using T = ScalarOf<V>;
  for (int ray = 0; ray < task.num_rays; ++ray) answers[ray] = V(-1);
  for (int q = 0; q < task.num_ray_queries; ++q) {
    const RayQuery<T> query = task.ray_queries[q];
    Vec3<V> pos;
    Mat3<V> mat;
    load_frame(d, query.frame, query.id, pos, mat);
    if (query.alignment == RayAlignment::yaw) mat = yaw_of(mat);
    if (query.alignment == RayAlignment::world) mat = {V(1), V(0), V(0), V(0), V(1), V(0), V(0), V(0), V(1)};
    for (int k = 0; k < query.num_geoms; ++k) {
      const int geom = task.ray_geoms[query.first_geom + k];
      const Mat3<V> to_geom = transpose(load9<V>(d.geom_xmat, 9 * geom));
      const Vec3<V> apart = pos - load3<V>(d.geom_xpos, 3 * geom);
      for (int i = 0; i < query.num_rays; ++i) {
        const int ray = query.first_ray + i;
        const T* const numbers = task.rays + kRayElements * ray;
        const Vec3<V> point = apart + mat * uniform3<V>(numbers), along = mat * uniform3<V>(numbers + 3);
        const MaskOf<V> near = passes_near(m, s, geom, point, along);
        if (!any_lane(near)) continue;
        const V distance = geom_distance(m, s, geom, near, to_geom * point, to_geom * along);
        const V shortest = answers[ray];
        const MaskOf<V> shorter = near && distance >= V(0) && distance <= V(query.max_distance) &&
                                  (shortest < V(0) || distance < shortest);
        answers[ray] = select(shorter, distance, shortest);
      }
    }
  }
}

}  // namespace maniple
