// The exact line search of Newton's methods (PrimalSearch of engine_solver.c finds the same point by other
// steps). Along a line the cost of the rows is piecewise quadratic, so its derivative is piecewise linear. A
// Newton step ends at alpha = 1 as long as no row changes its state on the way. So everything is measured
// from there, by sums of squares and by the contributions of rows that have changed: near the minimum the
// parts of the derivative itself cancel, and in single precision only rounding would remain of it.
#pragma once

#include "kernels/base/pack.hpp"

namespace maniple {

// The cost along the search direction at some step alpha, where its derivative follows the line
//   slope * (alpha - 1) + rest + error.
template <class V>
struct LinePoint {
  V start{0};                // the slope at the step zero, a sum of squares
  V slope{0};                // that at alpha
  V rest{0};                 // of rows that have left the state in which they were
  V error{0};                // the derivative at 1 if no row had: what the Newton step misses
  MaskOf<V> changed{false};  // rows have left their state
  MaskOf<V> curved{false};   // rows are not quadratic in pieces

  MANIPLE_FUNCTION V derivative(V alpha) const { return multiply_add(slope, alpha - V(1), rest + error); }
  // Where the line is zero.
  MANIPLE_FUNCTION V zero() const { return V(1) - (rest + error) / slope; }

  // Adds a row whose residual changes by `change`: of the curvature D everywhere.
  MANIPLE_FUNCTION void add_quadratic(V change, V D) {
    const V weighted = D * change;
    start = multiply_add(weighted, change, start);
    slope = multiply_add(weighted, change, slope);
  }
  // Adds a row of any other cost, by its derivative and curvature along the line at the step zero and at
  // alpha. `quadratic`: one parabola holds both.
  MANIPLE_FUNCTION void add_curved(V derivative_at_start, V curvature_at_start, V derivative, V curvature,
                                   MaskOf<V> quadratic, V alpha) {
    start += curvature_at_start;
    slope += curvature;
    const V left =
        (derivative - derivative_at_start) - multiply_add(curvature, alpha - V(1), curvature_at_start);
    rest += select(quadratic, V(0), left);
    changed = changed || !quadratic;
    curved = curved || !quadratic;
  }
  // Adds a row whose residual x changes by `change`: of the curvature D between low and high, linear beyond.
  MANIPLE_FUNCTION void add_row(V x, V change, V low, V high, V D, V alpha) {
    const V there = multiply_add(alpha, change, x), end = x + change, weighted = D * change;
    const MaskOf<V> was = x > low && x<high, is = there> low && there < high;
    start = multiply_add(select(was, weighted, V(0)), change, start);
    slope = multiply_add(select(is, weighted, V(0)), change, slope);
    const V moved = select(is, end, clamp(there, low, high)) - select(was, end, clamp(x, low, high));
    rest = multiply_add(moved, weighted, rest);
    changed = changed || (D > V(0) && ((there > low) != (x > low) || (there < high) != (x < high)));
  }
  // The same of rows that push where their residual is negative, all of the curvature D. Mostly none of them
  // changes in any lane; where none does, what is left out would change no bit.
  template <int N>
  MANIPLE_FUNCTION void add_pushing(const V (&x)[N], const V (&change)[N], V D, V alpha) {
    V at_start(0);
    MaskOf<V> was[N], is[N], moved(false);
    for (int i = 0; i < N; ++i) {
      was[i] = x[i] < V(0);
      is[i] = multiply_add(alpha, change[i], x[i]) < V(0);
      at_start = multiply_add(select(was[i], change[i], V(0)), change[i], at_start);
      moved = moved || is[i] != was[i];
    }
    moved = moved && D > V(0);
    start = multiply_add(D, at_start, start);
    if (!any_lane(moved)) {
      slope = multiply_add(D, at_start, slope);
      return;
    }
    V at_alpha(0), of_moved(0);
    for (int i = 0; i < N; ++i) {
      const V end = x[i] + change[i];
      at_alpha = multiply_add(select(is[i], change[i], V(0)), change[i], at_alpha);
      of_moved = multiply_add(select(is[i], end, V(0)) - select(was[i], end, V(0)), change[i], of_moved);
    }
    // by selection: where nothing moved, numbers that are not finite must do what they do above
    slope = multiply_add(D, select(moved, at_alpha, at_start), slope);
    rest = select(moved, multiply_add(D, of_moved, rest), rest);
    changed = changed || moved;
  }
};

// The step along the search direction that minimizes the cost. `prospect`: by how much the cost would fall in
// a whole step if no row changed its state, Newton's measure of what is left. (What it falls by says little:
// a stiff row that is about to change its state makes a step short, however far the minimum.) `exact`: the
// rows are in the states in which they were, so that a step without rounding meets the minimum of the cost
// itself. Where they are not, the prospect says nothing of what is left either: a stiff row that hardly acts
// makes it small, and once it lets go the way is free.
template <class V>
struct LineMinimum {
  V alpha, prospect;
  MaskOf<V> exact;
};

// The lanes whose iterations go on after a step. Rows that rest on the end of their range may change their
// states by rounding for ever; so of the steps that promise less than the tolerance and change some state no
// more than a few follow each other.
inline constexpr int kIdleSteps = 4;
template <class V>
struct SolverProgress {
  V idle{0};  // such steps so far, in succession

