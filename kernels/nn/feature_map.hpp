// Feature maps over the frames of sequences, and elementwise operations on
// them. As everywhere, samples lie over the lanes, 32 to a tile; each kernel
// is launched over work items (for_tiles) that are independent of each other.
#pragma once

#include "kernels/nn/activations.hpp"
#include "kernels/nn/exact_totals.hpp"
#include "kernels/nn/tile_team.hpp"

namespace maniple {

// Channels of the frames of a run of tiles: [tile][frame][channel][32].
template <class T>
struct FeatureMap {
  T* first = nullptr;
  std::int64_t tile_stride = 0;  // from tile to tile
  int frames = 1, channels = 0;
  int stride = 0;  // channels of a frame in memory, of which these may be a part

  MANIPLE_FUNCTION T* at(std::int64_t tile, int frame) const {
    return first + tile * tile_stride + static_cast<std::int64_t>(frame) * stride * kTileWidth;
  }
  template <class V>
  MANIPLE_FUNCTION auto& pack(std::int64_t tile, int frame, int channel, int lane) const {
    using Pack = std::conditional_t<std::is_const_v<T>, const V, V>;
    return *reinterpret_cast<Pack*>(at(tile, frame) + channel * kTileWidth + lane);
  }
  // (a template, for a map of constants has no such conversion)
  template <class Const>
  requires std::is_same_v<Const, const T> MANIPLE_FUNCTION operator FeatureMap<Const>() const {
    return {first, tile_stride, frames, channels, stride};
  }
};

// Sums over the frames of a map are made of those over blocks of this many: a large map's lose less to
// rounding.
inline constexpr int kFrameBlock = 16;
MANIPLE_FUNCTION int end_of_block(int first, int frames) {
  return frames < first + kFrameBlock ? frames : first + kFrameBlock;
}

// body(frame, channel, lane) for every pack V of a tile of a map.
template <class V, class T, class Body>
MANIPLE_FUNCTION void for_packs(const TileTeam& team, const FeatureMap<T>& map, const Body& body) {
  team.lanes<V, 1>([&](int lane) {
    for (int frame = 0; frame < map.frames; ++frame)
      for (int channel = 0; channel < map.channels; ++channel) body(frame, channel, lane);
  });
}

// target = source, or target += source. Work items are tiles, here and below.
template <class T>
struct CopyMap {
  FeatureMap<const T> source;
  FeatureMap<T> target;
  bool add = false;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int) const {
    using V = Lanes<T>;
    for_packs<V>(team, target, [&](int frame, int channel, int lane) {
      V& to = target.template pack<V>(tile, frame, channel, lane);
      const V from = source.template pack<V>(tile, frame, channel, lane);
      to = add ? to + from : from;
    });
  }
};

template <class T>
struct ClearMap {
  FeatureMap<T> target;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int) const {
    using V = Lanes<T>;
    for_packs<V>(team, target, [&](int frame, int channel, int lane) {
      target.template pack<V>(tile, frame, channel, lane) = V(T(0));
    });
  }
};

// target = mish(source)
template <class T>
struct MishMap {
  FeatureMap<const T> source;
  FeatureMap<T> target;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int) const {
    using V = Lanes<T>;
    for_packs<V>(team, target, [&](int frame, int channel, int lane) {
      V slope;
      target.template pack<V>(tile, frame, channel, lane) =
          mish(source.template pack<V>(tile, frame, channel, lane), slope);
    });
  }
};
// delta *= slope of mish at source
template <class T>
struct MishSlope {
  FeatureMap<const T> source;
  FeatureMap<T> delta;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int) const {
    using V = Lanes<T>;
    for_packs<V>(team, delta, [&](int frame, int channel, int lane) {
      V slope;
      mish(source.template pack<V>(tile, frame, channel, lane), slope);
      V& d = delta.template pack<V>(tile, frame, channel, lane);
      d = d * slope;
    });
  }
};

// Sinusoidal embedding of a whole number (Vaswani et al. 2017, as the diffusion_policy reference orders it):
// sines, then cosines, of step * frequency[i].
template <class T>
struct EmbedStep {
  FeatureMap<const T> step;      // one channel
  const T* frequency = nullptr;  // [target.channels / 2]
  FeatureMap<T> target;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int) const {
    using V = Lanes<T>;
    const int half = target.channels / 2;
    team.lanes<V, 1>([&](int lane) {
      const V s = step.template pack<V>(tile, 0, 0, lane);
      for (int i = 0; i < half; ++i)
        sincos(s * V(frequency[i]), target.template pack<V>(tile, 0, i, lane),
               target.template pack<V>(tile, 0, half + i, lane));
    });
  }
};

// Adds each tile's sums over the frames and samples of a map's channels, of each block of samples by itself,
// to totals[channel]. Work items are 32 channels.
template <class T>
struct AddChannelSums {
  FeatureMap<const T> map;
  int tiles = 0;
  TileSamples samples;
  bool exact = true;
  double *totals = nullptr, *inexact = nullptr;

  MANIPLE_FUNCTION std::int64_t items() const { return (map.channels + kTileWidth - 1) / kTileWidth; }
  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int) const {
    using V = Lanes<T>;
    const int first = static_cast<int>(item) * kTileWidth;
    team.items(map.channels - first < kTileWidth ? map.channels - first : kTileWidth, [&](std::int64_t i) {
      const int channel = first + static_cast<int>(i);
      for (int tile = 0; tile < tiles; ++tile) {
        if (samples.block == kTileWidth) {
          V sum(T(0));
          for (int frame = 0; frame < map.frames; ++frame)
            for (int sample = 0; sample < kTileWidth; sample += lane_width<V>)
              sum += map.template pack<V>(tile, frame, channel, sample);
          add(sum_lanes(sum), channel);
          continue;
        }
        for (int block = 0; block < samples.blocks(tile); ++block) {
          T sum(0);
          for (int frame = 0; frame < map.frames; ++frame) {
            const T* const numbers = map.at(tile, frame) + channel * kTileWidth;
            for (int sample = block * samples.block; sample < (block + 1) * samples.block; ++sample)
              sum += numbers[sample];
          }
          add(sum, channel);
        }
      }
    });
  }

 private:
  MANIPLE_FUNCTION void add(T sum, int channel) const {
    if (!exact)
      add_fast(&sum, 1, totals + channel);
    else if (add_exactly(&sum, 1, totals + channel) > 0)
      Kokkos::atomic_add(inexact, 1.0);
  }
};

}  // namespace maniple
