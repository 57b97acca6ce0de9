// Checkpoints: <directory>/checkpoints/<step>.h5, committed atomically, checksummed, verified on load.
// Written by any number of ranks, read by any other number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/io/archive.hpp"
#include "src/parallel/collectives.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

// What must agree before a checkpoint is loaded; a difference is an InputError that names the key.
struct CheckpointIdentity {
  std::string kind = "train";
  std::string model_digest;  // of the compiled model's numbers
  std::string task_digest;   // of the resolved task
  std::string precision;
  std::int64_t num_envs = 0;
  std::uint32_t seed = 0;
};

// Collective. Temporary name, write, flush on all ranks, close, verify, fsync, rename, fsync of the
// directory, manifest, prune to the last `keep`. Returns the file's path.
std::string write_checkpoint(const std::string& directory, std::int64_t step,
                             const CheckpointIdentity& identity, const Archive& archive,
                             const Partition& partition, Collectives& collectives, std::int64_t keep);

// Collective. Loads the newest good checkpoint of the directory into the archive's arrays and returns
// its step; a bad one (truncated, flipped bits) is named in the log and the one before is tried.
// No checkpoint at all: nullopt. Checkpoints but none good: InputError. Another model, task, batch size,
// seed or precision: InputError.
std::optional<std::int64_t> read_newest_checkpoint(const std::string& directory,
                                                   const CheckpointIdentity& identity, const Archive& archive,
                                                   const Partition& partition, Collectives& collectives);

// Rank 0. Steps of the checkpoints of a run's directory, newest first. Error when the directory is there and
// cannot be listed: nothing may start anew because a file system failed to answer.
std::vector<std::int64_t> checkpoint_steps(const std::string& directory);

// Rank 0. Removes all checkpoints of a run's directory but one: those of a run that another one replaced.
void remove_other_checkpoints(const std::string& directory, std::int64_t step);

// Collective. Reads only the named replicated entries of a checkpoint file (or of the newest good one
// of a run directory): a policy for evaluation. Model and task must agree; batch size need not.
std::int64_t read_replicated(const std::string& file_or_directory, const CheckpointIdentity& identity,
                             const Archive& archive, Collectives& collectives);

}  // namespace maniple
