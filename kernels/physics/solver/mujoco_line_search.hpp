// The line search of MuJoCo's primal solvers (PrimalSearch of engine_solver.c), by the same steps: Newton's
// method from the step zero, then a bracket of two points that Newton steps and midpoints narrow, until the
// derivative is small or the evaluations are used up. mujoco_solver.hpp searches with it.
#pragma once

#include "kernels/math/minimum_value.hpp"
#include "kernels/physics/constraint/row_families.hpp"

namespace maniple {

// The cost along the search direction after a step alpha: its rise since the step zero, which stays exact
// where the cost itself is large, and its derivatives by alpha.
template <class V>
struct SearchPoint {
  using T = ScalarOf<V>;
  V alpha{0}, rise{0}, slope{0}, curvature{0};

  // Adds a row by its rise and derivatives.
  MANIPLE_FUNCTION void add(V d_rise, V d_slope, V d_curvature) {
    rise += d_rise;
    slope += d_slope;
    curvature += d_curvature;
  }
  // Adds a row of the curvature D everywhere, whose residual x changes by `change`.
  MANIPLE_FUNCTION void add_quadratic(V x, V change, V D) {
    const V moved = alpha * change, weighted = D * change;
    add(D * moved * (x + V(T(0.5)) * moved), weighted * (x + moved), weighted * change);
  }
  // Adds a row of the curvature D where its residual is negative, which does not act elsewhere.
  MANIPLE_FUNCTION void add_one_sided(V x, V change, V D) {
    const V moved = alpha * change, there = x + moved, before = min(x, V(0)), after = min(there, V(0));
    const V weighted = D * change;
    const MaskOf<V> is = there < V(0);
    const V difference = select(is && x < V(0), moved, after - before);
    add(V(T(0.5)) * D * difference * (before + after), weighted * after, select(is, weighted * change, V(0)));
  }
  // Adds a row of the curvature D where its residual is smaller than `bound`, either way; linear beyond.
  MANIPLE_FUNCTION void add_bounded(V x, V change, V bound, V D) {
    const V half(T(0.5)), moved = alpha * change, there = x + moved, weighted = D * change;
    const V before = clamp(x, -bound, bound), after = clamp(there, -bound, bound);
    const MaskOf<V> was = abs(x) < bound, is = abs(there) < bound;
    const V inside = half * D * moved * (x + there), beyond = D * after * moved;
    const V across = D * (after * (there - half * after) - before * (x - half * before));
    add(select(was && is, inside, select(!was && !is && before == after, beyond, across)), weighted * after,
        select(is, weighted * change, V(0)));
  }

