// How far it is along rays to a geom of any shape: what tasks and rangefinders ask.
#pragma once

#include "kernels/model/lane_model.hpp"
#include "kernels/physics/collision/ray.hpp"
#include "kernels/physics/collision/ray_hfield.hpp"
#include "kernels/physics/collision/ray_mesh.hpp"

namespace maniple {

// Lanes whose ray, along the unit vector `along` from `point` as seen from the geom's center, does not stay
// away from its bounding sphere: of small geoms few do.
template <class V>
MANIPLE_FUNCTION MaskOf<V> passes_near(const Model<ScalarOf<V>>& m, const State<V>& s, int geom,
                                       const Vec3<V>& point, const Vec3<V>& along) {
  const V reach = LaneModel<V>(m, s).geom_rbound(geom) * V(ScalarOf<V>(1.001));
  const Vec3<V> nearest = multiply_add(-dot(point, along), along, point);
  return reach == V(0) || dot(nearest, nearest) <= reach * reach;
}

// Distance along the unit vector u from p to the surface of a geom, both in its frame, in the lanes of a
// mask; -1 where the ray misses it. Meshes only where Model::geom_raynode has them.
template <class V>
MANIPLE_FUNCTION V geom_distance(const Model<ScalarOf<V>>& m, const State<V>& s, int geom, MaskOf<V> where,
                                 const Vec3<V>& p, const Vec3<V>& u) {
  const int type = m.geom_type[geom];
  if (type == geom_mesh)
    return m.geom_raynode[geom] < 0 ? V(-1) : mesh_distance(m, m.geom_raynode[geom], where, p, u);
  if (type != geom_hfield) {
    V size[3];
    put_sizes(LaneModel<V>(m, s), geom, size);
    return ray_distance(type, size, p, u);
  }
  V result(-1);
  for_each_lane(where, [&](int lane) {
    set_lane(result, lane,
             hfield_distance(m, m.geom_dataid[geom],
                             {get_lane(p.x, lane), get_lane(p.y, lane), get_lane(p.z, lane)},
                             {get_lane(u.x, lane), get_lane(u.y, lane), get_lane(u.z, lane)}));
  });
  return result;
}

}  // namespace maniple
