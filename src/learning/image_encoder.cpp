#include "src/learning/image_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/nn/images.hpp"
#include "src/learning/tile_passes.hpp"

namespace maniple {
namespace {

constexpr int kGroupChannels = 16;  // of group normalization, where a map has as many
constexpr TapAxis kFirst{7, 2, 3}, kPool{3, 2, 1}, kThree{3, 1, 1}, kThreeHalved{3, 2, 1}, kHalved{1, 2, 0};
// Frames whose sums over the taps stay in the second-level cache.
constexpr int kPanels = 32;

struct ImageSize {
  int height = 0, width = 0;

  int pixels() const { return height * width; }
  ImageSize coarse(const TapAxis& axis) const { return {axis.coarse(height), axis.coarse(width)}; }
};

// Convolution and group normalization.
struct NormedConv {
  TapLayer conv;
  std::int64_t weight = 0, bias = 0;  // of the normalization
  Slot y, moments;                    // kept

  int channels() const { return conv.coarse; }
  int groups() const { return std::max(channels() / kGroupChannels, 1); }
};

// Two of them and what went in, which a third one brings into their form where it has another.
struct BasicBlock {
  NormedConv convs[2], shortcut;
  bool has_shortcut = false;
  Slot in, out;  // signals
  Slot middle;   // kept
};

// Everything about an encoder that depends on its shape alone.
struct EncoderPlan {
  ParameterTensors tensors;
  Slots signals, kept;
  // The image is there with zeros around it, in rows of an even number of pixels, so that a row of the first
  // convolution's window is a run of numbers that begins at every second pixel: to that convolution they are
  // the channels of one pixel of an image half as wide.
  ImageSize padded, pooled_size, last_size;
  Slot image, choice;         // kept
  Slot pooled, maps, points;  // signals
  NormedConv first;
  TapLayer window, pool, last;
  std::vector<BasicBlock> blocks;
  std::int64_t most_elements = 0;    // of a tile's map, but that of the first convolution
  std::int64_t most_transposed = 0;  // of a tile's map by samples
  std::int64_t most_rounded = 0;     // pairs of a tile's map that a product reads
  int most_sums = 0;                 // of a tile at once

  EncoderPlan(const ImageEncoderShape& shape, bool learns) : learns_(learns) {
    const ImageSize whole{shape.height, shape.width};
    make_stem(shape, whole);
    ImageSize size = pooled_size;
    Slot in = pooled;
    for (int stage = 0; stage < 4; ++stage)
      for (int number = 0; number < 2; ++number) {
        const bool halves = stage > 0 && number == 0;
        const ImageSize before = size;
        if (halves) size = size.coarse(kThreeHalved);
        make_block("backbone.nets." + std::to_string(4 + stage) + "." + std::to_string(number), in,
                   shape.base_width << stage, before, size, halves);
        in = blocks.back().out;
      }
    last_size = size;
    make_head(shape, in);
  }

