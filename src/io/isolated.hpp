// A child process for reading files that other programs wrote: HDF5 1.10 crashes on some damaged files and
// runs for ever on others, and that shall be the end of the child and a message of the parent.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace maniple {

// The text that `work` returns, which a child process computes; it may also write to SharedMemory that was
// there before, and nothing else of it stays. InputError and Error of `work` are thrown here again; Error
// with the path, too, when the child crashes or computes longer than reading the file can take.
std::string run_isolated(const std::string& path, const std::function<std::string()>& work);

// Zeroed memory that the parent and the child of run_isolated() both see. With a directory it is that of a
// file there, which has no name any more: the system writes it out and reads it back as memory is short.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes, const std::string& directory = "");  // throws Error
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

}  // namespace maniple
