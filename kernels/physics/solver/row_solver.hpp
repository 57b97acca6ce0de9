// Newton's method for the constrained acceleration in the space of the rows: the iterates of
// primal_solver.hpp at a fraction of their cost while an environment has few contacts. With
//   Y = D^-1/2 L^-T J' R^-1/2   from M = L' D L and the rows' regularization R = 1/efc_D,
// the rows' residuals (jar, here divided by sqrt(R)) at the acceleration qacc_smooth + M^-1 J' R^-1/2 f are
// b + A f with A = Y'Y, of the size of the rows and not of the dofs. Newton's step for the rows in their
// quadratic state, whose curvature is C C', needs the factor of 1 + C' A C alone. The rows of a pack and the
// order of its sums are those of row_blocks.hpp. Not for teams of threads.
#pragma once

#include "kernels/physics/solver/line_search.hpp"
#include "kernels/physics/solver/row_blocks.hpp"

namespace maniple {

// result += A x, row by row in ascending order of the columns.
template <class V>
MANIPLE_FUNCTION void add_A_times(const DataField<V> A, int count, const DataField<V> x,
                                  const DataField<V> result) {
  for (int i = 0; i < count; ++i) {
    V sum[3] = {result[3 * i], result[3 * i + 1], result[3 * i + 2]};
    const V own[3] = {x[3 * i], x[3 * i + 1], x[3 * i + 2]};
    for (int j = 0; j <= i; ++j) {
      const Block3<V> block3 = load_block3(A, block3_address(i, j));
      for (int c = 0; c < 3; ++c) {
        const V value = x[3 * j + c];
        for (int r = 0; r < 3; ++r) sum[r] = multiply_add(block3.at[r][c], value, sum[r]);
      }
      if (j == i) break;
      for (int c = 0; c < 3; ++c) {
        V other = result[3 * j + c];
        for (int r = 0; r < 3; ++r) other = multiply_add(block3.at[r][c], own[r], other);
        result[3 * j + c] = other;
      }
    }
    for (int r = 0; r < 3; ++r) result[3 * i + r] = sum[r];
  }
}

// C of a contact's block: rows n, t, u of an upper triangle, [nn nt nu; tt; uu]. C C' is the curvature of the
// edges that push: each is 0, 1, sqrt(2) or 2, because a pair of edges that push both is a square.
template <class V>
struct StateFactor {
  V nn, nt, nu, tt, uu;
};
template <class V>
MANIPLE_FUNCTION StateFactor<V> state_factor(const BaseRows<V>& jar) {
  using T = ScalarOf<V>;
  const V root2(T(1.41421356237309504880));
  const Edges<V> edges = edges_of(jar);
  MaskOf<V> push[4];
  for (int e = 0; e < 4; ++e) push[e] = edges.value[e] < V(0);
  const MaskOf<V> both_t = push[0] && push[1], both_u = push[2] && push[3];
  const auto across = [&](MaskOf<V> plus, MaskOf<V> minus, MaskOf<V> both) {
    return select(both, root2, select(plus || minus, V(1), V(0)));
  };
  const auto along = [&](MaskOf<V> plus, MaskOf<V> minus, MaskOf<V> both) {
    return select(both, V(0), select(plus, V(1), select(minus, V(-1), V(0))));
  };
  return {select(both_t && both_u, V(2), select(both_t || both_u, root2, V(0))),
          along(push[0], push[1], both_t), along(push[2], push[3], both_u), across(push[0], push[1], both_t),
          across(push[2], push[3], both_u)};
}
// C' x.
template <class V>
MANIPLE_FUNCTION BaseRows<V> transposed_times(const StateFactor<V>& C, const BaseRows<V>& x) {
  return {C.nn * x.n, multiply_add(C.nt, x.n, C.tt * x.t), multiply_add(C.nu, x.n, C.uu * x.u)};
}
// C x.
template <class V>
MANIPLE_FUNCTION BaseRows<V> times(const StateFactor<V>& C, const BaseRows<V>& x) {
  return {multiply_add(C.nn, x.n, multiply_add(C.nt, x.t, C.nu * x.u)), C.tt * x.t, C.uu * x.u};
}

// A block of C, of either kind. That of single rows is diagonal: 1 within the bounds, else 0.
template <class V>
MANIPLE_FUNCTION StateFactor<V> load_state(const DataField<V> state, int block) {
  const int k = 5 * block;
  return {state[k], state[k + 1], state[k + 2], state[k + 3], state[k + 4]};
}
template <class V>
MANIPLE_FUNCTION BaseRows<V> times(const BaseRows<V>& diagonal, const BaseRows<V>& x) {
  return {diagonal.n * x.n, diagonal.t * x.t, diagonal.u * x.u};
}
// C' x and C x of a block.
template <class V>
MANIPLE_FUNCTION BaseRows<V> state_transposed_times(const DataField<V> state, const RowBlocks& blocks,
                                                    int block, const BaseRows<V>& x) {
  if (block < blocks.single) return times(load_base<V>(state.from(5 * block), 0), x);
  return transposed_times(load_state(state, block), x);
}
template <class V>
MANIPLE_FUNCTION BaseRows<V> state_times(const DataField<V> state, const RowBlocks& blocks, int block,
                                         const BaseRows<V>& x) {
  if (block < blocks.single) return times(load_base<V>(state.from(5 * block), 0), x);
  return times(load_state(state, block), x);
}

// The constraint states of the residuals in block_jar, and in block_df the forces of the single rows beyond
// their bounds. Returns the first block whose state has changed in some lane from what block_state held.
template <class V>
MANIPLE_FUNCTION int find_states(const Model<ScalarOf<V>>& m, const Data<V>& d, const RowBlocks& blocks) {
  const DataField<V> jar = d.block_jar, state = d.block_state, f = d.block_df;
  int first = blocks.count;
  const auto store = [&](int block, int k, V value) {
    V& held = state[5 * block + k];
    if (block < first && any_lane(held != value)) first = block;
    held = value;
  };
  for_each_single_row(m, d, blocks, [&](const auto& family, int k, int i) MANIPLE_INLINE_LAMBDA {
    const Bounds<V> bounds = family.scaled_law(i).residual_bounds();
    const V x = jar[k];
    const MaskOf<V> inside = x > bounds.low && x < bounds.high;
    store(k / 3, k % 3, select(inside, V(1), V(0)));
    f[k] = select(inside, V(0), -clamp(x, bounds.low, bounds.high));
  });
  for (int k = blocks.rows; k < 3 * blocks.single; ++k) {
    f[k] = V(0);
    store(k / 3, k % 3, V(0));
  }
  for (int block = blocks.single; block < blocks.count; ++block) {
    const StateFactor<V> C = state_factor(load_base<V>(jar, block));
    const V values[5] = {C.nn, C.nt, C.nu, C.tt, C.uu};
    for (int k = 0; k < 5; ++k) store(block, k, values[k]);
    store_base(f, block, BaseRows<V>{V(0), V(0), V(0)});
  }
  return first;
}

// C_i' A_ij C_j in place.
template <class V>
MANIPLE_FUNCTION void apply_states(const Data<V>& d, const RowBlocks& blocks, int i, int j,
                                   Block3<V>& block3) {
  const DataField<V> state = d.block_state;
  const auto apply = [&](int block, V(&x)[3]) {
    const BaseRows<V> y = state_transposed_times(state, blocks, block, BaseRows<V>{x[0], x[1], x[2]});
    x[0] = y.n;
    x[1] = y.t;
    x[2] = y.u;
  };
  V column[3][3];
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c) column[c][r] = block3.at[r][c];
  for (auto& x : column) apply(i, x);
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c) block3.at[r][c] = column[c][r];
  for (auto& x : block3.at) apply(j, x);
}

