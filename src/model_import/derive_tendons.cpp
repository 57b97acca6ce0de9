#include "src/model_import/derive_tendons.hpp"

#include <algorithm>
#include <set>

#include "kernels/physics/smooth/transmission.hpp"
#include "src/model_import/actuator_totals.hpp"
#include "src/model_import/geom_pairs.hpp"

namespace maniple {
namespace {

bool leads_over_sites(const Model<double>& m, int t) {
  return m.wrap_type[m.tendon_adr[t]] != wrap_joint;
}

// The dofs in the row of actuator i: those that move its sites, or its body and what this may touch; none if
// it acts on something else.
std::set<int> dofs_of_moment(const Model<double>& m, int i) {
  std::set<int> dofs;
  const auto add = [&](int body) {
    while (body > 0 && m.body_dofnum[body] == 0) body = m.body_parentid[body];
    if (body == 0) return;
    for (int dof = m.body_dofadr[body] + m.body_dofnum[body] - 1; dof >= 0; dof = m.dof_parentid[dof])
      dofs.insert(dof);
  };
  const ObjectType object = transmission_object(m.actuator_trntype[i]);
  if (object == object_site)
    for (const int k : {0, 1})
      if (const int site = m.actuator_trnid[2 * i + k]; site >= 0) add(m.site_bodyid[site]);
  if (object != object_body) return dofs;
  for (const GeomPair& pair : geom_pairs(m, m.disableflags)) {
    const int bodies[2] = {m.geom_bodyid[pair.geom1], m.geom_bodyid[pair.geom2]};
    if (bodies[0] != m.actuator_trnid[2 * i] && bodies[1] != m.actuator_trnid[2 * i]) continue;
    add(bodies[0]);
    add(bodies[1]);
  }
  return dofs;
}

// The constant Jacobian of fixed tendon t; zeros for a spatial one. A joint that is several times on a tendon
// has several numbers, of which MuJoCo's first is their sum and the others are zero. Where its rows are dense
// (mj_isSparse), it copies number by number, so that the last one stays.
void derive_jacobian(const Model<double>& m, const DerivedFields& derived, int t) {
  const bool sparse = has_sparse_rows(m);
  const int first = m.ten_J_rowadr[t], end = first + m.ten_J_rownnz[t];
  for (int k = first; k < end; ++k) {
    derived.ten_J[k] = derived.ten_rowJ[k] = 0;
    if (leads_over_sites(m, t) || (k > first && m.ten_J_colind[k] == m.ten_J_colind[k - 1])) continue;
    for (int w = m.tendon_adr[t]; w < m.tendon_adr[t] + m.tendon_num[t]; ++w)
      if (m.jnt_dofadr[m.wrap_objid[w]] == m.ten_J_colind[k]) derived.ten_J[k] += m.wrap_prm[w];
    const bool several = k + 1 < end && m.ten_J_colind[k + 1] == m.ten_J_colind[k];
    if (sparse || !several) derived.ten_rowJ[k] = derived.ten_J[k];
  }
}

// The sums of damping and armature over tendon t and its actuators.
void derive_totals(const Model<double>& m, const DerivedFields& derived, int t) {
  ActuatorTotals total{m.tendon_armature[t],
                       m.tendon_damping[t],
                       {m.tendon_dampingpoly[2 * t], m.tendon_dampingpoly[2 * t + 1]}};
  total.add_actuators(m, [&](int k) { return is_on_tendon(m, k, t); });
  derived.tendon_totalarmature[t] = total.armature;
  derived.tendon_totaldamping[t] = total.damping;
  std::copy_n(total.dampingpoly, 2, derived.tendon_totaldampingpoly + 2 * t);
}

}  // namespace

void count_tendons(const Model<double>& m, ModelSizes& sizes) {
  sizes.nJspatial = sizes.nmoment = 0;
  for (int t = 0; t < m.ntendon; ++t)
    if (leads_over_sites(m, t)) sizes.nJspatial += m.ten_J_rownnz[t];
  for (int i = 0; i < m.nactuator; ++i) sizes.nmoment += static_cast<int>(dofs_of_moment(m, i).size());
}

void derive_tendons(const Model<double>& m, const DerivedFields& derived) {
  int spatial = 0, moment = 0;
  for (int t = 0; t < m.ntendon; ++t) {
    derived.ten_J_spatialadr[t] = leads_over_sites(m, t) ? spatial : -1;
    if (leads_over_sites(m, t)) spatial += m.ten_J_rownnz[t];
    derive_jacobian(m, derived, t);
    derive_totals(m, derived, t);
  }
  for (int i = 0; i < m.nactuator; ++i) {
    const std::set<int> dofs = dofs_of_moment(m, i);
    const bool has_row = has_moment_row(transmission_object(m.actuator_trntype[i]));
    derived.moment_rowadr[i] = has_row ? moment : -1;
    derived.moment_rownnz[i] = static_cast<int>(dofs.size());
    std::copy(dofs.begin(), dofs.end(), derived.moment_colind + moment);
    moment += static_cast<int>(dofs.size());
  }
}

int tendon_flags(const Model<double>& m, const DerivedFields& derived) {
  const auto any = [](double linear, const double* poly) {
    return linear != 0 || poly[0] != 0 || poly[1] != 0;
  };
  int flags = 0;
  for (int t = 0; t < m.ntendon; ++t) {
    if (any(m.tendon_stiffness[t], m.tendon_stiffnesspoly + 2 * t)) flags |= model_tendon_springs;
    if (any(derived.tendon_totaldamping[t], derived.tendon_totaldampingpoly + 2 * t))
      flags |= model_tendon_dampers;
    if (m.tendon_actfrclimited[t]) flags |= model_tendon_actfrclimited;
    if (derived.tendon_totalarmature[t] != 0) flags |= model_tendon_armature;
  }
  if (m.disableflags & disable_spring) flags &= ~model_tendon_springs;
  if (m.disableflags & disable_damper) flags &= ~model_tendon_dampers;
  return flags;
}

}  // namespace maniple
