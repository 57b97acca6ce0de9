// Copies of host arrays where kernels read them.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <string>
#include <vector>

namespace maniple {

template <class Space = Kokkos::DefaultExecutionSpace::memory_space, class Element>
auto to_device(const std::string& label, const std::vector<Element>& elements) {
  const Kokkos::View<Element*, Space> device(label, elements.size());
  const auto host = Kokkos::create_mirror_view(device);
  std::copy(elements.begin(), elements.end(), host.data());
  Kokkos::deep_copy(device, host);
  return device;
}

}  // namespace maniple
