// Conversion between tiles and the arrays of Python: rows [environment][element] of the user,
// [tile][element][32] of the program. The one place where a step of src/python touches every number.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/simulation/tile_rows.hpp"

namespace maniple {

// Eight lanes by eight elements at a time: reads along the lanes, writes along the elements, both within
// registers and the first cache.
inline constexpr int kRowBlock = 8;

// Rows of the first `envs` environments, all `elements` of each, from tiles.
template <class To, class From>
void rows_from_tiles(const From* tiles, int elements, std::int64_t envs, To* rows) {
  for (std::int64_t first = 0; first < envs; first += kRowBlock) {
    const From* const lanes = tiles + first / kTileWidth * elements * kTileWidth + first % kTileWidth;
    To* const to = rows + first * elements;
    const int count = static_cast<int>(std::min<std::int64_t>(kRowBlock, envs - first));
    int element = 0;
    if (count == kRowBlock) {
      for (; element + kRowBlock <= elements; element += kRowBlock) {
        From block[kRowBlock][kRowBlock];
        for (int i = 0; i < kRowBlock; ++i)
          for (int lane = 0; lane < kRowBlock; ++lane)
            block[i][lane] = lanes[(element + i) * kTileWidth + lane];
        for (int lane = 0; lane < kRowBlock; ++lane)
          for (int i = 0; i < kRowBlock; ++i)
            to[lane * elements + element + i] = static_cast<To>(block[i][lane]);
      }
    }
    for (int lane = 0; lane < count; ++lane)
      for (int i = element; i < elements; ++i)
        to[lane * elements + i] = static_cast<To>(lanes[i * kTileWidth + lane]);
  }
}

// The way back; the padding of the last tile keeps what it has.
template <class To, class From>
void tiles_from_rows(const From* rows, int elements, std::int64_t envs, To* tiles) {
  for (std::int64_t first = 0; first < envs; first += kRowBlock) {
    To* const lanes = tiles + first / kTileWidth * elements * kTileWidth + first % kTileWidth;
    const From* const from = rows + first * elements;
    const int count = static_cast<int>(std::min<std::int64_t>(kRowBlock, envs - first));
    for (int i = 0; i < elements; ++i)
      for (int lane = 0; lane < count; ++lane)
        lanes[i * kTileWidth + lane] = static_cast<To>(from[lane * elements + i]);
  }
}

}  // namespace maniple
