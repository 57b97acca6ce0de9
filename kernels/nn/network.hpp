// The shape of a policy network as kernels see it: a list of layers over one flat parameter buffer. Each
// layer reads units of earlier layers and writes its own. Parameters are counted in 64 bits: two layers of
// 50000 units have more than 2^31. The heads are units of the last layers: actor and critic may share their
// hidden layers (one chain, whose last layer yields both heads) or not (two chains). Plain data, so that a
// launch can carry it by value.
#pragma once

#include "kernels/base/varying.hpp"

namespace maniple {

enum class Activation : int { identity, elu, relu, tanh, leaky_relu, silu, gelu };

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
  int deviations = 0;  // log standard deviations that the network gives: as many as actions, or none
  int modes = 0;       // Gaussians of a mixture, of which the network then gives the numbers; 0: no mixture
  bool critic = true;  // whether there is one

  MANIPLE_FUNCTION int inputs() const { return observations + critic_observations; }
};

// Where a layer's inputs may come from, besides the layers below: the input is [observation, critic
// observation].
inline constexpr int kObservation = -1, kCriticObservation = -2;

enum class LayerKind : int {
  dense,       // target[o] = activation(bias[o] + sum_i weight[o][i] source[i])
  gates,       // the same, of a recurrent cell
  activation,  // target = activation(source), where a derivative needs what went in
  layer_norm,  // target = weight (source - mean) / deviation + bias over the units of a sample (Ba et al.
               // 2016)
  deviation,   // target = log standard deviation (Network::deviation_law) of source
  gru,         // target = state after the step (Cho et al. 2014)
  lstm,        // the same (Hochreiter and Schmidhuber 1997; forget gates: Gers et al. 2000)
};

struct Layer {
  LayerKind kind = LayerKind::dense;
  int inputs = 0, outputs = 0;
  std::int64_t weight = 0;    // first parameter; row o starts at weight + o * stride()
  std::int64_t bias = 0;      // first parameter
  int source = kObservation;  // first unit among the activations, or the observation, or the critic's own
  int target = 0;             // first unit among the activations
  Activation activation = Activation::identity;
  Activation source_activation = Activation::identity;  // of the layer that made the source
  bool library = false;                                 // wide: computed by a vendor's BLAS on a CPU
  // Of a recurrent cell, whose `source` is what its input gives to the gates (gru: reset, update, new; lstm:
  // input, forget, cell, output: as torch orders them): first unit of what the state before the step gives to
  // them, and of that state, in an lstm the hidden state and then the cell's.
  int state_gates = 0, state = 0;

  MANIPLE_FUNCTION std::int64_t stride() const { return padded_parameters(inputs); }
  MANIPLE_FUNCTION bool is_dense() const { return kind == LayerKind::dense || kind == LayerKind::gates; }
  MANIPLE_FUNCTION bool is_cell() const { return kind == LayerKind::gru || kind == LayerKind::lstm; }
  // Units of a cell's state, which are also the first ones of its target.
  MANIPLE_FUNCTION int state_units() const { return kind == LayerKind::lstm ? 2 * outputs : outputs; }
};
// One that is_dense(), as kernels/nn/dense.hpp computes it.
using DenseLayer = Layer;

// Units that others read, by their place among the activations.
struct Head {
  int first = 0;
  int units = 0;  // 0: the network has no such head
};

// Standard deviation of an action from the number x that a network gives for it.
enum class DeviationLaw : int {
  exponential,  // e^x + deviation_offset
  softplus,     // ln(1 + e^x) + deviation_offset
};

struct Network {
  static constexpr int max_layers = 64;
  Layer layers[max_layers];
  int num_layers = 0;
  PolicySizes sizes;
  int units = 0;        // activations of one sample, without the observation
  int state_units = 0;  // the first of them: the state of recurrent cells before the step
  Head actor;           // mean of each action; of a mixture [mode][action]
  Head deviation;       // log standard deviations of the same, where the observation decides on them
  Head logits;          // of a mixture: log weight of each mode, up to a number that all share
  Head critic;          // value of the observation
  DeviationLaw deviation_law = DeviationLaw::exponential;
  double deviation_offset = 0, lowest_log_std = -1e9, highest_log_std = 1e9;
  int widest = 0;               // inputs or outputs of any dense layer
  std::int64_t parameters = 0;  // of the flat buffer, padding included
  std::int64_t log_std = 0;     // first parameter of the log standard deviations, where there is no such head

  MANIPLE_FUNCTION bool recurrent() const { return state_units > 0; }
  // Log standard deviations among the parameters.
  MANIPLE_FUNCTION int own_deviations() const { return deviation.units > 0 ? 0 : sizes.actions; }

  // The inputs of a layer, of the tile whose inputs and activations these are.
  template <class T>
  MANIPLE_FUNCTION const T* source_of(const Layer& layer, const T* input, const T* activations) const {
    if (layer.source >= 0) return activations + layer.source * kTileWidth;
    return layer.source == kCriticObservation ? input + sizes.observations * kTileWidth : input;
  }
};

}  // namespace maniple
