// The lock is taken before anything else is looked at, so that two runs that start at the same moment do not
// both find an empty directory.
#include "src/io/run_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <sstream>

#include "src/base/log.hpp"
#include "src/base/process.hpp"
#include "src/io/checkpoint.hpp"
#include "src/io/commit.hpp"
#include "src/io/hdf5.hpp"
#include "src/io/isolated.hpp"
#include "src/io/results.hpp"
#include "src/parallel/failure.hpp"

namespace maniple {

namespace {

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

// What a person needs in order to find the other run, and what to do.
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
      warn(lock + ": " + std::strerror(errno) + ": nothing keeps another run out of this directory");
      return "";
    }
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

// "runs/x/results.h5 of train (2026-11-22T10:00:00Z)", and its verb; "" when there is no such file.
std::string describe_results(const std::string& path, std::string& verb) {
  if (access(path.c_str(), F_OK) != 0) {
    if (errno == ENOENT) return "";
    throw Error(path + ": " + std::strerror(errno));
  }
  try {
    std::istringstream lines(run_isolated(path, [&] {
      const hdf5::File file = hdf5::open_file(path, false);
      const hdf5::Group run(hdf5::check_id(H5Gopen2(file, "run", H5P_DEFAULT), path));
      return hdf5::read_text_attribute(run, "verb") + "\n" + hdf5::read_text_attribute(run, "date");
    }));
    std::string date;
    std::getline(lines, verb);
    std::getline(lines, date);
    return path + " of " + verb + " (" + date + ")";
  } catch (const Error& error) {
    return path + ", which cannot be read (" + error.what() + ")";
  }
}

// Rank 0.
void check_contents(const RunDirectory::Claim& claim) {
  if (claim.overwrite) return;
  std::string verb;
  std::string found = describe_results(claim.directory + "/" + claim.results, verb);
  const bool resumable = claim.has_checkpoints && (found.empty() || verb == claim.verb);
  // a run that was killed before its first checkpoint starts anew
  if (resumable && claim.continues) found.clear();
  const std::string continuing = resumable ? ", learning.resume=auto to continue that run" : "";
  if (claim.has_checkpoints && !claim.continues) {
    const std::vector<std::int64_t> steps = checkpoint_steps(claim.directory);
    if (!steps.empty())
      found += (found.empty() ? "" : " and ") + std::to_string(steps.size()) + " checkpoint" +
               (steps.size() == 1 ? "" : "s") + " in " + claim.directory +
               "/checkpoints, the newest of iteration " + std::to_string(steps.front());
  }
  if (!found.empty())
    throw InputError(claim.where, "output.directory", "found " + found,
                     "allowed: another directory" + continuing + ", or output.overwrite=true to replace it");
}

void release(const std::string& lock, const std::string& holder) {
  if (!holder.empty() && read_link(lock) == holder) unlink(lock.c_str());
}

}  // namespace

RunDirectory::RunDirectory(const Claim& claim, Collectives& collectives) {
  run_on_root(collectives, [&] {
    make_directory(claim.directory);
    lock_ = claim.directory + "/run.lock";
    holder_ = take_lock(claim, lock_);
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

}  // namespace maniple
