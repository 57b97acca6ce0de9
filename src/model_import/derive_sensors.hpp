// Sensors as the kernels see them: the frames that they read, and the contacts that concern contact sensors.
// A part of derive_model().
#pragma once

#include "src/model_import/derive.hpp"

namespace maniple {

// Sets the sizes of what only sensors have.
void count_sensors(const Model<double>& m, ModelSizes& sizes);

// Fills the derived fields of sensors; the geom pairs are there.
void derive_sensors(const Model<double>& m, const DerivedFields& derived);

}  // namespace maniple
