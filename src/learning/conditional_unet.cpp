#include "src/learning/conditional_unet.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/nn/network.hpp"
#include "src/learning/tile_passes.hpp"

namespace maniple {
namespace {

constexpr int kFinalGroups = 8;  // the reference leaves this one at its default

// Convolution, group normalization, Mish.
struct ConvBlock {
  TapLayer conv;
  std::int64_t weight = 0, bias = 0;  // of the normalization
  int groups = 0;
  Slot y, moments;  // kept
};

struct ResidualBlock {
  ConvBlock blocks[2];
  TapLayer film, residual;
  bool has_residual = false;  // else input and output are equally wide
  Slot film_slot, in, out;    // signals; the input of the first block of all is the caller's
  Slot middle;                // kept
};

struct Level {
  ResidualBlock blocks[2];
  TapLayer sampling;
  bool has_sampling = false;
  Slot sampled;
};

int channels_of_condition(const UnetShape& shape) {
  return shape.step_embedding + shape.condition;
}

// Everything about a network that depends on its shape alone.
struct UnetPlan {
  ParameterTensors tensors;
  Slots signals, kept;  // signals have derivatives
  Slot embedded, hidden, hidden_out, condition, condition_out, final_in, final_out;
  TapLayer encoder[2], last;
  std::vector<Level> down, up;
  ResidualBlock mid[2];
  ConvBlock final_block;
  std::int64_t most_elements = 0;    // of a tile's map that a normalization works on
  std::int64_t most_transposed = 0;  // of a tile's map by samples
  std::int64_t most_rounded = 0;     // pairs of a tile's map that a product reads
  int most_sums = 0;                 // of a tile at once

  UnetPlan(const UnetShape& shape, bool learns) : shape_(shape), learns_(learns) {
    make_parameters();
    make_slots();
  }

 private:
  void vector(const std::string& name, int size, ParameterTensor::Start start, int inputs,
              std::int64_t& first) {
    first = tensors.add(name, {size}, {0}, start, inputs);
  }
  TapLayer linear(const std::string& name, int inputs, int outputs) {
    TapLayer layer;
    layer.coarse = outputs;
    layer.fine = inputs;
    layer.weight =
        tensors.add(name + ".weight", {outputs, inputs}, {0, 1}, ParameterTensor::Start::uniform, inputs);
    vector(name + ".bias", outputs, ParameterTensor::Start::uniform, inputs, layer.bias);
    return layer;
  }
  TapLayer convolution(const std::string& name, int inputs, int outputs, int taps, int stride, int padding,
                       bool transposed = false) {
    TapLayer layer;
    layer.coarse = transposed ? inputs : outputs;
    layer.fine = transposed ? outputs : inputs;
    layer.y = {taps, stride, padding};
    layer.transposed = transposed;
    // (torch counts the second axis, whatever it is)
    const int summed = layer.fine * taps;
    layer.weight = tensors.add(name + ".weight", {layer.coarse, layer.fine, taps}, {2, 0, 1},
                               ParameterTensor::Start::uniform, summed);
    vector(name + ".bias", outputs, ParameterTensor::Start::uniform, summed, layer.bias);
    return layer;
  }
  ConvBlock conv_block(const std::string& name, int inputs, int outputs, int groups) {
    ConvBlock block;
    block.conv =
        convolution(name + ".block.0", inputs, outputs, shape_.kernel_size, 1, shape_.kernel_size / 2);
    block.groups = groups;
    vector(name + ".block.1.weight", outputs, ParameterTensor::Start::one, 1, block.weight);
    vector(name + ".block.1.bias", outputs, ParameterTensor::Start::zero, 1, block.bias);
    return block;
  }
  ResidualBlock residual_block(const std::string& name, int inputs, int outputs) {
    ResidualBlock block;
    block.blocks[0] = conv_block(name + ".blocks.0", inputs, outputs, shape_.groups);
    block.blocks[1] = conv_block(name + ".blocks.1", outputs, outputs, shape_.groups);
    block.film = linear(name + ".cond_encoder.1", channels_of_condition(shape_),
                        shape_.predict_scale ? 2 * outputs : outputs);
    block.has_residual = inputs != outputs;
    if (block.has_residual) block.residual = convolution(name + ".residual_conv", inputs, outputs, 1, 1, 0);
    return block;
  }

