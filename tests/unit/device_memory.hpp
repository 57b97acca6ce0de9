// Memory of the device that a test can read, and memory that
// host and device share. On a CPU all of it is the same.
#pragma once

#include <Kokkos_Core.hpp>
#include <string>
#include <vector>

#include "kernels/base/tiles.hpp"

namespace maniple::testing {

// What kernels left.
template <class View>
auto host_of(const View& view) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  return std::vector<typename View::non_const_value_type>(host.data(), host.data() + host.span());
}
template <class T>
std::vector<T> host_of(const T* device, std::size_t count) {
  return host_of(Kokkos::View<const T*, MemorySpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(device, count));
}

// Arrays that the test reads and writes as kernels do, after a fence. (Managed memory of a device is kept
// until the end of the program, since the view over it owns nothing.)
template <class T>
Kokkos::View<T*, MemorySpace> shared_numbers(const std::string& label, std::size_t count) {
#ifdef MANIPLE_SEPARATE_MEMORY
  const auto& kept = *new Kokkos::View<T*, Kokkos::SharedSpace>(label, count);
  return Kokkos::View<T*, MemorySpace>(kept.data(), count);
#else
  return Kokkos::View<T*, MemorySpace>(label, count);
#endif
}
template <class T>
TiledView<T> shared_tiles(const std::string& label, std::int64_t tiles, int elements) {
  TiledView<T> view;
  view.data = shared_numbers<T>(
      label, static_cast<std::size_t>(tiles) * static_cast<std::size_t>(elements) * kTileWidth);
  view.tiles = tiles;
  view.elements = elements;
  return view;
}

}  // namespace maniple::testing
