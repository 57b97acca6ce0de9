// What the checksums of checkpoints must and must not depend on.
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

TEST(Checksum, SumsOverAnyPartsOfTheRowsAgree) {
  for (const std::size_t row : {1, 4, 8, 12, 23, 64}) {
    const std::vector<unsigned char> data = bytes(101 * row);
    const std::uint64_t whole = rows_checksum(data.data(), 101, row, 0);
    for (const std::int64_t cut : {0, 1, 3, 50, 100, 101})
      EXPECT_EQ(rows_checksum(data.data(), cut, row, 0) +
                    rows_checksum(data.data() + static_cast<std::size_t>(cut) * row, 101 - cut, row, cut),
                whole);
  }
}

TEST(Checksum, EveryFlippedBitChangesIt) {
  std::vector<unsigned char> data = bytes(9 * 13);
  const std::uint64_t good = rows_checksum(data.data(), 9, 13, 5);
  for (std::size_t bit = 0; bit < 8 * data.size(); ++bit) {
    data[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    EXPECT_NE(rows_checksum(data.data(), 9, 13, 5), good) << bit;
    data[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
  }
}

TEST(Checksum, ExchangedAndShiftedRowsChangeIt) {
  const std::vector<unsigned char> data = bytes(10 * 8);
  std::vector<unsigned char> exchanged = data;
  std::swap_ranges(exchanged.begin() + 16, exchanged.begin() + 24, exchanged.begin() + 56);
  EXPECT_NE(rows_checksum(exchanged.data(), 10, 8, 0), rows_checksum(data.data(), 10, 8, 0));
  EXPECT_NE(rows_checksum(data.data(), 10, 8, 1), rows_checksum(data.data(), 10, 8, 0));
  // rows of zeros of different lengths
  const std::vector<unsigned char> zeros(64);
  EXPECT_NE(row_checksum(zeros.data(), 3, 0), row_checksum(zeros.data(), 4, 0));
  EXPECT_NE(row_checksum(zeros.data(), 8, 0), row_checksum(zeros.data(), 16, 0));
}

}  // namespace
}  // namespace maniple
