// The image encoder: its gradient against finite differences, bits that depend on one sample alone, and valid
// shapes. tests/regress/imitation/test_image_encoder.py compares it with torch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/base/varying.hpp"
#include "src/base/to_device.hpp"
#include "src/learning/image_encoder.hpp"
#include "tests/unit/device_memory.hpp"

namespace maniple {
namespace {

using maniple::testing::host_of;

// Tiles of images, [tile][element][32], with derivatives by their features.
template <class T>
struct Images {
  int tiles, pixels, features;
  std::vector<std::uint8_t> pixel;
  std::vector<T> delta;

  Images(const ImageEncoderShape& shape, int count, unsigned seed)
      : tiles(count),
        pixels(shape.height * shape.width * shape.channels),
        features(shape.features),
        pixel(static_cast<std::size_t>(tiles * pixels * kTileWidth)),
        delta(static_cast<std::size_t>(tiles * features * kTileWidth)) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> normal;
    for (std::uint8_t& x : pixel) x = static_cast<std::uint8_t>(generator());
    for (T& x : delta) x = static_cast<T>(normal(generator) / 100);
  }
  // Place of an element of an image in an array of `elements` for each.
  static std::size_t at(int image, int element, int elements) {
    return static_cast<std::size_t>((image / kTileWidth * elements + element) * kTileWidth +
                                    image % kTileWidth);
  }
  void take(const Images& other, int from, int to) {
    for (int i = 0; i < pixels; ++i) pixel[at(to, i, pixels)] = other.pixel[at(from, i, pixels)];
    for (int i = 0; i < features; ++i) delta[at(to, i, features)] = other.delta[at(from, i, features)];
  }
};

template <class T>
struct EncoderResult {
  std::vector<T> features;
  std::vector<double> gradient;
  double inexact = 0;
};

// Runs of at most the encoder's tiles, one after the other.
template <class T>
EncoderResult<T> pass(ImageEncoder<T>& encoder, const std::vector<T>& parameters, const Images<T>& images,
                      bool learns = true, bool exact = true) {
  const Numbers<T> weights = to_device("test", parameters), delta = to_device("test", images.delta);
  const Numbers<std::uint8_t> pixels = to_device("test", images.pixel);
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const Numbers<T> features = to_device("test", std::vector<T>(images.delta.size(), nan));
  const Numbers<double> totals("totals", parameters.size() + 1);
  const std::int64_t image = images.pixels * kTileWidth, feature = images.features * kTileWidth;
  for (int tile = 0; tile < images.tiles; tile += encoder.most_tiles()) {
    const int tiles = std::min(encoder.most_tiles(), images.tiles - tile);
    encoder.forward(weights.data(), tiles, {pixels.data() + tile * image, image},
                    {features.data() + tile * feature, feature});
    if (learns)
      encoder.backward(weights.data(), tiles, {delta.data() + tile * feature, feature}, exact, totals.data(),
                       totals.data() + parameters.size());
  }
  Kokkos::fence();
  EncoderResult<T> result{host_of(features), host_of(totals)};
  result.inexact = result.gradient.back();
  result.gradient.pop_back();
  return result;
}

// Parameters of which none is zero or one by itself, and with which a point is not always in the middle.
template <class T>
std::vector<T> parameters_of(const ImageEncoder<T>& encoder) {
  std::vector<T> values = encoder.initial_parameters(5, 0);
  std::mt19937_64 generator(3);
  std::uniform_real_distribution<double> draw(-0.3, 0.3);
  for (const ParameterTensor& tensor : encoder.tensors())
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      T& value = values[static_cast<std::size_t>(tensor.first + i)];
      if (tensor.shape.size() == 1) value += static_cast<T>(draw(generator));
      if (tensor.name == "pool.nets.weight") value *= T(5);
    }
  return values;
}

ImageEncoderShape small_encoder() {
  return {.height = 13, .width = 42, .channels = 2, .base_width = 4, .keypoints = 3, .features = 5};
}

double loss_of(ImageEncoder<double>& encoder, const std::vector<double>& parameters,
               const Images<double>& images) {
  const EncoderResult<double> result = pass(encoder, parameters, images, false);
  double loss = 0;
  for (std::size_t i = 0; i < images.delta.size(); ++i) loss += images.delta[i] * result.features[i];
  return loss;
}