// The lower factor R of 1 + C' A C = R R', 3x3 block by block, with 1 over its diagonal in block_inverse.
// Rows before block `first` are there already.
template <class V>
MANIPLE_FUNCTION void factor_blocks(const Data<V>& d, const RowBlocks& blocks, int first) {
  const DataField<V> A = d.block_A, R = d.block_factor, inverse = d.block_inverse;
  // block (i, j) less what the columns of the blocks before it take
  const auto reduced_block = [&](int i, int j) {
    Block3<V> block3 = load_block3(A, block3_address(i, j));
    apply_states(d, blocks, i, j, block3);
    if (i == j)
      for (int r = 0; r < 3; ++r) block3.at[r][r] += V(1);
    const int left = block3_address(i, 0), right = block3_address(j, 0);
    for (int k = 0; k < 9 * j; k += 9)
      for (int c = 0; c < 3; ++c) {
        const V a[3] = {R[left + k + c], R[left + k + 3 + c], R[left + k + 6 + c]};
        const V b[3] = {-R[right + k + c], -R[right + k + 3 + c], -R[right + k + 6 + c]};
        for (int r = 0; r < 3; ++r)
          for (int q = 0; q < 3; ++q) block3.at[r][q] = multiply_add(a[r], b[q], block3.at[r][q]);
      }
    return block3;
  };
  for (int i = first; i < blocks.count; ++i) {
    for (int j = 0; j < i; ++j) {
      Block3<V> block3 = reduced_block(i, j);
      const Block3<V> diagonal = load_block3(R, block3_address(j, j));
      for (int c = 0; c < 3; ++c) {
        const V scale = inverse[3 * j + c];
        for (int r = 0; r < 3; ++r) {
          block3.at[r][c] *= scale;
          for (int q = c + 1; q < 3; ++q)
            block3.at[r][q] = multiply_add(block3.at[r][c], -diagonal.at[q][c], block3.at[r][q]);
        }
      }
      store_block3(R, block3_address(i, j), block3);
    }
    Block3<V> block3 = reduced_block(i, i);
    for (int c = 0; c < 3; ++c) {
      // at least 1, whatever rounding leaves of a much larger number
      const V root = sqrt(max(block3.at[c][c], V(1))), scale = V(1) / root;
      inverse[3 * i + c] = scale;
      block3.at[c][c] = root;
      for (int r = c + 1; r < 3; ++r) block3.at[r][c] *= scale;
      for (int q = c + 1; q < 3; ++q)
        for (int r = q; r < 3; ++r)
          block3.at[r][q] = multiply_add(block3.at[r][c], -block3.at[q][c], block3.at[r][q]);
    }
    store_block3(R, block3_address(i, i), block3);
  }
}

