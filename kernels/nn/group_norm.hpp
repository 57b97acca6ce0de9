// Normalization after a convolution: group normalization (Wu and He 2018), in a denoising network followed by
// Mish and, in the middle of a residual block, by modulation with the condition (FiLM); at the end of a block
// the sum with its input, in a network for images followed by a rectifier (ReLU).
#pragma once

#include "kernels/nn/feature_map.hpp"

namespace maniple {

// Added to the variance, as torch does.
inline constexpr double kGroupNormEpsilon = 1e-5;

// What a normal form becomes, with its slope.
struct MishUnit {
  template <class V>
  static MANIPLE_FUNCTION V of(V x, V& slope) {
    return mish(x, slope);
  }
};
struct IdentityUnit {
  template <class V>
  static MANIPLE_FUNCTION V of(V x, V& slope) {
    slope = V(ScalarOf<V>(1));
    return x;
  }
};

// The layer: x = unit(weight * normal form of y + bias), z = scale * x + shift.
template <class T>
struct GroupNorm {
  int groups = 1;
  const T *weight = nullptr, *bias = nullptr;  // [channel]
  FeatureMap<const T> y;
  // [tile][group][2][32]: mean and 1 / deviation of a group's channels over all frames
  T* moments = nullptr;
  // One frame of shifts, or with `scales` of scales and then shifts; none: z = x.
  FeatureMap<const T> film;
  bool scales = false;

  MANIPLE_FUNCTION int group_channels() const { return y.channels / groups; }
  MANIPLE_FUNCTION T* moments_of(std::int64_t item) const { return moments + item * 2 * kTileWidth; }
};

// z (+ residual, where there is one, which may be the target itself), where it rectifies at least 0. The
// target may take the place of y. Work items are groups of tiles.
template <class T, class Unit = MishUnit>
struct GroupNormForward {
  GroupNorm<T> norm;
  FeatureMap<const T> residual;
  FeatureMap<T> target;
  bool rectifies = false;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int) const {
    using V = Lanes<T>;
    const std::int64_t tile = item / norm.groups;
    const int channels = norm.group_channels(), frames = norm.y.frames;
    const int first = static_cast<int>(item % norm.groups) * channels;
    team.lanes<V, 1>([&](int lane) {
      const V share(T(1) / static_cast<T>(channels * frames)), zero(T(0));
      // sum of term(number, sum so far) over the group
      const auto sum = [&](const auto& term) {
        V total = zero;
        for (int block = 0; block < frames; block += kFrameBlock) {
          V part = zero;
          for (int frame = block; frame < end_of_block(block, frames); ++frame)
            for (int c = 0; c < channels; ++c)
              part = term(norm.y.template pack<V>(tile, frame, first + c, lane), part);
          total += part;
        }
        return total;
      };
      const V mean = sum([](V y, V part) { return part + y; }) * share;
      const V variance = sum([&](V y, V part) { return multiply_add(y - mean, y - mean, part); });
      const V inverse = V(T(1)) / sqrt(multiply_add(variance, share, V(T(kGroupNormEpsilon))));
      T* const moments = norm.moments_of(item) + lane;
      *reinterpret_cast<V*>(moments) = mean;
      *reinterpret_cast<V*>(moments + kTileWidth) = inverse;
      for (int frame = 0; frame < frames; ++frame)
        for (int channel = first; channel < first + channels; ++channel) {
          const V normal = (norm.y.template pack<V>(tile, frame, channel, lane) - mean) * inverse;
          V slope, z = Unit::of(multiply_add(V(norm.weight[channel]), normal, V(norm.bias[channel])), slope);
          if (norm.film.first != nullptr) {
            const V shift =
                norm.film.template pack<V>(tile, 0, norm.scales ? norm.y.channels + channel : channel, lane);
            z = norm.scales ? multiply_add(norm.film.template pack<V>(tile, 0, channel, lane), z, shift)
                            : z + shift;
          }
          if (residual.first != nullptr) z += residual.template pack<V>(tile, frame, channel, lane);
          if (rectifies) z = max(z, zero);
          target.template pack<V>(tile, frame, channel, lane) = z;
        }
    });
  }
};

