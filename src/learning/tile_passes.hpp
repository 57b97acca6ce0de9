// Common parts of the passes of networks over tiles of samples: the places of feature maps in memory, and the
// launches of layers forward and backward. For the files that implement such networks.
#pragma once

#include <algorithm>

#include "kernels/nn/bfloat16.hpp"
#include "kernels/nn/convolution.hpp"
#include "kernels/nn/group_norm.hpp"
#include "src/learning/sample_blocks.hpp"
#include "src/learning/tile_run.hpp"
#include "src/learning/totals.hpp"

namespace maniple {

// The place of a map in the memory of a run of tiles.
struct Slot {
  std::int64_t first = -1;  // elements of other slots before it, per tile; negative: there is no such map
  int frames = 0, channels = 0, stride = 0;
  int first_channel = 0;

  std::int64_t elements() const { return static_cast<std::int64_t>(frames) * stride; }
  Slot part(int from, int count) const {
    Slot slot = *this;
    slot.first_channel += from;
    slot.channels = count;
    return slot;
  }
};

// Slots of one kind, one after the other.
struct Slots {
  std::int64_t elements = 0, most = 0;  // per tile
  Slot add(int frames, int channels) {
    const Slot slot{elements, frames, channels, channels, 0};
    elements += slot.elements();
    most = std::max(most, elements);
    return slot;
  }
};

// The map of a slot in the memory of runs of `most_tiles` tiles.
template <class T>
FeatureMap<T> slot_map(const Numbers<T>& memory, int most_tiles, const Slot& slot) {
  FeatureMap<T> map;
  map.tile_stride = slot.elements() * kTileWidth;
  map.first = memory.data() + slot.first * most_tiles * kTileWidth + slot.first_channel * kTileWidth;
  map.frames = slot.frames;
  map.channels = slot.channels;
  map.stride = slot.stride;
  return map;
}
template <class T>
FeatureMap<T> run_map(const TileRun<T>& run, int frames, int channels) {
  return {run.first, run.tile_stride, frames, channels, channels};
}

// Elements that the workers' blocks of packed weights take.
inline std::size_t packed_elements() {
  return kScalarLanes ? 0 : static_cast<std::size_t>(max_tile_workers() * kProductRows * kProductDepth);
}
// Pairs of channels of a tile's rounded map that a layer reads, forward or backward, over 32.
inline std::int64_t rounded_elements(const TapLayer& layer, int coarse_frames, int fine_frames) {
  return std::max(static_cast<std::int64_t>(coarse_frames) * ((layer.coarse + 1) / 2),
                  static_cast<std::int64_t>(fine_frames) * ((layer.fine + 1) / 2));
}
// The part of such memory for a pass; null without memory.
inline BfloatPair* place_of(const Numbers<BfloatPair>& rounded) {
  return rounded.extent(0) > 0 ? rounded.data() : nullptr;
}
// Elements of a tile's transposed map for a layer's gradient, over 32.
inline std::int64_t transposed_elements(const TapLayer& layer, int fine_frames) {
  return static_cast<std::int64_t>(fine_frames) * kTileWidth * TransposeMap<float>::blocks_of(layer.fine);
}

// A kernel whose work items are those of one tile after the other, for the lanes that hold samples.
template <class T, class Kernel>
struct OfTileLanes {
  Kernel kernel;
  TileSamples samples;
  std::int64_t items = 1;  // of a tile

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int worker) const {
    kernel(team.of_lanes(samples.width<Lanes<T>>(item / items)), item, worker);
  }
};

// Forward, and derivatives by what went in, for one run of tiles.
template <class T>
struct LayerPass {
  const T* parameters = nullptr;
  int tiles = 0;
  T* packed = nullptr;
  // Frames whose sums are to stay in a cache from tap to tap, the cost of which is packing the weights for
  // each such run of them; 0: all.
  int panels = 0;

  // Memory for a map whose numbers are rounded to bfloat16; null: products are of numbers as they are.
  BfloatPair* rounded = nullptr;
  TileSamples samples = {};

