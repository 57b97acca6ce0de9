// The law of a contact whose friction cone is elliptic, or a pyramid over more than two directions: force,
// cost and curvature (mj_constraintUpdate), and its part in a line search. Base rows are the normal, then the
// directions of friction, each times its coefficient: both tangents, the turn about the normal, the turns
// about both tangents.
#pragma once

#include "kernels/math/functions.hpp"
#include "kernels/physics/constraint/row_law.hpp"

namespace maniple {

inline constexpr int kMostConeRows = 6;

// Values of the base rows of a contact; those from the model's `contactdim` on are not used.
template <class V>
struct ConeRow {
  V x[kMostConeRows];
};
template <class V>
MANIPLE_FUNCTION ConeRow<V> operator-(const ConeRow<V>& a, const ConeRow<V>& b) {
  ConeRow<V> result;
  for (int i = 0; i < kMostConeRows; ++i) result.x[i] = a.x[i] - b.x[i];
  return result;
}
// A residual after a step alpha.
template <class V>
MANIPLE_FUNCTION ConeRow<V> moved(const ConeRow<V>& jar, const ConeRow<V>& change, V alpha) {
  ConeRow<V> result;
  for (int i = 0; i < kMostConeRows; ++i) result.x[i] = multiply_add(alpha, change.x[i], jar.x[i]);
  return result;
}

// W of B' W B, the part of a contact in the Hessian of the cost, with the base rows B: symmetric.
template <class V>
struct ConeWeights {
  V at[kMostConeRows][kMostConeRows];
};

template <class V>
struct ConeLaw {
  static constexpr bool kOnlyPushes = true, kSaturates = false;
  V D;            // stiffness of the normal, or of an edge of the pyramid; 0: no contact
  V mu;           // of the regularized elliptic cone: friction[0] / sqrt(impratio)
  V dim;          // condim of each lane
  bool elliptic;  // else a pyramid
  int rows;       // base rows that some lane of the model has

  MANIPLE_FUNCTION ConeRow<V> force(const ConeRow<V>& jar) const {
    ConeRow<V> force;
    for (int i = 0; i < kMostConeRows; ++i) force.x[i] = V(0);
    if (elliptic) {
      const Zone zone = zone_of(jar);
      const V normal = -zone.stiffness * zone.beyond * mu;
      force.x[0] = select(zone.inside, -D * jar.x[0], select(zone.middle, normal, V(0)));
      for (int i = 1; i < rows; ++i)
        force.x[i] = select(zone.inside, -zone.tangential * jar.x[i],
                            select(zone.middle, -normal * zone.inverse * jar.x[i], V(0)));
      return force;
    }
    force.x[0] = -single() * min(jar.x[0], V(0));
    for (int i = 1; i < rows; ++i) {
      const V edge = edges(i), plus = -edge * min(jar.x[0] + jar.x[i], V(0)),
              minus = -edge * min(jar.x[0] - jar.x[i], V(0));
      force.x[0] += plus + minus;
      force.x[i] = plus - minus;
    }
    return force;
  }

  // Sum of the forces along both edges of a pyramid in direction i.
  MANIPLE_FUNCTION V edge_sum(const ConeRow<V>& jar, int i) const {
    return -edges(i) * (min(jar.x[0] + jar.x[i], V(0)) + min(jar.x[0] - jar.x[i], V(0)));
  }

  MANIPLE_FUNCTION V twice_cost(const ConeRow<V>& jar) const {
    if (elliptic) {
      const Zone zone = zone_of(jar);
      const V inside = multiply_add(D * jar.x[0], jar.x[0], zone.tangential * zone.length * zone.length);
      return select(zone.inside, inside,
                    select(zone.middle, zone.stiffness * zone.beyond * zone.beyond, V(0)));
    }
    const auto pushed = [](V x) {
      const V least = min(x, V(0));
      return least * least;
    };
    V cost = single() * pushed(jar.x[0]);
    for (int i = 1; i < rows; ++i)
      cost += edges(i) * (pushed(jar.x[0] + jar.x[i]) + pushed(jar.x[0] - jar.x[i]));
    return cost;
  }

