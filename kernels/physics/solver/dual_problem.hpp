// The dual problems of one environment (dual_solver.hpp), one for each of its islands, with its rows over the
// lanes: where the forces start, how rows are listed, the matrix is built and the forces are written back.
#pragma once

#include "kernels/model/sweep_order.hpp"
#include "kernels/physics/solver/islands.hpp"
#include "kernels/physics/solver/primal_solver.hpp"
#include "kernels/physics/solver/row_blocks.hpp"

namespace maniple {

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

// The dual problem of one island of an environment, rows over lanes; functions take it by value, as they take
// fields. A row is solved when its force falls by its residual; when force j falls by x, the residuals change
// by column j times x.
template <class V>
struct DualProblem {
  DataField<V> vectors, column;
  int first;        // address in dual_source and dual_order
  int lane;         // the environment
  int island;       // of its islands
  int rows, packs;  // rows, and lane values that hold them
  int sweep;        // sweeps so far
  // sweeps since momentum has begun again, and see momentum_fraction
  ScalarOf<V> momentum, fraction;
  ScalarOf<V> enough;          // improvement of a sweep below which it is the last
  ShuffleGenerator generator;  // advances in a team's leader alone
};
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
  x.first = slot * m.ndualrow;
  x.lane = x.island = x.rows = x.packs = x.sweep = 0;
  x.momentum = x.fraction = x.enough = 0;
  return x;
}

// Rows of an island that are taken together: a single row, or the four edges of a contact whose first base
// row is `first`. In dual_group a group is two numbers.
struct RowGroup {
  int first;  // base row
  bool edges;
  int row;  // its first in the problem
};
template <class V>
MANIPLE_FUNCTION RowGroup load_group(const Data<V>& d, int g) {
  const int number = d.dual_group[2 * g];
  return {number / 2, number % 2 != 0, d.dual_group[2 * g + 1]};
}
template <class V>
MANIPLE_FUNCTION void store_group(const Data<V>& d, int g, const RowGroup& group) {
  d.dual_group[2 * g] = 2 * group.first + static_cast<int>(group.edges);
  d.dual_group[2 * g + 1] = group.row;
}

// What the problems of a pack have in common.
template <class V>
struct DualRows {
  RowBlocks blocks;
  DataField<V> inertia;  // of the dofs of each island, summed
};

// ---- a pack: where the forces start ----

// Values of the rows of the dual solver that row i of a family makes: one, or its edges.
template <class V>
struct RowValue {
  V value[1];
};
// Their residuals at qacc_smooth, and at the warm start.
template <class Rows, class V>
MANIPLE_FUNCTION auto smooth_residuals(const Data<V>& d, const RowBlocks& blocks, const Rows& family, int i) {
  if constexpr (Rows::kBaseRows == 1)
    return RowValue<V>{{family.residual(i, d.qacc_smooth)}};
  else
    return edges_of(load_base<V>(d.block_bias, blocks.first[RowFamilies::number<Rows>] + i));
}
template <class Rows, class V>
MANIPLE_FUNCTION auto warm_residuals(const Data<V>& d, const RowBlocks& blocks, const Rows& family, int i) {
  if constexpr (Rows::kBaseRows == 1) {
    return RowValue<V>{{family.residual(i, d.qacc_smooth) + family.times(i, d.warm_change)}};
  } else {
    const int block = blocks.first[RowFamilies::number<Rows>] + i;
    const BaseRows<V> bias = load_base<V>(d.block_bias, block), change = load_base<V>(d.block_start, block);
    return edges_of(BaseRows<V>{bias.n + change.n, bias.t + change.t, bias.u + change.u});
  }
}

// The address in row_force of the row, or the first edge, that is number r of its family's in the model.
template <class Rows, class T>
MANIPLE_FUNCTION int force_address(const Model<T>& m, int r) {
  return first_row<Rows>(m) + Rows::kRows * r;
}

