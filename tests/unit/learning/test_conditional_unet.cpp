// The denoising network: its gradient against finite differences, bits that depend on one sample alone, and
// valid shapes. tests/regress/imitation/test_conditional_unet.py compares it with torch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "kernels/base/varying.hpp"
#include "src/base/to_device.hpp"
#include "src/learning/conditional_unet.hpp"
#include "tests/unit/device_memory.hpp"

namespace maniple {
namespace {

using maniple::testing::host_of;

// Blocks of tiles as a learner has them, [tile][noisy, condition, step][32], with derivatives by a
// prediction.
template <class T>
struct Samples {
  UnetShape shape;
  int tiles;
  std::vector<T> blocks, delta;

  Samples(const UnetShape& unet_shape, int count, unsigned seed)
      : shape(unet_shape), tiles(count), blocks(size(elements())), delta(size(frames())) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> normal;
    for (T& x : blocks) x = static_cast<T>(normal(generator));
    for (T& x : delta) x = static_cast<T>(normal(generator) / 100);
    for (int tile = 0; tile < tiles; ++tile)
      for (int lane = 0; lane < kTileWidth; ++lane)
        at(blocks, tile, elements() - 1, lane) = static_cast<T>(generator() % 100);
  }
  int frames() const { return shape.horizon * shape.actions; }
  int elements() const { return frames() + shape.condition + 1; }
  std::size_t size(int count) const { return static_cast<std::size_t>(tiles * count * kTileWidth); }
  T& at(std::vector<T>& values, int tile, int element, int lane) const {
    const std::size_t count = values.size() / static_cast<std::size_t>(tiles * kTileWidth);
    return values[(static_cast<std::size_t>(tile) * count + static_cast<std::size_t>(element)) * kTileWidth +
                  static_cast<std::size_t>(lane)];
  }
  // Sample `from` of another set as sample `to` of this one.
  void take(Samples& other, int from, int to) {
    for (int i = 0; i < elements(); ++i)
      at(blocks, to / kTileWidth, i, to % kTileWidth) =
          other.at(other.blocks, from / kTileWidth, i, from % kTileWidth);
    for (int i = 0; i < frames(); ++i)
      at(delta, to / kTileWidth, i, to % kTileWidth) =
          other.at(other.delta, from / kTileWidth, i, from % kTileWidth);
  }
};

template <class T>
struct UnetResult {
  std::vector<T> prediction;
  std::vector<double> gradient;
  double inexact = 0;
};

// Runs of at most the network's tiles, one after the other.
template <class T>
UnetResult<T> pass(ConditionalUnet<T>& unet, const std::vector<T>& parameters, const Samples<T>& samples,
                   bool learns = true, bool exact = true) {
  const Numbers<T> weights = to_device("test", parameters), blocks = to_device("test", samples.blocks),
                   delta = to_device("test", samples.delta);
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const Numbers<T> prediction = to_device("test", std::vector<T>(samples.delta.size(), nan));
  const Numbers<double> totals("totals", parameters.size() + 1);
  const std::int64_t block = samples.elements() * kTileWidth, frames = samples.frames() * kTileWidth;
  for (int tile = 0; tile < samples.tiles; tile += unet.most_tiles()) {
    T* const first = blocks.data() + tile * block;
    UnetInput<T> input;
    input.tiles = std::min(unet.most_tiles(), samples.tiles - tile);
    input.noisy = {first, block};
    input.condition = {first + frames, block};
    input.step = {first + block - kTileWidth, block};
    unet.forward(weights, input, {prediction.data() + tile * frames, frames});
    if (learns)
      unet.backward(weights, input, {delta.data() + tile * frames, frames}, exact, totals.data(),
                    totals.data() + parameters.size());
  }
  Kokkos::fence();
  UnetResult<T> result{host_of(prediction), host_of(totals)};
  result.inexact = result.gradient.back();
  result.gradient.pop_back();
  return result;
}

// Parameters of which none is zero or one by itself.
template <class T>
std::vector<T> parameters_of(const ConditionalUnet<T>& unet) {
  std::vector<T> values = unet.initial_parameters(5);
  std::mt19937_64 generator(3);
  std::uniform_real_distribution<double> draw(-0.3, 0.3);
  for (const ParameterTensor& tensor : unet.tensors())
    if (tensor.start != ParameterTensor::Start::uniform)
      for (std::int64_t i = 0; i < tensor.size(); ++i)
        values[static_cast<std::size_t>(tensor.first + i)] += static_cast<T>(draw(generator));
  return values;
}

UnetShape small_unet() {
  UnetShape shape;
  shape.actions = 3;
  shape.horizon = 8;
  shape.condition = 5;
  shape.step_embedding = 6;
  shape.widths = {8, 16, 24};
  shape.kernel_size = 3;
  shape.groups = 4;
  return shape;
}

double loss_of(ConditionalUnet<double>& unet, const std::vector<double>& parameters,
               const Samples<double>& samples) {
  const UnetResult<double> result = pass(unet, parameters, samples, false);
  double loss = 0;
  for (std::size_t i = 0; i < samples.delta.size(); ++i) loss += samples.delta[i] * result.prediction[i];
  return loss;
}

TEST(ConditionalUnet, GradientIsThatOfFiniteDifferences) {
  std::vector<UnetShape> shapes(4, small_unet());
  shapes[1].predict_scale = false;
  shapes[1].condition = 0;
  shapes[1].kernel_size = 5;
  shapes[2].widths = {16};
  shapes[2].horizon = 5;
  shapes[2].groups = 1;
  shapes[3].widths = {40, 40};
  shapes[3].actions = 1;
  shapes[3].groups = 8;
  for (const UnetShape& shape : shapes) {
    ASSERT_FALSE(fault_of(shape));
    ConditionalUnet<double> unet(shape, 2, true);
    std::vector<double> parameters = parameters_of(unet);
    const Samples<double> samples(shape, 3, 11);
    const UnetResult<double> result = pass(unet, parameters, samples);
    EXPECT_EQ(result.inexact, 0);
    std::mt19937_64 generator(1);
    for (const ParameterTensor& tensor : unet.tensors()) {
      const auto i = static_cast<std::size_t>(
          tensor.first + static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(tensor.size())));
      const double kept = parameters[i], step = 1e-5;
      parameters[i] = kept + step;
      const double above = loss_of(unet, parameters, samples);
      parameters[i] = kept - step;
      const double below = loss_of(unet, parameters, samples);
      parameters[i] = kept;
      EXPECT_NEAR(result.gradient[i], (above - below) / (2 * step),
                  1e-8 + 1e-6 * std::abs(result.gradient[i]))
          << tensor.name << " " << i;
    }
  }
}

