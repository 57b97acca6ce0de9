// The smooth dynamics as step() runs them: the mathematics of kinematics.hpp, center_of_mass.hpp, inertia.hpp
// and bias.hpp in three passes over the tree, which keep in registers what those files write for readers of
// results (matrices, cinert, cdof_dot, ...). On a CPU memory traffic is half of the cost. The passes leave
// xpos, xquat, xipos, subtree_com of the roots, cdof, crb, cfrc_body, qM and qfrc_bias. Where a step is asked
// for all fields, the same passes also write the values that they otherwise keep in registers, and
// complete_fields() adds the rest. So no bit of a step depends on which results are read.
#pragma once

#include "kernels/math/spatial.hpp"
#include "kernels/physics/collision/collision.hpp"
#include "kernels/physics/smooth/kinematics.hpp"
#include "kernels/physics/smooth/motion.hpp"
#include "kernels/physics/smooth/tree_walk.hpp"

namespace maniple {

// Rotational inertia of body i about its center of mass, in the world frame: mat * I * mat'.
template <class V>
MANIPLE_FUNCTION void store_rotated_inertia(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                            int i, const Mat3<V>& mat) {
  const int flags = m.body_flags[i];
  if (flags & body_symmetric) {
    // I = across + (along - across) axis axis'
    const ScalarOf<V>* symmetry = m.body_symmetry + 5 * i;
    const V across(symmetry[0]);
    Vec3<V> n = zero3<V>(), kn = zero3<V>();
    if (!(flags & body_isotropic)) {
      n = mat * uniform3<V>(symmetry + 2);
      kn = V(symmetry[1]) * n;
    }
    d.crb[10 * i] = across + kn.x * n.x;
    d.crb[10 * i + 1] = across + kn.y * n.y;
    d.crb[10 * i + 2] = across + kn.z * n.z;
    d.crb[10 * i + 3] = kn.x * n.y;
    d.crb[10 * i + 4] = kn.x * n.z;
    d.crb[10 * i + 5] = kn.y * n.z;
    return;
  }
  const LaneField<V, 6, 6> own = LaneModel<V>(m, s).body_inertialocal();
  const V local[6] = {own(i, 0), own(i, 1), own(i, 2), own(i, 3), own(i, 4), own(i, 5)};
  Vec3<V> x, y, z;  // columns of mat * I
  if (flags & body_iquat_identity) {
    x = local[0] * mat.column_x();
    y = local[1] * mat.column_y();
    z = local[2] * mat.column_z();
  } else {
    const Vec3<V> cx = mat.column_x(), cy = mat.column_y(), cz = mat.column_z();
    x = local[0] * cx + local[3] * cy + local[4] * cz;
    y = local[3] * cx + local[1] * cy + local[5] * cz;
    z = local[4] * cx + local[5] * cy + local[2] * cz;
  }
  d.crb[10 * i] = x.x * mat.xx + y.x * mat.xy + z.x * mat.xz;
  d.crb[10 * i + 1] = x.y * mat.yx + y.y * mat.yy + z.y * mat.yz;
  d.crb[10 * i + 2] = x.z * mat.zx + y.z * mat.zy + z.z * mat.zz;
  d.crb[10 * i + 3] = x.x * mat.yx + y.x * mat.yy + z.x * mat.yz;
  d.crb[10 * i + 4] = x.x * mat.zx + y.x * mat.zy + z.x * mat.zz;
  d.crb[10 * i + 5] = x.y * mat.zx + y.y * mat.zy + z.y * mat.zz;
}

// The geoms of the world that may touch.
template <class V>
MANIPLE_FUNCTION void place_world_geoms(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const V one(1), zero(0);
  place_colliding_geoms(m, s, d, 0, zero3<V>(), Mat3<V>{one, zero, zero, zero, one, zero, zero, zero, one});
}

// Pose of body i; that of its parent is known.
template <class V>
MANIPLE_FUNCTION void place_next_body(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i,
                                      Vec3<V>& xpos, Quat<V>& xquat) {
  place_body(
      m, s, d, i,
      [&](int parent, const Vec3<V>& offset) { return rotate(load4<V>(d.xquat, 4 * parent), offset); }, xpos,
      xquat);
  store3(d.xpos, 3 * i, xpos);
  store4(d.xquat, 4 * i, xquat);
}

// Roots to leaves: poses of bodies and of the geoms that may touch.
template <class V>
MANIPLE_FUNCTION void place_geoms(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  place_world_geoms(m, s, d);
  for (int i = 1; i < m.nbody; ++i) {
    Vec3<V> xpos;
    Quat<V> xquat;
    place_next_body(m, s, d, i, xpos, xquat);
    if (m.body_geomnum[i] > 0) place_colliding_geoms(m, s, d, i, xpos, matrix(xquat));
  }
}

// Roots to leaves: poses, with those of geoms if `geoms`, and the centers of mass of the roots' subtrees.
template <class V>
MANIPLE_SUBSTAGE void fused_kinematics(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                       bool geoms) {
  const LaneModel<V> lanes(m, s);
  if (geoms) d.team.once([&] { place_world_geoms(m, s, d); });
  const BodyLevels<V> levels(m, d);
  for (int level = 0; level < levels.count; ++level)
    for (const int k : d.team.share(levels.size(level))) {
      const int i = levels.body(level, k), flags = m.body_flags[i];
      Vec3<V> xpos;
      Quat<V> xquat;
      place_next_body(m, s, d, i, xpos, xquat);
      Vec3<V> xipos = xpos;
      const bool massless = flags & body_massless;
      if (!massless || (geoms && m.body_geomnum[i] > 0)) {
        const Mat3<V> mat = matrix(xquat);
        if (geoms) place_colliding_geoms(m, s, d, i, xpos, mat);
        if (!massless) {
          if (!(flags & body_ipos_zero)) xipos = xpos + mat * lanes.body_ipos().vector(i);
          store_rotated_inertia(m, s, d, i, mat);
        }
      }
      store3(d.xipos, 3 * i, xipos);
    }
  for (const int k : d.team.share(m.nbody - 1)) {
    const int root = 1 + k;
    if (m.body_rootid[root] != root) continue;
    const V inverse = lanes.body_inversesubtreemass(root);
    Vec3<V> center = load3<V>(d.xipos, 3 * root);
    if (m.body_inversesubtreemass[root] > 0) {
      center = (lanes.body_mass(root) * inverse) * center;
      for (int i = root + 1; i < m.nbody && m.body_rootid[i] == root; ++i)
        center = center + (lanes.body_mass(i) * inverse) * load3<V>(d.xipos, 3 * i);
    }
    store3(d.subtree_com, 3 * root, center);
  }
}

// One dof with motion axis `axis` joins: what it adds to the acceleration and then to the velocity.
template <class V>
MANIPLE_FUNCTION void join_dof(const Spatial<V>& axis, V qvel, bool at_rest, Spatial<V>& cvel,
                               Spatial<V>& cacc) {
  const Spatial<V> velocity = qvel * axis;
  if (!at_rest) cacc = cacc + cross_motion(cvel, velocity);
  cvel = cvel + velocity;
}
template <class V>
MANIPLE_FUNCTION void join_translation(const Vec3<V>& axis, V qvel, bool at_rest, Spatial<V>& cvel,
                                       Spatial<V>& cacc) {
  const Vec3<V> velocity = qvel * axis;
  if (!at_rest) cacc.lin = cacc.lin + cross(cvel.rot, velocity);
  cvel.lin = cvel.lin + velocity;
}

// cdof of body i, its spatial inertia (into crb), velocity, acceleration and cfrc_body, after its parent's.
// kAllFields: also cinert, cdof_dot, and the velocity and acceleration of bodies on which none depends.
template <bool kAllFields, class V>
MANIPLE_FUNCTION void move_body(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i,
                                const Spatial<V>& world_acceleration) {
  const int flags = m.body_flags[i];
  const Vec3<V> com = load3<V>(d.subtree_com, 3 * m.body_rootid[i]);
  bool at_rest = flags & body_parent_static;
  Spatial<V> cvel = zero6<V>(), cacc = world_acceleration;
  if (!at_rest) {
    cvel = load6<V>(d.cvel, 6 * m.body_parentid[i]);
    cacc = load6<V>(d.cacc_bias, 6 * m.body_parentid[i]);
  }
  // before the dof joins
  const auto store_dot = [&](int dof, const Spatial<V>& axis) {
    if constexpr (kAllFields) store6(d.cdof_dot, 6 * dof, at_rest ? zero6<V>() : cross_motion(cvel, axis));
  };
  for (int j = m.body_jntadr[i], end = j + m.body_jntnum[i]; j < end; ++j) {
    int dof = m.jnt_dofadr[j];
    const int type = m.jnt_type[j];
    if (type == joint_slide) {
      const Vec3<V> axis = load3<V>(d.xaxis, 3 * j);
      store6(d.cdof, 6 * dof, Spatial<V>{zero3<V>(), axis});
      store_dot(dof, Spatial<V>{zero3<V>(), axis});
      join_translation(axis, V(s.qvel[dof]), at_rest, cvel, cacc);
      at_rest = false;
      continue;
    }
    const Vec3<V> to_com = com - load3<V>(d.xanchor, 3 * j);
    if (type == joint_hinge) {
      const Vec3<V> axis = load3<V>(d.xaxis, 3 * j);
      const Spatial<V> cdof{axis, cross(axis, to_com)};
      store6(d.cdof, 6 * dof, cdof);
      store_dot(dof, cdof);
      join_dof(cdof, V(s.qvel[dof]), at_rest, cvel, cacc);
      at_rest = false;
      continue;
    }
    if (type == joint_free) {
      store6(d.cdof, 6 * dof, Spatial<V>{zero3<V>(), {V(1), V(0), V(0)}});
      store6(d.cdof, 6 * dof + 6, Spatial<V>{zero3<V>(), {V(0), V(1), V(0)}});
      store6(d.cdof, 6 * dof + 12, Spatial<V>{zero3<V>(), {V(0), V(0), V(1)}});
      // translations along the axes of the world: they do not turn
      if constexpr (kAllFields)
        for (int k = 0; k < 3; ++k) store6(d.cdof_dot, 6 * (dof + k), zero6<V>());
      cvel.lin = cvel.lin + load3<V>(s.qvel, dof);
      dof += 3;
      at_rest = false;
    }
    // all three axes turn with the velocity before the joint
    const Mat3<V> mat = matrix(load4<V>(d.xquat, 4 * i));
    const Spatial<V> x{mat.column_x(), cross(mat.column_x(), to_com)},
        y{mat.column_y(), cross(mat.column_y(), to_com)}, z{mat.column_z(), cross(mat.column_z(), to_com)};
    store6(d.cdof, 6 * dof, x);
    store6(d.cdof, 6 * dof + 6, y);
    store6(d.cdof, 6 * dof + 12, z);
    store_dot(dof, x);
    store_dot(dof + 1, y);
    store_dot(dof + 2, z);
    const Spatial<V> velocity = V(s.qvel[dof]) * x + V(s.qvel[dof + 1]) * y + V(s.qvel[dof + 2]) * z;
    if (!at_rest) cacc = cacc + cross_motion(cvel, velocity);
    cvel = cvel + velocity;
    at_rest = false;
  }
  if (kAllFields || !(flags & body_leaf)) {
    store6(d.cvel, 6 * i, cvel);
    store6(d.cacc_bias, 6 * i, cacc);
  }
  if (flags & body_massless) {
    store10(d.crb, 10 * i, zero10<V>());
    if constexpr (kAllFields) store10(d.cinert, 10 * i, zero10<V>());
    store6(d.cfrc_body, 6 * i, zero6<V>());
    return;
  }
  const V mass = LaneModel<V>(m, s).body_mass(i);
  const Vec3<V> offset = load3<V>(d.xipos, 3 * i) - com, moment = mass * offset;
  const V x2 = moment.x * offset.x, y2 = moment.y * offset.y, z2 = moment.z * offset.z;
  const Inertia<V> inertia{d.crb[10 * i] + (y2 + z2),
                           d.crb[10 * i + 1] + (x2 + z2),
                           d.crb[10 * i + 2] + (x2 + y2),
                           d.crb[10 * i + 3] - moment.x * offset.y,
                           d.crb[10 * i + 4] - moment.x * offset.z,
                           d.crb[10 * i + 5] - moment.y * offset.z,
                           moment,
                           mass};
  store10(d.crb, 10 * i, inertia);
  if constexpr (kAllFields) store10(d.cinert, 10 * i, inertia);
  Spatial<V> force = inertia * cacc;
  if (!at_rest) force = force + cross_force(cvel, inertia * cvel);
  store6(d.cfrc_body, 6 * i, force);
}

// The acceleration of the world as which gravity enters.
template <class V>
MANIPLE_FUNCTION Spatial<V> acceleration_of_world(const Model<ScalarOf<V>>& m, const State<V>& s) {
  const bool gravity = !(m.disableflags & disable_gravity);
  return {zero3<V>(), gravity ? -LaneModel<V>(m, s).gravity().vector(0) : zero3<V>()};
}

// Roots to leaves: cdof, spatial inertias (into crb), velocities, accelerations and cfrc_body.
template <bool kAllFields, class V>
MANIPLE_FUNCTION void fused_velocities(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const Spatial<V> world_acceleration = acceleration_of_world(m, s);
  const BodyLevels<V> levels(m, d);
  for (int level = 0; level < levels.count; ++level)
    for (const int k : d.team.share(levels.size(level)))
      move_body<kAllFields>(m, s, d, levels.body(level, k), world_acceleration);
}

// Leaves to roots: composite inertias and forces. Then the rows of qM and qfrc_bias.
template <class V>
MANIPLE_SUBSTAGE void fused_inertia_and_bias(const Model<ScalarOf<V>>& m, const State<V>& s,
                                             const Data<V>& d) {
  const BodyLevels<V> levels(m, d);
  for (int level = levels.count - 1; level >= 0; --level)
    for (const int n : d.team.share(levels.size(level))) {
      const int i = levels.body_back(level, n);
      const int* const child = m.body_child + m.body_childadr[i];
      for (int c = 0; c < m.body_childnum[i]; ++c) {
        for (int k = 0; k < 10; ++k) d.crb[10 * i + k] += d.crb[10 * child[c] + k];
        for (int k = 0; k < 6; ++k) d.cfrc_body[6 * i + k] += d.cfrc_body[6 * child[c] + k];
      }
    }
  for (const int k : d.team.share(m.nv)) {
    const int body = m.dof_bodyid[k];
    const Inertia<V> inertia = load10<V>(d.crb, 10 * body);
    const Spatial<V> force = load6<V>(d.cfrc_body, 6 * body);
    Spatial<V> momentum;
    const Vec3<V> lin = load3<V>(d.cdof, 6 * k + 3);
    if (m.dof_translation[k]) {
      d.qfrc_bias[k] = dot(lin, force.lin);
      momentum = {cross(inertia.moment, lin), inertia.mass * lin};
    } else {
      const Vec3<V> rot = load3<V>(d.cdof, 6 * k);
      d.qfrc_bias[k] = dot(lin, force.lin) + dot(rot, force.rot);
      momentum = inertia * Spatial<V>{rot, lin};
    }
    store_inertia_row(m, s, d, k, momentum);
  }
}

// What the passes leave out of the fields of the world, which nothing moves.
template <class V>
MANIPLE_FUNCTION void complete_world(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const V zero(0), one(1);
  const Mat3<V> identity{one, zero, zero, zero, one, zero, zero, zero, one};
  store3(d.xpos, 0, zero3<V>());
  store4(d.xquat, 0, Quat<V>{one, zero, zero, zero});
  store9(d.xmat, 0, identity);
  store3(d.xipos, 0, zero3<V>());
  store9(d.ximat, 0, identity);
  store10(d.cinert, 0, zero10<V>());
  store10(d.crb, 0, zero10<V>());
  store6(d.cvel, 0, zero6<V>());
  store6(d.cacc_bias, 0, acceleration_of_world(m, s));
  store6(d.cfrc_body, 0, zero6<V>());
}

// subtree_com of all bodies but the roots of trees, which have theirs.
template <class V>
MANIPLE_FUNCTION void complete_centers(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const LaneModel<V> lanes(m, s);
  const auto is_root = [&](int i) { return i > 0 && m.body_rootid[i] == i; };
  const auto add = [&](int i, const Vec3<V>& moment) {
    store3(d.subtree_com, 3 * i, load3<V>(d.subtree_com, 3 * i) + moment);
  };
  store3(d.subtree_com, 0, zero3<V>());
  for (int i = 1; i < m.nbody; ++i)
    if (!is_root(i)) store3(d.subtree_com, 3 * i, lanes.body_mass(i) * load3<V>(d.xipos, 3 * i));
  for (int i = m.nbody - 1; i > 0; --i) {
    const int parent = m.body_parentid[i];
    const Vec3<V> own = load3<V>(d.subtree_com, 3 * i);
    if (is_root(i))
      add(0, lanes.body_subtreemass(i) * own);
    else if (!is_root(parent))
      add(parent, own);
  }
  for (int i = 0; i < m.nbody; ++i) {
    if (m.body_inversesubtreemass[i] == 0)
      store3(d.subtree_com, 3 * i, load3<V>(d.xipos, 3 * i));
    else if (!is_root(i))
      store3(d.subtree_com, 3 * i, lanes.body_inversesubtreemass(i) * load3<V>(d.subtree_com, 3 * i));
  }
}

// What bodies that nothing moves carry: crb and cfrc_body of those on them, which the passes leave out.
template <class V>
MANIPLE_FUNCTION void complete_static_bodies(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  for (int i = m.nbody - 1; i > 0; --i) {
    const int parent = m.body_parentid[i];
    if (parent == 0 || !(m.body_flags[i] & body_parent_static)) continue;
    for (int k = 0; k < 10; ++k) d.crb[10 * parent + k] += d.crb[10 * i + k];
    for (int k = 0; k < 6; ++k) d.cfrc_body[6 * parent + k] += d.cfrc_body[6 * i + k];
  }
}

// The fields that neither the passes nor a later stage of a time step writes. Nothing of what a step goes on
// to read changes: it comes after the accelerations and before the integrator.
template <class V>
MANIPLE_STAGE void complete_fields(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  complete_world(m, s, d);
  complete_static_bodies(m, d);
  for (int i = 1; i < m.nbody; ++i) {
    const int flags = m.body_flags[i];
    const Mat3<V> xmat = matrix(load4<V>(d.xquat, 4 * i));
    store9(d.xmat, 9 * i, xmat);
    store9(d.ximat, 9 * i, inertial_matrix(m, d, i));
    if ((flags & body_massless) && !(flags & body_ipos_zero))
      store3(d.xipos, 3 * i, load3<V>(d.xpos, 3 * i) + xmat * LaneModel<V>(m, s).body_ipos().vector(i));
  }
  geom_kinematics(m, s, d);
  if (m.nsite > 0) site_kinematics(m, s, d);
  complete_centers(m, s, d);
  if (!(m.flags & model_fluid))
    for (int i = 0; i < m.nv; ++i) d.qfrc_fluid[i] = V(0);
}

}  // namespace maniple
