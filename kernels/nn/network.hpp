// The shape of a policy network as kernels see it: a list of dense layers over one flat parameter
// buffer. Parameters are counted in 64 bits: two layers of 50000 units have more than 2^31. What a network is
// asked for are its heads, units of its last layers: actor and critic may share their hidden layers (one
// chain, whose last layer yields both heads) or not (two chains). Plain data, so that a launch can carry it
// by value.
#pragma once

#include "kernels/base/varying.hpp"

namespace maniple {

enum class Activation : int { identity, elu, relu, tanh };

// Rows of weights are padded with zeros to a multiple of this many parameters, whatever the lane width,
// so that vectors may run over the inputs and checkpoints look the same on every machine.
inline constexpr int kParameterPadding = 16;
MANIPLE_FUNCTION std::int64_t padded_parameters(std::int64_t count) {
  return (count + kParameterPadding - 1) / kParameterPadding * kParameterPadding;
}

// What a policy exchanges with its environments. A critic that sees the same as the actor has no observations
// of its own; one that sees something else sees only that.
struct PolicySizes {
  int observations = 0, critic_observations = 0, actions = 0;

  MANIPLE_FUNCTION int inputs() const { return observations + critic_observations; }
};

// Where a layer's inputs may come from, besides the layers below: the input is [observation, critic
// observation].
inline constexpr int kObservation = -1, kCriticObservation = -2;

// target[o] = activation(bias[o] + sum_i weight[o][i] source[i]).
struct DenseLayer {
  int inputs = 0, outputs = 0;
  std::int64_t weight = 0;    // first parameter; row o starts at weight + o * stride()
  std::int64_t bias = 0;      // first parameter
  int source = kObservation;  // first unit among the activations, or the observation, or the critic's own
  int target = 0;             // first unit among the activations
  Activation activation = Activation::identity;
  Activation source_activation = Activation::identity;  // of the layer that made the source
  bool library = false;                                 // wide: computed by a vendor's BLAS on a CPU

  MANIPLE_FUNCTION std::int64_t stride() const { return padded_parameters(inputs); }
};

// Units that others read, by their place among the activations.
struct Head {
  int first = 0;
  int units = 0;  // 0: the network has no such head
};

struct Network {
  static constexpr int max_layers = 16;
  DenseLayer layers[max_layers];
  int num_layers = 0;
  PolicySizes sizes;
  int units = 0;                // activations of one sample, without the observation
  Head actor;                   // mean of each action
  Head critic;                  // value of the observation
  int widest = 0;               // inputs or outputs of any layer
  std::int64_t parameters = 0;  // of the flat buffer, padding included
  std::int64_t log_std = 0;     // first parameter of the log standard deviations

  // The inputs of a layer, of the tile whose inputs and activations these are.
  template <class T>
  MANIPLE_FUNCTION const T* source_of(const DenseLayer& layer, const T* input, const T* activations) const {
    if (layer.source >= 0) return activations + layer.source * kTileWidth;
    return layer.source == kCriticObservation ? input + sizes.observations * kTileWidth : input;
  }
};

}  // namespace maniple
