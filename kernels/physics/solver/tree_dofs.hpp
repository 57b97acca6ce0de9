// The linear algebra of Newton's method over the dofs of a tree: M and the Hessian H = M + J' D J by lists of
// their elements, contacts by lists of the dofs that move them. H has the sparsity of M, but for rows that
// couple two branches: then its columns are found again for every pack of environments. Robots of few dofs
// have dense_dofs.hpp instead, with the same members.
#pragma once

#include "kernels/model/dof_set.hpp"
#include "kernels/physics/smooth/inertia.hpp"
#include "kernels/physics/solver/body_pair.hpp"

namespace maniple {

// Marks in H_set that the dofs of geom pair c are coupled.
template <class V>
MANIPLE_FUNCTION void couple_dofs(const Model<ScalarOf<V>>& m, const Data<V>& d, int c) {
  const int words = m.ndofword;
  const int *const set1 = m.geompair_dofset1 + c * words, *const set2 = m.geompair_dofset2 + c * words;
  for_each_dof([&](int w) { return set1[w] | set2[w]; }, 0, m.nv,
               [&](int dof) {
                 const int last = dof / 32;
                 for (int w = 0; w <= last; ++w)
                   d.H_set[dof * words + w] |=
                       static_cast<int>(static_cast<std::uint32_t>(set1[w] | set2[w]) &
                                        (w < last ? ~0u : (1u << (dof % 32)) - 1u));
               });
}

// Sets H_set to what tendons and the contacts of a pack couple. Returns whether anything is outside M's
// pattern.
template <class V>
MANIPLE_FUNCTION bool find_coupled_dofs(const Model<ScalarOf<V>>& m, const Data<V>& d, int slots) {
  for (const int i : d.team.share(m.nv * m.ndofword)) d.H_set[i] = m.dof_coupledset[i];
  return d.team.once([&] {
    bool coupled = m.flags & model_rows_couple;
    for (int slot = 0; slot < slots; ++slot)
      for_each_lane(d.contact_D[slot] > V(0), [&](int lane) {
        const int geompair = static_cast<int>(get_lane(V(d.contact_geompair[slot]), lane));
        if (!m.geompair_couples[geompair]) return;
        couple_dofs(m, d, geompair);
        coupled = true;
      });
    return coupled;
  });
}

// Which elements of H may differ from zero.
struct HessianPattern {
  IndexList colnum, col;      // columns before the diagonal, row by row, descending
  IndexList belownum, below;  // rows after the diagonal, column by column, ascending
};

// The pattern of H_set with what elimination fills in, to H_col and H_below.
template <class V>
MANIPLE_FUNCTION void fill_pattern(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  const int words = m.ndofword, nv = m.nv;
  for (int k = 0; k < nv; ++k) d.H_belownum[k] = 0;
  for (int k = nv - 1; k >= 0; --k) {
    int count = 0;
    for (int w = k / 32; w >= 0; --w)
      for (auto left = static_cast<std::uint32_t>(d.H_set[k * words + w]); left != 0;) {
        const int bit = highest_bit(left), i = 32 * w + bit;
        left ^= 1u << bit;
        d.H_col[k * (k - 1) / 2 + count++] = i;
        for (int v = 0; v < w; ++v) d.H_set[i * words + v] |= d.H_set[k * words + v];
        d.H_set[i * words + w] |= d.H_set[k * words + w] & static_cast<int>((1u << bit) - 1u);
      }
    d.H_colnum[k] = count;
  }
  for (int k = 0; k < nv; ++k)
    for (int c = 0; c < d.H_colnum[k]; ++c) {
      const int i = d.H_col[k * (k - 1) / 2 + c];
      d.H_below[below_address(nv, i) + d.H_belownum[i]++] = k;
    }
}

// The pattern of M where no contact couples two branches of a tree; else that of what is coupled.
template <class V>
MANIPLE_FUNCTION HessianPattern hessian_pattern(const Model<ScalarOf<V>>& m, const Data<V>& d, bool coupled) {
  if (!coupled)
    return {IndexList(m.dof_ancestors), IndexList(m.dof_ancestorlist), IndexList(m.dof_descendants),
            IndexList(m.dof_descendantlist)};
  d.team.once([&] { fill_pattern(m, d); });
  return {IndexList(d.H_colnum), IndexList(d.H_col), IndexList(d.H_belownum), IndexList(d.H_below)};
}

// H += B' W B for the columns first <= k < last of J. Dofs of two lanes' contacts may meet in one slot: their
// elements get zeros and are not read. Rows of H that are taken together share what is loaded of J.
template <int kTangents, class V>
MANIPLE_FUNCTION void add_weighted_square(const Team<V>& team, const DataField<V> J, const IndexField<V> dofs,
                                          int first, int last, const BaseWeights<V> W, const DataField<V> H) {
  share_runs<3, 1>(team, last - first, [&]<int C>(std::integral_constant<int, C>, int begin) {
    const int a = first + begin;
    int row[C];
    BaseRows<V> w[C];
    unroll<0, C>([&](auto i) {
      row[i] = hessian_address(dofs[a + i], 0);
      w[i] = W.template times<kTangents>(load_column<kTangents>(J, a + i));
    });
    unroll<0, C - 1>([&](auto i) {
      unroll<0, i + 1>([&](auto k) {
        add_product<kTangents>(H[row[k] + dofs[a + i]], w[k], load_column<kTangents>(J, a + i));
      });
    });
    for (int b = a + C - 1; b < last; ++b) {
      const int j = dofs[b];
      const BaseRows<V> column = load_column<kTangents>(J, b);
      unroll<0, C>([&](auto i) { add_product<kTangents>(H[row[i] + j], w[i], column); });
    }
  });
}

// H = M, where the dofs of coupled rows have elements outside of M's pattern.
template <class V>
MANIPLE_FUNCTION void start_hessian(const Model<ScalarOf<V>>& m, const Data<V>& d, bool coupled) {
  const DataField<V> H = d.H, qM = d.qM;
  const int* const parent = m.dof_parentid;
  for (const int i : d.team.share(m.nv)) {
    const int row = hessian_address(i, 0);
    // the factorization also reads elements outside the pattern of coupled rows
    if (coupled)
      for (int j = 0; j < i; ++j) H[row + j] = V(0);
    int address = m.dof_Madr[i];
    H[row + i] = qM[address];
    for (int j = parent[i]; j >= 0; j = parent[j]) H[row + j] = qM[++address];
  }
}

// In place: the factor of H = L' D L as D L, whose diagonal is D; 1/D goes to HDiagInv.
template <class V>
MANIPLE_FUNCTION void factor_hessian(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                     const HessianPattern pattern) {
  const DataField<V> H = d.H, inverse = d.HDiagInv, factor = d.factor_column;
  const int nv = m.nv;
  for (int i = nv - 1; i >= 0; --i) {
    const int row = hessian_address(i, 0), columns = pattern.colnum[i], below = pattern.belownum[i];
    const IndexList col = pattern.col.from(i * (i - 1) / 2),
                    below_rows = pattern.below.from(below_address(nv, i));
    for (const int b : d.team.share(below)) {
      const int k = below_rows[b];
      factor[b] = H[hessian_address(k, i)] * inverse[k];
    }
    const auto rows = [below_rows](int b) { return hessian_address(below_rows[b], 0); };
    // the diagonal comes first
    share_runs<8, 3>(d.team, columns + 1, [&]<int C>(std::integral_constant<int, C>, int first) {
      int j[C];
      for (int c = 0; c < C; ++c) j[c] = first + c == 0 ? i : col[first + c - 1];
      reduce_columns<C>(H, factor, row, j, below, rows);
      if (first == 0) inverse[i] = V(1) / H[row + i];
    });
  }
}

// In place: x = H^-1 x.
template <class V>
MANIPLE_FUNCTION void solve_hessian(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                    const HessianPattern pattern, const DataField<V> x) {
  const DataField<V> H = d.H, inverse = d.HDiagInv;
  const int nv = m.nv;
  // x stays multiplied by D until the end
  for (int k = nv - 1; k > 0; --k) {
    const V value = -(x[k] * inverse[k]);
    const DataField<V> row = H.from(hessian_address(k, 0));
    const IndexList col = pattern.col.from(k * (k - 1) / 2);
    for (const int c : d.team.share(pattern.colnum[k])) {
      const int i = col[c];
      x[i] = multiply_add(V(row[i]), value, V(x[i]));
    }
  }
  for (int i = 0; i + 1 < nv; ++i) {
    const V value = -(x[i] * inverse[i]);
    const IndexList below_rows = pattern.below.from(below_address(nv, i));
    for (const int b : d.team.share(pattern.belownum[i])) {
      const int k = below_rows[b];
      x[k] = multiply_add(V(H[hessian_address(k, i)]), value, V(x[k]));
    }
  }
  for (const int i : d.team.share(nv)) x[i] *= inverse[i];
}

// See the head of this file. begin() comes before anything that involves H.
template <class V>
struct TreeDofs {
  const Model<ScalarOf<V>>& m;
  const Data<V>& d;
  // body pairs save time for packs only
  static constexpr bool kByBodyPair = !std::is_same_v<V, Wide>;
  bool coupled = false;
  std::uint32_t body_pairs = 0;  // of the pack's contacts, as bits
  HessianPattern pattern;

