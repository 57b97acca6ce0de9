// Arguments of networks that work on tiles of 32 samples: arrays outside of them.
#pragma once

#include <cstdint>

#include "kernels/base/macros.hpp"

namespace maniple {

// An array of each tile of a run, [tile][elements][32]: the arrays may be parts of larger blocks. In
// the memory of the device.
template <class T>
struct TileRun {
  T* first = nullptr;
  std::int64_t tile_stride = 0;  // from tile to tile, in elements of T

  MANIPLE_FUNCTION T* tile(std::int64_t t) const { return first + t * tile_stride; }
};

}  // namespace maniple
