// The numbers of a constraint row from solref and solimp of an element (getsolparam and mj_makeImpedance of
// engine_core_constraint.c). Host only.
#pragma once

#include <cmath>

#include "kernels/math/minimum_value.hpp"
#include "kernels/model/model.hpp"

namespace maniple {

// Impedance within its bounds; stiffness K [1/s^2] and damping B [1/s] of the reference acceleration.
struct RowParameters {
  double solimp[5], K, B;
};

inline RowParameters row_parameters(const Model<double>& m, const double* solref, const double* solimp) {
  constexpr double smallest = 0.0001, largest = 0.9999;
  RowParameters row;
  const auto bounded = [](double x) { return std::fmin(largest, std::fmax(smallest, x)); };
  for (const int k : {0, 1, 3}) row.solimp[k] = bounded(solimp[k]);
  row.solimp[2] = std::fmax(0.0, solimp[2]);
  row.solimp[4] = std::fmax(1.0, solimp[4]);
  double ref[2] = {solref[0], solref[1]};
  if ((ref[0] > 0) != (ref[1] > 0)) {  // neither format: MuJoCo takes the default
    ref[0] = 0.02;
    ref[1] = 1;
  }
  if (!(m.disableflags & disable_refsafe) && ref[0] > 0) ref[0] = std::fmax(ref[0], 2 * m.timestep);
  const double width = row.solimp[1];
  row.K = ref[0] > 0 ? 1 / std::fmax(kMinimumValue, width * width * ref[0] * ref[0] * ref[1] * ref[1])
                     : -ref[0] / std::fmax(kMinimumValue, width * width);
  row.B =
      ref[1] > 0 ? 2 / std::fmax(kMinimumValue, width * ref[0]) : -ref[1] / std::fmax(kMinimumValue, width);
  return row;
}

}  // namespace maniple
