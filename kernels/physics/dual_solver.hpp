// MuJoCo's dual solver (mj_solPGS): projected Gauss-Seidel for the forces f of the rows that minimize
//   1/2 f' A f + f' b,   A = J M^-1 J' + R,   b = J qacc_smooth - aref,   R = 1/D,
// within their bounds, row after row in shuffled orders, with Nesterov's momentum between the sweeps. Models
// that ask for it mostly end it before it has converged, so that its iterates are the result: rows, orders,
// start and tests are MuJoCo's one to one. A model of several trees is the exception: MuJoCo solves what
// contacts join (islands) one by one, here all rows take part in the same sweeps, and the results agree as
// far as they converge.
//
// What the environments of a pack have in common ends with the rows: they have different ones, in different
// orders, for different numbers of sweeps. So the environments are solved one by one, with their rows over
// the lanes (on a GPU a lane is alone, and its thread loops over its rows). The steps of a sweep depend on
// each other and wait for each other's results; several environments at a time fill the gaps.
#pragma once

#include "kernels/physics/dual_problem.hpp"

namespace maniple {

// ---- sweeps ----

// The step of Nesterov's momentum, within the bounds, and the residuals after it.
template <int kPacks, class V>
MANIPLE_FUNCTION void begin_sweep(const DualProblem<V> x) {
  using T = ScalarOf<V>;
  const int packs = kPacks > 0 ? kPacks : x.packs;
  const DataField<V> forces = vector_of<kPacks>(x, dual_force),
                     previous = vector_of<kPacks>(x, dual_previous), start = vector_of<kPacks>(x, dual_start);
  const V share(max(static_cast<T>(x.momentum - 1), T(0)) / static_cast<T>(x.momentum + 2));
  for (int p = 0; p < packs; ++p) {
    const V force = forces[p];
    const V moved = clamp(multiply_add(share, force - previous[p], force),
                          V(vector_of<kPacks>(x, dual_low)[p]), V(vector_of<kPacks>(x, dual_high)[p]));
    previous[p] = force;
    forces[p] = start[p] = moved;
  }
  for (int p = 0; p < packs; ++p) vector_of<kPacks>(x, dual_residual)[p] = residual_of<kPacks, V>(x, p);
}

// What a sweep reads and changes, in registers. Every row is visited once, so that its bounds stay the same.
template <int kPacks, class V>
struct SweepState {
  V residual[kPacks];
  V fall[kPacks];                 // of the rows that have been visited
  V least[kPacks], most[kPacks];  // bounds of the fall
};
template <int kPacks, bool kBounded, class V>
MANIPLE_FUNCTION void load_sweep(const DualProblem<V> x, SweepState<kPacks, V>& now) {
  for (int p = 0; p < kPacks; ++p) {
    const V force = vector_of<kPacks>(x, dual_force)[p];
    now.residual[p] = vector_of<kPacks>(x, dual_residual)[p];
    now.fall[p] = V(0);
    now.most[p] = kBounded ? force - vector_of<kPacks>(x, dual_low)[p] : force;
    if (kBounded) now.least[p] = force - vector_of<kPacks>(x, dual_high)[p];
  }
}
template <int kPacks, class V>
MANIPLE_FUNCTION void store_sweep(const DualProblem<V> x, const SweepState<kPacks, V>& now) {
  for (int p = 0; p < kPacks; ++p) {
    vector_of<kPacks>(x, dual_force)[p] -= now.fall[p];
    vector_of<kPacks>(x, dual_end)[p] = now.residual[p];
  }
}

// Visits row i. No change makes the problem worse, so that none needs to be taken back as MuJoCo provides for
// (which is for cones): the old force f is within the bounds, the cost is a parabola in the new one with its
// minimum at f - residual, and the bounds cut off the way there, at worst at f itself.
template <int kPacks, bool kBounded, class V>
MANIPLE_FUNCTION void visit_row(const DualProblem<V> x, int i, SweepState<kPacks, V>& now) {
  // by how much the force of each row would fall, were it visited now
  V falls[kPacks];
  for (int p = 0; p < kPacks; ++p) {
    falls[p] = min(now.residual[p], now.most[p]);
    if (kBounded) falls[p] = max(falls[p], now.least[p]);
  }
  const V fall = broadcast_element(falls, i);
  for (int p = 0; p < kPacks; ++p) {
    now.fall[p] = select(MaskOf<V>::only(i - p * lane_width<V>), fall, now.fall[p]);
    now.residual[p] = multiply_add(V(x.column[i * kPacks + p]), fall, now.residual[p]);
  }
}

// A whole sweep in memory.
template <class V, class Order>
MANIPLE_FUNCTION void sweep_in_memory(const DualProblem<V> x, const Order order) {
  using T = ScalarOf<V>;
  const int rows = x.rows, packs = x.packs;
  const DataField<V> end = vector_of<0>(x, dual_end), force = vector_of<0>(x, dual_force),
                     low = vector_of<0>(x, dual_low), high = vector_of<0>(x, dual_high), column = x.column;
  for (int p = 0; p < packs; ++p) end[p] = vector_of<0>(x, dual_residual)[p];
  for (int k = 0; k < rows; ++k) {
    const int i = order[k];
    const T old = element(force, i);
    const T fall = clamp(element(end, i), old - element(high, i), old - element(low, i));
    element(force, i) = old - fall;
    for (int p = 0; p < packs; ++p) end[p] = multiply_add(V(column[i * packs + p]), V(fall), V(end[p]));
  }
}

// One sweep of kTogether problems, visit by visit in turns.
template <int kPacks, bool kBounded, int kTogether, class V, class Order>
MANIPLE_FUNCTION void sweep_together(const DualProblem<V> (&x)[kTogether], const Order (&order)[kTogether]) {
  SweepState<kPacks, V> now[kTogether];
  int all = x[0].rows;
  for (int g = 0; g < kTogether; ++g) {
    load_sweep<kPacks, kBounded>(x[g], now[g]);
    all = all < x[g].rows ? all : x[g].rows;
  }
  for (int k = 0; k < all; ++k)
    for (int g = 0; g < kTogether; ++g) visit_row<kPacks, kBounded>(x[g], order[g][k], now[g]);
  for (int g = 0; g < kTogether; ++g) {
    for (int k = all; k < x[g].rows; ++k) visit_row<kPacks, kBounded>(x[g], order[g][k], now[g]);
    store_sweep(x[g], now[g]);
  }
}

// Whether the model lists the order of the next sweep.
template <class V>
MANIPLE_FUNCTION bool order_listed(const Model<ScalarOf<V>>& m, const DualProblem<V> x) {
  return x.rows <= m.ndualorder && x.sweep < m.ndualsweep;
}
template <class V>
MANIPLE_FUNCTION const unsigned char* listed_order(const Model<ScalarOf<V>>& m, const DualProblem<V> x) {
  return reinterpret_cast<const unsigned char*>(m.dual_order) + order_address(m.ndualsweep, x.rows) +
         x.sweep * x.rows;
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
  ComputedOrder<V> order{d.dual_order, x.order};
  const int listed = x.rows <= m.ndualorder ? m.ndualsweep : 0;
  if (x.sweep == listed) {
    x.generator = ShuffleGenerator{};
    for (int i = 0; i < x.rows; ++i) order[i] = i;
    for (int sweep = 0; sweep < listed; ++sweep) shuffle(order, x.rows, x.generator);
  }
  shuffle(order, x.rows, x.generator);
  return order;
}

// After a sweep: whether momentum begins anew, and whether the problem is solved.
template <int kPacks, class V>
MANIPLE_FUNCTION bool end_sweep(const Model<ScalarOf<V>>& m, DualProblem<V>& x) {
  using T = ScalarOf<V>;
  const int packs = kPacks > 0 ? kPacks : x.packs;
  V improvement(0), along(0);
  for (int p = 0; p < packs; ++p) {
    const V start = vector_of<kPacks>(x, dual_start)[p], fall = start - vector_of<kPacks>(x, dual_force)[p];
    // the cost is quadratic: what it falls by is the mean of the slopes at both ends times the way
    const V slope = vector_of<kPacks>(x, dual_residual)[p] + vector_of<kPacks>(x, dual_end)[p];
    improvement = multiply_add(vector_of<kPacks>(x, dual_diagonal)[p] * slope, fall, improvement);
    along = multiply_add(fall, vector_of<kPacks>(x, dual_previous)[p] - start, along);
  }
  // (without a branch that depends on the numbers)
  x.momentum = (x.momentum + 1) * static_cast<int>(!(sum_lanes(along) < 0));
  ++x.sweep;
  return x.sweep >= m.iterations || T(0.5) * sum_lanes(improvement) < x.enough;
}

// One sweep of an environment alone, in whatever order. Whether its problem is solved then.
template <int kPacks, bool kBounded, class V>
MANIPLE_FUNCTION bool whole_sweep(const Model<ScalarOf<V>>& m, const Data<V>& d, DualProblem<V>& x) {
  begin_sweep<kPacks>(x);
  if constexpr (kPacks == 0) {
    if (order_listed(m, x)) {
      sweep_in_memory(x, listed_order(m, x));
    } else {
      sweep_in_memory(x, computed_order(m, d, x));
    }
  } else {
    const DualProblem<V> alone[1] = {x};
    if (order_listed(m, x)) {
      const unsigned char* const order[1] = {listed_order(m, x)};
      sweep_together<kPacks, kBounded, 1>(alone, order);
    } else {
      const ComputedOrder<V> order[1] = {computed_order(m, d, x)};
      sweep_together<kPacks, kBounded, 1>(alone, order);
    }
  }
  return end_sweep<kPacks>(m, x);
}

// One sweep of the first kTogether problems; sets whether they are solved.
template <int kPacks, bool kBounded, int kTogether, class V>
MANIPLE_FUNCTION void whole_sweeps(const Model<ScalarOf<V>>& m, const Data<V>& d, DualProblem<V>* problem,
                                   bool (&solved)[kTogether]) {
  if constexpr (kTogether == 1) {
    solved[0] = whole_sweep<kPacks, kBounded>(m, d, problem[0]);
  } else {
    bool listed = true;
    for (int g = 0; g < kTogether; ++g) listed = listed && order_listed(m, problem[g]);
    if (!listed) {
      for (int g = 0; g < kTogether; ++g) solved[g] = whole_sweep<kPacks, kBounded>(m, d, problem[g]);
      return;
    }
    DualProblem<V> x[kTogether];
    const unsigned char* order[kTogether];
    for (int g = 0; g < kTogether; ++g) {
      x[g] = problem[g];
      order[g] = listed_order(m, x[g]);
      begin_sweep<kPacks, V>(x[g]);
    }
    sweep_together<kPacks, kBounded, kTogether>(x, order);
    for (int g = 0; g < kTogether; ++g) solved[g] = end_sweep<kPacks>(m, problem[g]);
  }
}

// ---- all environments ----

// Lanes that wait for their turn, those with many rows first.
template <class V>
struct DualQueue {
  int lanes[lane_width<V>];
  int count = 0;
};

// Solves the environments of a queue, whose rows fill kPacks lane values (0: any number of them).
template <int kPacks, bool kBounded, class V>
MANIPLE_STAGE void solve_queue(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows active,
                               const DualScales<V> scales, const DualQueue<V>& queue) {
  constexpr int together = kPacks == 0 ? 1 : (kPacks <= 2 && lane_width<V> >= 4 ? 4 : 2);
  DualProblem<V> problem[together];
  int next = 0, open = 0;
  // takes environments into x until one needs sweeps
  const auto take = [&](DualProblem<V>& x) {
    while (next < queue.count) {
      x.lane = queue.lanes[next++];
      x.rows = static_cast<int>(lane_element(d.nefc, 0, x.lane));
      x.packs = (x.rows + lane_width<V> - 1) / lane_width<V>;
      begin_problem<kPacks>(m, d, active, scales, x);
      if (m.iterations > 0) return true;
      store_forces<kPacks>(d, x);
    }
    return false;
  };
  // one sweep of the first problems; the next environments take the places of those that are solved
  const auto sweep = [&](auto&& solved) {
    constexpr int count = static_cast<int>(sizeof(solved) / sizeof(bool));
    whole_sweeps<kPacks, kBounded, count>(m, d, problem, solved);
    for (int g = count - 1; g >= 0; --g) {
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
MANIPLE_FUNCTION void solve_environments(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows active,
                                         const DualScales<V> scales) {
  constexpr int width = lane_width<V>;
  const auto queue_of = [&](int least, int most) {
    DualQueue<V> queue;
    for (int lane = 0; lane < width; ++lane) {
      const int rows = static_cast<int>(lane_element(d.nefc, 0, lane));
      if (rows < least || rows > most) continue;
      int place = queue.count++;
      for (; place > 0 && lane_element(d.nefc, 0, queue.lanes[place - 1]) < rows; --place)
        queue.lanes[place] = queue.lanes[place - 1];
      queue.lanes[place] = lane;
    }
    return queue;
  };
  if constexpr (width == 1) {
    solve_queue<0, true>(m, d, active, scales, queue_of(1, m.ndualrow));
  } else {
    solve_queue<1, kBounded>(m, d, active, scales, queue_of(1, width));
    solve_queue<2, kBounded>(m, d, active, scales, queue_of(width + 1, 2 * width));
    solve_queue<3, kBounded>(m, d, active, scales, queue_of(2 * width + 1, 3 * width));
    solve_queue<0, true>(m, d, active, scales, queue_of(3 * width + 1, m.ndualrow));
  }
}

// row_force, from the rows, qacc_smooth and the warm start.
template <class V>
MANIPLE_FUNCTION void dual_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                  ActiveRows active) {
  start_rows(m, s, d, active);
  const DualScales<V> scales{d.inverse_root, d.Msearch};
  V trace(0);
  for (int k = 0; k < m.nv; ++k) {
    scales.root[k] = sqrt(V(d.qLDiagInv[k]));
    trace += d.qM[m.dof_Madr[k]];
  }
  scales.enough[0] = V(m.tolerance) * trace;
  if (m.nfriction > 0) {
    solve_environments<true>(m, d, active, scales);
  } else {
    solve_environments<false>(m, d, active, scales);
  }
}

}  // namespace maniple
