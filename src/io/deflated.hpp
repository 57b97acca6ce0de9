// Bytes that are deflated once and written many times: the model of a run, which every save writes again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <vector>

namespace maniple {

// As HDF5's deflate filter leaves the chunks of a dataset of bytes.
struct Deflated {
  std::size_t bytes = 0, chunk_bytes = 1;         // of the original: all, and of a chunk
  std::vector<std::vector<std::uint8_t>> chunks;  // the last one of chunk_bytes, too, filled up with zeros

  // B
  std::size_t stored_bytes() const;
};

// Throws Error when zlib has no memory.
Deflated deflate(const std::vector<std::uint8_t>& bytes);

// The same in a thread of its own, which ends before the last copy of the future goes.
std::shared_future<Deflated> deflate_aside(std::shared_ptr<const std::vector<std::uint8_t>> bytes);

}  // namespace maniple
