// Pauses and repetitions; which errors deserve them.
#include "src/parallel/retry.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "src/base/activity.hpp"
#include "src/base/log.hpp"

namespace maniple {
namespace {

int retries = 0;

constexpr int kLongestPause = 60;  // s

}  // namespace

bool is_transient(int error) {
  constexpr int transient[] = {EIO,          EAGAIN,     EBUSY,    ESTALE,      ETIMEDOUT, EREMOTEIO,
                               ECONNREFUSED, ECONNRESET, ENETDOWN, ENETUNREACH, EHOSTDOWN, EHOSTUNREACH,
                               ENOTCONN,     ESHUTDOWN,  ECOMM,    ENOLINK};
  return std::find(std::begin(transient), std::end(transient), error) != std::end(transient);
}

void throw_file_error(const std::string& path, const std::string& action, int error) {
  const std::string text = path + ": " + action + ": " + std::strerror(error);
  if (is_transient(error)) throw TransientError(text);
  throw FileError(text);
}

void set_retries(int count) {
  retries = count;
}

void retry_together(Collectives& collectives, const std::string& what, const std::function<void()>& work) {
  for (int attempt = 1;; ++attempt) {
    try {
      work();
      return;
    } catch (const TransientError& error) {
      if (attempt > retries) throw;
      const int pause = attempt > 6 ? kLongestPause : 1 << (attempt - 1);
      if (collectives.rank() == 0)
        warn(what + ": attempt " + std::to_string(attempt) + " of " + std::to_string(retries + 1) +
             " failed (" + error.what() + "); the next one in " + std::to_string(pause) + " s (run.retries)");
      for (int second = 0; second < pause; ++second) {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        note_progress();
      }
    }
  }
}

}  // namespace maniple