// In place: x = (R R')^-1 x.
template <class V>
MANIPLE_FUNCTION void solve_blocks(const Data<V>& d, int count, const DataField<V> x) {
  const DataField<V> R = d.block_factor, inverse = d.block_inverse;
  for (int i = 0; i < count; ++i) {
    V sum[3] = {x[3 * i], x[3 * i + 1], x[3 * i + 2]};
    for (int j = 0; j < i; ++j) {
      const int address = block3_address(i, j);
      for (int c = 0; c < 3; ++c) {
        const V value = -x[3 * j + c];
        for (int r = 0; r < 3; ++r) sum[r] = multiply_add(V(R[address + 3 * r + c]), value, sum[r]);
      }
    }
    const int diagonal = block3_address(i, i);
    for (int c = 0; c < 3; ++c) {
      sum[c] *= inverse[3 * i + c];
      for (int r = c + 1; r < 3; ++r) sum[r] = multiply_add(-R[diagonal + 3 * r + c], sum[c], sum[r]);
    }
    for (int r = 0; r < 3; ++r) x[3 * i + r] = sum[r];
  }
  for (int i = count - 1; i >= 0; --i) {
    V value[3] = {x[3 * i], x[3 * i + 1], x[3 * i + 2]};
    const int diagonal = block3_address(i, i);
    for (int c = 2; c >= 0; --c) {
      value[c] *= inverse[3 * i + c];
      for (int r = 0; r < c; ++r) value[r] = multiply_add(-R[diagonal + 3 * c + r], value[c], value[r]);
    }
    for (int r = 0; r < 3; ++r) x[3 * i + r] = value[r];
    for (int j = 0; j < i; ++j) {
      const int address = block3_address(i, j);
      for (int c = 2; c >= 0; --c) {
        V sum = x[3 * j + c];
        for (int r = 2; r >= 0; --r) sum = multiply_add(-R[address + 3 * r + c], value[r], sum);
        x[3 * j + c] = sum;
      }
    }
  }
}

