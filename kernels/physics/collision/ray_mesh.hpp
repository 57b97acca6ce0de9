// Where rays meet a mesh, with MuJoCo's answer (mj_rayMesh): its triangles, from either side, found in the
// tree of boxes that libmujoco makes of them. The tree is walked once for all lanes.
#pragma once

#include "kernels/model/model.hpp"
#include "kernels/physics/collision/ray.hpp"
#include "kernels/physics/collision/ray_triangle.hpp"

namespace maniple {

// Distance along u, in lengths of u, from p to the mesh whose tree begins at node `root`, both in its frame,
// in the lanes of a mask; -1 where the ray misses it.
template <class V>
MANIPLE_STAGE V mesh_distance(const Model<ScalarOf<V>>& m, int root, MaskOf<V> where, const Vec3<V>& p,
                              const Vec3<V>& u) {
  V nearest(-1);
  for (int node = 0, count = m.raynode_end[root]; node < count;) {
    const ScalarOf<V>* const box = m.raynode_box + 6 * (root + node);
    LineInterval<V> line;
    line.cut_slab(p.x - V(box[0]), u.x, V(box[3]));
    line.cut_slab(p.y - V(box[1]), u.y, V(box[4]));
    line.cut_slab(p.z - V(box[2]), u.z, V(box[5]));
    const MaskOf<V> met =
        where && !line.is_empty() && line.high >= V(0) && (nearest < V(0) || line.low <= nearest);
    if (!any_lane(met)) {
      node = m.raynode_end[root + node];
      continue;
    }
    if (const int triangle = m.raynode_triangle[root + node]; triangle >= 0) {
      const ScalarOf<V>* const vert = m.raytriangle_vert + 9 * triangle;
      const V there =
          triangle_distance(uniform3<V>(vert), uniform3<V>(vert + 3), uniform3<V>(vert + 6), p, u);
      nearest = select(met && there >= V(0) && (nearest < V(0) || there < nearest), there, nearest);
    }
    ++node;
  }
  return nearest;
}

}  // namespace maniple
