/* A fault for tests: on the rank that HANG_RANK names, the named calls never return once HANG_AFTER of them are made
 * (renames: to paths with HANG_PATH in them, else to checkpoints); with HANG_WHILE, one makes that file and returns when
 * somebody has removed it. Preloaded before libc and OpenBLAS. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void maybe_hang(const char *call) {
  static int calls = 0;
  const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *which = getenv("HANG_RANK"), *name = getenv("HANG_CALL");
  if (!which || !name || strcmp(rank ? rank : "0", which) != 0 || strcmp(name, call) != 0) return;
  if (++calls < atoi(getenv("HANG_AFTER"))) return;
  const char *held = getenv("HANG_WHILE");
  if (!held)
    for (;;) sleep(1000);
  if (calls > atoi(getenv("HANG_AFTER"))) return;
  close(open(held, O_CREAT | O_WRONLY, 0600));
  while (access(held, F_OK) == 0) usleep(10000);
}

int rename(const char *from, const char *to) {
  static int (*next)(const char *, const char *);
  if (!next) next = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
  const char *path = getenv("HANG_PATH");
  if (strstr(to, path ? path : "checkpoints/")) maybe_hang("rename");
  return next(from, to);
}

void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc) {
  typedef void gemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
  static gemm *next;
  if (!next) next = (gemm *)dlsym(RTLD_NEXT, "cblas_sgemm");
  maybe_hang("cblas_sgemm");
  next(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
