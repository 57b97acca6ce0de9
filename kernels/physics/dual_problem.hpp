// The dual problem of one environment (dual_solver.hpp), its rows over the lanes: how it is listed, built and
// brought back.
#pragma once

#include "kernels/base/unroll.hpp"
#include "kernels/model/visiting_order.hpp"
#include "kernels/physics/contact.hpp"
#include "kernels/physics/inertia.hpp"

namespace maniple {

// Number i in the contiguous memory of a field; on a GPU value i.
template <class V>
MANIPLE_FUNCTION ScalarOf<V>& element(const DataField<V>& field, int i) {
  if constexpr (lane_width<V> == 1) {
    return field[i];
  } else {
    return reinterpret_cast<ScalarOf<V>*>(field.base)[i];
  }
}
// What one lane of value i holds.
template <class V>
MANIPLE_FUNCTION ScalarOf<V>& lane_element(const DataField<V>& field, int i, int lane) {
  return element(field, lane_width<V> * i + lane);
}

// The vectors of a problem, one after the other in Data::dual_rows.
enum DualVector {
  dual_force,
  dual_previous,  // forces before the last step of momentum
  dual_diagonal,  // of A
  dual_bias,      // b over the diagonal
  dual_residual,  // (b + A f) over the diagonal at the start of the sweep
  dual_low,       // smallest and largest force
  dual_high,
  dual_end,     // of a sweep in memory: residuals so far
  dual_fall,    // and by how much its forces have fallen
  dual_vectors  // number of them
};
static_assert(dual_vectors == kDualVectors);

// The dual problem of one environment, rows over lanes; functions take it by value, as they take fields.
// A row is solved when its force falls by its residual; when force j falls by x, the residuals change by
// column j times x.
template <class V>
struct DualProblem {
  DataField<V> vectors, column, Y;
  int source, order;   // first place in dual_source and dual_order
  int lane;            // the environment
  int rows, packs;     // rows, and lane values that hold them
  int sweep;           // sweeps so far
  int momentum;        // sweeps since it has begun anew
  ScalarOf<V> share;   // see momentum_share
  ScalarOf<V> enough;  // improvement of a sweep below which it is the last
  ShuffleGenerator generator;
};
// Columns of its matrix, those of its rows and as many zeros that loops over them are of few lengths, with
// kColumnUnit columns a turn. After those of the rows is one of zeros at least, unless the packs are full.
template <int kPacks, class V>
inline constexpr int kColumnUnit = kPacks <= 1 || lane_width<V> <= 8 ? kPacks* lane_width<V> : 8;
template <int kPacks, class V>
MANIPLE_FUNCTION int column_count(const DualProblem<V> x) {
  constexpr int unit = kPacks == 0 ? 4 : kColumnUnit<kPacks, V>;
  return unit == kPacks * lane_width<V> ? unit : (x.rows + unit - 1) / unit * unit;
}
// One of its vectors. kPacks is x.packs, or 0: not known when compiling.
template <int kPacks, class V>
MANIPLE_FUNCTION DataField<V> vector_of(const DualProblem<V> x, DualVector which) {
  return x.vectors.from(which * (kPacks > 0 ? kPacks : x.packs));
}

// The memory of problem number `slot` of those that are solved at a time.
template <class V>
MANIPLE_FUNCTION DualProblem<V> dual_problem(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot) {
  const int first = slot * (m.ndualrow / lane_width<V>);
  DualProblem<V> x;
  x.vectors = d.dual_rows.from(first * dual_vectors);
  x.column = d.dual_column.from(first * m.ndualrow);
  x.Y = d.dual_Y.from(first * m.nrowdof);
  x.source = x.order = slot * m.ndualrow;
  x.lane = x.rows = x.packs = x.sweep = x.momentum = 0;
  x.share = x.enough = 0;
  return x;
}

// ---- what the lanes still do together ----

template <class V>
struct DualScales {
  DataField<V> root;    // [nv], 1/sqrt(D) of M's factor
  DataField<V> enough;  // [1], see DualProblem
};

// row_bias, and in row_force the forces that qacc_warmstart would have in the primal problem.
template <class V>
MANIPLE_FUNCTION void start_rows(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                 ActiveRows rows) {
  const bool warm = !(m.disableflags & disable_warmstart);
  for (int r = 0; r < m.nfriction; ++r) {
    d.row_bias[r] = friction_jar(m, d, r, d.qacc_smooth);
    d.row_force[r] = warm ? friction_row(m, r, friction_jar(m, d, r, s.qacc_warmstart)).force : V(0);
  }
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a], row = row_of_limit(m, r);
    d.row_bias[row] = limit_jacobian_times(m, d, r, d.qacc_smooth) - d.limit_aref[r];
    const V jar = limit_jacobian_times(m, d, r, s.qacc_warmstart) - d.limit_aref[r];
    d.row_force[row] = warm ? -d.limit_D[r] * min(jar, V(0)) : V(0);
  }
  for (int slot = 0; slot < rows.slots; ++slot) {
    const int row = row_of_contact(m, slot);
    const Edges<V> aref = edges_of(load_base<V>(d.contact_aref, slot));
    const Edges<V> smooth = edges_of(contact_jacobian_times(m, d, slot, d.qacc_smooth));
    const Edges<V> jar = edges_of(contact_jacobian_times(m, d, slot, s.qacc_warmstart));
    const V D = d.contact_D[slot];
    for (int e = 0; e < 4; ++e) {
      d.row_bias[row + e] = smooth.value[e] - aref.value[e];
      d.row_force[row + e] = warm ? -D * min(jar.value[e] - aref.value[e], V(0)) : V(0);
    }
  }
}