 private:
  void add_norm(NormedConv& conv, const std::string& name, const ImageSize& size) {
    conv.weight = tensors.add(name + ".weight", {conv.channels()}, {0}, ParameterTensor::Start::one, 1);
    conv.bias = tensors.add(name + ".bias", {conv.channels()}, {0}, ParameterTensor::Start::zero, 1);
    conv.y = kept.add(size.pixels(), conv.channels());
    conv.moments = kept.add(1, 2 * conv.groups());
    most_sums = std::max(most_sums, 3 * conv.channels());
  }
  // Weights of a convolution, as torchvision initialises them: by what a unit goes into.
  std::int64_t add_weights(const std::string& name, int inputs, int outputs, int taps,
                           const std::vector<int>& order) {
    return tensors.add(name + ".weight", {outputs, inputs, taps, taps}, order, ParameterTensor::Start::normal,
                       outputs * taps * taps);
  }
  // A layer with biases, as torch initialises it: by what a unit sums over.
  void add_layer(TapLayer& layer, const std::string& name, const std::vector<int>& shape,
                 const std::vector<int>& order, int fine_frames) {
    layer.coarse = shape[0];
    layer.fine = shape[1];
    layer.weight = tensors.add(name + ".weight", shape, order, ParameterTensor::Start::uniform, layer.fine);
    layer.bias =
        tensors.add(name + ".bias", {layer.coarse}, {0}, ParameterTensor::Start::uniform, layer.fine);
    most_sums = std::max(most_sums, layer.coarse);
    note_layer(layer, fine_frames, fine_frames);
  }
  void note_layer(const TapLayer& layer, int coarse_frames, int fine_frames) {
    most_rounded = std::max(most_rounded, rounded_elements(layer, coarse_frames, fine_frames));
    most_transposed = std::max(most_transposed, transposed_elements(layer, fine_frames));
  }
  Slot add_signal(int frames, int channels) {
    const Slot slot = signals.add(frames, channels);
    most_elements = std::max(most_elements, slot.elements());
    return slot;
  }

  void make_stem(const ImageEncoderShape& shape, const ImageSize& whole) {
    const ImageSize half = whole.coarse(kFirst);
    padded = {kFirst.stride * (half.height - 1) + kFirst.taps, kFirst.stride * (half.width + kFirst.padding)};
    TapLayer& conv = first.conv;
    conv.fine = kFirst.taps * shape.channels;
    conv.coarse = shape.base_width;
    conv.y = {kFirst.taps, kFirst.stride, 0};
    conv.fine_width = padded.width / kFirst.stride;
    conv.coarse_width = half.width;
    conv.weight = add_weights("backbone.nets.0", shape.channels, shape.base_width, kFirst.taps, {2, 0, 3, 1});
    // (a row more: the last row's last runs of numbers reach into it)
    image = kept.add((padded.height + 1) * padded.width, shape.channels);
    image.frames = padded.height * conv.fine_width;
    image.channels = conv.fine;
    image.stride = kFirst.stride * shape.channels;
    add_norm(first, "backbone.nets.1", half);
    note_layer(conv, 0, image.frames);  // (nobody asks for derivatives by pixels)
    pooled_size = half.coarse(kPool);
    window.y = window.x = kPool;
    window.fine_width = half.width;
    window.coarse_width = pooled_size.width;
    pooled = add_signal(pooled_size.pixels(), shape.base_width);
    if (learns_) choice = kept.add(pooled_size.pixels(), shape.base_width);
  }
  void make_conv(NormedConv& conv, const std::string& name, const std::string& norm, int fine, int coarse,
                 const TapAxis& axis, const ImageSize& from, const ImageSize& to) {
    TapLayer& layer = conv.conv;
    layer.fine = fine;
    layer.coarse = coarse;
    layer.y = layer.x = axis;
    layer.fine_width = from.width;
    layer.coarse_width = to.width;
    layer.weight = add_weights(name, fine, coarse, axis.taps, {2, 3, 0, 1});
    add_norm(conv, norm, to);
    note_layer(layer, to.pixels(), from.pixels());
  }
  void make_block(const std::string& name, const Slot& in, int channels, const ImageSize& from,
                  const ImageSize& to, bool halves) {
    BasicBlock& block = blocks.emplace_back();
    block.in = in;
    block.out = add_signal(to.pixels(), channels);
    if (!learns_) kept.elements = 0;  // a block's are of no use to the next
    make_conv(block.convs[0], name + ".conv1", name + ".bn1", in.channels, channels,
              halves ? kThreeHalved : kThree, from, to);
    block.middle = kept.add(to.pixels(), channels);
    make_conv(block.convs[1], name + ".conv2", name + ".bn2", channels, channels, kThree, to, to);
    block.has_shortcut = halves;
    if (halves)
      make_conv(block.shortcut, name + ".downsample.0", name + ".downsample.1", in.channels, channels,
                kHalved, from, to);
  }
  void make_head(const ImageEncoderShape& shape, const Slot& in) {
    pool.fine_width = pool.coarse_width = last_size.width;
    add_layer(pool, "pool.nets", {shape.keypoints, in.channels, 1, 1}, {2, 3, 0, 1}, in.frames);
    maps = add_signal(in.frames, shape.keypoints);
    points = add_signal(1, 2 * shape.keypoints);
    add_layer(last, "nets.3", {shape.features, 2 * shape.keypoints}, {0, 1}, 1);
  }

