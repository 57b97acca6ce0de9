#include "src/io/shared_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/activity.hpp"
#include "src/base/error.hpp"
#include "src/parallel/retry.hpp"

namespace maniple {

namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of one system call

[[noreturn]] void fail(const std::string& path, const char* action) {
  throw_file_error(path, action, errno);
}

// Calls `transfer(done, bytes left)` until all bytes are moved.
template <class Transfer>
void move_all(const std::string& path, const char* action, std::size_t bytes, const Transfer& transfer) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t moved = transfer(done, std::min(bytes - done, kMostBytes));
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) fail(path, action);
    if (moved == 0) throw Error(path + ": " + action + ": the file is truncated");
    done += static_cast<std::size_t>(moved);
    note_progress();
  }
}

}  // namespace

SharedFile::SharedFile(const std::string& path, bool writable)
    : path_(path), descriptor_(open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC)) {
  if (descriptor_ < 0) fail(path, "open");
}

std::int64_t SharedFile::size() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail(path_, "stat");
  return status.st_size;
}

void SharedFile::write(const void* data, std::size_t bytes, std::int64_t position) const {
  move_all(path_, "write", bytes, [&](std::size_t done, std::size_t left) {
    return pwrite(descriptor_, static_cast<const char*>(data) + done, left,
                  position + static_cast<off_t>(done));
  });
}

void SharedFile::read(void* data, std::size_t bytes, std::int64_t position) const {
  move_all(path_, "read", bytes, [&](std::size_t done, std::size_t left) {
    return pread(descriptor_, static_cast<char*>(data) + done, left, position + static_cast<off_t>(done));
  });
}

void SharedFile::sync() const {
  if (fsync(descriptor_) != 0) fail(path_, "fsync");
}

void SharedFile::close() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

}  // namespace maniple
