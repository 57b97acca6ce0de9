// The lock is taken before anything else is looked at, so that two runs that start at the same moment do not
// both find an empty directory.
#include "src/io/run_directory.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <sstream>

#include "src/base/counted.hpp"
#include "src/base/log.hpp"
#include "src/base/process.hpp"
#include "src/io/checkpoint_folder.hpp"
#include "src/io/commit.hpp"
#include "src/io/hdf5.hpp"
#include "src/io/isolated.hpp"
#include "src/io/results.hpp"
#include "src/io/seal.hpp"
#include "src/parallel/failure.hpp"

namespace maniple {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t kQuicklyRead = std::uintmax_t{1} << 30;  // B
constexpr int kAttempts = 5;  // a lock may go away, or change hands, while it is looked at

// "verb=train host=n1 pid=4711 ..."
std::string describe_holder(const std::string& verb) {
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
  const Job job = maniple::job();
  std::ostringstream text;
  text << "verb=" << verb << " host=" << host_name() << " pid=" << getpid() << " since=" << date;
  if (!job.id.empty()) text << " job=" << job.id << " job_start=" << job.start << " query=" << job.query;
  text << " process_start=" << process_start(getpid()) << " namespace=" << process_namespace();
  return text.str();
}

// The values of describe_holder() by name; words without '=' continue the value before them.
std::map<std::string, std::string> holder_fields(const std::string& holder) {
  std::map<std::string, std::string> fields;
  std::istringstream words(holder);
  std::string name;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      fields[name] += " " + word;
    } else {
      name = word.substr(0, equals);
      fields[name] = word.substr(equals + 1);
    }
  }
  return fields;
}

// "": no such link.
std::string read_link(const std::string& path) {
  char target[4096];
  const ssize_t length = readlink(path.c_str(), target, sizeof target);
  if (length < 0 && errno == EINVAL) return "unknown";  // somebody's file of that name
  return length < 0 ? "" : std::string(target, static_cast<std::size_t>(length));
}

bool is_same_host(std::map<std::string, std::string>& holder) {
  return holder["host"] == host_name() && holder["namespace"] == process_namespace();
}

bool is_over(std::map<std::string, std::string> holder) {
  if (is_same_host(holder)) {
    const std::int64_t start = process_start(std::atol(holder["pid"].c_str()));
    return start < 0 || std::to_string(start) != holder["process_start"];
  }
  const Job job = maniple::job();
  return !job.id.empty() && holder["job"] == job.id && std::atoll(holder["job_start"].c_str()) < job.start;
}

// Information for a person to find the other run, and what to do.
[[noreturn]] void refuse(const RunDirectory::Claim& claim, const std::string& lock,
                         std::map<std::string, std::string> holder) {
  std::string found = "found " + claim.directory + " in use", allowed;
  if (holder["host"].empty()) {
    found += ": " + lock + " is not a lock of this program";
    allowed = "allowed: another directory";
  } else {
    found += ": " + holder["verb"] + " since " + holder["since"] + ", process " + holder["pid"] +
             " of host " + holder["host"] + (holder["job"].empty() ? "" : ", job " + holder["job"]);
    allowed = "allowed: another directory, or this one when that run has ended";
    if (!is_same_host(holder))
      allowed += "; whether it has, " +
                 (holder["query"].empty() ? "host " + holder["host"] : "'" + holder["query"] + "'") +
                 " knows: if so, remove " + lock;
  }
  throw InputError(claim.where, "output.directory", found, allowed);
}

// Whether the path that a user gave is to blame for an error of the file system, rather than its state.
bool is_path_to_blame(int error) {
  for (const int blamed : {ENOTDIR, ENOENT, EEXIST, EACCES, EPERM, EROFS, ENAMETOOLONG, ELOOP, EINVAL})
    if (error == blamed) return true;
  return false;
}

[[noreturn]] void refuse_path(const RunDirectory::Claim& claim, const std::string& problem) {
  throw InputError(claim.where, "output.directory", "found " + claim.directory + ", " + problem,
                   "allowed: a directory that can be made and written to");
}

