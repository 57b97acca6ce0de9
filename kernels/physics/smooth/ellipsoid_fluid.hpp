// Forces of a fluid on geoms as ellipsoids (fluidshape="ellipsoid"): added mass, lift by circulation and by
// spin, drag and viscous resistance (mj_ellipsoidFluidModel; MuJoCo's documentation, "Fluid forces"), and
// their derivative by the velocity of the geom as MuJoCo has it (mjd_ellipsoidFluid). Sizes and velocities
// enter relative to the longest semiaxis and to the speed, so that no power of small ones is lost.
#pragma once

#include "kernels/math/spatial.hpp"
#include "kernels/math/vector.hpp"
#include "kernels/model/lane_model.hpp"

namespace maniple {

// Derivative of a spatial force by a spatial velocity: that of torque and force by rotation and translation.
template <class V>
struct VelocityDerivative {
  Mat3<V> torque_rot, torque_lin, force_rot, force_lin;

  friend MANIPLE_FUNCTION Spatial<V> operator*(const VelocityDerivative& derivative, const Spatial<V>& v) {
    return {derivative.torque_rot * v.rot + derivative.torque_lin * v.lin,
            derivative.force_rot * v.rot + derivative.force_lin * v.lin};
  }
};
// (a + factor a') / 2: with factor 1 the symmetric part, with -1 the rest.
template <class V>
MANIPLE_FUNCTION VelocityDerivative<V> half_sum_with_transpose(const VelocityDerivative<V>& a, V factor) {
  const V half(ScalarOf<V>(0.5));
  const auto part = [&](const Mat3<V>& one, const Mat3<V>& other) {
    const Mat3<V> whole = add_scaled(one, factor, transpose(other));
    return add_scaled(diagonal(V(0), V(0), V(0)), half, whole);
  };
  return {part(a.torque_rot, a.torque_rot), part(a.torque_lin, a.force_rot), part(a.force_rot, a.torque_lin),
          part(a.force_lin, a.force_lin)};
}

// Geom g as an ellipsoid in the fluid, with what follows from its shape alone.
template <class V>
struct EllipsoidInFluid {
  V density, viscosity, interaction, blunt_drag, slender_drag, kutta_lift, magnus;
  V linear_viscosity, angular_viscosity;  // force over -velocity in a viscous fluid at rest
  V square, largest_area;                 // of the longest semiaxis; of an ellipse through the middle
  Vec3<V> mass, inertia;                  // of the fluid that moves along
  Vec3<V> area2;   // squares of the products of the other two semiaxes, over those of the longest
  Vec3<V> moment;  // of the drag against rotation

  MANIPLE_FUNCTION EllipsoidInFluid(const Model<ScalarOf<V>>& m, const State<V>& s, int g) {
    const ScalarOf<V>* const fluid = m.geom_fluid + kGeomFluid * g;
    Vec3<V> size = LaneModel<V>(m, s).geom_size().vector(g);  // semiaxes: mju_geomSemiAxes
    switch (m.geom_type[g]) {
      case geom_sphere:
        size = {size.x, size.x, size.x};
        break;
      case geom_capsule:
        size = {size.x, size.x, size.x + size.y};
        break;
      case geom_cylinder:
        size = {size.x, size.x, size.y};
        break;
      default:
        break;
    }
    density = V(m.density);
    viscosity = V(m.viscosity);
    interaction = V(fluid[0]);
    blunt_drag = V(fluid[1]);
    slender_drag = V(fluid[2]);
    kutta_lift = V(fluid[4]);
    magnus = V(fluid[5]) * density * (number(4.0 / 3.0 * kPi) * size.x * size.y * size.z);
    mass = density * uniform3<V>(fluid + 6);
    inertia = density * uniform3<V>(fluid + 9);
    const V longest = max(max(size.x, size.y), size.z), shortest = min(min(size.x, size.y), size.z);
    const V sum = size.x + size.y + size.z, middle = sum - longest - shortest;
    largest_area = number(kPi) * longest * middle;
    const V diameter = number(2.0 / 3.0) * sum;
    linear_viscosity = viscosity * number(3 * kPi) * diameter;
    angular_viscosity = viscosity * number(kPi) * (diameter * diameter * diameter);
    const auto moment_of = [](V along, V across) {
      const V squared = across * across;
      return number(8.0 / 15.0 * kPi) * along * (squared * squared);
    };
    const V largest_moment = moment_of(middle, longest);
    const auto drag = [&](V along, V a, V b) {
      const V own = moment_of(along, max(a, b));
      return V(fluid[3]) * own + slender_drag * (largest_moment - own);
    };
    moment = {drag(size.x, size.y, size.z), drag(size.y, size.z, size.x), drag(size.z, size.x, size.y)};
    square = longest * longest;
    const Vec3<V> share = (V(1) / longest) * size;
    const auto area = [](V a, V b) { return (a * b) * (a * b); };
    area2 = {area(share.y, share.z), area(share.z, share.x), area(share.x, share.y)};
  }

