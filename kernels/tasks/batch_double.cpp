// The task launches in double precision.
#include "kernels/tasks/batch_inl.hpp"

namespace maniple {

MANIPLE_INSTANTIATE_TASK_BATCH(double)

}  // namespace maniple
