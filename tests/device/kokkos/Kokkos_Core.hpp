// A stand-in for Kokkos on CUDA, with as much as nvcc needs to compile kernels and their launches where no
// such Kokkos is installed. Launches are kernels of the same bodies with the same bounds; functions for the
// host alone are only declared, because nothing is linked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#define KOKKOS_ENABLE_CUDA
#define KOKKOS_VERSION 40701
#define KOKKOS_FUNCTION __host__ __device__
#define KOKKOS_INLINE_FUNCTION inline __host__ __device__
#define KOKKOS_FORCEINLINE_FUNCTION __forceinline__ __host__ __device__
#define KOKKOS_LAMBDA [=] __host__ __device__

namespace Kokkos {
inline bool is_initialized() {
  return true;
}

struct HostSpace {};
struct CudaSpace {};
struct Cuda {
  using memory_space = CudaSpace;
  int concurrency() const;
  const cudaDeviceProp& cuda_device_prop() const;
  static const char* name();
};
using DefaultExecutionSpace = Cuda;
using DefaultHostExecutionSpace = Cuda;

// ---- memory ----
template <class T, class Space = CudaSpace>
class View {
 public:
  using Value = std::remove_pointer_t<T>;
  using HostMirror = View<std::remove_const_t<Value>*, HostSpace>;
  View() = default;
  View(const std::string& label, std::size_t count);
  // (a view of constants may be made from any)
  template <class Other>
  KOKKOS_INLINE_FUNCTION View(const View<Other, Space>& other)
      : data_(other.data()), count_(other.extent(0)) {}
  KOKKOS_INLINE_FUNCTION Value* data() const { return data_; }
  KOKKOS_INLINE_FUNCTION std::size_t extent(int) const { return count_; }
  KOKKOS_INLINE_FUNCTION std::size_t size() const { return count_; }
  KOKKOS_INLINE_FUNCTION Value& operator()(std::int64_t i) const { return data_[i]; }
  KOKKOS_INLINE_FUNCTION Value& operator[](std::int64_t i) const { return data_[i]; }

 private:
  Value* data_ = nullptr;
  std::size_t count_ = 0;
};

template <class To, class From>
void deep_copy(const To& to, const From& from);
template <class T, class Space>
typename View<T, Space>::HostMirror create_mirror_view(const View<T, Space>& view);
template <class T, class Space>
typename View<T, Space>::HostMirror create_mirror_view_and_copy(const HostSpace& space,
                                                                const View<T, Space>& view);
template <class T, class Space, class Range>
View<T, Space> subview(const View<T, Space>& view, const Range& range);
void fence();
namespace Profiling {
void pushRegion(const std::string& name);
void popRegion();
}  // namespace Profiling

template <class Number>
KOKKOS_INLINE_FUNCTION void atomic_add(Number* sum, Number value) {
#ifdef __CUDA_ARCH__
  atomicAdd(sum, value);
#endif
}

// ---- launches ----
template <class Number>
struct IndexType {};
template <unsigned Threads, unsigned Blocks>
struct LaunchBounds {
  static constexpr unsigned threads = Threads, blocks = Blocks;
};
template <class Space, class Index = IndexType<std::int64_t>>
struct RangePolicy {
  RangePolicy(std::int64_t first_index, std::int64_t last_index) : first(first_index), last(last_index) {}
  std::int64_t first, last;
};
namespace Experimental {
template <class Space>
struct UniqueToken {
  std::size_t size() const;
};
}  // namespace Experimental

class TeamScratch {
 public:
  __device__ explicit TeamScratch(char* memory) : memory_(memory) {}
  __device__ void* get_shmem(const int&) const { return memory_; }

 private:
  char* memory_;
};
// A block of threads.
class CudaTeamMember {
 public:
  __device__ CudaTeamMember(char* memory, int number) : scratch_(memory), number_(number) {}
  KOKKOS_INLINE_FUNCTION int league_rank() const { return number_; }
#ifdef __CUDA_ARCH__
  __device__ int team_rank() const {
    return static_cast<int>(threadIdx.y);
  }
  __device__ int team_size() const {
    return static_cast<int>(blockDim.y);
  }
  __device__ void team_barrier() const {
    __syncthreads();
  }
#else
  int team_rank() const;
  int team_size() const;
  void team_barrier() const;
#endif
  KOKKOS_INLINE_FUNCTION const TeamScratch& team_scratch(int) const {
    return scratch_;
  }

 private:
  TeamScratch scratch_;
  int number_;
};
struct PerTeam {
  explicit PerTeam(int size) : bytes(size) {}
  int bytes;
};
// (without bounds, as Kokkos launches what gives none)
struct NoBounds {};
template <class Space, class Bounds = NoBounds>
struct TeamPolicy {
  using member_type = CudaTeamMember;
  TeamPolicy(int teams, int threads);
  TeamPolicy& set_scratch_size(int level, PerTeam size);
};

namespace Impl {
template <class Body>
__device__ void run_part_of_range(const Body& body, const std::int64_t first, const std::int64_t last) {
  const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * gridDim.x;
  for (std::int64_t i = first + blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < last;
       i += step)
    body(i);
}
template <class Body>
__global__ void run_range(const Body body, const std::int64_t first, const std::int64_t last) {
  run_part_of_range(body, first, last);
}
template <unsigned Threads, unsigned Blocks, class Body>
__global__ __launch_bounds__(Threads, Blocks) void run_bounded_range(const Body body,
                                                                     const std::int64_t first,
                                                                     const std::int64_t last) {
  run_part_of_range(body, first, last);
}
template <class Body>
__device__ void run_team(const Body& body) {
  extern __shared__ char shared[];
  body(CudaTeamMember(shared, static_cast<int>(blockIdx.x)));
}
template <class Body>
__global__ void run_teams(const Body body) {
  run_team(body);
}
template <unsigned Threads, unsigned Blocks, class Body>
__global__ __launch_bounds__(Threads, Blocks) void run_bounded_teams(const Body body) {
  run_team(body);
}
}  // namespace Impl

template <class Space, class Index, class Body>
void parallel_for(const std::string&, const RangePolicy<Space, Index>& policy, const Body& body) {
  Impl::run_range<<<1, 1>>>(body, policy.first, policy.last);
}
template <class Space, unsigned Threads, unsigned Blocks, class Body>
void parallel_for(const std::string&, const RangePolicy<Space, LaunchBounds<Threads, Blocks>>& policy,
                  const Body& body) {
  Impl::run_bounded_range<Threads, Blocks><<<1, 1>>>(body, policy.first, policy.last);
}
template <class Space, class Body>
void parallel_for(const std::string&, const TeamPolicy<Space>&, const Body& body) {
  Impl::run_teams<<<1, 1>>>(body);
}
template <class Space, unsigned Threads, unsigned Blocks, class Body>
void parallel_for(const std::string&, const TeamPolicy<Space, LaunchBounds<Threads, Blocks>>&,
                  const Body& body) {
  Impl::run_bounded_teams<Threads, Blocks><<<1, 1>>>(body);
}

}  // namespace Kokkos
