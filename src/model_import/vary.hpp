// Models whose environments differ: which fields each environment has for itself, where these numbers are in
// its state, and which other numbers follow from them.
#pragma once

#include <string>
#include <vector>

#include "kernels/model/field_info.hpp"
#include "src/model_import/import.hpp"

namespace maniple {

// A field that may vary, with its numbers in the model, [row][numbers of a row that vary].
struct VaryingField {
  std::string name, unit, description;
  FieldElement element = FieldElement::none;  // what its rows are of
  int row = 1;                                // numbers of a row
  std::vector<double> values;                 // in the model
  int VariedOffsets::*offset = nullptr;
};
std::vector<VaryingField> varying_fields(const ImportedModel& model);

// Whether no other number of the model follows from a field of varying_fields()
// (kernels/physics/set_const.hpp).
bool stands_alone(const ImportedModel& model, const std::string& field);

// "PID servo 'arm'" or "DC motor 'arm'" if the model has an actuator for which all environments share this
// field: its numbers decide which activations there are. "": none.
std::string actuator_that_keeps(const ImportedModel& model, const std::string& field);

// Numbers of this field are at least 0 in any model that can be stepped.
bool is_not_negative(const std::string& field);

// Gives each environment its own values of these fields, names of varying_fields(), and of what follows from
// them. Sets sizes, flags and model_values; the model is as it was where there are none.
void vary_model(ImportedModel& model, const std::vector<std::string>& fields, const SourceLocation& where);

// Of these fields, those whose numbers leave what follows from them as it is in the model, in all of these
// environments: rows of model_values, [environment][nmodelvalue], up to the rounding of single precision.
std::vector<std::string> fields_without_effect(const ImportedModel& model,
                                               const std::vector<std::string>& fields,
                                               const std::vector<double>& rows);

// Elements of model_values that are fields of varying_fields(); what follows from them comes after.
int varied_elements(const ModelSizes& sizes);

}  // namespace maniple
