// Loops that the compiler always unrolls, regardless of its own cost model.
#pragma once

#include <type_traits>
#include <utility>

#include "kernels/base/macros.hpp"

namespace maniple {

template <int kBegin, class Body, int... kOffset>
MANIPLE_FUNCTION void unroll_over(const Body& body, std::integer_sequence<int, kOffset...>) {
  (body(std::integral_constant<int, kBegin + kOffset>()), ...);
}
// body(i) for kBegin <= i < kEnd, ascending; i is a constant.
template <int kBegin, int kEnd, class Body>
MANIPLE_FUNCTION void unroll(const Body& body) {
  if constexpr (kBegin < kEnd) unroll_over<kBegin>(body, std::make_integer_sequence<int, kEnd - kBegin>());
}

}  // namespace maniple