// From derivatives by z to those by y, which may take their place.
template <class T, class Unit = MishUnit>
struct GroupNormBackward {
  GroupNorm<T> norm;
  FeatureMap<const T> delta;
  FeatureMap<T> y_delta;
  FeatureMap<T> film_delta;  // as norm.film
  // One frame, each the sum over the frames: derivatives by weights, by biases, by y (those by the bias of
  // the convolution that made it).
  FeatureMap<T> parameter_delta;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int) const {
    using V = Lanes<T>;
    const std::int64_t tile = item / norm.groups;
    const int channels = norm.group_channels(), frames = norm.y.frames, all = norm.y.channels;
    const int first = static_cast<int>(item % norm.groups) * channels;
    team.lanes<V, 1>([&](int lane) {
      const V share(T(1) / static_cast<T>(channels * frames));
      const T* const moments = norm.moments_of(item) + lane;
      const V mean = *reinterpret_cast<const V*>(moments);
      const V inverse = *reinterpret_cast<const V*>(moments + kTileWidth);
      const V zero(T(0));
      const bool film = norm.film.first != nullptr;
      const auto add = [&](const FeatureMap<T>& sums, int channel, int block, V part) {
        V& sum = sums.template pack<V>(tile, 0, channel, lane);
        sum = block == 0 ? part : sum + part;
      };
      // with g the derivative by the normal form: (g - mean(g) - normal * mean(g normal)) / deviation
      V sum = zero, along = zero;
      for (int block = 0; block < frames; block += kFrameBlock) {
        V block_sum = zero, block_along = zero;
        for (int channel = first; channel < first + channels; ++channel) {
          const V weight(norm.weight[channel]), bias(norm.bias[channel]);
          const V scale = film && norm.scales ? norm.film.template pack<V>(tile, 0, channel, lane) : V(T(1));
          V weight_delta = zero, bias_delta = zero, scale_delta = zero, shift_delta = zero;
          for (int frame = block; frame < end_of_block(block, frames); ++frame) {
            const V normal = (norm.y.template pack<V>(tile, frame, channel, lane) - mean) * inverse;
            V slope;
            const V x = Unit::of(multiply_add(weight, normal, bias), slope);
            const V d = delta.template pack<V>(tile, frame, channel, lane);
            scale_delta = multiply_add(d, x, scale_delta);
            shift_delta += d;
            const V inner = d * scale * slope;
            weight_delta = multiply_add(inner, normal, weight_delta);
            bias_delta += inner;
            const V g = weight * inner;
            block_sum += g;
            block_along = multiply_add(g, normal, block_along);
            y_delta.template pack<V>(tile, frame, channel, lane) = g;
          }
          add(parameter_delta, channel, block, weight_delta);
          add(parameter_delta, all + channel, block, bias_delta);
          if (film && norm.scales) add(film_delta, channel, block, scale_delta);
          if (film) add(film_delta, norm.scales ? all + channel : channel, block, shift_delta);
        }
        sum += block_sum;
        along += block_along;
      }
      sum = sum * share;
      along = along * share;
      for (int block = 0; block < frames; block += kFrameBlock)
        for (int channel = first; channel < first + channels; ++channel) {
          V total = zero;
          for (int frame = block; frame < end_of_block(block, frames); ++frame) {
            const V normal = (norm.y.template pack<V>(tile, frame, channel, lane) - mean) * inverse;
            V& d = y_delta.template pack<V>(tile, frame, channel, lane);
            d = (d - sum - normal * along) * inverse;
            total += d;
          }
          add(parameter_delta, 2 * all + channel, block, total);
        }
    });
  }
};

}  // namespace maniple
