// The inertia matrix in joint space, its sparse L'*D*L factor and solves with it (mj_crb, mj_factorI,
// mj_solveLD; Featherstone, "Rigid Body Dynamics Algorithms", 2008, chapter 6). Rows are packed over
// ancestors: the row of dof i starts at dof_Madr[i] with the diagonal, then its parent dof, and so on.
#pragma once

#include "kernels/math/spatial.hpp"
#include "kernels/model/lane_model.hpp"
#include "kernels/physics/smooth/tree_walk.hpp"

namespace maniple {

// Row i of qM from crb * cdof_i of its body: the momentum of the subtree that moves with this dof alone.
template <class V>
MANIPLE_FUNCTION void store_inertia_row(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                        int i, const Spatial<V>& momentum) {
  const LaneModel<V> lanes(m, s);
  int address = m.dof_Madr[i];
  if (m.dof_simple[i]) {
    // MuJoCo keeps the inertia at qpos0; the rest of the row is zero in every pose
    d.qM[address] = lanes.dof_M0(i);
    for (int k = 1; k <= m.dof_ancestors[i]; ++k) d.qM[address + k] = V(0);
    return;
  }
  V sum = lanes.dof_totalarmature(i);
  for (int j = i; j >= 0; j = m.dof_parentid[j]) {
    V element = dot(load3<V>(d.cdof, 6 * j + 3), momentum.lin);
    if (!m.dof_translation[j]) element += dot(load3<V>(d.cdof, 6 * j), momentum.rot);
    d.qM[address++] = sum + element;
    sum = V(0);
  }
}

// Leaves to roots: crb, and in the same walk cfrc_body, which velocities() has left, become those of
// subtrees.
template <class V>
MANIPLE_SUBSTAGE void sum_over_subtrees(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  const BodyLevels<V> levels(m, d);
  for (int level = levels.count - 1; level >= 0; --level)
    for (const int n : d.team.share(levels.size(level))) {
      const int i = levels.body_back(level, n);
      const int* const child = m.body_child + m.body_childadr[i];
      for (int c = 0; c < m.body_childnum[i]; ++c) {
        for (int k = 0; k < 10; ++k) d.crb[10 * i + k] += d.crb[10 * child[c] + k];
        for (int k = 0; k < 6; ++k) d.cfrc_body[6 * i + k] += d.cfrc_body[6 * child[c] + k];
      }
    }
}

// Writes the rows of qM, and qfrc_bias.
template <class V>
MANIPLE_SUBSTAGE void inertia_and_bias(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (const int k : d.team.share(m.nv)) {
    const int body = m.dof_bodyid[k];
    const Inertia<V> inertia = load10<V>(d.crb, 10 * body);
    const Spatial<V> force = load6<V>(d.cfrc_body, 6 * body);
    Spatial<V> momentum;
    const Vec3<V> lin = load3<V>(d.cdof, 6 * k + 3);
    if (m.dof_translation[k]) {
      d.qfrc_bias[k] = dot(lin, force.lin);
      momentum = {cross(inertia.moment, lin), inertia.mass * lin};
    } else {
      const Vec3<V> rot = load3<V>(d.cdof, 6 * k);
      d.qfrc_bias[k] = dot(lin, force.lin) + dot(rot, force.rot);
      momentum = inertia * Spatial<V>{rot, lin};
    }
    store_inertia_row(m, s, d, k, momentum);
  }
}

// Elements (i, j) of a matrix that is being factored, of C columns at the offsets j of row i, less what the
// rows below take: the sum over `count` rows k of factor[k] (k, j). `rows(b)` is the address of the b-th of
// them. Each element is computed at once, which keeps the sum in a register. Fields are passed by value here
// and below: as far as a compiler knows, a store of lanes could change what a reference points to.
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

// MuJoCo's rule for matrices that are not positive definite: a pivot below mjMINVAL is replaced by it.
template <class V>
MANIPLE_FUNCTION V bounded_pivot(V pivot) {
  return select(pivot < V(kMinimumValue), V(kMinimumValue), pivot);
}

// In place: the L'*D*L factor of a matrix packed as qM; 1/D goes to `inverse`.
template <class V>
MANIPLE_FUNCTION void factor_inertia(const Model<ScalarOf<V>>& m, const Data<V>& d, const DataField<V> matrix,
                                     const DataField<V> inverse) {
  const int nv = m.nv;
  const DataField<V> column = d.factor_column;
  const int *const Madr = m.dof_Madr, *const rootadr = m.dof_Mrootadr, *const ancestors = m.dof_ancestors;
  for (int i = nv - 1; i >= 0; --i) {
    const int row = Madr[i], depth = ancestors[i], below = m.dof_descendants[i];
    // where the rows of the descendants, the dofs from i + 1 on, have the column of dof i
    const int* const root = rootadr + (i + 1);
    const DataField<V> scale = inverse.from(i + 1);
    const auto rows = [root, depth](int b) { return root[b] - depth; };
    for (const int b : d.team.share(below)) column[b] = matrix[rows(b)] * scale[b];
    share_runs<4, 1>(d.team, m.dof_simple[i] ? 1 : depth + 1,
                     [&]<int C>(std::integral_constant<int, C>, int first) {
                       int j[C];
                       for (int c = 0; c < C; ++c) j[c] = first + c;
                       reduce_columns<C>(matrix, column, row, j, below, rows);
                       if (first > 0) return;
                       matrix[row] = bounded_pivot(V(matrix[row]));
                       inverse[i] = V(1) / matrix[row];
                     });
  }
  for (const int i : d.team.share(nv)) {
    if (m.dof_simple[i]) continue;
    const V scale = inverse[i];
    for (int c = Madr[i] + 1; c <= rootadr[i]; ++c) matrix[c] *= scale;
  }
}

// In place: x = L^-T x.
template <class V>
MANIPLE_FUNCTION void solve_backward(const Model<ScalarOf<V>>& m, const Data<V>& d, const DataField<V> factor,
                                     const DataField<V> x) {
  const int *const Madr = m.dof_Madr, *const simple = m.dof_simple;
  for (int k = m.nv - 1; k > 0; --k) {
    if (simple[k]) continue;
    const V value = -x[k];
    const int address = Madr[k] + 1, *const ancestor = m.dof_ancestorlist + k * (k - 1) / 2;
    for (const int a : d.team.share(m.dof_ancestors[k])) {
      const int i = ancestor[a];
      x[i] = multiply_add(V(factor[address + a]), value, V(x[i]));
    }
  }
}

// In place: x = L^-1 (scale x).
template <class V>
MANIPLE_FUNCTION void solve_forward(const Model<ScalarOf<V>>& m, const Data<V>& d, const DataField<V> factor,
                                    const DataField<V> scale, const DataField<V> x) {
  const int nv = m.nv;
  const int* const simple = m.dof_simple;
  for (const int k : d.team.share(nv)) x[k] *= scale[k];
  for (int i = 0; i + 1 < nv; ++i) {
    const V value = -x[i];
    const int first = i + 1, depth = m.dof_ancestors[i], *const root = m.dof_Mrootadr + first;
    for (const int b : d.team.share(m.dof_descendants[i]))
      if (!simple[first + b]) x[first + b] = multiply_add(V(factor[root[b] - depth]), value, V(x[first + b]));
  }
}

// In place: x = (L'*D*L)^-1 x.
template <class V>
MANIPLE_FUNCTION void solve_inertia(const Model<ScalarOf<V>>& m, const Data<V>& d, const DataField<V> factor,
                                    const DataField<V> inverse, const DataField<V> x) {
  solve_backward(m, d, factor, x);
  solve_forward(m, d, factor, inverse, x);
}

// result = D^1/2 L x, whose square is x' M x. `factor` is L; inverse_root has been computed.
template <class V>
MANIPLE_FUNCTION void multiply_by_root(const Model<ScalarOf<V>>& m, const Data<V>& d, const DataField<V> x,
                                       const DataField<V> result) {
  const DataField<V> factor = d.qM_factor;
  const int *const simple = m.dof_simple, *const parent = m.dof_parentid;
  for (const int i : d.team.share(m.nv)) {
    int address = m.dof_Madr[i];
    V sum = x[i];
    if (!simple[i])
      for (int j = parent[i]; j >= 0; j = parent[j]) sum = multiply_add(V(factor[++address]), V(x[j]), sum);
    result[i] = sum / d.inverse_root[i];
  }
}

// result = M x (mj_mulM).
template <class V>
MANIPLE_FUNCTION void multiply_inertia(const Model<ScalarOf<V>>& m, const Data<V>& d, const DataField<V> x,
                                       const DataField<V> result) {
  const DataField<V> qM = d.qM;
  const int *const simple = m.dof_simple, *const parent = m.dof_parentid;
  for (const int i : d.team.share(m.nv)) {
    int address = m.dof_Madr[i];
    V sum = qM[address] * x[i];
    if (!simple[i])
      for (int j = parent[i]; j >= 0; j = parent[j]) sum = multiply_add(V(qM[++address]), V(x[j]), sum);
    const int first = i + 1, depth = m.dof_ancestors[i], *const root = m.dof_Mrootadr + first;
    for (int b = 0; b < m.dof_descendants[i]; ++b)
      if (!simple[first + b]) sum = multiply_add(V(qM[root[b] - depth]), V(x[first + b]), sum);
    result[i] = sum;
  }
}

}  // namespace maniple
