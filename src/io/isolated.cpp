#include "src/io/isolated.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "src/base/error.hpp"
#include "src/io/commit.hpp"

namespace maniple {

namespace {

// Seconds of computing for any file, and bytes that a slow processor digests in one.
constexpr std::uintmax_t kSeconds = 10, kBytesPerSecond = 20'000'000;

// Memory that reading any file may take beyond what the process has.
constexpr std::uintmax_t kMemory = std::uintmax_t{2} << 30;

struct Limits {
  rlim_t seconds, memory;

  explicit Limits(const std::string& path) {
    std::error_code unknown;
    std::uintmax_t bytes = std::filesystem::file_size(path, unknown);
    if (unknown) bytes = 0;
    std::uintmax_t pages = 0;  // of the process' address space
    std::ifstream("/proc/self/statm") >> pages;
    seconds = kSeconds + bytes / kBytesPerSecond;
    memory = pages == 0 ? RLIM_INFINITY
                        : pages * static_cast<std::uintmax_t>(sysconf(_SC_PAGESIZE)) + kMemory + bytes;
  }
};

// The first byte of an answer says what the rest is.
enum Answer : char { result = 'r', input_error = 'i', error = 'e' };

// In the child. (noexcept: nothing of it may unwind into what the child has of the parent's program)
[[noreturn]] void answer(int pipe, const Limits& limits, const std::function<std::string()>& work) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // MPI prints a page for each of these, and the program notes some others
  for (const int number :
       {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGTERM, SIGINT, SIGUSR1, SIGHUP})
    signal(number, SIG_DFL);
  const rlimit time{limits.seconds, limits.seconds + 1}, memory{limits.memory, limits.memory}, none{0, 0};
  setrlimit(RLIMIT_CPU, &time);
  setrlimit(RLIMIT_AS, &memory);
  setrlimit(RLIMIT_CORE, &none);
  const int nowhere = open("/dev/null", O_WRONLY);
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);  // the allocator's last words
  std::string text;
  try {
    text = static_cast<char>(Answer::result) + work();
  } catch (const InputError& e) {
    text = static_cast<char>(Answer::input_error) + std::string(e.what());
  } catch (const std::exception& e) {
    text = static_cast<char>(Answer::error) + std::string(e.what());
  }
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(pipe, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) _exit(1);
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  _exit(0);
}

}  // namespace

std::string run_isolated(const std::string& path, const std::function<std::string()>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(path + ": pipe: " + std::strerror(errno));
  const Limits limits(path);
  const pid_t child = fork();
  if (child == 0) answer(ends[1], limits, work);
  close(ends[1]);
  std::string text;
  char piece[4096];
  for (ssize_t bytes = 0; child > 0 && (bytes = read(ends[0], piece, sizeof piece)) != 0;) {
    if (bytes > 0) text.append(piece, static_cast<std::size_t>(bytes));
    if (bytes < 0 && errno != EINTR) break;
  }
  close(ends[0]);
  if (child < 0) throw Error(path + ": fork: " + std::strerror(errno));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
    throw Error(path + ": the process that reads it was killed: is memory short?");
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
    throw Error(path + ": damaged: the HDF5 library comes to no end with it");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || text.empty())
    throw Error(path + ": damaged: the HDF5 library crashes on it");
  const char kind = text[0];
  text.erase(0, 1);
  if (kind == Answer::input_error) throw InputError(text);
  if (kind == Answer::error) throw Error(text);
  return text;
}

SharedMemory::SharedMemory(std::size_t bytes, const std::string& directory)
    : bytes_(std::max<std::size_t>(1, bytes)), data_(MAP_FAILED) {
  if (directory.empty()) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  } else {
    const std::string path = temporary_name(directory + "/demonstrations");
    // a full disk is an error now, and no SIGBUS later
    try {
      reserve_bytes(path, static_cast<std::int64_t>(bytes_));
    } catch (...) {
      unlink(path.c_str());
      throw;
    }
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    unlink(path.c_str());
    if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes_)) == 0)
      data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const int failure = errno;
    if (file >= 0) close(file);
    errno = failure;
  }
  if (data_ == MAP_FAILED)
    throw Error((directory.empty() ? "no memory for " : directory + ": no file of ") +
                std::to_string(bytes_) + " bytes: " + std::strerror(errno));
}

SharedMemory::~SharedMemory() {
  munmap(data_, bytes_);
}

}  // namespace maniple
