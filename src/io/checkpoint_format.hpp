// The form of a checkpoint file: what it says about itself, and how tiles of environments become rows.
// Writing (checkpoint_writer.cpp) and reading (checkpoint_reader.cpp) share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/io/archive.hpp"
#include "src/io/checkpoint_identity.hpp"
#include "src/io/hdf5.hpp"

namespace maniple {

inline constexpr std::int64_t kCheckpointFormat = 2;

// Texts of a checkpoint, a line of each key.
struct StoredLines {
  const char *name, *description;
  std::vector<std::string> CheckpointIdentity::*lines;
};
inline constexpr StoredLines kStoredLines[] = {
    {"run/task", "the task's keys and values", &CheckpointIdentity::task_lines},
    {"run/settings", "keys and values of how it learns", &CheckpointIdentity::settings},
};

struct StoredDataset {
  std::string name, type;
  hdf5::Shape shape;
};

// The description in a file: everything but the numbers.
struct CheckpointContents {
  std::int64_t format = kCheckpointFormat, step = 0;
  CheckpointIdentity identity;
  std::vector<StoredDataset> datasets;

  const StoredDataset* find(const std::string& name) const;
  // One value a line: the form that ranks exchange. Text is length-prefixed, because a digest or name could
  // hold anything.
  std::string to_text() const;
  static CheckpointContents from_text(const std::string& source);
};

// Writes what a new file says about itself, but for its datasets of numbers.
void write_checkpoint_description(const hdf5::File& file, const std::string& path, std::int64_t step,
                                  const CheckpointIdentity& identity);
// One rank: what the file says about itself; Error when it cannot be read or contradicts itself.
CheckpointContents read_checkpoint_contents(const std::string& path);

std::size_t row_bytes(const ArchiveEntry& entry);
// Rows [env][elements] of the environments [first, first + count) of this rank, of which the first begins a
// tile, out of tiles [tile][tile_elements][32], or back into them.
template <bool to_rows>
void convert_rows(const ArchiveEntry& entry, std::int64_t first, std::int64_t count, unsigned char* rows);

// Memory for rows, kept from entry to entry: fresh pages cost as much as writing them.
class RowBuffer {
 public:
  unsigned char* of(std::size_t bytes) {
    if (bytes > size_) {
      memory_.reset();
      memory_ = std::make_unique_for_overwrite<unsigned char[]>(bytes);
      size_ = bytes;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<unsigned char[]> memory_;
  std::size_t size_ = 0;
};

// Environments whose rows are handled at a time where the whole need not be in memory: about 1 MiB.
std::int64_t block_of(const ArchiveEntry& entry);

}  // namespace maniple
