// Common parts of the programs that run networks and layers on numbers from the standard input, for the
// comparisons with torch: arrays of one precision, one after the other, in torch's order, samples first.
// Results go to the standard output likewise.
#pragma once

#include <cstdio>
#include <ctime>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/learning/parameter_tensors.hpp"
#include "src/learning/tile_passes.hpp"

namespace maniple {

// Factors of products are rounded to bfloat16: what the precision "bf16" asks for.
inline bool rounded_products = false;

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
  std::int64_t tile_stride() const { return static_cast<std::int64_t>(channels) * frames * kTileWidth; }
  FeatureMap<T> map() const { return {numbers.data(), tile_stride(), frames, channels, channels}; }
  TileRun<T> run() const { return {numbers.data(), tile_stride()}; }
  TileRun<const T> constant() const { return {numbers.data(), tile_stride()}; }
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

// Sums of a map's channels over all its frames and samples, and then how many terms were not exact.
template <class T>
Numbers<double> channel_sums(const FeatureMap<const T>& map, std::int64_t tiles) {
  const Numbers<double> totals("totals", static_cast<std::size_t>(map.channels + 1));
  const AddChannelSums<T> add{.map = map,
                              .tiles = static_cast<int>(tiles),
                              .samples = {},
                              .exact = true,
                              .totals = totals.data(),
                              .inexact = totals.data() + map.channels};
  for_tiles("test", add.items(), 1, add);
  return totals;
}

// A layer on samples of this many frames: weight, bias, x, y_delta -> y, x_delta, weight_delta, bias_delta.
template <class T>
void run_layer(TapLayer layer, int samples, int frames, int result_frames) {
  const std::int64_t weights = static_cast<std::int64_t>(layer.taps()) * layer.coarse * layer.fine;
  layer.bias = weights;
  std::vector<T> parameters = by_taps(read<T>(weights), layer.taps(), false);
  for (const T bias : read<T>(layer.outputs())) parameters.push_back(bias);
  const Numbers<T> numbers = device_of(parameters);
  Map<T> x(samples, layer.inputs(), frames), y(samples, layer.outputs(), result_frames), x_delta = x.fresh(),
                                                                                         y_delta = y.fresh();
  x.from_input();
  y_delta.from_input(true);
  const int tiles = static_cast<int>(x.tiles);
  const Numbers<T> packed("packed", packed_elements());
  const Numbers<BfloatPair> rounded_map(
      "rounded", rounded_products ? static_cast<std::size_t>(
                                        tiles * kTileWidth *
                                        rounded_elements(layer, layer.transposed ? frames : result_frames,
                                                         layer.transposed ? result_frames : frames))
                                  : 0);
  const Numbers<T> transposed = device_of(std::vector<T>(
      static_cast<std::size_t>(tiles * kTileWidth *
                               transposed_elements(layer, layer.transposed ? result_frames : frames)),
      std::numeric_limits<T>::quiet_NaN()));
  const Numbers<double> totals("totals", parameters.size() + 1);
  GradientPass<T> pass{{numbers.data(), tiles, packed.data(), 2, place_of(rounded_map)}};
  pass.transposed = transposed.data();
  pass.totals = totals.data();
  pass.inexact = totals.data() + parameters.size();
  pass.forward(layer, x.map(), y.map());
  pass.backward(layer, y_delta.map(), x_delta.map(), false);
  pass.gradient(layer, x.map(), y_delta.map());
  Kokkos::fence();
  y.to_output();
  x_delta.to_output();
  const std::vector<double> gradients = host_of(totals);
  write(by_taps(rounded<T>(gradients, 0, weights), layer.taps(), true));
  write(rounded<T>(gradients, weights, layer.outputs()));
}

inline void write_names(const std::vector<ParameterTensor>& tensors) {
  for (const ParameterTensor& tensor : tensors) {
    std::cout << tensor.name;
    for (const int axis : tensor.shape) std::cout << " " << axis;
    std::cout << "\n";
  }
}

// Processor time of body(), once for each line of the standard input.
template <class Body>
void take_times(const Body& body) {
  for (std::string line; std::getline(std::cin, line);) {
    const std::clock_t start = std::clock();
    body();
    std::cout << static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC << std::endl;
  }
}

// main() of such a program: run(mode, precision as a value of its type, sizes) of each request among the
// arguments, which are separated by commas.
template <class Run>
int run_tool(int argc, char** argv, const Run& run) {
  const Kokkos::ScopeGuard guard(argc, argv);
  try {
    std::vector<std::vector<std::string>> requests(1);
    for (int i = 1; i < argc; ++i) {
      if (std::string(argv[i]) == ",")
        requests.emplace_back();
      else
        requests.back().emplace_back(argv[i]);
    }
    for (const std::vector<std::string>& request : requests) {
      std::vector<int> sizes;
      for (std::size_t i = 2; i < request.size(); ++i) sizes.push_back(std::stoi(request[i]));
      rounded_products = request.at(1) == "bf16";
      if (rounded_products && !kMultipliesBfloat16) throw std::runtime_error("not built for bfloat16");
      if (request.at(1) == "double")
        run(request.at(0), double{}, sizes);
      else
        run(request.at(0), float{}, sizes);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
  return 0;
}

}  // namespace maniple
