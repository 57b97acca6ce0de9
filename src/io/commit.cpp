// POSIX calls behind atomic files. rename(2) replaces atomically; only fsync of the file before and of
// the directory after make the new name survive a power loss.
#include "src/io/commit.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "src/base/error.hpp"
#include "src/base/process.hpp"
#include "src/parallel/retry.hpp"

namespace maniple {

namespace fs = std::filesystem;

namespace {

constexpr const char* kTemporaryMark = ".tmp.";

[[noreturn]] void fail(const std::string& path, const std::string& action) {
  throw_file_error(path, action, errno);
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

void sync(const Descriptor& file, const std::string& path) {
  if (file.fd < 0) fail(path, "open");
  if (fsync(file.fd) != 0) fail(path, "fsync");
}

}  // namespace

std::string temporary_name(const std::string& path) {
  const std::string id = job().id;
  return path + kTemporaryMark + (id.empty() ? "0" : id) + "." + std::to_string(getpid()) + "." + host_name();
}

void reserve_bytes(const std::string& path, std::int64_t bytes) {
  const Descriptor file{open(path.c_str(), O_RDWR | O_CREAT, 0666)};
  if (file.fd < 0) fail(path, "open");
  if (bytes <= 0 || fallocate(file.fd, FALLOC_FL_KEEP_SIZE, 0, bytes) == 0) return;
  if (errno == EOPNOTSUPP || errno == ENOSYS) {
    // better an error before anything is written than in the middle of it: at least look
    struct statvfs system {};
    struct stat status {};
    if (fstatvfs(file.fd, &system) != 0 || fstat(file.fd, &status) != 0) return;
    const auto available =
        static_cast<std::int64_t>(system.f_bavail * system.f_frsize) + 512 * status.st_blocks;
    if (available >= bytes) return;
    errno = ENOSPC;
  }
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO)
    fail(path, "reserving " + std::to_string(bytes) + " bytes");
}

std::int64_t file_bytes(std::int64_t numbers, std::size_t datasets) {
  // headers, attributes and their heap, alignment to pages
  return numbers + 64 * 1024 + 8 * 1024 * static_cast<std::int64_t>(datasets);
}

void commit_file(const std::string& temporary, const std::string& path) {
  {
    const Descriptor file{open(temporary.c_str(), O_RDWR)};
    if (file.fd < 0) fail(temporary, "open");
    // blocks that were reserved behind the end of the file go back
    struct stat status {};
    if (fstat(file.fd, &status) == 0 && ftruncate(file.fd, status.st_size) != 0) fail(temporary, "truncate");
    sync(file, temporary);
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) fail(path, "rename from " + temporary);
  const std::string directory =
      fs::path(path).has_parent_path() ? fs::path(path).parent_path().string() : ".";
  sync(Descriptor{open(directory.c_str(), O_RDONLY | O_DIRECTORY)}, directory);
}

void write_text_file(const std::string& path, const std::string& text) {
  const std::string temporary = temporary_name(path);
  try {
    const Descriptor file{open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666)};
    if (file.fd < 0) fail(temporary, "create");
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t written = write(file.fd, text.data() + done, text.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail(temporary, "write");
      done += static_cast<std::size_t>(written);
    }
    commit_file(temporary, path);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
}

void remove_abandoned(const std::string& directory) {
  std::error_code ignored;
  const std::string host = host_name();
  for (fs::directory_iterator entry(directory, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    const std::size_t mark = name.rfind(kTemporaryMark);
    if (mark == std::string::npos) continue;
    // job.pid.host
    const std::size_t pid_at = name.find('.', mark + std::strlen(kTemporaryMark));
    const std::size_t host_at = pid_at == std::string::npos ? pid_at : name.find('.', pid_at + 1);
    if (host_at == std::string::npos) continue;
    const long pid = std::strtol(name.c_str() + pid_at + 1, nullptr, 10);
    if (pid <= 0) continue;
    std::error_code failed;
    if (name.substr(host_at + 1) != host || process_start(pid) < 0) fs::remove(entry->path(), failed);
  }
}

void make_directory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw Error(directory + ": cannot make the directory: " + error.message());
}

}  // namespace maniple
