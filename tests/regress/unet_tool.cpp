// The denoising network and its layers on numbers from the standard input, for the comparison with torch:
// arrays of one precision, one after the other, in torch's order, samples first. Results go to the standard
// output likewise.
//
// maniple_unet_tool unet float|double <samples> <actions> <horizon> <condition> <step embedding> <kernel
// size>
//     <groups> <predict scale> <width> ...
//   parameters, noisy, step, condition, delta -> prediction, gradient
// maniple_unet_tool tensors <the same>: names and shapes of the parameters
// maniple_unet_tool time <the same>: seconds of forward and backward, once for each line of the standard
// input maniple_unet_tool conv float|double <samples> <transposed> <inputs> <outputs> <taps> <stride>
// <padding>
//     <frames> <frames of the output>
//   weight, bias, x, y_delta -> y, x_delta, weight_delta, bias_delta
// maniple_unet_tool norm float|double <samples> <channels> <groups> <frames> <0: alone, 1: film, 2: with
// scale>
//     <residual>
//   weight, bias, y, film, residual, z_delta -> z, y_delta, weight_delta, bias_delta, film_delta
// maniple_unet_tool embedding float|double <samples> <units>
//   step -> sines and cosines, and mish of them, and its slope
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/nn/conv1d.hpp"
#include "kernels/nn/group_norm.hpp"
#include "src/learning/conditional_unet.hpp"

namespace maniple {
namespace {

template <class T>
std::vector<T> read(std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  if (std::fread(values.data(), sizeof(T), values.size(), stdin) != values.size())
    throw std::runtime_error("the standard input ends too early");
  return values;
}
template <class T>
void write(const std::vector<T>& values) {
  std::fwrite(values.data(), sizeof(T), values.size(), stdout);
}
template <class T>
Numbers<T> device_of(const std::vector<T>& values) {
  const Numbers<T> numbers("test", values.size());
  const auto host = Kokkos::create_mirror_view(numbers);
  std::copy(values.begin(), values.end(), host.data());
  Kokkos::deep_copy(numbers, host);
  return numbers;
}
template <class T>
std::vector<T> host_of(const Numbers<T>& numbers) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), numbers);
  return std::vector<T>(host.data(), host.data() + host.extent(0));
}

// Samples as torch has them, [sample][channel][frame] (or [sample][frame][channel]), as tiles. What is no
// sample repeats the last one, or is zero where it is a derivative; results begin as NaN.
template <class T>
struct Map {
  std::int64_t samples, tiles;
  int channels, frames;
  bool frames_first;
  Numbers<T> numbers;

  Map(std::int64_t sample_count, int channel_count, int frame_count, bool frames_slow = false)
      : samples(sample_count),
        tiles((samples + kTileWidth - 1) / kTileWidth),
        channels(channel_count),
        frames(frame_count),
        frames_first(frames_slow) {
    numbers = device_of(std::vector<T>(static_cast<std::size_t>(tiles * kTileWidth * channels * frames),
                                       std::numeric_limits<T>::quiet_NaN()));
  }
  template <class Body>
  void for_elements(const Body& body) const {
    for (std::int64_t i = 0; i < tiles * kTileWidth; ++i)
      for (int c = 0; c < channels; ++c)
        for (int f = 0; f < frames; ++f) {
          const std::int64_t element = frames_first ? f * channels + c : c * frames + f;
          const std::int64_t place = (i / kTileWidth * frames + f) * channels + c;
          body(i, element, place * kTileWidth + i % kTileWidth);
        }
  }
  Map& fill(const std::vector<T>& values, bool derivatives = false) {
    std::vector<T> tiled(numbers.extent(0));
    for_elements([&](std::int64_t sample, std::int64_t element, std::int64_t place) {
      const std::int64_t from = std::min(sample, samples - 1) * channels * frames + element;
      const bool spare = sample >= samples && derivatives;
      tiled[static_cast<std::size_t>(place)] = spare ? T(0) : values[static_cast<std::size_t>(from)];
    });
    numbers = device_of(tiled);
    return *this;
  }
  // Of the same shape, with nothing in it.
  Map fresh() const { return Map(samples, channels, frames, frames_first); }
  Map& from_input(bool derivatives = false) {
    return fill(read<T>(samples * channels * frames), derivatives);
  }
  void to_output() const {
    const std::vector<T> tiled = host_of(numbers);
    std::vector<T> values(static_cast<std::size_t>(samples * channels * frames));
    for_elements([&](std::int64_t sample, std::int64_t element, std::int64_t place) {
      if (sample < samples)
        values[static_cast<std::size_t>(sample * channels * frames + element)] =
            tiled[static_cast<std::size_t>(place)];
    });
    write(values);
  }
  std::int64_t distance() const { return static_cast<std::int64_t>(channels) * frames * kTileWidth; }
  FeatureMap<T> map() const { return {numbers.data(), distance(), frames, channels, channels}; }
  TileRun<T> run() const { return {numbers.data(), distance()}; }
  TileRun<const T> constant() const { return {numbers.data(), distance()}; }
};

