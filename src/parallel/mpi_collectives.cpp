// Collectives over MPI: the CPU implementation, and the host side of the GPU one. MPI never sees a
// device pointer: where the execution space's memory is not host memory, sums go through a staging copy.
#include <algorithm>
#include <climits>
#include <cstring>
#include <exception>
#include <numeric>

#include "kernels/base/macros.hpp"
#include "src/base/activity.hpp"
#include "src/base/error.hpp"
#include "src/parallel/mpi_access.hpp"

namespace maniple {

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(std::string("MPI: ") + what + ": " + text);
}

MPI_Comm mpi_communicator(const Collectives& collectives) {
  if (const auto* owner = dynamic_cast<const CommunicatorOwner*>(&collectives)) return owner->communicator();
  if (collectives.size() == 1) return MPI_COMM_SELF;
  throw Error("these collectives have no MPI communicator");
}

namespace {

// MPI counts are int: longer arrays go in pieces of this many elements.
constexpr std::size_t kLongestCall = std::size_t{1} << 28;

constexpr bool kHostCanReadDevice = Kokkos::SpaceAccessibility<Kokkos::HostSpace, MemorySpace>::accessible;

class MpiCollectives final : public Collectives, public CommunicatorOwner {
 public:
  explicit MpiCollectives(MPI_Comm parent) {
    check_mpi(MPI_Comm_dup(parent, &communicator_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
  }
  ~MpiCollectives() override {
    // freeing is collective, and an exception may be this rank's alone
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized && std::uncaught_exceptions() == 0) MPI_Comm_free(&communicator_);
  }
  MpiCollectives(const MpiCollectives&) = delete;
  MpiCollectives& operator=(const MpiCollectives&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string backend() const override { return "mpi"; }
  MPI_Comm communicator() const override { return communicator_; }

  void device_sum(double* data, std::size_t count) override { sum_on_device(data, count, MPI_DOUBLE); }
  void device_sum(float* data, std::size_t count) override { sum_on_device(data, count, MPI_FLOAT); }

  void sum(double* data, std::size_t count) override { reduce(data, count, MPI_DOUBLE, MPI_SUM); }
  void sum(std::int64_t* data, std::size_t count) override { reduce(data, count, MPI_INT64_T, MPI_SUM); }
  void max(std::int64_t* data, std::size_t count) override { reduce(data, count, MPI_INT64_T, MPI_MAX); }
  void min(std::int64_t* data, std::size_t count) override { reduce(data, count, MPI_INT64_T, MPI_MIN); }

  void broadcast(void* data, std::size_t bytes, int root) override {
    const ActivityCollective entered;
    char* position = static_cast<char*>(data);
    for (; bytes > 0;) {
      const std::size_t piece = std::min(bytes, kLongestCall);
      check_mpi(MPI_Bcast(position, static_cast<int>(piece), MPI_BYTE, root, communicator_), "MPI_Bcast");
      position += piece;
      bytes -= piece;
    }
  }
  void barrier() override {
    const ActivityCollective entered;
    check_mpi(MPI_Barrier(communicator_), "MPI_Barrier");
  }

  std::vector<std::string> gather_text(const std::string& text) override {
    const ActivityCollective entered;
    const int length = static_cast<int>(text.size());
    std::vector<int> lengths(size_), first(size_, 0);
    check_mpi(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, communicator_), "MPI_Allgather");
    if (std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}) > INT_MAX)
      throw Error("gather_text: more than 2 GiB of text");
    std::partial_sum(lengths.begin(), lengths.end() - 1, first.begin() + 1);
    std::string all(static_cast<std::size_t>(first.back() + lengths.back()), '\0');
    check_mpi(MPI_Allgatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), first.data(),
                             MPI_CHAR, communicator_),
              "MPI_Allgatherv");
    std::vector<std::string> texts(size_);
    for (int r = 0; r < size_; ++r)
      texts[r] = all.substr(static_cast<std::size_t>(first[r]), static_cast<std::size_t>(lengths[r]));
    return texts;
  }

 private:
  template <class T>
  void reduce(T* data, std::size_t count, MPI_Datatype type, MPI_Op operation) {
    if (size_ == 1) return;
    const ActivityCollective entered;
    for (; count > 0;) {
      const std::size_t piece = std::min(count, kLongestCall);
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(piece), type, operation, communicator_),
                "MPI_Allreduce");
      data += piece;
      count -= piece;
    }
  }

  // Kernels that write `data` may still run: wait for them, even where host memory is device memory.
  template <class T>
  void sum_on_device(T* data, std::size_t count, MPI_Datatype type) {
    if (count == 0 || (size_ == 1 && !kHostCanReadDevice)) return;
    ExecutionSpace().fence();
    if constexpr (kHostCanReadDevice) {
      reduce(data, count, type, MPI_SUM);
    } else {
      if (staging_.size() < count * sizeof(T)) staging_.resize(count * sizeof(T));
      using Unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
      Kokkos::View<T*, Kokkos::HostSpace, Unmanaged> host(reinterpret_cast<T*>(staging_.data()), count);
      Kokkos::View<T*, MemorySpace, Unmanaged> device(data, count);
      Kokkos::deep_copy(host, device);
      reduce(host.data(), count, type, MPI_SUM);
      Kokkos::deep_copy(device, host);
    }
  }

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::vector<unsigned char> staging_;  // grows to the largest sum; used only where spaces differ
};

}  // namespace

std::unique_ptr<Collectives> make_mpi_collectives(MPI_Comm communicator) {
  return std::make_unique<MpiCollectives>(communicator);
}

}  // namespace maniple
