// Writes whole episodes as demonstrations, in robomimic's or in Minari's layout. As with results, rank 0
// makes the file and every rank writes its own numbers to their addresses; the file has its name when it is
// complete. It has no seal: robomimic's tools write lists of demonstrations into such files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/config/config.hpp"
#include "src/parallel/collectives.hpp"

namespace maniple {

struct Episode {
  std::vector<std::byte> observations;  // [steps + 1][size]: before each step, and after the last one
  std::vector<std::byte> actions;       // [steps][size]
  std::vector<double> rewards;          // [steps]
  bool terminated = false, truncated = false, success = false;

  std::int64_t steps() const { return static_cast<std::int64_t>(rewards.size()); }
};

struct EpisodesFormat {
  DatasetLayout layout = DatasetLayout::robomimic;
  std::string task;
  std::vector<std::pair<std::string, int>> observations;  // keys, with their sizes
  int actions = 0;
  bool double_precision = false;  // of observations and actions
  bool has_success = false;
};

// Where write_episodes() writes, and what says that a data set is there.
std::string dataset_file(DatasetLayout layout, const std::string& directory);
bool dataset_exists(DatasetLayout layout, const std::string& directory);

// Collective. All ranks' episodes, rank after rank; the same bytes however they are divided. Replaces what is
// there. Returns the file's path.
std::string write_episodes(const std::string& directory, const EpisodesFormat& format,
                           const std::vector<Episode>& episodes, Collectives& collectives);

}  // namespace maniple
