// Collectives over NCCL. This folder includes only CUDA's and NCCL's host headers (no Kokkos, no device
// code), so that any C++ compiler takes it: CMake builds it wherever both are found, GPU or not, so that it
// cannot rot. Only a CUDA build links it, and defines MANIPLE_HAVE_NCCL.
#pragma once

#include <memory>
#include <string>

#include "src/parallel/collectives.hpp"

namespace maniple {

// Device sums over NCCL on a stream of their own, everything else over `host`, which must outlive the
// result. Collective. Each rank has a device of its own, which Session has seen to. Throws Error when NCCL
// fails or does not answer for ten minutes.
std::unique_ptr<Collectives> make_nccl_collectives(Collectives& host, int device_index);

// "2.28.9": NCCL as linked.
std::string nccl_version();

}  // namespace maniple
