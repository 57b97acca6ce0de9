// The CUDA devices of this host, and errors of CUDA's runtime. Like src/parallel/nccl, this folder includes
// only CUDA's host headers: CMake builds it wherever they are found, and links it where Kokkos runs on CUDA.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/parallel/session.hpp"

namespace maniple {

// The CUDA devices visible to this process, in CUDA's order. Throws Error when there is none.
std::vector<Device> cuda_devices();

// Whether the library of CUDA's driver is installed.
bool cuda_driver_is_there();

// Free memory of the device that this process uses [B].
std::size_t free_cuda_memory();

// Of a visible device, for people: "compute capability 9.0, driver 13.0, 84.1 of 85.0 GB free, peer access to
// devices 1, 2".
std::string cuda_device_text(int device);

// "13.0": CUDA's runtime as linked.
std::string cuda_version();

// "13.0": the newest CUDA that the installed driver knows.
std::string cuda_driver_version();

// Throws Error with CUDA's own words when `code`, a cudaError_t, is not cudaSuccess; `what` says what was
// tried.
void check_cuda(int code, const char* what);

}  // namespace maniple