// The cost of the residuals.
template <class V>
MANIPLE_FUNCTION V row_cost(const Model<ScalarOf<V>>& m, const Data<V>& d, const RowBlocks& blocks,
                            const DataField<V> jar) {
  using T = ScalarOf<V>;
  V cost(0);
  for_each_single_row(m, d, blocks, [&](const auto& family, int k, int i) MANIPLE_INLINE_LAMBDA {
    const Bounds<V> bounds = family.scaled_law(i).residual_bounds();
    const V x = jar[k], within = clamp(x, bounds.low, bounds.high);
    cost = multiply_add(within, multiply_add(V(T(-0.5)), within, x), cost);
  });
  for (int block = blocks.single; block < blocks.count; ++block)
    for (const V edge : edges_of(load_base<V>(jar, block)).value) {
      const V within = min(edge, V(0));
      cost = multiply_add(V(T(0.5)) * within, within, cost);
    }
  return cost;
}

// What the rows add to the LinePoint, without the square of the search direction in the norm of M.
template <class V>
MANIPLE_FUNCTION LinePoint<V> row_line(const Model<ScalarOf<V>>& m, const Data<V>& d, const RowBlocks& blocks,
                                       const DataField<V> jar, const DataField<V> djar, V alpha) {
  LinePoint<V> point;
  for_each_single_row(m, d, blocks, [&](const auto& family, int k, int i) MANIPLE_INLINE_LAMBDA {
    family.scaled_law(i).add_to_line(point, V(jar[k]), V(djar[k]), alpha);
  });
  for_each_base_block(m, d, blocks, [&](const auto& family, int block, int i) MANIPLE_INLINE_LAMBDA {
    family.scaled_law(i).add_to_line(point, load_base<V>(jar, block), load_base<V>(djar, block), alpha);
  });
  return point;
}

// The problem of a pack. The iterate is qacc_smooth + fraction * warm_change + M^-1 J' R^-1/2 f.
template <class V>
struct RowSpace {
  RowBlocks blocks;
  MaskOf<V> lanes;  // whose problem it is
  V fraction;
  V square;  // of warm_change in the norm of M
};

// The lanes whose rows are not too stiff. Where 1 is lost to rounding beside the diagonal of A, so are the
// forces of stiff rows that press the same way; in dof space they stay apart. Up to these bounds the gradient
// that a solution leaves is that of dof space (random models; three times 1e3 in single precision left up to
// a thousand times as much), so that a step which meets the minimum needs no check.
template <class V>
MANIPLE_FUNCTION MaskOf<V> is_well_conditioned(const Data<V>& d, int count) {
  using T = ScalarOf<V>;
  const V largest(sizeof(T) == 4 ? T(1e3) : T(1e5));
  MaskOf<V> good(true);
  for (int block = 0; block < count; ++block)
    for (int r = 0; r < 3; ++r) good = good && d.block_A[block3_address(block, block) + 4 * r] < largest;
  return good;
}

