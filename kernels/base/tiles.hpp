// Arrays over environments in the one memory layout of the program:
// [tile][element][32 lanes]. The last tile of a rank is padded. Padding lanes
// are stepped only in packs that also hold environments, and never reported.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/base/varying.hpp"

namespace maniple {

template <class T>
struct TiledView {
  Kokkos::View<T*, MemorySpace> data;
  std::int64_t tiles = 0;
  int elements = 0;  // per environment

  TiledView() = default;
  TiledView(const std::string& label, std::int64_t tile_count, int element_count)
      : data(label,
             static_cast<std::size_t>(tile_count) * static_cast<std::size_t>(element_count) * kTileWidth),
        tiles(tile_count),
        elements(element_count) {}

  // First scalar of a tile: [element][kTileWidth].
  MANIPLE_FUNCTION T* tile(std::int64_t t) const {
    return data.data() + t * static_cast<std::int64_t>(elements) * kTileWidth;
  }
  // Element of one environment, counted from this rank's first.
  MANIPLE_FUNCTION T& at(std::int64_t env, int element) const {
    return tile(env / kTileWidth)[element * kTileWidth + env % kTileWidth];
  }
};

}  // namespace maniple
