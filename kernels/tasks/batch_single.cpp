// The task launches in single precision.
#include "kernels/tasks/batch_inl.hpp"

namespace maniple {

MANIPLE_INSTANTIATE_TASK_BATCH(float)

}  // namespace maniple