// The rows, A and the start for the environments of `lanes`, of which those in RowSpace::lanes can be solved
// here.
template <class V>
MANIPLE_FUNCTION RowSpace<V> begin_row_space(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                             ActiveRows rows, MaskOf<V> lanes) {
  using T = ScalarOf<V>;
  const int nv = m.nv;
  RowSpace<V> x{{}, lanes, V(0), V(0)};
  ActiveRows own;
  RowFamilies::for_each_in_blocks<V>(m, d, rows, [&]<class Rows>(const Rows& family) MANIPLE_INLINE_LAMBDA {
    own.counts[RowFamilies::number<Rows>] = family.count_of(lanes);
    // rows that only environments of the other solvers have get a number, so that D = 0 times it is no force
    if constexpr (Rows::kBaseRows == 3)
      for (int i = own.counts[RowFamilies::number<Rows>]; i < family.count(); ++i)
        family.store_jar(i, MaskOf<V>(true), BaseRows<V>{V(0), V(0), V(0)});
  });
  x.blocks = build_blocks(m, s, d, own);

  const DataField<V> change = d.warm_change, product = d.Msearch;
  for (int k = 0; k < nv; ++k) x.lanes = x.lanes && d.qLDiagInv[k] > V(0);
  multiply_inertia(m, d, change, product);
  for (int k = 0; k < nv; ++k) x.square = multiply_add(V(change[k]), V(product[k]), x.square);
  build_A(m, d, x.blocks.count);
  x.lanes = x.lanes && is_well_conditioned(d, x.blocks.count);

  const DataField<V> bias = d.block_bias, start = d.block_start, jar = d.block_jar;
  const int size = 3 * x.blocks.count;
  for (int k = 0; k < size; ++k) {
    d.block_f[k] = V(0);
    jar[k] = bias[k] + start[k];
  }
  if (!(m.disableflags & disable_warmstart)) {
    const V cost = multiply_add(V(T(0.5)), x.square, row_cost(m, d, x.blocks, jar));
    x.fraction = select(cost <= row_cost(m, d, x.blocks, bias), V(1), V(0));
  }
  const MaskOf<V> warm = x.fraction > V(0);
  for (int k = 0; k < nv; ++k) change[k] = select(warm, V(change[k]), V(0));
  for (int k = 0; k < size; ++k) {
    start[k] = select(warm, V(start[k]), V(0));
    jar[k] = select(warm, V(jar[k]), V(bias[k]));
  }
  return x;
}

// Whether there are rows whose force is constant and not zero beyond their bounds.
template <class V>
MANIPLE_FUNCTION bool some_row_saturates(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                         const RowBlocks& blocks) {
  bool some = false;
  RowFamilies::for_each_in_blocks<V>(
      m, d, blocks.active, [&]<class Rows>(const Rows& family) MANIPLE_INLINE_LAMBDA {
        some = some || (decltype(family.scaled_law(0))::kSaturates && family.count() > 0);
      });
  return some;
}

// The step to the minimum of the cost if no row changed its state, as changes of f and of the residuals:
// f = linear - C y, with (1 + C' A C) y = C' (b + A linear).
template <class V>
MANIPLE_FUNCTION void find_newton_step(const Model<ScalarOf<V>>& m, const Data<V>& d, const RowBlocks& blocks,
                                       bool first) {
  const DataField<V> A = d.block_A, bias = d.block_bias, state = d.block_state, df = d.block_df,
                     djar = d.block_djar;
  const int size = 3 * blocks.count, changed = find_states(m, d, blocks);
  factor_blocks(d, blocks, first ? 0 : changed);
  for (int k = 0; k < size; ++k) djar[k] = bias[k];
  if (some_row_saturates(m, d, blocks)) add_A_times(A, blocks.count, df, djar);
  for (int block = 0; block < blocks.count; ++block)
    store_base(djar, block, state_transposed_times(state, blocks, block, load_base<V>(djar, block)));
  solve_blocks(d, blocks.count, djar);
  for (int block = 0; block < blocks.count; ++block) {
    const BaseRows<V> y = state_times(state, blocks, block, load_base<V>(djar, block));
    const BaseRows<V> linear = load_base<V>(df, block);
    store_base(df, block, BaseRows<V>{linear.n - y.n, linear.t - y.t, linear.u - y.u});
  }
  for (int k = 0; k < size; ++k) djar[k] = bias[k];
  add_A_times(A, blocks.count, df, djar);
  for (int k = 0; k < size; ++k) {
    df[k] -= d.block_f[k];
    djar[k] -= d.block_jar[k];
  }
}

