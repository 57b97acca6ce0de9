// A check that all ranks still agree: checksums of the program, the deck, the data and all that is equal on
// every rank are compared. A rank that differs (a bit that flipped in one memory, a node with another file
// under the same name) would go on computing, and its results would be worthless. The check names the ranks
// that are out of step and ends the run on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/io/archive.hpp"
#include "src/parallel/collectives.hpp"

namespace maniple {

// A value that must be equal on all ranks.
struct RankValue {
  std::string name;
  std::uint64_t value = 0;  // a checksum
};

// Collective, with as many values on every rank. Where any differs, every rank throws the same Error: it
// names the ranks that differ from most others (of two equally large groups the one without rank 0), their
// hosts, and in what. `when`: "at the start".
// `values` is asked only where there are several ranks.
void check_ranks(Collectives& collectives, const std::function<std::vector<RankValue>()>& values,
                 const std::string& when);

// Checksums of the entries that are the same on every rank.
std::vector<RankValue> values_of(const Archive& archive);
std::uint64_t checksum_of(const std::string& text);
// The checksum of the running program's file, without its shared libraries.
std::uint64_t program_checksum();

}  // namespace maniple