  MANIPLE_FUNCTION ConeWeights<V> curvature(const ConeRow<V>& jar) const {
    ConeWeights<V> W;
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < rows; ++j) W.at[i][j] = V(0);
    if (elliptic) {
      const Zone zone = zone_of(jar);
      const V square = zone.stiffness * mu * mu;  // of the derivative of `beyond` by the normal
      // the cone's surface bends with the direction of friction
      const V bend = select(zone.middle, -zone.stiffness * zone.beyond * mu * zone.inverse, V(0));
      W.at[0][0] = select(zone.inside, D, select(zone.middle, square, V(0)));
      for (int i = 1; i < rows; ++i) {
        const V along = zone.inverse * jar.x[i];
        W.at[0][i] = W.at[i][0] = select(zone.middle, -square * along, V(0));
        for (int j = 1; j < i; ++j)
          W.at[i][j] = W.at[j][i] =
              select(zone.middle, (square - bend) * (along * (zone.inverse * jar.x[j])), V(0));
        W.at[i][i] = select(zone.inside, zone.tangential,
                            select(zone.middle, multiply_add(square - bend, along * along, bend), V(0)));
      }
      return W;
    }
    W.at[0][0] = select(jar.x[0] < V(0), single(), V(0));
    for (int i = 1; i < rows; ++i) {
      const V edge = edges(i), plus = select(jar.x[0] + jar.x[i] < V(0), edge, V(0)),
              minus = select(jar.x[0] - jar.x[i] < V(0), edge, V(0));
      W.at[0][0] += plus + minus;
      W.at[0][i] = W.at[i][0] = plus - minus;
      W.at[i][i] = plus + minus;
    }
    return W;
  }

  template <class Point>
  MANIPLE_FUNCTION void add_to_line(Point& point, const ConeRow<V>& jar, const ConeRow<V>& change,
                                    V alpha) const {
    if (!elliptic) {
      point.template add_pushing<1>({jar.x[0]}, {change.x[0]}, single(), alpha);
      for (int i = 1; i < rows; ++i)
        point.template add_pushing<2>({jar.x[0] + jar.x[i], jar.x[0] - jar.x[i]},
                                      {change.x[0] + change.x[i], change.x[0] - change.x[i]}, edges(i),
                                      alpha);
      return;
    }
    const ConeRow<V> there = moved(jar, change, alpha);
    const Line was = line(jar, change), is = line(there, change);
    const MaskOf<V> quadratic = (was.inside && is.inside) || (was.outside && is.outside);
    point.add_curved(was.derivative, was.curvature, is.derivative, is.curvature, quadratic || D <= V(0),
                     alpha);
  }

  template <class Point>
  MANIPLE_FUNCTION void add_to_search(Point& point, const ConeRow<V>& jar, const ConeRow<V>& change) const {
    if (!elliptic) {
      point.add_one_sided(jar.x[0], change.x[0], single());
      for (int i = 1; i < rows; ++i) {
        const V edge = edges(i);
        point.add_one_sided(jar.x[0] + jar.x[i], change.x[0] + change.x[i], edge);
        point.add_one_sided(jar.x[0] - jar.x[i], change.x[0] - change.x[i], edge);
      }
      return;
    }
    const ConeRow<V> there = moved(jar, change, point.alpha);
    const Line is = line(there, change);
    point.add(rise(jar, change, there, point.alpha), is.derivative, is.curvature);
  }

