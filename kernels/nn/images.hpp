// Layers of a network for images beside convolutions and normalization: pixels
// as numbers, maximum pooling, derivatives of rectifiers, and expected
// coordinates of feature maps. The frames of a map are its pixels, row by row.
#pragma once

#include "kernels/nn/convolution.hpp"

namespace maniple {

// Pixels [row][pixel][channel][32] of a tile as numbers in [-1, 1], with zeros around them. Work items are
// rows of what comes out.
template <class T>
struct PadPixels {
  const std::uint8_t* pixels = nullptr;
  std::int64_t tile_stride = 0;  // from tile to tile
  int height = 0, width = 0, channels = 0;
  int before = 0;                           // rows above, and pixels to the left
  int padded_height = 0, padded_width = 0;  // of what comes out
  T* padded = nullptr;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int) const {
    const std::int64_t tile = item / padded_height;
    const int row = static_cast<int>(item % padded_height) - before;
    const std::int64_t pixel = static_cast<std::int64_t>(channels) * kTileWidth;
    T* const to = padded + item * padded_width * pixel;
    const bool inside = row >= 0 && row < height;
    const std::int64_t left = inside ? before * pixel : padded_width * pixel;
    team.items(left, [&](std::int64_t i) { to[i] = T(0); });
    if (!inside) return;
    const std::uint8_t* const from = pixels + tile * tile_stride + row * width * pixel;
    const std::int64_t count = width * pixel;
    team.items(count, [&](std::int64_t i) {
      // (rounded once)
      to[left + i] = static_cast<T>(2 * static_cast<int>(from[i]) - 255) / T(255);
    });
    team.items((padded_width - before - width) * pixel, [&](std::int64_t i) { to[left + count + i] = T(0); });
  }
};

// target = largest of each window of the source: a window is what a frame of the target, the coarse map,
// meets. `choice`, where it is there: at which tap that was first. Work items are frames of the target.
template <class T>
struct MaxPool {
  TapLayer window;
  FeatureMap<const T> source;
  FeatureMap<T> target, choice;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int) const {
    using V = Lanes<T>;
    const std::int64_t tile = item / target.frames;
    const int frame = static_cast<int>(item % target.frames);
    team.lanes<V, 1>([&](int lane) {
      bool first = true;
      for (int tap = 0; tap < window.taps(); ++tap) {
        const int other = window.partner(false, frame, tap, source.frames);
        if (other < 0) continue;
        for (int channel = 0; channel < target.channels; ++channel) {
          const V x = source.template pack<V>(tile, other, channel, lane);
          V& best = target.template pack<V>(tile, frame, channel, lane);
          const MaskOf<V> better = x > best;
          best = first ? x : select(better, x, best);
          if (choice.first == nullptr) continue;
          V& chosen = choice.template pack<V>(tile, frame, channel, lane);
          chosen = first ? V(T(tap)) : select(better, V(T(tap)), chosen);
        }
        first = false;
      }
    });
  }
};

// Derivatives by the source of the pooling from those by its target. Work items are frames of the source.
template <class T>
struct MaxPoolBackward {
  TapLayer window;
  FeatureMap<const T> choice, delta;
  FeatureMap<T> source_delta;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int) const {
    using V = Lanes<T>;
    const std::int64_t tile = item / source_delta.frames;
    const int frame = static_cast<int>(item % source_delta.frames);
    const V zero(T(0));
    team.lanes<V, 1>([&](int lane) {
      for (int channel = 0; channel < delta.channels; ++channel)
        source_delta.template pack<V>(tile, frame, channel, lane) = zero;
      for (int tap = 0; tap < window.taps(); ++tap) {
        const int other = window.partner(true, frame, tap, delta.frames);
        if (other < 0) continue;
        for (int channel = 0; channel < delta.channels; ++channel)
          source_delta.template pack<V>(tile, frame, channel, lane) +=
              select(choice.template pack<V>(tile, other, channel, lane) == V(T(tap)),
                     delta.template pack<V>(tile, other, channel, lane), zero);
      }
    });
  }
};

