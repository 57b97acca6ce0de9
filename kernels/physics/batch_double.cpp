// The physics launches in double precision.
#include "kernels/physics/batch_inl.hpp"

namespace maniple {

MANIPLE_INSTANTIATE_PHYSICS_BATCH(double)

}  // namespace maniple
