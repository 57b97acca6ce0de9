// Dense layers through CBLAS, for layers so wide that a vendor's blocking and packing pay
// (learning.blas_width). A tile is still the unit, so its numbers do not depend on the others.
#pragma once

#include "kernels/nn/wide_dense.hpp"

namespace maniple {

#ifndef MANIPLE_SCALAR_LANES
// Row-major C[m][n] = A B + beta C on the host, as CBLAS defines it; leading dimensions are rows'. On one
// thread, whatever OPENBLAS_NUM_THREADS says: ranks have the cores already, and the bits of a sum would
// follow its threads.
void host_gemm(bool transpose_a, bool transpose_b, int m, int n, int k, const float* a, int lda,
               const float* b, int ldb, float beta, float* c, int ldc);

// The operations of LaneDense; narrow layers stay lane kernels.
struct BlasDense {
  static void forward(const TileTeam& team, const DenseLayer& layer, const float* parameters,
                      const float* source, float* target);
  static void backward(const TileTeam& team, const DenseLayer& layer, const float* parameters,
                       const float* delta, const float* source, float* source_delta);
  static void gradient(const TileTeam& team, const DenseLayer& layer, const float* source, const float* delta,
                       float* transposed, float* gradient);
};
#endif

// Calls body with LaneDense or BlasDense. On a GPU wide layers stay lane kernels.
template <class Body>
void with_dense([[maybe_unused]] bool library, const Body& body) {
#ifndef MANIPLE_SCALAR_LANES
  if (library) return body(BlasDense());
#endif
  body(LaneDense());
}

// As with_dense(), for passes forward through a batch that ranks share in blocks of `block` samples: with
// blocks smaller than tiles WideDense takes the place of a library, whose numbers would depend on the number
// of ranks.
template <class Body>
void with_forward_dense([[maybe_unused]] bool library, [[maybe_unused]] int block, const Body& body) {
#ifndef MANIPLE_SCALAR_LANES
  if (library && block < kTileWidth) return body(WideDense());
#endif
  with_dense(library, body);
}

}  // namespace maniple
