// Convex shapes as GJK and EPA see them: by the point that reaches farthest in a direction, here with
// MuJoCo's choice where there are several (engine_collision_convex.c). Scalars only: these algorithms run for
// one environment at a time.
#pragma once

#include "kernels/physics/collision/alone.hpp"

namespace maniple {

inline constexpr double kNoDistance = std::numeric_limits<double>::max();

// Sums whose products are rounded one by one, as MuJoCo's are: which corner or face comes next depends on it
// where several are as near.
MANIPLE_FUNCTION double plain_dot(const Vec3<double>& a, const Vec3<double>& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}
MANIPLE_FUNCTION Vec3<double> plain_cross(const Vec3<double>& a, const Vec3<double>& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
MANIPLE_FUNCTION double length(const Vec3<double>& v) {
  return sqrt(plain_dot(v, v));
}
MANIPLE_FUNCTION Vec3<double> plain_normalize(const Vec3<double>& v) {
  const double norm = length(v);
  if (norm < kMinimumValue) return {1, 0, 0};
  return (1 / norm) * v;
}
MANIPLE_FUNCTION Vec3<double> plain_multiply(const Mat3<double>& m, const Vec3<double>& v) {
  return {plain_dot(m.row_x(), v), plain_dot(m.row_y(), v), plain_dot(m.row_z(), v)};
}

// A vector whose components are scaled by those of another.
template <class V>
MANIPLE_FUNCTION Vec3<V> scaled_by(const Vec3<V>& v, const Vec3<V>& scale) {
  return {v.x * scale.x, v.y * scale.y, v.z * scale.z};
}

// The corners of a mesh's convex hull, and what lies beside what, as MuJoCo's compiler has found them, all of
// which a scale along the axes leaves. S: the model's precision.
template <class S>
struct ConvexMesh {
  const int *edgeadr, *edge, *extrema;
  const S* vert;
  int vertnum;
  const int *polyvertadr, *polyvertnum, *polyvert, *polymapadr, *polymapnum, *polymap;
  const S* polynormal;
  Vec3<double> scale;

  MANIPLE_FUNCTION Vec3<double> vertex(int i) const { return scaled_by(vertex_of_model(i), scale); }
  MANIPLE_FUNCTION Vec3<double> normal(int face) const {
    const Vec3<double> of_model{static_cast<double>(polynormal[3 * face]),
                                static_cast<double>(polynormal[3 * face + 1]),
                                static_cast<double>(polynormal[3 * face + 2])};
    if (scale.x == 1 && scale.y == 1 && scale.z == 1) return of_model;
    return plain_normalize({of_model.x / scale.x, of_model.y / scale.y, of_model.z / scale.z});
  }
  // The vertex that is farthest along the direction; of equal ones that `before`, the last answer or -1,
  // leads to.
  MANIPLE_FUNCTION int farthest(const Vec3<double>& direction, int before) const {
    return farthest_of_model(scaled_by(direction, scale), before);
  }

 private:
  MANIPLE_FUNCTION Vec3<double> vertex_of_model(int i) const {
    return {static_cast<double>(vert[3 * i]), static_cast<double>(vert[3 * i + 1]),
            static_cast<double>(vert[3 * i + 2])};
  }
  MANIPLE_FUNCTION double along(const Vec3<double>& direction, int i) const {
    return plain_dot(direction, vertex_of_model(i));
  }
  // From a vertex to the neighbour that is farthest along the direction, while that is farther.
  MANIPLE_FUNCTION int climb(const Vec3<double>& direction, int from) const {
    double most = along(direction, from);
    for (int here = -1; here != from;) {
      here = from;
      for (const int* next = edge + edgeadr[here]; *next >= 0; ++next) {
        const double there = along(direction, *next);
        if (!(there > most)) continue;
        most = there;
        from = *next;
      }
    }
    return from;
  }
  // Of the vertices as they are in the model.
  MANIPLE_FUNCTION int farthest_of_model(const Vec3<double>& direction, int before) const {
    if (extrema[0] >= 0) {
      const auto third = [](double x) { return x > 0.4 ? 2 : x < -0.4 ? 0 : 1; };
      const int seed = extrema[9 * third(direction.x) + 3 * third(direction.y) + third(direction.z)];
      return climb(direction,
                   before < 0 || along(direction, seed) > along(direction, before) ? seed : before);
    }
    int best = before < 0 ? 0 : before;
    double most = before < 0 ? -kNoDistance : along(direction, best);
    for (int i = 0; i < vertnum; ++i) {
      const double there = along(direction, i);
      if (!(there > most)) continue;
      most = there;
      best = i;
    }
    return best;
  }
};
// Mesh `id` of a model, without one nothing.
template <class S>
MANIPLE_FUNCTION ConvexMesh<S> convex_mesh(const Model<S>& m, int id, const Vec3<double>& scale) {
  if (id < 0) return {};
  const int vertex = m.mesh_vertadr[id], poly = m.mesh_polyadr[id];
  return {.edgeadr = m.mesh_edgeadr + vertex,
          .edge = m.mesh_edge,
          .extrema = m.mesh_extrema + 27 * id,
          .vert = m.mesh_vert + 3 * vertex,
          .vertnum = m.mesh_vertnum[id],
          .polyvertadr = m.mesh_polyvertadr + poly,
          .polyvertnum = m.mesh_polyvertnum + poly,
          .polyvert = m.mesh_polyvert,
          .polymapadr = m.mesh_polymapadr + vertex,
          .polymapnum = m.mesh_polymapnum + vertex,
          .polymap = m.mesh_polymap,
          .polynormal = m.mesh_polynormal + 3 * poly,
          .scale = scale};
}

// A geom, inflated by a distance; its core, which a sphere and a capsule have, is a point or a line. Whatever
// the model's precision S, in double precision: the stops of GJK and EPA are below what single precision
// resolves.
template <class S>
struct ConvexShape {
  int type;
  Vec3<double> pos;
  Mat3<double> mat;
  double size[3];
  double inflation;
  ConvexMesh<S> mesh;
  bool core = false;
  int vertex = -1;                      // of a mesh the last one found, of a box its signs as bits
  const Vec3<double>* prism = nullptr;  // of a height field one prism, three corners below and three above

  // The point that reaches farthest in the direction of a unit vector.
  MANIPLE_FUNCTION Vec3<double> support(const Vec3<double>& direction) {
    const Vec3<double> point = support_of_geom(direction);
    return inflation > 0 && !core ? point + inflation * direction : point;
  }
  MANIPLE_FUNCTION bool has_core() const { return type == geom_sphere || type == geom_capsule; }
  // Whether it has flat sides alone, so that GJK ends by itself.
  MANIPLE_FUNCTION bool is_discrete() const {
    return (type == geom_box || type == geom_mesh || type == geom_hfield) && (core || inflation == 0);
  }
  // A point of the geom's frame in the world's.
  MANIPLE_FUNCTION Vec3<double> in_world(const Vec3<double>& local) const {
    return plain_multiply(mat, local) + pos;
  }

 private:
  MANIPLE_FUNCTION Vec3<double> support_of_prism(const Vec3<double>& direction) const {
    const Vec3<double>* const corner = direction.z < 0 ? prism : prism + 3;
    int best = 0;
    double most = plain_dot(corner[0], direction);
    for (int i = 1; i < 3; ++i) {
      const double there = plain_dot(corner[i], direction);
      if (!(there > most)) continue;
      most = there;
      best = i;
    }
    return corner[best];
  }
  MANIPLE_FUNCTION Vec3<double> support_of_geom(const Vec3<double>& direction) {
    if (type == geom_hfield) return support_of_prism(direction);
    if (type == geom_sphere) return core ? pos : size[0] * direction + pos;
    if (type == geom_capsule) {  // of its mat only the axis is set
      const Vec3<double> axis = mat.column_z();
      const Vec3<double> end = (plain_dot(axis, direction) >= 0 ? size[1] : -size[1]) * axis;
      return core ? end + pos : size[0] * direction + end + pos;
    }
    const Vec3<double> u{plain_dot(mat.column_x(), direction), plain_dot(mat.column_y(), direction),
                         plain_dot(mat.column_z(), direction)};
    Vec3<double> local;
    if (type == geom_ellipsoid) {
      local = {u.x * size[0], u.y * size[1], u.z * size[2]};
      const double square = plain_dot(local, local);
      if (square < kMinimumValue * kMinimumValue) return size[0] * mat.column_x() + pos;
      const double inverse = 1 / sqrt(square);
      local = {local.x * (inverse * size[0]), local.y * (inverse * size[1]), local.z * (inverse * size[2])};
    } else if (type == geom_cylinder) {
      const double square = u.x * u.x + u.y * u.y;
      const double scale = square >= kMinimumValue * kMinimumValue ? size[0] / sqrt(square) : 0;
      local = {scale * u.x, scale * u.y, u.z >= 0 ? size[1] : -size[1]};
    } else if (type == geom_mesh) {
      vertex = mesh.farthest(u, vertex);
      local = mesh.vertex(vertex);
    } else {
      vertex = (u.x >= 0 ? 1 : 0) | (u.y >= 0 ? 2 : 0) | (u.z >= 0 ? 4 : 0);
      local = {u.x >= 0 ? size[0] : -size[0], u.y >= 0 ? size[1] : -size[1], u.z >= 0 ? size[2] : -size[2]};
    }
    return in_world(local);
  }
};

// A corner of the difference of two shapes: the points of both, and of boxes and meshes their vertices.
struct Support {
  Vec3<double> point1, point2;
  int vertex1, vertex2;
  MANIPLE_FUNCTION Vec3<double> difference() const { return point1 - point2; }
};
template <class S>
MANIPLE_FUNCTION Support support(ConvexShape<S>& shape1, ConvexShape<S>& shape2,
                                 const Vec3<double>& direction) {
  const Vec3<double> point1 = shape1.support(direction), point2 = shape2.support(-direction);
  return {point1, point2, shape1.vertex, shape2.vertex};
}

// How GJK and EPA stop: MuJoCo's options.
struct ConvexOptions {
  double tolerance;  // ccd_tolerance [m]
  int iterations;    // ccd_iterations
  bool several;      // whether flat and straight sides touch at several points: multiccd
};

template <class S>
MANIPLE_FUNCTION ConvexOptions convex_options(const Model<S>& m) {
  return {static_cast<double>(m.ccd_tolerance), m.ccd_iterations, !(m.disableflags & disable_multiccd)};
}

}  // namespace maniple