TEST(ImageEncoder, GradientIsThatOfFiniteDifferences) {
  std::vector<ImageEncoderShape> shapes(3, small_encoder());
  shapes[1].height = 33;
  shapes[1].channels = 3;
  shapes[1].base_width = 8;
  shapes[2].height = 1;
  for (const ImageEncoderShape& shape : shapes) {
    ASSERT_FALSE(fault_of(shape));
    ImageEncoder<double> encoder(shape, 2, true);
    std::vector<double> parameters = parameters_of(encoder);
    const Images<double> images(shape, 1, 11);
    const EncoderResult<double> result = pass(encoder, parameters, images);
    EXPECT_EQ(result.inexact, 0);
    std::mt19937_64 generator(1);
    for (const ParameterTensor& tensor : encoder.tensors()) {
      const auto i = static_cast<std::size_t>(
          tensor.first + static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(tensor.size())));
      // (a step so small that hardly any number crosses the edge of a rectifier)
      const double kept = parameters[i], step = 1e-7;
      parameters[i] = kept + step;
      const double above = loss_of(encoder, parameters, images);
      parameters[i] = kept - step;
      const double below = loss_of(encoder, parameters, images);
      parameters[i] = kept;
      EXPECT_NEAR(result.gradient[i], (above - below) / (2 * step),
                  1e-6 + 1e-5 * std::abs(result.gradient[i]))
          << tensor.name << " " << i;
    }
  }
}

// Where an image is, what is beside it, how many tiles are worked on at once, whether anything is learnt:
// nothing of that shows.
TEST(ImageEncoder, ImageDecidesAboutItsFeaturesAlone) {
  const ImageEncoderShape shape = small_encoder();
  ImageEncoder<float> two(shape, 2, true), three(shape, 3, false);
  const std::vector<float> parameters = parameters_of(two);
  const Images<float> images(shape, 3, 2);
  Images<float> moved = images;
  std::vector<int> places(3 * kTileWidth);
  for (int i = 0; i < 3 * kTileWidth; ++i) places[static_cast<std::size_t>(i)] = i;
  std::shuffle(places.begin(), places.end(), std::mt19937(4));
  for (int i = 0; i < 3 * kTileWidth; ++i) moved.take(images, i, places[static_cast<std::size_t>(i)]);
  const EncoderResult<float> result = pass(two, parameters, images),
                             other = pass(three, parameters, moved, false);
  for (int i = 0; i < 3 * kTileWidth; ++i)
    for (int k = 0; k < shape.features; ++k)
      ASSERT_EQ(result.features[images.at(i, k, shape.features)],
                other.features[images.at(places[static_cast<std::size_t>(i)], k, shape.features)]);
}

TEST(ImageEncoder, TileDecidesAboutItsGradientAlone) {
  const ImageEncoderShape shape = small_encoder();
  constexpr int kTiles = 5;
  ImageEncoder<float> one(shape, 1, true), four(shape, 4, true);
  const std::vector<float> parameters = parameters_of(one);
  Images<float> images(shape, kTiles, 2), turned = images;
  // gradients so different in size that sums of doubles round
  const int exponents[kTiles] = {8, -20, -2, -14, -25};
  for (int i = 0; i < kTiles * kTileWidth; ++i)
    for (int k = 0; k < shape.features; ++k) {
      float& delta = images.delta[images.at(i, k, shape.features)];
      delta = std::ldexp(delta, exponents[i / kTileWidth]);
    }
  for (int i = 0; i < kTiles * kTileWidth; ++i)
    turned.take(images, i, (i + 2 * kTileWidth) % (kTiles * kTileWidth));
  const EncoderResult<float> together = pass(four, parameters, images), alone = pass(one, parameters, turned);
  EXPECT_EQ(together.gradient, alone.gradient);
  EXPECT_EQ(together.inexact, 0);
  const EncoderResult<float> fast = pass(four, parameters, images, true, false),
                             other = pass(one, parameters, turned, true, false);
  EXPECT_NE(fast.gradient, other.gradient);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    ASSERT_NEAR(fast.gradient[i], together.gradient[i], 1e-9);
}

TEST(ImageEncoder, SpareLanesContributeNothing) {
  const ImageEncoderShape shape = small_encoder();
  ImageEncoder<float> encoder(shape, 2, true);
  const std::vector<float> parameters = parameters_of(encoder);
  Images<float> images(shape, 2, 2), others(shape, 2, 77);
  constexpr int kReal = 20;  // of the second tile
  for (int i = 0; i < kTileWidth + kReal; ++i) others.take(images, i, i);
  for (Images<float>* part : {&images, &others})
    for (int i = kTileWidth + kReal; i < 2 * kTileWidth; ++i)
      for (int k = 0; k < shape.features; ++k) part->delta[part->at(i, k, shape.features)] = 0;
  EXPECT_EQ(pass(encoder, parameters, images).gradient, pass(encoder, parameters, others).gradient);
}

