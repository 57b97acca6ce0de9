// The GPU side of src/parallel: which CUDA devices there are, and collectives over NCCL. The sources of
// this folder include only CUDA's and NCCL's host headers (no Kokkos, no device code), so that any C++
// compiler takes them: CMake builds the folder wherever cuda_runtime.h and nccl.h are found, GPU or
// not, so that it cannot rot, and defines MANIPLE_HAVE_NCCL then; only a CUDA build of Kokkos refers to
// these functions, hence only that one needs to link libnccl and libcudart.
#pragma once

#include <memory>
#include <vector>

#include "src/parallel/collectives.hpp"
#include "src/parallel/session.hpp"

namespace maniple {

// The CUDA devices visible to this process, in CUDA's order. Throws Error when there is none.
std::vector<Device> cuda_devices();

// Device sums over NCCL on a stream of their own, everything else over `host`, which must outlive the
// result. Collective. Throws InputError when two ranks use one device, Error when NCCL fails or does
// not answer for ten minutes.
std::unique_ptr<Collectives> make_nccl_collectives(Collectives& host, int device_index);

// "13.0 / 2.28.9": CUDA runtime and NCCL as linked.
std::string cuda_and_nccl_versions();

}  // namespace maniple
