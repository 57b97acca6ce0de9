/* A fault for tests: a signal that asks for a stop comes while MPI starts. */
#include <signal.h>

int PMPI_Init_thread(int *argc, char ***argv, int needed, int *provided);

int MPI_Init_thread(int *argc, char ***argv, int needed, int *provided) {
  raise(SIGUSR1);
  return PMPI_Init_thread(argc, argv, needed, provided);
}
