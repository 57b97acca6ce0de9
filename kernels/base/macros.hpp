// Macros for functions that run on host and device, and the few names in which Kokkos releases differ. Every
// header of kernels/ includes this first; nothing else of Kokkos is needed to read the mathematics.
#pragma once

#include <Kokkos_Core.hpp>

// The build may ask for it on a CPU, too: all that a GPU runs but threads in parallel can be tested so.
#if !defined(MANIPLE_SCALAR_LANES) && \
    (defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL))
#define MANIPLE_SCALAR_LANES
#endif

// Callable from host and device; forced inline, because stages pass lane values in registers. The sanitizers'
// builds, whose speed does not matter, would compile for a quarter of an hour that way.
#ifdef MANIPLE_SANITIZED
#define MANIPLE_FUNCTION KOKKOS_INLINE_FUNCTION
#else
#define MANIPLE_FUNCTION KOKKOS_FORCEINLINE_FUNCTION
#endif
// After a lambda's parameters: the same for the body of a walk over types, of which the compiler would make a
// function that is called once, with all lane values in memory.
#if defined(MANIPLE_SANITIZED) || defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
#define MANIPLE_INLINE_LAMBDA
#else
#define MANIPLE_INLINE_LAMBDA __attribute__((always_inline))
#endif
// The body of a launch. nvcc makes a lambda for host and device an object with pointers to functions of its
// file, which are null where another file's copy of a header's template was linked; one for the device alone
// has none.
#ifdef KOKKOS_ENABLE_CUDA
#define MANIPLE_LAMBDA [=] __device__
#else
#define MANIPLE_LAMBDA KOKKOS_LAMBDA
#endif
// Whole stages, and large parts of them. On a CPU the compiler decides whether a stage is inlined, and parts
// of it are forced to be, as above. For a GPU each is a function of its own: its compiler takes minutes for
// kernels of a hundred thousand instructions, and kernels of a file share what is not inlined.
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
#define MANIPLE_STAGE __attribute__((noinline)) KOKKOS_FUNCTION
#define MANIPLE_SUBSTAGE MANIPLE_STAGE
#else
#define MANIPLE_STAGE KOKKOS_FUNCTION
#define MANIPLE_SUBSTAGE MANIPLE_FUNCTION
#endif

namespace maniple {

using ExecutionSpace = Kokkos::DefaultExecutionSpace;
using MemorySpace = ExecutionSpace::memory_space;
// (for the preprocessor: whether kernels work in memory of their own)
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
#define MANIPLE_SEPARATE_MEMORY
#endif
// Memory of the host, from which a device copies at full speed where there is one.
#ifdef KOKKOS_HAS_SHARED_HOST_PINNED_SPACE
using PinnedSpace = Kokkos::SharedHostPinnedSpace;
#else
using PinnedSpace = Kokkos::HostSpace;
#endif

// True where one lane value is one scalar owned by one thread (GPU), false where it is a SIMD pack.
#ifdef MANIPLE_SCALAR_LANES
inline constexpr bool kScalarLanes = true;
#else
inline constexpr bool kScalarLanes = false;
#endif

}  // namespace maniple
