// Proximal policy optimisation (Schulman et al. 2017) over a batch of environments that is divided among
// ranks, with the two published settings of Isaac Lab's tasks: rl_games' and rsl_rl's. All ranks hold
// equal parameters and apply equal steps; what is summed over environments is summed exactly
// (learning.reduction: exact), so a run has the same bits on any number of ranks.
//
// Where this departs from those programs:
// - Minibatches take whole steps of every tile of 32 environments, dealt anew in each epoch; rl_games
//   keeps contiguous slices of environments for all epochs, rsl_rl shuffles single samples.
// - Both adapt the learning rate after each minibatch (rl_games' schedule_type "legacy"; its "standard" is
//   lr_per_minibatch = false). The adapted rate serves this minibatch's own step, as in rsl_rl; in rl_games
//   it serves the next one.
// - KL is the exact KL(old || new) of the Gaussians, without the 1e-5 that both add inside.
// - The value loss is half the squared error: value_coef is rl_games' critic_coef and twice rsl_rl's
//   value_loss_coef. The standard deviation is learned as its logarithm; rsl_rl learns it directly.
// - All biases start at zero (rl_games); Adam's epsilon is 1e-8.
// - A normaliser of observations takes in an iteration's observations after its update, so that the
//   rollout and the update see equal inputs.
// - An invalid step (its state or reward was not finite or too large) has no weight in any sum, and the
//   rollout of its environment is cut before it; it is counted. An episode that ends in one is not averaged.
// - A minibatch whose sums are not finite, or too large to be exact, makes no step; it is counted.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/timing.hpp"
#include "src/learning/policy.hpp"
#include "src/parallel/collectives.hpp"
#include "src/simulation/environment.hpp"

namespace maniple {

// What one iteration did; the same values in the same order every time.
struct IterationReport {
  struct Value {
    std::string name, unit, description;
    double value = 0;
  };
  std::vector<Value> values;
  double episode_return = 0;  // mean over the episodes that ended; the last known mean if none did
  double episode_length = 0;  // control steps
  std::int64_t invalid_samples = 0;
};

// What training takes on a rank beside its environments, known before anything is allocated.
struct TrainingMemory {
  std::size_t network_bytes = 0;   // parameters, their gradients and moments, scratch: whatever the batch
  std::size_t rollout_bytes = 0;   // the steps of an iteration
  std::size_t snapshot_bytes = 0;  // parameters and moments of the last finished iteration
};
TrainingMemory training_memory(const Config& config, int observations, int actions, int reward_terms,
                               std::int64_t tiles);

class Ppo {
 public:
  // Allocates the rollout. The environment and the collectives must outlive this.
  Ppo(Environment& environment, const Config& config, Collectives& collectives);

  // Begins training: all environments into a fresh episode.
  void start();
  // One iteration: a rollout of `horizon` steps and the epochs of updates on it. Collective.
  // `between_steps` is called after each control step and each minibatch; what it throws, on every rank at
  // the same call, ends the iteration half-way, and the state is then good for nothing.
  IterationReport iterate(const std::function<void()>& between_steps = [] {});
  // Names, units and descriptions of what iterate() reports, with zeros.
  IterationReport report_names() const;

  // Everything a bit-exact restart needs beyond what the environment itself describes.
  void describe(Archive& archive);
  // After the entries of describe() were loaded.
  void restored();

  Policy& policy() { return policy_; }
  double learning_rate() const { return learning_rate_; }
  std::int64_t iteration() const { return iteration_; }
  // "policy", "update" and "communication" seconds so far.
  const std::vector<std::pair<std::string, double>>& stage_seconds() const { return clock_.seconds(); }

 private:
  struct EpisodeMeans;
  struct UpdateSums;

  template <class Dense>
  void roll_out(const std::function<void()>& between_steps);
  template <class Dense>
  void estimate_advantages();
  template <class Dense>
  UpdateSums update(const std::function<void()>& between_steps);
  void step_optimizer(UpdateSums& sums, double kl);
  void finish_statistics();
  void merge_observations();
  // Sums the workers' rows of `totals` and those of all ranks; returns a host copy of the sums from
  // `first` on.
  std::vector<double> reduce(const Kokkos::View<double*, MemorySpace>& totals, std::int64_t count,
                             std::int64_t first);
  IterationReport report(const UpdateSums& sums) const;

  Environment& environment_;
  const Config config_;
  Collectives& collectives_;
  Partition partition_;
  Policy policy_;
  int workers_;
  StageClock clock_;

  Kokkos::View<float*, MemorySpace> blocks_;             // [step][tile][layout.elements][32]
  Kokkos::View<float*, MemorySpace> reference_log_std_;  // [step][tile][actions]
  Kokkos::View<std::int32_t*, MemorySpace> order_;       // [tile][horizon]
  Kokkos::View<double*, MemorySpace> totals_;            // [worker][minibatch_totals]
  Kokkos::View<double*, MemorySpace> statistics_;        // [worker][terms + 5], see Record
  Kokkos::View<double*, MemorySpace> observation_moments_, advantage_moments_;
  Kokkos::View<float*, MemorySpace> fast_sums_;
  Kokkos::View<double*, MemorySpace> norm_blocks_;
  Kokkos::View<float*, MemorySpace> moment1_, moment2_;  // Adam's
  Kokkos::View<float*, MemorySpace>::HostMirror moment1_host_, moment2_host_;

  TiledView<float> unused_action_;  // of the last observation, which is valued but not acted on

  std::int64_t iteration_ = 0;
  std::int64_t optimizer_steps_ = 0;
  double learning_rate_;
  double advantage_mean_ = 0, advantage_scale_ = 1;
  std::int64_t invalid_samples_ = 0;   // of the last iteration
  std::int64_t inexact_sums_ = 0;      // statistics that were too large to be exact, so far
  std::vector<double> episode_means_;  // return, length, terms: of the last iteration that ended episodes
};

}  // namespace maniple
