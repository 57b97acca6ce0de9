// Reading of checkpoints, by any number of ranks: to resume a run, to act with its policy, or to begin
// another one with what it learned. A file is verified before its numbers are taken.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/io/archive.hpp"
#include "src/io/checkpoint_identity.hpp"
#include "src/parallel/collectives.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

// Collective. Loads the newest good checkpoint of the directory into the archive's arrays and returns
// its step; a bad one (truncated, flipped bits) is named in the log and the one before is tried. FileError
// when one cannot be read, which may be good. No checkpoint at all: nullopt. Checkpoints but none good:
// InputError. Another model, task, batch size, seed or precision: InputError, as are other settings that only
// the beginning of a run decides; those that may change are named in the log.
std::optional<std::int64_t> read_newest_checkpoint(const std::string& directory,
                                                   const CheckpointIdentity& identity, const Archive& archive,
                                                   const Partition& partition, Collectives& collectives);

// Collective. Reads only the named replicated entries of a checkpoint file (or of the newest good one
// of a run directory): a policy for evaluation. It must read and give what the run's policy does, in a model
// of the same name and sizes; that other values of model and task differ is a warning. Batch size need not
// agree.
std::int64_t read_replicated(const std::string& file_or_directory, const CheckpointIdentity& identity,
                             const Archive& archive, Collectives& collectives);

// Collective. The same for a run that begins with what another one has learned: of the named entries it takes
// those that the file has, whatever model, task or batch they come from. InputError where the policy differs.
struct WarmStart {
  std::int64_t step = 0;
  bool cloned = false;                   // by imitate, for a run that trains
  bool same_task = true;                 // model and task are those of this run
  std::vector<std::string> differences;  // keys of the task's deck, as far as they are known
  std::vector<std::string> entries;      // names of those that were read

  bool has(std::string_view entry) const { return std::ranges::find(entries, entry) != entries.end(); }
};
WarmStart read_warm_start(const std::string& file_or_directory, const CheckpointIdentity& identity,
                          const Archive& archive, Collectives& collectives);

}  // namespace maniple
