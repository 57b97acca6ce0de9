// Spatial tendons: the path from site to site, past geoms and over pulleys, its length and the Jacobian of
// that (mj_tendon), and the time derivative of the Jacobian at constant joint velocities (mj_tendonDot).
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/model/lane_model.hpp"
#include "kernels/physics/smooth/dof_row.hpp"
#include "kernels/physics/smooth/motion.hpp"
#include "kernels/physics/smooth/wrap.hpp"

namespace maniple {

// Row of ten_J of a spatial tendon.
template <class V>
MANIPLE_FUNCTION DofRow<V> spatial_row(const Model<ScalarOf<V>>& m, const Data<V>& d, int t) {
  return {m.ten_J_rownnz[t], m.ten_J_colind + m.ten_J_rowadr[t], nullptr,
          d.ten_J.from(m.ten_J_spatialadr[t])};
}

template <class V>
MANIPLE_FUNCTION Vec3<V> site_position(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                       int site) {
  return site_frame(m, s, d, site).pos;
}

// Calls site_to_site(site0, site1, geom, side, divisor) for the parts of spatial tendon t: past no geom where
// it is -1, with no side site where `side` is -1.
template <class T, class Visit>
MANIPLE_FUNCTION void for_each_part(const Model<T>& m, int t, const Visit& site_to_site) {
  T divisor = 1;
  for (int i = m.tendon_adr[t], last = i + m.tendon_num[t] - 1; i < last;) {
    if (m.wrap_type[i] == wrap_pulley || m.wrap_type[i + 1] == wrap_pulley) {
      if (m.wrap_type[i] == wrap_pulley) divisor = m.wrap_prm[i];
      ++i;
      continue;
    }
    const bool past = m.wrap_type[i + 1] == wrap_sphere || m.wrap_type[i + 1] == wrap_cylinder;
    const int next = past ? i + 2 : i + 1;
    site_to_site(m.wrap_objid[i], m.wrap_objid[next], past ? m.wrap_objid[i + 1] : -1,
                 past ? static_cast<int>(m.wrap_prm[i + 1]) : -1, divisor);
    i = next;
  }
}

// From x0 to x1 past a geom.
template <class V>
MANIPLE_FUNCTION Wrap<V> wrap_past_geom(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                        const Vec3<V>& x0, const Vec3<V>& x1, int geom, int side) {
  const Frame<V> frame = geom_frame(m, s, d, geom);
  const Vec3<V> side_point = side < 0 ? zero3<V>() : site_position(m, s, d, side);
  return wrap_tendon(x0, x1, frame.pos, matrix(frame.quat), LaneModel<V>(m, s).geom_size(geom, 0),
                     m.geom_type[geom] == geom_cylinder, side < 0 ? nullptr : &side_point);
}

// Calls pull(body, point, force) for what a unit of force that lengthens spatial tendon t does to bodies;
// returns its length. What joins two points of bodies for which are_one(body, body) pulls at none.
template <class V, class AreOne, class Pull>
MANIPLE_FUNCTION V walk_tendon(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int t,
                               const AreOne& are_one, const Pull& pull) {
  const auto length_of = [](const Vec3<V>& v) { return sqrt(dot(v, v)); };
  V length(0);
  for_each_part(m, t, [&](int site0, int site1, int geom, int side, ScalarOf<V> divisor) {
    const int body0 = m.site_bodyid[site0], body1 = m.site_bodyid[site1];
    const Vec3<V> x0 = site_position(m, s, d, site0), x1 = site_position(m, s, d, site1), straight = x1 - x0;
    const ScalarOf<V> share = 1 / divisor;
    bool pulls = !are_one(body0, body1);
    V start(pulls ? share : 0), end = start;
    V part = length_of(straight);
    Vec3<V> from0 = normalize(straight), to1 = from0;
    if (geom >= 0) {
      const Wrap<V> wrap = wrap_past_geom(m, s, d, x0, x1, geom, side);
      if (any_lane(wrap.wraps)) {
        const Vec3<V> before = wrap.start - x0, after = x1 - wrap.end;
        part = select(wrap.wraps, length_of(before) + wrap.length + length_of(after), part);
        from0 = select(wrap.wraps, normalize(before), from0);
        to1 = select(wrap.wraps, normalize(after), to1);
        const V pressed = select(wrap.wraps, V(share), V(0));
        const auto zero_where_straight = [&](const Vec3<V>& v) { return select(wrap.wraps, v, zero3<V>()); };
        const int body = m.geom_bodyid[geom];
        if (!are_one(body, body0)) pull(body, zero_where_straight(wrap.start), pressed * from0);
        if (!are_one(body, body1)) pull(body, zero_where_straight(wrap.end), -pressed * to1);
        start = select(wrap.wraps, V(are_one(body, body0) ? 0 : share), start);
        end = select(wrap.wraps, V(are_one(body, body1) ? 0 : share), end);
        pulls = true;
      }
    }
    length += part / V(divisor);
    if (!pulls) return;
    pull(body0, x0, -start * from0);
    pull(body1, x1, end * to1);
  });
  return length;
}

// Writes ten_length and ten_J of spatial tendon t.
template <class V>
MANIPLE_STAGE void spatial_tendon(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int t) {
  const DofRow<V> row = spatial_row(m, d, t);
  for (int k = 0; k < row.count; ++k) row.own[k] = V(0);
  // Within a body a tendon moves nothing: exactly, or it would have rows (tendon_has_rows). Between bodies
  // that are welded to each other MuJoCo has the rounding of a double, which pulls little; that of a float
  // does not.
  const auto are_one = [&](int a, int b) {
    return a == b || (sizeof(ScalarOf<V>) == 4 && m.body_weldid[a] == m.body_weldid[b]);
  };
  d.ten_length[t] =
      walk_tendon(m, s, d, t, are_one, [&](int body, const Vec3<V>& point, const Vec3<V>& force) {
        add_pull(m, d, row, body, point, force, zero3<V>());
      });
}

// d(ten_J of spatial tendon t)/dt qvel: the acceleration of its length if qacc is zero. Of straight tendons
// alone, as in MuJoCo.
template <class V>
MANIPLE_STAGE V spatial_tendon_drift(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                     int t) {
  V drift(0);
  for_each_part(m, t, [&](int site0, int site1, int, int, ScalarOf<V> divisor) {
    if (m.site_bodyid[site0] == m.site_bodyid[site1]) return;
    const auto motion = [&](int site) {
      return motion_at_rest(m, s, d, m.site_bodyid[site], site_position(m, s, d, site));
    };
    const PointMotion<V> from = motion(site0), to = motion(site1);
    const Vec3<V> between = to.pos - from.pos, direction = normalize(between);
    const Vec3<V> velocity = to.velocity.lin - from.velocity.lin;
    const V distance = sqrt(dot(between, between));
    const Vec3<V> across = velocity - dot(direction, velocity) * direction;
    const MaskOf<V> apart = distance > V(kMinimumValue);
    const V turning = select(apart, dot(across, velocity) / select(apart, distance, V(1)), V(0));
    drift += (dot(direction, to.acceleration.lin - from.acceleration.lin) + turning) / V(divisor);
  });
  return drift;
}

}  // namespace maniple