// delta = 0 where what was rectified is 0. Work items are frames.
template <class T>
struct RectifierSlope {
  FeatureMap<const T> rectified;
  FeatureMap<T> delta;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int) const {
    using V = Lanes<T>;
    const std::int64_t tile = item / delta.frames;
    const int frame = static_cast<int>(item % delta.frames);
    const V zero(T(0));
    team.lanes<V, 1>([&](int lane) {
      for (int channel = 0; channel < delta.channels; ++channel) {
        V& d = delta.template pack<V>(tile, frame, channel, lane);
        d = select(rectified.template pack<V>(tile, frame, channel, lane) > zero, d, zero);
      }
    });
  }
};

// Coordinate of a place among several, from -1 to 1; a single one is at -1, as for the reference.
template <class T>
MANIPLE_FUNCTION T image_coordinate(int place, int places) {
  return places == 1 ? T(-1) : static_cast<T>(2 * place - (places - 1)) / static_cast<T>(places - 1);
}

// Expected coordinates (x, then y, of each map) of a pixel drawn with the softmax of a map's numbers (Finn et
// al. 2016), whose place these probabilities take. Work items are the maps of the tiles.
template <class T>
struct SpatialSoftmax {
  FeatureMap<T> maps;
  int width = 1;
  FeatureMap<T> points;  // one frame, two channels for each map

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int) const {
    using V = Lanes<T>;
    const std::int64_t tile = item / maps.channels;
    const int map = static_cast<int>(item % maps.channels), height = maps.frames / width;
    team.lanes<V, 1>([&](int lane) {
      const auto at = [&](int frame) -> V& { return maps.template pack<V>(tile, frame, map, lane); };
      V most = at(0), whole(T(0)), x(T(0)), y(T(0));
      for (int frame = 1; frame < maps.frames; ++frame) most = max(most, at(frame));
      for (int frame = 0; frame < maps.frames; ++frame) {
        at(frame) = exp(at(frame) - most);
        whole += at(frame);
      }
      const V share = V(T(1)) / whole;
      for (int row = 0; row < height; ++row)
        for (int place = 0; place < width; ++place) {
          V& probability = at(row * width + place);
          probability = probability * share;
          x = multiply_add(V(image_coordinate<T>(place, width)), probability, x);
          y = multiply_add(V(image_coordinate<T>(row, height)), probability, y);
        }
      points.template pack<V>(tile, 0, 2 * map, lane) = x;
      points.template pack<V>(tile, 0, 2 * map + 1, lane) = y;
    });
  }
};

// Derivatives by the numbers of the maps from those by the points.
template <class T>
struct SpatialSoftmaxBackward {
  FeatureMap<const T> probabilities, points, delta;
  int width = 1;
  FeatureMap<T> maps_delta;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int) const {
    using V = Lanes<T>;
    const std::int64_t tile = item / maps_delta.channels;
    const int map = static_cast<int>(item % maps_delta.channels), height = maps_delta.frames / width;
    team.lanes<V, 1>([&](int lane) {
      const V x = points.template pack<V>(tile, 0, 2 * map, lane),
              y = points.template pack<V>(tile, 0, 2 * map + 1, lane),
              dx = delta.template pack<V>(tile, 0, 2 * map, lane),
              dy = delta.template pack<V>(tile, 0, 2 * map + 1, lane);
      for (int row = 0; row < height; ++row)
        for (int place = 0; place < width; ++place) {
          const int frame = row * width + place;
          const V along = multiply_add(dx, V(image_coordinate<T>(place, width)) - x,
                                       dy * (V(image_coordinate<T>(row, height)) - y));
          maps_delta.template pack<V>(tile, frame, map, lane) =
              probabilities.template pack<V>(tile, frame, map, lane) * along;
        }
    });
  }
};

}  // namespace maniple
