/* A fault for tests: storage whose every fsync takes SLOW_FSYNC seconds, on the process's own clock alone: nobody has to
 * wait for it. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_long waited;

int fsync(int fd) {
  atomic_fetch_add(&waited, atol(getenv("SLOW_FSYNC")));
  return (int)syscall(SYS_fsync, fd);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  const int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_MONOTONIC) now->tv_sec += waited;
  return result;
}
