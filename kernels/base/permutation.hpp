// Random permutations that need no memory: the place of an element is computed from its number alone, so that
// any rank can compute any part of one. A Feistel network over the next power of two (Luby and Rackoff 1988)
// with Philox as its round function. A result outside the range goes through the network again until it is
// inside (cycle walking: Black and Rogaway 2002), on average less than twice.
#pragma once

#include "kernels/base/philox.hpp"

namespace maniple {

// Image of `element` under a permutation of [0, count), which seed, which and stream choose. 0 <= element <
// count.
MANIPLE_FUNCTION std::int64_t permuted(std::int64_t element, std::int64_t count, std::uint32_t seed,
                                       std::uint32_t which, std::uint32_t stream = 0) {
  constexpr std::uint32_t rounds = 4;
  int bits = 1;
  while ((std::int64_t{1} << bits) < count) ++bits;
  const int low_bits = bits / 2;
  const std::uint64_t low_mask = (std::uint64_t{1} << low_bits) - 1,
                      high_mask = (std::uint64_t{1} << (bits - low_bits)) - 1;
  const auto mixed = [&](std::uint64_t half, std::uint32_t round) {
    const PhiloxBlock random =
        random_block(seed, RandomPurpose::minibatch, half, which, 2 * rounds * stream + round);
    return std::uint64_t{random.word[0]} | std::uint64_t{random.word[1]} << 32;
  };
  auto place = static_cast<std::uint64_t>(element);
  do {
    std::uint64_t low = place & low_mask, high = place >> low_bits;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      high ^= mixed(low, 2 * round) & high_mask;
      low ^= mixed(high, 2 * round + 1) & low_mask;
    }
    place = high << low_bits | low;
  } while (place >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(place);
}

}  // namespace maniple
