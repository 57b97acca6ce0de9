// The interface of a learner, which a training loop runs (src/driver/training_loop.hpp): it improves by
// iterations, from environments or from a data set. The loop owns everything else: checkpoints, metrics,
// progress, early stops.
//
// To add a learner, write a class with this interface, give it a row in learners.cpp, and name it among the
// choices of learning.algorithm (src/config/schema.cpp). Keys of its own are members of LearningConfig
// (src/config/config.hpp) with a row each in the schema.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/io/archive.hpp"
#include "src/learning/cameras.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

class ActingPolicy;
struct WarmStart;  // src/io/checkpoint_reader.hpp

// The metrics of one iteration: the same values in the same order every time.
struct IterationReport {
  struct Value {
    std::string name, unit, description;
    double value = 0;
    bool reproducible = true;  // false: wall clock and the like
  };
  std::vector<Value> values;         // the rows of /metrics
  std::string summary;               // of the progress line: what a user watches
  std::int64_t invalid_samples = 0;  // left out of learning, over all ranks
};

// The memory of a learner on a rank beside its environments, known before anything is allocated.
struct LearnerMemory {
  std::size_t network_bytes = 0;   // whatever the batch: parameters, their gradients and moments, scratch
  std::size_t batch_bytes = 0;     // what it keeps of its environments or data
  std::size_t encoder_bytes = 0;   // of encoders of images, their parameters apart
  std::size_t snapshot_bytes = 0;  // in the loop's copy of the last finished iteration

  LearnerMemory& operator+=(const LearnerMemory& part) {
    network_bytes += part.network_bytes;
    batch_bytes += part.batch_bytes;
    encoder_bytes += part.encoder_bytes;
    snapshot_bytes += part.snapshot_bytes;
    return *this;
  }
};

// The task and the environments of a rank, as far as memory depends on them.
struct EnvironmentSizes {
  int observations = 0, critic_observations = 0, actions = 0, reward_terms = 0, metrics = 0;
  std::int64_t tiles = 0;
  std::vector<Camera> cameras = {};  // of demonstrations
  std::int64_t acting_tiles = 0;     // of the environments that evaluate what is learned from demonstrations
};

class Learner {
 public:
  virtual ~Learner() = default;

  // Begins training; a run that continues from a checkpoint loads that instead.
  virtual void start() = 0;
  // One iteration. Collective. `between_steps` is called several times, on every rank equally often, where
  // the iteration may be left; what it throws, on every rank at the same call, ends the iteration half-way,
  // and the state is then good for nothing.
  virtual IterationReport iterate(const std::function<void()>& between_steps) = 0;
  // Names, units and descriptions of what iterate() reports, with zeros.
  virtual IterationReport report_names() const = 0;

  // Everything that a bit-exact restart needs, the environments included.
  virtual void describe(Archive& archive) = 0;
  // After the entries of describe() were loaded.
  virtual void restored() = 0;
  // What its policy needs to be used, with the curricula of its task as they stand, and nothing else; the
  // same on every rank.
  virtual void describe_policy(Archive& archive) = 0;
  // What another run needs to begin with what has been learned (learning.warm_start); its curricula begin
  // again. The same on every rank.
  virtual void describe_warm_start(Archive& archive) = 0;
  // After start(), when those entries of describe_warm_start() that `start` names were loaded.
  virtual void warm_started(const WarmStart& start) = 0;
  // The policy to evaluate; null: none.
  virtual ActingPolicy* policy() { return nullptr; }
  // Whose environments the entries per environment hold; without such entries: nobody's.
  virtual Partition partition() const { return {}; }

  // This rank's part of what ranks divide among them.
  struct Share {
    std::int64_t amount = 0;
    std::string of;  // "environments"
  };
  virtual Share share() const { return {partition().envs(), "environments"}; }
  // What an iteration works through on all ranks together, for rates: this many "env-steps", "samples".
  struct Work {
    double amount = 0;
    std::string unit;
  };
  virtual Work work_per_iteration() const = 0;
  // Seconds so far, of this rank.
  virtual std::vector<std::pair<std::string, double>> stage_seconds() const = 0;
};

}  // namespace maniple
