// The exact line search of Newton's methods (PrimalSearch of engine_solver.c finds the same point by other
// steps). Along a line the cost of the rows is piecewise quadratic, hence its derivative is piecewise linear.
#pragma once

#include "kernels/base/pack.hpp"

namespace maniple {

// The derivative of the cost along the search direction at the step alpha, as the line that it follows
// there: intercept + alpha * slope.
template <class V>
struct DerivativeLine {
  V intercept, slope;

  friend MANIPLE_FUNCTION MaskOf<V> operator==(const DerivativeLine& a, const DerivativeLine& b) {
    return a.intercept == b.intercept && a.slope == b.slope;
  }
};

// That line at some step. `same`: every row is in the zone in which it was at the step zero.
template <class V>
struct LinePoint {
  DerivativeLine<V> line{V(0), V(0)};
  MaskOf<V> same{true};
};

// The step along the search direction that minimizes the cost, and how much the cost falls if it is quadratic
// all the way. (The difference of two costs would be all rounding in single precision.) `exact`: the rows are
// in the zones in which they were, so that the step has met the minimum of the cost itself.
template <class V>
struct LineMinimum {
  V alpha, improvement;
  MaskOf<V> exact;
};

// For the lanes in `active`; line_at(alpha) is the LinePoint there, `start` the derivative at zero. The
// search direction is a Newton step: where no row changes its zone it ends at 1, but for its rounding. Else,
// as the derivative grows with the step, Newton's method on it ends where the line through one point is still
// the line at its zero, or where its size is at most `enough`. Bisection guards the steps.
template <class V, class LineAt>
MANIPLE_FUNCTION LineMinimum<V> minimize_on_line(const LineAt& line_at, V start, MaskOf<V> active, V enough,
                                                 int iterations) {
  using T = ScalarOf<V>;
  V alpha = select(active, V(1), V(0)), low(0), high(T(1e30));
  LinePoint<V> point = line_at(V(1));
  MaskOf<V> exact = active && point.same;
  const V corrected = -point.line.intercept / point.line.slope;
  alpha = select(exact && corrected > V(T(0.5)) && corrected < V(2), corrected, alpha);
  V derivative = point.line.slope + point.line.intercept;
  active = active && !exact && abs(derivative) > enough;
  for (int iteration = 1; iteration < iterations && any_lane(active); ++iteration) {
    low = select(active && derivative < V(0), alpha, low);
    high = select(active && derivative > V(0), alpha, high);
    const DerivativeLine<V> line = point.line;
    const V newton = -line.intercept / line.slope;
    const MaskOf<V> inside = newton > low && newton < high;
    const V next = select(inside, newton, V(T(0.5)) * (low + min(high, low + low + V(1))));
    alpha = select(active, next, alpha);
    point = line_at(alpha);
    derivative = multiply_add(alpha, point.line.slope, point.line.intercept);
    const MaskOf<V> met = active && inside && point.line == line;
    exact = exact || (met && point.same);
    active = active && !met && abs(derivative) > enough;
  }
  return {alpha, V(T(-0.5)) * start * alpha, exact};
}

}  // namespace maniple
