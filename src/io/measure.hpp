// Type and speed of a file system, for `maniple doctor`.
#pragma once

#include <cstdint>
#include <string>

#include "src/parallel/collectives.hpp"

namespace maniple {

struct FileSystemReport {
  double bytes = 0;          // written, by all ranks together
  double write_seconds = 0;  // as of a checkpoint: HDF5, positioned writes of all ranks, fsync, rename
  double read_seconds = 0;   // of the same bytes, from the operating system's cache where it has them
  bool locks = false;        // flock works, which h5py wants (HDF5_USE_FILE_LOCKING=FALSE otherwise)
  std::string type;          // "ext4", "tmpfs", "lustre", "nfs", ... or the number of statfs
  double free_bytes = 0;
};

// Collective. Writes, commits, reads back and removes a file of `bytes_per_rank` on each rank in
// `directory` (made when missing). Throws Error, the same on every rank, when any step fails.
FileSystemReport measure_file_system(const std::string& directory, std::int64_t bytes_per_rank,
                                     Collectives& collectives);

// Whether what lies in a directory takes memory: tmpfs.
bool is_memory(const std::string& directory);

}  // namespace maniple
