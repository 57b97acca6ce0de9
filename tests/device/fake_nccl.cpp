// NCCL without devices: sums over MPI of memory that stands in for a device's.
#include <mpi.h>
#include <nccl.h>

#include <cstring>

#include "tests/device/fake_memory.hpp"
#include "tests/device/fake_trace.hpp"

using maniple::fake::Memory;
using maniple::fake::refuse;
using maniple::fake::Trace;

// What the opaque type of nccl.h stands for.
struct ncclComm {
  MPI_Comm members = MPI_COMM_NULL;
};

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  // the ranks that get the same number, in whatever communicator, belong together
  static int made = 0;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::memset(id, 0, sizeof *id);
  const int numbers[2] = {rank, ++made};
  std::memcpy(id, numbers, sizeof numbers);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  // each member tells the others where it is by way of the rank that made the number
  int numbers[2] = {}, world_rank = 0;
  std::memcpy(numbers, &id, sizeof numbers);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  int* const members = new int[static_cast<std::size_t>(ranks)]();
  members[rank] = world_rank;
  const int tag = 1000 + numbers[1] % 1000;
  if (world_rank == numbers[0]) {
    for (int other = 0; other < ranks - 1; ++other) {
      int place[2];
      MPI_Recv(place, 2, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      members[place[0]] = place[1];
    }
    for (int other = 0; other < ranks; ++other)
      if (members[other] != world_rank)
        MPI_Send(members, ranks, MPI_INT, members[other], tag, MPI_COMM_WORLD);
  } else {
    const int place[2] = {rank, world_rank};
    MPI_Send(place, 2, MPI_INT, numbers[0], tag, MPI_COMM_WORLD);
    MPI_Recv(members, ranks, MPI_INT, numbers[0], tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  *communicator = new ncclComm;
  MPI_Group world, group;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, ranks, members, &group);
  MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &(*communicator)->members);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  delete[] members;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* source, void* target, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t) {
  const bool is_double = type == ncclDouble;
  if ((!is_double && type != ncclFloat) || operation != ncclSum)
    refuse("a reduction that this library does not know");
  Memory& memory = Memory::instance();
  if (!memory.on_device(source) || !memory.on_device(target)) refuse("a sum by NCCL of memory of the host");
  const std::size_t bytes = count * (is_double ? sizeof(double) : sizeof(float));
  Trace::instance().note("ncclAllReduce", bytes);
  char* const sums = memory.reach(target, bytes, "a sum by NCCL");
  if (source != target) std::memcpy(sums, memory.reach(source, bytes, "a sum by NCCL"), bytes);
  MPI_Allreduce(MPI_IN_PLACE, sums, static_cast<int>(count), is_double ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM,
                communicator->members);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) {
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  MPI_Comm_free(&communicator->members);
  delete communicator;
  return ncclSuccess;
}

// (never waits for other ranks)
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  delete communicator;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t) {
  return "an error of NCCL";
}

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

}  // extern "C"