// Of all who start on this host only one at a time looks at a lock and decides that it is over. Where the
// file system knows no flock, nothing is held.
class TurnOfStarters {
 public:
  explicit TurnOfStarters(const std::string& directory)
      : descriptor_(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (descriptor_ >= 0 && flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~TurnOfStarters() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  TurnOfStarters(const TurnOfStarters&) = delete;
  TurnOfStarters& operator=(const TurnOfStarters&) = delete;

 private:
  int descriptor_;
};

// Rank 0. Returns what the lock now says; "" where the file system knows no symbolic links.
std::string take_lock(const RunDirectory::Claim& claim, const std::string& lock) {
  const TurnOfStarters turn(claim.directory);
  const std::string mine = describe_holder(claim.verb);
  std::string holder;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (symlink(mine.c_str(), lock.c_str()) == 0) return mine;
    if (errno == EPERM || errno == ENOSYS || errno == EOPNOTSUPP) {
      warn(lock + ": " + std::strerror(errno) + ": the directory is not locked against other runs");
      return "";
    }
    if (errno != EEXIST && is_path_to_blame(errno))
      refuse_path(claim, std::string("where nothing can be written: ") + std::strerror(errno));
    if (errno != EEXIST) throw Error(lock + ": cannot be made: " + std::strerror(errno));
    holder = read_link(lock);
    if (holder.empty()) continue;
    if (!is_over(holder_fields(holder))) refuse(claim, lock, holder_fields(holder));
    // moved aside first: another host's run that found the old lock, too, may have made its own by now
    const std::string aside = temporary_name(lock);
    if (rename(lock.c_str(), aside.c_str()) != 0) continue;
    if (read_link(aside) == holder) {
      unlink(aside.c_str());
      warn(lock + ": left by a run that has ended: " + holder);
    } else {
      // (not by renaming, which would replace the lock of a third)
      const std::string other = read_link(aside);
      unlink(aside.c_str());
      if (symlink(other.c_str(), lock.c_str()) != 0)
        throw Error(lock + ": cannot be given back to " + other + ": " + std::strerror(errno));
    }
  }
  refuse(claim, lock, holder_fields(holder));
}

// A description of existing results.
struct FoundResults {
  std::string text;    // "runs/x/results.h5 of train (2026-11-22T10:00:00Z)"; "": no such file
  std::string verb;    // whose they are; "": they do not say it
  std::string damage;  // "": none that has been seen
};

FoundResults find_results(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0) {
    if (errno == ENOENT) return {};
    throw Error(path + ": " + std::strerror(errno));
  }
  FoundResults found{path, "", ""};
  if (fs::path(path).extension() != ".h5") return found;
  try {
    // what takes no time to read is not given to HDF5, which may compute for long, when it is damaged
    std::error_code unknown;  // (then the size is the largest number)
    if (fs::file_size(path, unknown) <= kQuicklyRead && check_seal(path) == Sealed::no)
      found.damage = "no checksum";
    std::istringstream lines(run_isolated(path, [&] {
      const hdf5::File file = hdf5::open_file(path, false);
      const hdf5::Group run(hdf5::check_id(H5Gopen2(file, "run", H5P_DEFAULT), path));
      return hdf5::read_text_attribute(run, "verb") + "\n" + hdf5::read_text_attribute(run, "date");
    }));
    std::string date;
    std::getline(lines, found.verb);
    std::getline(lines, date);
    found.text += " of " + found.verb + " (" + date + ")";
  } catch (const MachineFault&) {
    throw;
  } catch (const Error& error) {
    found.damage = reason_of(error, path);
    found.text += ", which cannot be read (" + found.damage + ")";
  }
  return found;
}

