// Sets of dofs as bits in words of 32: of the model (geompair_dofset1, dof_coupledset) and of a pack
// (H_set, block_set). A set is whatever has words at [first_word], [first_word + 1], and so on.
#pragma once

#include "kernels/base/pack.hpp"

namespace maniple {

template <class Set>
MANIPLE_FUNCTION void insert_dof(const Set& set, int first_word, int dof) {
  int& word = set[first_word + dof / 32];
  word = static_cast<int>(static_cast<std::uint32_t>(word) | 1u << (dof % 32));
}

// body(k) for the dofs k, first <= k < end, of the set whose word w is words(w), ascending.
template <class Words, class Body>
MANIPLE_FUNCTION void for_each_dof(const Words& words, int first, int end, const Body& body) {
  for (int w = first / 32; 32 * w < end; ++w) {
    auto left = static_cast<std::uint32_t>(words(w));
    if (32 * w < first) left &= ~0u << (first % 32);
    if (32 * w + 32 > end) left &= (1u << (end % 32)) - 1u;
    for_each_bit(left, [&](int bit) { body(32 * w + bit); });
  }
}

}  // namespace maniple
