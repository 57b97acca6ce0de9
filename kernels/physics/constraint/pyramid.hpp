// The rows of a contact with friction: a pyramid of four edges, normal + and - friction times a tangent.
// Three base rows stand for them, the normal and both scaled tangents: every edge is a sum of two of these.
#pragma once

#include "kernels/physics/constraint/row_law.hpp"

namespace maniple {

// Values of the base rows of a contact: normal, first and second tangent.
template <class V>
struct BaseRows {
  V n, t, u;
};
template <class V>
MANIPLE_FUNCTION BaseRows<V> operator-(const BaseRows<V>& a, const BaseRows<V>& b) {
  return {a.n - b.n, a.t - b.t, a.u - b.u};
}

template <class V, class Field>
MANIPLE_FUNCTION BaseRows<V> load_base(const Field& field, int slot) {
  return {field[3 * slot], field[3 * slot + 1], field[3 * slot + 2]};
}
template <class V, class Field>
MANIPLE_FUNCTION void store_base(const Field& field, int slot, const BaseRows<V>& rows) {
  field[3 * slot] = rows.n;
  field[3 * slot + 1] = rows.t;
  field[3 * slot + 2] = rows.u;
}

// Edges of the pyramid: normal + first tangent, normal - first tangent, the same with the second.
template <class V>
struct Edges {
  V value[4];
};
template <class V>
MANIPLE_FUNCTION Edges<V> edges_of(const BaseRows<V>& rows) {
  return {{rows.n + rows.t, rows.n - rows.t, rows.n + rows.u, rows.n - rows.u}};
}
// The transpose of edges_of.
template <class V>
MANIPLE_FUNCTION BaseRows<V> base_of(const Edges<V>& edges) {
  const V* const e = edges.value;
  return {(e[0] + e[1]) + (e[2] + e[3]), e[0] - e[1], e[2] - e[3]};
}

// W of B' W B, the part of a slot in the Hessian of the cost, with the base rows B; element (t, u) is zero.
template <class V>
struct BaseWeights {
  V nn, nt, nu, tt, uu;

  // The same in the lanes of a mask, zero in the others.
  MANIPLE_FUNCTION BaseWeights where(MaskOf<V> mask) const {
    const V zero(0);
    return {select(mask, nn, zero), select(mask, nt, zero), select(mask, nu, zero), select(mask, tt, zero),
            select(mask, uu, zero)};
  }
  // W times a column of B; of the tangents, those of kTangents.
  template <int kTangents>
  MANIPLE_FUNCTION BaseRows<V> times(const BaseRows<V>& b) const {
    BaseRows<V> w{nn * b.n, V(0), V(0)};
    if constexpr (kTangents & 1) {
      w.n = multiply_add(nt, b.t, w.n);
      w.t = multiply_add(nt, b.n, tt * b.t);
    }
    if constexpr (kTangents & 2) {
      w.n = multiply_add(nu, b.u, w.n);
      w.u = multiply_add(nu, b.n, uu * b.u);
    }
    return w;
  }
};

template <class V>
MANIPLE_FUNCTION BaseRows<V> moved(const BaseRows<V>& jar, const BaseRows<V>& change, V alpha) {
  return {multiply_add(alpha, change.n, jar.n), multiply_add(alpha, change.t, jar.t),
          multiply_add(alpha, change.u, jar.u)};
}

// The four edges of a contact's friction pyramid, each one-sided, by their base rows.
template <class V>
struct PyramidLaw {
  static constexpr bool kOnlyPushes = true, kSaturates = false;
  V D;  // of an edge; 0: no contact

  // Of an edge.
  MANIPLE_FUNCTION Bounds<V> force_bounds() const { return {V(0), V(kUnbounded)}; }
  MANIPLE_FUNCTION Edges<V> edge_forces(const BaseRows<V>& jar) const {
    Edges<V> edges = edges_of(jar);
    for (V& edge : edges.value) edge = -D * min(edge, V(0));
    return edges;
  }
  // Along the base rows.
  MANIPLE_FUNCTION BaseRows<V> force(const BaseRows<V>& jar) const { return base_of(edge_forces(jar)); }
  MANIPLE_FUNCTION V twice_cost(const BaseRows<V>& jar) const {
    V sum(0);
    for (const V edge : edges_of(jar).value) {
      const V pushed = min(edge, V(0));
      sum += pushed * pushed;
    }
    return D * sum;
  }
  // W of B' W B with the base rows B.
  MANIPLE_FUNCTION BaseWeights<V> curvature(const BaseRows<V>& jar) const {
    const Edges<V> edges = edges_of(jar);
    V push[4];
    for (int e = 0; e < 4; ++e) push[e] = select(edges.value[e] < V(0), D, V(0));
    const V tt = push[0] + push[1], uu = push[2] + push[3];
    return {tt + uu, push[0] - push[1], push[2] - push[3], tt, uu};
  }
  template <class Point>
  MANIPLE_FUNCTION void add_to_line(Point& point, const BaseRows<V>& jar, const BaseRows<V>& change,
                                    V alpha) const {
    point.add_pushing(edges_of(jar).value, edges_of(change).value, D, alpha);
  }
  template <class Point>
  MANIPLE_FUNCTION void add_to_search(Point& point, const BaseRows<V>& jar, const BaseRows<V>& change) const {
    const Edges<V> edges = edges_of(jar), changes = edges_of(change);
    for (int e = 0; e < 4; ++e) point.add_one_sided(edges.value[e], changes.value[e], D);
  }
};

}  // namespace maniple
