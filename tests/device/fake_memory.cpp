#include "tests/device/fake_memory.hpp"

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace maniple::fake {

namespace {

constexpr std::size_t kAddresses = std::size_t{1} << 38;  // more than any program takes, freed or not
constexpr std::size_t kAlignment = 512;
constexpr std::size_t kGap =
    512;  // between allocations, so that what runs over the end of one meets no other
constexpr int kRefused = 134;

void say(const char* what) {
  const auto ignored = write(STDERR_FILENO, what, std::strlen(what));
  static_cast<void>(ignored);
  void* calls[64];
  backtrace_symbols_fd(calls, backtrace(calls, 64), STDERR_FILENO);
}

void touched(int, siginfo_t* info, void*) {
  char text[160];
  std::snprintf(text, sizeof text, "fake device: the host touched %s %p\n",
                Memory::instance().on_device(info->si_addr) ? "memory of the device at" : "no memory at",
                info->si_addr);
  say(text);
  _exit(kRefused);
}

std::size_t rounded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment + kGap;
}

// The block that begins at or before a place; the end where there is none.
template <class Blocks>
auto block_of(Blocks& blocks, std::size_t place) {
  auto next = blocks.upper_bound(place);
  return next == blocks.begin() ? blocks.end() : std::prev(next);
}

}  // namespace

void refuse(const std::string& what) {
  say(("fake device: " + what + "\n").c_str());
  _exit(kRefused);
}

Memory& Memory::instance() {
  static Memory& memory = *new Memory;  // (outlives whatever gives memory back at the end)
  return memory;
}

Memory::Memory() {
  const char* const limit = std::getenv("FAKE_DEVICE_MEMORY");
  capacity_ = limit ? std::strtoull(limit, nullptr, 10) : std::size_t{80} << 30;
  const int file = memfd_create("fake_device", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(kAddresses)) != 0)
    refuse("no memory to stand for a device");
  constexpr int kFlags = MAP_SHARED | MAP_NORESERVE;
  forbidden_ = static_cast<char*>(mmap(nullptr, kAddresses, PROT_NONE, kFlags, file, 0));
  open_ = static_cast<char*>(mmap(nullptr, kAddresses, PROT_READ | PROT_WRITE, kFlags, file, 0));
  close(file);
  if (forbidden_ == MAP_FAILED || open_ == MAP_FAILED) refuse("no addresses to stand for a device");
  struct sigaction action {};
  action.sa_sigaction = touched;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

void* Memory::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (used_ + bytes > capacity_) return nullptr;
  const std::size_t wanted = rounded(bytes);
  const auto fits =
      std::find_if(free_.begin(), free_.end(), [&](const auto& block) { return block.second >= wanted; });
  std::size_t first = end_;
  if (fits != free_.end()) {
    first = fits->first;
    const std::size_t rest = fits->second - wanted;
    free_.erase(fits);
    if (rest > 0) free_[first + wanted] = rest;
  } else {
    end_ += wanted;
    if (end_ > kAddresses) refuse("more memory was allocated than this library has addresses for");
  }
  blocks_[first] = bytes;
  used_ += bytes;
  most_used_ = std::max(most_used_, used_);
  // (a device's memory holds whatever was there)
  std::memset(open_ + first, 0xff, std::min<std::size_t>(bytes, 4096));
  return forbidden_ + first;
}

void Memory::release(void* address) {
  const std::lock_guard lock(mutex_);
  const auto block = on_device(address)
                         ? blocks_.find(static_cast<std::size_t>(static_cast<char*>(address) - forbidden_))
                         : blocks_.end();
  if (block == blocks_.end()) refuse("memory was given back that is not allocated");
  const std::size_t room = rounded(block->second);
  // the pages of what is gone are the system's again
  const std::size_t page = 4096, first = (block->first + page - 1) / page * page;
  const std::size_t last = (block->first + block->second) / page * page;
  if (last > first) madvise(open_ + first, last - first, MADV_REMOVE);
  used_ -= block->second;
  auto joined = free_.emplace(block->first, room).first;
  blocks_.erase(block);
  if (const auto next = std::next(joined);
      next != free_.end() && joined->first + joined->second == next->first) {
    joined->second += next->second;
    free_.erase(next);
  }
  if (joined != free_.begin()) {
    const auto before = std::prev(joined);
    if (before->first + before->second == joined->first) {
      before->second += joined->second;
      free_.erase(joined);
    }
  }
}

void* Memory::allocate_host(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t page = 4096;
  void* const address = std::aligned_alloc(page, (std::max<std::size_t>(1, bytes) + page - 1) / page * page);
  if (address != nullptr) host_blocks_[reinterpret_cast<std::uintptr_t>(address)] = bytes;
  return address;
}

void Memory::release_host(void* address) {
  const std::lock_guard lock(mutex_);
  if (host_blocks_.erase(reinterpret_cast<std::uintptr_t>(address)) == 0)
    refuse("pinned memory was given back that is not allocated");
  std::free(address);
}

bool Memory::on_device(const void* address) const {
  const auto* const byte = static_cast<const char*>(address);
  return byte >= forbidden_ && byte < forbidden_ + kAddresses;
}

bool Memory::pinned(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  const auto block = block_of(host_blocks_, place);
  return block != host_blocks_.end() && place < block->first + block->second;
}

char* Memory::reach(const void* address, std::size_t bytes, const char* purpose) const {
  auto* const byte = const_cast<char*>(static_cast<const char*>(address));
  if (!on_device(address)) return byte;
  const std::lock_guard lock(mutex_);
  const auto place = static_cast<std::size_t>(byte - forbidden_);
  const auto block = block_of(blocks_, place);
  if (block == blocks_.end() || place + bytes > block->first + block->second)
    refuse(std::string(purpose) + " of " + std::to_string(bytes) + " B reaches beyond what is allocated");
  return open_ + place;
}

void Memory::clear(void* address, std::size_t bytes) {
  char* const first = reach(address, bytes, "a memset");
  constexpr std::uintptr_t page = 4096;
  auto* const from =
      reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(first) + page - 1) / page * page);
  auto* const to = reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(first + bytes) / page * page);
  if (!on_device(address) || to <= from ||
      madvise(from, static_cast<std::size_t>(to - from), MADV_REMOVE) != 0) {
    std::memset(first, 0, bytes);
    return;
  }
  std::memset(first, 0, static_cast<std::size_t>(from - first));
  std::memset(to, 0, static_cast<std::size_t>(first + bytes - to));
}

std::size_t Memory::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace maniple::fake