  // In the order of the reference's state dict.
  void make_parameters() {
    const std::vector<int>& widths = shape_.widths;
    const int levels = static_cast<int>(widths.size()), deepest = widths.back(), d = shape_.step_embedding;
    const auto width = [&](int level) { return widths[static_cast<std::size_t>(level)]; };
    for (int i = 0; i < 2; ++i) mid[i] = residual_block("mid_modules." + std::to_string(i), deepest, deepest);
    encoder[0] = linear("diffusion_step_encoder.1", d, 4 * d);
    encoder[1] = linear("diffusion_step_encoder.3", 4 * d, d);
    for (int i = 0; i + 1 < levels; ++i) {
      const std::string name = "up_modules." + std::to_string(i);
      const int from = width(levels - 1 - i), to = width(levels - 2 - i);
      Level& level = up.emplace_back();
      level.blocks[0] = residual_block(name + ".0", 2 * from, to);
      level.blocks[1] = residual_block(name + ".1", to, to);
      level.has_sampling = true;
      level.sampling = convolution(name + ".2.conv", to, to, 4, 2, 1, true);
    }
    for (int i = 0; i < levels; ++i) {
      const std::string name = "down_modules." + std::to_string(i);
      Level& level = down.emplace_back();
      level.blocks[0] = residual_block(name + ".0", i == 0 ? shape_.actions : width(i - 1), width(i));
      level.blocks[1] = residual_block(name + ".1", width(i), width(i));
      level.has_sampling = i + 1 < levels;
      if (level.has_sampling) level.sampling = convolution(name + ".2.conv", width(i), width(i), 3, 2, 1);
    }
    final_block = conv_block("final_conv.0", width(0), width(0), kFinalGroups);
    last = convolution("final_conv.1", width(0), shape_.actions, 1, 1, 0);
  }

  void note_layer(const TapLayer& layer, int fine_frames) {
    // (where the coarse map has fewer frames, that is a little more than it takes)
    most_rounded = std::max(most_rounded, rounded_elements(layer, fine_frames, fine_frames));
    most_transposed = std::max(most_transposed, transposed_elements(layer, fine_frames));
    most_sums = std::max(most_sums, layer.outputs());
  }
  void place(ConvBlock& block, int frames) {
    block.y = kept.add(frames, block.conv.outputs());
    block.moments = kept.add(1, 2 * block.groups);
    most_elements = std::max(most_elements, block.y.elements());
    most_sums = std::max(most_sums, 3 * block.conv.outputs());
    note_layer(block.conv, frames);
  }
  void place(ResidualBlock& block, const Slot& in, const Slot& out) {
    block.in = in;
    block.out = out;
    block.film_slot = signals.add(1, block.film.outputs());
    if (!learns_) kept.elements = 0;  // a block's are of no use to the next
    place(block.blocks[0], out.frames);
    block.middle = kept.add(out.frames, out.channels);
    place(block.blocks[1], out.frames);
    note_layer(block.film, 1);
    if (block.has_residual) note_layer(block.residual, out.frames);
  }
  // Two blocks, of which the first may change the number of channels.
  void place(ResidualBlock (&blocks)[2], const Slot& in, const Slot& out) {
    const Slot between = signals.add(out.frames, out.channels);
    place(blocks[0], in, between);
    place(blocks[1], between, out);
  }