  const bool learns_;
};

template <class T, class Memory>
GroupNorm<T> norm_of(const Memory& memory, const NormedConv& conv, const T* parameters) {
  GroupNorm<T> norm;
  norm.groups = conv.groups();
  norm.weight = parameters + conv.weight;
  norm.bias = parameters + conv.bias;
  norm.y = memory.map(memory.kept, conv.y);
  norm.moments = memory.map(memory.kept, conv.moments).first;
  return norm;
}

}  // namespace

std::optional<ShapeFault> fault_of(const ImageEncoderShape& shape) {
  const std::pair<const char*, int> counts[] = {
      {"height", shape.height},       {"width", shape.width},       {"channels", shape.channels},
      {"keypoints", shape.keypoints}, {"features", shape.features},
  };
  for (const auto& [member, count] : counts)
    if (count < 1) return ShapeFault{member, std::to_string(count), "at least 1"};
  const int width = shape.base_width;
  if (width < 1 || (width % kGroupChannels != 0 && kGroupChannels % width != 0))
    return ShapeFault{"base_width", std::to_string(width),
                      "1, 2, 4, 8 or a multiple of the 16 channels that are normalized together"};
  if (EncoderPlan(shape, false).last_size.pixels() == 1)
    return ShapeFault{"width", fmt::format("{} x {} pixels", shape.height, shape.width),
                      "more than 32 in height or width: maps of one pixel have no coordinates"};
  return std::nullopt;
}

template <class T>
struct ImageEncoder<T>::Memory {
  const ImageEncoderShape shape;
  const EncoderPlan plan;
  const int most_tiles;
  Numbers<T> signals, kept;
  Numbers<T> deltas[4];  // of maps; the last one for that of the first convolution, too
  Numbers<T> rows, transposed, packed;
  Numbers<BfloatPair> rounded;  // only where products are of bfloat16

  Memory(const ImageEncoderShape& encoder_shape, int tiles, bool learns, bool mixed)
      : shape(encoder_shape),
        plan(shape, learns),
        most_tiles(tiles),
        signals(numbers("encoder_signals", plan.signals.most)),
        kept(numbers("encoder_kept", plan.kept.most)),
        rows(numbers("encoder_rows", learns ? plan.most_sums : 0)),
        transposed(numbers("encoder_transposed", learns ? plan.most_transposed : 0)),
        packed("maniple::encoder_packed", packed_elements()),
        rounded("maniple::encoder_rounded",
                mixed ? static_cast<std::size_t>(plan.most_rounded * tiles * kTileWidth) : 0) {
    for (int i = 0; i < 4; ++i) deltas[i] = numbers("encoder_deltas", learns ? delta_elements(plan, i) : 0);
  }

