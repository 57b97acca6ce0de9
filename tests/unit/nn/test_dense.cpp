// Dense layers against plain loops in long double, for shapes that are not multiples of any block, and
// the whole backward pass of a training kernel against finite differences of its own loss. They call the
// layers outside of a launch, as only a CPU's team can.
#include "kernels/base/macros.hpp"

#ifndef MANIPLE_SCALAR_LANES
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/nn/cloning_loss.hpp"
#include "kernels/nn/ppo_loss.hpp"
#include "kernels/nn/wide_dense.hpp"
#include "src/learning/dense_blas.hpp"
#include "src/learning/policy.hpp"
#include "tests/unit/learning/network_by_hand.hpp"

namespace maniple {
namespace {

// Memory as aligned as kernels need it.
template <class T>
struct Buffer {
  Kokkos::View<T*, Kokkos::HostSpace> view;
  explicit Buffer(std::int64_t count) : view("test", static_cast<std::size_t>(count)) {}
  T* data() const { return view.data(); }
  T& operator[](std::int64_t i) const { return view.data()[i]; }
};

template <class T>
void fill(const Buffer<T>& buffer, std::int64_t count, std::mt19937_64& generator) {
  std::uniform_real_distribution<double> draw(-1, 1);
  for (int i = 0; i < count; ++i) buffer[i] = static_cast<T>(draw(generator));
}

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

// A rollout of random numbers and everything that the training kernel needs, in double precision.
struct Training {
  Network network;
  SampleLayout layout;
  TileScratch scratch;
  TrainMinibatch<double, LaneDense, PpoLoss<double>> train;
  static constexpr int tiles = 2, horizon = 3, envs = 45;
  Buffer<double> parameters, memory, blocks, reference, totals;
  std::vector<std::int32_t> order;

  TiledView<double> first_state;

