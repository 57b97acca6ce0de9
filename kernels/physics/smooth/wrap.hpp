// Wrapping of a tendon past a sphere or a cylinder: straight, or around it on the side of a side site, or
// along the inside where the side site is inside (mju_wrap). Everything happens in a plane: that of both end
// points and the center of a sphere, or the one across the axis of a cylinder, which is unrolled afterwards.
#pragma once

#include "kernels/math/functions.hpp"
#include "kernels/math/vector.hpp"

namespace maniple {

// A point of the plane.
template <class V>
struct Vec2 {
  V x, y;

  friend MANIPLE_FUNCTION Vec2 operator+(const Vec2& a, const Vec2& b) { return {a.x + b.x, a.y + b.y}; }
  friend MANIPLE_FUNCTION Vec2 operator-(const Vec2& a, const Vec2& b) { return {a.x - b.x, a.y - b.y}; }
  friend MANIPLE_FUNCTION Vec2 operator*(V s, const Vec2& a) { return {s * a.x, s * a.y}; }
};
template <class V>
MANIPLE_FUNCTION V dot(const Vec2<V>& a, const Vec2<V>& b) {
  return a.x * b.x + a.y * b.y;
}
// The sine of the angle from a to b, times both lengths.
template <class V>
MANIPLE_FUNCTION V cross(const Vec2<V>& a, const Vec2<V>& b) {
  return a.x * b.y - a.y * b.x;
}
// a / |a|; (1, 0) where a is zero: mju_normalize.
template <class V>
MANIPLE_FUNCTION Vec2<V> normalize(const Vec2<V>& a) {
  const V length = sqrt(dot(a, a));
  const MaskOf<V> zero = length < V(kMinimumValue);
  const V inverse = V(1) / select(zero, V(1), length);
  return {select(zero, V(1), inverse * a.x), select(zero, V(0), inverse * a.y)};
}
template <class V>
MANIPLE_FUNCTION Vec2<V> select(MaskOf<V> mask, const Vec2<V>& yes, const Vec2<V>& no) {
  return {select(mask, yes.x, no.x), select(mask, yes.y, no.y)};
}

// Where the segments p1 p2 and p3 p4 intersect. By signs alone, so that segments with a common end do,
// whatever the rounding: such tendons only touch the circle.
template <class V>
MANIPLE_FUNCTION MaskOf<V> segments_intersect(const Vec2<V>& p1, const Vec2<V>& p2, const Vec2<V>& p3,
                                              const Vec2<V>& p4) {
  const Vec2<V> one = p2 - p1, two = p4 - p3, begin = p1 - p3, end = p2 - p4;
  const V det = cross(one, two), sign = select(det > V(0), V(1), V(-1)), zero(0);
  return abs(det) >= V(kMinimumValue) && sign * cross(two, begin) >= zero &&
         sign * cross(one, begin) >= zero && sign * cross(two, end) <= zero && sign * cross(one, end) <= zero;
}

// The tendon in the plane: from `start` to `end` on the circle, `length` along it.
template <class V>
struct CircleWrap {
  MaskOf<V> wraps;
  V length;
  Vec2<V> start, end;
};

// Length of the arc from one point of a circle to another, clockwise or the other way around.
template <class V>
MANIPLE_FUNCTION V arc_length(const Vec2<V>& from, const Vec2<V>& to, MaskOf<V> clockwise, V radius) {
  const V turn = cross(to, from), angle = atan2(abs(turn), dot(from, to));
  const MaskOf<V> outer = (turn > V(0) && clockwise) || (turn < V(0) && !clockwise);
  return radius * select(outer, V(ScalarOf<V>(6.28318530717958647693)) - angle, angle);
}

// Around a circle about the origin, from e0 to e1; with a side point `side` on that side, else the shorter
// way.
template <class V>
MANIPLE_FUNCTION CircleWrap<V> wrap_circle(const Vec2<V>& e0, const Vec2<V>& e1, const Vec2<V>* side,
                                           V radius) {
  const V square = radius * radius, r = radius;
  const V square0 = dot(e0, e0), square1 = dot(e1, e1);
  const Vec2<V> difference = e1 - e0;
  const V distance2 = dot(difference, difference);
  MaskOf<V> wraps =
      square0 >= square && square1 >= square && distance2 >= V(kMinimumValue) && radius >= V(kMinimumValue);

  // straight where the segment's nearest point is outside, and on the side of the side point
  const V along = clamp(-dot(difference, e0) / distance2, V(0), V(1));
  const Vec2<V> nearest = along * difference + e0;
  MaskOf<V> straight = dot(nearest, nearest) > square;
  if (side != nullptr) straight = straight && dot(*side, nearest) >= V(0);
  wraps = wraps && !straight;

  // the tangents from the ends, by either way around
  const V root0 = sqrt(max(square0 - square, V(0))), root1 = sqrt(max(square1 - square, V(0)));
  Vec2<V> start[2], end[2];
  V goodness[2];
  for (int i = 0; i < 2; ++i) {
    const V sign(i == 0 ? 1 : -1);
    start[i] = {(e0.x * square + sign * r * e0.y * root0) / square0,
                (e0.y * square - sign * r * e0.x * root0) / square0};
    end[i] = {(e1.x * square - sign * r * e1.y * root1) / square1,
              (e1.y * square + sign * r * e1.x * root1) / square1};
    if (side != nullptr) {
      goodness[i] = dot(normalize(start[i] + end[i]), *side);
    } else {
      const Vec2<V> chord = start[i] - end[i];
      goodness[i] = -dot(chord, chord);
    }
    goodness[i] = select(segments_intersect(e0, start[i], e1, end[i]), V(-10000), goodness[i]);
  }
  const MaskOf<V> first = goodness[0] > goodness[1];
  const Vec2<V> from = select(first, start[0], start[1]), to = select(first, end[0], end[1]);
  wraps = wraps && !segments_intersect(e0, from, e1, to);
  return {wraps, arc_length(from, to, !first, radius), from, to};
}

// Touching a circle about the origin from inside, in one point, on the way from e0 to e1. Newton's method,
// with the start, the stop and the point for want of convergence that MuJoCo's results depend on.
template <class V>
MANIPLE_FUNCTION CircleWrap<V> wrap_inside(const Vec2<V>& e0, const Vec2<V>& e1, V radius, MaskOf<V> lanes) {
  using T = ScalarOf<V>;
  constexpr int iterations = 19;
  constexpr double tolerance = 1e-6;
  const V r = radius, least(kMinimumValue), one(1);
  const V square0 = dot(e0, e0), square1 = dot(e1, e1), length0 = sqrt(square0), length1 = sqrt(square1);
  const Vec2<V> difference = e1 - e0;
  const V distance2 = dot(difference, difference);
  MaskOf<V> wraps =
      lanes && length0 > r && length1 > r && length0 >= least && length1 >= least && radius >= least;
  const V along = -dot(difference, e0) / distance2;
  const Vec2<V> nearest = e0 + along * difference;
  wraps = wraps && !(distance2 > least && along > V(0) && along < one && sqrt(dot(nearest, nearest)) <= r);
  const V a = r / length0, b = r / length1;
  const V cosine = (square0 + square1 - distance2) / (V(2) * length0 * length1);
  wraps = wraps && !(cosine < V(-1 + kMinimumValue));

  // asin(a sin(phi)) + asin(b sin(phi)) - 2 phi + angle = 0, from phi = pi/2 down
  V angle;
  if constexpr (sizeof(T) == 8)
    angle = acos(clamp(cosine, -one, one));
  else
    angle = atan2(abs(cross(e0, e1)), dot(e0, e1));
  V phi(T(1.57079632679489661923)), z(1);
  const auto error_at = [&](V at, V sine) { return asin(a * sine) + asin(b * sine) - V(2) * at + angle; };
  const auto root = [&](V x) { return max(least, V(sqrt(max(one - z * z * x * x, V(0))))); };
  V error = error_at(phi, z);
  MaskOf<V> average = cosine > V(1 - kMinimumValue) || error > V(0);
  MaskOf<V> active = wraps && !average && abs(error) > V(tolerance);
  for (int i = 0; i < iterations && any_lane(active); ++i) {
    const V derivative = cos(phi) * (a / root(a) + b / root(b)) - V(2), next = phi - error / derivative;
    const MaskOf<V> fails = derivative > -least || next > phi;
    average = average || (active && fails);
    active = active && !fails;
    phi = select(active, next, phi);
    z = select(active, sin(phi), z);
    error = select(active, error_at(phi, z), error);
    average = average || (active && error > V(tolerance));
    active = active && error < V(-tolerance);
  }
  average = average || active;

  const MaskOf<V> left = cross(e0, e1) > V(0);
  const Vec2<V> from = normalize(select(left, e0, e1));
  V sine, turned;
  sincos(phi - asin(select(left, a, b) * z), sine, turned);
  const Vec2<V> touching{r * (turned * from.x - sine * from.y), r * (sine * from.x + turned * from.y)};
  const Vec2<V> point = select(average, r * normalize(V(T(0.5)) * (e0 + e1)), touching);
  return {wraps, V(0), point, point};
}

// A tendon past a geom: where it wraps, from `start` to `end` on the surface, `length` along it.
template <class V>
struct Wrap {
  MaskOf<V> wraps;
  V length;
  Vec3<V> start, end;
};

// An axis that is not parallel to `axis`: zero along its largest component, one along the others.
template <class V>
MANIPLE_FUNCTION Vec3<V> another_axis(const Vec3<V>& axis) {
  const V x = abs(axis.x), y = abs(axis.y), z = abs(axis.z);
  const MaskOf<V> is_z = z > x && z > y, is_y = y > x && y > z, is_x = !is_z && !is_y;
  return {select(is_x, V(0), V(1)), select(is_y, V(0), V(1)), select(is_z, V(0), V(1))};
}

// From x0 to x1 past a sphere, or a cylinder, of this pose and radius. `side`: the side site's position, or
// nullptr.
template <class V>
MANIPLE_FUNCTION Wrap<V> wrap_tendon(const Vec3<V>& x0, const Vec3<V>& x1, const Vec3<V>& xpos,
                                     const Mat3<V>& xmat, V radius, bool cylinder, const Vec3<V>* side) {
  const Mat3<V> inverse = transpose(xmat);
  const Vec3<V> p0 = inverse * (x0 - xpos), p1 = inverse * (x1 - xpos);
  const V least(kMinimumValue);
  MaskOf<V> lanes = sqrt(dot(p0, p0)) >= least && sqrt(dot(p1, p1)) >= least;

  // the plane
  Vec3<V> axis0{V(1), V(0), V(0)}, axis1{V(0), V(1), V(0)};
  if (!cylinder) {
    axis0 = normalize(p0);
    Vec3<V> normal = cross(p0, p1);
    const MaskOf<V> parallel = sqrt(dot(normal, normal)) < least;
    normal = normalize(normal);
    if (any_lane(parallel)) normal = select(parallel, normalize(cross(axis0, another_axis(axis0))), normal);
    axis1 = normalize(cross(normal, axis0));
  }
  const auto projected = [&](const Vec3<V>& p) { return Vec2<V>{dot(p, axis0), dot(p, axis1)}; };
  const Vec2<V> e0 = projected(p0), e1 = projected(p1);
  Vec2<V> side_point{V(0), V(0)};
  MaskOf<V> inside(false);
  if (side != nullptr) {
    const Vec3<V> s = inverse * (*side - xpos);
    side_point = radius * normalize(projected(s));
    inside = sqrt(dot(s, s)) < radius;
  }

  CircleWrap<V> wrap{MaskOf<V>(false), V(0), {V(0), V(0)}, {V(0), V(0)}};
  if (any_lane(lanes && !inside)) wrap = wrap_circle(e0, e1, side == nullptr ? nullptr : &side_point, radius);
  if (any_lane(lanes && inside)) {
    const CircleWrap<V> inner = wrap_inside(e0, e1, radius, lanes && inside);
    wrap.wraps = (inside && inner.wraps) || (!inside && wrap.wraps);
    wrap.length = select(inside, inner.length, wrap.length);
    wrap.start = select(inside, inner.start, wrap.start);
    wrap.end = select(inside, inner.end, wrap.end);
  }
  lanes = lanes && wrap.wraps;

  // back into space
  Vec3<V> start = wrap.start.x * axis0 + wrap.start.y * axis1, end = wrap.end.x * axis0 + wrap.end.y * axis1;
  V length = wrap.length;
  if (cylinder) {
    const auto length_of = [](const Vec2<V>& v) { return sqrt(dot(v, v)); };
    const V length0 = length_of(e0 - wrap.start), length1 = length_of(e1 - wrap.end);
    const V climb = p1.z - p0.z, whole = length0 + length + length1;
    start.z = p0.z + climb * length0 / whole;
    end.z = p0.z + climb * (length0 + length) / whole;
    const V height = end.z - start.z;
    length = sqrt(length * length + height * height);
  }
  return {lanes, length, xmat * start + xpos, xmat * end + xpos};
}

}  // namespace maniple
