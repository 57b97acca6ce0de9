// The launches of physics and tasks in single precision as one file, in which functions that both call are
// compiled once.
#include "kernels/physics/batch_single.cpp"
#include "kernels/tasks/batch_single.cpp"
