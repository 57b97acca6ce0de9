// What kernels left in memory of the device, where a test can look at it.
#pragma once

#include <Kokkos_Core.hpp>
#include <vector>

namespace maniple::testing {

template <class View>
auto host_of(const View& view) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  return std::vector<typename View::non_const_value_type>(host.data(), host.data() + host.span());
}

}  // namespace maniple::testing
