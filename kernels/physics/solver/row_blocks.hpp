// The rows of a pack as row_solver.hpp and dual_problem.hpp take them: in blocks of three, the base rows of a
// contact slot or any three rows of friction and limits. Limit number k of a lane is in row k after those of
// friction, whichever limit it is; its dofs come together with those of the other lanes. Here are Y, whose
// columns the rows are, and A = Y'Y. Every element is summed dof by dof, so that the zeros of rows that only
// other lanes have change no bit.
#pragma once

#include "kernels/model/dof_set.hpp"
#include "kernels/physics/constraint/contact.hpp"
#include "kernels/physics/smooth/inertia.hpp"

namespace maniple {

// The blocks of a pack: first those of single rows, then one for each contact slot.
struct RowBlocks {
  int rows;    // single rows
  int single;  // blocks of them
  int count;   // blocks
};

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

// Adds J' of a row on a dof, a tendon or a ball joint, times `scale`, to its column of Y.
template <class V>
MANIPLE_FUNCTION void add_single_row(const Model<ScalarOf<V>>& m, const Data<V>& d, int row, int dof,
                                     int tendon, int ball, V scale) {
  const int block = row / 3;
  const auto add = [&](int k, V value) {
    d.block_Y[3 * (m.nv * block + k) + row % 3] += value;
    insert_dof(d.block_set, m.ndofword * block, k);
  };
  if (tendon >= 0) {
    for (int k = m.ten_J_rowadr[tendon], end = k + m.ten_J_rownnz[tendon]; k < end; ++k)
      add(m.ten_J_colind[k], scale * V(m.ten_rowJ[k]));
  } else if (ball >= 0) {
    for (int k = 0; k < 3; ++k) add(dof + k, -(scale * d.limit_axis[3 * ball + k]));
  } else {
    add(dof, scale);
  }
}

// The rows of the limits that act. Writes block_limit, the limit of each lane in each of them.
template <class V>
MANIPLE_FUNCTION void place_limits(const Model<ScalarOf<V>>& m, const Data<V>& d, int limits) {
  using T = ScalarOf<V>;
  V count(0);
  for (int a = 0; a < limits; ++a) {
    const int r = d.limit_active[a], ball = m.limit_ballid[r];
    const V scale = row_scale<V>(m, d.limit_D[r]);
    const V bias = scale * (limit_jacobian_times(m, d, r, d.qacc_smooth) - d.limit_aref[r]);
    const V start = scale * limit_jacobian_times(m, d, r, d.warm_change);
    const V side(static_cast<T>(ball < 0 ? m.limit_side[r] : 1));
    MaskOf<V> left = scale > V(0);
    for (int k = 0; any_lane(left); ++k) {
      const MaskOf<V> here = left && count == V(static_cast<T>(k));
      if (!any_lane(here)) continue;
      left = left && !here;
      const int row = m.nfriction + k;
      d.block_scale[row] = select(here, scale, V(d.block_scale[row]));
      d.block_bias[row] = select(here, bias, V(d.block_bias[row]));
      d.block_start[row] = select(here, start, V(d.block_start[row]));
      d.block_limit[k] = select(here, V(static_cast<T>(r)), V(d.block_limit[k]));
      add_single_row(m, d, row, m.limit_dofid[r], m.limit_tendonid[r], ball,
                     select(here, side * scale, V(0)));
    }
    count += select(scale > V(0), V(1), V(0));
  }
}

// Y of a block from the scaled J' in its place: L^-T, then the roots of the inverse diagonal. The set of the
// block at `first_word` has the dofs that are not zero; their ancestors come to it.
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

// The rows of a contact slot: J' in place of Y, bias and start.
template <class V>
MANIPLE_FUNCTION void place_contacts(const Model<ScalarOf<V>>& m, const Data<V>& d, int block, int slot) {
  const V scale = row_scale<V>(m, d.contact_D[slot]);
  const DataField<V> J = d.contact_J, qacc_smooth = d.qacc_smooth, change = d.warm_change,
                     column = d.block_Y.from(3 * m.nv * block);
  const IndexField<V> dofs = d.slot_dof, set = d.block_set;
  const int first = slot * m.nv, last = first + d.slot_dofnum[slot], word = m.ndofword * block;
  const BaseRows<V> zero{V(0), V(0), V(0)}, aref = load_base<V>(d.contact_aref, slot);
  BaseRows<V> bias{-aref.n, -aref.t, -aref.u}, start = zero;
  with_tangents(d.slot_tangents[slot], [&]<int kTangents>(Tangents<kTangents>) {
    for (int k = first; k < last; ++k) {
      const int dof = dofs[k];
      insert_dof(set, word, dof);
      const BaseRows<V> row = load_column<kTangents>(J, k);
      add_column<kTangents>(bias, row, V(qacc_smooth[dof]));
      add_column<kTangents>(start, row, V(change[dof]));
      store_base(column, dof, scaled(scale, row));
    }
  });
  d.block_scale[3 * block] = scale;
  store_base(d.block_bias, block, scaled(scale, bias));
  store_base(d.block_start, block, scaled(scale, start));
}

// Y, the bias and the start of the rows that act, and their scales (block_scale). Writes inverse_root, and
// the difference of the warm start to qacc_smooth: warm_change.
template <class V>
MANIPLE_FUNCTION RowBlocks build_blocks(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                        ActiveRows active) {
  V acting(0);  // limits of each lane
  for (int a = 0; a < active.limits; ++a) acting += select(d.limit_D[d.limit_active[a]] > V(0), V(1), V(0));
  RowBlocks blocks;
  blocks.rows = m.nfriction + static_cast<int>(max_lane(acting));
  blocks.single = (blocks.rows + 2) / 3;
  blocks.count = blocks.single + active.slots;
  for (const int k : d.team.share(m.nv)) {
    // rounding can leave an inertia that is not positive
    d.inverse_root[k] = sqrt(max(V(d.qLDiagInv[k]), V(0)));
    d.warm_change[k] = s.qacc_warmstart[k] - d.qacc_smooth[k];
  }
  const int nv = m.nv, words = m.ndofword;
  const DataField<V> bias = d.block_bias, start = d.block_start;
  for (const int i : d.team.share(3 * nv * blocks.single)) d.block_Y[i] = V(0);
  for (const int i : d.team.share(words * blocks.count)) d.block_set[i] = 0;
  for (const int k : d.team.share(3 * blocks.single)) bias[k] = start[k] = d.block_scale[k] = V(0);
  d.team.once([&] {
    for (int k = 0; k < m.nfriction; ++k) {
      const V scale = row_scale(m, V(m.friction_D[k]));
      bias[k] = scale * friction_jar(m, d, k, d.qacc_smooth);
      start[k] = scale * friction_jacobian_times<V>(m, k, d.warm_change);
      add_single_row(m, d, k, m.friction_dofid[k], m.friction_tendonid[k], -1, scale);
    }
    for (int k = m.nfriction; k < blocks.rows; ++k) d.block_limit[k - m.nfriction] = V(-1);
    place_limits(m, d, active.limits);
  });
  for (const int slot : d.team.share(active.slots)) place_contacts(m, d, blocks.single + slot, slot);
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
