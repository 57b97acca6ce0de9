// The only access to MPI itself, for src/parallel. All other code of the program uses Collectives.
#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1  // the C++ bindings that MPI 3 removed only bring warnings
#endif
#include <mpi.h>

#include <memory>
#include <string>

#include "src/parallel/collectives.hpp"

namespace maniple {

// Throws Error with MPI's own words when `code` is not MPI_SUCCESS; `what` says what was tried.
void check_mpi(int code, const char* what);

// Implemented by every Collectives that stands on an MPI communicator.
class CommunicatorOwner {
 public:
  virtual ~CommunicatorOwner() = default;
  virtual MPI_Comm communicator() const = 0;
};

// The communicator behind a Collectives; MPI_COMM_SELF for a single rank without one.
MPI_Comm mpi_communicator(const Collectives& collectives);

// Collectives over a duplicate of `communicator`, which the object owns. Collective call.
std::unique_ptr<Collectives> make_mpi_collectives(MPI_Comm communicator);

}  // namespace maniple