// ---- one environment: its matrix ----

// Lists the environment's rows in MuJoCo's order: J' goes to Y, D to the diagonal, and bias, force and bounds
// to theirs. A frictionless contact is one row, of the sum of its four edges.
template <int kPacks, class V>
MANIPLE_FUNCTION void list_rows(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows active,
                                const DualProblem<V> x) {
  using T = ScalarOf<V>;
  constexpr int width = lane_width<V>;
  const int lane = x.lane, pitch = (kPacks > 0 ? kPacks : x.packs) * width;
  const DataField<V> force = vector_of<kPacks>(x, dual_force), bias = vector_of<kPacks>(x, dual_bias),
                     diagonal = vector_of<kPacks>(x, dual_diagonal);
  int count = 0;
  const auto add = [&](int source, T D, T scale) {
    d.dual_source[x.source + count] = scale == 1 ? source : -1 - source;
    element(diagonal, count) = D;
    element(bias, count) = lane_element(d.row_bias, source, lane);
    element(force, count) = scale * lane_element(d.row_force, source, lane);
    ++count;
  };
  const auto list_tendon = [&](int tendon, T scale) {
    for (int k = m.ten_J_rowadr[tendon], end = k + m.ten_J_rownnz[tendon]; k < end; ++k)
      element(x.Y, m.ten_J_colind[k] * pitch + count) += scale * m.ten_J[k];
  };
  for (int r = 0; r < m.nfriction; ++r) {
    const int tendon = m.friction_tendonid[r];
    if (tendon < 0)
      element(x.Y, m.friction_dofid[r] * pitch + count) = T(1);
    else
      list_tendon(tendon, T(1));
    element(vector_of<kPacks>(x, dual_low), count) = -m.friction_loss[r];
    element(vector_of<kPacks>(x, dual_high), count) = m.friction_loss[r];
    add(r, m.friction_D[r], T(1));
  }
  for (int a = 0; a < active.limits; ++a) {
    const int r = d.limit_active[a];
    const T D = lane_element(d.limit_D, r, lane);
    if (!(D > 0)) continue;
    const int at = m.limit_dofid[r] * pitch + count;
    if (m.limit_tendonid[r] >= 0) {
      list_tendon(m.limit_tendonid[r], static_cast<T>(m.limit_side[r]));
    } else if (m.limit_ballid[r] < 0) {
      element(x.Y, at) = static_cast<T>(m.limit_side[r]);
    } else {
      for (int k = 0; k < 3; ++k)
        element(x.Y, at + k * pitch) = -lane_element(d.limit_axis, 3 * m.limit_ballid[r] + k, lane);
    }
    add(row_of_limit(m, r), D, T(1));
  }
  for (int slot = 0; slot < active.slots; ++slot) {
    const T D = lane_element(d.contact_D, slot, lane);
    if (!(D > 0)) continue;
    const int first = slot * m.nv, last = first + d.slot_dofnum[slot], row = row_of_contact(m, slot);
    const int candidate = static_cast<int>(lane_element(d.contact_candidate, slot, lane));
    if (m.contactclass_condim[m.candidate_class[candidate]] == 1) {
      for (int k = first; k < last; ++k)
        element(x.Y, d.slot_dof[k] * pitch + count) = lane_element(d.contact_J, 3 * k, lane);
      add(row, 4 * D, T(4));
      continue;
    }
    for (int k = first; k < last; ++k) {
      const int at = d.slot_dof[k] * pitch + count;
      const T n = lane_element(d.contact_J, 3 * k, lane), t = lane_element(d.contact_J, 3 * k + 1, lane),
              u = lane_element(d.contact_J, 3 * k + 2, lane);
      element(x.Y, at) = n + t;
      element(x.Y, at + 1) = n - t;
      element(x.Y, at + 2) = n + u;
      element(x.Y, at + 3) = n - u;
    }
    for (int e = 0; e < 4; ++e) add(row + e, D, T(1));
  }
}

