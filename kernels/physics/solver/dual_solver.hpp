// MuJoCo's dual solver (mj_solPGS): projected Gauss-Seidel for the forces f of the rows that minimize
//   1/2 f' A f + f' b,   A = J M^-1 J' + R,   b = J qacc_smooth - aref,   R = 1/D,
// within their bounds, row after row in shuffled orders, with Nesterov's momentum between the sweeps. Models
// that ask for it mostly cut it off before it has converged, so that the result is one of its iterates: rows,
// orders, start and tests are exactly MuJoCo's. So are the islands: trees of bodies that no row joins are
// solved one by one, each in its own order and with as many sweeps as it needs.
//
// Beyond A (row_blocks.hpp) the environments of a pack have nothing in common: they have different rows, in
// different orders, and take different numbers of sweeps. So the islands of the environments are solved one
// by one, with their rows over the lanes (on a GPU a lane is alone, and its thread loops over its rows). The
// steps of a sweep depend on each other and wait for each other's results; several islands at a time fill the
// gaps.
#pragma once

#include "kernels/base/unroll.hpp"
#include "kernels/physics/solver/dual_problem.hpp"

namespace maniple {

// ---- sweeps ----

// The fraction of a force's last change that Nesterov's momentum adds once more.
template <class T>
MANIPLE_FUNCTION T momentum_fraction(T sweeps) {
  return max(sweeps - T(1), T(0)) / (sweeps + T(2));
}

// Sweeps after which the residuals are computed again, before rounding adds up.
inline constexpr int kCarriedSweeps = 32;

// The step of momentum, within the bounds, and the residuals where the sweep starts: they are linear in the
// forces and move with them, but for what the bounds hold back. Leaves dual_fall zero.
template <int kPacks, bool kBounded, class V>
MANIPLE_FUNCTION void move_forces(const Team<V>& team, const DualProblem<V> x) {
  const int packs = kPacks > 0 ? kPacks : x.packs;
  const DataField<V> force = vector_of<kPacks>(x, dual_force), previous = vector_of<kPacks>(x, dual_previous),
                     residual = vector_of<kPacks>(x, dual_residual),
                     previous_residual = vector_of<kPacks>(x, dual_previous_residual),
                     start = vector_of<kPacks>(x, dual_start), fall = vector_of<kPacks>(x, dual_fall),
                     low = vector_of<kPacks>(x, dual_low), high = vector_of<kPacks>(x, dual_high),
                     column = x.column;
  if (x.sweep % kCarriedSweeps == kCarriedSweeps - 1) {
    find_residuals<kPacks>(team, x, dual_force, dual_residual);
    // (else momentum would act on the difference between new and old ones)
    find_residuals<kPacks>(team, x, dual_previous, dual_previous_residual);
  }
  const V fraction(x.fraction);
  for (const int p : team.share(packs)) {
    const V old = force[p], wanted = multiply_add(fraction, old - previous[p], old);
    const V moved = kBounded ? clamp(wanted, V(low[p]), V(high[p])) : max(wanted, V(0));
    previous[p] = old;
    force[p] = moved;
    fall[p] = wanted - moved;
    const V here = residual[p];
    start[p] = multiply_add(fraction, here - previous_residual[p], here);
    previous_residual[p] = here;
  }
  for (int p = 0; p < packs; ++p) {
    const V back = fall[p];
    for_each_lane(back != V(0), [&](int lane) {
      const V change(get_lane(back, lane));
      const int i = p * lane_width<V> + lane;
      for (const int q : team.share(packs))
        start[q] = multiply_add(V(column[i * packs + q]), change, V(start[q]));
    });
  }
  for (const int p : team.share(packs)) fall[p] = V(0);
}

// Sums over a sweep that its end needs.
template <class V>
struct SweepCourse {
  V improvement = V(0), along = V(0);

