#include "src/parallel/launch.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "src/parallel/mpi_access.hpp"

namespace maniple {
namespace {

#ifdef OPEN_MPI
constexpr const char* kPlugin = "--mpi=pmix";
#else
constexpr const char* kPlugin = "--mpi=pmi2";
#endif

struct Launcher {
  const char* variable;  // that holds the number of processes
  bool is_srun;
};
// (the first one that is set counts: mpirun within a job of SLURM starts its daemons by srun)
constexpr Launcher kLaunchers[] = {{"OMPI_COMM_WORLD_SIZE", false},
                                   {"PMI_SIZE", false},
                                   {"PALS_LOCAL_SIZE", false},
                                   {"SLURM_STEP_NUM_TASKS", true}};

bool is_launched() {
  // (PMIX_RANK: by any launcher that speaks PMIx)
  return std::getenv("PMIX_RANK") != nullptr ||
         std::any_of(std::begin(kLaunchers), std::end(kLaunchers),
                     [](const Launcher& launcher) { return std::getenv(launcher.variable) != nullptr; });
}

}  // namespace

LaunchedAlone::LaunchedAlone() {
  if (is_launched()) return;
  // (without a daemon all such processes would make and remove the same directory of their session)
  for (const auto& [variable, value] :
       {std::pair{"OMPI_MCA_ess_singleton_isolated", "1"},
        std::pair{"OMPI_MCA_orte_create_session_dirs", "0"}, std::pair{"OMPI_MCA_pml", "ob1"}})
    if (std::getenv(variable) == nullptr && setenv(variable, value, 0) == 0) set_.push_back(variable);
}

LaunchedAlone::~LaunchedAlone() {
  for (const char* const variable : set_) unsetenv(variable);
}

std::string srun_error() {
#ifdef OPEN_MPI
  // (cray_shasta sets PALS_RANKID alone, of which Open MPI knows nothing)
  for (const char* const variable :
       {"PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_FD", "OMPI_COMM_WORLD_SIZE"})
    if (std::getenv(variable) != nullptr) return "";
  const char *const task = std::getenv("SLURM_PROCID"), *const tasks = std::getenv("SLURM_STEP_NUM_TASKS"),
                    *const plugin = std::getenv("SLURM_MPI_TYPE");
  if (!task || !tasks) return "";
  const int count = std::atoi(tasks);
  if (count <= 1 && OMPI_MAJOR_VERSION >= 5) return "";  // (it takes one process for one rank)
  return "launch: srun started " + std::to_string(count) + (count == 1 ? " process" : " processes") +
         " with --mpi=" + (plugin ? plugin : "none") +
         ", which tells Open MPI nothing of them; start them with srun " + kPlugin +
         " (srun --mpi=list shows what there is), or with mpirun";
#else
  return "";
#endif
}

std::string separate_ranks_error(int mpi_size) {
  if (mpi_size != 1) return "";
  for (const auto& [variable, is_srun] : kLaunchers) {
    const char* const value = std::getenv(variable);
    if (!value) continue;
    if (std::atoi(value) <= 1) return "";
    const std::string found =
        "launch: " + std::string(variable) + " says that " + value +
        " processes were started, but MPI sees one rank: each of them would be a run of its own";
    if (is_srun)
      return found + "; start them with srun " + kPlugin +
             " (srun --mpi=list shows what there is), or with mpirun";
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(version, &length);
    const std::string library(version, static_cast<std::size_t>(length));
    return found + "; start them with the mpirun of the MPI that this program was built with: " +
           library.substr(0, library.find_first_of(",\n"));
  }
  return "";
}

std::string idle_tasks_warning(int mpi_size) {
  const char* const tasks = std::getenv("SLURM_NTASKS");
  if (mpi_size != 1 || is_launched() || !tasks || std::atoi(tasks) <= 1) return "";
  return std::string("launch: SLURM gave this job ") + tasks + " tasks, and one rank was started; srun " +
         kPlugin + " or mpirun in front of the command starts one for each task";
}

}  // namespace maniple
