// Sums of numbers of unknown units: close to the true sum whatever the unit, and the same bits in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/nn/exact_totals.hpp"

namespace maniple {
namespace {

constexpr int kBlock = 32;

struct Bins {
  double total[kBins] = {};
  bool inexact = false;
};

Bins sum_in_blocks(const std::vector<double>& blocks) {
  Bins bins;
  const double scale = 1.0 / static_cast<double>(blocks.size() * kBlock);
  for (const double block : blocks) bins.inexact |= add_to_bins(block, kBlock, scale, bins.total);
  return bins;
}

TEST(Bins, HoldSumsOfAnyUnit) {
  std::mt19937_64 generator(11);
  std::normal_distribution<double> draw(1, 2);
  for (const double unit : {1e-12, 1e-9, 1e-7, 1e-4, 1e-2, 1.0, 30.0, 1e4, 1e6, 1e9, 1e10}) {
    std::vector<double> blocks(20000);
    long double exact = 0;
    for (double& block : blocks) {
      block = unit * kBlock * draw(generator);
      exact += static_cast<long double>(block) / static_cast<long double>(blocks.size() * kBlock);
    }
    const Bins bins = sum_in_blocks(blocks);
    const double found = sum_of_bins(bins.total);
    EXPECT_NEAR(found, static_cast<double>(exact), 1e-4 * unit) << unit;
    EXPECT_FALSE(bins.inexact) << unit;
    std::shuffle(blocks.begin(), blocks.end(), generator);
    EXPECT_EQ(sum_of_bins(sum_in_blocks(blocks).total), found) << unit;
  }
}

// A total of terms at the upper end of each bin still has room in it.
TEST(Bins, DoNotOverflow) {
  for (int bin = 0; bin < kBins; ++bin) {
    const double limit = bin_limit(bin);
    const std::vector<double> blocks(100000, kBlock * limit * (1 - 1e-9));
    const Bins bins = sum_in_blocks(blocks);
    EXPECT_FALSE(bins.inexact);
    for (const double total : bins.total) EXPECT_LT(std::abs(total), kExactLimit);
    EXPECT_NEAR(sum_of_bins(bins.total) / limit, 1, 1e-6);
  }
}

TEST(Bins, SayWhatIsTooLarge) {
  EXPECT_TRUE(sum_in_blocks({kBlock * bin_limit(kBins - 1)}).inexact);
  EXPECT_TRUE(sum_in_blocks({std::nan("")}).inexact);
  EXPECT_TRUE(sum_in_blocks({INFINITY}).inexact);
}

}  // namespace
}  // namespace maniple
