// The image encoder and its layers on numbers from the standard input (network_tool.hpp).
//
// maniple_encoder_tool encoder float|double <samples> <height> <width> <channels> <base width> <keypoints>
//     <features>
//   parameters, pixels (samples, channels, rows, columns), delta -> features, gradient
// maniple_encoder_tool tensors <the same>: names and shapes of the parameters
// maniple_encoder_tool time <the same>: seconds of forward and backward, for each line of the standard input
// maniple_encoder_tool conv float|double <samples> <inputs> <outputs> <taps> <stride> <padding> <height>
// <width>
//   weight, bias, x, y_delta -> y, x_delta, weight_delta, bias_delta
// maniple_encoder_tool norm float|double <samples> <channels> <groups> <frames> <residual>
//   weight, bias, y, residual, z_delta -> z = rectified(normal + residual), y_delta, weight_delta, bias_delta
// maniple_encoder_tool pool float|double <samples> <channels> <height> <width>
//   x, y_delta -> y, x_delta: windows of 3 x 3, every second one
// maniple_encoder_tool softmax float|double <samples> <maps> <height> <width>
//   x, delta -> points, x_delta
#include "kernels/nn/group_norm.hpp"
#include "kernels/nn/images.hpp"
#include "src/learning/image_encoder.hpp"
#include "tests/regress/imitation/network_tool.hpp"

namespace maniple {
namespace {

template <class T>
void convolution(const std::vector<int>& sizes) {
  TapLayer layer;
  layer.fine = sizes.at(1);
  layer.coarse = sizes.at(2);
  layer.y = layer.x = {sizes.at(3), sizes.at(4), sizes.at(5)};
  const int height = sizes.at(6), width = sizes.at(7);
  layer.fine_width = width;
  layer.coarse_width = layer.x.coarse(width);
  run_layer<T>(layer, sizes.at(0), height * width, layer.y.coarse(height) * layer.coarse_width);
}

template <class T>
void normalization(const std::vector<int>& sizes) {
  const int samples = sizes.at(0), channels = sizes.at(1), groups = sizes.at(2), frames = sizes.at(3);
  const Numbers<T> weight = device_of(read<T>(channels)), bias = device_of(read<T>(channels));
  Map<T> y(samples, channels, frames), z = y.fresh(), y_delta = y.fresh(), residual = y.fresh(),
                                       z_delta = y.fresh(), rows(samples, 3 * channels, 1);
  y.from_input();
  if (sizes.at(4) == 1) residual.from_input();
  z_delta.from_input(true);
  const Numbers<T> moments("moments", static_cast<std::size_t>(y.tiles * groups * 2 * kTileWidth));
  const GroupNorm<T> norm{groups, weight.data(), bias.data(), y.map(), moments.data(), {}, false};
  GroupNormForward<T, IdentityUnit> forward{norm, {}, z.map(), true};
  if (sizes.at(4) == 1) forward.residual = residual.map();
  for_tiles("test", y.tiles * groups, 1, forward);
  for_tiles("test", y.tiles * frames, 1, RectifierSlope<T>{z.map(), z_delta.map()});
  const GroupNormBackward<T, IdentityUnit> backward{norm, z_delta.map(), y_delta.map(), {}, rows.map()};
  for_tiles("test", y.tiles * groups, 1, backward);
  const Numbers<double> totals = channel_sums<T>(rows.map(), y.tiles);
  Kokkos::fence();
  z.to_output();
  y_delta.to_output();
  write(rounded<T>(host_of(totals), 0, 2 * channels));
}

template <class T>
void pooling(const std::vector<int>& sizes) {
  const int channels = sizes.at(1), height = sizes.at(2), width = sizes.at(3);
  TapLayer window;
  window.y = window.x = {3, 2, 1};
  window.fine_width = width;
  window.coarse_width = window.x.coarse(width);
  Map<T> x(sizes.at(0), channels, height * width), x_delta = x.fresh();
  Map<T> y(sizes.at(0), channels, window.y.coarse(height) * window.coarse_width), choice = y.fresh(),
                                                                                  delta = y.fresh();
  x.from_input();
  delta.from_input(true);
  for_tiles("test", y.tiles * y.frames, 1, MaxPool<T>{window, x.map(), y.map(), choice.map()});
  for_tiles("test", x.tiles * x.frames, 1,
            MaxPoolBackward<T>{window, choice.map(), delta.map(), x_delta.map()});
  Kokkos::fence();
  y.to_output();
  x_delta.to_output();
}

template <class T>
void softmax(const std::vector<int>& sizes) {
  const int maps = sizes.at(1), width = sizes.at(3);
  Map<T> x(sizes.at(0), maps, sizes.at(2) * width), x_delta = x.fresh();
  Map<T> points(sizes.at(0), 2 * maps, 1), delta = points.fresh();
  x.from_input();
  delta.from_input(true);
  for_tiles("test", x.tiles * maps, 1, SpatialSoftmax<T>{x.map(), width, points.map()});
  for_tiles("test", x.tiles * maps, 1,
            SpatialSoftmaxBackward<T>{x.map(), points.map(), delta.map(), width, x_delta.map()});
  Kokkos::fence();
  points.to_output();
  x_delta.to_output();
}

ImageEncoderShape shape_of(const std::vector<int>& sizes) {
  return {.height = sizes.at(1),
          .width = sizes.at(2),
          .channels = sizes.at(3),
          .base_width = sizes.at(4),
          .keypoints = sizes.at(5),
          .features = sizes.at(6)};
}

template <class T>
class WholeEncoder {
 public:
  explicit WholeEncoder(const std::vector<int>& sizes)
      : shape_(shape_of(sizes)),
        encoder_(shape_, ImageEncoder<T>::good_run(shape_), true, rounded_products),
        image_(sizes.at(0), shape_.channels, shape_.height * shape_.width),
        features_(sizes.at(0), shape_.features, 1),
        delta_(features_.fresh()),
        totals_("totals", static_cast<std::size_t>(encoder_.parameters() + 1)) {}

