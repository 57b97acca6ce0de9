// The dual problem of one environment (dual_solver.hpp), its rows over the lanes: how it is listed, built and
// brought back.
#pragma once

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
  dual_residual,  // (b + A f) over the diagonal
  dual_previous,  // forces and residuals before the last step of momentum
  dual_previous_residual,
  dual_start,     // residuals at the start of the sweep
  dual_fall,      // by how much the forces have fallen in the sweep
  dual_diagonal,  // of A
  dual_bias,      // b over the diagonal
  dual_low,       // smallest and largest force
  dual_high,
  dual_vectors  // number of them
};
static_assert(dual_vectors == kDualVectors);

// The dual problem of one environment, rows over lanes; functions take it by value, as they take fields.
// A row is solved when its force falls by its residual; when force j falls by x, the residuals change by
// column j times x.
template <class V>
struct DualProblem {
  DataField<V> vectors, column;
  int first;        // place in dual_source and dual_order
  int lane;         // the environment
  int rows, packs;  // rows, and lane values that hold them
  int sweep;        // sweeps so far
  // sweeps since momentum has begun anew, and see momentum_share
  ScalarOf<V> momentum, share;
  ScalarOf<V> enough;          // improvement of a sweep below which it is the last
  ShuffleGenerator generator;  // goes on in a team's leader alone
};
// One of its vectors. kPacks is x.packs, or 0: not known when compiling.
template <int kPacks, class V>
MANIPLE_FUNCTION DataField<V> vector_of(const DualProblem<V> x, DualVector which) {
  return x.vectors.from(which * (kPacks > 0 ? kPacks : x.packs));
}

// The memory of problem number `slot` of those that are solved at a time.
template <class V>
MANIPLE_FUNCTION DualProblem<V> dual_problem(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot) {
  const int place = slot * (m.ndualrow / lane_width<V>);
  DualProblem<V> x;
  x.vectors = d.dual_rows.from(place * dual_vectors);
  x.column = d.dual_column.from(place * m.ndualrow);
  x.first = slot * m.ndualrow;
  x.lane = x.rows = x.packs = x.sweep = 0;
  x.momentum = x.share = x.enough = 0;
  return x;
}

// Rows of an environment that are taken together: a single row, or the four edges of a contact whose first
// base row is `first`. In dual_group a group is two numbers.
struct RowGroup {
  int first;  // base row
  bool edges;
  int place;  // of its first row in the problem
};
template <class V>
MANIPLE_FUNCTION RowGroup load_group(const Data<V>& d, int g) {
  const int number = d.dual_group[2 * g];
  return {number / 2, number % 2 != 0, d.dual_group[2 * g + 1]};
}
template <class V>
MANIPLE_FUNCTION void store_group(const Data<V>& d, int g, const RowGroup& group) {
  d.dual_group[2 * g] = 2 * group.first + static_cast<int>(group.edges);
  d.dual_group[2 * g + 1] = group.place;
}

// What the problems of a pack have in common.
template <class V>
struct DualRows {
  RowBlocks blocks;
  DataField<V> enough;  // [1], see DualProblem
};

// ---- one environment: its matrix ----

// Lists the environment's rows in MuJoCo's order: D in place of the diagonal, bias, force and bounds. Returns
// the number of groups of rows, which go to dual_group: a group is a single row or the edges of a contact. A
// frictionless contact is a single row, of the sum of its four edges.
template <int kPacks, class V>
MANIPLE_FUNCTION int list_rows(const Model<ScalarOf<V>>& m, const Data<V>& d, const RowBlocks blocks,
                               const DualProblem<V> x) {
  using T = ScalarOf<V>;
  const int lane = x.lane;
  const bool warm = !(m.disableflags & disable_warmstart);
  const DataField<V> force = vector_of<kPacks>(x, dual_force), bias = vector_of<kPacks>(x, dual_bias),
                     diagonal = vector_of<kPacks>(x, dual_diagonal), low = vector_of<kPacks>(x, dual_low),
                     high = vector_of<kPacks>(x, dual_high);
  int count = 0, groups = 0;
  // residuals: of qacc_smooth and of the warm start
  const auto add = [&](int source, T D, T smooth, T start, T least, T most) {
    d.dual_source[x.first + count] = source;
    element(diagonal, count) = D;
    element(bias, count) = smooth;
    element(low, count) = least;
    element(high, count) = most;
    element(force, count) = warm ? clamp(-D * start, least, most) : T(0);
    ++count;
  };
  const auto add_single = [&](int source, int row, T D, T least, T most) {
    store_group(d, groups++, RowGroup{row, false, count});
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
    const int candidate = static_cast<int>(lane_element(d.contact_candidate, slot, lane));
    if (m.contactclass_condim[m.candidate_class[candidate]] == 1) {
      add_single(-1 - source, 3 * block, 4 * D, T(0), infinite);
      continue;
    }
    store_group(d, groups++, RowGroup{3 * block, true, count});
    const auto base_of_lane = [&](const DataField<V> field) {
      return BaseRows<T>{lane_element(field, 3 * block, lane), lane_element(field, 3 * block + 1, lane),
                         lane_element(field, 3 * block + 2, lane)};
    };
    const BaseRows<T> smooth = base_of_lane(d.block_bias), change = base_of_lane(d.block_start),
                      start{smooth.n + change.n, smooth.t + change.t, smooth.u + change.u};
    const Edges<T> smooth_edges = edges_of(smooth), start_edges = edges_of(start);
    for (int e = 0; e < 4; ++e)
      add(source + e, D, smooth_edges.value[e], start_edges.value[e], T(0), infinite);
  }
  return groups;
}

