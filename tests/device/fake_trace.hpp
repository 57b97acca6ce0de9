// A trace of the program's requests to the device: how often, and how many bytes. Tests compare it with the
// allowed cost of a step of a simulation or a minibatch.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace maniple::fake {

class Trace {
 public:
  static Trace& instance();

  void note(const std::string& call, std::size_t bytes = 0);
  void launched(const std::string& kernel);

 private:
  Trace() = default;
  // At the end of the process, as JSON, into the file FAKE_DEVICE_REPORT with the process's number behind it.
  void report();

  struct Calls {
    long count = 0;
    std::size_t bytes = 0;
  };
  std::map<std::string, Calls> calls_;
  std::map<std::string, long> launches_;
  std::mutex mutex_;
};

}  // namespace maniple::fake
