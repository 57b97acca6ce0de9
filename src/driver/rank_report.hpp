// The report on the ranks of a training: host, share of the batch and
// times of each, and whether all stayed in step. Printed at the end
// of a run, kept in its results, shown again by `maniple doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/io/results.hpp"
#include "src/parallel/collectives.hpp"
#include "src/parallel/session.hpp"

namespace maniple {

inline constexpr const char* kRankReport = "ranks/report";  // in the results

// "0-3,8"
std::string ranges(const std::vector<int>& cores);

struct RankUse {
  std::string host, cores, device;
  std::int64_t share = 0;                               // of the batch
  double total = 0;                                     // s, of the whole training on this rank
  double running = 0;                                   // s, of it, for which a core ran the rank
  std::vector<std::pair<std::string, double>> seconds;  // of it, by stage; the same stages on every rank
};

struct RankReport {
  std::vector<RankUse> ranks;
  std::string shared;       // what the shares are of: "environments", "samples of an update"
  std::int64_t checks = 0;  // comparisons of the ranks, all without a difference
  double check_seconds = 0;
};

// Collective. What every rank says of itself; `place` is this rank's.
std::vector<RankUse> gather_use(Collectives& collectives, const RankPlace& place, RankUse mine);

// A table of a row per rank, at most `rows` of them, and what is to be said about it. Communication that
// takes a rank longer than the rank which waits least counts as waiting: for the others to arrive. A stage
// named "loader" waits for data.
std::vector<std::string> report_lines(const RankReport& report, std::size_t rows);

// Numbers by rank as /ranks/<stage>, the table as text.
void write_report(const RankReport& report, ResultsWriter& results);

}  // namespace maniple
