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

// The hash of a row: its number, then each 8-byte word through a bijection, so that a change confined to
// one word always changes the result, then the bytes that are left.
inline std::uint64_t start_of_row(std::uint64_t row) {
  return mix_bits(row + 0x9E3779B97F4A7C15u);
}
inline std::uint64_t take_word(std::uint64_t hash, const unsigned char* bytes) {
  std::uint64_t word;
  std::memcpy(&word, bytes, 8);
  return mix_bits(hash ^ word) + 0x9E3779B97F4A7C15u;
}
inline std::uint64_t take_rest(std::uint64_t hash, const unsigned char* bytes, std::size_t size) {
  std::uint64_t rest = static_cast<std::uint64_t>(size) << 56;  // the length distinguishes zeros
  std::memcpy(&rest, bytes, size);
  return mix_bits(hash ^ rest);
}
inline std::uint64_t row_checksum(const void* data, std::size_t size, std::uint64_t row) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint64_t hash = start_of_row(row);
  std::size_t at = 0;
  for (; at + 8 <= size; at += 8) hash = take_word(hash, bytes + at);
  return take_rest(hash, bytes + at, size - at);
}

// Sum over `rows` rows of `row_bytes` bytes, the first being row number `first_row` of the dataset. Four
// rows at a time: each hash is one chain of multiplications, and a processor works on several chains.
inline std::uint64_t rows_checksum(const void* data, std::int64_t rows, std::size_t row_bytes,
                                   std::int64_t first_row) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint64_t sum = 0;
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    std::uint64_t hash[4];
    const unsigned char* row[4];
    for (int i = 0; i < 4; ++i) {
      row[i] = bytes + static_cast<std::size_t>(r + i) * row_bytes;
      hash[i] = start_of_row(static_cast<std::uint64_t>(first_row + r + i));
    }
    std::size_t at = 0;
    for (; at + 8 <= row_bytes; at += 8)
      for (int i = 0; i < 4; ++i) hash[i] = take_word(hash[i], row[i] + at);
    for (int i = 0; i < 4; ++i) sum += take_rest(hash[i], row[i] + at, row_bytes - at);
  }
  for (; r < rows; ++r)
    sum += row_checksum(bytes + static_cast<std::size_t>(r) * row_bytes, row_bytes,
                        static_cast<std::uint64_t>(first_row + r));
  return sum;
}

}  // namespace maniple