// Where a sample is, what is beside it, how many tiles are worked on at once: nothing of that shows.
TEST(ConditionalUnet, SampleDecidesAboutItsPredictionAlone) {
  const UnetShape shape = small_unet();
  ConditionalUnet<float> two(shape, 2, true), four(shape, 4, false);
  const std::vector<float> parameters = parameters_of(two);
  Samples<float> samples(shape, 4, 2), moved = samples;
  std::vector<int> places(4 * kTileWidth);
  for (int i = 0; i < 4 * kTileWidth; ++i) places[static_cast<std::size_t>(i)] = i;
  std::shuffle(places.begin(), places.end(), std::mt19937(4));
  for (int i = 0; i < 4 * kTileWidth; ++i) moved.take(samples, i, places[static_cast<std::size_t>(i)]);
  UnetResult<float> result = pass(two, parameters, samples), other = pass(four, parameters, moved, false);
  for (int i = 0; i < 4 * kTileWidth; ++i) {
    const int to = places[static_cast<std::size_t>(i)];
    for (int k = 0; k < samples.frames(); ++k)
      ASSERT_EQ(samples.at(result.prediction, i / kTileWidth, k, i % kTileWidth),
                moved.at(other.prediction, to / kTileWidth, k, to % kTileWidth));
  }
}