// Weights [a][b][tap] as kernels have them, [tap][a][b], and back.
template <class T>
std::vector<T> by_taps(const std::vector<T>& values, int taps, bool back) {
  const auto pairs = values.size() / static_cast<std::size_t>(taps);
  std::vector<T> turned(values.size());
  for (std::size_t i = 0; i < pairs; ++i)
    for (std::size_t tap = 0; tap < static_cast<std::size_t>(taps); ++tap) {
      const std::size_t torch = i * static_cast<std::size_t>(taps) + tap, own = tap * pairs + i;
      turned[back ? torch : own] = values[back ? own : torch];
    }
  return turned;
}
template <class T>
std::vector<T> rounded(const std::vector<double>& values, std::int64_t first, std::int64_t count) {
  return std::vector<T>(values.begin() + first, values.begin() + first + count);
}

template <class T>
void convolution(const std::vector<int>& sizes) {
  const int samples = sizes.at(0), inputs = sizes.at(2), outputs = sizes.at(3);
  TapLayer layer;
  layer.transposed = sizes.at(1) == 1;
  layer.coarse = layer.transposed ? inputs : outputs;
  layer.fine = layer.transposed ? outputs : inputs;
  layer.taps = sizes.at(4);
  layer.stride = sizes.at(5);
  layer.padding = sizes.at(6);
  const std::int64_t weights = static_cast<std::int64_t>(layer.taps) * inputs * outputs;
  layer.bias = weights;
  std::vector<T> parameters = by_taps(read<T>(weights), layer.taps, false);
  for (const T bias : read<T>(outputs)) parameters.push_back(bias);
  const Numbers<T> numbers = device_of(parameters);
  Map<T> x(samples, inputs, sizes.at(7)), y(samples, outputs, sizes.at(8)), x_delta = x.fresh(),
                                                                            y_delta = y.fresh();
  x.from_input();
  y_delta.from_input(true);
  const int tiles = static_cast<int>(x.tiles);
  const Numbers<T> packed("packed", kProductRows * kProductDepth);
  const auto product = [&](bool backward, const Map<T>& from, const Map<T>& to) {
    TapProduct<T> kernel;
    kernel.layer = layer;
    kernel.backward = backward;
    kernel.start = backward ? SumStart::zero : SumStart::bias;
    kernel.parameters = numbers.data();
    kernel.source = from.map();
    kernel.target = to.map();
    kernel.tiles = tiles;
    kernel.packed = packed.data();
    kernel.runs = 2;
    for_tiles("test", kernel.items(), 1, kernel);
  };
  product(false, x, y);
  product(true, y_delta, x_delta);
  const Map<T>&fine = layer.transposed ? y_delta : x, &coarse = layer.transposed ? x : y_delta;
  TransposeMap<T> transpose{fine.map(), nullptr};
  const Numbers<T> transposed = device_of(std::vector<T>(
      static_cast<std::size_t>(tiles * transpose.blocks() * fine.frames * kTileWidth * kTileWidth),
      std::numeric_limits<T>::quiet_NaN()));
  transpose.transposed = transposed.data();
  for_tiles("test", static_cast<std::int64_t>(tiles) * transpose.blocks(), 1, transpose);
  const Numbers<double> totals("totals", parameters.size() + 1);
  TapGradient<T> gradient;
  gradient.layer = layer;
  gradient.coarse = coarse.map();
  gradient.transposed = transposed.data();
  gradient.fine_frames = fine.frames;
  gradient.tiles = tiles;
  gradient.totals = totals.data();
  gradient.inexact = totals.data() + parameters.size();
  for_tiles("test", gradient.items(), 1, gradient);
  const Numbers<T> sums("sums", static_cast<std::size_t>(tiles * outputs));
  for_tiles("test", tiles, 1, SumChannels<T>{y_delta.map(), sums.data()});
  AddTileSums<T> add;
  add.sums = sums.data();
  add.tiles = tiles;
  add.stride = add.count = outputs;
  add.totals = totals.data() + layer.bias;
  add.inexact = gradient.inexact;
  for_tiles("test", add.items(), 1, add);
  Kokkos::fence();
  y.to_output();
  x_delta.to_output();
  const std::vector<double> result = host_of(totals);
  write(by_taps(rounded<T>(result, 0, weights), layer.taps, true));
  write(rounded<T>(result, weights, outputs));
}

