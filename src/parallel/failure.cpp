// Agreement about errors and the end of a failed program. Failing ranks meet on a communicator of their
// own, so that nothing they send can match a pending operation of the program.
#include "src/parallel/failure.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

#include "src/base/log.hpp"
#include "src/base/memory.hpp"
#include "src/parallel/mpi_access.hpp"
#include "src/parallel/retry.hpp"

namespace maniple {

namespace {

MPI_Comm failure_channel = MPI_COMM_NULL;
bool finalize_is_safe = true;

constexpr std::chrono::milliseconds kGrace{500};
constexpr std::chrono::seconds kPatience{30};  // with MPI_Abort and MPI_Finalize, which may hang

struct Verdict {
  std::int64_t rank;  // the lowest rank with an error; number of ranks: none
  std::int64_t kind;
  std::int64_t length;
};

enum FailureKind : std::int64_t { error_of_program, error_of_input, error_of_file, error_that_may_pass };

// Throws the lowest failing rank's error on every rank.
void agree(Collectives& collectives, const std::string* error, FailureKind kind) {
  std::int64_t lowest = error ? collectives.rank() : collectives.size();
  collectives.min(&lowest, 1);
  if (lowest == collectives.size()) return;
  Verdict verdict{lowest, kind, error ? static_cast<std::int64_t>(error->size()) : 0};
  collectives.broadcast(&verdict, sizeof verdict, static_cast<int>(lowest));
  std::string text = error && lowest == collectives.rank() ? *error : "";
  text.resize(static_cast<std::size_t>(verdict.length));
  collectives.broadcast(text.data(), text.size(), static_cast<int>(lowest));
  if (verdict.kind == error_of_input) throw InputError(text);
  if (verdict.kind == error_of_file) throw FileError(text);
  if (verdict.kind == error_that_may_pass) throw TransientError(text);
  throw Error(text);
}

// bad_alloc says nothing about why.
std::string message_of(const std::exception& error) {
  if (!dynamic_cast<const std::bad_alloc*>(&error)) return error.what();
  std::string text = std::string("out of memory (") + error.what() + ")";
  for (const MemoryLimit& limit : memory_limits())
    text += "; " + std::to_string(limit.available / 1000000) + " MB left by " + limit.name;
  return text;
}

void print(const std::string& message) {
  live_line("");
  record("error", {{"text", message}});
  std::fflush(stdout);
  // one write, so that messages of several ranks cannot mix
  const std::string line = "maniple: error: " + message + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

// The process ends in this many seconds, whatever hangs meanwhile.
void leave_within(std::chrono::seconds time, ExitCode code) {
  std::thread([time, code] {
    std::this_thread::sleep_for(time);
    std::_Exit(static_cast<int>(code));
  }).detach();
}

}  // namespace

void run_together(Collectives& collectives, const std::function<void()>& work) {
  std::string error;
  bool failed = true;
  FailureKind kind = error_of_program;
  try {
    work();
    failed = false;
  } catch (const InputError& e) {
    kind = error_of_input;
    error = e.what();
  } catch (const TransientError& e) {
    // a library that lost its own order cannot be trusted with a second try
    kind = finalize_is_safe ? error_that_may_pass : error_of_file;
    error = e.what();
  } catch (const FileError& e) {
    kind = error_of_file;
    error = e.what();
  } catch (const std::exception& e) {
    error = message_of(e);
  }
  agree(collectives, failed ? &error : nullptr, kind);
}

void run_on_root(Collectives& collectives, const std::function<void()>& work) {
  run_together(collectives, [&] {
    if (collectives.rank() == 0) work();
  });
}

std::string broadcast_text(Collectives& collectives, const std::string& text) {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  collectives.broadcast(&length, sizeof length, 0);
  std::string result = collectives.rank() == 0 ? text : std::string(static_cast<std::size_t>(length), '\0');
  collectives.broadcast(result.data(), result.size(), 0);
  return result;
}

int run_guarded(const std::function<int()>& body) {
  try {
    return body();
  } catch (const InputError& e) {
    fail_all_ranks(e.what(), ExitCode::bad_input);
  } catch (const std::exception& e) {
    fail_all_ranks(message_of(e), ExitCode::error);
  } catch (...) {
    fail_all_ranks("unknown exception", ExitCode::error);
  }
}

void leave_without_finalize() {
  finalize_is_safe = false;
}

void open_failure_channel() {
  if (failure_channel != MPI_COMM_NULL) return;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &failure_channel), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(failure_channel, MPI_ERRORS_RETURN);
}

void close_failure_channel() {
  if (failure_channel != MPI_COMM_NULL) MPI_Comm_free(&failure_channel);
}

void fail_all_ranks(const std::string& message, ExitCode code) {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (!initialized || finalized || failure_channel == MPI_COMM_NULL) {
    print(message);
    if (initialized && !finalized) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
    std::_Exit(static_cast<int>(code));
  }
  leave_within(kPatience, code);
  int rank = 0, size = 1;
  MPI_Comm_rank(failure_channel, &rank);
  MPI_Comm_size(failure_channel, &size);

  // Tell the higher ranks, and start a reduction that completes only when every rank has failed. Its
  // result carries the code of rank 0.
  std::vector<MPI_Request> notices;
  int token = rank;
  for (int other = rank + 1; other < size; ++other) {
    notices.emplace_back();
    MPI_Isend(&token, 1, MPI_INT, other, 0, failure_channel, &notices.back());
  }
  std::int64_t mine = std::int64_t{rank} * 256 + static_cast<int>(code), lowest = mine;
  MPI_Request everybody = MPI_REQUEST_NULL;
  MPI_Iallreduce(&mine, &lowest, 1, MPI_INT64_T, MPI_MIN, failure_channel, &everybody);

  int all_failed = 0, lower_failed = 0;
  const auto deadline = std::chrono::steady_clock::now() + kGrace;
  while (!all_failed && std::chrono::steady_clock::now() < deadline) {
    MPI_Test(&everybody, &all_failed, MPI_STATUS_IGNORE);
    if (!all_failed) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  // messages of lower ranks that already arrived; they are received, so that MPI_Finalize has no leftovers
  for (int waiting = 1; waiting;) {
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, 0, failure_channel, &waiting, &status);
    if (!waiting) break;
    int ignored = 0;
    MPI_Recv(&ignored, 1, MPI_INT, status.MPI_SOURCE, 0, failure_channel, MPI_STATUS_IGNORE);
    lower_failed = 1;
  }

  if (all_failed) {
    if (rank == 0) print(message);
    MPI_Barrier(failure_channel);  // nobody leaves before the message is out: leaving ends the job
    std::fflush(nullptr);
    if (finalize_is_safe) MPI_Finalize();
    std::_Exit(static_cast<int>(lowest % 256));
  }
  if (!lower_failed) print("rank " + std::to_string(rank) + ": " + message);
  std::fflush(nullptr);
  // a lower rank aborts with its own code; give it the chance
  if (lower_failed) std::this_thread::sleep_for(kGrace);
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

void fail_without_mpi(const std::string& message, ExitCode code, const std::function<void()>& last) {
  leave_within(std::chrono::seconds(5), code);
  // not by stdio: the main thread may hang with its lock
  const std::string line = (isatty(STDERR_FILENO) ? "\n" : "") + ("maniple: error: " + message + "\n");
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  last();
  record("error", {{"text", message}});
  std::_Exit(static_cast<int>(code));
}

}  // namespace maniple