  void make_slots() {
    const int d = shape_.step_embedding, all = channels_of_condition(shape_);
    embedded = signals.add(1, d);
    hidden = signals.add(1, 4 * d);
    hidden_out = signals.add(1, 4 * d);
    condition = signals.add(1, all);
    condition_out = signals.add(1, all);
    note_layer(encoder[0], 1);
    note_layer(encoder[1], 1);
    int frames = shape_.horizon;
    // what a level leaves for the way up lies beside what comes from below: the two are read as one
    std::vector<Slot> joined;
    Slot in{0, frames, shape_.actions, shape_.actions, 0};
    for (std::size_t i = 0; i < down.size(); ++i) {
      Level& level = down[i];
      const int width = level.blocks[1].blocks[1].conv.outputs();
      const bool joins = i > 0;
      joined.push_back(signals.add(frames, joins ? 2 * width : width));
      const Slot out = joins ? joined[i].part(width, width) : joined[i];
      place(level.blocks, in, out);
      in = out;
      if (!level.has_sampling) continue;
      note_layer(level.sampling, frames);
      frames /= 2;
      in = level.sampled = signals.add(frames, width);
    }
    for (std::size_t i = 0; i <= up.size(); ++i) {
      // into the joined map of the next level of the way up, or the last block
      const Slot source = in;
      if (i > 0) {
        Level& level = up[i - 1];
        const int width = level.sampling.outputs();
        in = signals.add(frames, width);
        place(level.blocks, joined[up.size() + 1 - i], in);
        frames *= 2;
        note_layer(level.sampling, frames);
      }
      const int width = i > 0 ? in.channels : source.channels;
      const Slot out = i < up.size() ? joined[up.size() - i].part(0, width) : signals.add(frames, width);
      if (i > 0)
        up[i - 1].sampled = out;
      else
        place(mid, source, out);
      in = out;
    }
    final_in = in;
    if (!learns_) kept.elements = 0;
    place(final_block, frames);
    final_out = signals.add(frames, in.channels);
    note_layer(last, frames);
  }

  const UnetShape& shape_;
  const bool learns_;
};

std::vector<double> step_frequencies(int half) {
  std::vector<double> frequencies;
  for (int i = 0; i < half; ++i) frequencies.push_back(std::exp(-std::log(10000.0) * i / (half - 1)));
  return frequencies;
}

}  // namespace

std::optional<ShapeFault> fault_of(const UnetShape& shape) {
  const auto fault = [](const std::string& member, int found, const std::string& allowed) {
    return ShapeFault{member, std::to_string(found), allowed};
  };
  if (shape.actions < 1) return fault("actions", shape.actions, "at least 1");
  if (shape.condition < 0) return fault("condition", shape.condition, "at least 0");
  if (shape.step_embedding < 4 || shape.step_embedding % 2 != 0)
    return fault("step_embedding", shape.step_embedding, "an even number, at least 4");
  if (shape.kernel_size < 1 || shape.kernel_size % 2 == 0)
    return fault("kernel_size", shape.kernel_size, "an odd number");
  if (shape.groups < 1) return fault("groups", shape.groups, "at least 1");
  if (shape.widths.empty() || shape.widths.size() > 16)
    return ShapeFault{"widths", std::to_string(shape.widths.size()) + " levels", "1 to 16 levels"};
  for (const int width : shape.widths)
    if (width < 1 || width % shape.groups != 0)
      return fault("widths", width, "multiples of the " + std::to_string(shape.groups) + " groups");
  if (shape.widths[0] % kFinalGroups != 0)
    return fault("widths", shape.widths[0],
                 "a multiple of the " + std::to_string(kFinalGroups) + " groups of the last block first");
  const int divisor = 1 << (shape.widths.size() - 1);
  if (shape.horizon < 1 || shape.horizon % divisor != 0)
    return fault("horizon", shape.horizon,
                 "a multiple of " + std::to_string(divisor) + ", as it is halved between two widths");
  return std::nullopt;
}

template <class T>
struct ConditionalUnet<T>::Memory {
  const UnetShape shape;
  const UnetPlan plan;
  const int most_tiles;
  Numbers<T> signals, deltas, kept;
  Numbers<T> scratch[3], transposed, packed, frequencies;
  Numbers<BfloatPair> rounded;  // only where products are of bfloat16

