// The inertia matrix in joint space, its sparse L'*D*L factor and solves with it (mj_crb, mj_factorI,
// mj_solveLD; Featherstone, "Rigid Body Dynamics Algorithms", 2008, chapter 6). Rows are packed over
// ancestors: the row of dof i starts at dof_Madr[i] with the diagonal, then its parent dof, and so on.
#pragma once

#include "kernels/math/spatial.hpp"
#include "kernels/model/data.hpp"

namespace maniple {

// Row i of qM from crb * cdof_i of its body: the momentum of the subtree that moves with this dof alone.
template <class V>
MANIPLE_FUNCTION void store_inertia_row(const Model<ScalarOf<V>>& m, const Data<V>& d, int i,
                                        const Spatial<V>& momentum) {
  int address = m.dof_Madr[i];
  if (m.dof_simple[i]) {
    // MuJoCo keeps the inertia at qpos0; the rest of the row is zero in every pose
    d.qM[address] = V(m.dof_M0[i]);
    for (int k = 1; k <= m.dof_ancestors[i]; ++k) d.qM[address + k] = V(0);
    return;
  }
  V sum = V(m.dof_totalarmature[i]);
  for (int j = i; j >= 0; j = m.dof_parentid[j]) {
    V element = dot(load3<V>(d.cdof, 6 * j + 3), momentum.lin);
    if (!m.dof_translation[j]) element += dot(load3<V>(d.cdof, 6 * j), momentum.rot);
    d.qM[address++] = sum + element;
    sum = V(0);
  }
}

// Writes crb and qM.
template <class V>
MANIPLE_FUNCTION void inertia_matrix(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  const int nbody = m.nbody, nv = m.nv;
  for (int i = 0; i < 10 * nbody; ++i) d.crb[i] = d.cinert[i];
  for (int i = nbody - 1; i > 0; --i) {
    const int parent = m.body_parentid[i];
    if (parent == 0) continue;
    for (int k = 0; k < 10; ++k) d.crb[10 * parent + k] += d.crb[10 * i + k];
  }
  for (int i = 0; i < nv; ++i)
    store_inertia_row(m, d, i, load10<V>(d.crb, 10 * m.dof_bodyid[i]) * load6<V>(d.cdof, 6 * i));
}

// Elements (i, j) of a matrix that is being factored, of C columns at the offsets j of row i, less what the
// rows below take: the sum over `count` rows k of factor[k] (k, j). `rows(b)` is the address of the b-th of
// them. Each element is computed at once, which keeps the sum in a register. Fields come by value here and
// below: a store of lanes could change what a reference points to, as far as a compiler knows.
template <int C, class V, class Rows>
MANIPLE_FUNCTION void reduce_columns(const DataField<V> matrix, const DataField<V> factor, int row,
                                     const int (&j)[C], int count, const Rows& rows) {
  V sum[C];
  for (int c = 0; c < C; ++c) sum[c] = matrix[row + j[c]];
  for (int b = 0; b < count; ++b) {
    const V f = -factor[b];
    const int at = rows(b);
    for (int c = 0; c < C; ++c) sum[c] = multiply_add(f, V(matrix[at + j[c]]), sum[c]);
  }
  for (int c = 0; c < C; ++c) matrix[row + j[c]] = sum[c];
}

// In place: the L'*D*L factor of a matrix packed as qM; 1/D goes to `inverse`. `column` is scratch.
template <class V>
MANIPLE_FUNCTION void factor_inertia(const Model<ScalarOf<V>>& m, const DataField<V> matrix,
                                     const DataField<V> inverse, const DataField<V> column) {
  const int nv = m.nv;
  const int *const Madr = m.dof_Madr, *const rootadr = m.dof_Mrootadr, *const ancestors = m.dof_ancestors;
  for (int i = nv - 1; i >= 0; --i) {
    const int row = Madr[i], depth = ancestors[i], below = m.dof_descendants[i];
    // where the rows of the descendants, the dofs from i + 1 on, have the column of dof i
    const int* const root = rootadr + (i + 1);
    const DataField<V> scale = inverse.from(i + 1);
    const auto rows = [root, depth](int b) { return root[b] - depth; };
    for (int b = 0; b < below; ++b) column[b] = matrix[rows(b)] * scale[b];
    int c = m.dof_simple[i] ? depth + 1 : 0;
    for (; c + 3 <= depth; c += 4) {
      const int j[4] = {c, c + 1, c + 2, c + 3};
      reduce_columns<4>(matrix, column, row, j, below, rows);
    }
    for (; c <= depth; ++c) {
      const int j[1] = {c};
      reduce_columns<1>(matrix, column, row, j, below, rows);
    }
    inverse[i] = V(1) / matrix[row];
  }
  for (int i = 0; i < nv; ++i) {
    if (m.dof_simple[i]) continue;
    const V scale = inverse[i];
    for (int c = Madr[i] + 1; c <= rootadr[i]; ++c) matrix[c] *= scale;
  }
}

// In place: x = L^-T x.
template <class V>
MANIPLE_FUNCTION void solve_backward(const Model<ScalarOf<V>>& m, const DataField<V> factor,
                                     const DataField<V> x) {
  const int *const Madr = m.dof_Madr, *const parent = m.dof_parentid, *const simple = m.dof_simple;
  for (int k = m.nv - 1; k >= 0; --k) {
    if (simple[k]) continue;
    const V value = -x[k];
    int address = Madr[k] + 1;
    for (int i = parent[k]; i >= 0; i = parent[i]) x[i] = multiply_add(V(factor[address++]), value, V(x[i]));
  }
}

// In place: x = L^-1 (scale x).
template <class V>
MANIPLE_FUNCTION void solve_forward(const Model<ScalarOf<V>>& m, const DataField<V> factor,
                                    const DataField<V> scale, const DataField<V> x) {
  const int nv = m.nv;
  const int *const Madr = m.dof_Madr, *const parent = m.dof_parentid, *const simple = m.dof_simple;
  for (int k = 0; k < nv; ++k) {
    V value = x[k] * scale[k];
    if (!simple[k]) {
      int address = Madr[k] + 1;
      for (int i = parent[k]; i >= 0; i = parent[i]) value = multiply_add(-factor[address++], V(x[i]), value);
    }
    x[k] = value;
  }
}

// In place: x = (L'*D*L)^-1 x.
template <class V>
MANIPLE_FUNCTION void solve_inertia(const Model<ScalarOf<V>>& m, const DataField<V> factor,
                                    const DataField<V> inverse, const DataField<V> x) {
  solve_backward(m, factor, x);
  solve_forward(m, factor, inverse, x);
}

// result = M x, with M packed as qM (mj_mulM).
template <class V>
MANIPLE_FUNCTION void multiply_inertia(const Model<ScalarOf<V>>& m, const DataField<V> qM,
                                       const DataField<V> x, const DataField<V> result) {
  const int nv = m.nv;
  const int *const Madr = m.dof_Madr, *const parent = m.dof_parentid, *const simple = m.dof_simple;
  for (int i = 0; i < nv; ++i) {
    int address = Madr[i];
    const V value = x[i];
    V sum = qM[address] * value;
    if (!simple[i])
      for (int j = parent[i]; j >= 0; j = parent[j]) {
        const V element = qM[++address];
        sum = multiply_add(element, V(x[j]), sum);
        result[j] = multiply_add(element, value, V(result[j]));
      }
    result[i] = sum;
  }
}

}  // namespace maniple
