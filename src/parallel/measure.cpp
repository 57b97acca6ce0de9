// Ping-pong and reduction times. Contents are checked as well: a fast wrong network is no network.
#include "src/parallel/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "src/base/activity.hpp"
#include "src/parallel/mpi_access.hpp"

namespace maniple {

namespace {

// Half the best round trip of `bytes` bytes with `partner`, over `repeats`.
double half_round_trip(MPI_Comm communicator, int rank, int partner, std::vector<unsigned char>& buffer,
                       int repeats) {
  const int bytes = static_cast<int>(buffer.size());
  double best = 1e30;
  for (int r = 0; r < repeats; ++r) {
    const double start = MPI_Wtime();
    if (rank == 0) {
      check_mpi(MPI_Send(buffer.data(), bytes, MPI_BYTE, partner, 7, communicator), "MPI_Send");
      check_mpi(MPI_Recv(buffer.data(), bytes, MPI_BYTE, partner, 7, communicator, MPI_STATUS_IGNORE),
                "MPI_Recv");
    } else {
      check_mpi(MPI_Recv(buffer.data(), bytes, MPI_BYTE, 0, 7, communicator, MPI_STATUS_IGNORE), "MPI_Recv");
      check_mpi(MPI_Send(buffer.data(), bytes, MPI_BYTE, 0, 7, communicator), "MPI_Send");
    }
    best = std::min(best, MPI_Wtime() - start);
  }
  return best / 2;
}

}  // namespace

std::vector<LinkTimes> measure_links(Collectives& collectives) {
  const MPI_Comm communicator = mpi_communicator(collectives);
  const int rank = collectives.rank();
  std::vector<LinkTimes> links;
  for (int partner = 1; partner < collectives.size(); ++partner) {
    if (rank == 0 || rank == partner) {
      std::vector<unsigned char> small(8), large(std::size_t{4} << 20);
      for (std::size_t i = 0; i < large.size(); ++i)
        large[i] = rank == 0 ? static_cast<unsigned char>(i * 31 + static_cast<std::size_t>(partner)) : 0;
      LinkTimes link;
      link.rank = partner;
      link.latency = half_round_trip(communicator, rank, partner, small, 200);
      link.bandwidth =
          static_cast<double>(large.size()) / half_round_trip(communicator, rank, partner, large, 10);
      for (std::size_t i = 0; i < large.size(); ++i)
        link.intact &= large[i] == static_cast<unsigned char>(i * 31 + static_cast<std::size_t>(partner));
      if (rank == 0) links.push_back(link);
    }
    collectives.barrier();
  }
  return links;
}

double measure_sum(Collectives& collectives, std::size_t bytes) {
  std::vector<double> values(bytes / sizeof(double)), seconds;
  const double ranks = collectives.size();
  std::int64_t right = 1;
  for (int repeat = 0; repeat < 11; ++repeat) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(i % 1024) + collectives.rank();
    collectives.barrier();
    const double start = MPI_Wtime();
    collectives.sum(values.data(), values.size());
    if (repeat > 0) seconds.push_back(MPI_Wtime() - start);  // the first one connects
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != ranks * static_cast<double>(i % 1024) + ranks * (ranks - 1) / 2) right = 0;
  }
  collectives.min(&right, 1);
  std::nth_element(seconds.begin(), seconds.begin() + 5, seconds.end());
  return right ? seconds[5] : -1;
}

void wait_asleep(Collectives& collectives) {
  const ActivityCollective entered;
  MPI_Request everybody = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(mpi_communicator(collectives), &everybody), "MPI_Ibarrier");
  for (int arrived = 0;;) {
    check_mpi(MPI_Test(&everybody, &arrived, MPI_STATUS_IGNORE), "MPI_Test");
    if (arrived) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0, major = 0, minor = 0;
  MPI_Get_library_version(text, &length);
  MPI_Get_version(&major, &minor);
  const std::string library(text, std::strcspn(text, ",\n"));
  return library + ", MPI " + std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace maniple
