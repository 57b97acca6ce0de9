// Whether the launcher and MPI agree on the number of ranks. They do not where the launcher speaks another
// dialect than the MPI library: it then starts many programs of one rank each.
#pragma once

#include <string>

namespace maniple {

// Empty, or why this start is not the one that was asked for: the launcher's variables in the environment (of
// srun, Open MPI's and MPICH's mpirun, and PALS) name more processes than the one rank that MPI sees.
std::string separate_ranks_error(int mpi_size);

}  // namespace maniple
