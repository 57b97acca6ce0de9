// The denoising network, its layers and networks of policies with their losses on numbers from the standard
// input (network_tool.hpp). In place of float, bf16: factors of products are rounded to it; not of policies.
//
// maniple_unet_tool unet float|double <samples> <actions> <horizon> <condition> <step embedding> <kernel
// size>
//     <groups> <predict scale> <width> ...
//   parameters, noisy, step, condition, delta -> prediction, gradient
// maniple_unet_tool tensors <the same>: names and shapes of the parameters
// maniple_unet_tool time <the same>: seconds of forward and backward, once for each line of the standard
// input maniple_unet_tool conv float|double <samples> <transposed> <inputs> <outputs> <taps> <stride>
// <padding>
//     <frames> <frames of the output>
//   weight, bias, x, y_delta -> y, x_delta, weight_delta, bias_delta
// maniple_unet_tool norm float|double <samples> <channels> <groups> <frames> <0: alone, 1: film, 2: with
// scale>
//     <residual>
//   weight, bias, y, film, residual, z_delta -> z, y_delta, weight_delta, bias_delta, film_delta
// maniple_unet_tool embedding float|double <samples> <units>
//   step -> sines and cosines, and mish of them, and its slope
// maniple_unet_tool dense float|double <samples> <inputs> <outputs>
//   weight, bias, x, y_delta -> y, x_delta, weight_delta, bias_delta
// maniple_unet_tool policy float|double <samples> <observations> <actions> <steps> <activation> <layer norm>
//     <recurrence> <cells> <units of a cell> <loss> <modes> <squash> <own deviations> <softplus> <width> ...
//   parameters layer by layer, observation, action -> outputs of the last layer, loss, gradient
#include <cmath>

#include "kernels/nn/cloning_loss.hpp"
#include "kernels/nn/group_norm.hpp"
#include "src/learning/conditional_unet.hpp"
#include "src/learning/policy.hpp"
#include "src/learning/policy_network.hpp"
#include "tests/regress/imitation/network_tool.hpp"

namespace maniple {
namespace {

template <class T>
void convolution(const std::vector<int>& sizes) {
  const int inputs = sizes.at(2), outputs = sizes.at(3);
  TapLayer layer;
  layer.transposed = sizes.at(1) == 1;
  layer.coarse = layer.transposed ? inputs : outputs;
  layer.fine = layer.transposed ? outputs : inputs;
  layer.y = {sizes.at(4), sizes.at(5), sizes.at(6)};
  run_layer<T>(layer, sizes.at(0), sizes.at(7), sizes.at(8));
}

template <class T>
void normalization(const std::vector<int>& sizes) {
  const int samples = sizes.at(0), channels = sizes.at(1), groups = sizes.at(2), frames = sizes.at(3),
            film_kind = sizes.at(4);
  const Numbers<T> weight = device_of(read<T>(channels)), bias = device_of(read<T>(channels));
  Map<T> y(samples, channels, frames), z = y.fresh(), y_delta = y.fresh(), residual = y.fresh(),
                                       z_delta = y.fresh(), film(samples, film_kind * channels, 1),
                                       film_delta = film.fresh(), rows(samples, 3 * channels, 1);
  y.from_input();
  film.from_input();
  if (sizes.at(5) == 1) residual.from_input();
  z_delta.from_input(true);
  const Numbers<T> moments("moments", static_cast<std::size_t>(y.tiles * groups * 2 * kTileWidth));
  GroupNorm<T> norm{groups, weight.data(), bias.data(), y.map(), moments.data(), {}, film_kind == 2};
  if (film_kind > 0) norm.film = film.map();
  GroupNormForward<T> forward{norm, {}, z.map()};
  if (sizes.at(5) == 1) forward.residual = residual.map();
  for_tiles("test", y.tiles * groups, 1, forward);
  const GroupNormBackward<T> backward{norm, z_delta.map(), y_delta.map(), film_delta.map(), rows.map()};
  for_tiles("test", y.tiles * groups, 1, backward);
  const Numbers<double> totals = channel_sums<T>(rows.map(), y.tiles);
  Kokkos::fence();
  z.to_output();
  y_delta.to_output();
  const std::vector<double> result = host_of(totals);
  write(rounded<T>(result, 0, 2 * channels));
  film_delta.to_output();
}

template <class T>
void embedding(const std::vector<int>& sizes) {
  const int samples = sizes.at(0), units = sizes.at(1);
  Map<T> step(samples, 1, 1), embedded(samples, units, 1), mished = embedded.fresh(),
                                                           slope = embedded.fresh();
  step.from_input();
  std::vector<T> frequencies;
  for (int i = 0; i < units / 2; ++i)
    frequencies.push_back(static_cast<T>(std::exp(-std::log(10000.0) * i / (units / 2 - 1))));
  const Numbers<T> frequency = device_of(frequencies);
  for_tiles("test", step.tiles, 1, EmbedStep<T>{step.map(), frequency.data(), embedded.map()});
  slope.fill(std::vector<T>(static_cast<std::size_t>(samples * units), T(1)));
  for_tiles("test", step.tiles, 1, MishMap<T>{embedded.map(), mished.map()});
  for_tiles("test", step.tiles, 1, MishSlope<T>{embedded.map(), slope.map()});
  Kokkos::fence();
  embedded.to_output();
  mished.to_output();
  slope.to_output();
}

UnetShape shape_of(const std::vector<int>& sizes) {
  UnetShape shape;
  shape.actions = sizes.at(1);
  shape.horizon = sizes.at(2);
  shape.condition = sizes.at(3);
  shape.step_embedding = sizes.at(4);
  shape.kernel_size = sizes.at(5);
  shape.groups = sizes.at(6);
  shape.predict_scale = sizes.at(7) == 1;
  shape.widths.assign(sizes.begin() + 8, sizes.end());
  return shape;
}

template <class T>
class WholeNet {
 public:
  explicit WholeNet(const std::vector<int>& sizes)
      : shape_(shape_of(sizes)),
        unet_(shape_, ConditionalUnet<T>::good_run(shape_), true, rounded_products),
        noisy_(sizes.at(0), shape_.actions, shape_.horizon, true),
        prediction_(noisy_.fresh()),
        delta_(noisy_.fresh()),
        step_(sizes.at(0), 1, 1),
        condition_(sizes.at(0), shape_.condition, 1),
        totals_("totals", static_cast<std::size_t>(unet_.parameters() + 1)) {}

