// SHA-256 (FIPS 180-4, section 6.2), for digests of files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace maniple {

class Sha256 {
 public:
  void add(const void* data, std::size_t bytes);
  // 64 hexadecimal digits; the object is used up.
  std::string finish();

 private:
  void take_block(const unsigned char* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> pending_{};
  std::uint64_t total_ = 0;  // bytes so far
};

}  // namespace maniple
