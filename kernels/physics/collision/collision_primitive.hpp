// Contacts of primitive geoms: closed formulas for planes, spheres, capsules, cylinders, boxes and
// ellipsoids, with the contact points and the order of MuJoCo's (engine_collision_primitive.c). Every
// function hands its contacts to `emit(mask, point)`; the mask names the environments that have one.
// Functions of two geoms are called by MANIPLE_GEOM_PAIR_TYPES.
#pragma once

#include "kernels/math/vector.hpp"
#include "kernels/model/model.hpp"

namespace maniple {

// Shape and pose of one geom. Of `mat` only the columns that the geom's type needs are set (GeomFlag). Of a
// mesh or a height field its number, and the radius of the sphere around it. A mesh whose sizes differ
// between environments has those of the model, to which its vertices belong.
template <class V>
struct GeomPose {
  Vec3<V> pos;
  Mat3<V> mat;
  V size[3];  // geom_size
  int data = -1;
  ScalarOf<V> rbound = 0;
  const ScalarOf<V>* aabb = nullptr;
  const ScalarOf<V>* size_of_model = nullptr;  // null: all environments have them

  MANIPLE_FUNCTION Vec3<V> sizes() const { return {size[0], size[1], size[2]}; }
  // By what the vertices of a mesh are scaled along its axes.
  MANIPLE_FUNCTION Vec3<V> mesh_scale() const {
    if (size_of_model == nullptr) return {V(1), V(1), V(1)};
    return {size[0] / V(size_of_model[0]), size[1] / V(size_of_model[1]), size[2] / V(size_of_model[2])};
  }
  // Radius of a sphere around a mesh.
  MANIPLE_FUNCTION V mesh_radius() const {
    const Vec3<V> scale = mesh_scale();
    return V(rbound) * max(scale.x, max(scale.y, scale.z));
  }
};

// One contact: distance (negative: penetration), midpoint, normal from geom 1 to geom 2, and a direction
// that the first tangent should follow (zero: any).
template <class V>
struct ContactPoint {
  V dist;
  Vec3<V> pos, normal, tangent;
};

// A sphere over a plane; `tangent` goes into the contact.
template <class V, class Emit>
MANIPLE_FUNCTION void plane_sphere(const GeomPose<V>& plane, const Vec3<V>& center, V radius, V margin,
                                   const Vec3<V>& tangent, const Emit& emit) {
  const Vec3<V> normal = plane.mat.column_z();
  const V height = dot(center - plane.pos, normal);
  const V dist = height - radius;
  emit(height <= margin + radius,
       ContactPoint<V>{dist, center + (V(-0.5) * dist - radius) * normal, normal, tangent});
}

template <class V, class Emit>
MANIPLE_FUNCTION void plane_sphere(const GeomPose<V>& plane, const GeomPose<V>& sphere, V margin,
                                   const Emit& emit) {
  plane_sphere(plane, sphere.pos, sphere.size[0], margin, zero3<V>(), emit);
}

template <class V, class Emit>
MANIPLE_FUNCTION void plane_capsule(const GeomPose<V>& plane, const GeomPose<V>& capsule, V margin,
                                    const Emit& emit) {
  const Vec3<V> axis = capsule.mat.column_z(), half = capsule.size[1] * axis;
  plane_sphere(plane, capsule.pos + half, capsule.size[0], margin, axis, emit);
  plane_sphere(plane, capsule.pos - half, capsule.size[0], margin, axis, emit);
}

// The lowest corners, at most four.
template <class V, class Emit>
MANIPLE_FUNCTION void plane_box(const GeomPose<V>& plane, const GeomPose<V>& box, V margin,
                                const Emit& emit) {
  const Vec3<V> normal = plane.mat.column_z();
  const V height = dot(box.pos - plane.pos, normal);
  V count(0);
  for (int corner = 0; corner < 8; ++corner) {
    const Vec3<V> local{corner & 1 ? box.size[0] : -box.size[0], corner & 2 ? box.size[1] : -box.size[1],
                        corner & 4 ? box.size[2] : -box.size[2]};
    const Vec3<V> offset = box.mat * local;
    const V below = dot(normal, offset);
    const V dist = height + below;
    const MaskOf<V> hit = dist <= margin && below <= V(0) && count < V(4);
    count += select(hit, V(1), V(0));
    emit(hit, ContactPoint<V>{dist, box.pos + offset + (V(-0.5) * dist) * normal, normal, zero3<V>()});
  }
}

// The lowest points of the two rims, and two more on the rim nearer to the plane.
template <class V, class Emit>
MANIPLE_FUNCTION void plane_cylinder(const GeomPose<V>& plane, const GeomPose<V>& cylinder, V margin,
                                     const Emit& emit) {
  using T = ScalarOf<V>;
  const V radius = cylinder.size[0], half = cylinder.size[1];
  const Vec3<V> normal = plane.mat.column_z();
  Vec3<V> axis = cylinder.mat.column_z();
  V along = dot(normal, axis);
  const V toward = select(along > V(0), V(-1), V(1));  // the axis points to the plane
  axis = toward * axis;
  along = toward * along;
  const V height = dot(cylinder.pos - plane.pos, normal);

  // from the center of the disk to its lowest point; the cylinder's x axis if the disk is level. MuJoCo takes
  // the normal less its part along the axis, which cancels for a disk that is nearly level.
  const Vec3<V> x = cylinder.mat.column_x(), y = cylinder.mat.column_y();
  const V down_x = -dot(normal, x), down_y = -dot(normal, y);
  const Vec3<V> down = down_x * x + down_y * y;
  const V square = down_x * down_x + down_y * down_y;
  const MaskOf<V> level = square < V(kMinimumValue * kMinimumValue);
  const V scale = radius / sqrt(select(level, V(1), square));
  const Vec3<V> rim = select<V>(level, radius * x, scale * down);
  const V drop = dot(rim, normal);
  const Vec3<V> end = half * axis;
  const V end_drop = half * along;

  const auto contact = [&](V dist, const Vec3<V>& point) {
    return ContactPoint<V>{dist, point + (V(-0.5) * dist) * normal, normal, zero3<V>()};
  };
  const V first = height + end_drop + drop;
  const MaskOf<V> hit = first <= margin;
  emit(hit, contact(first, cylinder.pos + rim + end));
  const V second = height - end_drop + drop;
  emit(hit && second <= margin, contact(second, cylinder.pos + rim - end));

  const V third = height + end_drop - V(T(0.5)) * drop;
  const Vec3<V> side = (radius * V(T(0.86602540378443864676))) * normalize(cross(rim, end));
  const Vec3<V> middle = cylinder.pos + end - V(T(0.5)) * rim;
  emit(hit && third <= margin, contact(third, middle + side));
  emit(hit && third <= margin, contact(third, middle - side));
}

// The support point of the ellipsoid against the normal.
template <class V, class Emit>
MANIPLE_FUNCTION void plane_ellipsoid(const GeomPose<V>& plane, const GeomPose<V>& ellipsoid, V margin,
                                      const Emit& emit) {
  const Vec3<V> normal = plane.mat.column_z(), size = ellipsoid.sizes();
  const Vec3<V> local = transpose(ellipsoid.mat) * normal;
  const Vec3<V> unit = normalize(Vec3<V>{-size.x * local.x, -size.y * local.y, -size.z * local.z});
  const Vec3<V> point =
      ellipsoid.pos + ellipsoid.mat * Vec3<V>{size.x * unit.x, size.y * unit.y, size.z * unit.z};
  const V dist = dot(normal, point - plane.pos);
  emit(dist <= margin, ContactPoint<V>{dist, point + (V(-0.5) * dist) * normal, normal, zero3<V>()});
}

// Distances below this have no direction: the centers are one point. In single precision, where the nearest
// points of axes that cross hardly ever are, it is what rounding makes of coordinates of this size.
template <class V>
MANIPLE_FUNCTION V smallest_distance(const Vec3<V>& center, V radius) {
  using T = ScalarOf<V>;
  if constexpr (sizeof(T) == 8) return V(kMinimumValue);
  return V(T(32) * std::numeric_limits<T>::epsilon()) *
         (abs(center.x) + abs(center.y) + abs(center.z) + radius);
}

// Two spheres, where `where` holds. `axis1` and `axis2` give the normal if the centers coincide.
template <class V, class Emit>
MANIPLE_FUNCTION void sphere_sphere(const Vec3<V>& center1, const Vec3<V>& axis1, V radius1,
                                    const Vec3<V>& center2, const Vec3<V>& axis2, V radius2, V margin,
                                    MaskOf<V> where, const Emit& emit) {
  const Vec3<V> difference = center2 - center1;
  const V square = dot(difference, difference), most = margin + (radius1 + radius2);
  const MaskOf<V> hit = where && square <= most * most;
  if (!any_lane(hit)) return;
  const V distance = sqrt(square);
  const MaskOf<V> same = distance < smallest_distance(center1, radius1 + radius2);
  Vec3<V> normal = (V(1) / select(same, V(1), distance)) * difference;
  if (any_lane(same)) normal = select<V>(same, normalize(cross(axis1, axis2)), normal);
  const V dist = distance - radius1 - radius2;
  emit(hit, ContactPoint<V>{dist, center1 + (radius1 + V(0.5) * dist) * normal, normal, zero3<V>()});
}

template <class V, class Emit>
MANIPLE_FUNCTION void sphere_sphere(const GeomPose<V>& sphere1, const GeomPose<V>& sphere2, V margin,
                                    const Emit& emit) {
  sphere_sphere(sphere1.pos, sphere1.mat.column_z(), sphere1.size[0], sphere2.pos, sphere2.mat.column_z(),
                sphere2.size[0], margin, MaskOf<V>(true), emit);
}

template <class V, class Emit>
MANIPLE_FUNCTION void sphere_capsule(const GeomPose<V>& sphere, const GeomPose<V>& capsule, V margin,
                                     const Emit& emit) {
  const Vec3<V> axis = capsule.mat.column_z();
  const V half = capsule.size[1];
  const V along = clamp(dot(axis, sphere.pos - capsule.pos), -half, half);
  sphere_sphere(sphere.pos, sphere.mat.column_z(), sphere.size[0], capsule.pos + along * axis, axis,
                capsule.size[0], margin, MaskOf<V>(true), emit);
}

// The nearest points of both axes; of parallel ones the two ends of the part that lies beside the other
// capsule, in the order of the first one's axis.
template <class V, class Emit>
MANIPLE_FUNCTION void capsule_capsule(const GeomPose<V>& capsule1, const GeomPose<V>& capsule2, V margin,
                                      const Emit& emit) {
  using T = ScalarOf<V>;
  const V one(1);
  const Vec3<V> unit1 = capsule1.mat.column_z(), unit2 = capsule2.mat.column_z();
  const Vec3<V> axis1 = capsule1.size[1] * unit1, axis2 = capsule2.size[1] * unit2;
  const Vec3<V> difference = capsule1.pos - capsule2.pos;
  const V ma = capsule1.size[1] * capsule1.size[1], mc = capsule2.size[1] * capsule2.size[1];
  const V mb = -dot(axis1, axis2), u = -dot(axis1, difference), v = dot(axis2, difference);
  const V det = ma * mc - mb * mb;
  // up to 1e-4 rad; in single precision det cannot tell angles below 7e-4 rad from zero
  const MaskOf<V> parallel = det < V(sizeof(T) == 4 ? T(5e-7) : T(1e-8)) * ma * mc;
  const auto add = [&](V x1, V x2, MaskOf<V> where) {
    sphere_sphere(capsule1.pos + x1 * axis1, unit1, capsule1.size[0], capsule2.pos + x2 * axis2, unit2,
                  capsule2.size[0], margin, where, emit);
  };
  {
    const V inverse = one / select(parallel, one, det);
    V x1 = (mc * u - mb * v) * inverse, x2 = (ma * v - mb * u) * inverse;
    const V inside1 = clamp(x1, -one, one);
    x2 = select(inside1 != x1, (v - mb * inside1) / mc, x2);
    x1 = inside1;
    // nearly parallel axes leave little of det in single precision: then project once more
    if constexpr (sizeof(T) == 4) x2 = (v - mb * x1) / mc;
    const V inside2 = clamp(x2, -one, one);
    x1 = select(inside2 != x2, clamp((u - mb * inside2) / ma, -one, one), x1);
    add(x1, inside2, !parallel);
  }
  if (!any_lane(parallel)) return;
  // ends of capsule 2 along the axis of capsule 1: at x2 = -turn and x2 = turn
  const V turn = select(mb < V(0), one, -one);
  for (const V& end : {-turn, turn}) {
    const V there = (u - mb * end) / ma, x1 = clamp(there, -one, one);
    add(x1, select(x1 == there, end, clamp((v - mb * x1) / mc, -one, one)), parallel);
  }
}

// The side, an end or a rim of the cylinder; from a center inside out through what is nearest.
template <class V, class Emit>
MANIPLE_FUNCTION void sphere_cylinder(const GeomPose<V>& sphere, const GeomPose<V>& cylinder, V margin,
                                      const Emit& emit) {
  const V radius = cylinder.size[0], half = cylinder.size[1], sphere_radius = sphere.size[0];
  const Vec3<V> axis = cylinder.mat.column_z(), sphere_axis = sphere.mat.column_z();
  const Vec3<V> way = sphere.pos - cylinder.pos;
  const V along = dot(axis, way);
  const Vec3<V> out = way - along * axis;
  const V square = dot(out, out);
  MaskOf<V> side = abs(along) < half, end = square < radius * radius;
  const MaskOf<V> inside = side && end, end_is_nearer = half - abs(along) < radius - sqrt(square);
  side = side && !(inside && end_is_nearer);
  end = end && !(inside && !end_is_nearer);
  const V up = select(along > V(0), V(1), V(-1));

  sphere_sphere(sphere.pos, sphere_axis, sphere.size[0], cylinder.pos + along * axis, axis, cylinder.size[0],
                margin, side, emit);
  const V height = up * along - half;
  const MaskOf<V> hit = end && !side && height <= margin + sphere_radius;
  if (any_lane(hit)) {
    const Vec3<V> normal = -(up * axis);
    const V dist = height - sphere_radius;
    emit(hit,
         ContactPoint<V>{dist, sphere.pos + (V(0.5) * dist + sphere_radius) * normal, normal, zero3<V>()});
  }
  const MaskOf<V> rim = !side && !end;
  const V scale = radius / sqrt(select(rim, square, V(1)));
  sphere_sphere(sphere.pos, sphere_axis, sphere.size[0], cylinder.pos + (up * half) * axis + scale * out,
                axis, V(0), margin, rim, emit);
}

}  // namespace maniple
