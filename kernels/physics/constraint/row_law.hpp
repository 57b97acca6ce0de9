// Laws of constraint rows at the residual jar = J qacc - aref: the force and cost of mj_constraintUpdate, the
// second derivative of the cost, and its part in a line search. A law knows nothing of where its row comes
// from; row_families.hpp says which rows follow which law.
#pragma once

#include "kernels/base/pack.hpp"

namespace maniple {

// A residual after a step alpha along the search direction, in which it changes by `change`.
template <class V>
MANIPLE_FUNCTION V moved(V jar, V change, V alpha) {
  return multiply_add(alpha, change, jar);
}

// Values between which something holds.
template <class V>
struct Bounds {
  V low, high;
};
inline constexpr double kUnbounded = 1e30;

// Every law has
//   D                    the row's stiffness; 0: it does not act
//   kOnlyPushes          its force is not negative, and unbounded
//   kSaturates           its force does not vanish where it is constant
//   residual_bounds()    between which the force is quadratic in the cost, -D jar
//   force_bounds()
//   force(jar), twice_cost(jar), curvature(jar)
//   add_to_line(point, jar, change, alpha)
//                        adds the row, whose residual changes by `change` along the line, to a LinePoint at
//                        the step alpha
//   add_to_search(point, jar, change)
//                        the same to a SearchPoint, which knows its alpha

// Dry friction: -D jar up to a largest force [N or Nm], and constant beyond.
template <class V>
struct BoundedLaw {
  static constexpr bool kOnlyPushes = false, kSaturates = true;
  V D, loss;  // stiffness and largest force
  V bound;    // residual at which it is reached

  MANIPLE_FUNCTION BoundedLaw(ScalarOf<V> stiffness, ScalarOf<V> largest)
      : D(stiffness), loss(largest), bound(largest / stiffness) {}
  // The same where every lane has its own.
  static MANIPLE_FUNCTION BoundedLaw of_lanes(V stiffness, V largest) {
    BoundedLaw law(ScalarOf<V>(1), ScalarOf<V>(1));
    law.D = stiffness;
    law.loss = largest;
    law.bound = largest / stiffness;
    return law;
  }

  MANIPLE_FUNCTION Bounds<V> residual_bounds() const { return {-bound, bound}; }
  MANIPLE_FUNCTION Bounds<V> force_bounds() const { return {-loss, loss}; }
  MANIPLE_FUNCTION V force(V jar) const { return select(abs(jar) >= bound, copysign(loss, -jar), -D * jar); }
  MANIPLE_FUNCTION V twice_cost(V jar) const {
    const V half(ScalarOf<V>(0.5)), quadratic = half * D * jar * jar;
    return V(2) * select(abs(jar) >= bound, loss * (abs(jar) - half * bound), quadratic);
  }
  MANIPLE_FUNCTION V curvature(V jar) const { return select(abs(jar) >= bound, V(0), D); }
  template <class Point>
  MANIPLE_FUNCTION void add_to_line(Point& point, V jar, V change, V alpha) const {
    point.add_row(jar, change, -bound, bound, D, alpha);
  }
  template <class Point>
  MANIPLE_FUNCTION void add_to_search(Point& point, V jar, V change) const {
    point.add_bounded(jar, change, bound, D);
  }
};

// An equality constraint holds both ways.
template <class V>
struct FreeLaw {
  static constexpr bool kOnlyPushes = false, kSaturates = false;
  V D;

  MANIPLE_FUNCTION Bounds<V> residual_bounds() const { return {V(-kUnbounded), V(kUnbounded)}; }
  MANIPLE_FUNCTION Bounds<V> force_bounds() const { return residual_bounds(); }
  MANIPLE_FUNCTION V force(V jar) const { return -D * jar; }
  MANIPLE_FUNCTION V twice_cost(V jar) const { return D * jar * jar; }
  MANIPLE_FUNCTION V curvature(V) const { return D; }
  template <class Point>
  MANIPLE_FUNCTION void add_to_line(Point& point, V, V change, V) const {
    point.add_quadratic(change, D);
  }
  template <class Point>
  MANIPLE_FUNCTION void add_to_search(Point& point, V jar, V change) const {
    point.add_quadratic(jar, change, D);
  }
};

// A limit pushes where its residual is negative.
template <class V>
struct OneSidedLaw {
  static constexpr bool kOnlyPushes = true, kSaturates = false;
  V D;

  MANIPLE_FUNCTION Bounds<V> residual_bounds() const { return {V(-kUnbounded), V(0)}; }
  MANIPLE_FUNCTION Bounds<V> force_bounds() const { return {V(0), V(kUnbounded)}; }
  MANIPLE_FUNCTION V force(V jar) const { return -D * min(jar, V(0)); }
  MANIPLE_FUNCTION V twice_cost(V jar) const {
    const V pushed = min(jar, V(0));
    return D * pushed * pushed;
  }
  MANIPLE_FUNCTION V curvature(V jar) const { return select(jar < V(0), D, V(0)); }
  template <class Point>
  MANIPLE_FUNCTION void add_to_line(Point& point, V jar, V change, V alpha) const {
    point.template add_pushing<1>({jar}, {change}, D, alpha);
  }
  template <class Point>
  MANIPLE_FUNCTION void add_to_search(Point& point, V jar, V change) const {
    point.add_one_sided(jar, change, D);
  }
};

}  // namespace maniple
