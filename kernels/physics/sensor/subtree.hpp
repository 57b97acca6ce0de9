// Linear velocity and angular momentum of each subtree about its center of mass (mj_subtreeVel).
#pragma once

#include "kernels/model/lane_model.hpp"
#include "kernels/physics/smooth/motion.hpp"

namespace maniple {

// Velocity of body i's center of mass.
template <class V>
MANIPLE_FUNCTION Spatial<V> velocity_of_center(const Model<ScalarOf<V>>& m, const Data<V>& d, int i) {
  return velocity_at(m, d, i, from_tree_center(m, d, i, load3<V>(d.xipos, 3 * i)));
}

// Writes subtree_linvel and subtree_angmom; reads subtree_com of every body.
template <class V>
MANIPLE_FUNCTION void subtree_velocities(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const LaneModel<V> lanes(m, s);
  const int nbody = m.nbody;
  store3(d.subtree_linvel, 0, zero3<V>());
  store3(d.subtree_angmom, 0, zero3<V>());
  for (int i = 1; i < nbody; ++i) {
    const Spatial<V> velocity = velocity_of_center(m, d, i);
    store3(d.subtree_linvel, 3 * i, lanes.body_mass(i) * velocity.lin);
    const Mat3<V> mat = inertial_matrix(m, d, i);
    const Vec3<V> inertia = lanes.body_inertia().vector(i), local = transpose(mat) * velocity.rot;
    store3(d.subtree_angmom, 3 * i,
           mat * Vec3<V>{inertia.x * local.x, inertia.y * local.y, inertia.z * local.z});
  }
  // momenta become velocities once the children have been added
  for (int i = nbody - 1; i >= 0; --i) {
    const Vec3<V> momentum = load3<V>(d.subtree_linvel, 3 * i);
    if (i > 0) {
      const int parent = 3 * m.body_parentid[i];
      store3(d.subtree_linvel, parent, load3<V>(d.subtree_linvel, parent) + momentum);
    }
    store3(d.subtree_linvel, 3 * i, lanes.body_inversesubtreemass(i) * momentum);
  }
  for (int i = nbody - 1; i > 0; --i) {
    const int parent = 3 * m.body_parentid[i];
    const Vec3<V> com = load3<V>(d.subtree_com, 3 * i), velocity = load3<V>(d.subtree_linvel, 3 * i);
    // of the body about the center of its subtree
    const Vec3<V> arm = load3<V>(d.xipos, 3 * i) - com;
    const Vec3<V> momentum = lanes.body_mass(i) * (velocity_of_center(m, d, i).lin - velocity);
    const Vec3<V> angular = load3<V>(d.subtree_angmom, 3 * i) + cross(arm, momentum);
    store3(d.subtree_angmom, 3 * i, angular);
    // of the subtree about the center of its parent's
    const Vec3<V> parent_arm = com - load3<V>(d.subtree_com, parent);
    const Vec3<V> parent_momentum =
        lanes.body_subtreemass(i) * (velocity - load3<V>(d.subtree_linvel, parent));
    store3(d.subtree_angmom, parent,
           load3<V>(d.subtree_angmom, parent) + (angular + cross(parent_arm, parent_momentum)));
  }
}

}  // namespace maniple
