// Conversion between tiles of the device and rows of the host: files and people read one row per environment,
// kernels read [tile][element][32].
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/base/tiles.hpp"

namespace maniple {

// Tiles as the host reads and writes them: a copy of those of a GPU, otherwise the tiles themselves.
template <class T>
class HostTiles {
 public:
  explicit HostTiles(const TiledView<T>& tiles)
      : device_(tiles.data),
        host_(Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), tiles.data)),
        elements_(tiles.elements) {}

  T* data() const { return host_.data(); }
  // The numbers of one environment of this rank: element i is at [i * kTileWidth].
  T* env(std::int64_t index) const {
    return data() + index / kTileWidth * elements_ * kTileWidth + index % kTileWidth;
  }
  // Brings what was written here to the device.
  void to_device() const { Kokkos::deep_copy(device_, host_); }

 private:
  using View = Kokkos::View<T*, MemorySpace>;
  View device_;
  decltype(Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), std::declval<View>())) host_;
  std::int64_t elements_;
};

// Elements [first, first + size) of every environment from `rows`: one row for all, or one for each of
// the first rows.size() / size environments (padding keeps what it has).
template <class T>
void rows_to_tiles(const TiledView<T>& tiles, int first, int size, const std::vector<double>& rows) {
  if (size == 0 || tiles.tiles == 0) return;
  const HostTiles<T> host(tiles);
  const auto row_count = static_cast<std::int64_t>(rows.size()) / size;
  const std::int64_t envs = row_count == 1 ? tiles.tiles * kTileWidth : row_count;
  for (std::int64_t env = 0; env < envs; ++env) {
    const double* const row = rows.data() + (row_count == 1 ? 0 : env * size);
    T* const elements = host.env(env);
    for (int i = 0; i < size; ++i) elements[(first + i) * kTileWidth] = static_cast<T>(row[i]);
  }
  host.to_device();
}

// Elements [first, first + size) of the first `envs` environments, packed rows of U.
template <class U, class T>
void tiles_to_rows(const TiledView<T>& tiles, int first, int size, std::int64_t envs,
                   std::vector<std::byte>& rows) {
  rows.resize(static_cast<std::size_t>(envs) * static_cast<std::size_t>(size) * sizeof(U));
  if (rows.empty()) return;
  const HostTiles<T> host(tiles);
  std::byte* to = rows.data();
  for (std::int64_t env = 0; env < envs; ++env) {
    const T* const elements = host.env(env);
    for (int i = 0; i < size; ++i, to += sizeof(U)) {
      const U value = static_cast<U>(elements[(first + i) * kTileWidth]);
      std::memcpy(to, &value, sizeof(U));
    }
  }
}

}  // namespace maniple