  MANIPLE_FUNCTION MaskOf<V> goes_on(V prospect, V tolerance, MaskOf<V> changed) {
    const MaskOf<V> promising = prospect >= tolerance;
    idle = select(promising, V(0), idle + V(1));
    return promising || (changed && idle < V(ScalarOf<V>{kIdleSteps}));
  }
};

// The longest step: a longer one would magnify the rounding of its direction, and another iteration costs no
// more.
inline constexpr int kLongestStep = 1000;

// For the lanes in `active`; line_at(alpha) is the LinePoint there, `point` that of the whole step. Where no
// row changes its state the step ends at 1, but for its error. Else, as the derivative grows with the step,
// Newton's method on it ends where the line through one point is still the line at its zero, or where the
// derivative is at most `enough` times that at the step zero. Bisection guards the steps. No step raises the
// cost: a direction along which it does not fall is not taken (alpha is zero), and where `iterations` end too
// early the step is one up to which the derivative cannot have become positive. Where rows are curved the
// derivative need only be kCurvedFall times that at the step zero, unless `exactly`: close to the minimum a
// whole step leaves less, and further away the next direction is a better one.
inline constexpr double kCurvedFall = 0.01;
template <class V, class LineAt>
MANIPLE_FUNCTION LineMinimum<V> minimize_on_line(LinePoint<V> point, const LineAt& line_at, MaskOf<V> active,
                                                 V enough, int iterations, bool exactly) {
  using T = ScalarOf<V>;
  const V half(T(0.5)), longest(T{kLongestStep});
  const V start = point.start;
  V low(0), fall = start - point.error, steepest = start, high = longest + longest;
  active = active && fall > V(0);
  const MaskOf<V> exact = active && !point.changed;
  const V corrected = point.zero();
  V alpha = select(exact && corrected > half && corrected < V(2), corrected, V(1));
  alpha = select(active, alpha, V(0));
  enough *= fall;
  if (!exactly) enough = select(point.curved, max(enough, V(kCurvedFall) * fall), enough);
  V derivative = point.derivative(V(1));
  active = active && !exact && abs(derivative) > enough;
  for (int iteration = 1; iteration < iterations && any_lane(active); ++iteration) {
    const MaskOf<V> falls = active && derivative < V(0);
    low = select(falls, alpha, low);
    fall = select(falls, -derivative, fall);
    steepest = select(falls, point.slope, steepest);
    high = select(active && derivative > V(0), alpha, high);
    const V slope = point.slope, rest = point.rest, newton = min(point.zero(), longest);
    const MaskOf<V> inside = newton > low && newton < high;
    alpha = select(active, select(inside, newton, half * (low + min(high, low + low + V(1)))), alpha);
    point = line_at(alpha);
    derivative = point.derivative(alpha);
    const MaskOf<V> met = inside && point.slope == slope && point.rest == rest;
    active = active && !met && abs(derivative) > enough && alpha < longest;
  }
  // no row is quadratic between two points unless it is so at one of them
  alpha = select(active && derivative > V(0), low + fall / (steepest + point.slope), alpha);
  return {alpha, half * start, exact};
}

}  // namespace maniple
