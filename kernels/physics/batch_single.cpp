// The physics launches in single precision.
#include "kernels/physics/batch_inl.hpp"

namespace maniple {

MANIPLE_INSTANTIATE_PHYSICS_BATCH(float)

}  // namespace maniple
