// The part of derive_model() about tendons and actuators on sites: which of their rows depend on the pose and
// at which dofs, the constant ones, and sums over the actuators of a tendon.
#pragma once

#include "src/model_import/derive.hpp"

namespace maniple {

// Sets nJspatial and nmoment.
void count_tendons(const Model<double>& m, ModelSizes& sizes);

void derive_tendons(const Model<double>& m, const DerivedFields& derived);

// The flags of ModelFlag that are about tendons.
int tendon_flags(const Model<double>& m, const DerivedFields& derived);

}  // namespace maniple
