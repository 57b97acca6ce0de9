// Traits of the varying type of a kernel, which is a scalar
// (pack.hpp) or a register of scalars (simd_pack.hpp).
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/base/macros.hpp"

namespace maniple {

// Whether a * b + c is rounded once (multiply_add of pack.hpp).
#if defined(__FMA__) || defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__) || \
    defined(__SYCL_DEVICE_ONLY__) || defined(__ARM_FEATURE_FMA)
inline constexpr bool kFusedMultiplyAdd = true;
#else
inline constexpr bool kFusedMultiplyAdd = false;
#endif

// Signed integer of the size of T; the element of a comparison's result.
template <class T>
using MaskInteger = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;

// What a kernel may ask about its varying type V: scalar type, number of lanes, mask type.
template <class V>
struct LaneTraits {
  using Scalar = V;
  using MaskType = bool;
  static constexpr int width = 1;
};

template <class V>
using ScalarOf = typename LaneTraits<V>::Scalar;
template <class V>
using MaskOf = typename LaneTraits<V>::MaskType;
template <class V>
inline constexpr int lane_width = LaneTraits<V>::width;

// The least number of lanes in whole packs that holds `count`.
template <class V, class Count>
MANIPLE_FUNCTION Count whole_packs(Count count) {
  return (count + lane_width<V> - 1) / lane_width<V> * lane_width<V>;
}

}  // namespace maniple
