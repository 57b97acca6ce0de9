// Newton's method for the constrained acceleration (mj_solNewton): the qacc that minimizes
//   1/2 (qacc - qacc_smooth)' M (qacc - qacc_smooth) + sum of the rows' costs(J qacc - aref).
// Lanes finish one by one; what a finished lane holds no longer changes, hence its bits do not depend on its
// neighbours. The Hessian H = M + J' D J has the sparsity of M, but for rows that couple two branches of a
// tree: then its columns are found anew for every pack of environments.
#pragma once

#include "kernels/model/dof_set.hpp"
#include "kernels/physics/contact.hpp"
#include "kernels/physics/inertia.hpp"
#include "kernels/physics/line_search.hpp"

namespace maniple {

// Ma and the rows' jar of the acceleration in qacc.
template <class V>
MANIPLE_FUNCTION void evaluate_rows(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows rows) {
  multiply_inertia(m, d.qM, d.qacc, d.Ma);
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a];
    d.limit_jar[r] = limit_jacobian_times(m, d, r, d.qacc) - d.limit_aref[r];
  }
  for (int slot = 0; slot < rows.slots; ++slot) {
    const BaseRows<V> x = contact_jacobian_times(m, d, slot, d.qacc);
    const BaseRows<V> aref = load_base<V>(d.contact_aref, slot);
    store_base(d.contact_jar, slot, BaseRows<V>{x.n - aref.n, x.t - aref.t, x.u - aref.u});
  }
}

// The cost of the acceleration in qacc.
template <class V>
MANIPLE_FUNCTION V constraint_cost(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows rows) {
  using T = ScalarOf<V>;
  V cost(0);
  for (int i = 0; i < m.nv; ++i) cost += (d.Ma[i] - d.qfrc_smooth[i]) * (d.qacc[i] - d.qacc_smooth[i]);
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a];
    const V jar = min(V(d.limit_jar[r]), V(0));
    cost += d.limit_D[r] * jar * jar;
  }
  for (int slot = 0; slot < rows.slots; ++slot) {
    const Edges<V> edges = edges_of(load_base<V>(d.contact_jar, slot));
    V sum(0);
    for (const V edge : edges.value) {
      const V jar = min(edge, V(0));
      sum += jar * jar;
    }
    cost += d.contact_D[slot] * sum;
  }
  cost *= V(T(0.5));
  for (int r = 0; r < m.nfriction; ++r) cost += friction_row(m, r, friction_jar(m, d, r, d.qacc)).cost;
  return cost;
}

// qfrc_constraint = J' force.
template <class V>
MANIPLE_FUNCTION void constraint_forces(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows rows) {
  for (int i = 0; i < m.nv; ++i) d.qfrc_constraint[i] = V(0);
  for (int r = 0; r < m.nfriction; ++r) add_friction_force(m, r, friction_force(m, d, r), d.qfrc_constraint);
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a];
    add_limit_force(m, d, r, limit_force(m, d, r), d.qfrc_constraint);
  }
  for (int slot = 0; slot < rows.slots; ++slot)
    add_contact_force(m, d, slot, contact_force(m, d, slot), d.qfrc_constraint);
}

// Marks in H_set that the dofs of candidate c are coupled.
template <class V>
MANIPLE_FUNCTION void couple_dofs(const Model<ScalarOf<V>>& m, const Data<V>& d, int c) {
  const int words = m.ndofword;
  const int *const set1 = m.candidate_dofset1 + c * words, *const set2 = m.candidate_dofset2 + c * words;
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
  for (int i = 0; i < m.nv * m.ndofword; ++i) d.H_set[i] = m.dof_coupledset[i];
  bool coupled = m.flags & model_rows_couple;
  for (int slot = 0; slot < slots; ++slot)
    for_each_lane(d.contact_D[slot] > V(0), [&](int lane) {
      const int candidate = static_cast<int>(get_lane(V(d.contact_candidate[slot]), lane));
      if (!m.candidate_couples[candidate]) return;
      couple_dofs(m, d, candidate);
      coupled = true;
    });
  return coupled;
}

// Which elements of H may differ from zero.
struct HessianPattern {
  IndexList colnum, col;      // columns before the diagonal, row by row, descending
  IndexList belownum, below;  // rows after the diagonal, column by column, ascending
};

// The pattern of M where no contact couples two branches of a tree; else that of H_set with what elimination
// fills in, which goes to H_col and H_below.
template <class V>
MANIPLE_FUNCTION HessianPattern hessian_pattern(const Model<ScalarOf<V>>& m, const Data<V>& d, bool coupled) {
  if (!coupled)
    return {IndexList(m.dof_ancestors), IndexList(m.dof_ancestorlist), IndexList(m.dof_descendants),
            IndexList(m.dof_descendantlist)};
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
  return {IndexList(d.H_colnum), IndexList(d.H_col), IndexList(d.H_belownum), IndexList(d.H_below)};
}

