// Own elementary functions against libm in long double: errors in units in the last place over the
// ranges that simulation uses, special values against libm in the same precision, and every lane alike.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/math/functions.hpp"

namespace maniple {
namespace {

template <class V>
class Functions : public testing::Test {};
#ifdef MANIPLE_SCALAR_LANES
using LaneTypes = testing::Types<float, double>;
#else
using LaneTypes = testing::Types<float, double, Lanes<float>, Lanes<double>, Pack<float, 8>, Pack<double, 2>>;
#endif
TYPED_TEST_SUITE(Functions, LaneTypes);

// Largest error, in units in the last place of the exact result, over `samples` draws.
template <class V, class Own, class Exact, class Draw>
double largest_error(Own own, Exact exact, Draw draw, int samples = 40000) {
  using T = ScalarOf<V>;
  double largest = 0;
  for (int i = 0; i < samples; i += lane_width<V>) {
    V x;
    for (int lane = 0; lane < lane_width<V>; ++lane) set_lane(x, lane, static_cast<T>(draw()));
    const V y = own(x);
    for (int lane = 0; lane < lane_width<V>; ++lane) {
      const long double expected = exact(static_cast<long double>(get_lane(x, lane)));
      const T rounded = std::abs(static_cast<T>(expected));
      const long double unit = std::nextafter(rounded, std::numeric_limits<T>::infinity()) - rounded;
      const double error =
          static_cast<double>(std::abs(static_cast<long double>(get_lane(y, lane)) - expected) / unit);
      if (!(error <= largest)) largest = error;
      if (std::isnan(error)) return error;
    }
  }
  return largest;
}

auto uniform(double low, double high) {
  return [generator = std::mt19937_64(7),
          draw = std::uniform_real_distribution<double>(low, high)]() mutable { return draw(generator); };
}
auto log_uniform(double low, double high) {
  return [draw = uniform(std::log(low), std::log(high))]() mutable { return std::exp(draw()); };
}

TYPED_TEST(Functions, SineAndCosine) {
  using V = TypeParam;
  const auto own_sin = [](V x) { return maniple::sin(x); };
  const auto own_cos = [](V x) { return maniple::cos(x); };
  const double units = kFusedMultiplyAdd ? 2 : 3;
  for (const double range : {0.5, 3.0, 100.0, 1e5}) {
    EXPECT_LE(largest_error<V>(own_sin, sinl, uniform(-range, range)), units) << range;
    EXPECT_LE(largest_error<V>(own_cos, cosl, uniform(-range, range)), units) << range;
  }
  // next to multiples of pi/2, where the reduction must not lose the small remainder
  // (without a fused multiply-add to an absolute error only)
  using T = ScalarOf<V>;
  const double remainder = kFusedMultiplyAdd ? 0 : sizeof(T) == 4 ? 1e-9 : 1e-26;
  for (int n = 1; n < 60000; n += 37) {
    const T x = static_cast<T>(n * 1.57079632679489661923L);
    const long double s = sinl(x), c = cosl(x);
    const double allowed = 2.5 * std::numeric_limits<T>::epsilon();
    EXPECT_LE(std::abs(get_lane(maniple::sin(V(x)), 0) - s), allowed * std::abs(s) + remainder) << n;
    EXPECT_LE(std::abs(get_lane(maniple::cos(V(x)), 0) - c), allowed * std::abs(c) + remainder) << n;
  }
}

TYPED_TEST(Functions, ExponentialAndLogarithm) {
  using V = TypeParam;
  using T = ScalarOf<V>;
  constexpr bool single = sizeof(T) == 4;
  const auto own_exp = [](V x) { return maniple::exp(x); };
  const auto own_log = [](V x) { return maniple::log(x); };
  EXPECT_LE(largest_error<V>(own_exp, expl, uniform(-1, 1)), 2);
  EXPECT_LE(largest_error<V>(own_exp, expl, single ? uniform(-87, 88) : uniform(-708, 709)), 2);
  EXPECT_LE(largest_error<V>(own_log, logl, uniform(0.5, 2)), 2);
  EXPECT_LE(largest_error<V>(own_log, logl, single ? log_uniform(1e-44, 3e38) : log_uniform(1e-300, 1e300)),
            2);
}

TYPED_TEST(Functions, HyperbolicTangent) {
  using V = TypeParam;
  const auto own = [](V x) { return maniple::tanh(x); };
  EXPECT_LE(largest_error<V>(own, tanhl, uniform(-1, 1)), 2);
  EXPECT_LE(largest_error<V>(own, tanhl, uniform(-20, 20)), 2);
}

// The polynomials of the inverse functions are worst where they change over: 2.5 units there.
TYPED_TEST(Functions, InverseTrigonometric) {
  using V = TypeParam;
  EXPECT_LE(largest_error<V>([](V x) { return maniple::asin(x); }, asinl, uniform(-1, 1)), 2.5);
  EXPECT_LE(largest_error<V>([](V x) { return maniple::acos(x); }, acosl, uniform(-1, 1)), 2.5);
  for (const double x : {1.0, -1.0, 0.3, -7.0}) {
    EXPECT_LE(largest_error<V>([x](V y) { return maniple::atan2(y, V(x)); },
                               [x](long double y) { return atan2l(y, static_cast<ScalarOf<V>>(x)); },
                               uniform(-5, 5)),
              2.5)
        << x;
  }
}

TYPED_TEST(Functions, Power) {
  using V = TypeParam;
  using T = ScalarOf<V>;
  for (const double y : {0.3, 2.0, -3.3, 5.5}) {
    EXPECT_LE(
        largest_error<V>([y](V x) { return maniple::pow(x, V(y)); },
                         [y](long double x) { return powl(x, static_cast<T>(y)); }, log_uniform(1e-6, 1e6)),
        2)
        << y;
  }
  // large exponents: the logarithm needs more bits than the result
  EXPECT_LE(largest_error<V>([](V y) { return maniple::pow(V(1.0009765625), y); },
                             [](long double y) { return powl(1.0009765625L, y); }, uniform(-50000, 50000)),
            2);
}

// Equal, both NaN, or close; signs of zeros count.
template <class T>
bool agrees(T own, T reference) {
  if (std::isnan(own) || std::isnan(reference)) return std::isnan(own) && std::isnan(reference);
  if (std::signbit(own) != std::signbit(reference)) return false;
  if (own == reference) return true;
  return std::abs(own - reference) <= 3 * std::numeric_limits<T>::epsilon() * std::abs(reference) +
                                          2 * std::numeric_limits<T>::denorm_min();
}

TYPED_TEST(Functions, SpecialValues) {
  using V = TypeParam;
  using T = ScalarOf<V>;
  const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T values[] = {T(0.0),
                      T(-0.0),
                      T(1),
                      T(-1),
                      T(2),
                      T(-2),
                      T(0.5),
                      T(-0.5),
                      T(3),
                      T(-3),
                      T(-104),
                      T(1000),
                      T(-1000),
                      T(88.75),
                      T(-740.5),
                      nan,
                      -infinity,
                      infinity,
                      std::numeric_limits<T>::min() / 4,
                      std::numeric_limits<T>::denorm_min(),
                      std::numeric_limits<T>::max()};
  for (const T a : values) {
    if (std::abs(a) < T(1e5) || !std::isfinite(a)) {
      EXPECT_TRUE(a == 0 ? get_lane(maniple::sin(V(a)), 0) == 0
                         : agrees(get_lane(maniple::sin(V(a)), 0), std::sin(a)))
          << a;
      EXPECT_TRUE(agrees(get_lane(maniple::cos(V(a)), 0), std::cos(a))) << a;
    }
    EXPECT_TRUE(agrees(get_lane(maniple::exp(V(a)), 0), std::exp(a))) << a;
    EXPECT_TRUE(agrees(get_lane(maniple::log(V(a)), 0), std::log(a))) << a;
    EXPECT_TRUE(agrees(get_lane(maniple::tanh(V(a)), 0), std::tanh(a))) << a;
    EXPECT_TRUE(agrees(get_lane(maniple::asin(V(a)), 0), std::asin(a))) << a;
    EXPECT_TRUE(agrees(get_lane(maniple::acos(V(a)), 0), std::acos(a))) << a;
    for (const T b : values) {
      const bool subnormal = std::fpclassify(a) == FP_SUBNORMAL && std::fpclassify(b) == FP_SUBNORMAL;
      if (!subnormal) {
        EXPECT_TRUE(agrees(get_lane(maniple::atan2(V(a), V(b)), 0), std::atan2(a, b))) << a << " " << b;
      }
      if (std::abs(b) < T(1e5) || !std::isfinite(b)) {
        EXPECT_TRUE(agrees(get_lane(maniple::pow(V(a), V(b)), 0), std::pow(a, b))) << a << " " << b;
      }
    }
  }
}

// A lane's bits must not depend on its neighbours.
TYPED_TEST(Functions, LanesAreIndependent) {
  using V = TypeParam;
  using T = ScalarOf<V>;
  auto draw = uniform(-2, 2);
  V mixed;
  for (int lane = 0; lane < lane_width<V>; ++lane) set_lane(mixed, lane, static_cast<T>(draw()));
  for (int lane = 0; lane < lane_width<V>; ++lane) {
    const V alone(get_lane(mixed, lane));
    EXPECT_EQ(get_lane(maniple::sin(mixed), lane), get_lane(maniple::sin(alone), lane));
    EXPECT_EQ(get_lane(maniple::exp(mixed), lane), get_lane(maniple::exp(alone), 0));
    EXPECT_EQ(get_lane(maniple::tanh(mixed), lane), get_lane(maniple::tanh(alone), 0));
    EXPECT_EQ(get_lane(maniple::log(abs(mixed)), lane), get_lane(maniple::log(abs(alone)), 0));
  }
}

}  // namespace
}  // namespace maniple
