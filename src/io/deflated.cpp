// zlib itself, not HDF5's filter: the library allows one thread at a time, and would deflate at every write.
#include "src/io/deflated.hpp"

#include <zlib.h>

#include <algorithm>

#include "src/base/error.hpp"

namespace maniple {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
// Level 1 halves the bounding volumes that fill the models of meshes (70.9 MB to 35.6 MB for the robot g1),
// level 6 takes twice as long for 2 % less, and shuffled bytes deflate worse.
constexpr int kLevel = 1;

}  // namespace

std::size_t Deflated::stored_bytes() const {
  std::size_t sum = 0;
  for (const std::vector<std::uint8_t>& chunk : chunks) sum += chunk.size();
  return sum;
}

Deflated deflate(const std::vector<std::uint8_t>& bytes) {
  Deflated result;
  result.bytes = bytes.size();
  result.chunk_bytes = std::clamp<std::size_t>(bytes.size(), 1, kChunkBytes);
  for (std::size_t first = 0; first < bytes.size(); first += result.chunk_bytes) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(first);
    std::vector<std::uint8_t> piece(
        begin, begin + static_cast<std::ptrdiff_t>(std::min(result.chunk_bytes, bytes.size() - first)));
    piece.resize(result.chunk_bytes);
    uLongf size = compressBound(static_cast<uLong>(piece.size()));
    std::vector<std::uint8_t>& chunk = result.chunks.emplace_back(size);
    if (compress2(chunk.data(), &size, piece.data(), static_cast<uLong>(piece.size()), kLevel) != Z_OK)
      throw Error("deflating the model: zlib has no memory");
    chunk.resize(size);
    chunk.shrink_to_fit();
  }
  return result;
}

std::shared_future<Deflated> deflate_aside(std::shared_ptr<const std::vector<std::uint8_t>> bytes) {
  return std::async(std::launch::async, [bytes = std::move(bytes)] { return deflate(*bytes); }).share();
}

}  // namespace maniple
