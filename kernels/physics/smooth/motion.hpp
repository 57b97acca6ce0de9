// Frames of bodies and the motion of points on them (mj_objectVelocity, mj_objectAcceleration), from fields
// that every path through the kinematics computes: xpos, xquat, xipos, cvel and subtree_com of the roots. Of
// the world and of other bodies that nothing moves, only the poses are read.
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/math/spatial.hpp"
#include "kernels/model/data.hpp"
#include "kernels/model/lane_model.hpp"

namespace maniple {

// Orientation of body i's inertial frame.
template <class V>
MANIPLE_FUNCTION Mat3<V> inertial_matrix(const Model<ScalarOf<V>>& m, const Data<V>& d, int i) {
  const Mat3<V> mat = matrix(load4<V>(d.xquat, 4 * i));
  return m.body_flags[i] & body_iquat_identity ? mat : mat * uniform9<V>(m.body_imat + 9 * i);
}

// From the center of mass of body i's tree, about which spatial vectors are written, to a point.
template <class V>
MANIPLE_FUNCTION Vec3<V> from_tree_center(const Model<ScalarOf<V>>& m, const Data<V>& d, int i,
                                          const Vec3<V>& point) {
  return point - load3<V>(d.subtree_com, 3 * m.body_rootid[i]);
}

// Velocity of body i at a point that lies `offset` from its tree's center of mass, in the world's axes.
template <class V>
MANIPLE_FUNCTION Spatial<V> velocity_at(const Model<ScalarOf<V>>& m, const Data<V>& d, int i,
                                        const Vec3<V>& offset) {
  if (m.body_lastdof[i] < 0) return zero6<V>();
  const Spatial<V> cvel = load6<V>(d.cvel, 6 * i);
  return {cvel.rot, cvel.lin + cross(cvel.rot, offset)};
}

// Acceleration of the same point, whose velocity is given, from that of the body as it is written.
template <class V>
MANIPLE_FUNCTION Spatial<V> moved_acceleration(const Spatial<V>& acceleration, const Spatial<V>& velocity,
                                               const Vec3<V>& offset) {
  return {acceleration.rot,
          acceleration.lin + cross(acceleration.rot, offset) + cross(velocity.rot, velocity.lin)};
}

// Acceleration of the same point from cacc, which counts gravity as an upward acceleration: what an
// accelerometer feels. Zero for what nothing moves.
template <class V>
MANIPLE_FUNCTION Spatial<V> acceleration_at(const Model<ScalarOf<V>>& m, const Data<V>& d, int i,
                                            const Vec3<V>& offset) {
  if (m.body_lastdof[i] < 0) return zero6<V>();
  return moved_acceleration(load6<V>(d.cacc, 6 * i), velocity_at(m, d, i, offset), offset);
}

// What MuJoCo's derivative of the Jacobian of a point (mj_jacDot) adds to the acceleration of body i, and of
// those that it carries, for slides that follow a ball joint on one body: it turns the axes of the ball joint
// with the velocity of the whole body, which has that of these slides.
template <class V>
MANIPLE_FUNCTION Vec3<V> slides_on_balls(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                         int i) {
  Vec3<V> sum = zero3<V>();
  for (; i > 0; i = m.body_parentid[i]) {
    Vec3<V> turning = zero3<V>();  // of a ball joint
    for (int j = m.body_jntadr[i], end = j + m.body_jntnum[i]; j < end; ++j) {
      const int dof = m.jnt_dofadr[j];
      if (m.jnt_type[j] == joint_ball)
        for (int k = dof; k < dof + 3; ++k) turning = turning + V(s.qvel[k]) * load3<V>(d.cdof, 6 * k);
      if (m.jnt_type[j] == joint_slide)
        sum = sum + cross(V(s.qvel[dof]) * load3<V>(d.cdof, 6 * dof + 3), turning);
    }
  }
  return sum;
}

// A point of a body: where it is, its velocity, and its acceleration if qacc is zero, as MuJoCo's derivatives
// of Jacobians have it.
template <class V>
struct PointMotion {
  Vec3<V> pos;
  Spatial<V> velocity, acceleration;
};
template <class V>
MANIPLE_FUNCTION PointMotion<V> motion_at_rest(const Model<ScalarOf<V>>& m, const State<V>& s,
                                               const Data<V>& d, int body, const Vec3<V>& point) {
  PointMotion<V> motion{point, zero6<V>(), zero6<V>()};
  if (m.body_lastdof[body] < 0) return motion;
  const Vec3<V> offset = from_tree_center(m, d, body, point);
  motion.velocity = velocity_at(m, d, body, offset);
  Spatial<V> acceleration = load6<V>(d.cacc_bias, 6 * body);
  // (gravity is an upward acceleration of the world there)
  if (!(m.disableflags & disable_gravity))
    acceleration.lin = acceleration.lin + LaneModel<V>(m, s).gravity().vector(0);
  if (m.flags & model_slides_on_balls) acceleration.lin = acceleration.lin + slides_on_balls(m, s, d, body);
  motion.acceleration = moved_acceleration(acceleration, motion.velocity, offset);
  return motion;
}

// A frame in the world.
template <class V>
struct Frame {
  Vec3<V> pos;
  Quat<V> quat;
};

// The frame at `pos` with the orientation `quat` in body i.
template <class V>
MANIPLE_FUNCTION Frame<V> frame_on_body(const Data<V>& d, int i, const Vec3<V>& pos, const Quat<V>& quat) {
  if (i == 0) return {pos, quat};
  const Quat<V> xquat = load4<V>(d.xquat, 4 * i);
  return {load3<V>(d.xpos, 3 * i) + rotate(xquat, pos), xquat * quat};
}

// The frames of geom g and of a site, from the poses of their bodies alone.
template <class V>
MANIPLE_FUNCTION Frame<V> geom_frame(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                     int g) {
  const LaneModel<V> lanes(m, s);
  return frame_on_body(d, m.geom_bodyid[g], lanes.geom_pos().vector(g), lanes.geom_quat().quaternion(g));
}
template <class V>
MANIPLE_FUNCTION Frame<V> site_frame(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                     int site) {
  return frame_on_body(d, m.site_bodyid[site], LaneModel<V>(m, s).site_pos().vector(site),
                       uniform4<V>(m.site_quat + 4 * site));
}

// The frames that sensor i reads and refers to.
template <class V>
MANIPLE_FUNCTION Frame<V> sensor_frame(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                       int i) {
  const LaneModel<V> lanes(m, s);
  return frame_on_body(d, m.sensor_bodyid[i], lanes.sensor_pos().vector(i),
                       lanes.sensor_quat().quaternion(i));
}
template <class V>
MANIPLE_FUNCTION Frame<V> sensor_reference(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                           int i) {
  const LaneModel<V> lanes(m, s);
  return frame_on_body(d, m.sensor_refbodyid[i], lanes.sensor_refpos().vector(i),
                       lanes.sensor_refquat().quaternion(i));
}

// The frame that equality constraint e, a connect or weld, holds on body 1 (side 0) or body 2 (side 1).
template <class V>
MANIPLE_FUNCTION Frame<V> equality_frame(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                         int e, int side) {
  const int i = 2 * e + side;
  const LaneModel<V> lanes(m, s);
  return frame_on_body(d, m.eq_bodyid[i], lanes.eq_pos().vector(i), lanes.eq_quat().quaternion(i));
}

}  // namespace maniple
