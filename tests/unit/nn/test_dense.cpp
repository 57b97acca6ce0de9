// Dense layers against plain loops in long double, for shapes that are not multiples of any block. They call
// the layers outside of a launch, as only a CPU's team can.
#include "kernels/base/macros.hpp"

#ifndef MANIPLE_SCALAR_LANES
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/nn/wide_dense.hpp"
#include "src/learning/dense_blas.hpp"
#include "tests/unit/nn/random_training.hpp"

namespace maniple {
namespace {

DenseLayer make_layer(int inputs, int outputs, Activation activation) {
  DenseLayer layer;
  layer.inputs = inputs;
  layer.outputs = outputs;
  layer.bias = outputs * layer.stride();
  layer.activation = activation;
  layer.source_activation = activation;
  return layer;
}

template <class T>
class Dense : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(Dense, Scalars);

// Forward, backward and gradient of LaneDense or BlasDense against the definitions.
template <class T, class Kind>
void compare_with_definitions(DenseLayer layer) {
  std::mt19937_64 generator(static_cast<std::uint64_t>(layer.inputs * 1000 + layer.outputs));
  const std::int64_t stride = layer.stride(), parameters = layer.bias + padded_parameters(layer.outputs);
  Buffer<T> weight(parameters), source(layer.inputs * 32), target(layer.outputs * 32),
      delta(layer.outputs * 32), source_delta(layer.inputs * 32), transposed(stride * 32),
      gradient(parameters);
  fill(weight, parameters, generator);
  fill(source, layer.inputs * 32, generator);
  fill(delta, layer.outputs * 32, generator);
  fill(gradient, parameters, generator);
  Buffer<T> before(parameters);
  for (int i = 0; i < parameters; ++i) before[i] = gradient[i];
  const TileTeam team;
  Kind::forward(team, layer, weight.data(), source.data(), target.data());
  Kind::backward(team, layer, weight.data(), delta.data(), source.data(), source_delta.data());
  Kind::gradient(team, layer, source.data(), delta.data(), transposed.data(), gradient.data());
  const double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-13;
  const auto activated = [&](long double x) {
    if (layer.activation == Activation::elu) return x > 0 ? x : expm1l(x);
    if (layer.activation == Activation::relu) return x > 0 ? x : 0.0L;
    if (layer.activation == Activation::tanh) return tanhl(x);
    if (layer.activation == Activation::leaky_relu) return x > 0 ? x : 0.01L * x;
    return x;
  };
  const auto derivative = [&](long double y) {
    if (layer.activation == Activation::elu) return y > 0 ? 1.0L : y + 1;
    if (layer.activation == Activation::relu) return y > 0 ? 1.0L : 0.0L;
    if (layer.activation == Activation::tanh) return 1 - y * y;
    if (layer.activation == Activation::leaky_relu) return y > 0 ? 1.0L : 0.01L;
    return 1.0L;
  };
  for (int lane = 0; lane < 32; ++lane) {
    for (int o = 0; o < layer.outputs; ++o) {
      long double sum = weight[layer.bias + o];
      for (int i = 0; i < layer.inputs; ++i)
        sum += static_cast<long double>(weight[o * stride + i]) * source[i * 32 + lane];
      ASSERT_NEAR(static_cast<double>(target[o * 32 + lane]), static_cast<double>(activated(sum)), tolerance);
    }
    for (int i = 0; i < layer.inputs; ++i) {
      long double sum = 0;
      for (int o = 0; o < layer.outputs; ++o)
        sum += static_cast<long double>(weight[o * stride + i]) * delta[o * 32 + lane];
      ASSERT_NEAR(static_cast<double>(source_delta[i * 32 + lane]),
                  static_cast<double>(sum * derivative(source[i * 32 + lane])), tolerance);
    }
  }
  for (int o = 0; o < layer.outputs; ++o) {
    long double bias = before[layer.bias + o];
    for (int lane = 0; lane < 32; ++lane) bias += delta[o * 32 + lane];
    ASSERT_NEAR(static_cast<double>(gradient[layer.bias + o]), static_cast<double>(bias), tolerance);
    for (int i = 0; i < stride; ++i) {
      long double sum = before[o * stride + i];
      for (int lane = 0; i < layer.inputs && lane < 32; ++lane)
        sum += static_cast<long double>(delta[o * 32 + lane]) * source[i * 32 + lane];
      ASSERT_NEAR(static_cast<double>(gradient[o * stride + i]), static_cast<double>(sum), tolerance)
          << "padding must stay as it was";
    }
  }
}

TYPED_TEST(Dense, LaneKernelsFollowTheDefinitions) {
  for (const Activation activation :
       {Activation::identity, Activation::elu, Activation::relu, Activation::tanh, Activation::leaky_relu})
    for (const int inputs : {1, 4, 9, 16, 33, 60})
      for (const int outputs : {1, 2, 7, 16, 35})
        compare_with_definitions<TypeParam, LaneDense>(make_layer(inputs, outputs, activation));
}

// Against the C library's functions in long double, out to where they are flat.
TYPED_TEST(Dense, ActivationsFollowTheDefinitions) {
  using T = TypeParam;
  using V = Lanes<T>;
  const long double rounding = std::numeric_limits<T>::epsilon();
  const auto check = [&](T found, long double expected, long double size, T x) {
    ASSERT_NEAR(static_cast<double>(found), static_cast<double>(expected),
                static_cast<double>(4 * rounding * size))
        << x;
  };
  for (int i = -4000; i <= 4000; ++i) {
    const T x = static_cast<T>(i) * T(0.02 * (1 + i % 3));
    const long double X = x, normal = erfcl(-X / sqrtl(2.0L)) / 2;
    const long double density = expl(-X * X / 2) / sqrtl(2 * M_PIl), s = 1 / (1 + expl(-X));
    const V v(x);
    V slope;
    check(get_lane(sigmoid(v), 0), s, s, x);
    const long double soft = X > 0 ? X + log1pl(expl(-X)) : log1pl(expl(X));
    check(get_lane(softplus(v), 0), soft, soft + 1e-30L, x);
    check(get_lane(normal_distribution(v), 0), normal, 1, x);
    check(get_lane(activate_with_slope(Activation::silu, v, slope), 0), X * s, 1 + fabsl(X) * s, x);
    check(get_lane(slope, 0), s + X * s * (1 - s), 1 + fabsl(X) * s, x);
    check(get_lane(activate_with_slope(Activation::gelu, v, slope), 0), X * normal, 1 + fabsl(X), x);
    check(get_lane(slope, 0), normal + X * density, 2, x);
    // ln(1 - tanh^2) without its cancellation; 1 - tanh^2 = 1 / cosh^2
    const long double size = fabsl(X), cosh_log = size + log1pl(expl(-2 * size)) - logl(2.0L);
    check(get_lane(log_tanh_slope(v), 0), -2 * cosh_log, 1 + 2 * size, x);
  }
}

TEST(DenseBlas, WideLayersFollowTheDefinitions) {
  for (const Activation activation : {Activation::elu, Activation::identity}) {
    DenseLayer layer = make_layer(45, 67, activation);
    layer.library = true;
    compare_with_definitions<float, BlasDense>(layer);
  }
}

// Parameters beyond the first 2^31 of a buffer; only those in use exist.
// A machine with narrower registers learns the same bits.
template <class T, int... Widths>
void compare_widths() {
  DenseLayer layer = make_layer(19, 11, Activation::tanh);
  Layer norm;
  norm.kind = LayerKind::layer_norm;
  norm.outputs = layer.outputs;
  norm.target = 0;
  norm.weight = 0;
  norm.bias = 16;
  const std::int64_t parameters = layer.bias + padded_parameters(layer.outputs);
  std::mt19937_64 generator(3);
  Buffer<T> source(layer.inputs * 32), delta(layer.outputs * 32), activations((2 * layer.outputs + 1) * 32),
      transposed(layer.stride() * 32);
  fill(source, layer.inputs * 32, generator);
  fill(delta, layer.outputs * 32, generator);
  fill(activations, (2 * layer.outputs + 1) * 32, generator);
  std::vector<std::vector<T>> found;
  const auto learn = [&]<class V>(V) {
    Buffer<T> gradient(parameters), of_norm(32);
    for (int i = 0; i < parameters; ++i) gradient[i] = T(0);
    for (int i = 0; i < 32; ++i) of_norm[i] = T(0);
    dense_gradient<V>(layer, source.data(), delta.data(), transposed.data(), gradient.data());
    layer_norm_gradient<V>(TileTeam(), norm, activations.data(), delta.data(), of_norm.data());
    found.emplace_back(gradient.data(), gradient.data() + parameters);
    found.back().insert(found.back().end(), of_norm.data(), of_norm.data() + 32);
  };
  (learn(Pack<T, Widths>()), ...);
  for (const std::vector<T>& one : found) EXPECT_EQ(one, found.front());
  // the form of a GPU
  Buffer<T> gradient(parameters);
  for (int i = 0; i < parameters; ++i) gradient[i] = T(0);
  dense_gradient_by_team(TileTeam(), layer, source.data(), delta.data(), transposed.data(), gradient.data());
  EXPECT_EQ(std::vector<T>(gradient.data(), gradient.data() + parameters),
            std::vector<T>(found.front().begin(), found.front().begin() + parameters));
}
TEST(DenseLanes, GradientsHaveTheSameBitsForEveryWidth) {
  compare_widths<float, 16, 8, 4>();
  compare_widths<double, 8, 4, 2>();
}

#ifndef MANIPLE_SCALAR_LANES
// Layers of more than a block of rows, columns and depth, and of less, on one pack of samples and on all.
TEST(DenseWide, HasTheBitsOfTheLanes) {
  for (const auto& [inputs, outputs] : {std::pair(5, 3), {16, 70}, {150, 20}, {37, 300}})
    for (const int width : {kTileWidth, lane_width<Lanes<float>>}) {
      std::mt19937_64 generator(5);
      DenseLayer layer;
      layer.inputs = inputs;
      layer.outputs = outputs;
      layer.bias = outputs * layer.stride();
      layer.activation = Activation::elu;
      layer.source_activation = Activation::tanh;
      Buffer<float> parameters(layer.bias + outputs), source(inputs * 32), delta(outputs * 32);
      fill(parameters, layer.bias + outputs, generator);
      fill(source, inputs * 32, generator);
      fill(delta, outputs * 32, generator);
      Buffer<float> target[2] = {Buffer<float>(outputs * 32), Buffer<float>(outputs * 32)};
      Buffer<float> source_delta[2] = {Buffer<float>(inputs * 32 + 1), Buffer<float>(inputs * 32 + 1)};
      for (Buffer<float>& each : source_delta) each[inputs * 32] = 7;  // of others
      const TileTeam team = TileTeam().of_lanes(width);
      LaneDense::forward(TileTeam(), layer, parameters.data(), source.data(), target[0].data());
      WideDense::forward(team, layer, parameters.data(), source.data(), target[1].data());
      LaneDense::backward(TileTeam(), layer, parameters.data(), delta.data(), source.data(),
                          source_delta[0].data());
      WideDense::backward(team, layer, parameters.data(), delta.data(), source.data(),
                          source_delta[1].data());
      for (int lane = 0; lane < width; ++lane) {
        for (int o = 0; o < outputs; ++o) EXPECT_EQ(target[0][o * 32 + lane], target[1][o * 32 + lane]);
        for (int i = 0; i < inputs; ++i)
          EXPECT_EQ(source_delta[0][i * 32 + lane], source_delta[1][i * 32 + lane]);
      }
      EXPECT_EQ(source_delta[1][inputs * 32], 7);
    }
}
#endif

TEST(DenseLanes, ParametersAreCountedIn64Bits) {
  constexpr int inputs = 33, outputs = 19;
  constexpr std::int64_t far = (std::int64_t{1} << 32) + 4096;
  const DenseLayer near = make_layer(inputs, outputs, Activation::elu);
  DenseLayer layer = near;
  layer.weight += far;
  layer.bias += far;
  const std::int64_t count = near.bias + padded_parameters(outputs);
  std::mt19937_64 generator(5);
  Buffer<float> weight(count), source(inputs * 32), delta(outputs * 32), target(outputs * 32),
      expected_target(outputs * 32), source_delta(inputs * 32), expected_source_delta(inputs * 32),
      transposed(48 * 32), gradient(count), expected_gradient(count);
  fill(weight, count, generator);
  fill(source, inputs * 32, generator);
  fill(delta, outputs * 32, generator);
  const float* const parameters = weight.data() - far;
  const TileTeam team;
  LaneDense::forward(team, near, weight.data(), source.data(), expected_target.data());
  LaneDense::backward(team, near, weight.data(), delta.data(), source.data(), expected_source_delta.data());
  LaneDense::gradient(team, near, source.data(), delta.data(), transposed.data(), expected_gradient.data());
  LaneDense::forward(team, layer, parameters, source.data(), target.data());
  LaneDense::backward(team, layer, parameters, delta.data(), source.data(), source_delta.data());
  LaneDense::gradient(team, layer, source.data(), delta.data(), transposed.data(), gradient.data() - far);
  for (int i = 0; i < outputs * 32; ++i) ASSERT_EQ(target[i], expected_target[i]);
  for (int i = 0; i < inputs * 32; ++i) ASSERT_EQ(source_delta[i], expected_source_delta[i]);
  for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(gradient[i], expected_gradient[i]);
}

TEST(DenseLanes, SamplesDoNotSeeEachOther) {
  const DenseLayer layer = make_layer(13, 11, Activation::elu);
  std::mt19937_64 generator(5);
  Buffer<float> weight(layer.bias + 16), source(13 * 32), target(11 * 32), alone(11 * 32);
  fill(weight, layer.bias + 16, generator);
  fill(source, 13 * 32, generator);
  LaneDense::forward(TileTeam(), layer, weight.data(), source.data(), target.data());
  Buffer<float> other(13 * 32);
  for (int i = 0; i < 13; ++i)
    for (int lane = 0; lane < 32; ++lane) other[i * 32 + lane] = source[i * 32 + 17];
  LaneDense::forward(TileTeam(), layer, weight.data(), other.data(), alone.data());
  for (int o = 0; o < 11; ++o)
    for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(alone[o * 32 + lane], target[o * 32 + 17]);
}

}  // namespace
}  // namespace maniple
#endif