template <class T>
void normalisation(const std::vector<int>& sizes) {
  const int samples = sizes.at(0), channels = sizes.at(1), groups = sizes.at(2), frames = sizes.at(3),
            film_kind = sizes.at(4);
  const Numbers<T> weight = device_of(read<T>(channels)), bias = device_of(read<T>(channels));
  Map<T> y(samples, channels, frames), z = y.fresh(), y_delta = y.fresh(), residual = y.fresh(),
                                       z_delta = y.fresh(), film(samples, film_kind * channels, 1),
                                       film_delta = film.fresh(), rows(samples, 3 * channels, 1);
  y.from_input();
  film.from_input();
  if (sizes.at(5) == 1) residual.from_input();
  z_delta.from_input(true);
  const Numbers<T> moments("moments", static_cast<std::size_t>(y.tiles * groups * 2 * kTileWidth));
  GroupNorm<T> norm{groups, weight.data(), bias.data(), y.map(), moments.data(), {}, film_kind == 2};
  if (film_kind > 0) norm.film = film.map();
  GroupNormForward<T> forward{norm, {}, z.map()};
  if (sizes.at(5) == 1) forward.residual = residual.map();
  for_tiles("test", y.tiles * groups, 1, forward);
  const GroupNormBackward<T> backward{norm, z_delta.map(), y_delta.map(), film_delta.map(), rows.map()};
  for_tiles("test", y.tiles * groups, 1, backward);
  const Numbers<T> sums("sums", static_cast<std::size_t>(y.tiles * 3 * channels));
  for_tiles("test", y.tiles, 1, SumChannels<T>{rows.map(), sums.data()});
  const Numbers<double> totals("totals", static_cast<std::size_t>(3 * channels + 1));
  const AddTileSums<T> add{.sums = sums.data(),
                           .tiles = static_cast<int>(y.tiles),
                           .stride = 3 * channels,
                           .count = 3 * channels,
                           .totals = totals.data(),
                           .inexact = totals.data() + 3 * channels};
  for_tiles("test", add.items(), 1, add);
  Kokkos::fence();
  z.to_output();
  y_delta.to_output();
  const std::vector<double> result = host_of(totals);
  write(rounded<T>(result, 0, 2 * channels));
  film_delta.to_output();
}

template <class T>
void embedding(const std::vector<int>& sizes) {
  const int samples = sizes.at(0), units = sizes.at(1);
  Map<T> step(samples, 1, 1), embedded(samples, units, 1), mished = embedded.fresh(),
                                                           slope = embedded.fresh();
  step.from_input();
  std::vector<T> frequencies;
  for (int i = 0; i < units / 2; ++i)
    frequencies.push_back(static_cast<T>(std::exp(-std::log(10000.0) * i / (units / 2 - 1))));
  const Numbers<T> frequency = device_of(frequencies);
  for_tiles("test", step.tiles, 1, EmbedStep<T>{step.map(), frequency.data(), embedded.map()});
  slope.fill(std::vector<T>(static_cast<std::size_t>(samples * units), T(1)));
  for_tiles("test", step.tiles, 1, MishMap<T>{embedded.map(), mished.map()});
  for_tiles("test", step.tiles, 1, MishSlope<T>{embedded.map(), slope.map()});
  Kokkos::fence();
  embedded.to_output();
  mished.to_output();
  slope.to_output();
}

