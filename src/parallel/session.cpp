// Order matters here: MPI first (the node-local rank decides the device), then the device, then Kokkos,
// then NCCL; and the reverse at the end.
#include "src/parallel/session.hpp"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <map>
#include <sstream>

#include "kernels/base/macros.hpp"
#include "src/base/error.hpp"
#include "src/base/process.hpp"
#include "src/parallel/cuda/devices.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/launch.hpp"
#include "src/parallel/mpi_access.hpp"
#include "src/parallel/nccl/nccl_collectives.hpp"
#include "src/parallel/shared_memory.hpp"

namespace maniple {

namespace {

std::vector<int> allowed_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  return cores;
}

// Host threads that this rank may start without taking cores from ranks with the same affinity mask.
int fair_threads(const RankPlace& mine, const std::vector<RankPlace>& all) {
  const auto same = std::count_if(all.begin(), all.end(), [&](const RankPlace& other) {
    return other.host == mine.host && other.cores == mine.cores;
  });
  return std::max<int>(1, static_cast<int>(mine.cores.size()) / std::max<int>(1, static_cast<int>(same)));
}

std::vector<RankPlace> gather_places(Collectives& collectives, const RankPlace& mine) {
  std::vector<RankPlace> places;
  for (const std::string& text : collectives.gather_text(mine.to_text()))
    places.push_back(RankPlace::from_text(text));
  return places;
}

void start_kokkos(const RankPlace& place, int threads) {
  const bool threads_given = std::getenv("OMP_NUM_THREADS") || std::getenv("KOKKOS_NUM_THREADS");
#if KOKKOS_VERSION >= 30700
  Kokkos::InitializationSettings settings;
  if (place.device_index >= 0) settings.set_device_id(place.device_index);
  if (!threads_given) settings.set_num_threads(threads);
  Kokkos::initialize(settings);
#else
  Kokkos::InitArguments arguments;
  if (place.device_index >= 0) arguments.device_id = place.device_index;
  if (!threads_given) arguments.num_threads = threads;
  Kokkos::initialize(arguments);
#endif
}

}  // namespace

std::string RankPlace::to_text() const {
  std::ostringstream text;
  text << host << '\n' << local_rank << '\n' << local_ranks << '\n' << threads << '\n';
  text << visible_devices << '\n' << device_index << '\n';
  text << device.name << '\n' << device.uuid << '\n' << device.pci_bus_id << '\n';
  for (int core : cores) text << core << ' ';
  text << '\n';
  return text.str();
}

RankPlace RankPlace::from_text(const std::string& text) {
  RankPlace place;
  std::istringstream in(text);
  std::string line;
  auto number = [&] {
    std::getline(in, line);
    return std::stoi(line);
  };
  std::getline(in, place.host);
  place.local_rank = number();
  place.local_ranks = number();
  place.threads = number();
  place.visible_devices = number();
  place.device_index = number();
  std::getline(in, place.device.name);
  std::getline(in, place.device.uuid);
  std::getline(in, place.device.pci_bus_id);
  for (int core; in >> core;) place.cores.push_back(core);
  return place;
}

int choose_device(const RankPlace& place) {
  if (place.visible_devices == 1) return 0;
  if (place.local_rank < place.visible_devices) return place.local_rank;
  throw InputError("launch: host " + place.host + " has " + std::to_string(place.local_ranks) +
                   " ranks and " + std::to_string(place.visible_devices) +
                   " visible devices; start at most one rank per device (CUDA_VISIBLE_DEVICES, "
                   "--gpus-per-node and --ntasks-per-node decide)");
}

std::string capability_error(const Device& device, int built) {
  // (code for a device runs on later ones of its generation)
  if (device.capability / 10 == built / 10 && device.capability % 10 >= built % 10) return "";
  const auto version = [](int capability) {
    return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  };
  return "launch: this build is for GPUs of compute capability " + version(built) + ", and " + device.name +
         " has " + version(device.capability) +
         "; build Kokkos and the program for it (Kokkos_ARCH_..., see README.md)";
}

std::string shared_device_error(const std::vector<RankPlace>& places) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> users;  // (host, device) -> ranks
  for (int rank = 0; rank < static_cast<int>(places.size()); ++rank) {
    const RankPlace& place = places[rank];
    if (place.device_index < 0) continue;
    // the UUID says which device it is even where each rank sees it under another index
    const std::string id = place.device.uuid.empty() ? place.device.pci_bus_id : place.device.uuid;
    users[{place.host, id}].push_back(rank);
  }
  for (const auto& [device, ranks] : users) {
    if (ranks.size() < 2) continue;
    std::string list;
    for (int rank : ranks) list += (list.empty() ? "" : ", ") + std::to_string(rank);
    return "launch: ranks " + list + " on host " + device.first + " share device " + device.second +
           "; start one rank per device";
  }
  return "";
}

