// A child process for reading files that other programs wrote: HDF5 1.10 crashes on some damaged files and
// never returns on others. Then only the child ends, and the parent reports the file.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "src/base/error.hpp"

namespace maniple {

// The machine failed while a file was read, which says nothing about what is in the file: memory was short, a
// signal came, the file system gave up.
class MachineFault : public Error {
 public:
  using Error::Error;
};

// The text that `work` returns, which a child process computes; it may also write to SharedMemory that was
// there before, and nothing else of it stays. InputError and Error of `work` are thrown here again; Error
// with the path, too, when the child crashes, computes longer than reading the file can take or asks for more
// memory than that; MachineFault where the file is not to blame.
std::string run_isolated(const std::string& path, const std::function<std::string()>& work);
// The same of many files, one after the other in one child: the texts of work(0), work(1) and so on. What is
// thrown is about the first file that has no text.
std::vector<std::string> run_isolated(const std::vector<std::string>& paths,
                                      const std::function<std::string(std::size_t file)>& work);

// What such work calls as it gets on with a file, piece after piece: how long reading takes depends on more
// than the bytes of a file, which may be compressed. The file has its time again, and the parent notes
// progress.
void note_reading();

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