  explicit Training(bool shared) : Training(policy(shared)) {}
  explicit Training(const PolicyConfig& config)
      : network(make_network(config, {3, 0, 2}, 1 << 20)),
        layout(network.sizes),
        scratch(network, layout, 2 + kNumLossMetrics, minibatch_totals(network, kNumLossMetrics), horizon),
        parameters(network.parameters),
        memory(scratch.elements),
        blocks(tiles * horizon * layout.elements * 32),
        reference(tiles * horizon * 2),
        totals(minibatch_totals(network, kNumLossMetrics)),
        first_state("state", tiles, network.state_units) {
    std::mt19937_64 generator(17);
    const std::vector<float> initial = initial_parameters(network, config, 3);
    for (int i = 0; i < network.parameters; ++i) parameters[i] = static_cast<double>(initial[i]);
    if (network.own_deviations() > 0) parameters[network.log_std] = -0.3;
    for (std::int64_t i = 0; i < scratch.elements; ++i)
      memory[i] = std::nan("");  // whoever reads first, writes
    fill(blocks, tiles * horizon * layout.elements * 32, generator);
    for (int i = 0; i < tiles * horizon * layout.elements * 32; ++i)
      if (i / 32 % layout.elements == layout.log_prob) blocks[i] = -2.5 + 0.5 * blocks[i];
    if (network.recurrent()) {
      for (int i = 0; i < tiles * horizon * layout.elements * 32; ++i)
        if (i / 32 % layout.elements == layout.done) blocks[i] = blocks[i] > 0.3 ? 1 : 0;
      for (std::int64_t env = 0; env < tiles * 32; ++env)
        for (int k = 0; k < network.state_units; ++k) first_state.at(env, k) = std::sin(env + 40.0 * k);
    }
    for (int tile = 0; tile < tiles; ++tile)
      for (int step = 0; step < horizon; ++step) order.push_back((step + tile) % horizon);
    train.network = network;
    train.loss.layout = layout;
    train.scratch = scratch;
    train.loss.settings.value_coef = 2;
    train.loss.settings.entropy_coef = 0.02;
    train.loss.settings.bounds_coef = 0.1;
    train.loss.settings.kl_coef = 0.3;
    train.loss.settings.value_mean = 0.2;
    train.loss.settings.value_scale = 1.7;
    train.loss.settings.learned_std = true;
    train.parameters = parameters.data();
    train.memory = memory.data();
    train.blocks = blocks.data();
    train.loss.reference_log_std = reference.data();
    train.order = order.data();
    train.tiles = tiles;
    train.envs = envs;
    train.deal.num_tiles = tiles;
    train.deal.horizon = horizon;
    train.deal.minibatches = 2;
    train.minibatch = 0;  // takes two of the three steps
    train.scale = 1.0 / (envs * 2);
    train.loss.settings.squash_actions = config.squash_actions;
    train.loss.tiles = tiles;
    if (network.recurrent()) {  // all steps
      train.first_state = first_state;
      train.deal.horizon = train.deal.minibatches = 1;
      train.deal.steps = horizon;
      train.scale = 1.0 / (envs * horizon);
    }
    train.totals = totals.data();
  }
  static PolicyConfig policy(bool shared) {
    PolicyConfig config;
    config.hidden = {6, 5};
    config.activation = ActivationChoice::elu;
    config.initialization = Initialization::uniform;
    config.shared = shared;
    return config;
  }
  double loss() {
    const std::int64_t count = minibatch_totals(network, kNumLossMetrics);
    for (std::int64_t i = 0; i < count; ++i) totals[i] = 0;
    train.exact = false;
    for (int tile = 0; tile < tiles; ++tile) train(TileTeam(), tile, 0);
    const double* metrics = totals.data() + network.parameters;
    const bool sampled = network.deviation.units > 0 || train.loss.settings.squash_actions;
    const double entropy =
        sampled ? metrics[kEntropy] : parameters[network.log_std] + parameters[network.log_std + 1];
    return metrics[kPolicyLoss] + train.loss.settings.value_coef * metrics[kValueLoss] +
           train.loss.settings.bounds_coef * metrics[kBoundsLoss] +
           train.loss.settings.kl_coef * metrics[kKl] - train.loss.settings.entropy_coef * entropy;
  }
};

// Networks of every kind of layer, by name.
std::vector<std::pair<std::string, PolicyConfig>> kinds_of_networks() {
  std::vector<std::pair<std::string, PolicyConfig>> kinds;
  for (const bool shared : {true, false}) {
    const auto add = [&](const std::string& name, const std::function<void(PolicyConfig&)>& change) {
      PolicyConfig config = Training::policy(shared);
      change(config);
      kinds.emplace_back(name + (shared ? ", shared" : ""), config);
    };
    add("elu", [](PolicyConfig&) {});
    add("silu", [](PolicyConfig& c) { c.activation = ActivationChoice::silu; });
    add("gelu", [](PolicyConfig& c) { c.activation = ActivationChoice::gelu; });
    add("leaky_relu", [](PolicyConfig& c) { c.activation = ActivationChoice::leaky_relu; });
    add("layer_norm", [](PolicyConfig& c) { c.layer_norm = true; });
    add("silu layer_norm", [](PolicyConfig& c) {
      c.activation = ActivationChoice::silu;
      c.layer_norm = true;
      if (!c.shared) c.critic_hidden = {7};
    });
    add("exp std", [](PolicyConfig& c) {
      c.state_dependent_std = true;
      c.init_std = 0.8;
      c.min_std = 0.7;  // that some samples meet
      c.max_std = 0.9;
    });
    add("softplus std, squashed", [](PolicyConfig& c) {
      c.state_dependent_std = c.squash_actions = true;
      c.std_transform = StdTransform::softplus;
      c.min_std = 0.001;
    });
    add("squashed", [](PolicyConfig& c) { c.squash_actions = true; });
    add("gru", [](PolicyConfig& c) {
      c.recurrent = Recurrence::gru;
      c.recurrent_units = 5;
    });
    add("lstm", [](PolicyConfig& c) {
      c.recurrent = Recurrence::lstm;
      c.recurrent_units = 5;
    });
    add("two layers of lstm alone", [](PolicyConfig& c) {
      c.recurrent = Recurrence::lstm;
      c.recurrent_units = 4;
      c.recurrent_layers = 2;
      c.hidden = {};
    });
    add("two layers of gru", [](PolicyConfig& c) {
      c.recurrent = Recurrence::gru;
      c.recurrent_units = 4;
      c.recurrent_layers = 2;
    });
    add("gru with everything", [](PolicyConfig& c) {
      c.recurrent = Recurrence::gru;
      c.recurrent_units = 3;
      c.state_dependent_std = c.squash_actions = c.layer_norm = true;
      c.activation = ActivationChoice::silu;
    });
  }
  return kinds;
}

TEST(TrainMinibatch, GradientIsThatOfTheLoss) {
  for (const auto& [name, config] : kinds_of_networks()) {
    SCOPED_TRACE(name);
    Training t(config);
    t.loss();
    std::vector<double> gradient(t.totals.data(), t.totals.data() + t.network.parameters);
    double size = 0;
    int used = 0, wrong = 0;
    for (int i = 0; i < t.network.parameters; ++i) {
      constexpr double h = 1e-6;
      const double kept = t.parameters[i];
      t.parameters[i] = kept + h;
      const double up = t.loss();
      t.parameters[i] = kept - h;
      const double down = t.loss();
      t.parameters[i] = kept;
      const double found = gradient[static_cast<std::size_t>(i)];
      if (!(std::abs(found - (up - down) / (2 * h)) <= 2e-7) && ++wrong <= 3)
        ADD_FAILURE() << "parameter " << i << ": " << found << ", by differences " << (up - down) / (2 * h);
      size += std::abs(found);
      used += found != 0.0;
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(size, 0.5);
    EXPECT_GT(used, config.shared ? 70 : 100);
  }
}

// The same minibatch, whose gradient is summed by blocks.
template <int Block, class Dense>
void compare_with_tiles(Training& t) {
  t.train.deal.horizon = t.train.deal.minibatches = 1;  // one position
  const std::int64_t count = minibatch_totals(t.network, kNumLossMetrics);
  const TileScratch scratch(t.network, t.layout, 2 + kNumLossMetrics, count, t.horizon, true);
  Buffer<double> memory(t.tiles * scratch.elements), totals(count);
  for (std::int64_t i = 0; i < t.tiles * scratch.elements; ++i)
    memory[i] = std::nan("");  // of lanes without samples, too
  for (std::int64_t i = 0; i < count; ++i) totals[i] = 0;
  TrainMinibatch<double, Dense, PpoLoss<double>, Block> train;
  train.network = t.network;
  train.scratch = scratch;
  train.loss = t.train.loss;
  train.parameters = t.train.parameters;
  train.memory = memory.data();
  train.blocks = t.train.blocks;
  std::vector<std::int32_t> first_step(t.tiles, 0);
  t.train.order = train.order = first_step.data();
  train.tiles = t.train.tiles;
  train.envs = t.train.envs;
  train.first_state = t.train.first_state;
  train.deal = t.train.deal;
  train.scale = t.train.scale;
  train.totals = totals.data();
  t.loss();
  for (int tile = 0; tile < t.tiles; ++tile) train(TileTeam(), tile, 0);
  BlockGradient<double, Block> gradient;
  gradient.network = t.network;
  gradient.scratch = scratch;
  gradient.memory = memory.data();
  gradient.inputs = train.input_of(0);
  gradient.next_input = t.layout.elements * 32;
  gradient.next_step = t.tiles * gradient.next_input;
  gradient.tiles = t.tiles;
  gradient.steps = train.deal.steps;
  gradient.samples = {.block = Block, .samples = t.envs, .first = 0, .maps = 1};
  gradient.totals = totals.data();
  gradient.inexact = totals.data() + count - 1;
  Buffer<double> panels(1 + BlockGradient<double, Block>::panel_elements(t.tiles, t.horizon));
  gradient.panels = panels.data();
  for (std::int64_t item = 0; item < gradient.items(); ++item) gradient(TileTeam(), item, 0);
  int wrong = 0;
  for (std::int64_t i = 0; i < count; ++i)
    if (!(std::abs(totals[i] - t.totals[i]) <= 1e-10) && ++wrong <= 3)
      ADD_FAILURE() << "total " << i << " by blocks of " << Block << ": " << totals[i] << ", by tiles "
                    << t.totals[i];
  EXPECT_EQ(wrong, 0);
}
TEST(TrainMinibatch, BlocksSumUpToTiles) {
  for (const auto& [name, config] : kinds_of_networks()) {
    SCOPED_TRACE(name);
    Training t(config);
    compare_with_tiles<8, LaneDense>(t);
    compare_with_tiles<2, LaneDense>(t);
#ifndef MANIPLE_SCALAR_LANES
    compare_with_tiles<8, WideDense>(t);
#endif
  }
}

// What a policy does over a few steps, against plain loops: means, deviations, values and the states that it
// carries from step to step; with one draw of noise, the action that acts.
TEST(Act, FollowsTheDefinitions) {
  for (const auto& [name, config] : kinds_of_networks()) {
    SCOPED_TRACE(name);
    Training t(config);
    std::mt19937_64 generator(3);
    std::uniform_real_distribution<double> draw(-1, 1);
    for (std::int64_t i = 0; i < t.network.parameters; ++i)  // layer_norm's weights and all biases, too
      if (t.parameters[i] != 0 || i % 3 == 0) t.parameters[i] += 0.3 * draw(generator);
    const TiledView<double> observation("observation", 1, 3), action("action", 1, 2);
    Buffer<double> block(t.layout.elements * 32);
    Act<double, LaneDense> act;
    act.network = t.network;
    act.layout = t.layout;
    act.scratch = t.scratch;
    act.parameters = t.parameters.data();
    act.memory = t.memory.data();
    act.observation = observation;
    act.action = action;
    act.blocks = block.data();
    act.state = t.first_state;
    act.moves_state = t.network.recurrent();
    act.squash_actions = config.squash_actions;
    act.envs = 32;
    std::vector<std::vector<double>> states(32);
    for (std::size_t env = 0; env < 32; ++env)
      for (int k = 0; k < t.network.state_units; ++k)
        states[env].push_back(t.first_state.at(static_cast<std::int64_t>(env), k));
    for (int step = 0; step < 3; ++step) {
      for (int i = 0; i < 3 * 32; ++i) observation.at(i % 32, i / 32) = 2 * draw(generator);
      act.control_step = static_cast<std::uint32_t>(step);
      for (int i = 0; i < t.layout.elements * 32; ++i) block[i] = std::nan("");
      act(TileTeam(), 0, 0);
      for (int env = 0; env < 32; ++env) {
        const std::vector<double> seen{observation.at(env, 0), observation.at(env, 1),
                                       observation.at(env, 2)};
        const testing_learning::Heads expected = testing_learning::heads_by_hand(
            config, t.network, t.parameters.data(), seen, states[static_cast<std::size_t>(env)]);
        const auto kept = [&](int element) { return block[element * 32 + env]; };
        ASSERT_NEAR(kept(t.layout.value), expected.value, 1e-12);
        double log_prob = 0;
        for (int k = 0; k < 2; ++k) {
          ASSERT_NEAR(kept(t.layout.mean + k), expected.mean[static_cast<std::size_t>(k)], 1e-12);
          double log_std = t.network.own_deviations() > 0 ? t.parameters[t.network.log_std + k] : 0;
          if (config.state_dependent_std) {
            log_std = expected.log_std[static_cast<std::size_t>(k)];
            ASSERT_NEAR(kept(t.layout.log_std + k), log_std, 1e-12);
          }
          const double z = get_lane(
              action_noise<Lanes<double>>(0, RandomPurpose::action, env, static_cast<std::uint32_t>(step), k),
              0);
          const double chosen = kept(t.layout.action + k);
          ASSERT_NEAR(chosen, kept(t.layout.mean + k) + std::exp(log_std) * z, 1e-12);
          ASSERT_NEAR(action.at(env, k), config.squash_actions ? std::tanh(chosen) : chosen, 1e-14);
          log_prob -= 0.5 * z * z + log_std + 0.5 * std::log(2 * M_PI);
        }
        ASSERT_NEAR(kept(t.layout.log_prob), log_prob, 1e-12);
        for (int k = 0; k < t.network.state_units; ++k)
          ASSERT_NEAR(t.first_state.at(env, k),
                      states[static_cast<std::size_t>(env)][static_cast<std::size_t>(k)], 1e-12);
      }
    }
  }
}

// The entropy that squashed actions are given credit for: its mean over many draws is the integral of -p ln
// p, with p the density of tanh(u).
TEST(Losses, EntropyOfSquashedActionsIsThatOfTheirDensity) {
  const double mean[1] = {0.4}, log_std[1] = {std::log(0.7)}, nothing[1] = {0};
  LossSettings settings;
  settings.squash_actions = true;
  double found = 0;
  constexpr int draws = 20000;
  for (int i = 0; i < draws; ++i) {
    // the quantiles of the normal distribution, by bisection
    const double p = (i + 0.5) / draws;
    double low = -9, high = 9;
    while (high - low > 1e-12)
      (std::erfc(-(low + high) / 2 / std::sqrt(2.0)) / 2 < p ? low : high) = (low + high) / 2;
    double a[1] = {0}, m[1] = {mean[0]}, old[1] = {0}, deltas[3] = {}, value_delta = 0,
           metrics[kNumLossMetrics] = {};
    const LossOperands<double> x{{a, 1}, {old, 1}, {m, 1}, 0, 0, 0, 0, 0, {log_std, {}}, {nothing, {}}};
    ppo_loss<double>(settings, 1, x, [&](int) { return low; }, true, 1.0, {deltas, 1}, value_delta,
                     {deltas + 1, 1}, {metrics, 1});
    found += metrics[kEntropy] / draws;
  }
  double expected = 0;
  constexpr int points = 400000;
  for (int i = 0; i < points; ++i) {
    const double y = -1 + (i + 0.5) * 2.0 / points, u = std::atanh(y), z = (u - mean[0]) / 0.7;
    const double p = std::exp(-0.5 * z * z) / (0.7 * std::sqrt(2 * M_PI)) / (1 - y * y);
    if (p > 0) expected -= p * std::log(p) * 2.0 / points;
  }
  EXPECT_NEAR(found, expected, 2e-4);
}

// Half the squared distance of the actor's output from the stored action: a loss without parameters of its
// own, which asks nothing of the critic.
struct SquaredError {
  static constexpr int num_metrics = 1;
  SampleLayout layout;
  ParameterRange own_parameters(const Network&) const { return {}; }
  template <class V>
  void operator()(const Network& network, const double*, std::int64_t, const SampleView<V>& view,
                  MaskOf<V> real, double scale) const {
    for (int k = 0; k < network.actor.units; ++k) {
      const V error = view.output[network.actor.first + k] - view.stored[layout.action + k];
      view.delta[network.actor.first + k] = select(real, V(scale) * error, V(0.0));
      view.metrics[0] += select(real, V(0.5) * error * error, V(0.0));
    }
    view.delta[network.critic.first] = V(0.0);
  }
  void after(const TileTeam&, const Network&, const double*, std::int64_t) const {}
};

// The actor's head for one sample, whose observations lie 32 numbers apart, in plain loops.
std::vector<double> actor_output(const Network& network, const double* parameters,
                                 const double* observation) {
  std::vector<double> units(static_cast<std::size_t>(network.units));
  for (int l = 0; l < network.num_layers; ++l) {
    const DenseLayer& layer = network.layers[l];
    for (int o = 0; o < layer.outputs; ++o) {
      double sum = parameters[layer.bias + o];
      for (int i = 0; i < layer.inputs; ++i)
        sum += parameters[layer.weight + o * layer.stride() + i] *
               (layer.source < 0 ? observation[i * 32] : units[static_cast<std::size_t>(layer.source + i)]);
      if (layer.activation == Activation::elu) sum = sum > 0 ? sum : std::expm1(sum);
      units[static_cast<std::size_t>(layer.target + o)] = sum;
    }
  }
  return {units.begin() + network.actor.first, units.begin() + network.actor.first + network.actor.units};
}

TEST(TrainMinibatch, TakesAnyLoss) {
  for (const bool shared : {true, false}) {
    const Training t(shared);
    const Network& network = t.network;
    const std::int64_t count = minibatch_totals(network, SquaredError::num_metrics);
    Buffer<double> totals(count);
    TrainMinibatch<double, LaneDense, SquaredError> train;
    train.network = network;
    train.scratch = t.scratch;
    train.loss.layout = t.layout;
    train.parameters = t.parameters.data();
    train.memory = t.memory.data();
    train.blocks = t.blocks.data();
    train.order = t.order.data();
    train.tiles = t.tiles;
    train.envs = t.envs;
    train.deal.num_tiles = t.tiles;
    train.deal.horizon = t.horizon;
    train.scale = 1.0 / (t.envs * t.horizon);
    train.exact = false;
    train.totals = totals.data();
    const auto loss = [&] {
      for (std::int64_t i = 0; i < count; ++i) totals[i] = 0;
      for (int tile = 0; tile < t.tiles; ++tile) train(TileTeam(), tile, 0);
      return totals[network.parameters];
    };
    // the metric by hand
    double expected = 0;
    for (int step = 0; step < t.horizon; ++step)
      for (int env = 0; env < t.envs; ++env) {
        const double* block =
            t.blocks.data() + (step * t.tiles + env / 32) * t.layout.elements * 32 + env % 32;
        if (block[t.layout.weight * 32] == 0) continue;
        const std::vector<double> mean = actor_output(network, t.parameters.data(), block);
        for (int k = 0; k < 2; ++k) {
          const double error = mean[static_cast<std::size_t>(k)] - block[(t.layout.action + k) * 32];
          expected += 0.5 * error * error / (t.envs * t.horizon);
        }
      }
    EXPECT_NEAR(loss(), expected, 1e-12);
    const std::vector<double> gradient(totals.data(), totals.data() + network.parameters);
    int used = 0;
    for (int i = 0; i < network.parameters; ++i) {
      constexpr double h = 1e-6;
      const double kept = t.parameters[i];
      t.parameters[i] = kept + h;
      const double up = loss();
      t.parameters[i] = kept - h;
      const double down = loss();
      t.parameters[i] = kept;
      EXPECT_NEAR(gradient[static_cast<std::size_t>(i)], (up - down) / (2 * h), 2e-8) << i;
      used += gradient[static_cast<std::size_t>(i)] != 0.0;
    }
    EXPECT_GT(used, 50);
  }
}

TEST(TrainMinibatch, PaddedEnvironmentsCountNothing) {
  Training t(true);
  const double loss = t.loss();
  const std::vector<double> before(t.totals.data(),
                                   t.totals.data() + minibatch_totals(t.network, kNumLossMetrics));
  // environment 45 is lane 13 of the second tile
  for (int step = 0; step < t.horizon; ++step)
    for (int element = 3; element < t.layout.elements; ++element)
      for (int lane = 13; lane < 32; ++lane)
        t.blocks[((step * t.tiles + 1) * t.layout.elements + element) * 32 + lane] = 1e30;
  EXPECT_EQ(t.loss(), loss);
  for (int i = 0; i < minibatch_totals(t.network, kNumLossMetrics); ++i) EXPECT_EQ(t.totals[i], before[i]);
}

TEST(TrainMinibatch, SamplesWithoutWeightCountNothing) {
  Training t(false);
  const auto set = [&](int first, int last, double value) {
    for (int step = 0; step < t.horizon; ++step)
      for (int element = first; element < last; ++element)
        for (const int lane : {0, 7, 31})
          t.blocks[(step * t.tiles * t.layout.elements + element) * 32 + lane] = value;
  };
  const double all = t.loss();
  set(t.layout.weight, t.layout.weight + 1, 0);
  const double loss = t.loss();
  EXPECT_NE(loss, all);
  const std::vector<double> before(t.totals.data(),
                                   t.totals.data() + minibatch_totals(t.network, kNumLossMetrics));
  set(3, t.layout.weight, 1e30);
  EXPECT_EQ(t.loss(), loss);
  for (int i = 0; i < minibatch_totals(t.network, kNumLossMetrics); ++i) EXPECT_EQ(t.totals[i], before[i]);
}

// An act whose critic gives `value` for every observation.
Act<double, LaneDense> constant_critic(Training& t, Buffer<double>& memory, double value) {
  const DenseLayer& last = t.network.layers[t.network.num_layers - 1];
  for (std::int64_t i = last.weight; i < last.bias; ++i) t.parameters[i] = 0;
  t.parameters[last.bias] = value;
  Act<double, LaneDense> act;
  act.network = t.network;
  act.layout = t.layout;
  act.scratch = t.scratch;
  act.parameters = t.parameters.data();
  act.memory = memory.data();
  act.deterministic = true;
  act.envs = 32;
  return act;
}

// The rollout of a tile whose environments 3 and 40 break in step 2: what their rewards say does not matter,
// the advantages before are those of a rollout that stops there with the value of its last observation.
TEST(InvalidSteps, CutTheRolloutBeforeThem) {
  constexpr int horizon = 4, broken = 3, elements = 3;
  constexpr double gamma = 0.9, lambda = 0.8, last_value = 0.7;
  const SampleLayout layout({elements, 0, 2});
  Buffer<double> blocks(horizon * layout.elements * 32), statistics(8 * kBins);
  std::mt19937_64 generator(5);
  fill(blocks, horizon * layout.elements * 32, generator);
  const auto at = [&](int step, int element, int lane) -> double& {
    return blocks[(step * layout.elements + element) * 32 + lane];
  };
  Record<double, LaneDense> record;
  record.layout = layout;
  const auto tile = [](int count) { return TiledView<double>("record", 1, count); };
  record.reward = tile(1);
  record.terminated = tile(1);
  record.truncated = tile(1);
  record.invalid = tile(1);
  record.episode_return = tile(1);
  record.episode_length = tile(1);
  record.episode_reward_term = tile(2);
  record.episode_metric = tile(1);
  record.envs = 30;
  record.statistics = statistics.data();
  record.statistics_scale = 1;
  record.steps = 7;
  for (int i = 0; i < 8 * kBins; ++i) statistics[i] = 0;
  const auto reward = [](int step, int lane) { return 0.1 * step - 0.02 * lane; };
  for (int step = 0; step < horizon; ++step) {
    for (int lane = 0; lane < 32; ++lane) {
      const bool breaks = step == 2 && (lane == broken || lane == 31);  // 31 is padding
      record.reward.at(lane, 0) = breaks ? 1e12 : reward(step, lane);
      record.invalid.at(lane, 0) = record.terminated.at(lane, 0) = breaks;
      if (step == 1 && lane == 8) record.terminated.at(lane, 0) = 1;
      record.episode_return.at(lane, 0) = breaks ? std::nan("") : 5;
      record.episode_length.at(lane, 0) = 7;
      if (step == 1 && lane == 9) {  // an episode that is older than the training
        record.terminated.at(lane, 0) = 1;
        record.episode_length.at(lane, 0) = 8;
      }
      record.episode_reward_term.at(lane, 0) = breaks ? 1e300 : 2;
      record.episode_reward_term.at(lane, 1) = 3;
      record.episode_metric.at(lane, 0) = breaks ? 1e300 : 4;
    }
    record.blocks = blocks.data() + step * layout.elements * 32;
    record(TileTeam(), 0, 0);
  }
  // episodes, their return, length, terms and metrics; invalid steps; sums that are not exact
  const double expected[] = {1, 5, 7, 2, 3, 4, 1, 0};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(sum_of_bins(statistics.data() + i * kBins), expected[i]) << i;
  // a network whose every value is the bias of the last layer
  Training t(false);
  Buffer<double> memory(t.scratch.elements);
  EstimateAdvantages<double, LaneDense> estimate;
  estimate.act = constant_critic(t, memory, last_value);
  const TiledView<double> observation("observation", 1, 3);
  estimate.act.observation = observation;
  estimate.act.layout = layout;
  estimate.blocks = blocks.data();
  estimate.tiles = 1;
  estimate.horizon = horizon;
  estimate.gamma = gamma;
  estimate.lambda = lambda;
  estimate(TileTeam(), 0, 0);
  for (const int lane : {broken, broken + 1}) {
    double advantage[horizon];
    for (int step = 0; step < horizon; ++step) {
      advantage[step] = at(step, layout.advantage, lane);
      EXPECT_EQ(at(step, layout.target, lane), advantage[step] + at(step, layout.value, lane));
      EXPECT_EQ(at(step, layout.weight, lane), lane == broken && step == 2 ? 0.0 : 1.0);
    }
    const auto difference = [&](int step) {
      const double after = step + 1 < horizon ? at(step + 1, layout.value, lane) : last_value;
      return reward(step, lane) + gamma * after - at(step, layout.value, lane);
    };
    double sum = difference(1);
    if (lane != broken) sum += gamma * lambda * (difference(2) + gamma * lambda * difference(3));
    EXPECT_NEAR(advantage[1], sum, 1e-14);
    EXPECT_NEAR(advantage[0], difference(0) + gamma * lambda * sum, 1e-14);
    EXPECT_NEAR(advantage[3], difference(3), 1e-14);
    if (lane == broken) {
      EXPECT_EQ(advantage[2], 0);
    }
  }
}

// Rewards in their unit, time-outs with the value of what they led to: each advantage is the sum of temporal
// differences up to the end of its episode, written out.
TEST(Advantages, CountTimeOutsAndUnits) {
  constexpr int horizon = 5;
  constexpr double gamma = 0.9, lambda = 0.8, last = 0.7, mean = 3, deviation = 2, reward_scale = 0.5;
  Training t(false);
  Buffer<double> memory(t.scratch.elements);
  const SampleLayout& layout = t.layout;
  Buffer<double> blocks(horizon * layout.elements * 32);
  std::mt19937_64 generator(6);
  fill(blocks, horizon * layout.elements * 32, generator);
  const auto at = [&](int step, int element, int lane) -> double& {
    return blocks[(step * layout.elements + element) * 32 + lane];
  };
  for (int step = 0; step < horizon; ++step)
    for (int lane = 0; lane < 32; ++lane) {
      at(step, layout.weight, lane) = 1;
      at(step, layout.done, lane) = at(step, layout.cut, lane) = 0;
    }
  at(2, layout.done, 0) = at(2, layout.cut, 0) = 1;  // environment 0 runs out of time
  at(2, layout.done, 1) = 1;                         // environment 1 fails
  at(3, layout.reward, 2) = 50;                      // environment 2 meets the clip
  const std::vector<double> before(blocks.data(), blocks.data() + horizon * layout.elements * 32);
  const auto stored = [&](int step, int element, int lane) {
    return before[static_cast<std::size_t>((step * layout.elements + element) * 32 + lane)];
  };
  const TiledView<double> observation("observation", 1, 3);
  EstimateAdvantages<double, LaneDense> estimate;
  estimate.act = constant_critic(t, memory, last);
  estimate.act.observation = observation;
  estimate.blocks = blocks.data();
  estimate.tiles = 1;
  estimate.horizon = horizon;
  estimate.gamma = gamma;
  estimate.lambda = lambda;
  estimate.units = {reward_scale, 10, mean, deviation};
  estimate(TileTeam(), 0, 0);
  const auto value = [&](double output) { return mean + deviation * output; };
  for (const int lane : {0, 1, 2}) {
    const auto difference = [&](int step) {
      const double reward = std::min(10.0, reward_scale * stored(step, layout.reward, lane));
      double after = step + 1 < horizon ? value(stored(step + 1, layout.value, lane)) : value(last);
      if (step == 2 && lane == 0) after = value(stored(2, layout.bootstrap, 0));
      if (step == 2 && lane == 1) after = 0;
      return reward + gamma * after - value(stored(step, layout.value, lane));
    };
    for (int step = 0; step < horizon; ++step) {
      double expected = 0, factor = 1;
      for (int later = step; later < horizon; ++later) {
        expected += factor * difference(later);
        factor *= gamma * lambda;
        if (stored(later, layout.done, lane) != 0) break;
      }
      EXPECT_NEAR(at(step, layout.advantage, lane), expected, 1e-13) << lane << " " << step;
      EXPECT_NEAR(at(step, layout.value, lane), value(stored(step, layout.value, lane)), 1e-14);
      EXPECT_NEAR(at(step, layout.target, lane), expected + at(step, layout.value, lane), 1e-13);
    }
  }
}

// What a time-out is worth: nothing, the value of the observation before the step, or that of the one after.
TEST(Advantages, TimeOutsAreValuedAsAsked) {
  Training t(false);
  Buffer<double> memory(t.scratch.elements), statistics(5 * kBins);
  const SampleLayout& layout = t.layout;
  Buffer<double> block(layout.elements * 32);
  const auto tile = [](int count) { return TiledView<double>("record", 1, count); };
  for (const Bootstrap bootstrap : {Bootstrap::none, Bootstrap::value, Bootstrap::final_observation}) {
    Record<double, LaneDense> record;
    record.layout = layout;
    record.reward = tile(1);
    record.terminated = tile(1);
    record.truncated = tile(1);
    record.invalid = tile(1);
    record.episode_return = record.episode_length = tile(1);
    record.bootstrap = bootstrap;
    const TiledView<double> last = tile(3);
    record.final = constant_critic(t, memory, 0.7);
    record.final.observation = last;
    record.blocks = block.data();
    record.envs = 32;
    record.statistics = statistics.data();
    for (int lane = 0; lane < 32; ++lane) {
      block[layout.value * 32 + lane] = 0.25;
      record.truncated.at(lane, 0) = lane % 2;
      record.terminated.at(lane, 0) = lane % 4 == 3;  // fails in its last step
    }
    record(TileTeam(), 0, 0);
    for (int lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(block[layout.done * 32 + lane], lane % 2);
      EXPECT_EQ(block[layout.cut * 32 + lane], bootstrap != Bootstrap::none && lane % 4 == 1 ? 1 : 0);
    }
    EXPECT_EQ(block[layout.bootstrap * 32 + 1], bootstrap == Bootstrap::final_observation ? 0.7 : 0.25);
  }
}

// Moments of a rollout's valid samples, and discounted returns across two rollouts, in plain loops.
TEST(SampleMoments, AreThoseOfTheValidSamples) {
  constexpr int horizon = 6, envs = 45, tiles = 2;
  constexpr double gamma = 0.9;
  const SampleLayout layout({1, 0, 1});
  Buffer<double> blocks(horizon * tiles * layout.elements * 32), totals(8);
  std::mt19937_64 generator(9);
  const auto at = [&](int step, int element, int env) -> double& {
    return blocks[((step * tiles + env / 32) * layout.elements + element) * 32 + env % 32];
  };
  const TiledView<double> running("running", tiles, 1);
  std::vector<double> expected(64, 0.0);
  for (int rollout = 0; rollout < 2; ++rollout) {
    fill(blocks, horizon * tiles * layout.elements * 32, generator);
    for (int step = 0; step < horizon; ++step)
      for (int env = 0; env < 64; ++env) {
        at(step, layout.reward, env) *= 1e6;
        at(step, layout.done, env) = (step + env) % 5 == 0;
        at(step, layout.weight, env) = (step * env) % 7 != 3;
      }
    DiscountedReturns<double> discount;
    discount.layout = layout;
    discount.blocks = blocks.data();
    discount.running = running;
    discount.tiles = tiles;
    discount.horizon = horizon;
    discount.gamma = gamma;
    for (int tile = 0; tile < tiles; ++tile) discount(TileTeam(), tile, 0);
    double count = 0, sum = 0, squares = 0, largest = 0;
    for (int step = 0; step < horizon; ++step)
      for (int env = 0; env < 64; ++env) {
        double& value = expected[static_cast<std::size_t>(env)];
        value = gamma * value + at(step, layout.reward, env);
        EXPECT_NEAR(at(step, layout.advantage, env), value, 1e-9 * std::abs(value));
        if (env < envs && at(step, layout.weight, env) != 0) {
          const double x = value - 1000;
          count += 1;
          sum += x;
          squares += x * x;
          largest = std::max(largest, std::abs(x));
        }
        if (at(step, layout.done, env) != 0) value = 0;
      }
    SampleMoments<double> moments;
    moments.layout = layout;
    moments.blocks = blocks.data();
    moments.tiles = tiles;
    moments.envs = envs;
    moments.horizon = horizon;
    moments.count = 1;
    moments.element[0] = layout.advantage;
    moments.shift[0] = 1000;
    moments.totals = totals.data();
    totals[0] = 0;
    for (int tile = 0; tile < tiles; ++tile) moments(TileTeam(), tile, 0);
    EXPECT_NEAR(totals[0], largest, 1e-9 * largest);
    moments.scale[0] = 1 / largest;
    moments.sums = true;
    moments.moment_scale = 1.0 / (envs * horizon);
    for (int i = 0; i < 4; ++i) totals[i] = 0;
    for (int tile = 0; tile < tiles; ++tile) moments(TileTeam(), tile, 0);
    EXPECT_NEAR(totals[0], sum / largest / (envs * horizon), 1e-11);
    EXPECT_NEAR(totals[1], squares / largest / largest / (envs * horizon), 1e-11);
    EXPECT_EQ(totals[2], envs * horizon - count);
    EXPECT_EQ(totals[3], 0);
  }
}

// Any number of minibatches takes every step of every tile once, in equal parts, and counts its samples.
TEST(MinibatchDeal, TakesEverySampleOnce) {
  for (const auto& [tiles, horizon, minibatches] : std::vector<std::array<int, 3>>{
           {7, 10, 4}, {7, 10, 10}, {7, 3, 5}, {8, 2, 16}, {128, 5, 32}, {1, 4, 4}}) {
    MinibatchDeal deal;
    deal.num_tiles = tiles;
    deal.horizon = horizon;
    deal.minibatches = minibatches;
    deal.spread = tiles == 8 ? 5 : tiles == 128 ? 79 : tiles == 7 ? 4 : 1;
    deal.rotation = 3 % tiles;
    const std::int64_t envs = tiles * 32 - 9;
    std::vector<std::int64_t> samples(static_cast<std::size_t>(minibatches), 0);
    for (int tile = 0; tile < tiles; ++tile)
      for (int position = 0; position < horizon; ++position) {
        int taken = 0;
        for (int m = 0; m < minibatches; ++m) {
          if (!deal.takes(m, tile, position)) continue;
          ++taken;
          samples[static_cast<std::size_t>(m)] += tile == tiles - 1 ? 23 : 32;
        }
        EXPECT_EQ(taken, 1);
      }
    for (int m = 0; m < minibatches; ++m) {
      EXPECT_EQ(deal.samples(m, envs), samples[static_cast<std::size_t>(m)]);
      EXPECT_GT(samples[static_cast<std::size_t>(m)], 0);
    }
  }
}

TEST(TrainMinibatch, ReferenceMovesOnRequest) {
  Training t(true);
  t.train.loss.move_reference = true;
  t.loss();
  const double kl_from_rollout = t.totals[t.network.parameters + kKl];
  EXPECT_GT(kl_from_rollout, 0.01);
  t.loss();
  EXPECT_NEAR(t.totals[t.network.parameters + kKl], 0.0, 1e-12) << "the same policy twice";
}

TEST(TrainMinibatch, TotalsAreWholeQuanta) {
  Training t(true);
  const std::int64_t count = minibatch_totals(t.network, kNumLossMetrics);
  t.loss();
  const auto fractions = [&] {
    int found = 0;
    for (int i = 0; i < count; ++i) {
      const double quanta = std::ldexp(t.totals[i], kExactBits);
      found += quanta != std::nearbyint(quanta);
    }
    return found;
  };
  EXPECT_GT(fractions(), 50) << "the fast form does not round";
  for (int i = 0; i < count; ++i) t.totals[i] = 0;
  t.train.exact = true;
  for (int tile = 0; tile < t.tiles; ++tile) t.train(TileTeam(), tile, 0);
  EXPECT_EQ(fractions(), 0);
}

TEST(TrainMinibatch, TooLargeSumsAreCounted) {
  Training t(true);
  for (int i = 0; i < t.tiles * t.horizon * t.layout.elements * 32; ++i)
    if (i / 32 % t.layout.elements == t.layout.target) t.blocks[i] = 1e6;
  const std::int64_t count = minibatch_totals(t.network, kNumLossMetrics);
  for (int i = 0; i < count; ++i) t.totals[i] = 0;
  t.train.exact = true;
  for (int tile = 0; tile < t.tiles; ++tile) t.train(TileTeam(), tile, 0);
  EXPECT_GT(t.totals[count - 1], 0.0);
}

TEST(MinibatchOrder, IsAPermutationDealtEvenly) {
  constexpr int horizon = 10;
  std::int32_t order[horizon], other[horizon];
  std::vector<int> first(horizon, 0);
  for (int tile = 0; tile < 2000; ++tile) {
    minibatch_order(3, tile, 7, 2, horizon, order);
    std::vector<int> seen(horizon, 0);
    for (const int step : order) ++seen[static_cast<std::size_t>(step)];
    for (const int count : seen) EXPECT_EQ(count, 1);
    ++first[static_cast<std::size_t>(order[0])];
  }
  // every step comes first about equally often: 200 expected, six standard deviations allowed
  for (const int count : first) EXPECT_NEAR(count, 200, 6 * 13.4);
  // tiles, epochs, iterations and seeds differ
  const auto differs = [&](std::uint32_t seed, std::int64_t tile, std::uint32_t iteration, int epoch) {
    minibatch_order(3, 5, 7, 2, horizon, order);
    minibatch_order(seed, tile, iteration, epoch, horizon, other);
    return !std::equal(order, order + horizon, other);
  };
  EXPECT_FALSE(differs(3, 5, 7, 2));
  EXPECT_TRUE(differs(4, 5, 7, 2));
  EXPECT_TRUE(differs(3, 6, 7, 2));
  EXPECT_TRUE(differs(3, 5, 8, 2));
  EXPECT_TRUE(differs(3, 5, 7, 3));
}

}  // namespace
}  // namespace maniple
#endif
