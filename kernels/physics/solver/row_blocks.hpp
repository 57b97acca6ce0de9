// The rows of a pack as row_solver.hpp and dual_problem.hpp take them: in blocks of three, the base rows of a
// contact slot or any three single rows. Each family of single rows has a run of them. Where every lane has
// all rows of the family, they keep their order. Otherwise the run is as long as the most rows of a lane, and
// each lane lists its own, so that row k of different lanes may be different rows of the model; its dofs are
// then the union over the lanes. Here are Y, whose columns the rows are, and A = Y'Y. Every element is summed
// dof by dof, so that the zeros of rows that only other lanes have change no bit.
#pragma once

#include "kernels/model/dof_set.hpp"
#include "kernels/physics/constraint/row_families.hpp"
#include "kernels/physics/smooth/inertia.hpp"

namespace maniple {

// The blocks of a pack: first those of single rows, then one for each contact slot.
struct RowBlocks {
  int rows;    // single rows
  int single;  // blocks of them
  int count;   // blocks
  ActiveRows active;
  // of each family: the first of its single rows and their number, or the first of its blocks
  int first[RowFamilies::count], length[RowFamilies::count];
};

// Calls visit(family, row, i) for all single rows, where the row is number i of its family's.
template <class V, class Visit>
MANIPLE_FUNCTION void for_each_single_row(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                          const RowBlocks& blocks, const Visit& visit) {
  RowFamilies::for_each_in_blocks<V>(m, d, blocks.active,
                                     [&]<class Rows>(const Rows& family) MANIPLE_INLINE_LAMBDA {
                                       if constexpr (Rows::kBaseRows == 1) {
                                         constexpr int n = RowFamilies::number<Rows>;
                                         for (int i = 0; i < blocks.length[n]; ++i)
                                           visit(family, blocks.first[n] + i, i);
                                       }
                                     });
}
// Calls visit(family, block, i) for all blocks of base rows, where block holds number i of its family's.
template <class V, class Visit>
MANIPLE_FUNCTION void for_each_base_block(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                          const RowBlocks& blocks, const Visit& visit) {
  RowFamilies::for_each_in_blocks<V>(m, d, blocks.active,
                                     [&]<class Rows>(const Rows& family) MANIPLE_INLINE_LAMBDA {
                                       if constexpr (Rows::kBaseRows == 3)
                                         for (int i = 0; i < family.count(); ++i)
                                           visit(family, blocks.first[RowFamilies::number<Rows>] + i, i);
                                     });
}

// What a row of stiffness D is scaled by: in row space all rows have the stiffness 1. 0 where D is.
template <class V>
MANIPLE_FUNCTION V row_scale(const Model<ScalarOf<V>>& m, V D) {
  return m.solver == solver_pgs ? select(D > V(0), V(1), V(0)) : sqrt(D);
}

// First element of the 3x3 block (i, j) of A and of the factor, j <= i.
MANIPLE_FUNCTION int block3_address(int i, int j) {
  return 9 * (i * (i + 1) / 2 + j);
}

template <class V>
MANIPLE_FUNCTION BaseRows<V> scaled(V scale, const BaseRows<V>& x) {
  return {scale * x.n, scale * x.t, scale * x.u};
}

// Adds J' of row i of a family, times `scale`, to the column of Y of a single row.
template <class Rows, class V>
MANIPLE_FUNCTION void add_single_row(const Model<ScalarOf<V>>& m, const Data<V>& d, const Rows& family, int i,
                                     int row, V scale) {
  const int block = row / 3;
  family.for_each_column(i, [&](int dof, V value) MANIPLE_INLINE_LAMBDA {
    d.block_Y[3 * (m.nv * block + dof) + row % 3] += scale * value;
    insert_dof(d.block_set, m.ndofword * block, dof);
  });
}

// The single rows of a family. Where not every lane has all of them, writes block_number.
template <class Rows, class V>
MANIPLE_FUNCTION void place_single_rows(const Model<ScalarOf<V>>& m, const Data<V>& d, const Rows& family,
                                        int first) {
  using T = ScalarOf<V>;
  [[maybe_unused]] V count(0);  // of rows that a lane has so far
  for (int i = 0; i < family.count(); ++i) {
    const V scale = row_scale<V>(m, family.law(i).D);
    const V bias = scale * family.residual(i, d.qacc_smooth);
    const V start = scale * family.times(i, d.warm_change);
    if constexpr (Rows::kInEveryLane) {
      d.block_scale[first + i] = scale;
      d.block_bias[first + i] = bias;
      d.block_start[first + i] = start;
      add_single_row(m, d, family, i, first + i, scale);
    } else {
      const V number(static_cast<T>(family.number(i)));
      MaskOf<V> left = scale > V(0);
      for (int k = 0; any_lane(left); ++k) {
        const MaskOf<V> here = left && count == V(static_cast<T>(k));
        if (!any_lane(here)) continue;
        left = left && !here;
        const int row = first + k;
        d.block_scale[row] = select(here, scale, V(d.block_scale[row]));
        d.block_bias[row] = select(here, bias, V(d.block_bias[row]));
        d.block_start[row] = select(here, start, V(d.block_start[row]));
        d.block_number[row] = select(here, number, V(d.block_number[row]));
        add_single_row(m, d, family, i, row, select(here, scale, V(0)));
      }
      count += select(scale > V(0), V(1), V(0));
    }
  }
}

// Turns the scaled J' of a block into Y, in place: L^-T, then the roots of the inverse diagonal. The block's
// set, at `first_word`, holds the dofs that are not zero; their ancestors are added.
template <class V>
MANIPLE_FUNCTION void solve_block(const Model<ScalarOf<V>>& m, const Data<V>& d, const DataField<V> Y,
                                  const IndexField<V> set, int first_word) {
  const DataField<V> factor = d.qM_factor, root = d.inverse_root;
  const int *const parent = m.dof_parentid, *const rootadr = m.dof_Mrootadr,
                   *const descendants = m.dof_descendants, *const ancestors = m.dof_ancestors;
  const auto words = [&](int w) { return set[first_word + w]; };
  for (int w = m.ndofword - 1; w >= 0; --w) {
    for (auto left = static_cast<std::uint32_t>(words(w)); left != 0;) {
      const int bit = highest_bit(left), i = 32 * w + bit, depth = ancestors[i];
      left ^= 1u << bit;
      if (parent[i] >= 0) {
        int& word = set[first_word + parent[i] / 32];
        const auto mark = 1u << (parent[i] % 32);
        if ((static_cast<std::uint32_t>(word) & mark) == 0) {
          store_base(Y, parent[i], BaseRows<V>{V(0), V(0), V(0)});
          word |= static_cast<int>(mark);
          if (parent[i] / 32 == w) left |= mark;
        }
      }
      BaseRows<V> sum = load_base<V>(Y, i);
      for_each_dof(words, i + 1, i + 1 + descendants[i],
                   [&](int k) { add_column<3>(sum, load_base<V>(Y, k), -V(factor[rootadr[k] - depth])); });
      store_base(Y, i, sum);
    }
  }
  for_each_dof(words, 0, m.nv, [&](int k) { store_base(Y, k, scaled(V(root[k]), load_base<V>(Y, k))); });
}

// The base rows of contact i of a family: J' (where Y will be), bias and start.
template <class Rows, class V>
MANIPLE_FUNCTION void place_base_rows(const Model<ScalarOf<V>>& m, const Data<V>& d, const Rows& family,
                                      int block, int i) {
  const V scale = row_scale<V>(m, family.law(i).D);
  const DataField<V> qacc_smooth = d.qacc_smooth, change = d.warm_change,
                     column = d.block_Y.from(3 * m.nv * block);
  const IndexField<V> set = d.block_set;
  const int word = m.ndofword * block;
  const BaseRows<V> zero{V(0), V(0), V(0)}, aref = family.aref(i);
  BaseRows<V> bias{-aref.n, -aref.t, -aref.u}, start = zero;
  family.for_each_column(
      i, [&]<int kTangents>(Tangents<kTangents>, int dof, const BaseRows<V>& row) MANIPLE_INLINE_LAMBDA {
        insert_dof(set, word, dof);
        add_column<kTangents>(bias, row, V(qacc_smooth[dof]));
        add_column<kTangents>(start, row, V(change[dof]));
        store_base(column, dof, scaled(scale, row));
      });
  d.block_scale[3 * block] = scale;
  store_base(d.block_bias, block, scaled(scale, bias));
  store_base(d.block_start, block, scaled(scale, start));
}

// Which rows and blocks the families have.
template <class V>
MANIPLE_FUNCTION RowBlocks count_blocks(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows active) {
  RowBlocks blocks;
  blocks.active = active;
  blocks.rows = 0;
  RowFamilies::for_each_in_blocks<V>(m, d, active, [&]<class Rows>(const Rows& family) MANIPLE_INLINE_LAMBDA {
    constexpr int n = RowFamilies::number<Rows>;
    if constexpr (Rows::kBaseRows == 1) {
      int length = family.count();
      if constexpr (!Rows::kInEveryLane) {
        V acting(0);  // rows of each lane
        for (int i = 0; i < length; ++i) acting += select(family.law(i).D > V(0), V(1), V(0));
        length = static_cast<int>(max_lane(acting));
      }
      blocks.first[n] = blocks.rows;
      blocks.length[n] = length;
      blocks.rows += length;
    }
  });
  blocks.count = blocks.single = (blocks.rows + 2) / 3;
  RowFamilies::for_each_in_blocks<V>(m, d, active, [&]<class Rows>(const Rows& family) MANIPLE_INLINE_LAMBDA {
    constexpr int n = RowFamilies::number<Rows>;
    if constexpr (Rows::kBaseRows == 3) {
      blocks.first[n] = blocks.count;
      blocks.length[n] = family.count();
      blocks.count += family.count();
    }
  });
  return blocks;
}

// Y, the bias and the start of the rows that act, and their scales (block_scale). Writes inverse_root, and
// the difference of the warm start to qacc_smooth: warm_change.
template <class V>
MANIPLE_FUNCTION RowBlocks build_blocks(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                        ActiveRows active) {
  const RowBlocks blocks = count_blocks(m, d, active);
  for (const int k : d.team.share(m.nv)) {
    // rounding can leave an inertia that is not positive
    d.inverse_root[k] = sqrt(max(V(d.qLDiagInv[k]), V(0)));
    d.warm_change[k] = s.qacc_warmstart[k] - d.qacc_smooth[k];
  }
  const int nv = m.nv, words = m.ndofword;
  const DataField<V> bias = d.block_bias, start = d.block_start;
  for (const int i : d.team.share(3 * nv * blocks.single)) d.block_Y[i] = V(0);
  for (const int i : d.team.share(words * blocks.count)) d.block_set[i] = 0;
  for (const int k : d.team.share(3 * blocks.single)) {
    bias[k] = start[k] = d.block_scale[k] = V(0);
    d.block_number[k] = V(-1);
  }
  RowFamilies::for_each_in_blocks<V>(m, d, active, [&]<class Rows>(const Rows& family) MANIPLE_INLINE_LAMBDA {
    const int first = blocks.first[RowFamilies::number<Rows>];
    if constexpr (Rows::kBaseRows == 1)
      d.team.once([&] { place_single_rows(m, d, family, first); });
    else
      for (const int i : d.team.share(family.count())) place_base_rows(m, d, family, first + i, i);
  });
  for (const int block : d.team.share(blocks.count))
    solve_block(m, d, d.block_Y.from(3 * nv * block), d.block_set, words * block);
  return blocks;
}

// A 3x3 block of such a matrix in registers.
template <class V>
struct Block3 {
  V at[3][3];
};
template <class V>
MANIPLE_FUNCTION Block3<V> load_block3(const DataField<V> field, int address) {
  Block3<V> block3;
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c) block3.at[r][c] = field[address + 3 * r + c];
  return block3;
}
template <class V>
MANIPLE_FUNCTION void store_block3(const DataField<V> field, int address, const Block3<V>& block3) {
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c) field[address + 3 * r + c] = block3.at[r][c];
}

// A = Y'Y, block by block, from the dofs that two blocks of rows share.
template <class V>
MANIPLE_FUNCTION void build_A(const Model<ScalarOf<V>>& m, const Data<V>& d, int count) {
  const int nv = m.nv, words = m.ndofword;
  const DataField<V> A = d.block_A;
  for (const int i : d.team.share(count))
    for (int j = 0; j <= i; ++j) {
      const DataField<V> Yi = d.block_Y.from(3 * nv * i), Yj = d.block_Y.from(3 * nv * j);
      Block3<V> sum;
      for (auto& row : sum.at)
        for (V& element : row) element = V(0);
      const auto shared = [&](int w) { return d.block_set[words * i + w] & d.block_set[words * j + w]; };
      for_each_dof(shared, 0, nv, [&](int dof) {
        const int k = 3 * dof;
        const V a[3] = {Yi[k], Yi[k + 1], Yi[k + 2]}, b[3] = {Yj[k], Yj[k + 1], Yj[k + 2]};
        for (int r = 0; r < 3; ++r)
          for (int c = 0; c < 3; ++c) sum.at[r][c] = multiply_add(a[r], b[c], sum.at[r][c]);
      });
      store_block3(A, block3_address(i, j), sum);
    }
}

}  // namespace maniple
