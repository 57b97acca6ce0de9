/* A fault for tests: a file system that fails FLAKY_TIMES times with FLAKY_ERRNO. Preloaded; concerns the calls
 * FLAKY_CALL (open, write, read, fsync, rename, fallocate) of rank FLAKY_RANK on files whose path contains FLAKY_PATH (with a $ at
 * its end: ends with it), from the FLAKY_AFTER-th on. With FLAKY_CALL=corrupt writes succeed and leave one bit wrong. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int concerns(const char *path) {
  const char *wanted = getenv("FLAKY_PATH");
  const size_t length = strlen(wanted), have = strlen(path);
  if (length == 0 || wanted[length - 1] != '$') return strstr(path, wanted) != NULL;
  return have >= length - 1 && strncmp(path + have - (length - 1), wanted, length - 1) == 0;
}

static int fails(const char *call, const char *path) {
  static int calls = 0;
  const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *which = getenv("FLAKY_RANK"), *name = getenv("FLAKY_CALL");
  if (!rank || !which || !name || strcmp(rank, which) != 0 || strcmp(name, call) != 0) return 0;
  if (!concerns(path)) return 0;
  ++calls;
  const int after = atoi(getenv("FLAKY_AFTER"));
  if (calls < after || calls >= after + atoi(getenv("FLAKY_TIMES"))) return 0;
  errno = atoi(getenv("FLAKY_ERRNO"));
  return 1;
}

static int fails_on(const char *call, int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return fails(call, path);
}

#define NEXT(name) (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static char *corrupted(const void *data, size_t bytes) {
  char *copy = malloc(bytes);
  memcpy(copy, data, bytes);
  copy[bytes / 2] ^= 4;
  return copy;
}

ssize_t pwrite(int file, const void *data, size_t bytes, off_t at) {
  if (fails_on("write", file)) return -1;
  if (!fails_on("corrupt", file)) return (NEXT(pwrite))(file, data, bytes, at);
  char *wrong = corrupted(data, bytes);
  const ssize_t written = (NEXT(pwrite))(file, wrong, bytes, at);
  free(wrong);
  return written;
}
ssize_t pwrite64(int file, const void *data, size_t bytes, off64_t at) {
  return fails_on("write", file) ? -1 : (NEXT(pwrite64))(file, data, bytes, at);
}
ssize_t pread(int file, void *data, size_t bytes, off_t at) {
  return fails_on("read", file) ? -1 : (NEXT(pread))(file, data, bytes, at);
}
ssize_t pread64(int file, void *data, size_t bytes, off64_t at) {
  return fails_on("read", file) ? -1 : (NEXT(pread64))(file, data, bytes, at);
}
int fsync(int file) {
  return fails_on("fsync", file) ? -1 : (NEXT(fsync))(file);
}
int open(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  va_end(more);
  return fails("open", path) ? -1 : (NEXT(open))(path, flags, mode);
}
int fallocate(int file, int mode, off_t from, off_t bytes) {
  return fails_on("fallocate", file) ? -1 : (NEXT(fallocate))(file, mode, from, bytes);
}
int fallocate64(int file, int mode, off64_t from, off64_t bytes) {
  return fails_on("fallocate", file) ? -1 : (NEXT(fallocate64))(file, mode, from, bytes);
}
int rename(const char *from, const char *to) {
  return fails("rename", to) ? -1 : (NEXT(rename))(from, to);
}
