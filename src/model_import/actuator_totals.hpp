// Armature and damping of a dof or a tendon together with what its actuators add. Part of derive_model.
#pragma once

#include "kernels/model/model.hpp"

namespace maniple {

struct ActuatorTotals {
  double armature, damping, dampingpoly[2];

  // Those of the actuators i for which is_on(i), by the square of their gear.
  template <class IsOn>
  void add_actuators(const Model<double>& m, const IsOn& is_on) {
    for (int k = 0; k < m.nactuator; ++k) {
      if (!is_on(k)) continue;
      const double gear2 = m.actuator_gear[6 * k] * m.actuator_gear[6 * k];
      armature += m.actuator_armature[k] * gear2;
      damping += m.actuator_damping[k] * gear2;
      for (int i = 0; i < 2; ++i) dampingpoly[i] += m.actuator_dampingpoly[2 * k + i] * gear2;
    }
  }
};

}  // namespace maniple