  // Launches a kernel for work items of which each tile has as many, one tile's after the other's.
  template <class Kernel>
  void launch(const char* name, std::int64_t items, const Kernel& kernel) const {
    launch_whole(name, items, OfTileLanes<T, Kernel>{kernel, samples, tiles > 0 ? items / tiles : 1});
  }
  // Launches a kernel for any other work items.
  template <class Kernel>
  void launch_whole(const char* name, std::int64_t items, const Kernel& kernel) const {
    for_tiles(name, items, tile_workers(items), kernel);
  }
  void product(const TapLayer& layer, bool backward, const FeatureMap<const T>& source,
               const FeatureMap<T>& target, SumStart start) const {
#ifdef MANIPLE_BFLOAT16
    if constexpr (std::is_same_v<T, float>)
      if (rounded != nullptr) {
        const int pairs = (source.channels + 1) / 2;
        const FeatureMap<BfloatPair> read{rounded, std::int64_t{source.frames} * pairs * kTileWidth,
                                          source.frames, pairs, pairs};
        launch("maniple::round_map", static_cast<std::int64_t>(tiles) * source.frames,
               RoundMap{source, read});
        TapProduct<T, BfloatFactors> kernel;
        kernel.source = read;
        kernel.packed = reinterpret_cast<BfloatPair*>(packed);
        launch_product(kernel, layer, backward, target, start);
        return;
      }
#endif
    TapProduct<T> kernel;
    kernel.source = source;
    kernel.packed = packed;
    launch_product(kernel, layer, backward, target, start);
  }
  template <class Product>
  void launch_product(Product& kernel, const TapLayer& layer, bool backward, const FeatureMap<T>& target,
                      SumStart start) const {
    kernel.layer = layer;
    kernel.backward = backward;
    kernel.start = start;
    kernel.parameters = parameters;
    kernel.target = target;
    kernel.tiles = tiles;
    kernel.samples = samples;
    const int workers = max_tile_workers();
    const std::int64_t all = static_cast<std::int64_t>(tiles) * target.frames;
    const std::int64_t shared = workers == 1 ? 1 : 4 * workers / kernel.row_blocks() + 1;
    const std::int64_t wanted = std::max(shared, panels > 0 ? all / panels : 0);
    kernel.runs = static_cast<int>(kScalarLanes ? all : std::min(all, wanted));
    launch_whole("maniple::tap_product", kernel.items(), kernel);
  }
  void forward(const TapLayer& layer, const FeatureMap<const T>& source, const FeatureMap<T>& target) const {
    product(layer, false, source, target, SumStart::bias);
  }
  void backward(const TapLayer& layer, const FeatureMap<const T>& delta, const FeatureMap<T>& source_delta,
                bool add) const {
    product(layer, true, delta, source_delta, add ? SumStart::target : SumStart::zero);
  }
  void copy(const FeatureMap<const T>& source, const FeatureMap<T>& target, bool add) const {
    launch("maniple::copy_map", tiles, CopyMap<T>{source, target, add});
  }
};

// A pass backward, with the gradients of layers.
template <class T>
struct GradientPass : LayerPass<T> {
  T* transposed = nullptr;
  bool exact = true;
  double *totals = nullptr, *inexact = nullptr;

  // Adds the sums of `count` channels of a map to consecutive totals.
  void add_channels(const FeatureMap<const T>& map, int first, int count, std::int64_t parameter) const {
    AddChannelSums<T> kernel;
    kernel.map = map;
    kernel.map.first += static_cast<std::int64_t>(first) * kTileWidth;
    kernel.map.channels = count;
    kernel.tiles = this->tiles;
    kernel.samples = this->samples;
    kernel.exact = exact;
    kernel.totals = totals + parameter;
    kernel.inexact = inexact;
    this->launch_whole("maniple::add_channel_sums", kernel.items(), kernel);
  }
  void bias_gradient(const TapLayer& layer, const FeatureMap<const T>& out_delta) const {
    add_channels(out_delta, 0, layer.outputs(), layer.bias);
  }
  // `again`: the fine map is the one of the call before, and has not changed.
  void weight_gradient(const TapLayer& layer, const FeatureMap<const T>& in,
                       const FeatureMap<const T>& out_delta, bool again = false) const {
#ifdef MANIPLE_BFLOAT16
    if constexpr (std::is_same_v<T, float>)
      if (this->rounded != nullptr)
        return add_weight_gradient<BfloatFactors, kTileWidth>(layer, in, out_delta, again,
                                                              reinterpret_cast<BfloatPair*>(transposed));
#endif
    with_block(this->samples.block, [&](auto block) {
      add_weight_gradient<PlainFactors<T>, block()>(layer, in, out_delta, again, transposed);
    });
  }
  template <class Factors, int Block>
  void add_weight_gradient(const TapLayer& layer, const FeatureMap<const T>& in,
                           const FeatureMap<const T>& out_delta, bool again,
                           typename Factors::Stored* by_samples) const {
    const FeatureMap<const T> fine = layer.transposed ? out_delta : in;
    const TransposeMap<T, Factors> transpose{fine, by_samples};
    if (!again)
      this->launch("maniple::transpose_map", static_cast<std::int64_t>(this->tiles) * transpose.blocks(),
                   transpose);
    TapGradient<T, Factors, Block> kernel;
    kernel.layer = layer;
    kernel.coarse = layer.transposed ? in : out_delta;
    kernel.transposed = by_samples;
    kernel.fine_frames = fine.frames;
    kernel.tiles = this->tiles;
    kernel.samples = this->samples;
    kernel.exact = exact;
    kernel.totals = totals;
    kernel.inexact = inexact;
    this->launch_whole("maniple::tap_gradient", kernel.items(), kernel);
  }
  void gradient(const TapLayer& layer, const FeatureMap<const T>& in,
                const FeatureMap<const T>& out_delta) const {
    weight_gradient(layer, in, out_delta);
    bias_gradient(layer, out_delta);
  }
};

}  // namespace maniple
