// The physics launches in single precision.
#include "kernels/physics/batch_inl.hpp"

namespace maniple {

MANIPLE_INSTANTIATE_PHYSICS_BATCH(float)
#ifdef MANIPLE_SCALAR_LANES
// for the host (src/driver/self_test_physics.cpp)
template bool step<float>(const Model<float>&, const State<float>&, const Data<float>&, StepRequest);
#endif

}  // namespace maniple
