// The one place that calls CBLAS.
#include "src/learning/dense_blas.hpp"

#ifndef MANIPLE_SCALAR_LANES
#include <cblas.h>

// Weak: other libraries that have CBLAS lack this function.
extern "C" void openblas_set_num_threads(int) __attribute__((weak));

namespace maniple {

void host_gemm(bool transpose_a, bool transpose_b, int m, int n, int k, const float* a, int lda,
               const float* b, int ldb, float beta, float* c, int ldc) {
  static const bool single_threaded = [] {
    if (openblas_set_num_threads) openblas_set_num_threads(1);
    return true;
  }();
  (void)single_threaded;
  cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
              m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
}

void BlasDense::forward(const TileTeam& team, const DenseLayer& layer, const float* parameters,
                        const float* source, float* target) {
  if (!layer.library) return LaneDense::forward(team, layer, parameters, source, target);
  using V = Lanes<float>;
  constexpr int packs = kTileWidth / lane_width<V>;
  V* out = reinterpret_cast<V*>(target);
  for (int o = 0; o < layer.outputs; ++o)
    for (int pack = 0; pack < packs; ++pack) out[o * packs + pack] = V(parameters[layer.bias + o]);
  host_gemm(false, false, layer.outputs, kTileWidth, layer.inputs, parameters + layer.weight,
            static_cast<int>(layer.stride()), source, kTileWidth, 1.0f, target, kTileWidth);
  for (int i = 0; i < layer.outputs * packs; ++i) out[i] = activate(layer.activation, out[i]);
}

void BlasDense::backward(const TileTeam& team, const DenseLayer& layer, const float* parameters,
                         const float* delta, const float* source, float* source_delta) {
  if (!layer.library) return LaneDense::backward(team, layer, parameters, delta, source, source_delta);
  using V = Lanes<float>;
  host_gemm(true, false, layer.inputs, kTileWidth, layer.outputs, parameters + layer.weight,
            static_cast<int>(layer.stride()), delta, kTileWidth, 0.0f, source_delta, kTileWidth);
  V* out = reinterpret_cast<V*>(source_delta);
  const V* y = reinterpret_cast<const V*>(source);
  for (int i = 0; i < layer.inputs * kTileWidth / lane_width<V>; ++i)
    out[i] *= activation_derivative(layer.source_activation, y[i]);
}

void BlasDense::gradient(const TileTeam& team, const DenseLayer& layer, const float* source,
                         const float* delta, float* transposed, float* gradient) {
  if (!layer.library) return LaneDense::gradient(team, layer, source, delta, transposed, gradient);
  host_gemm(false, true, layer.outputs, layer.inputs, kTileWidth, delta, kTileWidth, source, kTileWidth, 1.0f,
            gradient + layer.weight, static_cast<int>(layer.stride()));
  for (int o = 0; o < layer.outputs; ++o) {
    float sum = 0;
    for (int lane = 0; lane < kTileWidth; ++lane) sum += delta[o * kTileWidth + lane];
    gradient[layer.bias + o] += sum;
  }
}

}  // namespace maniple
#endif