  static std::int64_t delta_elements(const EncoderPlan& plan, int which) {
    return std::max(plan.most_elements, which == 3 ? plan.first.y.elements() : 0);
  }
  static std::size_t bytes(const ImageEncoderShape& shape, int tiles, bool learns, bool mixed) {
    const EncoderPlan plan(shape, learns);
    std::int64_t elements = plan.signals.most + plan.kept.most + (mixed ? plan.most_rounded : 0);
    if (learns) {
      for (int i = 0; i < 4; ++i) elements += delta_elements(plan, i);
      elements += plan.most_sums + plan.most_transposed;
    }
    return sizeof(T) * (static_cast<std::size_t>(elements * tiles * kTileWidth) + packed_elements());
  }
  Numbers<T> numbers(const std::string& name, std::int64_t elements) const {
    return Numbers<T>("maniple::" + name, static_cast<std::size_t>(elements * most_tiles * kTileWidth));
  }
  FeatureMap<T> map(const Numbers<T>& memory, const Slot& slot) const {
    return slot_map(memory, most_tiles, slot);
  }
  // Derivatives by a map of the size of a slot.
  FeatureMap<T> delta(int which, const Slot& slot) const {
    return {deltas[which].data(), slot.elements() * kTileWidth, slot.frames, slot.channels, slot.stride};
  }
};

namespace {

template <class T, class Memory>
struct EncoderForward : LayerPass<T> {
  const Memory& memory;

  EncoderForward(const Memory& encoder_memory, const LayerPass<T>& pass)
      : LayerPass<T>(pass), memory(encoder_memory) {}

  FeatureMap<T> signal(const Slot& slot) const { return memory.map(memory.signals, slot); }
  FeatureMap<T> kept(const Slot& slot) const { return memory.map(memory.kept, slot); }

  void normed_conv(const NormedConv& conv, const FeatureMap<const T>& in, const FeatureMap<T>& out,
                   const FeatureMap<const T>& residual, bool rectifies) const {
    this->product(conv.conv, false, in, kept(conv.y), SumStart::zero);
    GroupNormForward<T, IdentityUnit> kernel;
    kernel.norm = norm_of<T>(memory, conv, this->parameters);
    kernel.residual = residual;
    kernel.target = out;
    kernel.rectifies = rectifies;
    this->launch("maniple::group_norm", static_cast<std::int64_t>(this->tiles) * conv.groups(), kernel);
  }
  void stem(const TileRun<const std::uint8_t>& pixels) const {
    const EncoderPlan& plan = memory.plan;
    const ImageEncoderShape& shape = memory.shape;
    const FeatureMap<T> image = kept(plan.image);
    const PadPixels<T> pad{.pixels = pixels.first,
                           .tile_stride = pixels.tile_stride,
                           .height = shape.height,
                           .width = shape.width,
                           .channels = shape.channels,
                           .before = kFirst.padding,
                           .padded_height = plan.padded.height,
                           .padded_width = plan.padded.width,
                           .padded = image.first};
    this->launch("maniple::pad_pixels", static_cast<std::int64_t>(this->tiles) * pad.padded_height, pad);
    const bool learns = plan.choice.first >= 0;  // then the backward pass still needs what is normalized
    const FeatureMap<T> normed = learns ? memory.delta(3, plan.first.y) : kept(plan.first.y);
    normed_conv(plan.first, image, normed, {}, true);
    MaxPool<T> pool{plan.window, normed, signal(plan.pooled), {}};
    if (learns) pool.choice = kept(plan.choice);
    this->launch("maniple::max_pool", static_cast<std::int64_t>(this->tiles) * pool.target.frames, pool);
  }
  void block(const BasicBlock& block) const {
    const FeatureMap<T> in = signal(block.in), out = signal(block.out), middle = kept(block.middle);
    normed_conv(block.convs[0], in, middle, {}, true);
    if (block.has_shortcut) normed_conv(block.shortcut, in, out, {}, false);
    normed_conv(block.convs[1], middle, out, block.has_shortcut ? out : in, true);
  }
  void operator()(const TileRun<const std::uint8_t>& pixels, const TileRun<T>& features) const {
    const EncoderPlan& plan = memory.plan;
    stem(pixels);
    for (const BasicBlock& each : plan.blocks) block(each);
    const FeatureMap<T> maps = signal(plan.maps), points = signal(plan.points);
    this->forward(plan.pool, signal(plan.blocks.back().out), maps);
    this->launch("maniple::spatial_softmax", static_cast<std::int64_t>(this->tiles) * maps.channels,
                 SpatialSoftmax<T>{maps, plan.last_size.width, points});
    this->forward(plan.last, points, run_map(features, 1, memory.shape.features));
  }
};

template <class T, class Memory>
struct EncoderBackward : GradientPass<T> {
  const Memory& memory;