// row_force at qacc_warmstart, or none at all where that costs less, over all islands: MuJoCo's start. Zero
// in the lanes that do not have a row. Overwrites qfrc_constraint and search.
template <class V>
MANIPLE_STAGE void start_forces(const Model<ScalarOf<V>>& m, const Data<V>& d, const RowBlocks& blocks) {
  const DataField<V> force = d.row_force;
  // calls visit(family, i, address) for all rows and contacts that act, dealt out to the team; their forces
  // begin at the address
  const auto for_shared_rows = [&](const auto& visit) {
    RowFamilies::for_each_in_blocks<V>(m, d, blocks.active,
                                       [&]<class Rows>(const Rows& family) MANIPLE_INLINE_LAMBDA {
                                         for (const int i : d.team.share(family.count()))
                                           visit(family, i, force_address<Rows>(m, family.number(i)));
                                       });
  };
  if (m.disableflags & disable_warmstart) {
    for_shared_rows([&]<class Rows>(const Rows&, int, int first) {
      for (int e = 0; e < Rows::kRows; ++e) force[first + e] = V(0);
    });
    return;
  }
  for_shared_rows([&]<class Rows>(const Rows& family, int i, int first) {
    const auto law = family.law(i);
    const Bounds<V> bounds = law.force_bounds();
    const auto residual = warm_residuals(d, blocks, family, i);
    for (int e = 0; e < Rows::kRows; ++e)
      force[first + e] =
          select(law.D > V(0), clamp(-law.D * residual.value[e], bounds.low, bounds.high), V(0));
  });
  // of a single island begin_problem compares the costs, unless there is no sweep to begin
  if (m.ndualtree == 1 && m.iterations > 0) return;
  // twice the cost: f' A f + 2 f' b = q' M^-1 q + f' (2 b + f / D) with q = J' f
  constraint_forces(m, d, TreeDofs<V>(m, d), blocks.active);
  for (const int i : d.team.share(m.nv)) d.search[i] = d.qfrc_constraint[i];
  solve_inertia(m, d, d.qM_factor, d.qLDiagInv, d.search);
  V cost(0);
  for (int i = 0; i < m.nv; ++i) cost += d.qfrc_constraint[i] * d.search[i];
  RowFamilies::for_each_in_blocks<V>(
      m, d, blocks.active, [&]<class Rows>(const Rows& family) MANIPLE_INLINE_LAMBDA {
        for (int i = 0; i < family.count(); ++i) {
          const V D = family.law(i).D;
          const auto bias = smooth_residuals(d, blocks, family, i);
          for (int e = 0; e < Rows::kRows; ++e) {
            const V f = force[force_address<Rows>(m, family.number(i)) + e];
            cost += select(D > V(0), f * (V(2) * bias.value[e] + f / select(D > V(0), D, V(1))), V(0));
          }
        }
      });
  const MaskOf<V> none = cost > V(0);
  if (!any_lane(none)) return;
  for_shared_rows([&]<class Rows>(const Rows&, int, int first) {
    for (int e = 0; e < Rows::kRows; ++e) force[first + e] = select(none, V(0), V(force[first + e]));
  });
}

// ---- one environment: its islands ----

// Rows of an environment that are taken together: row or contact `number` of a family of the model.
template <class Rows, int kCount>
struct RowSource {
  using Family = Rows;
  static constexpr int rows = kCount;
  const Rows& family;
  int number;
  int first;  // base row
};

// Calls visit(source) for the groups of rows of an environment, in MuJoCo's order.
template <class V, class Visit>
MANIPLE_FUNCTION void for_each_source(const Model<ScalarOf<V>>& m, const Data<V>& d, const RowBlocks& blocks,
                                      int lane, const Visit& visit) {
  RowFamilies::for_each_in_blocks<V>(
      m, d, blocks.active, [&]<class Rows>(const Rows& family) MANIPLE_INLINE_LAMBDA {
        constexpr int n = RowFamilies::number<Rows>;
        for (int i = 0; i < blocks.length[n]; ++i) {
          const int at = blocks.first[n] + i;  // row or block
          if constexpr (Rows::kBaseRows == 3) {
            if (!family.acts_in(i, lane)) continue;
            if (family.is_single_row(i, lane))
              visit(RowSource<Rows, 1>{family, i, 3 * at});
            else
              visit(RowSource<Rows, Rows::kRows>{family, i, 3 * at});
          } else if constexpr (Rows::kInEveryLane) {
            if (get_lane(family.counts(i), lane)) visit(RowSource<Rows, 1>{family, i, at});
          } else {
            const int r = static_cast<int>(lane_element(d.block_number, at, lane));
            if (r < 0) break;
            visit(RowSource<Rows, 1>{family, r, at});
          }
        }
      });
}

