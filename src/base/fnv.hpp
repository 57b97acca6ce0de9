// Digests of the components of a run (the compiled model, the compiled task), which its checkpoints must
// match: FNV-1a, 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv). They detect no forgery; files have SHA-256.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace maniple {

class Fnv {
 public:
  void add(const void* data, std::size_t bytes) {
    const auto* const values = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) hash_ = (hash_ ^ values[i]) * 0x100000001b3u;
  }
  // Sixteen hexadecimal digits.
  std::string text() const {
    char digits[17];
    std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(hash_));
    return digits;
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace maniple