  Memory(const UnetShape& unet_shape, int tiles, bool learns, bool mixed)
      : shape(unet_shape),
        plan(shape, learns),
        most_tiles(tiles),
        signals(numbers("unet_signals", plan.signals.most)),
        deltas(numbers("unet_deltas", learns ? plan.signals.most : 0)),
        kept(numbers("unet_kept", plan.kept.most)),
        transposed(numbers("unet_transposed", learns ? plan.most_transposed : 0)),
        packed("maniple::unet_packed", packed_elements()),
        frequencies("maniple::unet_frequencies", static_cast<std::size_t>(shape.step_embedding / 2)),
        rounded("maniple::unet_rounded",
                mixed ? static_cast<std::size_t>(plan.most_rounded * tiles * kTileWidth) : 0) {
    for (Numbers<T>& part : scratch) part = numbers("unet_scratch", learns ? scratch_elements(plan) : 0);
    const auto host = Kokkos::create_mirror_view(frequencies);
    const std::vector<double> values = step_frequencies(shape.step_embedding / 2);
    for (std::size_t i = 0; i < values.size(); ++i) host(i) = static_cast<T>(values[i]);
    Kokkos::deep_copy(frequencies, host);
  }

  // Derivatives by what a convolution gave and what its block gives, or one frame of sums.
  static std::int64_t scratch_elements(const UnetPlan& plan) {
    return std::max<std::int64_t>(plan.most_elements, plan.most_sums);
  }
  static std::size_t bytes(const UnetShape& shape, int tiles, bool learns, bool mixed) {
    const UnetPlan plan(shape, learns);
    const std::int64_t elements = (learns ? 2 : 1) * plan.signals.most + plan.kept.most +
                                  (mixed ? plan.most_rounded : 0) +
                                  (learns ? 3 * scratch_elements(plan) + plan.most_transposed : 0);
    return sizeof(T) * (static_cast<std::size_t>(elements * tiles * kTileWidth) + packed_elements());
  }
  Numbers<T> numbers(const std::string& name, std::int64_t elements) const {
    return Numbers<T>("maniple::" + name, static_cast<std::size_t>(elements * most_tiles * kTileWidth));
  }

  FeatureMap<T> map(const Numbers<T>& memory, const Slot& slot) const {
    return slot_map(memory, most_tiles, slot);
  }
  FeatureMap<T> scratch_map(int which, int frames, int channels) const {
    return {scratch[which].data(), static_cast<std::int64_t>(frames) * channels * kTileWidth, frames,
            channels, channels};
  }
};

namespace {

template <class T>
FeatureMap<T> channels_of(FeatureMap<T> map, int first, int count) {
  map.first += static_cast<std::int64_t>(first) * kTileWidth;
  map.channels = count;
  return map;
}

template <class T, class Memory>
GroupNorm<T> norm_of(const Memory& memory, const ConvBlock& block, const T* parameters) {
  GroupNorm<T> norm;
  norm.groups = block.groups;
  norm.weight = parameters + block.weight;
  norm.bias = parameters + block.bias;
  norm.y = memory.map(memory.kept, block.y);
  norm.moments = memory.map(memory.kept, block.moments).first;
  return norm;
}

template <class T, class Memory>
struct UnetForward : LayerPass<T> {
  const Memory& memory;

  UnetForward(const Memory& unet_memory, const LayerPass<T>& pass)
      : LayerPass<T>(pass), memory(unet_memory) {}

  FeatureMap<T> signal(const Slot& slot) const { return memory.map(memory.signals, slot); }