// Ends what it started, in reverse order, also when the Session's constructor throws half-way.
struct Session::Runtime {
  bool owns_mpi = false, owns_kokkos = false;

  Runtime(int& argc, char**& argv) {
    int initialized = 0;
    MPI_Initialized(&initialized);
    if (!initialized) {
      int provided = MPI_THREAD_SINGLE;
      const LaunchedAlone alone;
      check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
      owns_mpi = true;
      if (provided < MPI_THREAD_FUNNELED) throw Error("MPI: MPI_THREAD_FUNNELED is not supported");
    }
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    open_failure_channel();
  }
  // An exception on its way to fail_all_ranks() may be this rank's alone: finalizing would wait for
  // ranks that do not come. The process ends there, so nothing needs to be given back.
  ~Runtime() {
    if (std::uncaught_exceptions() > 0) return;
    if (owns_kokkos) Kokkos::finalize();
    close_failure_channel();
    if (owns_mpi) MPI_Finalize();
  }
};

Session::Session(int& argc, char**& argv, [[maybe_unused]] bool computes)
    : started_(std::chrono::steady_clock::now()) {
  // a file-size limit shall be an error of the write, with a message, and not the end of the process
  signal(SIGXFSZ, SIG_IGN);
  runtime_ = std::make_unique<Runtime>(argc, argv);
  collectives_ = make_mpi_collectives(MPI_COMM_WORLD);
  if (const std::string error = separate_ranks_error(collectives_->size()); !error.empty())
    throw InputError(error);

  RankPlace place;
  place.host = host_name();
  place.cores = allowed_cores();
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, collectives_->rank(), MPI_INFO_NULL, &node),
      "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(node, &place.local_rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(node, &place.local_ranks), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  if (place.local_rank == 0) remove_abandoned_segments();

#ifdef KOKKOS_ENABLE_CUDA
  if (computes)
    run_together(*collectives_, [&] {
      const std::vector<Device> devices = cuda_devices();
      place.visible_devices = static_cast<int>(devices.size());
      place.device_index = choose_device(place);
      place.device = devices[place.device_index];
      // (Kokkos would abort)
      const std::string error = capability_error(place.device, MANIPLE_CUDA_ARCHITECTURE);
      if (!error.empty()) throw InputError(error);
    });
#else
  computes = true;
#endif
  places_ = gather_places(*collectives_, place);
  // every rank sees the same list, so throws the same error
  const std::string error = shared_device_error(places_);
  if (!error.empty()) throw InputError(error);
  std::vector<std::string> hosts;
  for (const RankPlace& each : places_) hosts.push_back(each.host);
  watchdog_ = std::make_shared<Watchdog>(*collectives_, hosts);

  if (computes && !Kokkos::is_initialized()) {
    start_kokkos(place, fair_threads(place, places_));
    runtime_->owns_kokkos = true;
  }
  if (Kokkos::is_initialized())
    place.threads = static_cast<int>(Kokkos::DefaultHostExecutionSpace().concurrency());
  places_ = gather_places(*collectives_, place);
  places_of_job_ = places_;

  sum_on_devices(place.device_index);
}

Session::Session(Session& whole, int part)
    : started_(whole.started_), watchdog_(whole.watchdog_), places_of_job_(whole.places_of_job_) {
  MPI_Comm communicator = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(mpi_communicator(whole.collectives()), part, whole.rank(), &communicator),
            "MPI_Comm_split");
  collectives_ = make_mpi_collectives(communicator);
  check_mpi(MPI_Comm_free(&communicator), "MPI_Comm_free");
  places_ = gather_places(*collectives_, whole.place());
  sum_on_devices(place().device_index);
}

void Session::sum_on_devices([[maybe_unused]] int device) {
#ifdef MANIPLE_HAVE_NCCL
  // (one rank has nothing to add, and MPI's collectives see to that at once)
  if (device < 0 || size() == 1) return;
  host_collectives_ = std::move(collectives_);
  collectives_ = make_nccl_collectives(*host_collectives_, device);
#endif
}

double Session::share_of_memory(const std::string& host) const {
  const auto ranks_of = [&](const std::vector<RankPlace>& places) {
    return static_cast<double>(std::count_if(places.begin(), places.end(),
                                             [&](const RankPlace& place) { return place.host == host; }));
  };
  return others_need_memory_ ? ranks_of(places_) / ranks_of(places_of_job_) : 1;
}

Session::~Session() {
  collectives_.reset();
  host_collectives_.reset();
}

std::string Session::execution_space() const {
  return ExecutionSpace::name();
}

}  // namespace maniple
