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

// In place: the L'*D*L factor of a matrix packed as qM; 1/D goes to `inverse`. Every element is computed at
// once from the rows of the descendants, which keeps the sum in a register. `column` is scratch. Fields come
// by value here and below: a store of lanes could change what a reference points to, as far as a compiler
// knows.
template <class V>
MANIPLE_FUNCTION void factor_inertia(const Model<ScalarOf<V>>& m, const DataField<V> matrix,
                                     const DataField<V> inverse, const DataField<V> column) {
  const int nv = m.nv;
  const int *const Madr = m.dof_Madr, *const rootadr = m.dof_Mrootadr, *const ancestors = m.dof_ancestors;
  for (int i = nv - 1; i >= 0; --i) {
    const int row = Madr[i], depth = ancestors[i], end = i + 1 + m.dof_descendants[i];
    for (int k = i + 1; k < end; ++k) column[k] = matrix[rootadr[k] - depth] * inverse[k];
    int c = m.dof_simple[i] ? depth + 1 : 0;
    for (; c + 3 <= depth; c += 4) {
      V sum0 = matrix[row + c], sum1 = matrix[row + c + 1], sum2 = matrix[row + c + 2],
        sum3 = matrix[row + c + 3];
      for (int k = i + 1; k < end; ++k) {
        const V factor = column[k];
        const int at = rootadr[k] - depth + c;
        sum0 -= factor * matrix[at];
        sum1 -= factor * matrix[at + 1];
        sum2 -= factor * matrix[at + 2];
        sum3 -= factor * matrix[at + 3];
      }
      matrix[row + c] = sum0;
      matrix[row + c + 1] = sum1;
      matrix[row + c + 2] = sum2;
      matrix[row + c + 3] = sum3;
    }
    for (; c <= depth; ++c) {
      V sum = matrix[row + c];
      for (int k = i + 1; k < end; ++k) sum -= column[k] * matrix[rootadr[k] - depth + c];
      matrix[row + c] = sum;
    }
    inverse[i] = V(1) / matrix[row];
  }
  for (int i = 0; i < nv; ++i) {
    if (m.dof_simple[i]) continue;
    const V scale = inverse[i];
    for (int c = Madr[i] + 1; c <= rootadr[i]; ++c) matrix[c] *= scale;
  }
}

// In place: x = (L'*D*L)^-1 x.
template <class V>
MANIPLE_FUNCTION void solve_inertia(const Model<ScalarOf<V>>& m, const DataField<V> factor,
                                    const DataField<V> inverse, const DataField<V> x) {
  const int nv = m.nv;
  const int *const Madr = m.dof_Madr, *const parent = m.dof_parentid, *const simple = m.dof_simple;
  for (int k = nv - 1; k >= 0; --k) {
    if (simple[k]) continue;
    const V value = x[k];
    int address = Madr[k] + 1;
    for (int i = parent[k]; i >= 0; i = parent[i]) x[i] -= factor[address++] * value;
  }
  for (int k = 0; k < nv; ++k) {
    V value = x[k] * inverse[k];
    if (!simple[k]) {
      int address = Madr[k] + 1;
      for (int i = parent[k]; i >= 0; i = parent[i]) value -= factor[address++] * x[i];
    }
    x[k] = value;
  }
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
        sum += element * x[j];
        result[j] += element * value;
      }
    result[i] = sum;
  }
}

}  // namespace maniple
