// The contacts and constraint rows of one environment, from the kernels' scratch and from libmujoco, in
// MuJoCo's order and with the pyramids' edges written out.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/physics/constraint/contact_force.hpp"
#include "tests/reference/batch_under_test.hpp"

namespace maniple {

// The contacts and rows of one environment, as MuJoCo lists them.
struct Rows {
  std::vector<int> geom1, geom2;  // [ncon]
  Numbers dist, pos, frame;       // [ncon], [ncon, 3], [ncon, 9]
  Numbers D, aref, J, force;      // [nefc], [nefc], [nefc, nv], [nefc]
};

// The rows of a contact of ConeRows, as add(J, D, aref, force): MuJoCo does not scale those of a cone.
template <class V, class Add>
void add_cone(const Model<ScalarOf<V>>& m, const Data<V>& d, int slot, int lane, const Numbers& zero,
              const Add& add) {
  const auto at = [lane](const V& value) { return static_cast<double>(get_lane(value, lane)); };
  const int rows = m.contactdim, dim = static_cast<int>(at(d.contact_dim[slot]));
  const int kind = m.geompair_class[static_cast<int>(at(d.contact_geompair[slot]))];
  const double D = at(d.contact_D[slot]), mu = at(d.contact_mu[slot]);
  const auto base = [&](int row, double factor, Numbers& jacobian) {
    for (int k = slot * m.nv; k < slot * m.nv + d.slot_dofnum[slot]; ++k)
      jacobian[static_cast<std::size_t>(d.slot_dof[k])] += factor * at(d.contact_J[rows * k + row]);
  };
  const auto aref = [&](int row) { return at(d.contact_aref[rows * slot + row]); };
  const ConeRow<V> jar = load_cone<V>(d.contact_jar, slot, rows), force = contact_force(m, d, slot);
  if (dim == 1 || m.cone == cone_elliptic) {
    for (int row = 0; row < dim; ++row) {
      const double friction = row == 0 ? 1 : m.contactclass_friction[5 * kind + row - 1];
      Numbers jacobian = zero;
      base(row, 1 / friction, jacobian);
      add(jacobian, row == 0 ? D : D * friction * friction / (mu * mu), aref(row) / friction,
          friction * at(force.x[row]));
    }
    return;
  }
  for (int row = 1; row < dim; ++row)
    for (const int sign : {1, -1}) {
      Numbers jacobian = zero;
      base(0, 1, jacobian);
      base(row, sign, jacobian);
      const double plus = -D * std::min(0.0, at(jar.x[0]) + at(jar.x[row])),
                   minus = -D * std::min(0.0, at(jar.x[0]) - at(jar.x[row]));
      add(jacobian, D, aref(0) + sign * aref(row), 0.5 * (plus + minus + sign * at(force.x[row])));
    }
}

// Of one lane after forward(): rows that act, those of equality constraints first.
template <class V>
Rows rows_of(const Model<ScalarOf<V>>& m, const ImportedModel& imported, const Data<V>& d,
             const Numbers& qvel, int lane) {
  const auto at = [lane](const V& value) { return static_cast<double>(get_lane(value, lane)); };
  Rows rows;
  const auto add = [&](const Numbers& jacobian, double D, double aref, double force) {
    rows.D.push_back(D);
    rows.aref.push_back(aref);
    rows.force.push_back(force);
    rows.J.insert(rows.J.end(), jacobian.begin(), jacobian.end());
  };
  const Numbers zero(static_cast<std::size_t>(m.nv), 0.0);
  const auto add_tendon = [&](Numbers& jacobian, int t, double factor) {
    for (int k = t < 0 ? 0 : m.ten_J_rowadr[t], first = k, end = t < 0 ? 0 : k + m.ten_J_rownnz[t]; k < end;
         ++k)
      jacobian[static_cast<std::size_t>(m.ten_J_colind[k])] +=
          factor * (m.ten_J_spatialadr[t] < 0 ? imported.ten_rowJ[static_cast<std::size_t>(k)]
                                              : at(d.ten_J[m.ten_J_spatialadr[t] + k - first]));
  };
  for (int r = 0; r < m.nequality; ++r) {
    // constraints that are active in no lane are not even written
    const double D = at(d.equality_D[r]);
    if (!(D > 0)) continue;
    Numbers jacobian = zero;
    for (int k = m.equality_J_rowadr[r], end = k + m.equality_J_rownnz[r]; k < end; ++k)
      jacobian[static_cast<std::size_t>(m.equality_J_colind[k])] = at(d.equality_J[k]);
    add(jacobian, D, at(d.equality_aref[r]),
        m.solver == solver_pgs ? at(d.row_force[first_row<EqualityRows<V>>(m) + r])
                               : -D * at(d.equality_jar[r]));
  }
  for (int r = 0; r < m.nfriction; ++r) {
    Numbers jacobian = zero;
    if (m.friction_dofid[r] >= 0) jacobian[static_cast<std::size_t>(m.friction_dofid[r])] = 1;
    add_tendon(jacobian, m.friction_tendonid[r], 1);
    if (!(m.flags & model_sparse_rows) && largest(jacobian) == 0) continue;
    const double D = imported.friction_D[static_cast<std::size_t>(r)];
    const double loss = imported.friction_loss[static_cast<std::size_t>(r)];
    double jar = 0, velocity = 0;
    for (std::size_t i = 0; i < jacobian.size(); ++i) {
      jar += jacobian[i] * at(d.qacc[static_cast<int>(i)]);
      velocity += jacobian[i] * qvel[i];
    }
    const double aref = -imported.friction_B[static_cast<std::size_t>(r)] * velocity;
    double force = std::clamp(-D * (jar - aref), -loss, loss);
    if (m.solver == solver_pgs) force = at(d.row_force[first_row<FrictionRows<V>>(m) + r]);
    if (m.nnosliprow > 0) force = at(d.noslip_force[r]);
    add(jacobian, D, aref, force);
  }
  const int nlimit = static_cast<int>(at(d.nefc[0])) > 0 ? m.nlimit : 0;
  for (int r = 0; r < nlimit; ++r) {
    // rows that act in no lane are not even written
    const double D = at(d.limit_D[r]);
    if (!(D > 0)) continue;
    Numbers jacobian = zero;
    const auto dof = static_cast<std::size_t>(m.limit_dofid[r]);
    if (m.limit_tendonid[r] >= 0) {
      add_tendon(jacobian, m.limit_tendonid[r], m.limit_side[r]);
    } else if (m.limit_ballid[r] < 0) {
      jacobian[dof] = m.limit_side[r];
    } else {
      for (std::size_t k = 0; k < 3; ++k)
        jacobian[dof + k] = -at(d.limit_axis[3 * m.limit_ballid[r] + static_cast<int>(k)]);
    }
    add(jacobian, D, at(d.limit_aref[r]),
        m.solver == solver_pgs ? at(d.row_force[first_row<LimitRows<V>>(m) + r])
                               : std::max(0.0, -D * at(d.limit_jar[r])));
  }
  const int ncon = static_cast<int>(at(d.ncon[0]));
  for (int slot = 0; slot < ncon; ++slot) {
    const auto geompair = static_cast<int>(at(d.contact_geompair[slot]));
    rows.geom1.push_back(m.geompair_geom1[geompair]);
    rows.geom2.push_back(m.geompair_geom2[geompair]);
    rows.dist.push_back(at(d.contact_dist[slot]));
    for (int k = 0; k < 3; ++k) rows.pos.push_back(at(d.contact_pos[3 * slot + k]));
    const Vec3<V> normal = load3<V>(d.contact_frame, 6 * slot);
    Vec3<V> tangent = load3<V>(d.contact_frame, 6 * slot + 3), other;
    contact_tangents(normal, tangent, other);
    const Vec3<V> frame[] = {normal, tangent, other};
    for (const Vec3<V>& axis : frame)
      rows.frame.insert(rows.frame.end(), {at(axis.x), at(axis.y), at(axis.z)});
    const double D = at(d.contact_D[slot]);
    if (D == 0) continue;
    if (m.ncone > 0) {
      add_cone(m, d, slot, lane, zero, add);
      continue;
    }
    Numbers base[3] = {zero, zero, zero};
    double aref[3];
    const Edges<V> force = edge_forces(m, d, slot);
    for (int k = 0; k < d.slot_dofnum[slot]; ++k)
      for (int row = 0; row < 3; ++row)
        if (row == 0 || (d.slot_tangents[slot] & row) != 0)
          base[row][static_cast<std::size_t>(d.slot_dof[slot * m.nv + k])] =
              at(d.contact_J[3 * (slot * m.nv + k) + row]);
    for (int row = 0; row < 3; ++row) aref[row] = at(d.contact_aref[3 * slot + row]);
    const bool frictionless = m.contactclass_condim[m.geompair_class[geompair]] == 1;
    if (frictionless) {
      add(base[0], 4 * D, aref[0], 4 * at(force.value[0]));
      continue;
    }
    for (int edge = 0; edge < 4; ++edge) {
      const int row = edge < 2 ? 1 : 2, sign = edge % 2 == 0 ? 1 : -1;
      Numbers jacobian = base[0];
      for (std::size_t k = 0; k < jacobian.size(); ++k)
        jacobian[k] += sign * base[static_cast<std::size_t>(row)][k];
      add(jacobian, D, aref[0] + sign * aref[row], at(force.value[edge]));
    }
  }
  return rows;
}

// Of libmujoco after mj_forward.
inline Rows rows_of(const mjModel& m, mjData* d) {
  Rows rows;
  for (int i = 0; i < d->ncon; ++i) {
    const mjContact& contact = d->contact[i];
    rows.geom1.push_back(contact.geom[0]);
    rows.geom2.push_back(contact.geom[1]);
    rows.dist.push_back(contact.dist);
    rows.pos.insert(rows.pos.end(), contact.pos, contact.pos + 3);
    rows.frame.insert(rows.frame.end(), contact.frame, contact.frame + 9);
  }
  rows.D.assign(d->efc_D, d->efc_D + d->nefc);
  rows.aref.assign(d->efc_aref, d->efc_aref + d->nefc);
  rows.force.assign(d->efc_force, d->efc_force + d->nefc);
  Numbers unit(static_cast<std::size_t>(m.nv)), column(static_cast<std::size_t>(d->nefc));
  rows.J.resize(static_cast<std::size_t>(m.nv) * column.size());
  for (std::size_t j = 0; j < unit.size(); ++j) {
    std::fill(unit.begin(), unit.end(), 0.0);
    unit[j] = 1;
    mj_mulJacVec(&m, d, column.data(), unit.data());
    for (std::size_t i = 0; i < column.size(); ++i) rows.J[i * unit.size() + j] = column[i];
  }
  return rows;
}

// What the solver minimizes, of an acceleration: libmujoco's rows and costs, after mj_forward.
inline double cost_of(const mjModel& m, mjData* d, const Numbers& qacc) {
  Numbers jar(static_cast<std::size_t>(d->nefc)), Ma(qacc.size());
  mj_mulJacVec(&m, d, jar.data(), qacc.data());
  for (std::size_t i = 0; i < jar.size(); ++i) jar[i] -= d->efc_aref[i];
  mjtNum result;
  mj_constraintUpdate(&m, d, jar.data(), &result, 0);
  mj_mulM(&m, d, Ma.data(), qacc.data());
  for (std::size_t i = 0; i < qacc.size(); ++i)
    result += 0.5 * (Ma[i] - d->qfrc_smooth[i]) * (qacc[i] - d->qacc_smooth[i]);
  return result;
}

// The gradient of this cost, and its length where a force is as long as the acceleration that it makes: in
// the norm of M, in which the cost curves by 1 at least, the solution is no further away than that.
struct Gradient {
  Numbers value;
  double length;
};
inline Gradient gradient_of(const mjModel& m, mjData* d, const Numbers& qacc) {
  Numbers jar(static_cast<std::size_t>(d->nefc)), change(qacc.size());
  Gradient gradient{Numbers(qacc.size()), 0};
  mj_mulJacVec(&m, d, jar.data(), qacc.data());
  for (std::size_t i = 0; i < jar.size(); ++i) jar[i] -= d->efc_aref[i];
  mj_constraintUpdate(&m, d, jar.data(), nullptr, 0);
  mj_mulM(&m, d, gradient.value.data(), qacc.data());
  for (std::size_t i = 0; i < qacc.size(); ++i)
    gradient.value[i] -= d->qfrc_smooth[i] + d->qfrc_constraint[i];
  mj_solveM(&m, d, change.data(), gradient.value.data(), 1);
  double square = 0;
  for (std::size_t i = 0; i < qacc.size(); ++i) square += change[i] * gradient.value[i];
  gradient.length = std::sqrt(std::max(square, 0.0));
  return gradient;
}
// The length of an acceleration in the norm of M.
inline double length_of(const mjModel& m, mjData* d, const Numbers& qacc) {
  Numbers Ma(qacc.size());
  mj_mulM(&m, d, Ma.data(), qacc.data());
  double square = 0;
  for (std::size_t i = 0; i < qacc.size(); ++i) square += qacc[i] * Ma[i];
  return std::sqrt(std::max(square, 0.0));
}

}  // namespace maniple