// Joins the trees that rows of an environment are about to islands, which MuJoCo solves one by one
// (mj_island), and numbers these by their first trees: tree_island, island_nefc, and the inertia of the
// island's dofs in `inertia`.
template <class V>
MANIPLE_STAGE void find_islands(const Model<ScalarOf<V>>& m, const Data<V>& d, const RowBlocks& blocks,
                                const DataField<V> inertia, int lane) {
  using T = ScalarOf<V>;
  const int trees = m.ndualtree, first = lane * trees;
  const IndexField<V> island = d.tree_island, rows = d.island_nefc;
  for (int t = 0; t < trees; ++t) {
    island[first + t] = -1;
    rows[first + t] = 0;
  }
  // until all are known, an island has the number of its first tree
  for_each_source(m, d, blocks, lane, [&](const auto source) {
    int left = source.rows;  // to be counted with the first tree
    join_islands(
        trees, [&](int t) -> int& { return island[first + t]; },
        [&](const auto& visit) {
          source.family.for_each_tree(source.number, lane, [&](int tree) {
            if (island[first + tree] < 0) island[first + tree] = tree;
            rows[first + tree] += left;
            left = 0;
            visit(tree);
          });
        });
  });
  int count = 0;
  for (int t = 0; t < trees; ++t) {
    int& own = island[first + t];
    if (own < 0) continue;
    // the islands of the trees before are numbered
    own = own == t ? count++ : int(island[first + own]);
    const int of_tree = rows[first + t];
    rows[first + t] = 0;
    rows[first + own] += of_tree;
  }
  for (int t = 0; t < trees; ++t) lane_element(inertia, t, lane) = T(0);
  for (int k = 0; k < m.nv; ++k) {
    const int own = island[first + m.dof_treeid[k]];
    if (own >= 0) lane_element(inertia, own, lane) += lane_element(d.qM, m.dof_Madr[k], lane);
  }
}

// The same for all environments of a pack.
template <class V>
MANIPLE_FUNCTION void find_islands(const Model<ScalarOf<V>>& m, const Data<V>& d, const RowBlocks& blocks,
                                   const DataField<V> inertia) {
  if (m.ndualtree > 1) {
    for (int lane = 0; lane < lane_width<V>; ++lane) find_islands(m, d, blocks, inertia, lane);
    return;
  }
  V sum(0);
  for (int k = 0; k < m.nv; ++k) sum += d.qM[m.dof_Madr[k]];
  inertia[0] = sum;
  for (int lane = 0; lane < lane_width<V>; ++lane)
    d.island_nefc[lane] = static_cast<int>(lane_element(d.nefc, 0, lane));
}

// ---- one island: its matrix ----

// Lists the island's rows in MuJoCo's order: D in place of the diagonal, bias, force and bounds. Returns
// the number of groups of rows, which go to dual_group: a group is a single row or the edges of a contact. A
// frictionless contact is a single row, of the sum of its four edges.
template <int kPacks, class V>
MANIPLE_FUNCTION int list_rows(const Model<ScalarOf<V>>& m, const Data<V>& d, const RowBlocks& blocks,
                               const DualProblem<V> x) {
  using T = ScalarOf<V>;
  const int lane = x.lane;
  const DataField<V> force = vector_of<kPacks>(x, dual_force), bias = vector_of<kPacks>(x, dual_bias),
                     diagonal = vector_of<kPacks>(x, dual_diagonal), low = vector_of<kPacks>(x, dual_low),
                     high = vector_of<kPacks>(x, dual_high);
  int count = 0, groups = 0;
  const auto is_here = [&](const auto source) {
    bool here = false;
    source.family.for_each_tree(
        source.number, lane, [&](int tree) { here = d.tree_island[lane * m.ndualtree + tree] == x.island; });
    return here;
  };
  const auto add = [&](int source, T D, T residual, T start, T least, T most) {
    d.dual_source[x.first + count] = source;
    element(diagonal, count) = D;
    element(bias, count) = residual;
    element(low, count) = least;
    element(high, count) = most;
    element(force, count) = start;
    ++count;
  };
  for_each_source(m, d, blocks, lane, [&](const auto source) {
    if (m.ndualtree > 1 && !is_here(source)) return;
    using Rows = typename std::remove_cvref_t<decltype(source)>::Family;
    store_group(d, groups++, RowGroup{source.first, source.rows > 1, count});
    const auto law = source.family.law_of_lane(source.number, lane);
    const int row = force_address<Rows>(m, source.number);
    const T residual = lane_element(d.block_bias, source.first, lane);
    const auto start = [&](int r) { return lane_element(d.row_force, r, lane); };
    const Bounds<T> bounds = law.force_bounds();
    if constexpr (Rows::kRows == 1) {
      add(row, law.D, residual, start(row), bounds.low, bounds.high);
    } else if constexpr (source.rows == 1) {
      add(-1 - row, 4 * law.D, residual, 4 * start(row), bounds.low, bounds.high);
    } else {
      const BaseRows<T> base{residual, lane_element(d.block_bias, source.first + 1, lane),
                             lane_element(d.block_bias, source.first + 2, lane)};
      const Edges<T> residuals = edges_of(base);
      for (int e = 0; e < 4; ++e)
        add(row + e, law.D, residuals.value[e], start(row + e), bounds.low, bounds.high);
    }
  });
  return groups;
}

