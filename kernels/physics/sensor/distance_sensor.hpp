// The sensors distance, normal and fromto (engine_sensor.c): the shortest segment between two geoms, or
// between the geoms of two bodies, up to a cutoff; where they overlap, the deepest one (mj_geomDistance).
#pragma once

#include "kernels/model/geom_pair_types.hpp"
#include "kernels/physics/collision/collision_box.hpp"
#include "kernels/physics/collision/collision_convex.hpp"
#include "kernels/physics/smooth/motion.hpp"

namespace maniple {

// From a point of one surface to a point of another, and its length [m], negative where the shapes overlap.
template <class V>
struct Segment {
  V dist;
  Vec3<V> from, to;
};

template <class V>
MANIPLE_FUNCTION void keep_shorter(Segment<V>& shortest, MaskOf<V> where, const Segment<V>& other) {
  const MaskOf<V> shorter = where && other.dist < shortest.dist;
  shortest.dist = select(shorter, other.dist, shortest.dist);
  shortest.from = select<V>(shorter, other.from, shortest.from);
  shortest.to = select<V>(shorter, other.to, shortest.to);
}

// Pose of a geom, from that of its body alone.
template <class V>
MANIPLE_FUNCTION GeomPose<V> geom_pose_on_body(const Model<ScalarOf<V>>& m, const State<V>& s,
                                               const Data<V>& d, int g) {
  const Frame<V> frame = geom_frame(m, s, d, g);
  GeomPose<V> pose{frame.pos,        matrix(frame.quat),  {V(0), V(0), V(0)},   m.geom_dataid[g],
                   m.geom_rbound[g], m.geom_aabb + 6 * g, sizes_of_meshes(m, g)};
  put_sizes(LaneModel<V>(m, s), g, pose.size);
  return pose;
}

// Of two convex shapes, if it is shorter than the cutoff (mj_geomDistanceCCD, mjc_ccd): that of their cores,
// or of the shapes, or what EPA finds.
template <class S>
MANIPLE_STAGE bool convex_segment(ConvexShape<S> shape1, ConvexShape<S> shape2, double cutoff,
                                  const ConvexOptions& options, Segment<double>& segment) {
  if (shape1.has_core() || shape2.has_core()) {
    const double coat1 = shape1.has_core() ? shape1.size[0] : 0,
                 coat2 = shape2.has_core() ? shape2.size[0] : 0;
    shape1.core = shape2.core = true;
    const GjkResult cores = gjk(shape1, shape2, options, cutoff + coat1 + coat2);
    if (cores.dist > options.tolerance) {
      const Vec3<double> normal = plain_normalize(cores.point2 - cores.point1);
      segment = {cores.dist - (coat1 + coat2), cores.point1 + coat1 * normal, cores.point2 - coat2 * normal};
      return segment.dist < cutoff;
    }
    shape1.core = shape2.core = false;
  }
  GjkResult whole = gjk(shape1, shape2, options, cutoff);
  segment = {whole.dist, whole.point1, whole.point2};
  if (whole.dist <= options.tolerance && whole.count > 1 && !whole.separated) {
    whole.dist = 0;  // (as MuJoCo takes it)
    Polytope<S> polytope;
    if (!polytope.begin(shape1, shape2, whole) ||
        !polytope.expand(shape1, shape2, options, segment.from, segment.to, segment.dist))
      return false;
  }
  return segment.dist < cutoff;
}

// The deepest or nearest contact of two shapes with a closed formula, lower type first. (Boxes among
// themselves are convex shapes here, as in mj_geomDistance.)
template <class V, class Emit>
MANIPLE_FUNCTION void primitive_contacts(int types, const GeomPose<V>& pose1, const GeomPose<V>& pose2,
                                         V margin, const Emit& emit) {
  switch (types) {
#define MANIPLE_ROW(type1, type2, most_contacts, function)                        \
  case geom_pair_types(geom_##type1, geom_##type2):                               \
    if constexpr (geom_##type1 != geom_box) function(pose1, pose2, margin, emit); \
    break;
    MANIPLE_GEOM_PAIR_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
}

// Replaces `shortest` where pair c of the distance pairs has a shorter segment.
template <class V>
MANIPLE_FUNCTION void measure_pair(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int c,
                                   V cutoff, Segment<V>& shortest) {
  using S = ScalarOf<V>;
  const int object = m.distancepair_geom[2 * c], reference = m.distancepair_geom[2 * c + 1];
  const bool flip = m.geom_type[object] > m.geom_type[reference];
  const int g1 = flip ? reference : object, g2 = flip ? object : reference;
  const int type1 = m.geom_type[g1], type2 = m.geom_type[g2], types = m.distancepair_types[c];
  const GeomPose<V> pose1 = geom_pose_on_body(m, s, d, g1), pose2 = geom_pose_on_body(m, s, d, g2);
  const auto keep_contact = [&](MaskOf<V> hit, const ContactPoint<V>& point) {
    if (!any_lane(hit)) return;
    const Vec3<V> to_end = (V(S(flip ? -0.5 : 0.5)) * point.dist) * point.normal;
    keep_shorter(shortest, hit, {point.dist, point.pos - to_end, point.pos + to_end});
  };
  const bool convex = types >= kFirstConvexPairTypes || (type1 == geom_box && type2 == geom_box);
  if (!convex) return primitive_contacts(types, pose1, pose2, cutoff, keep_contact);
  if (type1 == geom_plane) return convex_convex(m, type1, pose1, type2, pose2, cutoff, keep_contact);
  // the points in the order in which the sensor names the geoms
  const MaskOf<V> near =
      spheres_overlap(pose1, geom_radius(type1, pose1), pose2, geom_radius(type2, pose2), cutoff);
  const ConvexOptions options = convex_options(m);
  for_each_lane(near, [&](int lane) {
    const ConvexShape<S> shape1 = convex_shape(m, type1, pose_of_lane(pose1, lane), 0),
                         shape2 = convex_shape(m, type2, pose_of_lane(pose2, lane), 0);
    Segment<double> found;
    if (!convex_segment(flip ? shape2 : shape1, flip ? shape1 : shape2,
                        static_cast<double>(get_lane(cutoff, lane)), options, found))
      return;
    const auto in_lanes = [](const Vec3<double>& v) {
      return Vec3<V>{V(static_cast<S>(v.x)), V(static_cast<S>(v.y)), V(static_cast<S>(v.z))};
    };
    keep_shorter(shortest, mask_of_lane<V>(lane),
                 {V(static_cast<S>(found.dist)), in_lanes(found.from), in_lanes(found.to)});
  });
}

// Of sensor i: the cutoff and a segment of zeros where there is no shorter one.
template <class V>
MANIPLE_STAGE Segment<V> shortest_segment(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                          int i) {
  const V cutoff(m.sensor_cutoff[i]);
  Segment<V> shortest{cutoff, zero3<V>(), zero3<V>()};
  const int first = m.sensor_pairadr[i];
  for (int c = first; c < first + m.sensor_pairnum[i]; ++c) measure_pair(m, s, d, c, cutoff, shortest);
  return shortest;
}

}  // namespace maniple
