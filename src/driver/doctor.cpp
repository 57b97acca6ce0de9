// maniple doctor: is this machine, launch and file system fit for a run? It measures in seconds what would
// stop or slow down a large job. A warning costs speed; a line marked broken would end the run.
#include "src/driver/doctor.hpp"

#include <fmt/format.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

#include "kernels/base/pack.hpp"
#include "src/base/counted.hpp"
#include "src/base/timing.hpp"
#include "src/base/to_device.hpp"
#include "src/base/version.hpp"
#include "src/driver/earlier_run.hpp"
#include "src/driver/rank_report.hpp"
#include "src/driver/self_test.hpp"
#include "src/driver/setup.hpp"
#include "src/driver/verbs.hpp"
#include "src/io/measure.hpp"
#include "src/io/summary.hpp"
#include "src/parallel/cuda/devices.hpp"
#include "src/parallel/measure.hpp"
#include "src/parallel/nccl/nccl_collectives.hpp"
#include "src/tasks/compile/prepared.hpp"

namespace maniple {

namespace {

constexpr std::int64_t kTestBytes = std::int64_t{32} << 20;  // per rank
constexpr std::size_t kSumBytes = std::size_t{1} << 20;

// Whether numbers in the memory of devices, or of a CPU, add up over all ranks. Collective.
bool device_sum_is_right(Session& session) {
  std::vector<double> numbers(1000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i) + session.rank();
  const auto device = to_device("maniple::doctor::sum", numbers);
  session.collectives().device_sum(device.data(), numbers.size());
  const auto sums = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
  const double ranks = session.size();
  bool right = true;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    right = right && sums(i) == ranks * static_cast<double>(i) + ranks * (ranks - 1) / 2;
  return right;
}

// Whether other programs, or a limit on processor time, take this rank's cores from it: a moment of work.
std::vector<std::string> busy_core_lines(const Session& session) {
  constexpr double kMoment = 0.2, kEnough = 0.9;  // s, and part of it
  const double begun = wall_seconds(), before = thread_seconds();
  while (wall_seconds() - begun < kMoment) {
  }
  const double part = (thread_seconds() - before) / (wall_seconds() - begun);
  if (part > kEnough) return {};
  const RankPlace& place = session.place();
  return {
      fmt::format("rank {}: of {} ms of work a core ran it for {:.0f}%: other programs use the cores {} of "
                  "{}, or a limit "
                  "on the job's processor time holds it back",
                  session.rank(), 1000 * kMoment, 100 * part, ranges(place.cores), place.host)};
}

// What doctor tests and tells, part by part, on all ranks together; rank 0 prints.
class Examination {
 public:
  Examination(const Config& config, Session& session)
      : config_(config), session_(session), warnings_(placement_warnings(session.places())) {}

  void tell_versions() const;
  void tell_places() const;
  void test_links();
  void test_kernels();
  void tell_memory();
  void test_files();
  ExitCode conclude();

 private:
  void say(const std::string& line) const {
    if (session_.rank() == 0) std::printf("%s\n", line.c_str());
  }

