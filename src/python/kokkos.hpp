// Kokkos within a process of Python: initialized by the first batch or policy, and never finalized.
#pragma once

#include <Kokkos_Core.hpp>
#include <mutex>

namespace maniple {

// (never ended: arrays of a simulation may outlive everything that Python lets go at its end)
inline void start_kokkos_once() {
  static std::mutex starting;
  const std::lock_guard lock(starting);
  if (!Kokkos::is_initialized()) Kokkos::initialize();
}

}  // namespace maniple
