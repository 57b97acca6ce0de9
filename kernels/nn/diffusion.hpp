// Diffusion of action sequences (Ho et al. 2020; Chi et al. 2023): noise is added to demonstrated actions, a
// network learns to predict it, and the policy acts by removing it step by step from pure noise. The array of
// a tile's sequences is [frame][action][32], the denoising network's layout. All draws are functions of seed,
// sample or environment, update or control step, and element: never of ranks or of the place in a tile.
#pragma once

#include "kernels/base/tiles.hpp"
#include "kernels/nn/exact_totals.hpp"
#include "kernels/nn/gaussian.hpp"
#include "kernels/nn/tile_team.hpp"

namespace maniple {

enum class NoisePrediction : int {
  epsilon,  // the network predicts the noise that was added
  sample,   // or the sequence without it
};

// First element of each quantity of a tile's demonstrated samples.
struct SequenceLayout {
  int action = 0;  // the sequence, as the network takes it
  int condition = 0;
  int weight = 0;  // 1, or 0: no sample
  int elements = 0;

  SequenceLayout() = default;
  SequenceLayout(int sequence, int conditions)
      : condition(sequence), weight(sequence + conditions), elements(weight + 1) {}
};

// And of what the network is given and gives.
struct DenoisingLayout {
  int noisy = 0, target = 0, prediction = 0, delta = 0;  // of `sequence` elements each
  int step = 0;
  int sequence = 0, elements = 0;

  DenoisingLayout() = default;
  explicit DenoisingLayout(int elements_of_sequence)
      : target(elements_of_sequence),
        prediction(2 * elements_of_sequence),
        delta(3 * elements_of_sequence),
        step(4 * elements_of_sequence),
        sequence(elements_of_sequence),
        elements(4 * elements_of_sequence + 1) {}
};

// A sample's diffusion step, uniform, its noise, and what the network is to predict of it.
template <class T>
struct AddNoise {
  SequenceLayout data;
  DenoisingLayout layout;
  const T* samples = nullptr;  // [tile][data.elements][32]
  T* blocks = nullptr;         // [tile][layout.elements][32]
  const T* signal = nullptr;   // [steps]: what a sequence is multiplied by at a step,
  const T* noise = nullptr;    // and its noise
  int steps = 0;
  NoisePrediction prediction = NoisePrediction::epsilon;
  std::uint32_t seed = 0, update = 0;
  std::int64_t first_sample = 0;  // of this rank, in the batch of all ranks

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int) const {
    using V = Lanes<T>;
    const T* const own = samples + tile * data.elements * kTileWidth;
    T* const block = blocks + tile * layout.elements * kTileWidth;
    const std::int64_t first = first_sample + tile * kTileWidth;
    team.lanes<V, 1>([&](int lane) {
      V step, of_signal, of_noise;
      for (int l = 0; l < lane_width<V>; ++l) {
        const PhiloxBlock random = random_block(seed, RandomPurpose::diffusion_step,
                                                static_cast<std::uint64_t>(first + lane + l), update, 0);
        const int drawn = static_cast<int>(
            static_cast<std::uint64_t>(random.word[0]) * static_cast<std::uint64_t>(steps) >> 32);
        set_lane(step, l, static_cast<T>(drawn));
        set_lane(of_signal, l, signal[drawn]);
        set_lane(of_noise, l, noise[drawn]);
      }
      const Varying<V> out = tile_field<V>(block, 0, lane);
      out[layout.step] = step;
      for (int e = 0; e < layout.sequence; ++e) {
        const V clean = *reinterpret_cast<const V*>(own + (data.action + e) * kTileWidth + lane);
        const V z = normal_noise<V>(
            seed, RandomPurpose::diffusion_noise,
            [&](int l) { return static_cast<std::uint64_t>(first + lane + l); }, update, e);
        out[layout.noisy + e] = multiply_add(of_signal, clean, of_noise * z);
        out[layout.target + e] = prediction == NoisePrediction::epsilon ? z : clean;
      }
    });
  }
};