  void conv_block(const ConvBlock& block, const FeatureMap<const T>& in, const FeatureMap<T>& out,
                  const FeatureMap<const T>& film, const FeatureMap<const T>& residual) const {
    this->forward(block.conv, in, memory.map(memory.kept, block.y));
    GroupNormForward<T> kernel;
    kernel.norm = norm_of<T>(memory, block, this->parameters);
    kernel.norm.film = film;
    kernel.norm.scales = memory.shape.predict_scale;
    kernel.residual = residual;
    kernel.target = out;
    this->launch("maniple::group_norm", static_cast<std::int64_t>(this->tiles) * block.groups, kernel);
  }
  void residual_block(const ResidualBlock& block, const FeatureMap<const T>& in) const {
    const FeatureMap<T> film = signal(block.film_slot), out = signal(block.out);
    const FeatureMap<T> middle = memory.map(memory.kept, block.middle);
    this->forward(block.film, signal(memory.plan.condition_out), film);
    conv_block(block.blocks[0], in, middle, film, {});
    if (block.has_residual) this->forward(block.residual, in, out);
    conv_block(block.blocks[1], middle, out, {}, block.has_residual ? FeatureMap<const T>(out) : in);
  }
  void residual_block(const ResidualBlock& block) const { residual_block(block, signal(block.in)); }

  void operator()(const UnetInput<T>& input, const TileRun<T>& prediction) const {
    const UnetPlan& plan = memory.plan;
    const UnetShape& shape = memory.shape;
    const FeatureMap<T> condition = signal(plan.condition);
    this->launch("maniple::embed_step", this->tiles,
                 EmbedStep<T>{run_map(input.step, 1, 1), memory.frequencies.data(), signal(plan.embedded)});
    this->forward(plan.encoder[0], signal(plan.embedded), signal(plan.hidden));
    this->launch("maniple::mish", this->tiles, MishMap<T>{signal(plan.hidden), signal(plan.hidden_out)});
    this->forward(plan.encoder[1], signal(plan.hidden_out), channels_of(condition, 0, shape.step_embedding));
    if (shape.condition > 0)
      this->copy(run_map(input.condition, 1, shape.condition),
                 channels_of(condition, shape.step_embedding, shape.condition), false);
    this->launch("maniple::mish", this->tiles, MishMap<T>{condition, signal(plan.condition_out)});

    for (std::size_t i = 0; i < plan.down.size(); ++i) {
      const Level& level = plan.down[i];
      if (i == 0)
        residual_block(level.blocks[0], run_map(input.noisy, shape.horizon, shape.actions));
      else
        residual_block(level.blocks[0]);
      residual_block(level.blocks[1]);
      if (level.has_sampling)
        this->forward(level.sampling, signal(level.blocks[1].out), signal(level.sampled));
    }
    for (const ResidualBlock& block : plan.mid) residual_block(block);
    for (const Level& level : plan.up) {
      for (const ResidualBlock& block : level.blocks) residual_block(block);
      this->forward(level.sampling, signal(level.blocks[1].out), signal(level.sampled));
    }
    conv_block(plan.final_block, signal(plan.final_in), signal(plan.final_out), {}, {});
    this->forward(plan.last, signal(plan.final_out), run_map(prediction, shape.horizon, shape.actions));
  }
};

template <class T, class Memory>
struct UnetBackward : GradientPass<T> {
  const Memory& memory;

  UnetBackward(const Memory& unet_memory, const GradientPass<T>& pass)
      : GradientPass<T>(pass), memory(unet_memory) {}

  FeatureMap<T> signal(const Slot& slot) const { return memory.map(memory.signals, slot); }
  FeatureMap<T> delta(const Slot& slot) const { return memory.map(memory.deltas, slot); }

