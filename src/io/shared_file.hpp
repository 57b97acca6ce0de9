// A file that all ranks write at once, each at addresses of its own. Plain positioned writes instead of
// MPI-IO: an error of one rank is that rank's exception, where collective writes of Open MPI 4 hang, end
// the process or report success when one of their writers meets a quota (fcoll vulcan and two_phase; the
// others), and a rank's range of an array is one contiguous piece anyway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace maniple {

// All functions throw Error with path and the system's reason.
class SharedFile {
 public:
  SharedFile() = default;
  SharedFile(const std::string& path, bool writable);  // of an existing file
  ~SharedFile() { close(); }
  SharedFile(SharedFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  SharedFile& operator=(SharedFile&& other) noexcept {
    close();
    path_ = std::move(other.path_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    return *this;
  }

  const std::string& path() const { return path_; }
  bool is_open() const { return descriptor_ >= 0; }
  std::int64_t size() const;
  void write(const void* data, std::size_t bytes, std::int64_t position) const;
  // Throws, too, when the file ends before.
  void read(void* data, std::size_t bytes, std::int64_t position) const;
  // Makes this rank's writes durable.
  void sync() const;
  void close() noexcept;

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace maniple
