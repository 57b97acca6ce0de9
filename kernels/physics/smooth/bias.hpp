// Coriolis, centrifugal and gravity forces by the recursive Newton-Euler algorithm without accelerations
// (mj_rne with flg_acc = 0; Featherstone, "Rigid Body Dynamics Algorithms", 2008, chapter 5).
#pragma once

#include "kernels/math/spatial.hpp"
#include "kernels/model/lane_model.hpp"

namespace maniple {

// Writes cacc_bias, cfrc_body, qfrc_bias.
template <class V>
MANIPLE_FUNCTION void bias_forces(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const int nbody = m.nbody, nv = m.nv;
  // gravity enters as an upward acceleration of the world
  const bool gravity = !(m.disableflags & disable_gravity);
  store6(d.cacc_bias, 0,
         Spatial<V>{zero3<V>(), gravity ? -LaneModel<V>(m, s).gravity().vector(0) : zero3<V>()});
  store6(d.cfrc_body, 0, zero6<V>());
  for (int i = 1; i < nbody; ++i) {
    Spatial<V> cacc = load6<V>(d.cacc_bias, 6 * m.body_parentid[i]);
    const int dof = m.body_dofadr[i];
    for (int k = dof; k < dof + m.body_dofnum[i]; ++k) {
      if (!m.dof_translation[k]) cacc.rot = multiply_add(V(s.qvel[k]), load3<V>(d.cdof_dot, 6 * k), cacc.rot);
      cacc.lin = multiply_add(V(s.qvel[k]), load3<V>(d.cdof_dot, 6 * k + 3), cacc.lin);
    }
    store6(d.cacc_bias, 6 * i, cacc);
    if (m.body_flags[i] & body_massless) {
      store6(d.cfrc_body, 6 * i, zero6<V>());
      continue;
    }
    const Inertia<V> inertia = load10<V>(d.cinert, 10 * i);
    const Spatial<V> cvel = load6<V>(d.cvel, 6 * i);
    store6(d.cfrc_body, 6 * i, inertia * cacc + cross_force(cvel, inertia * cvel));
  }
  for (int i = nbody - 1; i > 0; --i) {
    const int parent = m.body_parentid[i];
    if (parent > 0)
      store6(d.cfrc_body, 6 * parent, load6<V>(d.cfrc_body, 6 * parent) + load6<V>(d.cfrc_body, 6 * i));
  }
  for (int k = 0; k < nv; ++k) {
    const int body = m.dof_bodyid[k];
    V force = dot(load3<V>(d.cdof, 6 * k + 3), load3<V>(d.cfrc_body, 6 * body + 3));
    if (!m.dof_translation[k]) force += dot(load3<V>(d.cdof, 6 * k), load3<V>(d.cfrc_body, 6 * body));
    d.qfrc_bias[k] = force;
  }
}

}  // namespace maniple
