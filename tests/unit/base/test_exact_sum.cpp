// Rounded terms add up to the same bits in any order and grouping, and stay close to the true sum.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/base/exact_sum.hpp"

namespace maniple {
namespace {

TEST(ExactSum, AnyOrderAndGroupingGivesTheSameBits) {
  std::mt19937_64 generator(3);
  std::normal_distribution<double> draw(0, 0.1);
  std::vector<double> terms(5000);
  for (double& term : terms) term = draw(generator);
  const auto sum = [](const std::vector<double>& values, std::size_t group) {
    double total = 0;
    for (std::size_t first = 0; first < values.size(); first += group) {
      double part = 0;
      for (std::size_t i = first; i < std::min(first + group, values.size()); ++i)
        part += exact_round(values[i]);
      total += part;
    }
    return total;
  };
  const double reference = sum(terms, 1);
  long double exact = 0;
  for (const double term : terms) exact += static_cast<long double>(term);
  // half a quantum per term
  EXPECT_NEAR(reference, static_cast<double>(exact), 5000 * std::ldexp(0.5, -kExactBits));
  bool plain_sums_agree = true;
  for (const std::size_t group : {2, 7, 64, 1000}) {
    std::shuffle(terms.begin(), terms.end(), generator);
    EXPECT_EQ(sum(terms, group), reference);
    double plain = 0, before = 0;
    for (const double term : terms) plain += term;
    std::sort(terms.begin(), terms.end());
    for (const double term : terms) before += term;
    plain_sums_agree = plain_sums_agree && plain == before;
  }
  EXPECT_FALSE(plain_sums_agree) << "the terms are too easy to show a difference";
}

TEST(ExactSum, RoundsToTheQuantum) {
  const double quantum = std::ldexp(1.0, -kExactBits);
  EXPECT_EQ(exact_round(0.4 * quantum), 0.0);
  EXPECT_EQ(exact_round(0.6 * quantum), quantum);
  EXPECT_EQ(exact_round(-2.6 * quantum), -3 * quantum);
  EXPECT_EQ(exact_round(kExactLimit / 2 - quantum), kExactLimit / 2 - quantum);
  EXPECT_TRUE(std::isnan(exact_round(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_TRUE(std::isinf(exact_round(std::numeric_limits<double>::infinity())));
}

}  // namespace
}  // namespace maniple
