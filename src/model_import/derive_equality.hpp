// Equality constraints as the kernels see them: how many rows they have, which dofs these are about, and the
// frames that connects and welds hold. A part of derive_model().
#pragma once

#include "src/model_import/derive.hpp"

namespace maniple {

// Sets nequality and nJequality.
void count_equality(const Model<double>& m, ModelSizes& sizes);

// Fills the derived fields of equality constraints; the bodies' and the tendons' are there.
void derive_equality(const Model<double>& m, const DerivedFields& derived);

}  // namespace maniple
