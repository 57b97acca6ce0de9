// The batch of environments as learning sees it: actions in, observations, rewards and flags out, all
// in tiles on the device, all in single precision whatever the physics uses (files get the run's).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/tiles.hpp"
#include "kernels/tasks/task_fields.hpp"
#include "src/io/archive.hpp"
#include "src/parallel/collectives.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

class Environment {
 public:
  virtual ~Environment() = default;

  virtual const Partition& partition() const = 0;
  virtual int num_observations() const = 0;
  virtual int num_actions() const = 0;
  virtual std::int64_t max_episode_steps() const = 0;  // 0: endless
  virtual const std::vector<std::string>& reward_terms() const = 0;
  // Names of numbers about an episode beside its rewards: "termination_time_out", "metric_speed".
  virtual const std::vector<std::string>& metrics() const = 0;

  // Starts a new episode in all environments; fills observation().
  virtual void reset() = 0;
  // From now on environments stay in the rows of the terrain that they are in.
  virtual void hold_terrain_levels() {}
  // Sets episode counters uniformly in [0, max), which spreads time-outs over the first episode.
  virtual void randomize_episode_steps() = 0;
  // One control step: apply action(), decimated physics, terminations, rewards, resets, observations.
  virtual void step() = 0;

  // The action of a step and its results, [tile][n][32]; results are valid after reset() or step(). Steps
  // with `invalid` are not to be learned from: their state was not finite or too large (which also ends the
  // episode, as a failure without a reward), or a reward was. The sums of an episode are those before a reset
  // took effect.
  virtual const Transition<TiledView<float>>& transition() const = 0;
  // Its fields, action() (written by the caller before step()), observation(), reward() and so on.
#define MANIPLE_FIELD(name, size, use, unit, description) \
  const TiledView<float>& name() const {                  \
    return transition().name;                             \
  }
  MANIPLE_TRANSITION_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD

  // From now on every step fills final_observation(), too, and that of the critic.
  virtual void keep_final_observation() = 0;

  // Lets the task's curricula follow these metrics of a training, the same on every rank, and means over the
  // environments as they are now. Collective.
  virtual void advance_curricula(const std::map<std::string, double>&, Collectives&) {}
  // The numbers of learning that follow these metrics and the curricula (learning.curricula), by the names of
  // their keys; not those that come to no number yet.
  virtual std::map<std::string, double> learning_numbers(const std::map<std::string, double>&) const {
    return {};
  }
  // Their names and values.
  virtual std::vector<std::pair<std::string, double>> curricula() const {
    return {};
  }
  // How evenly episodes begin in all parts of the reference motion, where adaptive sampling decides: 1 in all
  // alike, 0 in one.
  virtual std::optional<double> motion_sampling_entropy() const {
    return std::nullopt;
  }
  // The values of curricula() of another batch of this task.
  virtual void set_curricula(const std::vector<std::pair<std::string, double>>&) {}
  // The part of describe() that these values are, for who needs nothing else of the environments.
  virtual void describe_curricula(Archive&) {}

  // Environments that were reset because their state was not finite or too large, so far, this rank.
  virtual std::int64_t bad_states() const = 0;
  // Everything that a restart needs; on a GPU the entries are host copies made by this call.
  virtual void describe(Archive& archive) = 0;
  // Copies the entries of describe(), or of describe_curricula(), to the device, after a checkpoint was
  // loaded into them.
  virtual void restored() {}
  // "physics", "task" seconds so far.
  virtual std::vector<std::pair<std::string, double>> stage_seconds() const = 0;
};

}  // namespace maniple
