/* A fault for tests: a file system that fails FLAKY_TIMES times with FLAKY_ERRNO. Preloaded; concerns the calls
 * FLAKY_CALL (write, read, fsync, rename) of rank FLAKY_RANK on files whose path contains FLAKY_PATH, from the
 * FLAKY_AFTER-th on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(const char *call, const char *path) {
  static int calls = 0;
  const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *which = getenv("FLAKY_RANK"), *name = getenv("FLAKY_CALL");
  if (!rank || !which || !name || strcmp(rank, which) != 0 || strcmp(name, call) != 0) return 0;
  if (!strstr(path, getenv("FLAKY_PATH"))) return 0;
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

ssize_t pwrite(int file, const void *data, size_t bytes, off_t at) {
  return fails_on("write", file) ? -1 : (NEXT(pwrite))(file, data, bytes, at);
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
int rename(const char *from, const char *to) {
  return fails("rename", to) ? -1 : (NEXT(rename))(from, to);
}