  // Takes derivatives by what a block gives to those by what its convolution gives; adds the gradient.
  void conv_block(const ConvBlock& block, const FeatureMap<const T>& in, const FeatureMap<const T>& out_delta,
                  const FeatureMap<T>& y_delta, const FeatureMap<T>& rows, const FeatureMap<const T>& film,
                  const FeatureMap<T>& film_delta) const {
    const int channels = block.conv.outputs();
    GroupNormBackward<T> kernel;
    kernel.norm = norm_of<T>(memory, block, this->parameters);
    kernel.norm.film = film;
    kernel.norm.scales = memory.shape.predict_scale;
    kernel.delta = out_delta;
    kernel.y_delta = y_delta;
    kernel.film_delta = film_delta;
    kernel.parameter_delta = rows;
    this->launch("maniple::group_norm_backward", static_cast<std::int64_t>(this->tiles) * block.groups,
                 kernel);
    this->add_channels(rows, 0, channels, block.weight);
    this->add_channels(rows, channels, channels, block.bias);
    this->add_channels(rows, 2 * channels, channels, block.conv.bias);
    this->weight_gradient(block.conv, in, y_delta);
  }
  // `in_delta` may be absent, where nobody asks.
  void residual_block(const ResidualBlock& block, const FeatureMap<const T>& in,
                      const FeatureMap<T>& in_delta, bool add) const {
    const FeatureMap<T> out_delta = delta(block.out), film_delta = delta(block.film_slot);
    const FeatureMap<T> condition = signal(memory.plan.condition_out);
    const FeatureMap<T> middle = memory.map(memory.kept, block.middle);
    const int frames = block.out.frames, channels = block.out.channels;
    const FeatureMap<T> y_delta = memory.scratch_map(0, frames, channels),
                        middle_delta = memory.scratch_map(1, frames, channels),
                        rows = memory.scratch_map(2, 1, 3 * channels);
    conv_block(block.blocks[1], middle, out_delta, y_delta, rows, {}, {});
    this->backward(block.blocks[1].conv, y_delta, middle_delta, false);
    conv_block(block.blocks[0], in, middle_delta, y_delta, rows, signal(block.film_slot), film_delta);
    if (block.has_residual) {
      this->weight_gradient(block.residual, in, out_delta, true);
      this->bias_gradient(block.residual, out_delta);
    }
    if (in_delta.first != nullptr) {
      this->backward(block.blocks[0].conv, y_delta, in_delta, add);
      if (block.has_residual)
        this->backward(block.residual, out_delta, in_delta, true);
      else
        this->copy(out_delta, in_delta, true);
    }
    this->gradient(block.film, condition, film_delta);
    this->backward(block.film, film_delta, delta(memory.plan.condition_out), true);
  }
  void residual_block(const ResidualBlock& block, bool add = false) const {
    residual_block(block, signal(block.in), delta(block.in), add);
  }