  void run(const std::string& mode) {
    std::int64_t count = 0;
    for (const ParameterTensor& tensor : unet_.tensors()) count += tensor.size();
    if (mode == "unet") {
      parameters_ = device_of(from_torch_order(unet_.tensors(), read<T>(count)));
      noisy_.from_input();
      step_.from_input();
      condition_.from_input();
      delta_.from_input(true);
      pass();
      prediction_.to_output();
      std::vector<double> gradient = host_of(totals_);
      gradient.pop_back();
      write(in_torch_order(unet_.tensors(), rounded<T>(gradient, 0, unet_.parameters())));
      return;
    }
    parameters_ = device_of(unet_.initial_parameters(1));
    const auto fill = [](Map<T>& map, T value) {
      map.fill(std::vector<T>(static_cast<std::size_t>(map.samples * map.channels * map.frames), value),
               true);
    };
    fill(noisy_, T(0.5));
    fill(step_, T(7));
    fill(condition_, T(-0.5));
    fill(delta_, T(1e-3));
    take_times([&] {
      Kokkos::deep_copy(totals_, 0.0);
      pass();
    });
  }

 private:
  void pass() {
    for (std::int64_t tile = 0; tile < noisy_.tiles; tile += unet_.most_tiles()) {
      const auto from = [&](const Map<T>& map) {
        return TileRun<const T>{map.run().tile(tile), map.tile_stride()};
      };
      UnetInput<T> input;
      input.tiles = static_cast<int>(std::min<std::int64_t>(unet_.most_tiles(), noisy_.tiles - tile));
      input.noisy = from(noisy_);
      input.step = from(step_);
      input.condition = from(condition_);
      unet_.forward(parameters_, input, {prediction_.run().tile(tile), prediction_.tile_stride()});
      unet_.backward(parameters_, input, from(delta_), true, totals_.data(),
                     totals_.data() + unet_.parameters());
    }
    Kokkos::fence();
  }

  const UnetShape shape_;
  ConditionalUnet<T> unet_;
  Map<T> noisy_, prediction_, delta_, step_, condition_;
  Numbers<double> totals_;
  Numbers<T> parameters_;
};

// A loss that also keeps what the last layer gave for each sample.
template <class T>
struct ShownCloning : CloneActions<T> {
  T* shown = nullptr;  // [block][output][kTileWidth]
  int outputs = 0;

