// A trained policy as Python calls it: rows of observations in, rows of actions out, with the same numbers as
// in the verbs that let it act. Its parameters come from Python, which reads checkpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/io/archive.hpp"
#include "src/learning/acting_policy.hpp"

namespace maniple {

class GivenEnvironment;

class CallablePolicy {
 public:
  // Of a run: the file of its results, for messages, and every key of its deck (run/resolved there). What it
  // reads and gives are the sizes that a checkpoint states. Throws InputError.
  CallablePolicy(const std::string& results, const std::string& deck, int observations,
                 int critic_observations, int actions);
  ~CallablePolicy();

  // The arrays that the policy consists of, whose memory a checkpoint's numbers are written to.
  const std::vector<ArchiveEntry>& entries() const { return archive_.entries(); }
  // After that.
  void loaded();

  int observations() const { return observations_; }
  int actions() const { return actions_; }
  bool remembers() const { return policy_->remembers(); }
  const Config& config() const { return config_; }

  // Begins the episodes of `envs` environments; 0: of none, until the next call.
  void begin(std::int64_t envs);
  // Begins a new episode in the environments of `mask` [envs].
  void forget(const bool* mask);
  // One control step of all of them: [envs, observations] to [envs, actions].
  void act(const float* observation, float* action, Determinism determinism, std::uint32_t seed);
  std::int64_t envs() const;

 private:
  const int observations_, critic_observations_, actions_;
  Config config_;
  Archive archive_;
  std::mutex in_use_;
  std::unique_ptr<ActingPolicy> policy_;
  std::unique_ptr<GivenEnvironment> environment_;
  std::unique_ptr<PolicyRunner> runner_;
  std::int64_t control_step_ = 0;
};

}  // namespace maniple
