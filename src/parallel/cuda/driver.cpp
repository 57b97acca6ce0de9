// The functions of CUDA's driver that Kokkos calls, found in the driver's library when they are called first.
// A program that is linked with that library starts nowhere but where a driver is installed: login nodes,
// which check decks, have none.
#include <cuda.h>
#include <dlfcn.h>

namespace {

// Null where there is no driver.
void* driver_function(const char* name) {
  if (void* const loaded = dlsym(RTLD_DEFAULT, name)) return loaded;
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  return library != nullptr ? dlsym(library, name) : nullptr;
}

}  // namespace

// cuda.h gives some names a suffix.
#define MANIPLE_NAME_OF(function) #function
#define MANIPLE_DRIVER_FUNCTION(function, parameters, arguments)                                      \
  extern "C" __attribute__((visibility("hidden"))) CUresult CUDAAPI function parameters {             \
    using Function = CUresult(CUDAAPI*) parameters;                                                   \
    static const auto found = reinterpret_cast<Function>(driver_function(MANIPLE_NAME_OF(function))); \
    return found != nullptr ? found arguments : CUDA_ERROR_NO_DEVICE;                                 \
  }

MANIPLE_DRIVER_FUNCTION(cuCtxGetDevice, (CUdevice * device), (device))
MANIPLE_DRIVER_FUNCTION(cuCtxPushCurrent, (CUcontext context), (context))
MANIPLE_DRIVER_FUNCTION(cuCtxPopCurrent, (CUcontext * context), (context))
MANIPLE_DRIVER_FUNCTION(cuStreamGetCtx, (CUstream stream, CUcontext* context), (stream, context))

namespace maniple {

bool cuda_driver_is_there() {
  return driver_function("cuInit") != nullptr;
}

}  // namespace maniple