TEST(ConditionalUnet, TileDecidesAboutItsGradientAlone) {
  const UnetShape shape = small_unet();
  constexpr int kTiles = 6;
  ConditionalUnet<float> one(shape, 1, true), four(shape, 4, true);
  const std::vector<float> parameters = parameters_of(one);
  Samples<float> samples(shape, kTiles, 2), turned = samples;
  // gradients so different in size that sums of doubles round
  const int exponents[kTiles] = {8, -20, -2, -14, 4, -25};
  for (int tile = 0; tile < kTiles; ++tile)
    for (int k = 0; k < samples.frames(); ++k)
      for (int lane = 0; lane < kTileWidth; ++lane)
        samples.at(samples.delta, tile, k, lane) =
            std::ldexp(samples.at(samples.delta, tile, k, lane), exponents[tile]);
  for (int i = 0; i < kTiles * kTileWidth; ++i)
    turned.take(samples, i, (i + 2 * kTileWidth) % (kTiles * kTileWidth));
  const UnetResult<float> together = pass(four, parameters, samples), alone = pass(one, parameters, turned);
  EXPECT_EQ(together.gradient, alone.gradient);
  EXPECT_EQ(together.inexact, 0);
  const UnetResult<float> fast = pass(four, parameters, samples, true, false),
                          other = pass(one, parameters, turned, true, false);
  EXPECT_NE(fast.gradient, other.gradient);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    ASSERT_NEAR(fast.gradient[i], together.gradient[i], 1e-11);
}

TEST(ConditionalUnet, SpareLanesContributeNothing) {
  const UnetShape shape = small_unet();
  ConditionalUnet<float> unet(shape, 2, true);
  const std::vector<float> parameters = parameters_of(unet);
  Samples<float> samples(shape, 2, 2), others(shape, 2, 77);
  constexpr int kReal = 20;  // of the second tile
  for (int i = 0; i < kTileWidth + kReal; ++i) others.take(samples, i, i);
  for (Samples<float>* part : {&samples, &others})
    for (int lane = kReal; lane < kTileWidth; ++lane)
      for (int k = 0; k < samples.frames(); ++k) part->at(part->delta, 1, k, lane) = 0;
  EXPECT_EQ(pass(unet, parameters, samples).gradient, pass(unet, parameters, others).gradient);
}

// A pass leaves nothing behind that the next one reads.
TEST(ConditionalUnet, NothingIsLeftOfAPoisonedPass) {
  const UnetShape shape = small_unet();
  ConditionalUnet<float> unet(shape, 2, true), fresh(shape, 2, true);
  const std::vector<float> parameters = parameters_of(unet);
  const Samples<float> samples(shape, 2, 2);
  Samples<float> poison = samples;
  for (std::vector<float>* part : {&poison.blocks, &poison.delta})
    std::fill(part->begin(), part->end(), std::numeric_limits<float>::quiet_NaN());
  const UnetResult<float> poisoned = pass(unet, parameters, poison);
  EXPECT_TRUE(std::isnan(poisoned.prediction[0]));
  EXPECT_GT(poisoned.inexact, 0);
  const UnetResult<float> result = pass(unet, parameters, samples),
                          expected = pass(fresh, parameters, samples);
  EXPECT_EQ(result.prediction, expected.prediction);
  EXPECT_EQ(result.gradient, expected.gradient);
  // what lies between tensors stays zero
  std::vector<bool> owned(parameters.size(), false);
  for (const ParameterTensor& tensor : unet.tensors())
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      ASSERT_FALSE(owned[static_cast<std::size_t>(tensor.first + i)]) << tensor.name;
      owned[static_cast<std::size_t>(tensor.first + i)] = true;
    }
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!owned[i]) {
      ASSERT_EQ(parameters[i], 0);
      ASSERT_EQ(result.gradient[i], 0);
    }
}

