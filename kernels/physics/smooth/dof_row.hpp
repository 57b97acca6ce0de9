// A row of numbers at some dofs: the Jacobian of a tendon's length, or the moment of an actuator that is not
// on a joint. The functions here serve rows that depend on the pose and constant ones alike.
#pragma once

#include "kernels/math/spatial.hpp"
#include "kernels/physics/smooth/motion.hpp"

namespace maniple {

// Number k is that of dof dofs[k], ascending: the same for all environments, or else in `own`.
template <class V>
struct DofRow {
  int count;
  const int* dofs;
  const ScalarOf<V>* uniform;
  DataField<V> own;

  MANIPLE_FUNCTION V operator[](int k) const { return uniform != nullptr ? V(uniform[k]) : V(own[k]); }
  template <class Field>
  MANIPLE_FUNCTION V times(const Field& x) const {
    V sum(0);
    for (int k = 0; k < count; ++k) sum += (*this)[k] * x[dofs[k]];
    return sum;
  }
  // result += row' force.
  template <class Field>
  MANIPLE_FUNCTION void add_force(V force, const Field& result) const {
    for (int k = 0; k < count; ++k) result[dofs[k]] += (*this)[k] * force;
  }
};

// Is the row of a dof kept diagonal in M - h*qDeriv: it is simple, as in M, and the integrator is not
// implicit, whose matrix has all elements.
template <class T>
MANIPLE_FUNCTION bool keeps_diagonal(const Model<T>& m, int dof) {
  return m.dof_simplenum[dof] > 0 && m.integrator != implicit;
}

// Adds scale * row' row to a matrix packed as qM. Such a matrix has no elements for dofs of different
// branches: as in MuJoCo, their products are left out, and so are those of simple dofs off the diagonal, in M
// (`of_inertia`) of all of them.
template <class V>
MANIPLE_FUNCTION void add_product(const Model<ScalarOf<V>>& m, const DofRow<V>& row, V scale,
                                  const DataField<V>& matrix, bool of_inertia = false) {
  for (int a = 0; a < row.count; ++a) {
    const int dof = row.dofs[a];
    const V factor = row[a] * scale;
    matrix[m.dof_Madr[dof]] += factor * row[a];
    if (of_inertia ? m.dof_simplenum[dof] > 0 : keeps_diagonal(m, dof)) continue;
    int address = m.dof_Madr[dof], ancestor = dof;
    for (int b = a - 1; b >= 0; --b) {
      while (ancestor > row.dofs[b]) {
        ancestor = m.dof_parentid[ancestor];
        ++address;
      }
      if (ancestor == row.dofs[b]) matrix[address] += factor * row[b];
    }
  }
}

// The same to the block of the six dofs from `dof` on, a full matrix.
template <class V>
MANIPLE_FUNCTION void add_product_to_block(const DofRow<V>& row, V scale, int dof, V (&block)[36]) {
  for (int a = 0; a < row.count; ++a)
    for (int b = 0; b < row.count; ++b) {
      const int i = row.dofs[a] - dof, j = row.dofs[b] - dof;
      if (i >= 0 && i < 6 && j >= 0 && j < 6) block[6 * i + j] += scale * row[a] * row[b];
    }
}

// Adds to a row of the pose what a force at `point` of a body, and a torque on it, do to its dofs, up to but
// not including `last_ancestor` (-1: all of them).
template <class V>
MANIPLE_FUNCTION void add_pull(const Model<ScalarOf<V>>& m, const Data<V>& d, const DofRow<V>& row, int body,
                               const Vec3<V>& point, const Vec3<V>& force, const Vec3<V>& torque,
                               int last_ancestor = -1) {
  int dof = m.body_lastdof[body];
  if (dof < 0) return;
  const Vec3<V> turning = torque + cross(from_tree_center(m, d, body, point), force);
  for (int k = row.count - 1; dof != last_ancestor; dof = m.dof_parentid[dof]) {
    while (row.dofs[k] > dof) --k;
    row.own[k] += dot(load3<V>(d.cdof, 6 * dof), turning) + dot(load3<V>(d.cdof, 6 * dof + 3), force);
  }
}

}  // namespace maniple
