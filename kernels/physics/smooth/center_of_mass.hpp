// Centers of mass, inertias and motion axes about the subtree com of each root, and the velocities that
// follow (mj_comPos, mj_comVel). Working about that moving point keeps single precision accurate far
// from the origin.
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/math/spatial.hpp"
#include "kernels/model/lane_model.hpp"

namespace maniple {

// Writes subtree_com.
template <class V>
MANIPLE_FUNCTION void subtree_centers(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const int nbody = m.nbody;
  const LaneModel<V> lanes(m, s);
  for (int i = 0; i < nbody; ++i) store3(d.subtree_com, 3 * i, lanes.body_mass(i) * load3<V>(d.xipos, 3 * i));
  for (int i = nbody - 1; i > 0; --i) {
    const int parent = m.body_parentid[i];
    store3(d.subtree_com, 3 * parent, load3<V>(d.subtree_com, 3 * parent) + load3<V>(d.subtree_com, 3 * i));
  }
  for (int i = 0; i < nbody; ++i) {
    const bool massless = m.body_inversesubtreemass[i] == 0;
    store3(d.subtree_com, 3 * i,
           massless ? load3<V>(d.xipos, 3 * i)
                    : lanes.body_inversesubtreemass(i) * load3<V>(d.subtree_com, 3 * i));
  }
}

// Writes subtree_com, cinert, cdof.
template <class V>
MANIPLE_FUNCTION void com_positions(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const int nbody = m.nbody;
  const LaneModel<V> lanes(m, s);
  subtree_centers(m, s, d);
  store10(d.cinert, 0, zero10<V>());
  for (int i = 1; i < nbody; ++i) {
    const Vec3<V> com = load3<V>(d.subtree_com, 3 * m.body_rootid[i]);
    const Vec3<V> offset = load3<V>(d.xipos, 3 * i) - com;
    store10(
        d.cinert, 10 * i,
        inertia_about(lanes.body_inertia().vector(i), load9<V>(d.ximat, 9 * i), offset, lanes.body_mass(i)));

    for (int j = m.body_jntadr[i], end = j + m.body_jntnum[i]; j < end; ++j) {
      int dof = 6 * m.jnt_dofadr[j];
      const int type = m.jnt_type[j];
      if (type == joint_slide) {
        store6(d.cdof, dof, Spatial<V>{zero3<V>(), load3<V>(d.xaxis, 3 * j)});
        continue;
      }
      const Vec3<V> to_com = com - load3<V>(d.xanchor, 3 * j);
      if (type == joint_hinge) {
        const Vec3<V> axis = load3<V>(d.xaxis, 3 * j);
        store6(d.cdof, dof, Spatial<V>{axis, cross(axis, to_com)});
        continue;
      }
      if (type == joint_free) {
        store6(d.cdof, dof, Spatial<V>{zero3<V>(), {V(1), V(0), V(0)}});
        store6(d.cdof, dof + 6, Spatial<V>{zero3<V>(), {V(0), V(1), V(0)}});
        store6(d.cdof, dof + 12, Spatial<V>{zero3<V>(), {V(0), V(0), V(1)}});
        dof += 18;
      }
      const Mat3<V> xmat = load9<V>(d.xmat, 9 * i);
      store6(d.cdof, dof, Spatial<V>{xmat.column_x(), cross(xmat.column_x(), to_com)});
      store6(d.cdof, dof + 6, Spatial<V>{xmat.column_y(), cross(xmat.column_y(), to_com)});
      store6(d.cdof, dof + 12, Spatial<V>{xmat.column_z(), cross(xmat.column_z(), to_com)});
    }
  }
}

// Velocity `v` plus cdof * qvel of `count` dofs from `dof` on.
template <class V>
MANIPLE_FUNCTION Spatial<V> add_dof_velocities(const Model<ScalarOf<V>>& m, const State<V>& s,
                                               const Data<V>& d, Spatial<V> v, int dof, int count) {
  for (int k = dof; k < dof + count; ++k) {
    if (!m.dof_translation[k]) v.rot = multiply_add(V(s.qvel[k]), load3<V>(d.cdof, 6 * k), v.rot);
    v.lin = multiply_add(V(s.qvel[k]), load3<V>(d.cdof, 6 * k + 3), v.lin);
  }
  return v;
}

// Writes cvel, cdof_dot.
template <class V>
MANIPLE_FUNCTION void com_velocities(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  store6(d.cvel, 0, zero6<V>());
  for (int i = 1; i < m.nbody; ++i) {
    bool at_rest = m.body_flags[i] & body_parent_static;  // nothing has moved so far
    Spatial<V> cvel = at_rest ? zero6<V>() : load6<V>(d.cvel, 6 * m.body_parentid[i]);
    for (int j = m.body_jntadr[i], end = j + m.body_jntnum[i]; j < end; ++j) {
      int dof = m.jnt_dofadr[j], count = 1;
      const int type = m.jnt_type[j];
      if (type == joint_free) {
        // translations along the axes of the world: they do not turn
        for (int k = 0; k < 3; ++k) store6(d.cdof_dot, 6 * (dof + k), zero6<V>());
        cvel = add_dof_velocities(m, s, d, cvel, dof, 3);
        dof += 3;
        at_rest = false;
      }
      if (type == joint_free || type == joint_ball) count = 3;
      for (int k = dof; k < dof + count; ++k) {
        if (at_rest)
          store6(d.cdof_dot, 6 * k, zero6<V>());
        else if (m.dof_translation[k])
          store6(d.cdof_dot, 6 * k, Spatial<V>{zero3<V>(), cross(cvel.rot, load3<V>(d.cdof, 6 * k + 3))});
        else
          store6(d.cdof_dot, 6 * k, cross_motion(cvel, load6<V>(d.cdof, 6 * k)));
      }
      cvel = add_dof_velocities(m, s, d, cvel, dof, count);
      at_rest = false;
    }
    store6(d.cvel, 6 * i, cvel);
  }
}

}  // namespace maniple
