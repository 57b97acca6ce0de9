// The dual problem of one environment (dual_solver.hpp), its rows over the lanes: how it is listed, built and
// brought back.
#pragma once

#include "kernels/base/unroll.hpp"
#include "kernels/model/visiting_order.hpp"
#include "kernels/physics/row_blocks.hpp"

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

// What the problems of a pack have in common.
template <class V>
struct DualRows {
  RowBlocks blocks;
  DataField<V> enough;  // [1], see DualProblem
};

// ---- one environment: its matrix ----

// Lists the environment's rows in MuJoCo's order: its columns of Y, D in place of the diagonal, and bias,
// force and bounds. A frictionless contact is one row, of the sum of its four edges.
template <int kPacks, class V>
MANIPLE_FUNCTION void list_rows(const Model<ScalarOf<V>>& m, const Data<V>& d, const RowBlocks blocks,
                                const DualProblem<V> x) {
  using T = ScalarOf<V>;
  constexpr int width = lane_width<V>;
  const int lane = x.lane, pitch = (kPacks > 0 ? kPacks : x.packs) * width;
  const bool warm = !(m.disableflags & disable_warmstart);
  const DataField<V> force = vector_of<kPacks>(x, dual_force), bias = vector_of<kPacks>(x, dual_bias),
                     diagonal = vector_of<kPacks>(x, dual_diagonal), low = vector_of<kPacks>(x, dual_low),
                     high = vector_of<kPacks>(x, dual_high), Y = d.block_Y;
  int count = 0;
  // residuals: of qacc_smooth and of the warm start
  const auto add = [&](int source, T D, T smooth, T start, T least, T most) {
    d.dual_source[x.source + count] = source;
    element(diagonal, count) = D;
    element(bias, count) = smooth;
    element(low, count) = least;
    element(high, count) = most;
    element(force, count) = warm ? clamp(-D * start, least, most) : T(0);
    ++count;
  };
  const auto for_each_dof_of = [&](int block, const auto& body) {
    const auto words = [&](int w) { return d.block_set[m.ndofword * block + w]; };
    for_each_dof(words, 0, m.nv, [&](int dof) { body(dof * pitch + count, 3 * (m.nv * block + dof)); });
  };
  const auto add_single = [&](int source, int row, T D, T least, T most) {
    for_each_dof_of(row / 3, [&](int at, int k) { element(x.Y, at) = lane_element(Y, k + row % 3, lane); });
    const T smooth = lane_element(d.block_bias, row, lane);
    add(source, D, smooth, smooth + lane_element(d.block_start, row, lane), least, most);
  };
  constexpr T infinite(1e30);
  for (int r = 0; r < m.nfriction; ++r)
    add_single(r, r, m.friction_D[r], -m.friction_loss[r], m.friction_loss[r]);
  for (int row = m.nfriction; row < blocks.rows; ++row) {
    const int r = static_cast<int>(lane_element(d.block_limit, row - m.nfriction, lane));
    if (r < 0) break;
    add_single(row_of_limit(m, r), row, lane_element(d.limit_D, r, lane), T(0), infinite);
  }
  for (int block = blocks.single; block < blocks.count; ++block) {
    const int slot = block - blocks.single, source = row_of_contact(m, slot);
    const T D = lane_element(d.contact_D, slot, lane);
    if (!(D > 0)) continue;
    const auto base_of_lane = [&](const DataField<V> field, int k) {
      return BaseRows<T>{lane_element(field, k, lane), lane_element(field, k + 1, lane),
                         lane_element(field, k + 2, lane)};
    };
    const BaseRows<T> smooth = base_of_lane(d.block_bias, 3 * block),
                      start = base_of_lane(d.block_start, 3 * block);
    const int candidate = static_cast<int>(lane_element(d.contact_candidate, slot, lane));
    if (m.contactclass_condim[m.candidate_class[candidate]] == 1) {
      for_each_dof_of(block, [&](int at, int k) { element(x.Y, at) = lane_element(Y, k, lane); });
      add(-1 - source, 4 * D, smooth.n, smooth.n + start.n, T(0), infinite);
      continue;
    }
    for_each_dof_of(block, [&](int at, int k) {
      const Edges<T> edges = edges_of(base_of_lane(Y, k));
      for (int e = 0; e < 4; ++e) element(x.Y, at + e) = edges.value[e];
    });
    const Edges<T> bias_of = edges_of(smooth),
                   start_of =
                       edges_of(BaseRows<T>{smooth.n + start.n, smooth.t + start.t, smooth.u + start.u});
    for (int e = 0; e < 4; ++e) add(source + e, D, bias_of.value[e], start_of.value[e], T(0), infinite);
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
MANIPLE_STAGE void begin_problem(const Model<ScalarOf<V>>& m, const Data<V>& d, const DualRows<V> rows,
                                 DualProblem<V>& x) {
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
  list_rows<kPacks>(m, d, rows.blocks, x);
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
  x.enough = element(rows.enough, x.lane);
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
