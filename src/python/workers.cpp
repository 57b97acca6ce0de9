#include "src/python/workers.hpp"

namespace maniple {

Workers::Workers(int count) : count_(count), failures_(static_cast<std::size_t>(count)) {
  for (int index = 1; index < count; ++index) threads_.emplace_back([this, index] { serve(index); });
}

Workers::~Workers() {
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
