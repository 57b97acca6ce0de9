/* A fault for tests: on the rank that FLIP_RANK names, one bit of a layer's first weight flips before the FLIP_AFTER-th
 * product with weights, as in a memory without error correction. Preloaded before OpenBLAS. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSPOSED = 112 }; /* CBLAS_TRANSPOSE: products with a transposed second factor are gradients */

void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc) {
  typedef void gemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
  static gemm *next;
  static int calls = 0;
  const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *which = getenv("FLIP_RANK");
  if (!next) next = (gemm *)dlsym(RTLD_NEXT, "cblas_sgemm");
  if (tb != TRANSPOSED && ++calls == atoi(getenv("FLIP_AFTER")) && strcmp(rank ? rank : "0", which) == 0) {
    uint32_t bits;
    memcpy(&bits, a, sizeof bits);
    bits ^= 1u << 10;
    memcpy((void *)(uintptr_t)a, &bits, sizeof bits);
  }
  next(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
