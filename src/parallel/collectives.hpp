// Collective operations of the program, by MPI (CPUs) or NCCL (GPUs). Pointers are into the execution space's
// memory for the `device_*` calls and into host memory for the others.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace maniple {

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string backend() const = 0;  // "mpi" or "nccl"

  // Element-wise sum over ranks, in place, of arrays in device memory. Sums of doubles that were
  // rounded by kernels/base/exact_sum.hpp are exact, so independent of order and rank count.
  virtual void device_sum(double* data, std::size_t count) = 0;
  virtual void device_sum(float* data, std::size_t count) = 0;

  // The same in host memory, plus what set-up, output and signals need.
  virtual void sum(double* data, std::size_t count) = 0;
  virtual void sum(std::int64_t* data, std::size_t count) = 0;
  virtual void max(std::int64_t* data, std::size_t count) = 0;
  virtual void min(std::int64_t* data, std::size_t count) = 0;
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  virtual void barrier() = 0;
  // Every rank's text, in rank order, on every rank.
  virtual std::vector<std::string> gather_text(const std::string& text) = 0;
};

}  // namespace maniple
