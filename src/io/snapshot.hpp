// The state of a run at one moment, kept in memory while the
// run goes on, and written when the run has to end at once.
#pragma once

#include <cstdint>
#include <vector>

#include "src/io/archive.hpp"

namespace maniple {

class Snapshot {
 public:
  // Copies the arrays of an archive, with `tiles` tiles of environments, into memory of its own.
  void take(const Archive& archive, std::int64_t tiles);
  // The same entries over the copies; valid until the next take().
  const Archive& archive() const { return archive_; }

 private:
  Archive archive_;
  std::vector<std::vector<unsigned char>> arrays_;  // by entry
};

}  // namespace maniple