  void run(const std::string& mode) {
    std::int64_t count = 0;
    for (const ParameterTensor& tensor : encoder_.tensors()) count += tensor.size();
    if (mode == "encoder") {
      parameters_ = device_of(from_torch_order(encoder_.tensors(), read<T>(count)));
      image_.from_input();
      delta_.from_input(true);
      take_pixels();
      pass();
      features_.to_output();
      std::vector<double> gradient = host_of(totals_);
      if (gradient.back() != 0) throw std::runtime_error("sums that are not exact");
      gradient.pop_back();
      write(in_torch_order(encoder_.tensors(), rounded<T>(gradient, 0, encoder_.parameters())));
      return;
    }
    parameters_ = device_of(encoder_.initial_parameters(1, 0));
    std::vector<T> values;
    for (std::int64_t i = 0; i < image_.samples * image_.channels * image_.frames; ++i)
      values.push_back(static_cast<T>(i * i % 256));
    image_.fill(values);
    delta_.fill(std::vector<T>(static_cast<std::size_t>(delta_.samples * delta_.channels), T(1e-3)), true);
    take_pixels();
    take_times([&] {
      Kokkos::deep_copy(totals_, 0.0);
      pass();
    });
  }

 private:
  void take_pixels() {
    std::vector<std::uint8_t> pixels;
    for (const T pixel : host_of(image_.numbers)) pixels.push_back(static_cast<std::uint8_t>(pixel));
    pixels_ = device_of(pixels);
  }
  void pass() {
    for (std::int64_t tile = 0; tile < image_.tiles; tile += encoder_.most_tiles()) {
      const int tiles = static_cast<int>(std::min<std::int64_t>(encoder_.most_tiles(), image_.tiles - tile));
      const TileRun<const std::uint8_t> pixels{pixels_.data(), image_.tile_stride()};
      encoder_.forward(parameters_.data(), tiles, {pixels.tile(tile), pixels.tile_stride},
                       {features_.run().tile(tile), features_.tile_stride()});
      encoder_.backward(parameters_.data(), tiles, {delta_.run().tile(tile), delta_.tile_stride()}, true,
                        totals_.data(), totals_.data() + encoder_.parameters());
    }
    Kokkos::fence();
  }

  const ImageEncoderShape shape_;
  ImageEncoder<T> encoder_;
  Map<T> image_, features_, delta_;
  Numbers<double> totals_;
  Numbers<T> parameters_;
  Numbers<std::uint8_t> pixels_;
};

template <class T>
void run(const std::string& mode, const std::vector<int>& sizes) {
  if (mode == "conv") return convolution<T>(sizes);
  if (mode == "norm") return normalization<T>(sizes);
  if (mode == "pool") return pooling<T>(sizes);
  if (mode == "softmax") return softmax<T>(sizes);
  if (mode == "encoder" || mode == "time") return WholeEncoder<T>(sizes).run(mode);
  if (mode != "tensors") throw std::runtime_error("unknown mode " + mode);
  write_names(ImageEncoder<T>(shape_of(sizes), 1, false).tensors());
}

}  // namespace
}  // namespace maniple

int main(int argc, char** argv) {
  return maniple::run_tool(argc, argv,
                           [](const std::string& mode, auto precision, const std::vector<int>& sizes) {
                             maniple::run<decltype(precision)>(mode, sizes);
                           });
}