// The mean squared error of predictions, over elements and samples, and its derivatives.
template <class T>
struct DenoisingLoss {
  SequenceLayout data;
  DenoisingLayout layout;
  const T* samples = nullptr;
  T* blocks = nullptr;
  TileSamples real;
  double scale = 0;        // 1 / samples of the batch, over all ranks, times Optimizer::scale()
  double* sums = nullptr;  // [tile][32 / block]: of the loss, times scale

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int) const {
    using V = Lanes<T>;
    const T* const weights = samples + (tile * data.elements + data.weight) * kTileWidth;
    T* const block = blocks + tile * layout.elements * kTileWidth;
    const T share = static_cast<T>(scale / layout.sequence);
    team.of_lanes(real.width<V>(tile)).template lanes<V, 1>([&](int lane) {
      const V weight = *reinterpret_cast<const V*>(weights + lane) * V(share);
      const Varying<V> own = tile_field<V>(block, 0, lane);
      V loss(T(0));
      for (int e = 0; e < layout.sequence; ++e) {
        const V error = own[layout.prediction + e] - own[layout.target + e];
        loss = multiply_add(error, error, loss);
        own[layout.delta + e] = V(T(2)) * weight * error;
      }
      own[layout.target] = loss * weight;  // (nobody reads the target any more)
    });
    team.barrier();
    if (!team.leads()) return;
    const T* const losses = block + layout.target * kTileWidth;
    for (int i = 0; i < kTileWidth / real.block; ++i) {
      double sum = 0;
      for (int lane = i * real.block; i < real.blocks(tile) && lane < (i + 1) * real.block; ++lane)
        sum += static_cast<double>(losses[lane]);
      sums[tile * (kTileWidth / real.block) + i] = sum;
    }
  }
};

// From a sequence at one step to that at the step before it, given a prediction p at x:
// x0 = clean_of_x x + clean_of_prediction p, clipped to +- clip (0: not);
// next = of_clean x0 + of_x x + of_prediction p + of_noise z with normal numbers z.
struct DenoisingStep {
  double step = 0;
  double clean_of_x = 0, clean_of_prediction = 0, clip = 0;
  double of_clean = 0, of_x = 0, of_prediction = 0, of_noise = 0;
};

// Noise to begin with (`begins`), or one step's denoising, of the action sequences of these environments.
template <class T>
struct Denoise {
  DenoisingLayout layout;
  T* blocks = nullptr;                 // [tile][layout.elements][32]
  const std::int64_t* envs = nullptr;  // [tile][32], of all ranks; -1: none
  bool begins = false;
  DenoisingStep coefficients = {};
  double next_step = 0;  // for which the network is asked next
  int number = 0;        // of the step, counted from 1; 0 begins
  std::uint32_t seed = 0, control_step = 0;

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int) const {
    using V = Lanes<T>;
    T* const block = blocks + tile * layout.elements * kTileWidth;
    const std::int64_t* const own = envs + tile * kTileWidth;
    const auto constant = [](double x) { return V(static_cast<T>(x)); };
    team.lanes<V, 1>([&](int lane) {
      const Varying<V> at = tile_field<V>(block, 0, lane);
      at[layout.step] = constant(next_step);
      for (int e = 0; e < layout.sequence; ++e) {
        V z(T(0));
        if (begins || coefficients.of_noise > 0)
          z = normal_noise<V>(
              seed, RandomPurpose::denoising,
              [&](int l) { return static_cast<std::uint64_t>(own[lane + l]); }, control_step,
              number * layout.sequence + e);
        if (begins) {
          at[layout.noisy + e] = z;
          continue;
        }
        const V x = at[layout.noisy + e], p = at[layout.prediction + e];
        V clean = constant(coefficients.clean_of_x) * x + constant(coefficients.clean_of_prediction) * p;
        if (coefficients.clip > 0)
          clean = clamp(clean, constant(-coefficients.clip), constant(coefficients.clip));
        at[layout.noisy + e] = constant(coefficients.of_clean) * clean + constant(coefficients.of_x) * x +
                               constant(coefficients.of_prediction) * p + constant(coefficients.of_noise) * z;
      }
    });
  }
};

// What an environment's policy remembers; zeros at the beginning of an episode.
struct ActionSequenceLayout {
  int begun = 0;     // 1: observations are there
  int left = 1;      // actions of the sequence that are still to be taken
  int history = 2;   // observations, as the network takes them: [observation_horizon][observations]
  int sequence = 2;  // actions as they act: [action_horizon][actions]
  int elements = 0;
  int observations = 0, observation_horizon = 0, actions = 0, action_horizon = 0;

