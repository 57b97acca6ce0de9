// Numbers that follow from the compiled model and are the same for all environments: matrices of constant
// frames, sums of joint and actuator damping, and flags that say what the lanes may skip. Computed once
// per import, in double precision, on the host.
#pragma once

#include "kernels/model/model.hpp"

namespace maniple {

// Where the derived fields are written; the import owns the memory, extents as in the table.
struct DerivedFields {
#define MANIPLE_INTEGER(name, extent, meaning) int* name = nullptr;
#define MANIPLE_REAL(name, extent, meaning) double* name = nullptr;
  MANIPLE_MODEL_DERIVED_FIELDS(MANIPLE_INTEGER, MANIPLE_REAL)
#undef MANIPLE_INTEGER
#undef MANIPLE_REAL
};

// A time in time steps that is a whole number of them up to rounding is that number: MuJoCo, which compares
// times, takes one step or the next then.
double in_time_steps(double steps);

// Sets the sizes of MANIPLE_ROW_SIZES.
void count_rows(const Model<double>& m, ModelSizes& sizes);
// Of these, sets those of the solvers' scratch, from the rows.
void size_solvers(const Model<double>& m, ModelSizes& sizes);

// Whether Newton's method, or its line search, may be cut off before it has converged. Measured with heaps of
// bodies: the result of 10 iterations is that of 100, the result of 20 evaluations in a line search that
// of 50.
inline bool has_few_iterations(const Model<double>& m) {
  return m.iterations < 20;
}
inline bool has_few_line_iterations(const Model<double>& m) {
  return m.ls_iterations < 20;
}
// Whether MuJoCo keeps the Jacobians of the model's rows sparse (mj_isSparse).
inline bool has_sparse_rows(const Model<double>& m) {
  return m.jacobian == jacobian_sparse || (m.jacobian == jacobian_auto && m.nv >= 60);
}
// Whether the model stops its solver so early that MuJoCo's results depend on its iterations. Those of
// Newton's method without islands are the same here.
inline bool stops_early(const Model<double>& m) {
  if (m.solver == solver_pgs) return false;
  const bool islands = m.ntree > 1 && !(m.disableflags & disable_island);
  return m.solver == solver_cg || (has_few_iterations(m) && islands) || has_few_line_iterations(m);
}

// Fills the derived fields and options of a model whose other fields are set. `m` keeps its own pointers.
void derive_model(Model<double>& m, const DerivedFields& derived);

}  // namespace maniple