// W of B' W B, the part of a slot in H, with the base rows B; element (t, u) is zero.
template <class V>
struct BaseWeights {
  V nn, nt, nu, tt, uu;

  // W times a column of B; of the tangents, those of kTangents.
  template <int kTangents>
  MANIPLE_FUNCTION BaseRows<V> times(const BaseRows<V>& b) const {
    BaseRows<V> w{nn * b.n, V(0), V(0)};
    if constexpr (kTangents & 1) {
      w.n = multiply_add(nt, b.t, w.n);
      w.t = multiply_add(nt, b.n, tt * b.t);
    }
    if constexpr (kTangents & 2) {
      w.n = multiply_add(nu, b.u, w.n);
      w.u = multiply_add(nu, b.n, uu * b.u);
    }
    return w;
  }
};

// H += B' W B for the columns first <= k < last of J. Dofs of two lanes' contacts may meet in one slot: their
// elements get zeros and are not read. Three rows of H at a time share what is loaded of J.
template <int kTangents, class V>
MANIPLE_FUNCTION void add_weighted_square(const DataField<V> J, const IndexField<V> dofs, int first, int last,
                                          const BaseWeights<V> W, const DataField<V> H) {
  const auto weighted = [&](int k) { return W.template times<kTangents>(load_column<kTangents>(J, k)); };
  int a = first;
  for (; a + 2 < last; a += 3) {
    const int dof1 = dofs[a + 1], dof2 = dofs[a + 2];
    const int row0 = hessian_address(dofs[a], 0), row1 = hessian_address(dof1, 0),
              row2 = hessian_address(dof2, 0);
    const BaseRows<V> w0 = weighted(a), w1 = weighted(a + 1), w2 = weighted(a + 2);
    add_product<kTangents>(H[row0 + dofs[a]], w0, load_column<kTangents>(J, a));
    add_product<kTangents>(H[row0 + dof1], w0, load_column<kTangents>(J, a + 1));
    add_product<kTangents>(H[row1 + dof1], w1, load_column<kTangents>(J, a + 1));
    for (int b = a + 2; b < last; ++b) {
      const int j = dofs[b];
      const BaseRows<V> column = load_column<kTangents>(J, b);
      add_product<kTangents>(H[row0 + j], w0, column);
      add_product<kTangents>(H[row1 + j], w1, column);
      add_product<kTangents>(H[row2 + j], w2, column);
    }
  }
  for (; a < last; ++a) {
    const int row = hessian_address(dofs[a], 0);
    const BaseRows<V> w = weighted(a);
    for (int b = a; b < last; ++b) add_product<kTangents>(H[row + dofs[b]], w, load_column<kTangents>(J, b));
  }
}

// Adds J' D J of the edges of a slot that push.
template <class V>
MANIPLE_FUNCTION void add_contact_hessian(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot) {
  const Edges<V> edges = edges_of(load_base<V>(d.contact_jar, slot));
  const V D = d.contact_D[slot];
  V push[4];
  for (int e = 0; e < 4; ++e) push[e] = select(edges.value[e] < V(0), D, V(0));
  const V tt = push[0] + push[1], uu = push[2] + push[3];
  const BaseWeights<V> W{tt + uu, push[0] - push[1], push[2] - push[3], tt, uu};
  if (!any_lane(W.nn > V(0))) return;
  const int first = slot * m.nv, last = first + d.slot_dofnum[slot];
  with_tangents(d.slot_tangents[slot], [&]<int kTangents>(Tangents<kTangents>) {
    add_weighted_square<kTangents>(d.contact_J, d.slot_dof, first, last, W, d.H);
  });
}

// H = M + J' D J over the rows that are in their quadratic zone.
template <class V>
MANIPLE_FUNCTION void hessian(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows rows, bool coupled) {
  const DataField<V> H = d.H, qM = d.qM;
  const int* const parent = m.dof_parentid;
  for (int i = 0; i < m.nv; ++i) {
    const int row = hessian_address(i, 0);
    // the factorization reads elements outside the pattern of coupled rows, too
    if (coupled)
      for (int j = 0; j < i; ++j) H[row + j] = V(0);
    int address = m.dof_Madr[i];
    H[row + i] = qM[address];
    for (int j = parent[i]; j >= 0; j = parent[j]) H[row + j] = qM[++address];
  }
  for (int r = 0; r < m.nfriction; ++r) {
    const V curvature = friction_row(m, r, friction_jar(m, d, r, d.qacc)).curvature;
    const int dof = m.friction_dofid[r];
    if (dof >= 0)
      H[hessian_address(dof, dof)] += curvature;
    else
      add_tendon_hessian(m, m.friction_tendonid[r], curvature, H);
  }
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a];
    add_limit_hessian(m, d, r, select(d.limit_jar[r] < V(0), V(d.limit_D[r]), V(0)));
  }
  for (int slot = 0; slot < rows.slots; ++slot) add_contact_hessian(m, d, slot);
}

