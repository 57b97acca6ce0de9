// The part of derive.hpp that is about contacts: geom pairs with their parameters, and which dofs each
// of them moves.
#pragma once

#include "kernels/model/dof_set.hpp"
#include "src/model_import/derive.hpp"

namespace maniple {

void matrix_of_quaternion(const double* q, double* mat);

// Sets ngeompair, ncontactclass, ncontact, nrowcontact, ndofword and ncontactdof. `sizes.ncontact` comes
// with the capacity that the user chose; 0 asks for one from the model.
void count_contacts(const Model<double>& m, ModelSizes& sizes);

// Contacts of an environment in which every pair of geoms that may touch does, at as many points as it can.
int most_contacts(const Model<double>& m);

void derive_contacts(const Model<double>& m, const DerivedFields& derived);

}  // namespace maniple