// A between two groups of rows, from the base rows of the tiles: element (r, c) of kRows by kColumns.
template <int kRows, int kColumns, class V>
struct GroupProduct {
  ScalarOf<V> at[kRows][kColumns];

  MANIPLE_FUNCTION GroupProduct(const DataField<V> A, int row, int column, int lane) {
    using T = ScalarOf<V>;
    const int first = tile_address(row / 3, column / 3) + 3 * (row % 3) + column % 3;
    const auto base = [&](int r, int c) { return lane_element(A, first + 3 * r + c, lane); };
    constexpr int base_rows = kRows == 4 ? 3 : 1;
    T part[base_rows][kColumns];
    for (int r = 0; r < base_rows; ++r)
      spread(
          base(r, 0), [&](int c) { return base(r, c); }, part[r]);
    for (int c = 0; c < kColumns; ++c) {
      T whole[kRows];
      spread(
          part[0][c], [&](int r) { return part[r][c]; }, whole);
      for (int r = 0; r < kRows; ++r) at[r][c] = whole[r];
    }
  }

 private:
  // A single row is its base row, the edges of a contact are sums of three.
  template <class T, class Base>
  static MANIPLE_FUNCTION void spread(T first, const Base&, T (&rows)[1]) {
    rows[0] = first;
  }
  template <class T, class Base>
  static MANIPLE_FUNCTION void spread(T first, const Base& base, T (&rows)[4]) {
    const Edges<T> edges = edges_of(BaseRows<T>{first, base(1), base(2)});
    for (int e = 0; e < 4; ++e) rows[e] = edges.value[e];
  }
};

// The diagonal and the columns of A, and what is relative to the diagonal.
template <int kPacks, class V>
MANIPLE_FUNCTION void build_columns(const Data<V>& d, const DualProblem<V> x, int groups) {
  using T = ScalarOf<V>;
  const int packs = kPacks > 0 ? kPacks : x.packs, pitch = packs * lane_width<V>, lane = x.lane;
  const DataField<V> A = d.block_A, column = x.column, bias = vector_of<kPacks>(x, dual_bias),
                     diagonals = vector_of<kPacks>(x, dual_diagonal),
                     own = vector_of<kPacks>(x, dual_residual);
  // with one of zeros after those of the rows, unless the packs are full
  const int columns = x.rows < pitch ? x.rows + 1 : pitch;
  for (const int i : d.team.share(columns * packs)) column[i] = V(0);
  for (const int p : d.team.share(packs)) own[p] = V(0);
  const auto place = [&]<int kRows, int kColumns>(const GroupProduct<kRows, kColumns, V>& product, int i,
                                                  int j) {
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kColumns; ++c) {
        element(column, (j + c) * pitch + i + r) = product.at[r][c];
        element(column, (i + r) * pitch + j + c) = product.at[r][c];
      }
  };
  for (const int g : d.team.share(groups)) {
    const RowGroup rows = load_group(d, g);
    for (int h = 0; h <= g; ++h) {
      const RowGroup other = load_group(d, h);
      const int i = rows.place, j = other.place;
      if (rows.edges && other.edges) {
        place(GroupProduct<4, 4, V>(A, rows.first, other.first, lane), i, j);
      } else if (rows.edges) {
        place(GroupProduct<4, 1, V>(A, rows.first, other.first, lane), i, j);
      } else if (other.edges) {
        place(GroupProduct<1, 4, V>(A, rows.first, other.first, lane), i, j);
      } else {
        place(GroupProduct<1, 1, V>(A, rows.first, other.first, lane), i, j);
      }
    }
  }
  for (const int i : d.team.share(x.rows)) element(own, i) = element(column, i * pitch + i);
  for (const int p : d.team.share(packs)) {
    const V diagonal = V(1) / diagonals[p] + own[p], inverse = V(1) / diagonal;
    diagonals[p] = diagonal;
    bias[p] *= inverse;
    for (int j = 0; j < columns; ++j) column[j * packs + p] *= -inverse;
  }
  for (const int j : d.team.share(x.rows)) element(column, j * pitch + j) = T(-1);
}

