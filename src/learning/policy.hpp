// The policy: an actor-critic network with a Gaussian head or a mixture of Gaussians, its parameters on the
// device and, on request, a running normalization of observations. Parameters are equal on all ranks.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "kernels/nn/acting.hpp"
#include "src/config/config.hpp"
#include "src/learning/acting_policy.hpp"
#include "src/learning/cameras.hpp"
#include "src/learning/data_normalization.hpp"
#include "src/learning/dense_blas.hpp"
#include "src/learning/optimizer.hpp"
#include "src/learning/running_moments.hpp"

namespace maniple {

// What a worker needs for acting and for learning from a tile, of a recurrent network from all steps of it.
// `by_blocks`: learning by blocks of fewer samples than a tile.
TileScratch make_scratch(const Network& network, const SampleLayout& layout, int steps,
                         bool by_blocks = false);
// How many steps of a tile learning keeps at a time: those of a rollout or of a sequence of demonstrations,
// or, for gradients by blocks, as many as a cache holds.
int steps_of_tile(const Config& config);
// Bytes on each rank of a policy that `workers` workers act or learn with.
std::size_t policy_bytes(const Config& config, const Network& network, int workers);

// Mean and variance of every observation since the start of training. The batch's moments are exact sums, so
// all ranks hold the same numbers.
struct ObservationNormalizer {
  std::vector<double> mean, variance;
  double count = 1;  // starts as one observation at 0 with variance 1, as in rl_games

  explicit ObservationNormalizer(int observations) : mean(observations, 0.0), variance(observations, 1.0) {}
  // Takes in `samples` observations given the means of z and z^2, where z = (x - mean) * scale with the
  // numbers that the kernels used.
  void merge(const std::vector<double>& z_mean, const std::vector<double>& z_square_mean, double samples,
             const std::vector<float>& used_mean, const std::vector<float>& used_scale);
};

class Policy : public ActingPolicy {
 public:
  // `cameras`: encoders whose features are the policy's last observations, and whose parameters are its
  // first; they outlive it. Null: it sees no images.
  Policy(const Config& config, const PolicySizes& sizes, CameraEncoders* cameras = nullptr);

  // The states of recurrent cells at the beginning of episodes; no elements where there are no such cells.
  TiledView<float> fresh_states(std::int64_t tiles) const;

  bool remembers() const override { return network_.recurrent(); }
  // The states of recurrent cells begin at zero.
  std::unique_ptr<PolicyRunner> act_in(Environment& environment) override;
  // Everything a restart or an evaluation needs.
  void describe(Archive& archive) override;
  void restored() override;
  // What another run begins with; where this one normalizes nothing, also the units of a policy of imitate.
  void describe_warm_start(Archive& archive);
  // After its entries were loaded. `cloned`: by imitate, whose units go into the actor's first and last
  // layers, so that it acts as it did, with the deviation of policy.init_std. What had no entry stays as it
  // is.
  void warm_started(bool cloned);

  const Network& network() const { return network_; }
  const SampleLayout& layout() const { return layout_; }
  const TileScratch& scratch() const { return scratch_; }
  // The parameters of the encoders of cameras, and then those of the network.
  const Kokkos::View<float*, MemorySpace>& parameters() const { return parameters_; }
  const Kokkos::View<float*, MemorySpace>& network_parameters() const { return network_parameters_; }
  bool uses_library() const { return library_; }
  bool normalizes() const { return imitates_ || config_.normalize_observations; }
  // The units of the data, of a policy from demonstrations.
  const DataNormalization& normalization() const { return normalization_; }
  // Control steps after which the states of recurrent cells begin again; 0: only when an episode ends.
  int state_horizon() const { return config_.recurrent_horizon; }
  void set_normalization(const DataNormalization& normalization);
  // What policy.min_std and max_std make of the log standard deviations that are parameters.
  ParameterBounds deviation_bounds() const;
  // Current log standard deviations.
  std::vector<float> log_std() const;

  // Scratch for this many workers, enough for acting and training.
  float* memory(int workers);
  // The memory that acting needs beside the batch itself.
  template <class Dense>
  Act<float, Dense> actor(int workers);
  // Merges the moments of an iteration's observations and moves the kernels' copies.
  void merge_observations(const std::vector<double>& z_mean, const std::vector<double>& z_square_mean,
                          double samples);
  // From now on the critic gives factor * (what it gave) + offset.
  void rescale_values(double factor, double offset);

 private:
  void upload_normalizer();

  PolicyConfig config_;
  const bool imitates_;
  CameraEncoders* const cameras_;
  Network network_;
  SampleLayout layout_;
  TileScratch scratch_;
  bool library_ = false;
  Kokkos::View<float*, MemorySpace> parameters_, memory_;
  Kokkos::View<float*, MemorySpace> network_parameters_;  // a part of them
  Kokkos::View<float*, MemorySpace>::HostMirror parameters_host_;
  ObservationNormalizer normalizer_;
  DataNormalization
      normalization_;  // in place of the normalizer, where the policy imitates or begins with one that did
  Kokkos::View<float*, MemorySpace> normal_mean_, normal_scale_, action_mean_, action_scale_;
  std::vector<float> used_mean_, used_scale_;
};

// Begins the states again where the last step ended an episode, or left its environment's rollout invalid.
// `ages`: the steps that the states of each environment have seen; with them also where these are `horizon`.
void forget_states(const Environment& environment, const TiledView<float>& states,
                   const TiledView<float>& ages = {}, int horizon = 0);

template <class Dense>
Act<float, Dense> Policy::actor(int workers) {
  Act<float, Dense> act;
  act.network = network_;
  act.layout = layout_;
  act.scratch = scratch_;
  act.parameters = network_parameters_.data();
  act.memory = memory(workers);
  act.clip_observations = static_cast<float>(config_.clip_observations);
  act.squash_actions = config_.squash_actions;
  act.clip_actions = static_cast<float>(config_.clip_actions);
  act.clip_normalized =
      imitates_ ? std::numeric_limits<float>::max() : static_cast<float>(config_.clip_normalized);
  if (imitates_) {
    act.action_mean = action_mean_.data();
    act.action_scale = action_scale_.data();
  }
  if (normalizes()) {
    act.normal_mean = normal_mean_.data();
    act.normal_scale = normal_scale_.data();
  }
  return act;
}

}  // namespace maniple
