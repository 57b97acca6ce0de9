// The physics in single precision: one register of environments, and one environment for tests.
#include "kernels/base/macros.hpp"

#ifndef MANIPLE_SCALAR_LANES
#include "kernels/physics/instantiate.hpp"

namespace maniple {
MANIPLE_INSTANTIATE_PHYSICS(Lanes<float>)
MANIPLE_INSTANTIATE_PHYSICS(float)
}  // namespace maniple
#endif
