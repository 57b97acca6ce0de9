// Philox4x32-10 against the known-answer vectors that its authors publish with Random123
// (kat_vectors), and the map from a word to a uniform number.
#include <gtest/gtest.h>

#include "kernels/base/philox.hpp"

namespace maniple {
namespace {

struct KnownAnswer {
  PhiloxBlock counter;
  std::uint32_t key0, key1;
  PhiloxBlock result;
};

TEST(Philox, AgreesWithPublishedVectors) {
  const KnownAnswer answers[] = {
      {{{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
       0xffffffff,
       0xffffffff,
       {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      // digits of pi
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       0xa4093822,
       0x299f31d0,
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
  };
  for (const KnownAnswer& answer : answers) {
    const PhiloxBlock block = philox4x32_10(answer.counter, answer.key0, answer.key1);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(block.word[i], answer.result.word[i]) << "word " << i;
  }
}

TEST(Philox, BlockIsAddressedByEverythingThatNamesIt) {
  // counter (index low, index high, step, draw), key (seed, purpose)
  const std::uint64_t index = 0x85a308d3243f6a88ull;
  const PhiloxBlock block = random_block(7, RandomPurpose::action, index, 0x13198a2e, 0x03707344);
  const PhiloxBlock expected = philox4x32_10({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 7,
                                             static_cast<std::uint32_t>(RandomPurpose::action));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(block.word[i], expected.word[i]);
}

TEST(Philox, UniformCoversItsIntervalWithoutTheOpenEnd) {
  EXPECT_EQ(uniform01<float>(0), 0.0f);
  EXPECT_LT(uniform01<float>(0xffffffff), 1.0f);
  EXPECT_GT(uniform01_open_zero<float>(0), 0.0f);
  EXPECT_EQ(uniform01_open_zero<float>(0xffffffff), 1.0f);
  // equal numbers in both precisions
  for (std::uint32_t word : {0u, 1u, 0x12345678u, 0x80000000u, 0xffffffffu})
    EXPECT_EQ(static_cast<double>(uniform01<float>(word)), uniform01<double>(word));
}

}  // namespace
}  // namespace maniple
