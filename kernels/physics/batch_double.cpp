// The physics launches in double precision.
#include "kernels/physics/batch_inl.hpp"

namespace maniple {

MANIPLE_INSTANTIATE_PHYSICS_BATCH(double)
#ifdef MANIPLE_SCALAR_LANES
// for the host (src/driver/self_test_physics.cpp)
template bool step<double>(const Model<double>&, const State<double>&, const Data<double>&, StepRequest);
#endif

}  // namespace maniple
