// Inverse dynamics (mj_inverse): which forces from outside an acceleration takes. The rows of constraints are
// those of the forward dynamics, which comes before.
#pragma once

#include "kernels/physics/solver/primal_solver.hpp"

namespace maniple {

// Writes qfrc_inverse [nv]: M qacc + qfrc_bias - qfrc_passive - J' force, where the constraints push with the
// force of their laws at J qacc - aref. That of the acceleration of a converged solver is what actuators and
// applied forces do. Of the solver's scratch it changes `search` and what follows from it.
template <class V>
MANIPLE_SUBSTAGE void inverse_dynamics(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                       const ActiveRows& rows) {
  multiply_inertia(m, d, d.qacc, d.qfrc_inverse);
  for (const int i : d.team.share(m.nv))
    d.qfrc_inverse[i] = d.qfrc_passive[i] - d.qfrc_bias[i] - d.qfrc_inverse[i];
  if (m.nrowdof > 0) {
    for (const int i : d.team.share(m.nv)) d.search[i] = d.qacc[i];
    const TreeDofs<V> dofs(m, d);
    RowFamilies::for_each<V>(m, d, rows, [&](const auto& family) MANIPLE_INLINE_LAMBDA {
      family.evaluate_change(dofs);
      for (int i = 0; i < family.count(); ++i)
        family.add_force(i, family.law(i).force(family.change(i) - family.aref(i)), d.qfrc_inverse);
    });
  }
  for (const int i : d.team.share(m.nv)) d.qfrc_inverse[i] = -d.qfrc_inverse[i];
}

}  // namespace maniple