  void operator()(const UnetInput<T>& input, const TileRun<const T>& prediction_delta,
                  const TileRun<T>& condition_out) const {
    const UnetPlan& plan = memory.plan;
    const UnetShape& shape = memory.shape;
    const FeatureMap<T> condition_delta = delta(plan.condition_out);
    this->launch("maniple::clear_map", this->tiles, ClearMap<T>{condition_delta});

    const FeatureMap<const T> last_delta = run_map(prediction_delta, shape.horizon, shape.actions);
    const int width = plan.final_out.channels;
    this->gradient(plan.last, signal(plan.final_out), last_delta);
    this->backward(plan.last, last_delta, delta(plan.final_out), false);
    const FeatureMap<T> y_delta = memory.scratch_map(0, shape.horizon, width);
    conv_block(plan.final_block, signal(plan.final_in), delta(plan.final_out), y_delta,
               memory.scratch_map(2, 1, 3 * width), {}, {});
    this->backward(plan.final_block.conv, y_delta, delta(plan.final_in), false);

    for (std::size_t i = plan.up.size(); i-- > 0;) {
      const Level& level = plan.up[i];
      sampling(level, false);
      residual_block(level.blocks[1]);
      residual_block(level.blocks[0]);
    }
    const bool joined = !plan.up.empty();  // what the deepest level gives is asked for by the way up, too
    residual_block(plan.mid[1]);
    residual_block(plan.mid[0], joined);
    for (std::size_t i = plan.down.size(); i-- > 0;) {
      const Level& level = plan.down[i];
      if (level.has_sampling) sampling(level, i > 0);
      residual_block(level.blocks[1]);
      if (i > 0)
        residual_block(level.blocks[0]);
      else
        residual_block(level.blocks[0], run_map(input.noisy, shape.horizon, shape.actions), {}, false);
    }

    this->launch("maniple::mish_slope", this->tiles, MishSlope<T>{signal(plan.condition), condition_delta});
    if (condition_out.first != nullptr)
      this->copy(channels_of(condition_delta, shape.step_embedding, shape.condition),
                 run_map(condition_out, 1, shape.condition), false);
    const FeatureMap<T> step_delta = channels_of(condition_delta, 0, shape.step_embedding);
    this->gradient(plan.encoder[1], signal(plan.hidden_out), step_delta);
    this->backward(plan.encoder[1], step_delta, delta(plan.hidden), false);
    this->launch("maniple::mish_slope", this->tiles, MishSlope<T>{signal(plan.hidden), delta(plan.hidden)});
    this->gradient(plan.encoder[0], signal(plan.embedded), delta(plan.hidden));
  }
  void sampling(const Level& level, bool add) const {
    const Slot& in = level.blocks[1].out;
    this->gradient(level.sampling, signal(in), delta(level.sampled));
    this->backward(level.sampling, delta(level.sampled), delta(in), add);
  }
};

}  // namespace

template <class T>
ConditionalUnet<T>::ConditionalUnet(const UnetShape& shape, int most_tiles, bool learns, bool mixed)
    : memory_(std::make_unique<Memory>(shape, most_tiles, learns, mixed)) {}
template <class T>
ConditionalUnet<T>::~ConditionalUnet() = default;

template <class T>
std::size_t ConditionalUnet<T>::bytes(const UnetShape& shape, int most_tiles, bool learns, bool mixed) {
  return Memory::bytes(shape, most_tiles, learns, mixed);
}
template <class T>
int ConditionalUnet<T>::good_run(const UnetShape& shape) {
  const int fewest_frames = shape.horizon >> (shape.widths.size() - 1);
  return std::clamp(32 / std::max(fewest_frames, 1), 1, 8);
}
template <class T>
const UnetShape& ConditionalUnet<T>::shape() const {
  return memory_->shape;
}
template <class T>
int ConditionalUnet<T>::most_tiles() const {
  return memory_->most_tiles;
}
template <class T>
std::int64_t ConditionalUnet<T>::parameters() const {
  return memory_->plan.tensors.parameters;
}
template <class T>
std::int64_t ConditionalUnet<T>::parameters(const UnetShape& shape) {
  return UnetPlan(shape, false).tensors.parameters;
}
template <class T>
const std::vector<ParameterTensor>& ConditionalUnet<T>::tensors() const {
  return memory_->plan.tensors.list;
}

template <class T>
std::vector<T> ConditionalUnet<T>::initial_parameters(std::uint32_t seed) const {
  return initial_values<T>(memory_->plan.tensors, seed);
}

template <class T>
void ConditionalUnet<T>::forward(const Numbers<T>& parameters, const UnetInput<T>& input,
                                 const TileRun<T>& prediction) {
  const LayerPass<T> pass{.parameters = parameters.data(),
                          .tiles = input.tiles,
                          .packed = memory_->packed.data(),
                          .panels = 0,
                          .rounded = place_of(memory_->rounded),
                          .samples = input.samples};
  UnetForward<T, Memory>(*memory_, pass)(input, prediction);
}

template <class T>
void ConditionalUnet<T>::backward(const Numbers<T>& parameters, const UnetInput<T>& input,
                                  const TileRun<const T>& delta, bool exact, double* gradient,
                                  double* inexact, const TileRun<T>& condition_delta) {
  GradientPass<T> pass{{.parameters = parameters.data(),
                        .tiles = input.tiles,
                        .packed = memory_->packed.data(),
                        .panels = 0,
                        .rounded = place_of(memory_->rounded),
                        .samples = input.samples}};
  pass.transposed = memory_->transposed.data();
  pass.exact = exact;
  pass.totals = gradient;
  pass.inexact = inexact;
  UnetBackward<T, Memory>(*memory_, pass)(input, delta, condition_delta);
}

template class ConditionalUnet<float>;
template class ConditionalUnet<double>;

}  // namespace maniple
