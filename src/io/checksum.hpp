// Checksums of what goes into checkpoints: 64 bits per row of bytes, added up with wrap-around. The sum
// does not depend on the order of the rows, hence not on how many ranks share them; the row's number
// goes into its hash, so that exchanged rows do not cancel.
#pragma once

#include <cstdint>
#include <cstring>

namespace maniple {

// The finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection of 64-bit words.
inline std::uint64_t mix_bits(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBu;
  x ^= x >> 31;
  return x;
}

// Hash of one row. Each 8-byte word enters through a bijection, so that a change confined to one word
// always changes the result.
inline std::uint64_t row_checksum(const void* bytes, std::size_t size, std::uint64_t row) {
  const auto* position = static_cast<const unsigned char*>(bytes);
  std::uint64_t hash = mix_bits(row + 0x9E3779B97F4A7C15u);
  for (; size >= 8; size -= 8, position += 8) {
    std::uint64_t word;
    std::memcpy(&word, position, 8);
    hash = mix_bits(hash ^ word) + 0x9E3779B97F4A7C15u;
  }
  std::uint64_t tail = static_cast<std::uint64_t>(size) << 56;  // the length of the rest distinguishes zeros
  std::memcpy(&tail, position, size);
  return mix_bits(hash ^ tail);
}

// Sum over `rows` rows of `row_bytes` bytes, the first being row number `first_row` of the dataset.
inline std::uint64_t rows_checksum(const void* data, std::int64_t rows, std::size_t row_bytes,
                                   std::int64_t first_row) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint64_t sum = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    sum += row_checksum(bytes + static_cast<std::size_t>(r) * row_bytes, row_bytes,
                        static_cast<std::uint64_t>(first_row + r));
  return sum;
}

}  // namespace maniple
