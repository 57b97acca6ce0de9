// The checksum of files: a sum, with wrap-around, of hashes of their 8-byte words. The sum does not depend
// on the order of the words, so not on how many ranks share them; a word's number goes into its hash, so
// that exchanged words do not cancel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace maniple {

// The finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection of 64-bit words, so that a
// change confined to one word always changes the sum.
inline std::uint64_t mix_bits(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBu;
  x ^= x >> 31;
  return x;
}

// Of `bytes` bytes that lie at `position` of a file, a multiple of 8; a last word that is not complete
// counts as if zeros followed.
inline std::uint64_t words_checksum(const void* data, std::size_t bytes, std::int64_t position) {
  constexpr std::uint64_t kStride = 0x9E3779B97F4A7C15u;
  const auto* source = static_cast<const unsigned char*>(data);
  std::uint64_t number = (static_cast<std::uint64_t>(position) / 8 + 1) * kStride, sum = 0;
  std::size_t at = 0;
  for (; at + 8 <= bytes; at += 8, number += kStride) {
    std::uint64_t word;
    std::memcpy(&word, source + at, 8);
    sum += mix_bits(word + number);
  }
  if (at < bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, source + at, bytes - at);
    sum += mix_bits(word + number);
  }
  return sum;
}

}  // namespace maniple
