// Memory of a device that does not exist: the program may not touch it, and copies reach it another way. Any
// wrong access ends the process with a message, which a real device would not always do.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace maniple::fake {

// Says what the program has done wrong, with the calls that led there, and ends the process (exit code 134).
[[noreturn]] void refuse(const std::string& what);

// The memory of one process: allocations within one range of addresses that nobody may read or write, mapped
// a second time where the functions of this library do.
class Memory {
 public:
  static Memory& instance();

  // Null where the device would have no room (FAKE_DEVICE_MEMORY, in bytes).
  void* allocate(std::size_t bytes);
  void release(void* address);
  // Pinned memory of the host.
  void* allocate_host(std::size_t bytes);
  void release_host(void* address);

  bool on_device(const void* address) const;
  bool pinned(const void* address) const;
  // Where this library reads and writes what the program calls `address`, of a device or of a host; refuses a
  // range that no allocation of the device has.
  char* reach(const void* address, std::size_t bytes, const char* purpose) const;
  // Zeros at the cost of none: pages that were not written yet.
  void clear(void* address, std::size_t bytes);

  std::size_t capacity() const { return capacity_; }
  std::size_t used() const;
  std::size_t most_used() const { return most_used_; }

 private:
  Memory();
  using Blocks = std::map<std::size_t, std::size_t>;  // first byte -> bytes

  char* forbidden_ = nullptr;
  char* open_ = nullptr;
  std::size_t capacity_ = 0, used_ = 0, most_used_ = 0, end_ = 0;
  Blocks blocks_, free_, host_blocks_;
  mutable std::recursive_mutex mutex_;
};

}  // namespace maniple::fake