TEST(ConditionalUnet, ParametersBeginAsThoseOfTorch) {
  const UnetShape shape = small_unet();
  ConditionalUnet<float> unet(shape, 1, false);
  EXPECT_EQ(unet.parameters(), ConditionalUnet<float>::parameters(shape));
  const std::vector<float> values = unet.initial_parameters(7), again = unet.initial_parameters(7);
  EXPECT_EQ(values, again);
  EXPECT_NE(values, unet.initial_parameters(8));
  // torch's count of a convolution's inputs, and of a transposed one's
  const std::map<std::string, int> inputs = {{"down_modules.1.0.blocks.0.block.0.weight", 8 * 3},
                                             {"up_modules.0.2.conv.weight", 16 * 4},
                                             {"up_modules.0.2.conv.bias", 16 * 4},
                                             {"mid_modules.0.cond_encoder.1.weight", 6 + 5}};
  std::size_t found = 0;
  for (const ParameterTensor& tensor : unet.tensors()) {
    double largest = 0, sum = 0;
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      const double x = static_cast<double>(values[static_cast<std::size_t>(tensor.first + i)]);
      largest = std::max(largest, std::abs(x));
      sum += x;
    }
    const double mean = sum / static_cast<double>(tensor.size());
    if (tensor.start == ParameterTensor::Start::one) {
      EXPECT_EQ(mean, 1) << tensor.name;
    }
    if (tensor.start == ParameterTensor::Start::zero) {
      EXPECT_EQ(largest, 0) << tensor.name;
    }
    if (tensor.start != ParameterTensor::Start::uniform) continue;
    const double bound = 1 / std::sqrt(tensor.fan), deviation = bound / std::sqrt(3.0 * tensor.size());
    EXPECT_LE(largest, bound * 1.000001) << tensor.name;
    EXPECT_LT(std::abs(mean), 5 * deviation) << tensor.name;
    if (tensor.size() > 100) {
      EXPECT_GT(largest, 0.9 * bound) << tensor.name;
    }
    if (const auto known = inputs.find(tensor.name); known != inputs.end()) {
      EXPECT_EQ(tensor.fan, known->second) << tensor.name;
      ++found;
    }
  }
  EXPECT_EQ(found, inputs.size());
  EXPECT_EQ(from_torch_order(unet.tensors(), in_torch_order(unet.tensors(), values)), values);
}

TEST(ConditionalUnet, ImpossibleShapesAreNamed) {
  const auto fault = [](auto&& change) {
    UnetShape shape = small_unet();
    change(shape);
    const std::optional<ShapeFault> found = fault_of(shape);
    return found ? found->member + ": " + found->found + ", " + found->allowed : "";
  };
  EXPECT_EQ(fault([](UnetShape&) {}), "");
  EXPECT_EQ(fault([](UnetShape& s) { s.horizon = 10; }),
            "horizon: 10, a multiple of 4, as it is halved between two widths");
  EXPECT_EQ(fault([](UnetShape& s) { s.kernel_size = 4; }), "kernel_size: 4, an odd number");
  EXPECT_EQ(fault([](UnetShape& s) { s.widths[1] = 18; }), "widths: 18, multiples of the 4 groups");
  EXPECT_EQ(fault([](UnetShape& s) { s.widths[0] = 12; }),
            "widths: 12, a multiple of the 8 groups of the last block first");
  EXPECT_EQ(fault([](UnetShape& s) { s.step_embedding = 7; }),
            "step_embedding: 7, an even number, at least 4");
  EXPECT_EQ(fault([](UnetShape& s) { s.widths.clear(); }), "widths: 0 levels, 1 to 16 levels");
  EXPECT_EQ(fault([](UnetShape& s) { s.actions = 0; }), "actions: 0, at least 1");
  EXPECT_EQ(fault([](UnetShape& s) { s.condition = -1; }), "condition: -1, at least 0");
  EXPECT_EQ(fault([](UnetShape& s) { s.groups = 0; }), "groups: 0, at least 1");
}

}  // namespace
}  // namespace maniple