 private:
  // Where a residual is: in the polar of the cone, where nothing pushes; where the force lies inside of the
  // cone and is linear; or in the middle, where the force lies on the cone.
  struct Zone {
    MaskOf<V> inside, middle;
    V beyond;      // distance to the polar of the cone, negative
    V length;      // of the friction's part
    V inverse;     // 1 / length
    V stiffness;   // in the middle, of `beyond`
    V tangential;  // inside, of friction
  };
  MANIPLE_FUNCTION Zone zone_of(const ConeRow<V>& jar) const {
    using T = ScalarOf<V>;
    V square(0);
    for (int i = 1; i < rows; ++i) square = multiply_add(jar.x[i], jar.x[i], square);
    Zone zone;
    zone.length = sqrt(square);
    const V normal = mu * jar.x[0];
    zone.beyond = normal - mu * zone.length;
    zone.inside = D > V(0) && multiply_add(mu, normal, zone.length) <= V(0);
    zone.middle = D > V(0) && zone.beyond < V(0) && !zone.inside;
    zone.inverse = V(1) / select(zone.length > V(0), zone.length, V(1));
    const V mu_square = mu * mu;
    zone.tangential = D / mu_square;
    zone.stiffness = D / (mu_square * (V(T(1)) + mu_square));
    return zone;
  }
  // Derivative and curvature of the cost along a direction.
  struct Line {
    V derivative, curvature;
    MaskOf<V> inside, outside;
  };
  MANIPLE_FUNCTION Line line(const ConeRow<V>& jar, const ConeRow<V>& change) const {
    const Zone zone = zone_of(jar);
    V product(0), square(0);  // of the friction's part
    for (int i = 1; i < rows; ++i) {
      product = multiply_add(jar.x[i], change.x[i], product);
      square = multiply_add(change.x[i], change.x[i], square);
    }
    const V along = zone.inverse * product, rate = mu * (change.x[0] - along);
    const V force = zone.stiffness * zone.beyond;
    // the length curves by what of the change is across
    const V bend = -force * mu * zone.inverse * max(square - along * along, V(0));
    const V inside = multiply_add(D * jar.x[0], change.x[0], zone.tangential * product),
            inside_curvature = multiply_add(D * change.x[0], change.x[0], zone.tangential * square);
    return {select(zone.inside, inside, select(zone.middle, force * rate, V(0))),
            select(zone.inside, inside_curvature,
                   select(zone.middle, multiply_add(zone.stiffness * rate, rate, bend), V(0))),
            zone.inside, !(zone.inside || zone.middle)};
  }
  // By how much the cost of the elliptic cone is higher after a step alpha. Within a zone, and between inside
  // and the middle, whose cost is that of inside less a square, it is no difference of large numbers.
  MANIPLE_FUNCTION V rise(const ConeRow<V>& jar, const ConeRow<V>& change, const ConeRow<V>& there,
                          V alpha) const {
    const V half(ScalarOf<V>(0.5));
    const Zone was = zone_of(jar), is = zone_of(there);
    V product(0), square(0);  // of the friction's part
    for (int i = 1; i < rows; ++i) {
      product = multiply_add(jar.x[i], change.x[i], product);
      square = multiply_add(change.x[i], change.x[i], square);
    }
    const V step = alpha * change.x[0], squares = alpha * (V(2) * product + alpha * square);
    const V inside = D * step * (jar.x[0] + half * step) + half * was.tangential * squares;
    const V lengths = was.length + is.length;
    const V longer = squares / select(lengths > V(0), lengths, V(1));
    const V further = mu * (step - longer);  // of `beyond`
    const V middle = half * was.stiffness * further * (V(2) * was.beyond + further);
    const auto gap = [&](const ConeRow<V>& row, const Zone& zone) {
      const V boundary = multiply_add(mu * mu, row.x[0], zone.length);
      return half * zone.stiffness * boundary * boundary;
    };
    const auto cost = [&](const ConeRow<V>& row, const Zone& zone) {
      const V all = multiply_add(D * row.x[0], row.x[0], zone.tangential * zone.length * zone.length);
      return half *
             select(zone.inside, all, select(zone.middle, zone.stiffness * zone.beyond * zone.beyond, V(0)));
    };
    const MaskOf<V> steady = (was.inside || was.middle) && (is.inside || is.middle);
    const V across =
        inside + select(was.middle, gap(jar, was), V(0)) - select(is.middle, gap(there, is), V(0));
    return select(was.middle && is.middle, middle, select(steady, across, cost(there, is) - cost(jar, was)));
  }
  // Of the pyramid: stiffness of the normal alone in lanes without friction, and of the edges along
  // direction i.
  MANIPLE_FUNCTION V single() const { return select(dim > V(1), V(0), D); }
  MANIPLE_FUNCTION V edges(int i) const { return select(dim > V(static_cast<ScalarOf<V>>(i)), D, V(0)); }
};

}  // namespace maniple
