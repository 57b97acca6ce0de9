// The life of the parallel program: MPI, the device of this rank and Kokkos, started and ended together. One
// Session lives in main; everything else receives its Collectives. For concurrent runs (ensembles) it is
// divided: each part is also a Session, of some of the ranks.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "src/parallel/collectives.hpp"
#include "src/parallel/watchdog.hpp"

namespace maniple {

// A device that this process can see.
struct Device {
  std::string name, uuid, pci_bus_id;
  int capability = 0;  // compute capability: 90 for 9.0
};

// Where a rank runs.
struct RankPlace {
  std::string host;
  int local_rank = 0;
  int local_ranks = 1;      // on this host
  std::vector<int> cores;   // that the operating system lets this process use
  int threads = 1;          // of the host execution space
  int visible_devices = 0;  // 0 in a CPU build
  int device_index = -1;    // -1 in a CPU build
  Device device;

  std::string to_text() const;
  static RankPlace from_text(const std::string& text);
};

// The device of a rank: its node-local rank counts through the visible devices; a rank that sees a
// single one (the scheduler chose) takes it. Throws InputError when there are fewer devices than ranks.
int choose_device(const RankPlace& place);

// Empty, or why these ranks may not run together: a device used by two of them, named by host, UUID and
// ranks. `places` is in rank order.
std::string shared_device_error(const std::vector<RankPlace>& places);

// Empty, or why kernels that were compiled for compute capability `built` (90 for 9.0) do not run on a
// device.
std::string capability_error(const Device& device, int built);

class Session {
 public:
  // Starts MPI (funneled) and Kokkos unless they run already; what it started, it ends. Collective.
  // Throws InputError, the same on every rank, when a device would be shared, or when the launcher started
  // processes that MPI does not see as ranks. Without `computes` a build for GPUs starts neither Kokkos nor a
  // device, and needs none.
  Session(int& argc, char**& argv, bool computes = true);
  // The part of `whole` whose ranks give the same `part`, in their order there, with a communicator of its
  // own. Collective over `whole`, which outlives it.
  Session(Session& whole, int part);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const { return collectives_->rank(); }
  int size() const { return collectives_->size(); }
  // NCCL's on a GPU build that has it, otherwise MPI's.
  Collectives& collectives() { return *collectives_; }
  // By rank.
  const std::vector<RankPlace>& places() const { return places_; }
  const RankPlace& place() const { return places_[rank()]; }
  // The part of a host's free memory that is for this Session's ranks there: all of it, but where other parts
  // of the job are about to take theirs, by ranks.
  double share_of_memory(const std::string& host) const;
  // The other parts have taken theirs: what is free is for this one.
  void others_have_memory() { others_need_memory_ = false; }
  // When the program began.
  std::chrono::steady_clock::time_point started() const { return started_; }
  // Ends the job when nothing moves any more.
  Watchdog& watchdog() { return *watchdog_; }
  // Of Kokkos, e.g. "Serial" or "Cuda".
  std::string execution_space() const;

 private:
  struct Runtime;
  // Sums of device memory by NCCL, where there is something to sum.
  void sum_on_devices(int device);

  const std::chrono::steady_clock::time_point started_;
  std::shared_ptr<Watchdog> watchdog_;  // of the whole job; outlives MPI, whose end may hang, too
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Collectives> host_collectives_;  // only where collectives_ is NCCL's
  std::unique_ptr<Collectives> collectives_;
  std::vector<RankPlace> places_, places_of_job_;
  bool others_need_memory_ = true;
};

}  // namespace maniple