// qacc of the lanes of a row space, and jar of their rows in their own units.
template <class V>
MANIPLE_FUNCTION void finish_row_space(const Model<ScalarOf<V>>& m, const Data<V>& d, const RowSpace<V>& x) {
  using T = ScalarOf<V>;
  const RowBlocks& blocks = x.blocks;
  const DataField<V> jar = d.block_jar, value = d.Msearch, Y = d.block_Y;
  // an environment without rows keeps qacc_smooth to the sign of its zeros, as in a pack that has none at all
  const MaskOf<V> moved = x.lanes && d.nefc[0] > V(0);
  // M^-1 J' R^-1/2 f = L^-1 D^-1/2 Y f
  for (int i = 0; i < m.nv; ++i) value[i] = V(0);
  for (int block = 0; block < blocks.count; ++block) {
    const BaseRows<V> f = load_base<V>(d.block_f, block);
    const auto words = [&](int w) { return d.block_set[m.ndofword * block + w]; };
    for_each_dof(words, 0, m.nv,
                 [&](int k) { add_product<3>(value[k], load_base<V>(Y, m.nv * block + k), f); });
  }
  solve_forward(m, d, d.qM_factor, d.inverse_root, value);
  for (int k = 0; k < m.nv; ++k)
    d.qacc[k] = select(moved, d.qacc_smooth[k] + multiply_add(x.fraction, V(d.warm_change[k]), V(value[k])),
                       V(d.qacc[k]));
  const auto inverse_of = [](V root) { return V(1) / select(root > V(0), root, V(1)); };
  RowFamilies::for_each_in_blocks<V>(
      m, d, blocks.active, [&]<class Rows>(const Rows& family) MANIPLE_INLINE_LAMBDA {
        constexpr int n = RowFamilies::number<Rows>;
        const int first = blocks.first[n], last = first + blocks.length[n];
        if constexpr (Rows::kBaseRows == 3) {
          for (int i = 0; i < family.count(); ++i) {
            const V inverse = inverse_of(d.block_scale[3 * (first + i)]);
            family.store_jar(i, x.lanes, scaled(inverse, load_base<V>(jar, first + i)));
          }
        } else if constexpr (Rows::kKeepsJar) {
          for (int k = first; k < last; ++k) jar[k] *= inverse_of(d.block_scale[k]);
          for (int i = 0; i < family.count(); ++i) {
            V residual(0);
            if constexpr (Rows::kInEveryLane) {
              residual = jar[first + i];
            } else {
              const V number(static_cast<T>(family.number(i)));
              for (int k = first; k < last; ++k)
                residual = select(d.block_number[k] == number, V(jar[k]), residual);
            }
            family.store_jar(i, x.lanes, residual);
          }
        }
      });
}

// The square of the search direction M^-1 J' R^-1/2 df - fraction * warm_change in the norm of M, from its
// components in the basis of Y, so that nothing is lost where the two parts cancel.
template <class V>
MANIPLE_FUNCTION V square_of_components(const Model<ScalarOf<V>>& m, const Data<V>& d, const RowSpace<V>& x) {
  const DataField<V> Y = d.block_Y, search = d.search;
  multiply_by_root(m, d, d.warm_change, search);
  for (int i = 0; i < m.nv; ++i) search[i] *= -x.fraction;
  for (int block = 0; block < x.blocks.count; ++block) {
    const BaseRows<V> df = load_base<V>(d.block_df, block);
    const auto words = [&](int w) { return d.block_set[m.ndofword * block + w]; };
    for_each_dof(words, 0, m.nv,
                 [&](int k) { add_product<3>(search[k], load_base<V>(Y, m.nv * block + k), df); });
  }
  V square(0);
  for (int i = 0; i < m.nv; ++i) square = multiply_add(V(search[i]), V(search[i]), square);
  return square;
}