  // Force at the velocity v against the fluid, both at the middle of the geom and in its axes.
  MANIPLE_FUNCTION Spatial<V> force(const Spatial<V>& v) const {
    const Vec3<V> momentum = scaled(mass, v.lin);
    Vec3<V> torque = cross(momentum, v.lin) + cross(scaled(inertia, v.rot), v.rot);
    Vec3<V> force = cross(momentum, v.rot) + magnus * cross(v.rot, v.lin);

    const V speed = norm(v.lin);
    const Vec3<V> way = direction(v.lin, speed), normal = scaled(area2, way);
    const V area = projected_area(way, normal);
    const Vec3<V> circulation =
        (kutta_lift * density * area * dot(normal, way) / dot(normal, normal)) * cross(normal, v.lin);
    force = force + cross(circulation, v.lin);

    const V linear =
        linear_viscosity + density * speed * (area * blunt_drag + slender_drag * (largest_area - area));
    const V angular = angular_viscosity + density * norm(scaled(moment, v.rot));
    torque = torque - angular * v.rot;
    force = force - linear * v.lin;
    return interaction * Spatial<V>{torque, force};
  }

  // Its derivative by v.
  MANIPLE_FUNCTION VelocityDerivative<V> derivative(const Spatial<V>& v) const {
    const Vec3<V> momentum = scaled(mass, v.lin);
    // d(a x b) = -[b] da + [a] db
    const Mat3<V> by_rot = cross_matrix(V(-1) * v.rot), by_lin = cross_matrix(V(-1) * v.lin);
    VelocityDerivative<V> result;
    result.torque_rot =
        add_scaled(add_scaled(viscous_torque(v.rot), V(1), cross_matrix(scaled(inertia, v.rot))), V(1),
                   scaled_columns(by_rot, inertia));
    result.torque_lin = add_scaled(cross_matrix(momentum), V(1), scaled_columns(by_lin, mass));
    result.force_rot = add_scaled(cross_matrix(momentum), magnus, by_lin);
    const V speed = norm(v.lin);
    const Vec3<V> way = direction(v.lin, speed);
    result.force_lin = add_scaled(
        add_scaled(add_scaled(kutta(way, speed), V(1), drag(way, speed)), V(1), scaled_columns(by_rot, mass)),
        -magnus, by_rot);
    return result;
  }

 private:
  static constexpr double kPi = 3.14159265358979323846;
  MANIPLE_FUNCTION static V number(double value) { return V(static_cast<ScalarOf<V>>(value)); }
  MANIPLE_FUNCTION static V norm(const Vec3<V>& v) { return sqrt(dot(v, v)); }

