// The seal of a file: its length and the checksum of all that follows, in HDF5's user block, which the
// library skips and other readers never see. It is checked before HDF5 opens the file, because one flipped
// bit in HDF5's own structures can make the library crash or run for ever. A file without a seal was not
// finished, or comes from another program.
#pragma once

#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "src/io/shared_file.hpp"
#include "src/parallel/collectives.hpp"

namespace maniple {

// Length of the user block; HDF5 wants a power of two.
constexpr std::int64_t kSealBytes = 4096;

// The sum of the words of [first, last) of a file; first is a multiple of 8.
std::uint64_t file_checksum(const SharedFile& file, std::int64_t first, std::int64_t last);

// Collective. The sum of the ranks' sums.
std::uint64_t sum_over_ranks(std::uint64_t local, Collectives& collectives);

// Writes the seal of a file whose bytes behind the seal have this checksum.
void write_seal(const SharedFile& file, std::uint64_t checksum);
// Bytes [first, last) of a file, both multiples of 8.
struct Extent {
  std::int64_t first = 0, last = 0;
};
// Collective. The same for a file that all ranks have finished. `known`, equal on all ranks and without
// overlaps: what they have written and summed already, each its part of `sum`; they read the rest for it.
void write_seal(const std::string& path, std::vector<Extent> known, std::uint64_t sum,
                Collectives& collectives);

enum class Sealed { yes, no };
// Whether the file has a seal. With one, every byte is compared with it: Error when the file is
// truncated or damaged. One process reads it all, or, collectively, each rank a range.
Sealed check_seal(const std::string& path);
Sealed check_seal(const std::string& path, Collectives& collectives);

// A sealed file of `bytes` bytes, read back by a thread on each rank while the program goes on.
class ReadBack {
 public:
  ReadBack() = default;
  ReadBack(const std::string& path, std::int64_t bytes, const Collectives& collectives);
  bool pending() const { return sum_.valid(); }
  // Collective. Waits for the threads: Error when the file is not as it was sealed.
  void finish(Collectives& collectives);

 private:
  std::string path_;
  std::int64_t bytes_ = 0;
  std::future<std::uint64_t> sum_;  // over this rank's range
};

}  // namespace maniple