  MANIPLE_FUNCTION TreeDofs(const Model<ScalarOf<V>>& model, const Data<V>& data)
      : m(model), d(data), pattern(hessian_pattern(model, data, false)) {}

  MANIPLE_FUNCTION int count() const { return m.nv; }
  // `slots` of contacts are in use.
  MANIPLE_FUNCTION void begin(int slots) {
    coupled = find_coupled_dofs(m, d, slots);
    pattern = hessian_pattern(m, d, coupled);
    if constexpr (kByBodyPair) {
      if (m.nbodypair == 0) return;
      for (const int slot : d.team.share(slots))
        d.slot_bodypairs[slot] = static_cast<int>(body_pairs_of_slot(m, d, slot));
      for (int slot = 0; slot < slots; ++slot)
        body_pairs |= static_cast<std::uint32_t>(d.slot_bodypairs[slot]);
      for_each_bit(body_pairs, [&](int p) { body_pair_motion(m, d, p); });
    }
  }
  // result = M x.
  MANIPLE_FUNCTION void multiply_inertia(const DataField<V> x, const DataField<V> result) const {
    maniple::multiply_inertia(m, d, x, result);
  }
  // J x of the base rows of a slot.
  MANIPLE_FUNCTION BaseRows<V> contact_times(int slot, const DataField<V> x) const {
    return contact_jacobian_times(m, d, slot, x);
  }
  // result += J' force.
  MANIPLE_FUNCTION void add_contact_force(int slot, const BaseRows<V>& force,
                                          const DataField<V> result) const {
    maniple::add_contact_force(m, d, slot, force, result);
  }
  // H = M.
  MANIPLE_FUNCTION void start_hessian() const { maniple::start_hessian(m, d, coupled); }
  // H += J' D J of the edges of the contacts that push: body pair by body pair, and one by one where they are
  // of none.
  MANIPLE_FUNCTION void add_contact_hessians(int slots) const {
    for_each_bit(body_pairs, [&](int p) {
      for (const int k : d.team.share(21)) d.bodypair_W[21 * p + k] = V(0);
    });
    for (int slot = 0; slot < slots; ++slot) {
      BaseWeights<V> W = base_weights(d, slot);
      if (!any_lane(W.nn > V(0))) continue;
      if (kByBodyPair && m.nbodypair > 0) {
        d.team.once([&] { add_body_pair_weights(d, slot, W); });
        W = W.where(d.contact_bodypair[slot] < V(0));
        if (!any_lane(W.nn > V(0))) continue;
      }
      const int first = slot * m.nv, last = first + d.slot_dofnum[slot];
      with_tangents(d.slot_tangents[slot], [&]<int kTangents>(Tangents<kTangents>) {
        add_weighted_square<kTangents>(d.team, d.contact_J, d.slot_dof, first, last, W, d.H);
      });
    }
    for_each_bit(body_pairs, [&](int p) { add_body_pair_hessian(m, d, p); });
  }
  // H in place to its factor; then x to H^-1 x.
  MANIPLE_FUNCTION void factor() const { factor_hessian(m, d, pattern); }
  MANIPLE_FUNCTION void solve(const DataField<V> x) const { solve_hessian(m, d, pattern, x); }
};

}  // namespace maniple