  // Adds pack p, whose forces will fall by `fall` from where they are.
  template <int kPacks>
  MANIPLE_FUNCTION void add(const DualProblem<V> x, int p, V fall, V residual) {
    const V start = vector_of<kPacks>(x, dual_force)[p];
    // the cost is quadratic: it falls by the mean of the slopes at both ends times the distance
    const V slope = vector_of<kPacks>(x, dual_start)[p] + residual;
    improvement = multiply_add(vector_of<kPacks>(x, dual_diagonal)[p] * slope, fall, improvement);
    along = multiply_add(fall, vector_of<kPacks>(x, dual_previous)[p] - start, along);
  }
};

// After a sweep: whether momentum begins again, and whether the problem is solved.
template <class V>
MANIPLE_FUNCTION bool end_sweep(const Model<ScalarOf<V>>& m, DualProblem<V>& x,
                                const SweepCourse<V>& course) {
  using T = ScalarOf<V>;
  // (first what does not depend on the sums: the next sweep waits for the rest)
  ++x.sweep;
  const T sweeps = x.momentum + 1, fraction = momentum_fraction(sweeps);
  const T goes_on = static_cast<T>(!(sum_lanes(course.along) < 0));
  x.momentum = goes_on * sweeps;
  x.fraction = goes_on * fraction;
  return x.sweep >= m.iterations || T(0.5) * sum_lanes(course.improvement) < x.enough;
}

// What a sweep reads and changes, in registers. Every row is visited once, so that its bounds do not change.
template <int kPacks, class V>
struct SweepState {
  V residual[kPacks];
  V least[kPacks], most[kPacks];  // bounds of the fall
};
template <int kPacks, bool kBounded, class V>
MANIPLE_FUNCTION void begin_sweep(const DualProblem<V> x, SweepState<kPacks, V>& now) {
  move_forces<kPacks, kBounded>(Team<V>(), x);
  unroll<0, kPacks>([&](auto p) {
    const V force = vector_of<kPacks>(x, dual_force)[p];
    now.residual[p] = vector_of<kPacks>(x, dual_start)[p];
    now.most[p] = kBounded ? force - vector_of<kPacks>(x, dual_low)[p] : force;
    if (kBounded) now.least[p] = force - vector_of<kPacks>(x, dual_high)[p];
  });
}

// Visits row i. No change makes the cost larger, so that none has to be undone, as MuJoCo may do for cones:
// the old force f is within the bounds, the cost is a parabola in the new one with its minimum at f -
// residual, and the bounds cut off the way there, at worst at f itself.
template <int kPacks, bool kBounded, class V>
MANIPLE_FUNCTION void visit_row(const DualProblem<V> x, int i, SweepState<kPacks, V>& now) {
  // by how much the force of each row would fall if it were visited now
  V falls[kPacks];
  for (int p = 0; p < kPacks; ++p) {
    falls[p] = min(now.residual[p], now.most[p]);
    if (kBounded) falls[p] = max(falls[p], now.least[p]);
  }
  const V fall = broadcast_element(falls, i);
  element(vector_of<kPacks>(x, dual_fall), i) = get_lane(fall, 0);
  for (int p = 0; p < kPacks; ++p)
    now.residual[p] = multiply_add(V(x.column[i * kPacks + p]), fall, now.residual[p]);
}

// One sweep of kTogether problems, visit by visit in turns; sets whether they are solved. Each makes as many
// visits as the one with the most rows: an order continues with a row of zeros.
template <int kPacks, bool kBounded, int kTogether, class V, class Order>
MANIPLE_FUNCTION void sweep_together(const Model<ScalarOf<V>>& m, DualProblem<V>* problem,
                                     const Order (&order)[kTogether], bool (&solved)[kTogether]) {
  DualProblem<V> x[kTogether];
  SweepState<kPacks, V> now[kTogether];
  int visits = 0;
  unroll<0, kTogether>([&](auto g) {
    x[g] = problem[g];
    begin_sweep<kPacks, kBounded>(x[g], now[g]);
    visits = visits < x[g].rows ? x[g].rows : visits;
  });
  for (int k = 0; k < visits; ++k)
    unroll<0, kTogether>([&](auto g) { visit_row<kPacks, kBounded>(x[g], order[g][k], now[g]); });
  unroll<0, kTogether>([&](auto g) {
    SweepCourse<V> course;
    unroll<0, kPacks>([&](auto p) {
      const V fall = vector_of<kPacks>(x[g], dual_fall)[p];
      course.template add<kPacks>(x[g], p, fall, now[g].residual[p]);
      V& force = vector_of<kPacks>(x[g], dual_force)[p];
      force = force - fall;
      vector_of<kPacks>(x[g], dual_residual)[p] = now[g].residual[p];
    });
    solved[g] = end_sweep(m, problem[g], course);
  });
}

// One sweep of a problem of any size, in memory; returns whether it is solved.
template <class V, class Order>
MANIPLE_FUNCTION bool sweep_in_memory(const Model<ScalarOf<V>>& m, const Team<V>& team, DualProblem<V>& x,
                                      const Order order) {
  using T = ScalarOf<V>;
  const int rows = x.rows, packs = x.packs;
  const DataField<V> start = vector_of<0>(x, dual_start), residual = vector_of<0>(x, dual_residual),
                     falls = vector_of<0>(x, dual_fall), force = vector_of<0>(x, dual_force),
                     low = vector_of<0>(x, dual_low), high = vector_of<0>(x, dual_high), column = x.column;
  move_forces<0, true>(team, x);
  for (const int p : team.share(packs)) residual[p] = start[p];
  for (int k = 0; k < rows; ++k) {
    const int i = order[k];
    const T old = element(force, i);
    const T fall = clamp(element(residual, i), old - element(high, i), old - element(low, i));
    if (team.leads()) element(falls, i) = fall;  // for after the sweep
    for (const int p : team.share(packs))
      residual[p] = multiply_add(V(column[i * packs + p]), V(fall), V(residual[p]));
  }
  SweepCourse<V> course;
  for (int p = 0; p < packs; ++p) course.template add<0>(x, p, V(falls[p]), V(residual[p]));
  for (const int p : team.share(packs)) force[p] = force[p] - falls[p];
  return end_sweep(m, x, course);
}

// Whether the model lists the order of the next sweep.
template <class V>
MANIPLE_FUNCTION bool order_listed(const Model<ScalarOf<V>>& m, const DualProblem<V> x) {
  return x.rows <= m.ndualorder && x.sweep < m.ndualsweep;
}
template <class V>
MANIPLE_FUNCTION const unsigned char* listed_order(const Model<ScalarOf<V>>& m, const DualProblem<V> x) {
  return reinterpret_cast<const unsigned char*>(m.dual_order) + order_address(m.ndualsweep, x.rows) +
         x.sweep * order_length(x.rows);
}

// The order of a sweep that the model does not list.
template <class V>
struct ComputedOrder {
  IndexField<V> list;
  int first;
  MANIPLE_FUNCTION int& operator[](int i) const { return list[first + i]; }
};
template <class V>
MANIPLE_FUNCTION ComputedOrder<V> computed_order(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                                 DualProblem<V>& x) {
  ComputedOrder<V> order{d.dual_order, x.first};
  const int listed = x.rows <= m.ndualorder ? m.ndualsweep : 0;
  if (x.sweep == listed) {
    x.generator = ShuffleGenerator{};
    d.team.once([&] {
      for (int i = 0; i < x.rows; ++i) order[i] = i;
      for (int sweep = 0; sweep < listed; ++sweep) shuffle(order, x.rows, x.generator);
    });
  }
  d.team.once([&] { shuffle(order, x.rows, x.generator); });
  return order;
}

// One sweep of an environment alone, in whatever order. Whether its problem is solved then.
template <int kPacks, bool kBounded, class V>
MANIPLE_FUNCTION bool sweep_alone(const Model<ScalarOf<V>>& m, const Data<V>& d, DualProblem<V>& x) {
  const auto sweep = [&](const auto order) {
    if constexpr (kPacks == 0) {
      return sweep_in_memory(m, d.team, x, order);
    } else {
      const decltype(order) orders[1] = {order};
      bool solved[1];
      sweep_together<kPacks, kBounded>(m, &x, orders, solved);
      return solved[0];
    }
  };
  return order_listed(m, x) ? sweep(listed_order(m, x)) : sweep(computed_order(m, d, x));
}

// One sweep of the first kTogether problems; sets whether they are solved.
template <int kPacks, bool kBounded, int kTogether, class V>
MANIPLE_FUNCTION void sweep_first(const Model<ScalarOf<V>>& m, const Data<V>& d, DualProblem<V>* problem,
                                  bool (&solved)[kTogether]) {
  if constexpr (kTogether > 1) {
    bool listed = true;
    for (int g = 0; g < kTogether; ++g) listed = listed && order_listed(m, problem[g]);
    if (listed) {
      const unsigned char* order[kTogether];
      for (int g = 0; g < kTogether; ++g) order[g] = listed_order(m, problem[g]);
      return sweep_together<kPacks, kBounded>(m, problem, order, solved);
    }
  }
  for (int g = 0; g < kTogether; ++g) solved[g] = sweep_alone<kPacks, kBounded>(m, d, problem[g]);
}

// ---- all environments ----

// Islands that wait for their turn, those with many rows first: addresses in island_nefc.
template <class V>
struct DualQueue {
  IndexField<V> islands;
  int count;
};
// Those with `least` to `most` rows.
template <class V>
MANIPLE_FUNCTION DualQueue<V> queue_of(const Model<ScalarOf<V>>& m, const Data<V>& d, int least, int most) {
  const IndexField<V> islands = d.dual_queue, rows = d.island_nefc;
  const int count = d.team.once([&] {
    int length = 0;
    for (int i = 0; i < lane_width<V> * m.ndualtree; ++i) {
      if (rows[i] < least || rows[i] > most) continue;
      int at = length++;
      for (; at > 0 && rows[islands[at - 1]] < rows[i]; --at) islands[at] = islands[at - 1];
      islands[at] = i;
    }
    return length;
  });
  return {islands, count};
}

// Solves the islands of a queue, whose rows fill kPacks lane values (0: any number of them).
template <int kPacks, bool kBounded, class V>
MANIPLE_STAGE void solve_queue(const Model<ScalarOf<V>>& m, const Data<V>& d, const DualRows<V>& rows,
                               const DualQueue<V> queue) {
  constexpr int together = kPacks == 0 ? 1 : (lane_width<V> >= 4 ? 4 : 2);
  DualProblem<V> problem[together];
  int next = 0, open = 0;
  // takes the next island into x; false: there is none
  const auto take = [&](DualProblem<V>& x) {
    if (next == queue.count) return false;
    const int i = queue.islands[next++];
    x.lane = i / m.ndualtree;
    x.island = i % m.ndualtree;
    x.rows = d.island_nefc[i];
    x.packs = (x.rows + lane_width<V> - 1) / lane_width<V>;
    begin_problem<kPacks>(m, d, rows, x);
    return true;
  };
  // one sweep of the first problems; the next islands come in for those that are solved
  const auto sweep = [&]<int kCount>(bool(&solved)[kCount]) {
    sweep_first<kPacks, kBounded>(m, d, problem, solved);
    for (int g = kCount - 1; g >= 0; --g) {
      if (!solved[g]) continue;
      store_forces<kPacks>(d, problem[g]);
      if (!take(problem[g])) problem[g] = problem[--open];
    }
  };
  for (int slot = 0; slot < together; ++slot) {
    problem[open] = dual_problem(m, d, slot);
    if (take(problem[open])) ++open;
  }
  bool solved4[4], solved2[2], solved1[1];
  if constexpr (together >= 4)
    while (open >= 4) sweep(solved4);
  if constexpr (together >= 2)
    while (open >= 2) sweep(solved2);
  while (open >= 1) sweep(solved1);
}

template <bool kBounded, class V>
MANIPLE_FUNCTION void solve_islands(const Model<ScalarOf<V>>& m, const Data<V>& d, const DualRows<V>& rows) {
  constexpr int width = lane_width<V>;
  if constexpr (width == 1) {
    solve_queue<0, true>(m, d, rows, queue_of(m, d, 1, m.ndualrow));
  } else {
    solve_queue<1, kBounded>(m, d, rows, queue_of(m, d, 1, width));
    solve_queue<2, kBounded>(m, d, rows, queue_of(m, d, width + 1, 2 * width));
    solve_queue<3, kBounded>(m, d, rows, queue_of(m, d, 2 * width + 1, 3 * width));
    solve_queue<0, true>(m, d, rows, queue_of(m, d, 3 * width + 1, m.ndualrow));
  }
}

// row_force, from the rows, qacc_smooth and the warm start.
template <class V>
MANIPLE_FUNCTION void dual_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                  const ActiveRows& active) {
  const DualRows<V> rows{build_blocks(m, s, d, active), d.Msearch};
  start_forces(m, d, rows.blocks);
  if (m.iterations == 0) return;
  build_A(m, d, rows.blocks.count);
  d.team.once([&] { find_islands(m, d, rows.blocks, rows.inertia); });
  bool bounded = false;  // by anything but zero from below
  RowFamilies::for_each_in_blocks<V>(m, d, active, [&](const auto& family) MANIPLE_INLINE_LAMBDA {
    bounded = bounded || (!decltype(family.scaled_law(0))::kOnlyPushes && family.count() > 0);
  });
  if (bounded) {
    solve_islands<true>(m, d, rows);
  } else {
    solve_islands<false>(m, d, rows);
  }
}

}  // namespace maniple
