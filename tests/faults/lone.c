/* A fault for tests: on the rank that LONE_RANK names, the LONE_AFTER-th MPI_Allreduce fails without a message to the
 * others, which wait in theirs. Preloaded; handles are pointers, as in Open MPI. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

int MPI_Allreduce(const void *from, void *to, int count, void *type, void *operation, void *communicator) {
  static int (*next)(const void *, void *, int, void *, void *, void *);
  static int calls = 0;
  if (!next) next = (__typeof__(next))dlsym(RTLD_NEXT, "MPI_Allreduce");
  const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *which = getenv("LONE_RANK");
  if (rank && which && strcmp(rank, which) == 0 && ++calls == atoi(getenv("LONE_AFTER"))) return 16; /* MPI_ERR_OTHER */
  return next(from, to, count, type, operation, communicator);
}
