#include "tests/device/fake_trace.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/device/fake_memory.hpp"

namespace maniple::fake {

Trace& Trace::instance() {
  static Trace& trace = []() -> Trace& {
    auto* const made = new Trace;
    std::atexit([] { instance().report(); });
    return *made;
  }();
  return trace;
}

void Trace::note(const std::string& call, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Calls& calls = calls_[call];
  ++calls.count;
  calls.bytes += bytes;
}

void Trace::launched(const std::string& kernel) {
  const std::lock_guard lock(mutex_);
  ++launches_[kernel];
}

void Trace::report() {
  const char* const path = std::getenv("FAKE_DEVICE_REPORT");
  if (path == nullptr) return;
  const std::lock_guard lock(mutex_);
  std::ofstream out(path + ("." + std::to_string(getpid())));
  out << "{\"most_bytes\": " << Memory::instance().most_used() << ",\n \"calls\": {";
  const char* separator = "";
  for (const auto& [name, calls] : calls_) {
    out << separator << "\n  \"" << name << "\": {\"count\": " << calls.count
        << ", \"bytes\": " << calls.bytes << "}";
    separator = ",";
  }
  out << "},\n \"launches\": {";
  separator = "";
  for (const auto& [name, count] : launches_) {
    out << separator << "\n  \"" << name << "\": " << count;
    separator = ",";
  }
  out << "}}\n";
}

}  // namespace maniple::fake