  template <class V>
  MANIPLE_FUNCTION void operator()(const Network& network, const T* parameters, std::int64_t index,
                                   const SampleView<V>& view, MaskOf<V> real, T scale) const {
    const Varying<V> to = tile_field<V>(shown + index * outputs * kTileWidth, 0, view.lane);
    for (int k = 0; k < outputs; ++k) to[k] = view.output[network.actor.first + k];
    CloneActions<T>::operator()(network, parameters, index, view, real, scale);
  }
};

// Calls visit(first, stride, rows, numbers of a row) for each tensor of a network's parameters.
template <class Visit>
void for_tensors(const Network& network, const Visit& visit) {
  for (int l = 0; l < network.num_layers; ++l) {
    const Layer& layer = network.layers[l];
    if (layer.is_dense()) visit(layer.weight, layer.stride(), layer.outputs, layer.inputs);
    if (layer.kind == LayerKind::layer_norm) visit(layer.weight, 0, 1, layer.outputs);
    if (layer.is_dense() || layer.kind == LayerKind::layer_norm) visit(layer.bias, 0, 1, layer.outputs);
  }
  visit(network.log_std, 0, 1, network.own_deviations());
}

template <class T>
void cloning(const std::vector<int>& sizes) {
  const int samples = sizes.at(0), steps = sizes.at(3);
  PolicyConfig config;
  config.hidden.assign(sizes.begin() + 14, sizes.end());
  config.activation = static_cast<ActivationChoice>(sizes.at(4));
  config.layer_norm = sizes.at(5) == 1;
  config.recurrent = static_cast<Recurrence>(sizes.at(6));
  config.recurrent_layers = sizes.at(7);
  config.recurrent_units = sizes.at(8);
  config.squash_actions = sizes.at(11) == 1;
  config.state_dependent_std = sizes.at(12) == 1;
  config.std_transform = sizes.at(13) == 1 ? StdTransform::softplus : StdTransform::exp;
  config.min_std = sizes.at(13) == 1 ? 0.01 : 0;
  PolicySizes of_policy;
  of_policy.observations = sizes.at(1);
  of_policy.actions = sizes.at(2);
  of_policy.modes = sizes.at(10);
  of_policy.critic = false;
  const Network network = make_network(config, of_policy, 1 << 20);
  const DemonstratedLayout layout(network.sizes);
  const TileScratch scratch = make_scratch(network, SampleLayout(network.sizes), steps);

  std::vector<T> parameters(static_cast<std::size_t>(network.parameters));
  for_tensors(network, [&](std::int64_t first, std::int64_t stride, int rows, int count) {
    for (int row = 0; row < rows; ++row) {
      const std::vector<T> numbers = read<T>(count);
      std::copy(numbers.begin(), numbers.end(), parameters.begin() + first + row * stride);
    }
  });
  const Numbers<T> weights = device_of(parameters);
  const std::int64_t tiles = (samples + kTileWidth - 1) / kTileWidth;
  const auto place = [&](int sample, int step, int elements, int element) {
    return static_cast<std::size_t>(((step * tiles + sample / kTileWidth) * elements + element) * kTileWidth +
                                    sample % kTileWidth);
  };
  std::vector<T> blocks(static_cast<std::size_t>(steps * tiles * layout.elements * kTileWidth));
  for (const auto& [first, count] :
       {std::pair{layout.observation, of_policy.observations}, {layout.action, of_policy.actions}})
    for (int sample = 0; sample < samples; ++sample)
      for (int step = 0; step < steps; ++step) {
        const std::vector<T> numbers = read<T>(count);
        for (int k = 0; k < count; ++k)
          blocks[place(sample, step, layout.elements, first + k)] = numbers[static_cast<std::size_t>(k)];
        blocks[place(sample, step, layout.elements, layout.weight)] = 1;
      }
  const Numbers<T> samples_of_steps = device_of(blocks);
  int outputs = 0;
  for (int l = 0; l < network.num_layers; ++l)
    if (network.layers[l].is_dense()) outputs = network.layers[l].outputs;
  const Numbers<T> shown("shown", static_cast<std::size_t>(steps * tiles * outputs * kTileWidth)),
      memory = device_of(
          std::vector<T>(static_cast<std::size_t>(scratch.elements), std::numeric_limits<T>::quiet_NaN()));
  const Numbers<double> totals("totals",
                               static_cast<std::size_t>(minibatch_totals(network, kNumCloningMetrics)));
  const Kokkos::View<std::int32_t*, MemorySpace> order("order", static_cast<std::size_t>(tiles));

  TrainMinibatch<T, LaneDense, ShownCloning<T>> train;
  train.network = network;
  train.scratch = scratch;
  train.loss.layout = layout;
  train.loss.kind = static_cast<CloningLoss>(sizes.at(9));
  train.loss.squash_actions = config.squash_actions;
  train.loss.shown = shown.data();
  train.loss.outputs = outputs;
  train.parameters = weights.data();
  train.memory = memory.data();
  train.blocks = samples_of_steps.data();
  train.order = order.data();
  train.tiles = train.deal.num_tiles = tiles;
  train.envs = samples;
  train.first_state = TiledView<T>("state", tiles, network.state_units);
  train.deal.steps = steps;
  train.scale = 1.0 / (samples * steps);
  train.exact = false;
  train.totals = totals.data();
  for_tiles("test", tiles, 1, train);
  Kokkos::fence();

  const std::vector<T> given = host_of(shown);
  std::vector<T> result;
  for (int sample = 0; sample < samples; ++sample)
    for (int step = 0; step < steps; ++step)
      for (int k = 0; k < outputs; ++k) result.push_back(given[place(sample, step, outputs, k)]);
  const std::vector<double> sums = host_of(totals);
  result.push_back(static_cast<T>(sums[static_cast<std::size_t>(network.parameters + kCloningLoss)]));
  for_tensors(network, [&](std::int64_t first, std::int64_t stride, int rows, int count) {
    for (int row = 0; row < rows; ++row)
      for (int k = 0; k < count; ++k)
        result.push_back(static_cast<T>(sums[static_cast<std::size_t>(first + row * stride + k)]));
  });
  write(result);
}

// A dense layer of a policy: weight, bias, x, y_delta -> y, x_delta, weight_delta, bias_delta.
template <class T, class Dense>
void dense_layer(const std::vector<int>& sizes) {
  DenseLayer layer;
  layer.inputs = sizes.at(1);
  layer.outputs = sizes.at(2);
  layer.bias = layer.outputs * layer.stride();
  std::vector<T> parameters(static_cast<std::size_t>(layer.bias + padded_parameters(layer.outputs)));
  const auto for_rows = [&](const auto& visit) {
    for (int row = 0; row < layer.outputs; ++row) visit(row * layer.stride(), layer.inputs);
    visit(layer.bias, layer.outputs);
  };
  for_rows([&](std::int64_t first, int count) {
    const std::vector<T> numbers = read<T>(count);
    std::copy(numbers.begin(), numbers.end(), parameters.begin() + first);
  });
  Map<T> x(sizes.at(0), layer.inputs, 1), y(sizes.at(0), layer.outputs, 1), x_delta = x.fresh(),
                                                                            y_delta = y.fresh();
  x.from_input();
  y_delta.from_input(true);
  const Numbers<T> numbers = device_of(parameters), gradient("gradient", parameters.size()),
                   transposed("transposed", static_cast<std::size_t>(layer.stride() * kTileWidth));
  const FeatureMap<T> in = x.map(), out = y.map(), in_delta = x_delta.map(), out_delta = y_delta.map();
  for_tiles(
      "test", x.tiles, 1, MANIPLE_LAMBDA(const TileTeam& team, std::int64_t tile, int) {
        Dense::forward(team, layer, numbers.data(), in.at(tile, 0), out.at(tile, 0));
        Dense::backward(team, layer, numbers.data(), out_delta.at(tile, 0), in.at(tile, 0),
                        in_delta.at(tile, 0));
        Dense::gradient(team, layer, in.at(tile, 0), out_delta.at(tile, 0), transposed.data(),
                        gradient.data());
      });
  Kokkos::fence();
  y.to_output();
  x_delta.to_output();
  const std::vector<T> gradients = host_of(gradient);
  for_rows([&](std::int64_t first, int count) {
    write(std::vector<T>(gradients.begin() + first, gradients.begin() + first + count));
  });
}

template <class T>
void run(const std::string& mode, const std::vector<int>& sizes) {
#ifdef MANIPLE_BFLOAT16
  if constexpr (std::is_same_v<T, float>)
    if (rounded_products && mode == "dense") return dense_layer<T, BfloatDense>(sizes);
#endif
  if (mode == "dense") return dense_layer<T, LaneDense>(sizes);
  if (mode == "policy") return cloning<T>(sizes);
  if (mode == "conv") return convolution<T>(sizes);
  if (mode == "norm") return normalization<T>(sizes);
  if (mode == "embedding") return embedding<T>(sizes);
  if (mode == "unet" || mode == "time") return WholeNet<T>(sizes).run(mode);
  if (mode != "tensors") throw std::runtime_error("unknown mode " + mode);
  write_names(ConditionalUnet<T>(shape_of(sizes), 1, false).tensors());
}

}  // namespace
}  // namespace maniple

int main(int argc, char** argv) {
  return maniple::run_tool(argc, argv,
                           [](const std::string& mode, auto precision, const std::vector<int>& sizes) {
                             maniple::run<decltype(precision)>(mode, sizes);
                           });
}
