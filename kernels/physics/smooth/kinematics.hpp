// Forward kinematics: poses of bodies, joints, inertial frames and sites from the joint coordinates
// (mj_kinematics). One pass over the tree, parents before children.
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/model/lane_model.hpp"

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

// Position and orientation of body i from its parent and its joints; writes xanchor and xaxis.
// `rotate_by(parent, v)` turns v by the orientation of a body that has been placed.
template <class V, class RotateBy>
MANIPLE_FUNCTION void place_body(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i,
                                 const RotateBy& rotate_by, Vec3<V>& xpos, Quat<V>& xquat) {
  const int flags = m.body_flags[i], parent = m.body_parentid[i];
  const int first = m.body_jntadr[i], count = m.body_jntnum[i];
  if (count == 1 && m.jnt_type[first] == joint_free) {
    const int q = m.jnt_qposadr[first];
    xpos = load3<V>(s.qpos, q);
    xquat = normalize(load4<V>(s.qpos, q + 3));
    store3(d.xanchor, 3 * first, xpos);
    store3(d.xaxis, 3 * first, uniform3<V>(m.jnt_axis + 3 * first));
    return;
  }
  if (m.nmocap > 0 && m.body_mocapid[i] >= 0) {
    const int mocap = m.body_mocapid[i];
    xpos = load3<V>(s.mocap_pos, 3 * mocap);
    xquat = normalize(load4<V>(s.mocap_quat, 4 * mocap));
    return;
  }
  const LaneModel<V> lanes(m, s);
  if (parent > 0) {
    xpos = load3<V>(d.xpos, 3 * parent);
    if (!(flags & body_pos_zero)) xpos = xpos + rotate_by(parent, lanes.body_pos().vector(i));
    xquat = load4<V>(d.xquat, 4 * parent);
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
  xquat = renormalize(xquat);
}

// Writes xpos, xquat, xmat, xanchor, xaxis, xipos, ximat.
template <class V>
MANIPLE_FUNCTION void body_kinematics(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  store3(d.xpos, 0, zero3<V>());
  store4(d.xquat, 0, Quat<V>{V(1), V(0), V(0), V(0)});
  store9(d.xmat, 0, Mat3<V>{V(1), V(0), V(0), V(0), V(1), V(0), V(0), V(0), V(1)});
  store3(d.xipos, 0, zero3<V>());
  store9(d.ximat, 0, Mat3<V>{V(1), V(0), V(0), V(0), V(1), V(0), V(0), V(0), V(1)});
  for (int i = 1; i < m.nbody; ++i) {
    const int flags = m.body_flags[i];
    Vec3<V> xpos;
    Quat<V> xquat;
    place_body(
        m, s, d, i, [&](int parent, const Vec3<V>& offset) { return load9<V>(d.xmat, 9 * parent) * offset; },
        xpos, xquat);
    store3(d.xpos, 3 * i, xpos);
    store4(d.xquat, 4 * i, xquat);
    const Mat3<V> xmat = matrix(xquat);
    store9(d.xmat, 9 * i, xmat);
    store3(d.xipos, 3 * i,
           flags & body_ipos_zero ? xpos : xpos + xmat * LaneModel<V>(m, s).body_ipos().vector(i));
    store9(d.ximat, 9 * i, flags & body_iquat_identity ? xmat : xmat * uniform9<V>(m.body_imat + 9 * i));
  }
}

// Writes site_xpos, site_xmat.
template <class V>
MANIPLE_FUNCTION void site_kinematics(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (int i = 0; i < m.nsite; ++i) {
    const int body = m.site_bodyid[i];
    const Mat3<V> xmat = load9<V>(d.xmat, 9 * body);
    store3(d.site_xpos, 3 * i, load3<V>(d.xpos, 3 * body) + xmat * LaneModel<V>(m, s).site_pos().vector(i));
    store9(d.site_xmat, 9 * i, xmat * uniform9<V>(m.site_mat + 9 * i));
  }
}

}  // namespace maniple
