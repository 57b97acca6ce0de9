// The task launches in double precision.
#include "kernels/tasks/batch_inl.hpp"

namespace maniple {

MANIPLE_INSTANTIATE_TASK_BATCH(double)
// between the physics' precision and that of learning
template void convert_tiles_batch(const TiledView<double>&, const TiledView<float>&);
template void convert_tiles_batch(const TiledView<float>&, const TiledView<double>&);

}  // namespace maniple
