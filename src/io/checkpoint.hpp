// Checkpoints: <directory>/checkpoints/<step>.h5, committed atomically, checksummed, verified on load.
// Written by any number of ranks, read by any other number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/io/archive.hpp"
#include "src/io/checkpoint_identity.hpp"
#include "src/io/seal.hpp"
#include "src/parallel/collectives.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

// Writes the checkpoints of a run. A file gets its name when it is complete and durable; that it reads back
// as it was written is checked by threads while the run goes on. Only then older ones are removed.
class CheckpointWriter {
 public:
  // The last `keep` checkpoints stay. `replaces`: the run replaces an earlier one, whose checkpoints all go
  // once there is a good one instead.
  CheckpointWriter(const std::string& directory, std::int64_t keep, bool replaces, Collectives& collectives);
  ~CheckpointWriter();  // waits for the threads
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Collective. settle(); then temporary name, write, seal, fsync on all ranks, rename, fsync of the
  // directory. Newer checkpoints, of a history that the run has left, step aside. Returns the file's path.
  std::string write(std::int64_t step, const CheckpointIdentity& identity, const Archive& archive,
                    const Partition& partition);
  // Collective. Waits until the last checkpoint has been read back: Error, with its path, when it is not
  // as it was written; the ones before it are still there. Otherwise they are removed down to `keep`, by a
  // thread of rank 0, and the manifest is written.
  void settle();
  // Where a run has nothing left to do: the checkpoint of `step` is the newest, and stays as it is. What is
  // too new or too old goes, as after write().
  void stay_at(std::int64_t step);
  // At the end of a run that replaces an earlier one: where it wrote no checkpoint here, those that are there
  // go.
  void leave_earlier();

 private:
  void finish_pruning();

  std::string folder_;
  std::int64_t keep_;
  bool replaces_;
  Collectives& collectives_;
  ReadBack read_back_;
  std::future<void> pruning_;
};

// Collective. Loads the newest good checkpoint of the directory into the archive's arrays and returns
// its step; a bad one (truncated, flipped bits) is named in the log and the one before is tried. FileError
// when one cannot be read, which may be good. No checkpoint at all: nullopt. Checkpoints but none good:
// InputError. Another model, task, batch size, seed or precision: InputError, as are other settings that only
// the beginning of a run decides; those that may change are named in the log.
std::optional<std::int64_t> read_newest_checkpoint(const std::string& directory,
                                                   const CheckpointIdentity& identity, const Archive& archive,
                                                   const Partition& partition, Collectives& collectives);

// Rank 0. Steps of the checkpoints of a run's directory, newest first. Error when the directory is there and
// cannot be listed: nothing may start again because a file system failed to answer.
std::vector<std::int64_t> checkpoint_steps(const std::string& directory);

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
