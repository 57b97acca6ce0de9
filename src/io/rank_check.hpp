// Whether all ranks still do the same: the program, the deck, the data and all that is equal on every rank
// are compared by their checksums. Ranks that differ go on computing, and what they compute is good for
// nothing: a bit that flipped in one memory, a node with another file under the same name. Whoever is out of
// step is named, and the run ends on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/io/archive.hpp"
#include "src/parallel/collectives.hpp"

namespace maniple {

// What is to be equal on all ranks.
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

// Of the entries that are the same on every rank.
std::vector<RankValue> values_of(const Archive& archive);
std::uint64_t checksum_of(const std::string& text);
// Of the running program's file, without its shared libraries.
std::uint64_t program_checksum();

}  // namespace maniple