  const Config& config_;
  Session& session_;
  std::vector<std::string> warnings_, broken_;
};

void Examination::tell_versions() const {
  say(fmt::format("maniple {}  {}  {}, {} lanes single, {} lanes double", kVersion,
                  counted(session_.size(), "rank"), session_.execution_space(), lane_width<Lanes<float>>,
                  lane_width<Lanes<double>>));
  say(fmt::format("versions  {}; HDF5 {}; Kokkos {}.{}.{}", mpi_version(), hdf5_version(),
                  KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100, KOKKOS_VERSION % 100));
#ifdef KOKKOS_ENABLE_CUDA
  say("versions  CUDA " + cuda_version());
#endif
#ifdef MANIPLE_HAVE_NCCL
  say("versions  NCCL " + nccl_version());
#endif
}

void Examination::tell_places() const {
  say("\nrank  host                 local  cores            threads  device");
  for (int rank = 0; rank < session_.size(); ++rank) {
    const RankPlace& place = session_.places()[static_cast<std::size_t>(rank)];
    say(fmt::format("{:<5} {:<20} {:<6} {:<16} {:<8} {}", rank, place.host,
                    fmt::format("{}/{}", place.local_rank, place.local_ranks), ranges(place.cores),
                    place.threads,
                    place.device_index < 0
                        ? "-"
                        : fmt::format("{} {} {}", place.device_index, place.device.name, place.device.uuid)));
  }
#ifdef KOKKOS_ENABLE_CUDA
  say("\nrank  its device");
  const std::vector<std::string> devices =
      session_.collectives().gather_text(cuda_device_text(session_.place().device_index));
  for (std::size_t rank = 0; rank < devices.size(); ++rank) say(fmt::format("{:<5} {}", rank, devices[rank]));
#endif
}

void Examination::test_links() {
  Collectives& collectives = session_.collectives();
  const std::vector<LinkTimes> links = measure_links(collectives);
  const double sum_seconds = measure_sum(collectives, kSumBytes);
  say("\nrank 0 to  latency us  bandwidth GB/s");
  for (const LinkTimes& link : links) {
    say(fmt::format("{:<10} {:<11.2f} {:.2f}", link.rank, link.latency * 1e6, link.bandwidth / 1e9));
    if (!link.intact)
      broken_.push_back(fmt::format("bytes between ranks 0 and {} arrive corrupted", link.rank));
  }
  if (sum_seconds < 0)
    broken_.push_back("the sum over all ranks is wrong");
  else
    say(fmt::format("sum of 1 MiB over {} ranks ({}): {:.1f} us", session_.size(), collectives.backend(),
                    sum_seconds * 1e6));
}

void Examination::test_kernels() {
  say(fmt::format("\nkernels on {} against one environment at a time on the host",
                  session_.execution_space()));
  std::vector<std::string> differences;
  for (const SelfTest& test : run_self_tests()) {
    say(fmt::format("{:<48} {}", test.what, test.difference.empty() ? "the same bits" : "differ"));
    if (!test.difference.empty())
      differences.push_back(fmt::format("rank {}: {}: {}", session_.rank(), test.what, test.difference));
  }
  for (const std::string& line : gather_lines(differences, session_)) broken_.push_back(line);
  const bool sums = device_sum_is_right(session_);
  say(fmt::format("{:<48} {}", "sum over ranks (" + std::string(session_.collectives().backend()) + ")",
                  sums ? "right" : "wrong"));
  if (!sums) broken_.push_back("the sum of device memory over all ranks is wrong");
}

void Examination::tell_memory() {
  const bool learns = config_.task.present && !config_.learning.imitates();
  const RankMemory memory =
      rank_memory(config_, prepare(config_), session_, learns ? Holds::learner : Holds::environments);
  say("\nmemory of the deck: " + memory_text(memory));
  try {
    check_memory(memory, session_, config_);
  } catch (const InputError& error) {
    broken_.push_back(error.what());
  }
}

void Examination::test_files() {
  try {
    const FileSystemReport files =
        measure_file_system(config_.output.directory, kTestBytes, session_.collectives());
    say(fmt::format("\n{}: {}, {:.1f} GB free; write and commit {:.2f} GB/s, read {:.2f} GB/s, locks {}",
                    config_.output.directory, files.type, files.free_bytes / 1e9,
                    files.bytes / 1e9 / files.write_seconds, files.bytes / 1e9 / files.read_seconds,
                    files.locks ? "work" : "do not work"));
    if (!files.locks)
      warnings_.push_back("file locks do not work there: set HDF5_USE_FILE_LOCKING=FALSE for h5py");
  } catch (const Error& error) {
    broken_.push_back(error.what());
  }
}

ExitCode Examination::conclude() {
  for (const std::string& line : gather_lines(busy_core_lines(session_), session_)) warnings_.push_back(line);
  for (const std::string& warning : warnings_) say("warning: " + warning);
  for (const std::string& line : broken_) say("broken: " + line);
  std::int64_t failures = static_cast<std::int64_t>(broken_.size());
  session_.collectives().max(&failures, 1);
  say(failures == 0 ? "doctor: all tests passed" : fmt::format("doctor: {} broken", failures));
  std::fflush(stdout);
  return failures == 0 ? ExitCode::done : ExitCode::error;
}

}  // namespace

std::vector<std::string> placement_warnings(const std::vector<RankPlace>& places) {
  std::vector<std::string> warnings;
  // ranks by host and core
  std::map<std::string, std::vector<int>> by_host;
  for (int rank = 0; rank < static_cast<int>(places.size()); ++rank)
    by_host[places[rank].host].push_back(rank);
  for (const auto& [host, ranks] : by_host) {
    std::set<int> cores;
    int threads = 0;
    for (const int rank : ranks) {
      cores.insert(places[rank].cores.begin(), places[rank].cores.end());
      threads += places[rank].threads;
    }
    if (threads > static_cast<int>(cores.size()))
      warnings.push_back(fmt::format("host {}: {} of {} on {}", host, counted(threads, "thread"),
                                     counted(ranks.size(), "rank"), counted(cores.size(), "core")));
    // a rank that may use cores of another one competes with it
    std::vector<int> users(static_cast<std::size_t>(1 + *std::max_element(cores.begin(), cores.end())), 0);
    for (const int rank : ranks)
      for (const int core : places[rank].cores) ++users[static_cast<std::size_t>(core)];
    const auto is_shared = [&](int core) { return users[static_cast<std::size_t>(core)] > 1; };
    std::vector<int> crowded, common;
    for (const int rank : ranks)
      if (std::any_of(places[rank].cores.begin(), places[rank].cores.end(), is_shared))
        crowded.push_back(rank);
    std::copy_if(cores.begin(), cores.end(), std::back_inserter(common), is_shared);
    if (!common.empty())
      warnings.push_back(
          fmt::format("host {}: ranks {} share cores {} (bind ranks: mpirun --bind-to core, "
                      "srun --cpu-bind=cores)",
                      host, ranges(crowded), ranges(common)));
  }
  return warnings;
}

ExitCode doctor(const Config& config, Session& session) {
  Examination examination(config, session);
  examination.tell_versions();
  examination.tell_places();
  if (session.size() > 1) examination.test_links();
  examination.test_kernels();
  if (!config.model.path.empty()) examination.tell_memory();
  examination.test_files();
  return examination.conclude();
}

void show_rank_report(const std::vector<std::string>& arguments, std::ostream& out) {
  const std::string text = text_of_run(arguments[0], kRankReport);
  if (text.empty())
    throw InputError(SourceLocation{results_of(arguments[0])}, "", "no report on its ranks",
                     "results of train or imitate, which contain one");
  out << text;
}

}  // namespace maniple
