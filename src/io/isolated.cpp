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
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>

#include "src/base/activity.hpp"
#include "src/io/commit.hpp"
#include "src/parallel/retry.hpp"

namespace maniple {

namespace {

// Seconds of computing for any file, and bytes that a slow processor digests in one.
constexpr std::uintmax_t kSeconds = 10, kBytesPerSecond = 20'000'000;

// Memory that reading any file may take beyond what the process has.
constexpr std::uintmax_t kMemory = std::uintmax_t{2} << 30;

// What reading files may take of a process whose address space is as large as this one's.
struct Limits {
  std::vector<rlim_t> seconds;  // of each file
  rlimit memory{};
  bool own = false;  // the limit of memory is ours; else the process had a lower one

  explicit Limits(const std::vector<std::string>& paths) {
    std::uintmax_t largest = 0;
    for (const std::string& path : paths) {
      std::error_code unknown;
      std::uintmax_t bytes = std::filesystem::file_size(path, unknown);
      if (unknown) bytes = 0;
      seconds.push_back(kSeconds + bytes / kBytesPerSecond);
      largest = std::max(largest, bytes);
    }
    std::uintmax_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &memory);
    const rlim_t enough = pages * static_cast<std::uintmax_t>(sysconf(_SC_PAGESIZE)) + kMemory + largest;
    own = pages > 0 && (memory.rlim_cur == RLIM_INFINITY || enough <= memory.rlim_cur);
    if (own) memory.rlim_cur = enough;
  }
};

// An answer is one of these, its length, and a text. (progress: that there will be one)
enum Answer : char { result = 'r', input_error = 'i', error = 'e', machine_fault = 'm', progress = 'p' };

bool send(int pipe, Answer kind, const std::string& text) {
  std::string bytes(1, static_cast<char>(kind));
  const std::uint64_t length = text.size();
  bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += text;
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t written = write(pipe, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  return true;
}

// Takes the first answer off; false: there is no whole one.
bool receive(std::string& bytes, char& kind, std::string& text) {
  std::uint64_t length = 0;
  constexpr std::size_t head = 1 + sizeof length;
  if (bytes.size() < head) return false;
  std::memcpy(&length, bytes.data() + 1, sizeof length);
  if (bytes.size() - head < length) return false;
  kind = bytes[0];
  text = bytes.substr(head, length);
  bytes.erase(0, head + length);
  return true;
}

// Seconds that this process has computed.
rlim_t seconds_so_far() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<rlim_t>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + 1;
}

void allow(rlim_t seconds) {
  const rlimit time{seconds_so_far() + seconds, RLIM_INFINITY};
  setrlimit(RLIMIT_CPU, &time);
}

// The file that the child reads, for note_reading(); in the parent there is no pipe.
struct Reading {
  int pipe = -1;
  rlim_t seconds = 0;
  std::chrono::steady_clock::time_point noted;
};
constinit Reading reading;

// HDF5 has words of its own for an allocation that failed.
bool speaks_of_memory(const std::string& text) {
  return text.find("memory") != std::string::npos || text.find("allocat") != std::string::npos;
}

// In the child. (noexcept: nothing of it may unwind into what the child has of the parent's program)
[[noreturn]] void answer(int pipe, const Limits& limits,
                         const std::function<std::string(std::size_t)>& work) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // MPI prints a page for each of these, and the program notes some others
  for (const int number :
       {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGTERM, SIGINT, SIGUSR1, SIGHUP})
    signal(number, SIG_DFL);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_AS, &limits.memory);
  setrlimit(RLIMIT_CORE, &none);
  const int nowhere = open("/dev/null", O_WRONLY);
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);  // the allocator's last words
  const std::string lack = "no memory to read it with (ulimit -v, of the address space, is too low)";
  for (std::size_t file = 0; file < limits.seconds.size(); ++file) {
    reading = {pipe, limits.seconds[file], std::chrono::steady_clock::now()};
    allow(reading.seconds);
    Answer kind = Answer::result;
    std::string text;
    try {
      text = work(file);
    } catch (const InputError& e) {
      kind = Answer::input_error;
      text = e.what();
    } catch (const TransientError& e) {
      kind = Answer::machine_fault;
      text = e.what();
    } catch (const std::bad_alloc&) {
      kind = limits.own ? Answer::error : Answer::machine_fault;
      text = limits.own ? "damaged: it asks for more memory than reading it can take" : lack;
    } catch (const std::exception& e) {
      const bool low = !limits.own && speaks_of_memory(e.what());
      kind = low ? Answer::machine_fault : Answer::error;
      text = low ? lack : e.what();
    }
    if (!send(pipe, kind, text)) _exit(1);
    if (kind != Answer::result) _exit(0);
  }
  _exit(0);
}

// The error for a child that ended on a file before it had an answer.
[[noreturn]] void blame(const std::string& path, int status) {
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  switch (number) {
    case SIGXCPU:
      throw Error(path + ": damaged: the HDF5 library does not finish reading it");
    case SIGSEGV:
    case SIGABRT:
    case SIGFPE:
    case SIGILL:
      throw Error(path + ": damaged: the HDF5 library crashes on it");
    case 0:
      throw MachineFault(path + ": the process that reads it ended without an answer");
    default:
      throw MachineFault(path + ": the process that reads it was ended by a signal (" + strsignal(number) +
                         (number == SIGKILL ? "): is there too little memory?" : ")"));
  }
}

}  // namespace

std::vector<std::string> run_isolated(const std::vector<std::string>& paths,
                                      const std::function<std::string(std::size_t file)>& work) {
  if (paths.empty()) return {};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw MachineFault(paths.front() + ": pipe: " + std::strerror(errno));
  const Limits limits(paths);
  const pid_t child = fork();
  if (child == 0) answer(ends[1], limits, work);
  close(ends[1]);
  std::string bytes;
  char piece[4096];
  for (ssize_t count = 0; child > 0 && (count = read(ends[0], piece, sizeof piece)) != 0;) {
    if (count > 0) {
      bytes.append(piece, static_cast<std::size_t>(count));
      note_progress();
    }
    if (count < 0 && errno != EINTR) break;
  }
  close(ends[0]);
  if (child < 0) throw MachineFault(paths.front() + ": fork: " + std::strerror(errno));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::vector<std::string> results;
  char kind = 0;
  for (std::string text; receive(bytes, kind, text);) {
    if (kind == Answer::progress) continue;
    const std::string& path = paths[results.size()];
    const std::string message = path + ": " + reason_of(Error(text), path);
    if (kind == Answer::input_error) throw InputError(text);
    if (kind == Answer::machine_fault) throw MachineFault(message);
    if (kind == Answer::error) throw Error(message);
    results.push_back(std::move(text));
  }
  if (results.size() < paths.size()) blame(paths[results.size()], status);
  return results;
}

std::string run_isolated(const std::string& path, const std::function<std::string()>& work) {
  return run_isolated(std::vector<std::string>{path}, [&](std::size_t) { return work(); }).front();
}

void note_reading() {
  using namespace std::chrono_literals;
  const auto now = std::chrono::steady_clock::now();
  if (reading.pipe < 0 || now - reading.noted < 100ms) return;
  reading.noted = now;
  allow(reading.seconds);
  send(reading.pipe, Answer::progress, "");
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