// The residuals of some forces.
template <int kPacks, class V>
MANIPLE_FUNCTION void find_residuals(const Team<V>& team, const DualProblem<V> x, DualVector forces,
                                     DualVector residuals) {
  const int packs = kPacks > 0 ? kPacks : x.packs;
  const DataField<V> column = x.column, force = vector_of<kPacks>(x, forces),
                     bias = vector_of<kPacks>(x, dual_bias), residual = vector_of<kPacks>(x, residuals);
  for (const int p : team.share(packs)) {
    V even = -bias[p], odd(0);
    int j = 0;
    for (; j + 2 <= x.rows; j += 2) {
      even = multiply_add(V(column[j * packs + p]), V(element(force, j)), even);
      odd = multiply_add(V(column[(j + 1) * packs + p]), V(element(force, j + 1)), odd);
    }
    if (j < x.rows) even = multiply_add(V(column[j * packs + p]), V(element(force, j)), even);
    residual[p] = -(even + odd);
  }
}

// Begins the problem of an environment: x.lane, x.rows and x.packs are set.
template <int kPacks, class V>
MANIPLE_STAGE void begin_problem(const Model<ScalarOf<V>>& m, const Data<V>& d, const DualRows<V> rows,
                                 DualProblem<V>& x) {
  using T = ScalarOf<V>;
  const int packs = kPacks > 0 ? kPacks : x.packs;
  const DataField<V> force = vector_of<kPacks>(x, dual_force), bias = vector_of<kPacks>(x, dual_bias),
                     diagonal = vector_of<kPacks>(x, dual_diagonal);
  for (const int p : d.team.share(packs)) {
    force[p] = bias[p] = vector_of<kPacks>(x, dual_low)[p] = V(0);
    diagonal[p] = V(1);
    vector_of<kPacks>(x, dual_high)[p] = V(T(1e30));
  }
  const int groups = d.team.once([&] { return list_rows<kPacks>(m, d, rows.blocks, x); });
  build_columns<kPacks>(d, x, groups);
  // MuJoCo's warm start: no force at all where that costs less
  const DataField<V> residual = vector_of<kPacks>(x, dual_residual);
  find_residuals<kPacks>(d.team, x, dual_force, dual_residual);
  V cost(0);
  for (int p = 0; p < packs; ++p) cost += diagonal[p] * force[p] * (bias[p] + residual[p]);
  const bool none = sum_lanes(cost) > 0;
  for (const int p : d.team.share(packs)) {
    if (none) {
      force[p] = V(0);
      residual[p] = V(bias[p]);
    }
    vector_of<kPacks>(x, dual_previous)[p] = force[p];
    vector_of<kPacks>(x, dual_previous_residual)[p] = residual[p];
  }
  x.sweep = 0;
  x.momentum = x.share = 0;
  x.enough = element(rows.enough, x.lane);
}

template <int kPacks, class V>
MANIPLE_FUNCTION void store_forces(const Data<V>& d, const DualProblem<V> x) {
  for (const int i : d.team.share(x.rows)) {
    const int source = d.dual_source[x.first + i];
    const ScalarOf<V> force = element(vector_of<kPacks>(x, dual_force), i);
    if (source >= 0) {
      lane_element(d.row_force, source, x.lane) = force;
    } else {
      for (int e = 0; e < 4; ++e) lane_element(d.row_force, e - 1 - source, x.lane) = force / 4;
    }
  }
}

}  // namespace maniple