UnetShape shape_of(const std::vector<int>& sizes) {
  UnetShape shape;
  shape.actions = sizes.at(1);
  shape.horizon = sizes.at(2);
  shape.condition = sizes.at(3);
  shape.step_embedding = sizes.at(4);
  shape.kernel_size = sizes.at(5);
  shape.groups = sizes.at(6);
  shape.predict_scale = sizes.at(7) == 1;
  shape.widths.assign(sizes.begin() + 8, sizes.end());
  return shape;
}

template <class T>
class WholeNet {
 public:
  explicit WholeNet(const std::vector<int>& sizes)
      : shape_(shape_of(sizes)),
        unet_(shape_, ConditionalUnet<T>::good_run(shape_), true),
        noisy_(sizes.at(0), shape_.actions, shape_.horizon, true),
        prediction_(noisy_.fresh()),
        delta_(noisy_.fresh()),
        step_(sizes.at(0), 1, 1),
        condition_(sizes.at(0), shape_.condition, 1),
        totals_("totals", static_cast<std::size_t>(unet_.parameters() + 1)) {}

  void run(const std::string& mode) {
    std::int64_t count = 0;
    for (const ParameterTensor& tensor : unet_.tensors()) count += tensor.size();
    if (mode == "unet") {
      parameters_ = device_of(from_torch_order(unet_.tensors(), read<T>(count)));
      noisy_.from_input();
      step_.from_input();
      condition_.from_input();
      delta_.from_input(true);
      pass();
      prediction_.to_output();
      std::vector<double> gradient = host_of(totals_);
      gradient.pop_back();
      write(in_torch_order(unet_.tensors(), rounded<T>(gradient, 0, unet_.parameters())));
      return;
    }
    parameters_ = device_of(unet_.initial_parameters(1));
    const auto fill = [](Map<T>& map, T value) {
      map.fill(std::vector<T>(static_cast<std::size_t>(map.samples * map.channels * map.frames), value),
               true);
    };
    fill(noisy_, T(0.5));
    fill(step_, T(7));
    fill(condition_, T(-0.5));
    fill(delta_, T(1e-3));
    for (std::string line; std::getline(std::cin, line);) {
      const std::clock_t start = std::clock();
      Kokkos::deep_copy(totals_, 0.0);
      pass();
      std::cout << static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC << std::endl;
    }
  }

 private:
  void pass() {
    for (std::int64_t tile = 0; tile < noisy_.tiles; tile += unet_.most_tiles()) {
      const auto from = [&](const Map<T>& map) {
        return TileRun<const T>{map.run().tile(tile), map.distance()};
      };
      UnetInput<T> input;
      input.tiles = static_cast<int>(std::min<std::int64_t>(unet_.most_tiles(), noisy_.tiles - tile));
      input.noisy = from(noisy_);
      input.step = from(step_);
      input.condition = from(condition_);
      unet_.forward(parameters_, input, {prediction_.run().tile(tile), prediction_.distance()});
      unet_.backward(parameters_, input, from(delta_), true, totals_.data(),
                     totals_.data() + unet_.parameters());
    }
    Kokkos::fence();
  }

  const UnetShape shape_;
  ConditionalUnet<T> unet_;
  Map<T> noisy_, prediction_, delta_, step_, condition_;
  Numbers<double> totals_;
  Numbers<T> parameters_;
};

template <class T>
void run(const std::string& mode, const std::vector<int>& sizes) {
  if (mode == "conv") return convolution<T>(sizes);
  if (mode == "norm") return normalisation<T>(sizes);
  if (mode == "embedding") return embedding<T>(sizes);
  if (mode == "unet" || mode == "time") return WholeNet<T>(sizes).run(mode);
  if (mode != "tensors") throw std::runtime_error("unknown mode " + mode);
  const ConditionalUnet<T> unet(shape_of(sizes), 1, false);
  for (const ParameterTensor& tensor : unet.tensors()) {
    std::cout << tensor.name;
    for (const int axis : tensor.shape) std::cout << " " << axis;
    std::cout << "\n";
  }
}

}  // namespace
}  // namespace maniple

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard guard(argc, argv);
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    std::vector<int> sizes;
    for (std::size_t i = 2; i < arguments.size(); ++i) sizes.push_back(std::stoi(arguments[i]));
    if (arguments.at(1) == "double")
      maniple::run<double>(arguments.at(0), sizes);
    else
      maniple::run<float>(arguments.at(0), sizes);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
  return 0;
}