// Y = (L^-T J' / sqrt(D))', from J' in Y: with it J M^-1 J' = Y Y'. `root`: 1/sqrt(D) of all lanes. (The sums
// of solve_inertia's backward half, turned around: each is finished before it is stored.)
template <int kPacks, class V>
MANIPLE_FUNCTION void solve_rows(const Model<ScalarOf<V>>& m, const Data<V>& d, const DataField<V> root,
                                 const DualProblem<V> x) {
  const int packs = kPacks > 0 ? kPacks : x.packs, lane = x.lane, nv = m.nv;
  const DataField<V> Y = x.Y, factor = d.qLD;
  const int *const rootadr = m.dof_Mrootadr, *const descendants = m.dof_descendants,
                   *const ancestors = m.dof_ancestors;
  for (int i = nv - 1; i >= 0; --i) {
    const int depth = ancestors[i], end = i + 1 + descendants[i];
    for (int p = 0; p < packs; ++p) {
      V even = Y[i * packs + p], odd(0);
      int k = i + 1;
      for (; k + 2 <= end; k += 2) {
        even -= V(lane_element(factor, rootadr[k] - depth, lane)) * Y[k * packs + p];
        odd -= V(lane_element(factor, rootadr[k + 1] - depth, lane)) * Y[(k + 1) * packs + p];
      }
      if (k < end) even -= V(lane_element(factor, rootadr[k] - depth, lane)) * Y[k * packs + p];
      Y[i * packs + p] = even + odd;
    }
  }
  for (int i = 0; i < nv; ++i) {
    const V scale(lane_element(root, i, lane));
    for (int p = 0; p < packs; ++p) Y[i * packs + p] *= scale;
  }
}

// The diagonal and the columns of A, and what is relative to the diagonal.
template <int kPacks, class V>
MANIPLE_FUNCTION void build_columns(const Model<ScalarOf<V>>& m, const DualProblem<V> x) {
  constexpr int width = lane_width<V>;
  const int packs = kPacks > 0 ? kPacks : x.packs, pitch = packs * width, nv = m.nv,
            columns = column_count<kPacks>(x);
  const DataField<V> Y = x.Y, column = x.column, bias = vector_of<kPacks>(x, dual_bias),
                     diagonals = vector_of<kPacks>(x, dual_diagonal);
  for (int p = 0; p < packs; ++p) {
    V diagonal = V(1) / diagonals[p];
    for (int k = 0; k < nv; ++k) diagonal = multiply_add(V(Y[k * packs + p]), V(Y[k * packs + p]), diagonal);
    diagonals[p] = diagonal;
    const V inverse = V(1) / diagonal;
    bias[p] *= inverse;
    for (int j = 0; j < columns; j += 4) {
      V sum0(0), sum1(0), sum2(0), sum3(0);
      for (int k = 0; k < nv; ++k) {
        const V value = Y[k * packs + p];
        const int at = k * pitch + j;
        sum0 = multiply_add(value, V(element(Y, at)), sum0);
        sum1 = multiply_add(value, V(element(Y, at + 1)), sum1);
        sum2 = multiply_add(value, V(element(Y, at + 2)), sum2);
        sum3 = multiply_add(value, V(element(Y, at + 3)), sum3);
      }
      const V scale = -inverse;
      column[j * packs + p] = scale * sum0;
      column[(j + 1) * packs + p] = scale * sum1;
      column[(j + 2) * packs + p] = scale * sum2;
      column[(j + 3) * packs + p] = scale * sum3;
    }
    if (x.rows < pitch) column[x.rows * packs + p] = V(0);
  }
  for (int j = 0; j < x.rows; ++j) element(column, j * pitch + j) = ScalarOf<V>(-1);
}