// Rank 0.
void check_contents(const RunDirectory::Claim& claim) {
  if (claim.overwrite) return;
  const std::string path = claim.directory + "/" + claim.results;
  const FoundResults results = find_results(path);
  std::vector<std::int64_t> steps;
  if (claim.has_checkpoints) steps = checkpoint_steps(claim.directory);
  // results that do not say whose they are belong to the checkpoints beside them
  const bool resumable = claim.has_checkpoints && (results.text.empty() || results.verb == claim.verb ||
                                                   (results.verb.empty() && !steps.empty()));
  if (resumable && claim.continues) {
    // (a run that was killed before its first checkpoint starts again)
    if (!results.damage.empty()) warn(path + ": " + results.damage + "; this run writes it again");
    return;
  }
  std::string found = results.text;
  if (!claim.continues && !steps.empty())
    found += (found.empty() ? "" : " and ") + counted(steps.size(), "checkpoint") + " in " + claim.directory +
             "/checkpoints, the newest of iteration " + std::to_string(steps.front());
  if (!found.empty())
    throw InputError(claim.where, "output.directory", "found " + found,
                     std::string("allowed: another directory") +
                         (resumable ? ", learning.resume=auto to continue that run" : "") +
                         ", or output.overwrite=true to replace it");
}

// The lock that this process holds, where a signal handler finds it.
std::array<char, 4096> held_lock{}, held_by{};
volatile sig_atomic_t lock_holder = 0;  // process id, which a fork does not have; 0: none

void note_lock(const std::string& lock, const std::string& holder) {
  if (holder.empty() || lock.size() >= held_lock.size() || holder.size() >= held_by.size()) return;
  lock.copy(held_lock.data(), held_lock.size() - 1);
  holder.copy(held_by.data(), held_by.size() - 1);
  held_lock[lock.size()] = held_by[holder.size()] = '\0';
  lock_holder = getpid();
}

void release(const std::string& lock, const std::string& holder) {
  if (holder.empty()) return;
  lock_holder = 0;
  if (read_link(lock) == holder) unlink(lock.c_str());
}

}  // namespace

std::vector<std::string> missing_directories(const std::string& directory) {
  std::vector<std::string> missing;
  std::error_code ignored;
  for (fs::path path = fs::absolute(directory, ignored).lexically_normal();
       path.has_relative_path() && !fs::exists(fs::symlink_status(path, ignored)); path = path.parent_path())
    missing.push_back(path.string());
  return missing;
}

void release_lock_at_signal() {
  if (lock_holder != getpid()) return;
  std::array<char, 4096> says{};  // (only functions that signal handlers may call)
  const ssize_t size = readlink(held_lock.data(), says.data(), says.size() - 1);
  if (size > 0 && std::equal(says.begin(), says.begin() + size + 1, held_by.begin()))
    unlink(held_lock.data());
}

void RunDirectory::check(const Claim& claim) {
  std::error_code none;
  if (!fs::is_directory(claim.directory, none)) return;
  const std::string lock = claim.directory + "/run.lock", holder = read_link(lock);
  if (!holder.empty() && !is_over(holder_fields(holder))) refuse(claim, lock, holder_fields(holder));
  check_contents(claim);
}

RunDirectory::RunDirectory(const Claim& claim, Collectives& collectives) {
  run_on_root(collectives, [&] {
    directory_ = claim.directory;
    std::error_code ignored;
    made_ = missing_directories(directory_);
    std::error_code problem;
    fs::create_directories(claim.directory, problem);
    if (problem) {
      for (const std::string& path : made_) fs::remove(path, ignored);
      if (is_path_to_blame(problem.value())) refuse_path(claim, "which cannot be made: " + problem.message());
      throw Error(claim.directory + ": cannot make the directory: " + problem.message());
    }
    had_log_ = fs::exists(fs::path(directory_) / kLogFile, ignored);
    lock_ = claim.directory + "/run.lock";
    holder_ = take_lock(claim, lock_);
    note_lock(lock_, holder_);
    try {
      check_contents(claim);
    } catch (...) {
      release(lock_, holder_);
      throw;
    }
  });
}

RunDirectory::~RunDirectory() {
  release(lock_, holder_);
}

void RunDirectory::withdraw() {
  if (directory_.empty() || had_log_) return;
  std::error_code problem;
  const fs::path log = fs::path(directory_) / kLogFile;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, problem))
    if (entry.path() != log && entry.path() != lock_) return;
  if (problem) return;
  fs::remove(log, problem);
  release(lock_, holder_);
  for (const std::string& path : made_) fs::remove(path, problem);  // (not while anything is in it)
}

}  // namespace maniple
