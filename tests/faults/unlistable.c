/* A fault for tests: listing a directory of the name FAULT_FOLDER fails after FAULT_AFTER entries (-1: on opening it). */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static DIR *faulty;
static int left;

static DIR *opened(DIR *directory, const char *path) {
  const char *folder = getenv("FAULT_FOLDER");
  size_t length = strlen(path), tail = strlen(folder);
  if (directory && length >= tail && strcmp(path + length - tail, folder) == 0) {
    left = atoi(getenv("FAULT_AFTER"));
    if (left < 0) {
      closedir(directory);
      errno = ESTALE;
      return 0;
    }
    faulty = directory;
  }
  return directory;
}

DIR *opendir(const char *path) {
  DIR *(*next)(const char *) = dlsym(RTLD_NEXT, "opendir");
  return opened(next(path), path);
}

DIR *fdopendir(int fd) {
  DIR *(*next)(int) = dlsym(RTLD_NEXT, "fdopendir");
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  path[length > 0 ? length : 0] = 0;
  return opened(next(fd), path);
}

struct dirent *readdir(DIR *directory) {
  struct dirent *(*next)(DIR *) = dlsym(RTLD_NEXT, "readdir");
  if (directory == faulty && left-- <= 0) {
    errno = EIO;
    return 0;
  }
  return next(directory);
}