// A between two groups of rows, from the base rows of the blocks: element (r, c) of kRows by kColumns.
template <int kRows, int kColumns, class V>
struct GroupProduct {
  ScalarOf<V> at[kRows][kColumns];

  MANIPLE_FUNCTION GroupProduct(const DataField<V> A, int row, int column, int lane) {
    using T = ScalarOf<V>;
    const int first = block3_address(row / 3, column / 3) + 3 * (row % 3) + column % 3;
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

// The diagonal and the columns of A, and the vectors that are divided by the diagonal.
template <int kPacks, class V>
MANIPLE_FUNCTION void build_columns(const Data<V>& d, const DualProblem<V> x, int groups) {
  using T = ScalarOf<V>;
  const int packs = kPacks > 0 ? kPacks : x.packs, pitch = packs * lane_width<V>, lane = x.lane;
  const DataField<V> A = d.block_A, column = x.column, bias = vector_of<kPacks>(x, dual_bias),
                     diagonals = vector_of<kPacks>(x, dual_diagonal),
                     own = vector_of<kPacks>(x, dual_residual);
  // a column of zeros follows those of the rows, unless the packs are full
  const int columns = x.rows < pitch ? x.rows + 1 : pitch;
  for (const int i : d.team.share(columns * packs)) column[i] = V(0);
  for (const int p : d.team.share(packs)) own[p] = V(0);
  const auto write = [&]<int kRows, int kColumns>(const GroupProduct<kRows, kColumns, V>& product, int i,
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
      const int i = rows.row, j = other.row;
      if (rows.edges && other.edges) {
        write(GroupProduct<4, 4, V>(A, rows.first, other.first, lane), i, j);
      } else if (rows.edges) {
        write(GroupProduct<4, 1, V>(A, rows.first, other.first, lane), i, j);
      } else if (other.edges) {
        write(GroupProduct<1, 4, V>(A, rows.first, other.first, lane), i, j);
      } else {
        write(GroupProduct<1, 1, V>(A, rows.first, other.first, lane), i, j);
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

// Begins the problem of an island: x.lane, x.island, x.rows and x.packs are set.
template <int kPacks, class V>
MANIPLE_STAGE void begin_problem(const Model<ScalarOf<V>>& m, const Data<V>& d, const DualRows<V>& rows,
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
  const DataField<V> residual = vector_of<kPacks>(x, dual_residual);
  find_residuals<kPacks>(d.team, x, dual_force, dual_residual);
  bool none = false;  // no force at all costs less
  if (m.ndualtree == 1) {
    V cost(0);
    for (int p = 0; p < packs; ++p) cost += diagonal[p] * force[p] * (bias[p] + residual[p]);
    none = sum_lanes(cost) > 0;
  }
  for (const int p : d.team.share(packs)) {
    if (none) {
      force[p] = V(0);
      residual[p] = V(bias[p]);
    }
    vector_of<kPacks>(x, dual_previous)[p] = force[p];
    vector_of<kPacks>(x, dual_previous_residual)[p] = residual[p];
  }
  x.sweep = 0;
  x.momentum = x.fraction = 0;
  x.enough = m.tolerance * lane_element(rows.inertia, x.island, x.lane);
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