  // v over its length; any direction where that is 0, as all that follows is then 0, too.
  MANIPLE_FUNCTION static Vec3<V> direction(const Vec3<V>& v, V length) {
    const MaskOf<V> moves = length > V(0);
    return select<V>(moves, (V(1) / select(moves, length, V(1))) * v, Vec3<V>{V(1), V(0), V(0)});
  }
  // Area that the ellipsoid shows to the fluid as it moves along the unit vector `way`; normal: area2 * way.
  MANIPLE_FUNCTION V projected_area(const Vec3<V>& way, const Vec3<V>& normal) const {
    return number(kPi) * square * sqrt(dot(normal, normal) / dot(normal, way));
  }

  MANIPLE_FUNCTION Mat3<V> viscous_torque(const Vec3<V>& v) const {
    const Vec3<V> drag = scaled(moment, v);
    const Vec3<V> squares = (-density / max(V(kMinimumValue), norm(drag))) * scaled(moment, drag);
    const V along = dot(v, squares) - angular_viscosity;
    return add_scaled(outer(v, squares), V(1), diagonal(along, along, along));
  }

  // The derivatives of drag and lift of what moves along the unit vector `way`.
  MANIPLE_FUNCTION Mat3<V> drag(const Vec3<V>& way, V speed) const {
    const V a = area2.x, b = area2.y, c = area2.z;
    const V xx = way.x * way.x, yy = way.y * way.y, zz = way.z * way.z;
    const Vec3<V> normal = scaled(area2, way);
    const V projection = dot(normal, way), area = projected_area(way, normal);
    const V change = density * speed * (blunt_drag - slender_drag) * number(kPi) * square /
                     sqrt(projection * projection * projection * dot(normal, normal));
    const Vec3<V> area_change{change * normal.x * (b * yy * (a - b) + c * zz * (a - c)),
                              change * normal.y * (a * xx * (b - a) + c * zz * (b - c)),
                              change * normal.z * (a * xx * (c - a) + b * yy * (c - b))};
    const V quadratic = -density * speed * (area * blunt_drag + slender_drag * (largest_area - area));
    const V along = quadratic - linear_viscosity;
    return add_scaled(add_scaled(diagonal(along, along, along), quadratic, outer(way, way)), V(-1),
                      outer(way, area_change));
  }

  MANIPLE_FUNCTION Mat3<V> kutta(const Vec3<V>& way, V speed) const {
    const V a = area2.x, b = area2.y, c = area2.z;
    const V xx = way.x * way.x, yy = way.y * way.y, zz = way.z * way.z;
    const Vec3<V> normal = scaled(area2, way);
    const V projection = dot(normal, way), normal2 = dot(normal, normal);
    const V scale = number(kPi) * kutta_lift * density * square * speed / sqrt(normal2 * projection);
    const Vec3<V> coefficient{yy * (a - b) + zz * (a - c), xx * (b - a) + zz * (b - c),
                              xx * (c - a) + yy * (c - b)};
    const V of_normal = projection / normal2, twice = V(2) * projection;
    const Vec3<V> inner{a * a * of_normal - a + projection, b * b * of_normal - b + projection,
                        c * c * of_normal - c + projection};
    const Mat3<V> differences{V(0), b - a, c - a, a - b, V(0), c - b, a - c, b - c, V(0)};
    const Mat3<V> terms = add_scaled(outer(coefficient, inner), twice, differences);
    const Mat3<V> squares = outer(way, way);
    return {scale * (terms.xx * squares.xx - coefficient.x * projection),
            scale * (terms.xy * squares.xy),
            scale * (terms.xz * squares.xz),
            scale * (terms.yx * squares.yx),
            scale * (terms.yy * squares.yy - coefficient.y * projection),
            scale * (terms.yz * squares.yz),
            scale * (terms.zx * squares.zx),
            scale * (terms.zy * squares.zy),
            scale * (terms.zz * squares.zz - coefficient.z * projection)};
  }
};

}  // namespace maniple
