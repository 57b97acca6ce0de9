// The physics of a register of environments in single precision.
#include "kernels/base/macros.hpp"

#ifndef MANIPLE_SCALAR_LANES
#include "kernels/physics/instantiate.hpp"

namespace maniple {
MANIPLE_INSTANTIATE_PHYSICS(Lanes<float>)
}  // namespace maniple
#endif
