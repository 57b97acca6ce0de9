// Lane values against plain loops over scalars: every operation that uses intrinsics, and the rules that
// rank invariance rests on (fixed trees, lanes that do not see each other).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/base/pack.hpp"

#ifndef MANIPLE_SCALAR_LANES
namespace maniple {
namespace {

template <class V>
class PackOf : public testing::Test {};
using LaneTypes = testing::Types<Pack<float, 4>, Pack<float, 8>, Pack<float, 16>, Pack<double, 2>,
                                 Pack<double, 4>, Pack<double, 8>, Pack<float, 2>>;
TYPED_TEST_SUITE(PackOf, LaneTypes);

template <class V>
V random_pack(std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> draw(-2, 2);
  V v;
  for (int lane = 0; lane < lane_width<V>; ++lane)
    set_lane(v, lane, static_cast<ScalarOf<V>>(draw(generator)));
  return v;
}

TYPED_TEST(PackOf, ArithmeticIsLaneByLane) {
  using V = TypeParam;
  const V a = random_pack<V>(1), b = random_pack<V>(2), c = random_pack<V>(3);
  for (int lane = 0; lane < lane_width<V>; ++lane) {
    EXPECT_EQ((a + b)[lane], a[lane] + b[lane]);
    EXPECT_EQ((a - b)[lane], a[lane] - b[lane]);
    EXPECT_EQ((a / b)[lane], a[lane] / b[lane]);
    EXPECT_EQ((-a)[lane], -a[lane]);
    EXPECT_EQ(min(a, b)[lane], std::min(a[lane], b[lane]));
    EXPECT_EQ(max(a, b)[lane], std::max(a[lane], b[lane]));
    EXPECT_EQ(abs(a)[lane], std::abs(a[lane]));
    EXPECT_EQ(sqrt(abs(a))[lane], std::sqrt(std::abs(a[lane])));
    EXPECT_EQ(select(a < b, a, c)[lane], a[lane] < b[lane] ? a[lane] : c[lane]);
    if constexpr (kFusedMultiplyAdd) {
      EXPECT_EQ(multiply_add(a, b, c)[lane], std::fma(a[lane], b[lane], c[lane]));
    }
  }
}

TYPED_TEST(PackOf, MinAndMaxKeepTheFirstUnlessTheComparisonHolds) {
  using V = TypeParam;
  using T = ScalarOf<V>;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  EXPECT_TRUE(std::isnan(min(V(nan), V(T(1)))[0]));
  EXPECT_EQ(min(V(T(1)), V(nan))[0], T(1));
  EXPECT_TRUE(std::isnan(max(V(nan), V(T(1)))[0]));
  EXPECT_EQ(max(V(T(1)), V(nan))[0], T(1));
  EXPECT_FALSE(std::signbit(min(V(T(0)), V(T(-0.0)))[0]));
  EXPECT_TRUE(std::isnan(clamp(V(nan), V(T(-1)), V(T(1)))[0]));
}

TYPED_TEST(PackOf, BroadcastKeepsTheSignOfZero) {
  using V = TypeParam;
  for (int lane = 0; lane < lane_width<V>; ++lane) {
    EXPECT_TRUE(std::signbit(V(-0.0)[lane]));
    EXPECT_FALSE(std::signbit(V(0.0)[lane]));
  }
}

TYPED_TEST(PackOf, AnyAndAllSeeEveryLane) {
  using V = TypeParam;
  using M = MaskOf<V>;
  EXPECT_FALSE(any_lane(M(false)));
  EXPECT_TRUE(all_lanes(M(true)));
  for (int lane = 0; lane < lane_width<V>; ++lane) {
    M one(false), all_but_one(true);
    one.set(lane, true);
    all_but_one.set(lane, false);
    EXPECT_TRUE(any_lane(one));
    EXPECT_FALSE(all_lanes(one));
    EXPECT_TRUE(any_lane(all_but_one));
    EXPECT_FALSE(all_lanes(all_but_one));
    EXPECT_TRUE(get_lane(one, lane));
    EXPECT_FALSE(get_lane(!one, lane));
  }
}

TYPED_TEST(PackOf, BroadcastsAnyElementOfSomePacks) {
  using V = TypeParam;
  const V one[1] = {random_pack<V>(1)}, two[2] = {random_pack<V>(2), random_pack<V>(3)},
          three[3] = {random_pack<V>(4), random_pack<V>(5), random_pack<V>(6)};
  const auto check = [](const auto& packs, int i) {
    const V result = broadcast_element(packs, i);
    for (int lane = 0; lane < lane_width<V>; ++lane)
      EXPECT_EQ(result[lane], packs[i / lane_width<V>][i % lane_width<V>]) << i;
  };
  for (int i = 0; i < lane_width<V>; ++i) check(one, i);
  for (int i = 0; i < 2 * lane_width<V>; ++i) check(two, i);
  for (int i = 0; i < 3 * lane_width<V>; ++i) check(three, i);
}

TYPED_TEST(PackOf, TransposesRowsAndLanes) {
  using V = TypeParam;
  V rows[lane_width<V>];
  for (int i = 0; i < lane_width<V>; ++i)
    for (int lane = 0; lane < lane_width<V>; ++lane)
      rows[i].set(lane, static_cast<ScalarOf<V>>(100 * i + lane));
  transpose(rows);
  for (int i = 0; i < lane_width<V>; ++i)
    for (int lane = 0; lane < lane_width<V>; ++lane) EXPECT_EQ(rows[i][lane], 100 * lane + i);
}

TYPED_TEST(PackOf, LanesAreSummedInABinaryTree) {
  using V = TypeParam;
  using T = ScalarOf<V>;
  const V v = random_pack<V>(5);
  T partial[lane_width<V>];
  for (int lane = 0; lane < lane_width<V>; ++lane) partial[lane] = v[lane];
  for (int half = lane_width<V> / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) partial[lane] += partial[lane + half];
  EXPECT_EQ(sum_lanes(v), partial[0]);
}

TYPED_TEST(PackOf, BadStatesAreThoseOfMuJoCo) {
  using V = TypeParam;
  using T = ScalarOf<V>;
  V v(T(1));
  EXPECT_FALSE(any_lane(is_bad(v)));
  for (const T bad : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(), T(-2e10)}) {
    V w = v;
    set_lane(w, lane_width<V> - 1, bad);
    EXPECT_TRUE(get_lane(is_bad(w), lane_width<V> - 1));
    EXPECT_FALSE(get_lane(is_bad(w), 0));
  }
}

}  // namespace
}  // namespace maniple
#endif
