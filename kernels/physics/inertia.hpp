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

// In place: the L'*D*L factor of a matrix packed as qM; 1/D goes to `inverse`.
template <class V>
MANIPLE_FUNCTION void factor_inertia(const Model<ScalarOf<V>>& m, const DataField<V>& matrix,
                                     const DataField<V>& inverse) {
  for (int k = m.nv - 1; k >= 0; --k) {
    const int row = m.dof_Madr[k];
    const V inverse_diagonal = V(1) / matrix[row];
    inverse[k] = inverse_diagonal;
    if (m.dof_simple[k]) continue;
    const int ancestors = m.dof_ancestors[k];
    int i = m.dof_parentid[k];
    for (int a = 1; a <= ancestors; ++a) {
      // row of ancestor i: L(i, 0..i) -= L(k, 0..i) * L(k, i) / D(k)
      const V factor = matrix[row + a] * inverse_diagonal;
      const int target = m.dof_Madr[i];
      for (int b = a; b <= ancestors; ++b) matrix[target + b - a] -= factor * matrix[row + b];
      matrix[row + a] = factor;
      i = m.dof_parentid[i];
    }
  }
}

// In place: x = (L'*D*L)^-1 x.
template <class V>
MANIPLE_FUNCTION void solve_inertia(const Model<ScalarOf<V>>& m, const DataField<V>& factor,
                                    const DataField<V>& inverse, const DataField<V>& x) {
  const int nv = m.nv;
  for (int k = nv - 1; k >= 0; --k) {
    if (m.dof_simple[k]) continue;
    const V value = x[k];
    int address = m.dof_Madr[k] + 1;
    for (int i = m.dof_parentid[k]; i >= 0; i = m.dof_parentid[i]) x[i] -= factor[address++] * value;
  }
  for (int k = 0; k < nv; ++k) {
    V value = x[k] * inverse[k];
    if (!m.dof_simple[k]) {
      int address = m.dof_Madr[k] + 1;
      for (int i = m.dof_parentid[k]; i >= 0; i = m.dof_parentid[i]) value -= factor[address++] * x[i];
    }
    x[k] = value;
  }
}

// result = M x, with M packed as qM (mj_mulM).
template <class V>
MANIPLE_FUNCTION void multiply_inertia(const Model<ScalarOf<V>>& m, const DataField<V>& qM,
                                       const DataField<V>& x, const DataField<V>& result) {
  for (int i = 0; i < m.nv; ++i) {
    int address = m.dof_Madr[i];
    const V value = x[i];
    V sum = qM[address] * value;
    if (!m.dof_simple[i])
      for (int j = m.dof_parentid[i]; j >= 0; j = m.dof_parentid[j]) {
        const V element = qM[++address];
        sum += element * x[j];
        result[j] += element * value;
      }
    result[i] = sum;
  }
}

}  // namespace maniple
