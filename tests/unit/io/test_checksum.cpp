// The checksum of files: the properties on which it must depend, and those on which it must not.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "src/io/checksum.hpp"

namespace maniple {
namespace {

std::vector<unsigned char> bytes(std::size_t count) {
  std::vector<unsigned char> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<unsigned char>(i * 37 + i / 256);
  return all;
}

TEST(Checksum, SumsOverAnyPartsAgree) {
  const std::vector<unsigned char> data = bytes(1003);
  const std::uint64_t whole = words_checksum(data.data(), data.size(), 4096);
  for (const std::size_t cut : {0, 8, 24, 504, 1000})
    EXPECT_EQ(words_checksum(data.data(), cut, 4096) +
                  words_checksum(data.data() + cut, data.size() - cut, 4096 + static_cast<std::int64_t>(cut)),
              whole);
}

TEST(Checksum, EveryFlippedBitChangesIt) {
  std::vector<unsigned char> data = bytes(9 * 13);
  const std::uint64_t good = words_checksum(data.data(), data.size(), 8);
  for (std::size_t bit = 0; bit < 8 * data.size(); ++bit) {
    data[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    EXPECT_NE(words_checksum(data.data(), data.size(), 8), good) << bit;
    data[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
  }
}

TEST(Checksum, ExchangedAndShiftedWordsChangeIt) {
  const std::vector<unsigned char> data = bytes(10 * 8);
  std::vector<unsigned char> exchanged = data;
  std::swap_ranges(exchanged.begin() + 16, exchanged.begin() + 24, exchanged.begin() + 56);
  const std::uint64_t good = words_checksum(data.data(), data.size(), 0);
  EXPECT_NE(words_checksum(exchanged.data(), exchanged.size(), 0), good);
  EXPECT_NE(words_checksum(data.data(), data.size(), 8), good);
  // zeros count, too
  const std::vector<unsigned char> zeros(64);
  EXPECT_NE(words_checksum(zeros.data(), 8, 0), words_checksum(zeros.data(), 16, 0));
}

}  // namespace
}  // namespace maniple
