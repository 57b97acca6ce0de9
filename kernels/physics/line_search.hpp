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

// The step along the search direction that minimizes the cost, and how much the cost falls if it is quadratic
// all the way. (The difference of two costs would be all rounding in single precision.) `exact`: no row has
// changed its zone on the way, so that the step has met the minimum of the cost itself.
template <class V>
struct LineMinimum {
  V alpha, improvement;
  MaskOf<V> exact;
};

// For the lanes in `active`; line_at(alpha) is the DerivativeLine at alpha, and `start` that at zero. The
// derivative grows with the step: Newton's method on it ends where the line through one point is still the
// line at its zero, or where its size is at most `enough`. Bisection guards the steps.
template <class V, class LineAt>
MANIPLE_FUNCTION LineMinimum<V> minimize_on_line(const LineAt& line_at, const DerivativeLine<V>& start,
                                                 MaskOf<V> active, V enough, int iterations) {
  using T = ScalarOf<V>;
  DerivativeLine<V> line = start;
  V alpha(0), low(0), high(T(1e30));
  MaskOf<V> exact(false);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    const V newton = -line.intercept / line.slope;
    const MaskOf<V> inside = newton > low && newton < high;
    const V next = select(inside, newton, V(T(0.5)) * (low + min(high, low + low + V(1))));
    alpha = select(active, next, alpha);
    const DerivativeLine<V> found = line_at(alpha);
    const MaskOf<V> met = active && inside && found == line;
    exact = exact || (met && found == start);
    line = found;
    const V derivative = multiply_add(alpha, line.slope, line.intercept);
    active = active && !met && abs(derivative) > enough;
    if (!any_lane(active)) break;
    low = select(active && derivative < V(0), alpha, low);
    high = select(active && derivative > V(0), alpha, high);
  }
  return {alpha, V(T(-0.5)) * start.intercept * alpha, exact};
}

}  // namespace maniple
