// All layers of a network over a tile of 32 samples, forward and backward: dense ones (kernels/nn/dense.hpp),
// and what stands between them, unit by unit or over the units of a sample. A layer mixes units, never
// samples, so that a pack (or a GPU's thread) needs nothing of the others until gradients are summed.
#pragma once

#include "kernels/nn/dense.hpp"

namespace maniple {

// Added to the variance of layer normalization (torch; flax adds 1e-6).
inline constexpr double kLayerNormEpsilon = 1e-5;

// ---- activations whose derivative needs what went in ----
template <class V>
MANIPLE_FUNCTION void activation_forward(const Layer& layer, const Varying<V>& units) {
  V slope;
  for (int i = 0; i < layer.outputs; ++i)
    units[layer.target + i] = activate_with_slope(layer.activation, units[layer.source + i], slope);
}
template <class V>
MANIPLE_FUNCTION void activation_backward(const Layer& layer, const Varying<V>& units,
                                          const Varying<V>& deltas) {
  for (int i = 0; i < layer.outputs; ++i) {
    V slope;
    activate_with_slope(layer.activation, units[layer.source + i], slope);
    deltas[layer.source + i] = deltas[layer.target + i] * slope;
  }
}

// ---- layer normalization: units of the target are [outputs], the normal form [outputs], 1 / deviation ----
template <class V>
MANIPLE_FUNCTION void layer_norm_forward(const Layer& layer, const ScalarOf<V>* parameters,
                                         const Varying<V>& units) {
  using T = ScalarOf<V>;
  const int n = layer.outputs;
  const V share(T(1) / T(n));
  const Varying<V> x = units.from(layer.source), y = units.from(layer.target), normal = y.from(n);
  V mean(T(0)), variance(T(0));
  for (int i = 0; i < n; ++i) mean += x[i];
  mean = mean * share;
  for (int i = 0; i < n; ++i) {
    normal[i] = x[i] - mean;
    variance = multiply_add(normal[i], normal[i], variance);
  }
  const V inverse = V(T(1)) / sqrt(multiply_add(variance, share, V(T(kLayerNormEpsilon))));
  y[2 * n] = inverse;
  for (int i = 0; i < n; ++i) {
    normal[i] = normal[i] * inverse;
    y[i] = multiply_add(V(parameters[layer.weight + i]), normal[i], V(parameters[layer.bias + i]));
  }
}
// With g = weight * delta: (g - mean(g) - normal * mean(g normal)) / deviation.
template <class V>
MANIPLE_FUNCTION void layer_norm_backward(const Layer& layer, const ScalarOf<V>* parameters,
                                          const Varying<V>& units, const Varying<V>& deltas) {
  using T = ScalarOf<V>;
  const int n = layer.outputs;
  const V share(T(1) / T(n));
  const Varying<V> delta = deltas.from(layer.target), normal = units.from(layer.target + n);
  V mean(T(0)), along(T(0));
  for (int i = 0; i < n; ++i) {
    const V g = V(parameters[layer.weight + i]) * delta[i];
    mean += g;
    along = multiply_add(g, normal[i], along);
  }
  mean = mean * share;
  along = along * share;
  const V inverse = normal[n];
  for (int i = 0; i < n; ++i) {
    const V g = V(parameters[layer.weight + i]) * delta[i];
    deltas[layer.source + i] = (g - mean - normal[i] * along) * inverse *
                               activation_derivative(layer.source_activation, units[layer.source + i]);
  }
}
template <class V>
MANIPLE_FUNCTION void layer_norm_gradient(const TileTeam& team, const Layer& layer,
                                          const ScalarOf<V>* activations, const ScalarOf<V>* deltas,
                                          ScalarOf<V>* gradient) {
  team.items(layer.outputs, [&](std::int64_t i) {
    const V* const delta = reinterpret_cast<const V*>(deltas + (layer.target + i) * kTileWidth);
    const V* const normal =
        reinterpret_cast<const V*>(activations + (layer.target + layer.outputs + i) * kTileWidth);
    gradient[layer.weight + i] += sum_samples<V>([&](int pack) { return delta[pack] * normal[pack]; });
    gradient[layer.bias + i] += sum_samples<V>([&](int pack) { return delta[pack]; });
  });
}

// ---- log standard deviations ----
template <class V>
MANIPLE_FUNCTION V log_deviation(const Network& network, V x, V& slope) {
  using T = ScalarOf<V>;
  V y = x;
  slope = V(T(1));
  if (network.deviation_law == DeviationLaw::exponential && network.deviation_offset > 0) {
    const V grown = exp(x), deviation = grown + V(T(network.deviation_offset));
    y = log(deviation);
    slope = grown / deviation;
  }
  if (network.deviation_law == DeviationLaw::softplus) {
    const V deviation = softplus(x) + V(T(network.deviation_offset));
    y = log(deviation);
    slope = sigmoid(x) / deviation;
  }
  const V low(T(network.lowest_log_std)), high(T(network.highest_log_std));
  slope = select(y < low || y > high, V(T(0)), slope);
  return clamp(y, low, high);
}
template <class V>
MANIPLE_FUNCTION void deviation_forward(const Network& network, const Layer& layer, const Varying<V>& units) {
  V slope;
  for (int k = 0; k < layer.outputs; ++k)
    units[layer.target + k] = log_deviation(network, units[layer.source + k], slope);
}
template <class V>
MANIPLE_FUNCTION void deviation_backward(const Network& network, const Layer& layer, const Varying<V>& units,
                                         const Varying<V>& deltas) {
  for (int k = 0; k < layer.outputs; ++k) {
    V slope;
    log_deviation(network, units[layer.source + k], slope);
    deltas[layer.source + k] = deltas[layer.target + k] * slope;
  }
}

// ---- gated recurrent unit, in torch's form: units of the target are the state after the step, then the
// gates r = sigmoid(x_r + h_r), z = sigmoid(x_z + h_z), n = tanh(x_n + r h_n); state = (1 - z) n + z (state
// before) ----
template <class V>
MANIPLE_FUNCTION void gru_forward(const Layer& layer, const Varying<V>& units) {
  const int n = layer.outputs;
  const Varying<V> x = units.from(layer.source), h = units.from(layer.state_gates),
                   before = units.from(layer.state), after = units.from(layer.target);
  for (int k = 0; k < n; ++k) {
    const V reset = sigmoid(x[k] + h[k]), update = sigmoid(x[n + k] + h[n + k]);
    const V fresh = tanh(multiply_add(reset, h[2 * n + k], x[2 * n + k]));
    after[k] = multiply_add(update, before[k] - fresh, fresh);
    after[n + k] = reset;
    after[2 * n + k] = update;
    after[3 * n + k] = fresh;
  }
}
// `carry` [state units]: on entry the derivatives by the states after this step that later steps ask for; on
// return those by the states before it that do not go through the gates.
template <class V>
MANIPLE_FUNCTION void gru_backward(const Layer& layer, const Varying<V>& units, const Varying<V>& deltas,
                                   const Varying<V>& carry) {
  const int n = layer.outputs;
  const V one(ScalarOf<V>(1));
  const Varying<V> h = units.from(layer.state_gates), before = units.from(layer.state),
                   gate = units.from(layer.target), x_delta = deltas.from(layer.source),
                   h_delta = deltas.from(layer.state_gates);
  for (int k = 0; k < n; ++k) {
    const V delta = deltas[layer.target + k] + carry[layer.state + k];
    const V reset = gate[n + k], update = gate[2 * n + k], fresh = gate[3 * n + k];
    const V fresh_delta = delta * (one - update) * (one - fresh * fresh);
    const V update_delta = delta * (before[k] - fresh) * update * (one - update);
    const V reset_delta = fresh_delta * h[2 * n + k] * reset * (one - reset);
    x_delta[k] = h_delta[k] = reset_delta;
    x_delta[n + k] = h_delta[n + k] = update_delta;
    x_delta[2 * n + k] = fresh_delta;
    h_delta[2 * n + k] = fresh_delta * reset;
    carry[layer.state + k] = delta * update;
  }
}

// ---- long short-term memory, in torch's form: i = sigmoid(x_i + h_i), f = sigmoid(x_f + h_f), g = tanh(x_g
// + h_g), o = sigmoid(x_o + h_o); cell = f (cell before) + i g; hidden = o tanh(cell). Units of the target
// are hidden, cell, i, f, g, o, tanh(cell), n each ----
template <class V>
MANIPLE_FUNCTION void lstm_forward(const Layer& layer, const Varying<V>& units) {
  const int n = layer.outputs;
  const Varying<V> x = units.from(layer.source), h = units.from(layer.state_gates),
                   cell_before = units.from(layer.state + n), after = units.from(layer.target);
  for (int k = 0; k < n; ++k) {
    const V input = sigmoid(x[k] + h[k]), forget = sigmoid(x[n + k] + h[n + k]);
    const V fresh = tanh(x[2 * n + k] + h[2 * n + k]), output = sigmoid(x[3 * n + k] + h[3 * n + k]);
    const V cell = multiply_add(forget, cell_before[k], input * fresh), shown = tanh(cell);
    after[k] = output * shown;
    after[n + k] = cell;
    after[2 * n + k] = input;
    after[3 * n + k] = forget;
    after[4 * n + k] = fresh;
    after[5 * n + k] = output;
    after[6 * n + k] = shown;
  }
}
// `carry`: as gru_backward's. No gate sees the cell, so that all that goes to the one before goes there.
template <class V>
MANIPLE_FUNCTION void lstm_backward(const Layer& layer, const Varying<V>& units, const Varying<V>& deltas,
                                    const Varying<V>& carry) {
  const int n = layer.outputs;
  const V zero(ScalarOf<V>(0)), one(ScalarOf<V>(1));
  const Varying<V> cell_before = units.from(layer.state + n), own = units.from(layer.target),
                   x_delta = deltas.from(layer.source), h_delta = deltas.from(layer.state_gates);
  for (int k = 0; k < n; ++k) {
    const V input = own[2 * n + k], forget = own[3 * n + k], fresh = own[4 * n + k], output = own[5 * n + k],
            shown = own[6 * n + k];
    const V delta = deltas[layer.target + k] + carry[layer.state + k];
    const V cell_delta = multiply_add(delta * output, one - shown * shown, carry[layer.state + n + k]);
    x_delta[k] = h_delta[k] = cell_delta * fresh * input * (one - input);
    x_delta[n + k] = h_delta[n + k] = cell_delta * cell_before[k] * forget * (one - forget);
    x_delta[2 * n + k] = h_delta[2 * n + k] = cell_delta * input * (one - fresh * fresh);
    x_delta[3 * n + k] = h_delta[3 * n + k] = delta * shown * output * (one - output);
    carry[layer.state + k] = zero;
    carry[layer.state + n + k] = cell_delta * forget;
    deltas[layer.state + n + k] = zero;
  }
}

// ---- networks ----

// Activations of all layers for the inputs of one tile. Those of the state before the step, if the network
// has any, are there already.
template <class Dense, class T>
MANIPLE_FUNCTION void network_forward(const TileTeam& team, const Network& network, const T* parameters,
                                      const T* input, T* activations) {
  using V = Lanes<T>;
  for (int l = 0; l < network.num_layers; ++l) {
    const Layer& layer = network.layers[l];
    if (layer.is_dense()) {
      Dense::forward(team, layer, parameters, network.source_of(layer, input, activations),
                     activations + layer.target * kTileWidth);
      continue;
    }
    team.lanes<V, 1>([&](int lane) {
      const Varying<V> units = tile_field<V>(activations, 0, lane);
      switch (layer.kind) {  // no default: the compiler names a kind that is left out
        case LayerKind::activation:
          activation_forward(layer, units);
          break;
        case LayerKind::layer_norm:
          layer_norm_forward(layer, parameters, units);
          break;
        case LayerKind::deviation:
          deviation_forward(network, layer, units);
          break;
        case LayerKind::gru:
          gru_forward(layer, units);
          break;
        case LayerKind::lstm:
          lstm_forward(layer, units);
          break;
        case LayerKind::dense:
        case LayerKind::gates:
          break;  // done above
      }
    });
  }
}

// Carries the derivatives of a loss from the heads down to the first layers' outputs. `carry`
// [state_units][32]: of a recurrent network, from the step after to the step before.
template <class Dense, class T>
MANIPLE_FUNCTION void network_backward(const TileTeam& team, const Network& network, const T* parameters,
                                       T* activations, T* deltas, T* carry) {
  using V = Lanes<T>;
  for (int l = network.num_layers - 1; l >= 0; --l) {
    const Layer& layer = network.layers[l];
    if (layer.is_dense()) {
      if (layer.source >= 0)
        Dense::backward(team, layer, parameters, deltas + layer.target * kTileWidth,
                        activations + layer.source * kTileWidth, deltas + layer.source * kTileWidth);
      continue;
    }
    team.lanes<V, 1>([&](int lane) {
      const Varying<V> units = tile_field<V>(activations, 0, lane), delta = tile_field<V>(deltas, 0, lane);
      switch (layer.kind) {
        case LayerKind::activation:
          activation_backward(layer, units, delta);
          break;
        case LayerKind::layer_norm:
          layer_norm_backward(layer, parameters, units, delta);
          break;
        case LayerKind::deviation:
          deviation_backward(network, layer, units, delta);
          break;
        case LayerKind::gru:
          gru_backward(layer, units, delta, tile_field<V>(carry, 0, lane));
          break;
        case LayerKind::lstm:
          lstm_backward(layer, units, delta, tile_field<V>(carry, 0, lane));
          break;
        case LayerKind::dense:
        case LayerKind::gates:
          break;  // done above
      }
    });
  }
  if (!network.recurrent()) return;
  team.lanes<V, 1>([&](int lane) {
    const Varying<V> delta = tile_field<V>(deltas, 0, lane), before = tile_field<V>(carry, 0, lane);
    for (int k = 0; k < network.state_units; ++k) before[k] += delta[k];
  });
}

// Adds the gradient over a tile whose deltas have gone down the network. `transposed` is scratch of the dense
// layers.
template <class Dense, class T>
MANIPLE_FUNCTION void network_gradient(const TileTeam& team, const Network& network, const T* input,
                                       const T* activations, const T* deltas, T* transposed, T* gradient) {
  for (int l = network.num_layers - 1; l >= 0; --l) {
    const Layer& layer = network.layers[l];
    if (layer.is_dense())
      Dense::gradient(team, layer, network.source_of(layer, input, activations),
                      deltas + layer.target * kTileWidth, transposed, gradient);
    if (layer.kind == LayerKind::layer_norm)
      layer_norm_gradient<Lanes<T>>(team, layer, activations, deltas, gradient);
  }
}

// The states that a forward pass has led to: to[state_units][32].
template <class T>
MANIPLE_FUNCTION void copy_state(const TileTeam& team, const Network& network, const T* activations, T* to) {
  using V = Lanes<T>;
  team.lanes<V, 1>([&](int lane) {
    for (int l = 0; l < network.num_layers; ++l) {
      const Layer& layer = network.layers[l];
      if (!layer.is_cell()) continue;
      for (int k = 0; k < layer.state_units(); ++k)
        *reinterpret_cast<V*>(to + (layer.state + k) * kTileWidth + lane) =
            *reinterpret_cast<const V*>(activations + (layer.target + k) * kTileWidth + lane);
    }
  });
}

}  // namespace maniple
