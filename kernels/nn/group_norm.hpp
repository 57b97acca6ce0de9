// What follows a convolution in a denoising network: group normalisation (Wu and He 2018), Mish, and in the
// middle of a residual block its modulation by the condition (FiLM), at its end the sum with its input.
#pragma once

#include "kernels/nn/feature_map.hpp"

namespace maniple {

// Added to the variance, as torch does.
inline constexpr double kGroupNormEpsilon = 1e-5;

// The layer: x = mish(weight * normal form of y + bias), z = scale * x + shift.
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

// z (+ residual, where there is one, which may be the target itself). Work items are groups of tiles.
template <class T>
struct GroupNormForward {
  GroupNorm<T> norm;
  FeatureMap<const T> residual;
  FeatureMap<T> target;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t item, int) const {
    using V = Lanes<T>;
    const std::int64_t tile = item / norm.groups;
    const int channels = norm.group_channels(), frames = norm.y.frames;
    const int first = static_cast<int>(item % norm.groups) * channels;
    team.lanes<V, 1>([&](int lane) {
      const V share(T(1) / static_cast<T>(channels * frames));
      V mean(T(0)), variance(T(0));
      for (int frame = 0; frame < frames; ++frame)
        for (int c = 0; c < channels; ++c) mean += norm.y.template pack<V>(tile, frame, first + c, lane);
      mean = mean * share;
      for (int frame = 0; frame < frames; ++frame)
        for (int c = 0; c < channels; ++c) {
          const V d = norm.y.template pack<V>(tile, frame, first + c, lane) - mean;
          variance = multiply_add(d, d, variance);
        }
      const V inverse = V(T(1)) / sqrt(multiply_add(variance, share, V(T(kGroupNormEpsilon))));
      T* const moments = norm.moments_of(item) + lane;
      *reinterpret_cast<V*>(moments) = mean;
      *reinterpret_cast<V*>(moments + kTileWidth) = inverse;
      for (int frame = 0; frame < frames; ++frame)
        for (int channel = first; channel < first + channels; ++channel) {
          const V normal = (norm.y.template pack<V>(tile, frame, channel, lane) - mean) * inverse;
          V slope, z = mish(multiply_add(V(norm.weight[channel]), normal, V(norm.bias[channel])), slope);
          if (norm.film.first != nullptr) {
            const V shift =
                norm.film.template pack<V>(tile, 0, norm.scales ? norm.y.channels + channel : channel, lane);
            z = norm.scales ? multiply_add(norm.film.template pack<V>(tile, 0, channel, lane), z, shift)
                            : z + shift;
          }
          if (residual.first != nullptr) z += residual.template pack<V>(tile, frame, channel, lane);
          target.template pack<V>(tile, frame, channel, lane) = z;
        }
    });
  }
};

// From derivatives by z to those by y, which may take their place.
template <class T>
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
      // with g the derivative by the normal form: (g - mean(g) - normal * mean(g normal)) / deviation
      V sum = zero, along = zero;
      for (int channel = first; channel < first + channels; ++channel) {
        const V weight(norm.weight[channel]), bias(norm.bias[channel]);
        const V scale = film && norm.scales ? norm.film.template pack<V>(tile, 0, channel, lane) : V(T(1));
        V weight_delta = zero, bias_delta = zero, scale_delta = zero, shift_delta = zero;
        for (int frame = 0; frame < frames; ++frame) {
          const V normal = (norm.y.template pack<V>(tile, frame, channel, lane) - mean) * inverse;
          V slope;
          const V x = mish(multiply_add(weight, normal, bias), slope);
          const V d = delta.template pack<V>(tile, frame, channel, lane);
          scale_delta = multiply_add(d, x, scale_delta);
          shift_delta += d;
          const V inner = d * scale * slope;
          weight_delta = multiply_add(inner, normal, weight_delta);
          bias_delta += inner;
          const V g = weight * inner;
          sum += g;
          along = multiply_add(g, normal, along);
          y_delta.template pack<V>(tile, frame, channel, lane) = g;
        }
        parameter_delta.template pack<V>(tile, 0, channel, lane) = weight_delta;
        parameter_delta.template pack<V>(tile, 0, all + channel, lane) = bias_delta;
        if (film && norm.scales) film_delta.template pack<V>(tile, 0, channel, lane) = scale_delta;
        if (film)
          film_delta.template pack<V>(tile, 0, norm.scales ? all + channel : channel, lane) = shift_delta;
      }
      sum = sum * share;
      along = along * share;
      for (int channel = first; channel < first + channels; ++channel) {
        V total = zero;
        for (int frame = 0; frame < frames; ++frame) {
          const V normal = (norm.y.template pack<V>(tile, frame, channel, lane) - mean) * inverse;
          V& d = y_delta.template pack<V>(tile, frame, channel, lane);
          d = (d - sum - normal * along) * inverse;
          total += d;
        }
        parameter_delta.template pack<V>(tile, 0, 2 * all + channel, lane) = total;
      }
    });
  }
};

}  // namespace maniple
