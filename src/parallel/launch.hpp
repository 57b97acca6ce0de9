// The way in which this process was started, as its environment shows it: whether there was a launcher, and
// whether launcher and MPI agree on the number of ranks. They do not where the launcher belongs to another
// MPI: it then starts many programs of one rank each.
#pragma once

#include <string>
#include <vector>

namespace maniple {

// Empty, or that srun has started this process without PMIx or PMI, by which an Open MPI finds its ranks:
// before MPI starts, which would end each process with a page about building it anew.
std::string srun_error();
// Empty, or why this start is not the one that was asked for: the launcher's variables in the environment (of
// srun, Open MPI's and MPICH's mpirun, and PALS) name more processes than the one rank that MPI sees.
std::string separate_ranks_error(int mpi_size);
// Empty, or that a job of SLURM has more tasks than the one rank that was started without srun or mpirun.
std::string idle_tasks_warning(int mpi_size);

// While it lives, and where no launcher has started this process: tells Open MPI, whose start it is for, that
// there will be one rank, which needs no daemon and no network (0.1 s instead of 0.6 s). What the user has
// set stays. Only the main thread may create one, since it changes the environment.
class LaunchedAlone {
 public:
  LaunchedAlone();
  ~LaunchedAlone();
  LaunchedAlone(const LaunchedAlone&) = delete;
  LaunchedAlone& operator=(const LaunchedAlone&) = delete;

 private:
  std::vector<const char*> set_;  // variables of the environment
};

}  // namespace maniple
