// Measurements of the network between ranks, for `maniple doctor`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/parallel/collectives.hpp"

namespace maniple {

struct LinkTimes {
  int rank = 0;          // between rank 0 and this rank
  double latency = 0;    // s, half a round trip of 8 bytes, best of many
  double bandwidth = 0;  // B/s, of 4 MiB messages, best of several
  bool intact = true;    // the bytes that came back were those that were sent
};

// Collective. Rank 0's measurements, one per other rank; empty on the others.
std::vector<LinkTimes> measure_links(Collectives& collectives);

// Collective. Seconds of one sum over all ranks of `bytes` bytes of doubles, median of several; negative
// when the sum was wrong on any rank.
double measure_sum(Collectives& collectives, std::size_t bytes);

// Collective. A barrier that keeps no core busy while others measure.
void wait_asleep(Collectives& collectives);

// "Open MPI v4.1.4 ..., MPI 3.1"
std::string mpi_version();

}  // namespace maniple
