// The physics of one environment in double precision, beside the registers of them that the program has.
#include "kernels/base/macros.hpp"

#ifndef MANIPLE_SCALAR_LANES
#include "kernels/physics/instantiate.hpp"

namespace maniple {
MANIPLE_INSTANTIATE_PHYSICS(double)
}  // namespace maniple
#endif
