// Writing of checkpoints: <directory>/checkpoints/<step>.h5, by any number of ranks, committed atomically and
// checksummed. Any other number reads them (checkpoint_reader.hpp).
#pragma once

#include <cstdint>
#include <future>
#include <string>

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

}  // namespace maniple