// A pass leaves nothing behind that the next one reads, and is told from one that goes well.
TEST(ImageEncoder, NothingIsLeftOfAPoisonedPass) {
  const ImageEncoderShape shape = small_encoder();
  ImageEncoder<float> encoder(shape, 2, true), fresh(shape, 2, true);
  const std::vector<float> parameters = parameters_of(encoder);
  const Images<float> images(shape, 2, 2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Images<float> poison = images;
  std::fill(poison.delta.begin(), poison.delta.end(), nan);
  const EncoderResult<float> poisoned = pass(encoder, std::vector<float>(parameters.size(), nan), poison);
  EXPECT_TRUE(std::isnan(poisoned.features[0]));
  EXPECT_GT(poisoned.inexact, 0);
  const EncoderResult<float> result = pass(encoder, parameters, images),
                             expected = pass(fresh, parameters, images);
  EXPECT_EQ(result.features, expected.features);
  EXPECT_EQ(result.gradient, expected.gradient);
  // what lies between tensors stays zero
  std::vector<bool> owned(parameters.size(), false);
  for (const ParameterTensor& tensor : encoder.tensors())
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

TEST(ImageEncoder, ParametersBeginAsThoseOfTorchvision) {
  ImageEncoderShape shape = small_encoder();
  shape.base_width = 16;
  const ImageEncoder<float> encoder(shape, 1, false);
  EXPECT_EQ(encoder.parameters(), ImageEncoder<float>::parameters(shape));
  const std::vector<float> values = encoder.initial_parameters(7, 0);
  EXPECT_EQ(values, encoder.initial_parameters(7, 0));
  EXPECT_NE(values, encoder.initial_parameters(8, 0));
  EXPECT_NE(values, encoder.initial_parameters(7, 1));
  for (const ParameterTensor& tensor : encoder.tensors()) {
    const auto count = static_cast<double>(tensor.size());
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      const auto x = static_cast<double>(values[static_cast<std::size_t>(tensor.first + i)]);
      sum += x;
      squares += x * x;
    }
    // [outputs, inputs, rows, columns]; what follows the backbone sums over its inputs
    double variance = 0, mean = 0;
    if (tensor.name.find("pool.") == 0 || tensor.name.find("nets.") == 0)
      variance = 1 / (3.0 * (tensor.name[0] == 'p' ? 8 * shape.base_width : 2 * shape.keypoints));
    else if (tensor.shape.size() == 4)
      variance = 2.0 / (tensor.shape[0] * tensor.shape[2] * tensor.shape[3]);
    else
      mean = tensor.name.ends_with("weight") ? 1 : 0;
    EXPECT_NEAR(sum / count, mean, 5 * std::sqrt(variance / count)) << tensor.name;
    EXPECT_NEAR(squares / count - mean * mean, variance, 6 * variance / std::sqrt(count)) << tensor.name;
  }
  EXPECT_EQ(from_torch_order(encoder.tensors(), in_torch_order(encoder.tensors(), values)), values);
}

TEST(ImageEncoder, ImpossibleShapesAreNamed) {
  const auto fault = [](auto&& change) {
    ImageEncoderShape shape = small_encoder();
    change(shape);
    const std::optional<ShapeFault> found = fault_of(shape);
    return found ? found->member + ": " + found->found + ", " + found->allowed : "";
  };
  EXPECT_EQ(fault([](ImageEncoderShape&) {}), "");
  EXPECT_EQ(fault([](ImageEncoderShape& s) { s.base_width = 48; }), "");
  EXPECT_EQ(fault([](ImageEncoderShape& s) { s.height = 0; }), "height: 0, at least 1");
  EXPECT_EQ(fault([](ImageEncoderShape& s) { s.width = -1; }), "width: -1, at least 1");
  EXPECT_EQ(fault([](ImageEncoderShape& s) { s.channels = 0; }), "channels: 0, at least 1");
  EXPECT_EQ(fault([](ImageEncoderShape& s) { s.keypoints = 0; }), "keypoints: 0, at least 1");
  EXPECT_EQ(fault([](ImageEncoderShape& s) { s.features = 0; }), "features: 0, at least 1");
  EXPECT_EQ(fault([](ImageEncoderShape& s) { s.width = 32; }),
            "width: 13 x 32 pixels, more than 32 in height or width: maps of one pixel have no coordinates");
  EXPECT_EQ(fault([](ImageEncoderShape& s) { s.base_width = 20; }),
            "base_width: 20, 1, 2, 4, 8 or a multiple of the 16 channels that are normalized together");
}

}  // namespace
}  // namespace maniple
