// Threads that step the parts of a batch side by side, within one process: Kokkos' serial execution space
// keeps each of its launches on the thread that asks for it.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace maniple {

class Workers {
 public:
  // The thread that calls run() is one of them.
  explicit Workers(int count);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // work(index) for every worker, and returns when all are done; throws the first exception, by index. Error
  // in a process that fork() made, which has no other threads.
  void run(const std::function<void(int)>& work);

 private:
  void serve(int index);
  void attempt(int index);

  const int count_;
  const pid_t process_;  // whose threads these are
  std::mutex mutex_;
  std::condition_variable begins_, ends_;
  const std::function<void(int)>* work_ = nullptr;
  std::int64_t round_ = 0;
  int busy_ = 0;
  bool closing_ = false;
  std::vector<std::exception_ptr> failures_;
  std::vector<std::jthread> threads_;  // last: they end before what they use
};

}  // namespace maniple