// In place: the factor of H = L' D L as D L, whose diagonal is D; 1/D goes to HDiagInv.
template <class V>
MANIPLE_FUNCTION void factor_hessian(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                     const HessianPattern pattern) {
  const DataField<V> H = d.H, inverse = d.HDiagInv, factor = d.factor_column;
  const int nv = m.nv;
  for (int i = nv - 1; i >= 0; --i) {
    const int row = hessian_address(i, 0), list = i * (i - 1) / 2, columns = pattern.colnum[i];
    const int first = below_address(nv, i), below = pattern.belownum[i];
    V diagonal = H[row + i];
    for (int b = 0; b < below; ++b) {
      const int k = pattern.below[first + b];
      const V element = H[hessian_address(k, i)], scaled = element * inverse[k];
      factor[b] = scaled;
      diagonal -= scaled * element;
    }
    H[row + i] = diagonal;
    inverse[i] = V(1) / diagonal;
    const auto rows = [&](int b) { return hessian_address(pattern.below[first + b], 0); };
    int c = 0;
    for (; c + 8 <= columns; c += 8) {
      int j[8];
      for (int k = 0; k < 8; ++k) j[k] = pattern.col[list + c + k];
      reduce_columns<8>(H, factor, row, j, below, rows);
    }
    for (; c + 3 <= columns; c += 3) {
      const int j[3] = {pattern.col[list + c], pattern.col[list + c + 1], pattern.col[list + c + 2]};
      reduce_columns<3>(H, factor, row, j, below, rows);
    }
    for (; c < columns; ++c) {
      const int j[1] = {pattern.col[list + c]};
      reduce_columns<1>(H, factor, row, j, below, rows);
    }
  }
}

// In place: x = H^-1 x.
template <class V>
MANIPLE_FUNCTION void solve_hessian(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                    const HessianPattern pattern, const DataField<V> x) {
  const DataField<V> H = d.H, inverse = d.HDiagInv;
  const int nv = m.nv;
  for (int i = nv - 1; i >= 0; --i) {
    const int first = below_address(nv, i), last = first + pattern.belownum[i];
    V value = x[i];
    for (int b = first; b < last; ++b) {
      const int k = pattern.below[b];
      value -= H[hessian_address(k, i)] * x[k];
    }
    x[i] = value * inverse[i];
  }
  for (int k = 0; k < nv; ++k) {
    const int row = hessian_address(k, 0), first = k * (k - 1) / 2, last = first + pattern.colnum[k];
    V sum(0);
    for (int c = first; c < last; ++c) {
      const int i = pattern.col[c];
      sum += H[row + i] * x[i];
    }
    x[k] -= sum * inverse[k];
  }
}

// `smooth`: the line of the cost without rows.
template <class V>
MANIPLE_FUNCTION DerivativeLine<V> derivative_line(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                                   ActiveRows rows, const DerivativeLine<V>& smooth,
                                                   V alpha) {
  DerivativeLine<V> sum = smooth;
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a];
    const V jar = d.limit_jar[r], change = d.limit_search[r];
    const V pushed = select(multiply_add(alpha, change, jar) < V(0), d.limit_D[r] * change, V(0));
    sum.intercept += jar * pushed;
    sum.slope += change * pushed;
  }
  for (int slot = 0; slot < rows.slots; ++slot) {
    const Edges<V> jars = edges_of(load_base<V>(d.contact_jar, slot));
    const Edges<V> changes = edges_of(load_base<V>(d.contact_search, slot));
    V intercept(0), slope(0);
    for (int e = 0; e < 4; ++e) {
      const V jar = jars.value[e], change = changes.value[e];
      const V pushed = select(multiply_add(alpha, change, jar) < V(0), change, V(0));
      intercept += jar * pushed;
      slope += change * pushed;
    }
    sum.intercept += d.contact_D[slot] * intercept;
    sum.slope += d.contact_D[slot] * slope;
  }
  for (int r = 0; r < m.nfriction; ++r) {
    const V change = friction_jacobian_times<V>(m, r, d.search), jar = friction_jar(m, d, r, d.qacc);
    const FrictionRow<V> row = friction_row(m, r, multiply_add(alpha, change, jar));
    const V steep = row.curvature * change;
    sum.intercept += select(row.curvature > V(0), jar * steep, -row.force * change);
    sum.slope += steep * change;
  }
  return sum;
}