// The same for the lanes in `active`: from products over the rows, where cancellation leaves enough digits.
template <class V>
MANIPLE_FUNCTION V search_square(const Model<ScalarOf<V>>& m, const Data<V>& d, const RowSpace<V>& x,
                                 MaskOf<V> active) {
  using T = ScalarOf<V>;
  const DataField<V> start = d.block_start, df = d.block_df, djar = d.block_djar;
  const V warm = x.fraction * x.fraction * x.square;
  V square = warm, size = warm;
  for (int k = 0; k < 3 * x.blocks.count; ++k) {
    const V part = df[k] * multiply_add(-x.fraction, V(start[k]), V(djar[k]));
    square += part;
    size += abs(part);
  }
  const MaskOf<V> cancelled = active && !(V(T(64)) * square > size);
  if (any_lane(cancelled)) square = select(cancelled, square_of_components(m, d, x), square);
  return square;
}

// Whether a Newton step is finite: the factorization of a very stiff problem may break down.
template <class V>
MANIPLE_FUNCTION MaskOf<V> is_finite_step(const DataField<V> df, const DataField<V> djar, int size) {
  V sum(0);
  for (int k = 0; k < size; ++k) sum = multiply_add(V(df[k]), V(djar[k]), sum);
  return sum - sum == V(0);
}

// Newton's iterations for the lanes in `active`, which have rows.
template <class V>
MANIPLE_FUNCTION void solve_in_row_space(const Model<ScalarOf<V>>& m, const Data<V>& d, RowSpace<V> x,
                                         MaskOf<V> active, V scale, V tolerance) {
  using T = ScalarOf<V>;
  const DataField<V> f = d.block_f, jar = d.block_jar, df = d.block_df, djar = d.block_djar;
  const int size = 3 * x.blocks.count;
  // what rounding leaves of the derivative
  const V enough(T(16) * std::numeric_limits<T>::epsilon());
  SolverProgress<V> progress;
  for (int iteration = 0; iteration < m.iterations && any_lane(active); ++iteration) {
    find_newton_step(m, d, x.blocks, iteration == 0);
    // Mostly no row changes its state any more: then the step is the whole one, whatever the square, which is
    // as much work as the rest.
    const LinePoint<V> end = row_line(m, d, x.blocks, jar, djar, V(1));
    V alpha = select(is_finite_step(df, djar, size), V(1), V(0)), prospect(0);
    if (any_lane(active && end.changed)) {
      const V square = search_square(m, d, x, active && end.changed);
      const auto with_square = [&](LinePoint<V> point) {
        point.start += square;
        point.slope += square;
        return point;
      };
      const auto line_at = [&](V at) { return with_square(row_line(m, d, x.blocks, jar, djar, at)); };
      const LineMinimum<V> minimum =
          minimize_on_line(with_square(end), line_at, active, enough, m.ls_iterations, true);
      alpha = select(end.changed, minimum.alpha, alpha);
      prospect = minimum.prospect;
    }
    // by selection: what a finished lane does not take may be infinite
    for (int k = 0; k < size; ++k) {
      f[k] = select(active, multiply_add(alpha, V(df[k]), V(f[k])), V(f[k]));
      jar[k] = select(active, multiply_add(alpha, V(djar[k]), V(jar[k])), V(jar[k]));
    }
    x.fraction = select(active, x.fraction - alpha * x.fraction, x.fraction);
    active =
        active && end.changed && alpha > V(0) && progress.goes_on(prospect * scale, tolerance, end.changed);
  }
  finish_row_space(m, d, x);
}

}  // namespace maniple
