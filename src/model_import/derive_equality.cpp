#include "src/model_import/derive_equality.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "src/model_import/row_parameters.hpp"

namespace maniple {
namespace {

int rows_of_equality(int type) {
  return type == equality_connect ? 3 : type == equality_weld ? 6 : 1;
}

// The bodies of a connect or weld.
int body_of_equality(const Model<double>& m, int e, int side) {
  const int object = side == 0 ? m.eq_obj1id[e] : m.eq_obj2id[e];
  return m.eq_objtype[e] == object_site ? m.site_bodyid[object] : object;
}

// The dofs that the rows of an equality constraint are about, and what either object has to do with them: one
// where it moves the object, or its number in a tendon's row (none given: only the dofs are asked for).
std::map<int, std::array<double, 2>> equality_columns(const Model<double>& m, int e, const double* ten_rowJ) {
  std::map<int, std::array<double, 2>> columns;
  for (const std::size_t side : {0u, 1u}) {
    const int object = side == 0 ? m.eq_obj1id[e] : m.eq_obj2id[e];
    if (object < 0) continue;
    if (m.eq_type[e] == equality_joint) {
      columns[m.jnt_dofadr[object]][side] = 1;
    } else if (m.eq_type[e] == equality_tendon) {
      for (int k = m.ten_J_rowadr[object]; k < m.ten_J_rowadr[object] + m.ten_J_rownnz[object]; ++k)
        columns[m.ten_J_colind[k]][side] += ten_rowJ == nullptr ? 0 : ten_rowJ[k];
    } else {
      int body = body_of_equality(m, e, static_cast<int>(side));
      while (body > 0 && m.body_dofnum[body] == 0) body = m.body_parentid[body];
      if (body == 0) continue;
      for (int k = m.body_dofadr[body] + m.body_dofnum[body] - 1; k >= 0; k = m.dof_parentid[k])
        columns[k][side] = 1;
    }
  }
  return columns;
}

bool has_equality(const Model<double>& m) {
  return !(m.disableflags & (disable_constraint | disable_equality));
}

// The points and orientations that connect and weld hold, in the frames of the bodies.
void derive_held_frames(const Model<double>& m, const DerivedFields& derived, int e) {
  const bool weld = m.eq_type[e] == equality_weld, sites = m.eq_objtype[e] == object_site;
  const double* const data = m.eq_data + kEqualityData * e;
  for (int side = 0; side < 2; ++side) {
    double *const pos = derived.eq_pos + 3 * (2 * e + side), *const quat =
                                                                 derived.eq_quat + 4 * (2 * e + side);
    derived.eq_bodyid[2 * e + side] = body_of_equality(m, e, side);
    const double identity[4] = {1, 0, 0, 0};
    if (sites) {
      const int site = side == 0 ? m.eq_obj1id[e] : m.eq_obj2id[e];
      std::copy_n(m.site_pos + 3 * site, 3, pos);
      std::copy_n(m.site_quat + 4 * site, 4, quat);
    } else {
      // a weld has the anchor in the second body first
      std::copy_n(data + (weld == (side == 0) ? 3 : 0), 3, pos);
      std::copy_n(weld && side == 0 ? data + 6 : identity, 4, quat);
    }
  }
}

}  // namespace

void count_equality(const Model<double>& m, ModelSizes& sizes) {
  sizes.nequality = sizes.nJequality = 0;
  for (int e = 0; e < m.neq && has_equality(m); ++e) {
    const auto columns = static_cast<int>(equality_columns(m, e, nullptr).size());
    // what nothing moves has no rows
    const int rows = columns == 0 ? 0 : rows_of_equality(m.eq_type[e]);
    sizes.nequality += rows;
    sizes.nJequality += rows * columns;
  }
}

void derive_equality(const Model<double>& m, const DerivedFields& derived) {
  std::fill_n(derived.eq_rownum, m.neq, 0);
  std::fill_n(derived.eq_rowadr, m.neq, 0);
  std::fill_n(derived.eq_bodyid, 2 * m.neq, -1);
  std::fill_n(derived.eq_pos, 6 * m.neq, 0.0);
  std::fill_n(derived.eq_quat, 8 * m.neq, 0.0);
  int row = 0, at = 0;
  for (int e = 0; e < m.neq; ++e) {
    const RowParameters parameters = row_parameters(m, m.eq_solref + 2 * e, m.eq_solimp + 5 * e);
    derived.equality_K[e] = parameters.K;
    derived.equality_B[e] = parameters.B;
    std::copy_n(parameters.solimp, 5, derived.equality_solimp + 5 * e);
    if (!has_equality(m)) continue;
    const int type = m.eq_type[e];
    const bool fixes = type == equality_connect || type == equality_weld;
    if (fixes) derive_held_frames(m, derived, e);
    const auto columns = equality_columns(m, e, derived.ten_rowJ);
    derived.eq_rowadr[e] = row;
    derived.eq_rownum[e] = columns.empty() ? 0 : rows_of_equality(type);
    for (int k = 0; k < derived.eq_rownum[e]; ++k, ++row) {
      derived.equality_J_rowadr[row] = at;
      derived.equality_J_rownnz[row] = static_cast<int>(columns.size());
      for (const auto& [dof, coef] : columns) {
        derived.equality_J_colind[at] = dof;
        std::copy_n(coef.data(), 2, derived.equality_J_coef + 2 * at++);
      }
      double weight = 0;
      for (int side = 0; side < 2; ++side) {
        const int object = side == 0 ? m.eq_obj1id[e] : m.eq_obj2id[e];
        if (fixes)
          weight += m.body_invweight0[2 * derived.eq_bodyid[2 * e + side] + (k < 3 ? 0 : 1)];
        else if (object >= 0)
          weight +=
              type == equality_tendon ? m.tendon_invweight0[object] : m.dof_invweight0[m.jnt_dofadr[object]];
      }
      derived.equality_invweight[row] = weight;
    }
    // rows couple dofs, which then need their whole block of the inertia matrix
    for (const auto& [dof, coef] : columns)
      if (columns.size() > 1) derived.dof_simple[dof] = 0;
  }
}

}  // namespace maniple