  ActionSequenceLayout() = default;
  ActionSequenceLayout(int seen, int frames, int done, int horizon)
      : sequence(history + seen * frames),
        elements(sequence + done * horizon),
        observations(seen),
        observation_horizon(frames),
        actions(done),
        action_horizon(horizon) {}
};

// Takes in an observation; at the beginning of an episode it stands for those before it, too.
template <class T>
struct RememberObservation {
  ActionSequenceLayout layout;
  TiledView<T> observation, memory;
  Kokkos::View<const T*, MemorySpace> mean, scale;

  MANIPLE_FUNCTION void operator()(std::int64_t env) const {
    const bool begun = memory.at(env, layout.begun) != T(0);
    const int frames = layout.observation_horizon, size = layout.observations;
    for (int i = 0; i < size; ++i) {
      const T seen = (observation.at(env, i) - mean(i)) * scale(i);
      for (int frame = 0; frame < frames; ++frame) {
        const int place = layout.history + frame * size + i;
        memory.at(env, place) = frame + 1 < frames && begun ? memory.at(env, place + size) : seen;
      }
    }
    memory.at(env, layout.begun) = T(1);
  }
};

// The observations that action sequences are conditioned on, of the environments of this rank that need one.
template <class T>
struct GatherConditions {
  ActionSequenceLayout layout;
  TiledView<T> memory;
  const std::int64_t* envs = nullptr;  // [place], of this rank; -1: none
  T* conditions = nullptr;             // [tile][history][32] of the places

  MANIPLE_FUNCTION void operator()(std::int64_t place) const {
    const int size = layout.observation_horizon * layout.observations;
    T* const to = conditions + place / kTileWidth * size * kTileWidth + place % kTileWidth;
    for (int i = 0; i < size; ++i)
      to[i * kTileWidth] = envs[place] < 0 ? T(0) : memory.at(envs[place], layout.history + i);
  }
};

// Stores the action sequences: the actions of a predicted sequence, from that of the latest observation on.
template <class T>
struct StoreActionSequences {
  ActionSequenceLayout layout;
  DenoisingLayout denoising;
  TiledView<T> memory;
  const std::int64_t* envs = nullptr;
  const T* blocks = nullptr;  // [tile][denoising.elements][32] of the places
  Kokkos::View<const T*, MemorySpace> mean, scale;

  MANIPLE_FUNCTION void operator()(std::int64_t place) const {
    const std::int64_t env = envs[place];
    if (env < 0) return;
    const T* const from = blocks + place / kTileWidth * denoising.elements * kTileWidth + place % kTileWidth;
    for (int step = 0; step < layout.action_horizon; ++step)
      for (int k = 0; k < layout.actions; ++k) {
        const int element = (layout.observation_horizon - 1 + step) * layout.actions + k;
        memory.at(env, layout.sequence + step * layout.actions + k) =
            mean(k) + scale(k) * from[(denoising.noisy + element) * kTileWidth];
      }
    memory.at(env, layout.left) = static_cast<T>(layout.action_horizon);
  }
};

// Takes the next action of each sequence.
template <class T>
struct TakeActions {
  ActionSequenceLayout layout;
  TiledView<T> memory, action;

  MANIPLE_FUNCTION void operator()(std::int64_t env) const {
    const int left = static_cast<int>(memory.at(env, layout.left));
    if (left == 0) return;  // of padding
    const int step = layout.action_horizon - left;
    for (int k = 0; k < layout.actions; ++k)
      action.at(env, k) = memory.at(env, layout.sequence + step * layout.actions + k);
    memory.at(env, layout.left) = static_cast<T>(left - 1);
  }
};

// ema = decay ema + (1 - decay) parameter.
template <class T, class View>
void average_parameters(double decay, const View& parameters, const View& averages) {
  const T kept = static_cast<T>(decay), taken = static_cast<T>(1 - decay);
  Kokkos::parallel_for(
      "maniple::average_parameters",
      Kokkos::RangePolicy<ExecutionSpace>(0, static_cast<std::int64_t>(parameters.extent(0))),
      MANIPLE_LAMBDA(std::int64_t i) { averages(i) = kept * averages(i) + taken * parameters(i); });
}

}  // namespace maniple