// The residuals of the forces.
template <int kPacks, class V>
MANIPLE_FUNCTION void find_residuals(const DualProblem<V> x, V (&residual)[kPacks]) {
  const DataField<V> column = x.column, force = vector_of<kPacks>(x, dual_force);
  V sum[kPacks][4];
  unroll<0, kPacks>([&](auto p) {
    sum[p][0] = -vector_of<kPacks>(x, dual_bias)[p];
    sum[p][1] = sum[p][2] = sum[p][3] = V(0);
  });
  constexpr int together = kColumnUnit<kPacks, V>;
  const int columns = column_count<kPacks>(x);
  for (int first = 0; first < columns; first += together)
    unroll<0, together>([&](auto offset) {
      const int j = first + offset;
      const V value(element(force, j));
      unroll<0, kPacks>([&](auto p) {
        sum[p][offset % 4] = multiply_add(V(column[j * kPacks + p]), value, sum[p][offset % 4]);
      });
    });
  unroll<0, kPacks>([&](auto p) { residual[p] = -((sum[p][0] + sum[p][1]) + (sum[p][2] + sum[p][3])); });
}
// The same of pack p, in a problem of any size.
template <class V>
MANIPLE_FUNCTION V residual_of(const DualProblem<V> x, int p) {
  const int packs = x.packs, rows = x.rows;
  const DataField<V> column = x.column, force = vector_of<0>(x, dual_force);
  V sum0 = -vector_of<0>(x, dual_bias)[p], sum1(0), sum2(0), sum3(0);
  int j = 0;
  for (; j + 4 <= rows; j += 4) {
    sum0 = multiply_add(V(column[j * packs + p]), V(element(force, j)), sum0);
    sum1 = multiply_add(V(column[(j + 1) * packs + p]), V(element(force, j + 1)), sum1);
    sum2 = multiply_add(V(column[(j + 2) * packs + p]), V(element(force, j + 2)), sum2);
    sum3 = multiply_add(V(column[(j + 3) * packs + p]), V(element(force, j + 3)), sum3);
  }
  for (; j < rows; ++j) sum0 = multiply_add(V(column[j * packs + p]), V(element(force, j)), sum0);
  return -((sum0 + sum1) + (sum2 + sum3));
}

// Begins the problem of an environment: x.lane, x.rows and x.packs are set.
template <int kPacks, class V>
MANIPLE_STAGE void begin_problem(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows active,
                                 const DualScales<V> scales, DualProblem<V>& x) {
  using T = ScalarOf<V>;
  const int packs = kPacks > 0 ? kPacks : x.packs;
  const DataField<V> force = vector_of<kPacks>(x, dual_force), bias = vector_of<kPacks>(x, dual_bias),
                     diagonal = vector_of<kPacks>(x, dual_diagonal);
  for (int i = 0; i < m.nv * packs; ++i) x.Y[i] = V(0);
  for (int p = 0; p < packs; ++p) {
    force[p] = bias[p] = vector_of<kPacks>(x, dual_low)[p] = V(0);
    diagonal[p] = V(1);
    vector_of<kPacks>(x, dual_high)[p] = V(T(1e30));
  }
  list_rows<kPacks>(m, d, active, x);
  solve_rows<kPacks>(m, d, scales.root, x);
  build_columns<kPacks>(m, x);
  // MuJoCo's warm start: no force at all where that costs less
  V cost(0);
  const auto add = [&](int p, V residual) { cost += diagonal[p] * force[p] * (bias[p] + residual); };
  if constexpr (kPacks == 0) {
    for (int p = 0; p < packs; ++p) add(p, residual_of(x, p));
  } else {
    V residual[kPacks];
    find_residuals(x, residual);
    for (int p = 0; p < kPacks; ++p) add(p, residual[p]);
  }
  const bool none = sum_lanes(cost) > 0;
  for (int p = 0; p < packs; ++p) {
    if (none) force[p] = V(0);
    vector_of<kPacks>(x, dual_previous)[p] = force[p];
  }
  x.sweep = x.momentum = 0;
  x.share = 0;
  x.enough = element(scales.enough, x.lane);
}

template <int kPacks, class V>
MANIPLE_FUNCTION void store_forces(const Data<V>& d, const DualProblem<V> x) {
  for (int i = 0; i < x.rows; ++i) {
    const int source = d.dual_source[x.source + i];
    const ScalarOf<V> force = element(vector_of<kPacks>(x, dual_force), i);
    if (source >= 0) {
      lane_element(d.row_force, source, x.lane) = force;
    } else {
      for (int e = 0; e < 4; ++e) lane_element(d.row_force, e - 1 - source, x.lane) = force / 4;
    }
  }
}

}  // namespace maniple