  MANIPLE_FUNCTION V newton_step() const { return alpha - slope / curvature; }
  // Its lanes in `mask`, those of another point elsewhere.
  MANIPLE_FUNCTION SearchPoint where(MaskOf<V> mask, const SearchPoint& other) const {
    return {select(mask, alpha, other.alpha), select(mask, rise, other.rise),
            select(mask, slope, other.slope), select(mask, curvature, other.curvature)};
  }
};

// What is searched: the rows, and of the cost without constraints the derivative at the step zero and half of
// the curvature.
template <class V>
struct SearchLine {
  const Model<ScalarOf<V>>& m;
  const Data<V>& d;
  const ActiveRows& rows;
  V slope, half_curvature;
};

// The point after a step alpha.
template <class V>
MANIPLE_STAGE void evaluate_line(const SearchLine<V>& line, V alpha, SearchPoint<V>& point) {
  const V two(ScalarOf<V>(2)), least(kMinimumValue);
  point = {alpha, alpha * multiply_add(alpha, line.half_curvature, line.slope),
           multiply_add(two * alpha, line.half_curvature, line.slope), two * line.half_curvature};
  RowFamilies::for_each_row<V>(line.m, line.d, line.rows,
                               [&](const auto& family, int i) MANIPLE_INLINE_LAMBDA {
                                 family.law(i).add_to_search(point, family.jar(i), family.change(i));
                               });
  point.curvature = select(point.curvature <= V(0), least, point.curvature);
}

// The step that the search ends with, and by how much the cost falls; of zero: none.
template <class V>
struct SearchResult {
  V alpha, improvement;
};

// An end of the bracket moves to those of the candidates that are on its side and closer to the minimum;
// `next`, the point of a Newton step from it, follows. Returns the lanes in which it has moved.
template <class V>
MANIPLE_FUNCTION MaskOf<V> narrow(const SearchLine<V>& line, MaskOf<V> lanes,
                                  const SearchPoint<V> (&candidates)[3], SearchPoint<V>& end,
                                  SearchPoint<V>& next, V& evaluations) {
  MaskOf<V> moved(false);
  for (const SearchPoint<V>& candidate : candidates) {
    const V old = end.slope, slope = candidate.slope;
    const MaskOf<V> closer =
        (old < V(0) && slope < V(0) && old < slope) || (old > V(0) && slope > V(0) && old > slope);
    end = candidate.where(lanes && closer, end);
    moved = moved || (lanes && closer);
  }
  if (!any_lane(moved)) return moved;
  SearchPoint<V> point;
  evaluate_line(line, end.newton_step(), point);
  next = point.where(moved, next);
  evaluations += select(moved, V(1), V(0));
  return moved;
}

// For the lanes in `active`: where the derivative is smaller than `enough`, or the best that the model's
// ls_iterations evaluations have found.
template <class V>
MANIPLE_STAGE void search_line(const SearchLine<V>& line, MaskOf<V> active, V enough,
                               SearchResult<V>& result) {
  using Point = SearchPoint<V>;
  const V most(static_cast<ScalarOf<V>>(line.m.ls_iterations)), half(ScalarOf<V>(0.5));
  const auto at = [&](V alpha) {
    Point point;
    evaluate_line(line, alpha, point);
    return point;
  };
  result = {V(0), V(0)};
  MaskOf<V> open = active;
  const auto end = [&](MaskOf<V> where, const Point& point) {
    where = where && open;
    result.alpha = select(where, point.alpha, result.alpha);
    result.improvement = select(where, -point.rise, result.improvement);
    open = open && !where;
  };

  Point p2 = at(V(0)), p1 = at(p2.newton_step());
  V evaluations(2);
  end(abs(p1.slope) < enough && (p1.alpha == V(0) || p1.rise < V(0)), p1);
  // on one side until the derivative changes its sign
  const V side = select(p1.slope < V(0), V(1), V(-1));
  for (;;) {
    const MaskOf<V> here = open && p1.slope * side <= -enough && evaluations < most;
    if (!any_lane(here)) break;
    p2 = p1.where(here, p2);
    p1 = at(p1.newton_step()).where(here, p1);
    evaluations += select(here, V(1), V(0));
    end(here && abs(p1.slope) < enough && p1.rise < V(0), p1);
  }
  end(evaluations >= most, p1);
  if (!any_lane(open)) return;

  Point next2 = p1, next1 = at(p1.newton_step());
  evaluations += V(1);
  for (;;) {
    MaskOf<V> here = open && evaluations < most;
    if (!any_lane(here)) break;
    const Point middle = at(half * (p1.alpha + p2.alpha));
    evaluations += select(here, V(1), V(0));
    const Point candidates[3] = {next1, next2, middle};
    Point best = middle;
    MaskOf<V> met(false);
    for (const Point& candidate : candidates) {
      const MaskOf<V> better = abs(candidate.slope) < enough && (!met || candidate.rise < best.rise);
      best = candidate.where(better, best);
      met = met || better;
    }
    end(here && met, best);
    here = here && !met;
    const MaskOf<V> moved1 = narrow(line, here, candidates, p1, next1, evaluations),
                    moved2 = narrow(line, here, candidates, p2, next2, evaluations);
    // as close as rounding lets it
    end(here && !(moved1 || moved2), middle);
  }
  end(p1.rise <= p2.rise && p1.rise < V(0), p1);
  end(p2.rise <= p1.rise && p2.rise < V(0), p2);
}

}  // namespace maniple
