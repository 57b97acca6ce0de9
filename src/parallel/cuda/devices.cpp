// CUDA's runtime, asked for its devices.
#include "src/parallel/cuda/devices.hpp"

#include <cuda_runtime.h>

#include <cstdio>

#include "src/base/error.hpp"

namespace maniple {

std::vector<Device> cuda_devices() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0)
    throw Error(std::string("launch: this build computes on a GPU, and there is none that it can use: ") +
                (code == cudaSuccess      ? "no device is visible (CUDA_VISIBLE_DEVICES)"
                 : cuda_driver_is_there() ? cudaGetErrorString(code)
                                          : "CUDA's driver (libcuda.so.1) is not installed here") +
                "; validate, inspect and schema need none");
  std::vector<Device> devices(count);
  for (int d = 0; d < count; ++d) {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, d), "cudaGetDeviceProperties");
    char bus_id[32] = {};
    check_cuda(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, d), "cudaDeviceGetPCIBusId");
    devices[d].name = properties.name;
    devices[d].capability = 10 * properties.major + properties.minor;
    devices[d].pci_bus_id = bus_id;
    // as nvidia-smi prints it: GPU-8-4-4-4-12 hexadecimal digits
    devices[d].uuid = "GPU-";
    for (int byte = 0; byte < 16; ++byte) {
      char digits[4];
      std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(properties.uuid.bytes[byte]));
      if (byte == 4 || byte == 6 || byte == 8 || byte == 10) devices[d].uuid += '-';
      devices[d].uuid += digits;
    }
  }
  return devices;
}

std::size_t free_cuda_memory() {
  std::size_t available = 0, total = 0;
  check_cuda(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
  return available;
}

std::string cuda_version() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void check_cuda(int code, const char* what) {
  if (code != cudaSuccess)
    throw Error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(static_cast<cudaError_t>(code)));
}

}  // namespace maniple