// For the lanes in `active`.
template <class V>
MANIPLE_FUNCTION LineMinimum<V> line_search(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows rows,
                                            MaskOf<V> active, V scale) {
  DerivativeLine<V> smooth{V(0), V(0)};
  V square(0);
  for (int i = 0; i < m.nv; ++i) {
    smooth.intercept += d.search[i] * (d.Ma[i] - d.qfrc_smooth[i]);
    smooth.slope += d.search[i] * d.Msearch[i];
    square += d.search[i] * d.search[i];
  }
  const V enough = V(m.tolerance * m.ls_tolerance) * sqrt(square) / scale;
  const auto line_at = [&](V alpha) { return derivative_line(m, d, rows, smooth, alpha); };
  return minimize_on_line(line_at, line_at(V(0)), active, enough, m.ls_iterations);
}

// Msearch and the rows' changes along the search direction.
template <class V>
MANIPLE_FUNCTION void evaluate_search(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows rows) {
  multiply_inertia(m, d.qM, d.search, d.Msearch);
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a];
    d.limit_search[r] = limit_jacobian_times(m, d, r, d.search);
  }
  for (int slot = 0; slot < rows.slots; ++slot)
    store_base(d.contact_search, slot, contact_jacobian_times(m, d, slot, d.search));
}

// Moves qacc, Ma and jar of the active lanes by alpha along the search direction.
template <class V>
MANIPLE_FUNCTION void move_along_search(const Model<ScalarOf<V>>& m, const Data<V>& d, ActiveRows rows,
                                        MaskOf<V> active, V alpha) {
  const auto move = [&](V& value, V change) { value = select(active, value + alpha * change, value); };
  for (int i = 0; i < m.nv; ++i) {
    move(d.qacc[i], d.search[i]);
    move(d.Ma[i], d.Msearch[i]);
  }
  for (int a = 0; a < rows.limits; ++a) {
    const int r = d.limit_active[a];
    move(d.limit_jar[r], d.limit_search[r]);
  }
  for (int k = 0; k < 3 * rows.slots; ++k) move(d.contact_jar[k], d.contact_search[k]);
}

// Takes qacc_warmstart for the start of the iterations where its cost is lower than that of qacc_smooth.
template <class V>
MANIPLE_FUNCTION void warm_start(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                 ActiveRows rows, MaskOf<V> active) {
  evaluate_rows(m, d, rows);
  if (m.disableflags & disable_warmstart) return;
  const V cost = constraint_cost(m, d, rows);
  for (int i = 0; i < m.nv; ++i) d.qacc[i] = s.qacc_warmstart[i];
  evaluate_rows(m, d, rows);
  const V warm = constraint_cost(m, d, rows);
  const MaskOf<V> better = active && warm <= cost;
  for (int i = 0; i < m.nv; ++i) d.qacc[i] = select(better, V(d.qacc[i]), V(d.qacc_smooth[i]));
  if (!all_lanes(better)) evaluate_rows(m, d, rows);
}

// qacc of the lanes in `active`, and jar of their rows, from the rows and the warm start.
template <class V>
MANIPLE_FUNCTION void solve_in_dof_space(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                         ActiveRows rows, MaskOf<V> active, V scale, V tolerance) {
  const int nv = m.nv;
  const bool coupled = find_coupled_dofs(m, d, rows.slots);
  const HessianPattern pattern = hessian_pattern(m, d, coupled);

  warm_start(m, s, d, rows, active);
  for (int iteration = 0; iteration < m.iterations; ++iteration) {
    constraint_forces(m, d, rows);
    V gradient(0);
    for (int i = 0; i < nv; ++i) {
      const V component = d.qfrc_smooth[i] + d.qfrc_constraint[i] - d.Ma[i];
      gradient += component * component;
      d.search[i] = component;
    }
    active = active && sqrt(gradient) * scale >= tolerance;
    if (!any_lane(active)) break;
    d.solver_niter[0] += select(active, V(1), V(0));
    hessian(m, d, rows, coupled);
    factor_hessian(m, d, pattern);
    solve_hessian(m, d, pattern, d.search);
    evaluate_search(m, d, rows);
    const LineMinimum<V> minimum = line_search(m, d, rows, active, scale);
    move_along_search(m, d, rows, active, minimum.alpha);
    active = active && !minimum.exact && minimum.improvement * scale >= tolerance;
    if (!any_lane(active)) break;
  }
}

}  // namespace maniple