  EncoderBackward(const Memory& encoder_memory, const GradientPass<T>& pass)
      : GradientPass<T>(pass), memory(encoder_memory) {}

  FeatureMap<T> signal(const Slot& slot) const { return memory.map(memory.signals, slot); }
  FeatureMap<T> kept(const Slot& slot) const { return memory.map(memory.kept, slot); }

  void rectify(const FeatureMap<const T>& rectified, const FeatureMap<T>& delta) const {
    this->launch("maniple::rectifier_slope", static_cast<std::int64_t>(this->tiles) * delta.frames,
                 RectifierSlope<T>{rectified, delta});
  }
  // Takes derivatives by what a normalization gives to those by what its convolution gives; adds the
  // gradient.
  void normed_conv(const NormedConv& conv, const FeatureMap<const T>& in,
                   const FeatureMap<const T>& out_delta, const FeatureMap<T>& y_delta, bool again) const {
    const int channels = conv.channels();
    GroupNormBackward<T, IdentityUnit> kernel;
    kernel.norm = norm_of<T>(memory, conv, this->parameters);
    kernel.delta = out_delta;
    kernel.y_delta = y_delta;
    kernel.parameter_delta = {memory.rows.data(), std::int64_t{3} * channels * kTileWidth, 1, 3 * channels,
                              3 * channels};
    this->launch("maniple::group_norm_backward", static_cast<std::int64_t>(this->tiles) * conv.groups(),
                 kernel);
    this->add_channels(kernel.parameter_delta, 0, channels, conv.weight);
    this->add_channels(kernel.parameter_delta, channels, channels, conv.bias);
    this->weight_gradient(conv.conv, in, y_delta, again);
  }
  // From the derivatives by what a block gives, in one of the first two places, to those by its input; in
  // which.
  int block(const BasicBlock& block, int place) const {
    const FeatureMap<T> in = signal(block.in), middle = kept(block.middle);
    const FeatureMap<T> out_delta = memory.delta(place, block.out), y_delta = memory.delta(2, block.out),
                        middle_delta = memory.delta(3, block.out);
    rectify(signal(block.out), out_delta);
    normed_conv(block.convs[1], middle, out_delta, y_delta, false);
    this->backward(block.convs[1].conv, y_delta, middle_delta, false);
    rectify(middle, middle_delta);
    normed_conv(block.convs[0], in, middle_delta, middle_delta, false);
    if (!block.has_shortcut) {
      this->backward(block.convs[0].conv, middle_delta, out_delta, true);
      return place;
    }
    const FeatureMap<T> in_delta = memory.delta(1 - place, block.in);
    normed_conv(block.shortcut, in, out_delta, y_delta, true);
    this->backward(block.convs[0].conv, middle_delta, in_delta, false);
    this->backward(block.shortcut.conv, y_delta, in_delta, true);
    return 1 - place;
  }
  void operator()(const TileRun<const T>& delta) const {
    const EncoderPlan& plan = memory.plan;
    const FeatureMap<const T> features_delta = run_map(delta, 1, memory.shape.features);
    const FeatureMap<T> points = signal(plan.points), points_delta = memory.delta(2, plan.points),
                        maps_delta = memory.delta(3, plan.maps);
    this->gradient(plan.last, points, features_delta);
    this->backward(plan.last, features_delta, points_delta, false);
    this->launch(
        "maniple::spatial_softmax_backward", static_cast<std::int64_t>(this->tiles) * maps_delta.channels,
        SpatialSoftmaxBackward<T>{signal(plan.maps), points, points_delta, plan.last_size.width, maps_delta});
    const Slot& top = plan.blocks.back().out;
    this->gradient(plan.pool, signal(top), maps_delta);
    int place = 0;
    this->backward(plan.pool, maps_delta, memory.delta(place, top), false);
    for (std::size_t i = plan.blocks.size(); i-- > 0;) place = block(plan.blocks[i], place);

    const FeatureMap<T> pooled_delta = memory.delta(place, plan.pooled),
                        first_delta = memory.delta(3, plan.first.y);
    rectify(signal(plan.pooled), pooled_delta);
    this->launch("maniple::max_pool_backward", static_cast<std::int64_t>(this->tiles) * first_delta.frames,
                 MaxPoolBackward<T>{plan.window, kept(plan.choice), pooled_delta, first_delta});
    normed_conv(plan.first, kept(plan.image), first_delta, first_delta, false);
  }
};

}  // namespace

template <class T>
ImageEncoder<T>::ImageEncoder(const ImageEncoderShape& shape, int most_tiles, bool learns, bool mixed)
    : memory_(std::make_unique<Memory>(shape, most_tiles, learns, mixed)) {}
template <class T>
ImageEncoder<T>::~ImageEncoder() = default;

template <class T>
std::size_t ImageEncoder<T>::bytes(const ImageEncoderShape& shape, int most_tiles, bool learns, bool mixed) {
  return Memory::bytes(shape, most_tiles, learns, mixed);
}
template <class T>
int ImageEncoder<T>::good_run(const ImageEncoderShape& shape) {
  return std::clamp(kPanels / EncoderPlan(shape, false).last_size.pixels(), 1, 4);
}
template <class T>
const ImageEncoderShape& ImageEncoder<T>::shape() const {
  return memory_->shape;
}
template <class T>
int ImageEncoder<T>::most_tiles() const {
  return memory_->most_tiles;
}
template <class T>
std::int64_t ImageEncoder<T>::parameters() const {
  return memory_->plan.tensors.parameters;
}
template <class T>
std::int64_t ImageEncoder<T>::parameters(const ImageEncoderShape& shape) {
  return EncoderPlan(shape, false).tensors.parameters;
}
template <class T>
const std::vector<ParameterTensor>& ImageEncoder<T>::tensors() const {
  return memory_->plan.tensors.list;
}
template <class T>
std::vector<T> ImageEncoder<T>::initial_parameters(std::uint32_t seed, int camera) const {
  // (those of other networks have the first stream)
  return initial_values<T>(memory_->plan.tensors, seed, static_cast<std::uint32_t>(camera) + 1);
}

template <class T>
void ImageEncoder<T>::forward(const T* parameters, int tiles, const TileRun<const std::uint8_t>& pixels,
                              const TileRun<T>& features, const TileSamples& samples) {
  const LayerPass<T> pass{.parameters = parameters,
                          .tiles = tiles,
                          .packed = memory_->packed.data(),
                          .panels = kPanels,
                          .rounded = place_of(memory_->rounded),
                          .samples = samples};
  EncoderForward<T, Memory>(*memory_, pass)(pixels, features);
}

template <class T>
void ImageEncoder<T>::backward(const T* parameters, int tiles, const TileRun<const T>& delta, bool exact,
                               double* gradient, double* inexact, const TileSamples& samples) {
  GradientPass<T> pass{{.parameters = parameters,
                        .tiles = tiles,
                        .packed = memory_->packed.data(),
                        .panels = kPanels,
                        .rounded = place_of(memory_->rounded),
                        .samples = samples}};
  pass.transposed = memory_->transposed.data();
  pass.exact = exact;
  pass.totals = gradient;
  pass.inexact = inexact;
  EncoderBackward<T, Memory>(*memory_, pass)(delta);
}

template class ImageEncoder<float>;
template class ImageEncoder<double>;

}  // namespace maniple
