// The order of samples: a permutation for each epoch, which nothing but seed and epoch decide.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "kernels/base/permutation.hpp"
#include "src/learning/samples.hpp"

namespace maniple {
namespace {

TEST(Permutation, TakesEveryElementOnce) {
  for (const std::int64_t count : {1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 100, 1000, 4097})
    for (const std::uint32_t which : {0u, 1u, 77u}) {
      std::vector<bool> seen(static_cast<std::size_t>(count), false);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t place = permuted(i, count, 5, which);
        ASSERT_TRUE(place >= 0 && place < count) << count;
        EXPECT_FALSE(seen[static_cast<std::size_t>(place)]) << count;
        seen[static_cast<std::size_t>(place)] = true;
      }
    }
}

// Where an element goes is uniform, and so is the distance between two neighbours: chi squared with 9 degrees
// of freedom is below 27.9 in 999 of 1000 cases.
TEST(Permutation, GoesEverywhereEquallyOften) {
  constexpr int kCount = 10, kDraws = 20000;
  const auto chi_squared = [](const std::vector<int>& counts) {
    const double expected = static_cast<double>(kDraws) / static_cast<double>(counts.size());
    double sum = 0;
    for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
    return sum;
  };
  std::vector<int> of_first(kCount, 0), of_distance(kCount - 1, 0);
  for (std::uint32_t which = 0; which < kDraws; ++which) {
    const std::int64_t a = permuted(3, kCount, 1, which), b = permuted(4, kCount, 1, which);
    ++of_first[static_cast<std::size_t>(a)];
    ++of_distance[static_cast<std::size_t>((b - a + kCount) % kCount - 1)];
  }
  EXPECT_LT(chi_squared(of_first), 27.9);
  EXPECT_LT(chi_squared(of_distance), 27.9);
}

// The samples of an epoch, batch after batch.
std::vector<std::int64_t> epoch_of(const Sampler& sampler, std::int64_t epoch) {
  std::vector<std::int64_t> samples;
  for (std::int64_t b = 0; b < sampler.batches_per_epoch(); ++b) {
    const Sampler::Batch batch = sampler.batch(epoch * sampler.batches_per_epoch() + b);
    EXPECT_EQ(batch.epoch, epoch);
    EXPECT_EQ(batch.first, static_cast<std::int64_t>(samples.size()));
    for (std::int64_t i = 0; i < batch.samples; ++i)
      samples.push_back(sampler.sample(batch.epoch, batch.first + i));
  }
  return samples;
}

TEST(Sampler, HasEverySampleOncePerEpoch) {
  const Sampler sampler({{103, 1}}, 9, 25, false);
  EXPECT_EQ(sampler.batches_per_epoch(), 5);
  EXPECT_EQ(sampler.batch(4).samples, 3);
  std::set<std::vector<std::int64_t>> orders;
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<std::int64_t> samples = epoch_of(sampler, epoch);
    orders.insert(samples);
    std::sort(samples.begin(), samples.end());
    std::vector<std::int64_t> all(103);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(samples, all);
  }
  EXPECT_EQ(orders.size(), 4u) << "each epoch has an order of its own";
  EXPECT_NE(epoch_of(Sampler({{103, 1}}, 10, 25, false), 0), epoch_of(sampler, 0)) << "so has each seed";
}

TEST(Sampler, LeavesOutWhatFillsNoBatch) {
  const Sampler sampler({{103, 1}}, 9, 25, true);
  EXPECT_EQ(sampler.batches_per_epoch(), 4);
  EXPECT_EQ(epoch_of(sampler, 0).size(), 100u);
  EXPECT_EQ(sampler.batch(4).epoch, 1);
}

TEST(Sampler, WeighsFiles) {
  const Sampler sampler({{40, 1}, {30, 2}, {50, 0.3}}, 4, 10, false);
  EXPECT_EQ(sampler.samples_per_epoch(), 40 + 60 + 15);
  std::map<std::int64_t, int> times;
  constexpr int kEpochs = 20;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    std::map<std::int64_t, int> now;
    for (const std::int64_t sample : epoch_of(sampler, epoch)) {
      ++times[sample];
      ++now[sample];
    }
    for (std::int64_t s = 0; s < 40; ++s) EXPECT_EQ(now[s], 1);
    for (std::int64_t s = 40; s < 70; ++s) EXPECT_EQ(now[s], 2);
  }
  for (std::int64_t s = 70; s < 120; ++s) EXPECT_EQ(times[s], kEpochs * 15 / 50);
}

// A demonstration of 3 frames and one of 5, by hand.
TEST(Windows, RepeatTheEndsOfADemonstration) {
  Config config;
  config.data.file = {"a.hdf5"};
  DemonstrationContents contents;
  contents.layouts = {"robomimic"};
  contents.demonstrations = {{"demo_0", 0, 0, 3}, {"demo_1", 0, 3, 5}};
  const auto rows = [&](const WindowShape& shape, std::int64_t sample) {
    std::vector<std::int64_t> found(static_cast<std::size_t>(shape.frames()));
    Windows(config, contents, shape).rows(sample, found.data());
    return found;
  };
  using Rows = std::vector<std::int64_t>;
  const WindowShape padded{.stack = 3, .sequence = 2};
  EXPECT_EQ(Windows(config, contents, padded).samples(), 8);
  EXPECT_EQ(rows(padded, 0), (Rows{0, 0, 0, 1}));
  EXPECT_EQ(rows(padded, 2), (Rows{0, 1, 2, 2}));
  EXPECT_EQ(rows(padded, 3), (Rows{3, 3, 3, 4}));
  EXPECT_EQ(rows(padded, 7), (Rows{5, 6, 7, 7}));
  const WindowShape bare{.stack = 2, .sequence = 2, .pad_stack = false, .pad_sequence = false};
  EXPECT_EQ(Windows(config, contents, bare).samples(), 1 + 3);
  EXPECT_EQ(rows(bare, 0), (Rows{0, 1, 2}));
  EXPECT_EQ(rows(bare, 3), (Rows{5, 6, 7}));
  const WindowShape longer{.stack = 3, .sequence = 2, .pad_stack = false, .pad_sequence = false};
  EXPECT_EQ(Windows(config, contents, longer).skipped(), 1);  // the first has 3 frames
  EXPECT_EQ(Windows(config, contents, longer).samples(), 2);
  EXPECT_EQ(rows(longer, 0), (Rows{3, 4, 5, 6}));
  EXPECT_THROW(rows({.stack = 5, .sequence = 2, .pad_stack = false, .pad_sequence = false}, 0), InputError);
}

}  // namespace
}  // namespace maniple
