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
  if (type == geom_mesh && m.geom_raynode[geom] < 0) return V(-1);
  V size[3];
  put_sizes(LaneModel<V>(m, s), geom, size);
  if (type == geom_mesh) {
    const ScalarOf<V>* const of_model = sizes_of_meshes(m, geom);
    if (of_model == nullptr) return mesh_distance(m, m.geom_raynode[geom], where, p, u);
    // in the space of the model's mesh, where the ray is as many of its vectors long
    const auto unscaled = [&](const Vec3<V>& v) {
      return Vec3<V>{v.x * (V(of_model[0]) / size[0]), v.y * (V(of_model[1]) / size[1]),
                     v.z * (V(of_model[2]) / size[2])};
    };
    return mesh_distance(m, m.geom_raynode[geom], where, unscaled(p), unscaled(u));
  }
  if (type != geom_hfield) return ray_distance(type, size, p, u);
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
