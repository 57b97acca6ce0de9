#include "src/learning/imitation_data.hpp"

#include <fmt/format.h>

#include "src/base/error.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

std::int64_t most_tiles_of_batch(const Config& config, int ranks) {
  const std::int64_t tiles = Partition(config.learning.batch_size, 0, 1).tiles;
  const std::int64_t of_rank = (tiles + ranks - 1) / ranks;
  return (of_rank + config.learning.accumulate - 1) / config.learning.accumulate;
}

std::int64_t imitation_iterations(const LearningConfig& config) {
  return (config.steps + config.report_every - 1) / config.report_every;
}

void check_position(const Config& config, const DataPosition& of_checkpoint, const DataPosition& of_run) {
  const auto check = [&](const std::string& key, std::int64_t found, std::int64_t wanted,
                         const std::string& what) {
    if (found != wanted)
      throw InputError(config.where_of(key), key, fmt::format("{} {}", what, wanted),
                       fmt::format("the checkpoint to continue from has {}", found));
  };
  check("data.file", of_checkpoint.checksum, of_run.checksum, "demonstrations with the checksum");
  check("learning.batch_size", of_checkpoint.batch_size, of_run.batch_size,
        config.learning.batch_per_rank || config.learning.accumulate > 1 ? "an effective batch of" : "found");
  check("data.weights", of_checkpoint.epoch_samples, of_run.epoch_samples, "samples of an epoch:");
}

}  // namespace maniple
