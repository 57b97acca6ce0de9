// Moments and lengths of actuators on sites and through slider-cranks (mj_transmission): rows of numbers at
// the dofs that move the sites, which depend on the pose. transmission.hpp takes them from actuator_moment.
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/physics/smooth/dof_row.hpp"
#include "kernels/physics/smooth/motion.hpp"

namespace maniple {

// Moment of actuator i.
template <class V>
MANIPLE_FUNCTION DofRow<V> moment_row(const Model<ScalarOf<V>>& m, const Data<V>& d, int i) {
  const int first = m.moment_rowadr[i];
  return {m.moment_rownnz[i], m.moment_colind + first, nullptr, d.actuator_moment.from(first)};
}

// The last dof that moves both bodies; -1: none does.
template <class T>
MANIPLE_FUNCTION int last_common_dof(const Model<T>& m, int body1, int body2) {
  int dof1 = m.body_lastdof[body1], dof2 = m.body_lastdof[body2];
  while (dof1 != dof2) {
    int& last = dof1 > dof2 ? dof1 : dof2;
    last = m.dof_parentid[last];
  }
  return dof1;
}

// A force and a torque in the frame of the site, or in that of the reference site, which the opposite acts
// on.
template <class V>
MANIPLE_FUNCTION V site_moment(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i,
                               const DofRow<V>& row) {
  const int site = m.actuator_trnid[2 * i], reference = m.actuator_trnid[2 * i + 1];
  const int body = m.site_bodyid[site];
  const Vec3<V> along = uniform3<V>(m.actuator_gear + 6 * i),
                about = uniform3<V>(m.actuator_gear + 6 * i + 3);
  const Frame<V> frame = site_frame(m, s, d, site);
  if (reference < 0) {
    const Mat3<V> mat = matrix(frame.quat);
    add_pull(m, d, row, body, frame.pos, mat * along, mat * about);
    return V(0);
  }
  const int other = m.site_bodyid[reference], common = last_common_dof(m, body, other);
  const Frame<V> from = site_frame(m, s, d, reference);
  const Mat3<V> mat = matrix(from.quat);
  const Vec3<V> force = mat * along, torque = mat * about;
  add_pull(m, d, row, body, frame.pos, force, torque, common);
  add_pull(m, d, row, other, from.pos, -force, -torque, common);
  V length = dot(transpose(mat) * (frame.pos - from.pos), along);
  length += dot(difference(frame.quat, from.quat), about);
  return length;
}

// A rod from the crank's site to a slider on the z axis of the other site, where the actuator pushes.
template <class V>
MANIPLE_FUNCTION V slider_crank_moment(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                       int i, const DofRow<V>& row) {
  const int crank = m.actuator_trnid[2 * i], slider = m.actuator_trnid[2 * i + 1];
  const Frame<V> end = site_frame(m, s, d, crank), base = site_frame(m, s, d, slider);
  const Vec3<V> axis = matrix(base.quat).column_z(), arm = end.pos - base.pos;
  const V rod(m.actuator_cranklength[i]), gear(m.actuator_gear[6 * i]), one(1);
  const V along = dot(arm, axis), square = along * along + rod * rod - dot(arm, arm);
  // the rod is too short where this is not positive
  const MaskOf<V> reaches = square > V(0);
  const V root = sqrt(select(reaches, square, one));
  const V share = select(reaches, one - along / root, one);
  const Vec3<V> by_arm = share * axis + select(reaches, one / root, V(0)) * arm, by_axis = share * arm;
  add_pull(m, d, row, m.site_bodyid[crank], end.pos, gear * by_arm, zero3<V>());
  add_pull(m, d, row, m.site_bodyid[slider], base.pos, -(gear * by_arm), gear * cross(axis, by_axis));
  return gear * (along - select(reaches, root, V(0)));
}

}  // namespace maniple
