// The orders in which the dual solver visits the rows of an environment: MuJoCo shuffles the list of rows
// once per sweep with a generator that begins again in every solve, so that an order depends on nothing but
// the number of rows and of the sweep. Those of the first sweeps are in Model::dual_order, a byte per row.
#pragma once

#include <cstdint>

#include "kernels/base/macros.hpp"

namespace maniple {

// PCG XSH RR 64/32 on its first stream (M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient
// Statistically Good Algorithms for Random Number Generation", 2014), seeded with zero.
struct ShuffleGenerator {
  static constexpr std::uint64_t multiplier = 6364136223846793005u, increment = 1;
  std::uint64_t state = increment;  // where the seed zero leads to

  MANIPLE_FUNCTION std::uint32_t next() {
    const std::uint64_t drawn = state;
    state = drawn * multiplier + increment;
    const auto mixed = static_cast<std::uint32_t>(((drawn >> 18) ^ drawn) >> 27);
    const auto turn = static_cast<std::uint32_t>(drawn >> 59);
    return mixed >> turn | mixed << ((32 - turn) % 32);
  }
};

// Fisher and Yates' shuffle of order[0..count): from one sweep's order to the next one's.
template <class List>
MANIPLE_FUNCTION void shuffle(List& order, int count, ShuffleGenerator& generator) {
  for (int i = count - 1; i > 0; --i) {
    const auto j = static_cast<int>(generator.next() % static_cast<std::uint32_t>(i + 1));
    const auto other = order[i];
    order[i] = order[j];
    order[j] = other;
  }
}

// Bytes of an order of `count` rows in the table. After the rows it has the number that follows theirs, for
// who makes more visits.
MANIPLE_FUNCTION constexpr int order_length(int count) {
  return (count + 15) / 16 * 16;
}
// Where the orders of `count` rows begin in the table, and its size, in bytes; the orders of the sweeps
// follow each other.
MANIPLE_FUNCTION constexpr int order_address(int sweeps, int count) {
  const int full = (count - 1) / 16;  // multiples of 16 before count
  return sweeps * (128 * full * (full + 1) + (count - 1 - 16 * full) * order_length(count));
}

}  // namespace maniple
