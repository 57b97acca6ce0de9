#include "src/python/workers.hpp"

#include <unistd.h>

#include "src/base/error.hpp"

namespace maniple {

Workers::Workers(int count) : count_(count), process_(getpid()), failures_(static_cast<std::size_t>(count)) {
  for (int index = 1; index < count; ++index) threads_.emplace_back([this, index] { serve(index); });
}

Workers::~Workers() {
  if (getpid() != process_) {
    for (std::jthread& thread : threads_) thread.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  begins_.notify_all();
}

void Workers::attempt(int index) {
  std::exception_ptr& failure = failures_[static_cast<std::size_t>(index)];
  failure = nullptr;
  try {
    (*work_)(index);
  } catch (...) {
    failure = std::current_exception();
  }
}

void Workers::serve(int index) {
  for (std::int64_t seen = 0;;) {
    {
      std::unique_lock lock(mutex_);
      begins_.wait(lock, [&] { return closing_ || round_ != seen; });
      if (closing_) return;
      seen = round_;
    }
    attempt(index);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) ends_.notify_one();
  }
}

void Workers::run(const std::function<void(int)>& work) {
  if (getpid() != process_ && count_ > 1)
    throw Error(
        "environments with threads cannot be used in a process that fork() made from theirs; make them "
        "in that process, start it with multiprocessing's \"spawn\", or take threads=1");
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    busy_ = count_ - 1;
    ++round_;
  }
  begins_.notify_all();
  attempt(0);
  {
    std::unique_lock lock(mutex_);
    ends_.wait(lock, [&] { return busy_ == 0; });
  }
  for (const std::exception_ptr& failure : failures_)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace maniple
