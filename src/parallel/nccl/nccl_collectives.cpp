// NCCL collectives, bootstrapped over MPI: rank 0 makes the unique id, MPI broadcasts it, every rank
// joins with its own device. The communicator is non-blocking and each wait polls stream, communicator
// and clock, so that a lost peer becomes an error and ncclCommAbort instead of a hang.
#include "src/parallel/nccl/nccl_collectives.hpp"

#include <cuda_runtime.h>
#include <nccl.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "src/base/activity.hpp"
#include "src/base/error.hpp"
#include "src/parallel/cuda/devices.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/mpi_access.hpp"

namespace maniple {

namespace {

constexpr std::chrono::minutes kTimeout{10};

void check_nccl(ncclResult_t code, const char* what) {
  if (code != ncclSuccess && code != ncclInProgress)
    throw Error(std::string("NCCL: ") + what + ": " + ncclGetErrorString(code));
}

class NcclCollectives final : public Collectives, public CommunicatorOwner {
 public:
  NcclCollectives(Collectives& host, int device) : host_(host), device_(device) {
    run_together(host_, [&] { check_cuda(cudaSetDevice(device_), "cudaSetDevice"); });

    ncclUniqueId id{};
    run_on_root(host_, [&] { check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId"); });
    host_.broadcast(&id, sizeof id, 0);
    // from here on a failure leaves members to release
    try {
      run_together(host_, [&] {
        check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        check_nccl(ncclCommInitRankConfig(&communicator_, host_.size(), id, host_.rank(), &config),
                   "ncclCommInitRankConfig");
        wait_for_communicator("ncclCommInitRankConfig");
      });
    } catch (...) {
      release(true);
      throw;
    }
  }
  ~NcclCollectives() override { release(std::uncaught_exceptions() > 0); }
  NcclCollectives(const NcclCollectives&) = delete;
  NcclCollectives& operator=(const NcclCollectives&) = delete;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::string backend() const override { return "nccl"; }
  MPI_Comm communicator() const override { return mpi_communicator(host_); }

  void device_sum(double* data, std::size_t count) override { reduce(data, count, ncclDouble); }
  void device_sum(float* data, std::size_t count) override { reduce(data, count, ncclFloat); }

  void sum(double* data, std::size_t count) override { host_.sum(data, count); }
  void sum(std::int64_t* data, std::size_t count) override { host_.sum(data, count); }
  void max(std::int64_t* data, std::size_t count) override { host_.max(data, count); }
  void min(std::int64_t* data, std::size_t count) override { host_.min(data, count); }
  void broadcast(void* data, std::size_t bytes, int root) override { host_.broadcast(data, bytes, root); }
  void barrier() override { host_.barrier(); }
  std::vector<std::string> gather_text(const std::string& text) override { return host_.gather_text(text); }

 private:
  template <class T>
  void reduce(T* data, std::size_t count, ncclDataType_t type) {
    if (count == 0) return;
    const ActivityCollective entered;
    // The sum must see what earlier kernels of any stream wrote.
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check_nccl(ncclAllReduce(data, data, count, type, ncclSum, communicator_, stream_), "ncclAllReduce");
    wait_for_communicator("ncclAllReduce");
    wait_for_stream("ncclAllReduce");
  }

  // Until the communicator has taken the operation (or failed).
  void wait_for_communicator(const char* what) {
    const auto deadline = std::chrono::steady_clock::now() + kTimeout;
    for (ncclResult_t state = ncclInProgress; state == ncclInProgress;) {
      check_nccl(ncclCommGetAsyncError(communicator_, &state), "ncclCommGetAsyncError");
      if (state != ncclSuccess) check_nccl(state, what);
      if (state == ncclInProgress) pause(deadline, what);
    }
  }

  // Until the stream is done. Polls, because waiting inside CUDA would stop MPI's progress and hide the
  // communicator's errors.
  void wait_for_stream(const char* what) {
    const auto deadline = std::chrono::steady_clock::now() + kTimeout;
    for (;;) {
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state == cudaSuccess) return;
      if (state != cudaErrorNotReady) check_cuda(state, what);
      ncclResult_t failure = ncclSuccess;
      check_nccl(ncclCommGetAsyncError(communicator_, &failure), "ncclCommGetAsyncError");
      check_nccl(failure, what);
      int ignored = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator(), &ignored, MPI_STATUS_IGNORE);
      pause(deadline, what);
    }
  }

  void pause(std::chrono::steady_clock::time_point deadline, const char* what) {
    if (std::chrono::steady_clock::now() > deadline) {
      release(true);
      throw Error(std::string("NCCL: ") + what + ": no answer from the other ranks for " +
                  std::to_string(kTimeout.count()) + " minutes");
    }
    std::this_thread::yield();
  }

  // Orderly where nothing failed; otherwise abort, which never waits for other ranks.
  void release(bool abort) {
    if (communicator_ != nullptr) {
      ncclResult_t state = ncclSuccess;
      ncclCommGetAsyncError(communicator_, &state);
      if (abort || state != ncclSuccess) {
        ncclCommAbort(communicator_);
      } else {
        ncclCommFinalize(communicator_);
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        do {
          ncclCommGetAsyncError(communicator_, &state);
        } while (state == ncclInProgress && std::chrono::steady_clock::now() < deadline);
        state == ncclSuccess ? ncclCommDestroy(communicator_) : ncclCommAbort(communicator_);
      }
      communicator_ = nullptr;
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    stream_ = nullptr;
  }

  Collectives& host_;
  int device_ = 0;
  cudaStream_t stream_ = nullptr;
  ncclComm_t communicator_ = nullptr;
};

}  // namespace

std::unique_ptr<Collectives> make_nccl_collectives(Collectives& host, int device_index) {
  return std::make_unique<NcclCollectives>(host, device_index);
}

std::string nccl_version() {
  int version = 0;
  ncclGetVersion(&version);
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

}  // namespace maniple
