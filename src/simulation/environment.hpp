// The batch of environments as learning sees it: actions in, observations, rewards and flags out, all
// in tiles on the device, all in single precision whatever the physics uses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/tiles.hpp"
#include "src/io/archive.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

class Environment {
 public:
  virtual ~Environment() = default;

  virtual const Partition& partition() const = 0;
  virtual int num_observations() const = 0;
  virtual int num_actions() const = 0;
  virtual double step_dt() const = 0;                  // s per control step
  virtual std::int64_t max_episode_steps() const = 0;  // 0: endless
  virtual const std::vector<std::string>& reward_terms() const = 0;

  // All environments into a fresh episode; fills observation().
  virtual void reset() = 0;
  // Episode counters uniformly in [0, max): spreads time-outs over the first episode.
  virtual void randomize_episode_steps() = 0;
  // One control step: apply action(), decimated physics, terminations, rewards, resets, observations.
  virtual void step() = 0;

  // [tile][n][32], valid after reset() or step().
  virtual TiledView<float> action() = 0;             // written by the caller before step()
  virtual TiledView<float> observation() const = 0;  // of the state after the step (and after resets)
  virtual TiledView<float> reward() const = 0;       // [1]
  virtual TiledView<float> reward_term() const = 0;  // [number of terms], weighted, summing to reward
  virtual TiledView<float> terminated() const = 0;   // [1], 0 or 1
  virtual TiledView<float> truncated() const = 0;    // [1], 0 or 1
  // [1], 0 or 1: the step is not to be learned from. Its state was not finite or too large (which also ends
  // the episode, as a failure without a reward), or a reward was.
  virtual TiledView<float> invalid() const = 0;
  // Of the running episode before a reset took effect: return and length, [1] each.
  virtual TiledView<float> episode_return() const = 0;
  virtual TiledView<float> episode_length() const = 0;
  virtual TiledView<float> episode_reward_term() const = 0;  // [number of terms]

  // Environments that were reset because their state was not finite or too large, so far, this rank.
  virtual std::int64_t bad_states() const = 0;
  // Everything that a restart needs; on a GPU the entries are host copies made by this call.
  virtual void describe(Archive& archive) = 0;
  // After a checkpoint was loaded into the entries of describe(): brings them to the device.
  virtual void restored() {}
  // "physics", "task" seconds so far.
  virtual std::vector<std::pair<std::string, double>> stage_seconds() const = 0;
};

}  // namespace maniple
