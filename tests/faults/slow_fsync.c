/* A fault for tests: storage whose every fsync takes half a second. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

int fsync(int fd) {
  usleep(500000);
  return (int)syscall(SYS_fsync, fd);
}
