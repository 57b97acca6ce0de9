// Forward kinematics: poses of bodies, joints, inertial frames, geoms and sites from the joint coordinates
// (mj_kinematics). A time step keeps matrices in registers and leaves xpos, xquat, xanchor, xaxis, xipos, the
// frames of the geoms that may touch, subtree_com of the roots, and in crb the rotational inertia of each
// body; complete_poses() adds the fields that only readers of results need. On a CPU memory traffic is half
// of the cost.
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/model/lane_model.hpp"
#include "kernels/physics/smooth/motion.hpp"
#include "kernels/physics/smooth/tree_walk.hpp"

namespace maniple {

// jnt_axis of joint j, rotated by q; a column of the rotation matrix where the axis is a unit axis.
template <class V>
MANIPLE_FUNCTION Vec3<V> rotated_axis(const Model<ScalarOf<V>>& m, int j, const Quat<V>& q) {
  const int flags = m.jnt_flags[j];
  const V x2 = q.x + q.x, y2 = q.y + q.y, z2 = q.z + q.z, one(1);
  if (flags & joint_axis_z) return {q.x * z2 + q.w * y2, q.y * z2 - q.w * x2, one - (q.x * x2 + q.y * y2)};
  if (flags & joint_axis_y) return {q.x * y2 - q.w * z2, one - (q.x * x2 + q.z * z2), q.y * z2 + q.w * x2};
  if (flags & joint_axis_x) return {one - (q.y * y2 + q.z * z2), q.x * y2 + q.w * z2, q.x * z2 - q.w * y2};
  return rotate(q, uniform3<V>(m.jnt_axis + 3 * j));
}

// q turned about the local axis of hinge j by `angle` [rad].
template <class V>
MANIPLE_FUNCTION Quat<V> turned(const Model<ScalarOf<V>>& m, int j, const Quat<V>& q, V angle) {
  const int flags = m.jnt_flags[j];
  V s, c;
  sincos(V(0.5) * angle, s, c);
  if (flags & joint_axis_z)
    return {q.w * c - q.z * s, q.x * c + q.y * s, q.y * c - q.x * s, q.z * c + q.w * s};
  if (flags & joint_axis_y)
    return {q.w * c - q.y * s, q.x * c - q.z * s, q.y * c + q.w * s, q.z * c + q.x * s};
  if (flags & joint_axis_x)
    return {q.w * c - q.x * s, q.x * c + q.w * s, q.y * c + q.z * s, q.z * c - q.y * s};
  const Vec3<V> u = s * uniform3<V>(m.jnt_axis + 3 * j);
  return q * Quat<V>{c, u.x, u.y, u.z};
}

// Pose of body i from that of its parent, which has been placed, and from its joints; writes xanchor and
// xaxis.
template <class V>
MANIPLE_FUNCTION Frame<V> body_pose(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i) {
  const int flags = m.body_flags[i], parent = m.body_parentid[i];
  const int first = m.body_jntadr[i], count = m.body_jntnum[i];
  if (count == 1 && m.jnt_type[first] == joint_free) {
    const int q = m.jnt_qposadr[first];
    const Vec3<V> xpos = load3<V>(s.qpos, q);
    store3(d.xanchor, 3 * first, xpos);
    store3(d.xaxis, 3 * first, uniform3<V>(m.jnt_axis + 3 * first));
    return {xpos, normalize(load4<V>(s.qpos, q + 3))};
  }
  if (m.nmocap > 0 && m.body_mocapid[i] >= 0) {
    const int mocap = m.body_mocapid[i];
    return {load3<V>(s.mocap_pos, 3 * mocap), normalize(load4<V>(s.mocap_quat, 4 * mocap))};
  }
  const LaneModel<V> lanes(m, s);
  Vec3<V> xpos;
  Quat<V> xquat;
  if (parent > 0) {
    xpos = load3<V>(d.xpos, 3 * parent);
    xquat = load4<V>(d.xquat, 4 * parent);
    if (!(flags & body_pos_zero)) xpos = xpos + rotate(xquat, lanes.body_pos().vector(i));
    if (!(flags & body_quat_identity)) xquat = xquat * lanes.body_quat().quaternion(i);
  } else {
    xpos = lanes.body_pos().vector(i);
    xquat = lanes.body_quat().quaternion(i);
  }
  for (int j = first; j < first + count; ++j) {
    const int type = m.jnt_type[j], q = m.jnt_qposadr[j];
    const bool centered = m.jnt_flags[j] & joint_pos_zero;
    const Vec3<V> axis = rotated_axis(m, j, xquat);
    Vec3<V> anchor = xpos;
    if (!centered) anchor = anchor + rotate(xquat, uniform3<V>(m.jnt_pos + 3 * j));
    if (type == joint_slide) {
      xpos = xpos + (s.qpos[q] - lanes.qpos0(q)) * axis;
    } else {
      if (type == joint_ball)
        xquat = xquat * normalize(load4<V>(s.qpos, q));
      else
        xquat = turned(m, j, xquat, s.qpos[q] - lanes.qpos0(q));
      if (!centered) xpos = anchor - rotate(xquat, uniform3<V>(m.jnt_pos + 3 * j));
    }
    store3(d.xanchor, 3 * j, anchor);
    store3(d.xaxis, 3 * j, axis);
  }
  return {xpos, renormalize(xquat)};
}

template <class V>
MANIPLE_FUNCTION Frame<V> place_body(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                     int i) {
  const Frame<V> pose = body_pose(m, s, d, i);
  store3(d.xpos, 3 * i, pose.pos);
  store4(d.xquat, 4 * i, pose.quat);
  return pose;
}

// Orientation of geom g in its body.
template <class V>
MANIPLE_FUNCTION Mat3<V> local_geom_mat(const Model<ScalarOf<V>>& m, const State<V>& s, int g) {
  if (m.varied.geom_quat < 0) return uniform9<V>(m.geom_mat + 9 * g);
  return matrix(LaneModel<V>(m, s).geom_quat().quaternion(g));
}

// Pose of geom g, of a body that stands at xpos with the orientation xmat. `whole`: with every column of
// geom_xmat, not only with what the contacts need.
template <class V>
MANIPLE_FUNCTION void place_geom(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int g,
                                 const Vec3<V>& xpos, const Mat3<V>& xmat, bool whole) {
  const int flags = m.geom_flags[g];
  store3(d.geom_xpos, 3 * g,
         flags & geom_pos_zero ? xpos : xpos + xmat * LaneModel<V>(m, s).geom_pos().vector(g));
  if (whole || (flags & geom_needs_frame)) {
    store9(d.geom_xmat, 9 * g, flags & geom_quat_identity ? xmat : xmat * local_geom_mat(m, s, g));
  } else if (flags & geom_needs_axis) {
    const Vec3<V> axis =
        flags & geom_quat_identity ? xmat.column_z() : xmat * local_geom_mat(m, s, g).column_z();
    d.geom_xmat[9 * g + 2] = axis.x;
    d.geom_xmat[9 * g + 5] = axis.y;
    d.geom_xmat[9 * g + 8] = axis.z;
  }
}

// The geoms of body i that may touch.
template <class V>
MANIPLE_FUNCTION void place_colliding_geoms(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                            int i, const Vec3<V>& xpos, const Mat3<V>& xmat) {
  for (int g = m.body_geomadr[i], end = g + m.body_geomnum[i]; g < end; ++g)
    if (m.geom_flags[g] & geom_collides) place_geom(m, s, d, g, xpos, xmat, false);
}

// The geoms of the world that may touch.
template <class V>
MANIPLE_FUNCTION void place_world_geoms(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const V one(1), zero(0);
  place_colliding_geoms(m, s, d, 0, zero3<V>(), Mat3<V>{one, zero, zero, zero, one, zero, zero, zero, one});
}

// Roots to leaves: poses of bodies and of the geoms that may touch.
template <class V>
MANIPLE_FUNCTION void place_geoms(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  place_world_geoms(m, s, d);
  for (int i = 1; i < m.nbody; ++i) {
    const Frame<V> pose = place_body(m, s, d, i);
    if (m.body_geomnum[i] > 0) place_colliding_geoms(m, s, d, i, pose.pos, matrix(pose.quat));
  }
}

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

// Roots to leaves: poses, with those of geoms if `geoms`, and the centers of mass of the roots' subtrees.
template <class V>
MANIPLE_SUBSTAGE void kinematics(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                 bool geoms) {
  const LaneModel<V> lanes(m, s);
  if (geoms) d.team.once([&] { place_world_geoms(m, s, d); });
  const BodyLevels<V> levels(m, d);
  for (int level = 0; level < levels.count; ++level)
    for (const int k : d.team.share(levels.size(level))) {
      const int i = levels.body(level, k), flags = m.body_flags[i];
      const auto [xpos, xquat] = place_body(m, s, d, i);
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

// The poses of bodies that kinematics() leaves out: xmat, ximat, xipos of massless bodies, and those of the
// world.
template <class V>
MANIPLE_FUNCTION void complete_body_poses(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const V zero(0), one(1);
  const Mat3<V> identity{one, zero, zero, zero, one, zero, zero, zero, one};
  store3(d.xpos, 0, zero3<V>());
  store4(d.xquat, 0, Quat<V>{one, zero, zero, zero});
  store9(d.xmat, 0, identity);
  store3(d.xipos, 0, zero3<V>());
  store9(d.ximat, 0, identity);
  for (int i = 1; i < m.nbody; ++i) {
    const int flags = m.body_flags[i];
    const Mat3<V> xmat = matrix(load4<V>(d.xquat, 4 * i));
    store9(d.xmat, 9 * i, xmat);
    store9(d.ximat, 9 * i, inertial_matrix(m, d, i));
    if ((flags & body_massless) && !(flags & body_ipos_zero))
      store3(d.xipos, 3 * i, load3<V>(d.xpos, 3 * i) + xmat * LaneModel<V>(m, s).body_ipos().vector(i));
  }
}

// All poses that kinematics() leaves out: also geom_xpos and geom_xmat of all geoms, site_xpos, site_xmat and
// the other subtree_com.
template <class V>
MANIPLE_STAGE void complete_poses(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  complete_body_poses(m, s, d);
  for (int g = 0; g < m.ngeom; ++g) {
    const int body = m.geom_bodyid[g];
    place_geom(m, s, d, g, load3<V>(d.xpos, 3 * body), load9<V>(d.xmat, 9 * body), true);
  }
  for (int i = 0; i < m.nsite; ++i) {
    const int body = m.site_bodyid[i];
    const Mat3<V> xmat = load9<V>(d.xmat, 9 * body);
    store3(d.site_xpos, 3 * i, load3<V>(d.xpos, 3 * body) + xmat * LaneModel<V>(m, s).site_pos().vector(i));
    store9(d.site_xmat, 9 * i, xmat * uniform9<V>(m.site_mat + 9 * i));
  }
  complete_centers(m, s, d);
}

}  // namespace maniple
