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
    throw Error(std::string("launch: this build needs a GPU, and there is none that it can use: ") +
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

// 13000 is "13.0".
static std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string cuda_version() {
  int version = 0;
  check_cuda(cudaRuntimeGetVersion(&version), "cudaRuntimeGetVersion");
  return version_text(version);
}

std::string cuda_driver_version() {
  int version = 0;
  check_cuda(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  return version_text(version);
}

std::string cuda_device_text(int device) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  int devices = 0;
  check_cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  std::string peers;
  for (int peer = 0; peer < devices; ++peer) {
    int can = 0;
    if (peer != device) check_cuda(cudaDeviceCanAccessPeer(&can, device, peer), "cudaDeviceCanAccessPeer");
    if (can != 0) peers += (peers.empty() ? " to devices " : ", ") + std::to_string(peer);
  }
  char memory[64];
  std::snprintf(memory, sizeof memory, "%.1f of %.1f GB free", static_cast<double>(free_cuda_memory()) / 1e9,
                static_cast<double>(properties.totalGlobalMem) / 1e9);
  return "compute capability " + std::to_string(properties.major) + "." + std::to_string(properties.minor) +
         ", driver " + cuda_driver_version() + ", " + memory +
         (devices < 2     ? ""
          : peers.empty() ? ", no peer access"
                          : ", peer access" + peers);
}

void check_cuda(int code, const char* what) {
  if (code != cudaSuccess)
    throw Error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(static_cast<cudaError_t>(code)));
}

}  // namespace maniple
