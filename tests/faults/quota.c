/* Preloaded by test_quota.py: a file system that cannot preallocate, and a quota that is met once a process has
 * written MANIPLE_QUOTA bytes below MANIPLE_QUOTA_DIRECTORY, as NFS and older Lustre do it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static int over_quota(int fd, size_t size) {
  static size_t written = 0;
  const char* const directory = getenv("MANIPLE_QUOTA_DIRECTORY");
  char link[64] = "/proc/self/fd/", path[4096];
  char digits[16];
  int n = 0;
  for (int rest = fd; n == 0 || rest > 0; rest /= 10) digits[n++] = (char)('0' + rest % 10);
  char* at = link + strlen(link);
  while (n > 0) *at++ = digits[--n];
  *at = 0;
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0 || !directory) return 0;
  path[length] = 0;
  if (strncmp(path, directory, strlen(directory)) != 0) return 0;
  written += size;
  return written > (size_t)atoll(getenv("MANIPLE_QUOTA"));
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int fallocate(int fd, int mode, off_t offset, off_t length) {
  (void)fd, (void)mode, (void)offset, (void)length;
  errno = EOPNOTSUPP;
  return -1;
}
int posix_fallocate(int fd, off_t offset, off_t length) {
  (void)fd, (void)offset, (void)length;
  return EOPNOTSUPP;
}

ssize_t write(int fd, const void* data, size_t size) {
  if (over_quota(fd, size)) return errno = EDQUOT, -1;
  return REAL(write)(fd, data, size);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  if (over_quota(fd, size)) return errno = EDQUOT, -1;
  return REAL(pwrite)(fd, data, size, offset);
}
ssize_t pwritev(int fd, const struct iovec* pieces, int count, off_t offset) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += pieces[i].iov_len;
  if (over_quota(fd, size)) return errno = EDQUOT, -1;
  return REAL(pwritev)(fd, pieces, count, offset);
}
/* the names that a program compiled with 64-bit offsets may call */
int fallocate64(int fd, int mode, off_t offset, off_t length) { return fallocate(fd, mode, offset, length); }
int posix_fallocate64(int fd, off_t offset, off_t length) { return posix_fallocate(fd, offset, length); }
ssize_t pwrite64(int fd, const void* data, size_t size, off_t offset) { return pwrite(fd, data, size, offset); }
ssize_t pwritev64(int fd, const struct iovec* pieces, int count, off_t offset) {
  return pwritev(fd, pieces, count, offset);
}
