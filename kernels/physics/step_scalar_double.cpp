// The physics of one environment in double precision: what `maniple doctor` and tests compare registers of
// them with.
#include "kernels/base/macros.hpp"

#ifndef MANIPLE_SCALAR_LANES
#include "kernels/physics/instantiate.hpp"

namespace maniple {
MANIPLE_INSTANTIATE_PHYSICS(double)
}  // namespace maniple
#endif
