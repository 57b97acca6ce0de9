// The interface of policies that act in environments outside of training, whatever their learner: evaluations
// and rollouts know no more of a policy than this.
#pragma once

#include <cstdint>
#include <memory>

#include "src/config/config.hpp"
#include "src/io/archive.hpp"
#include "src/simulation/environment.hpp"

namespace maniple {

// A policy at work in a batch of environments, with what it remembers of their episodes.
class PolicyRunner {
 public:
  explicit PolicyRunner(Environment& environment) : environment_(environment) {}
  virtual ~PolicyRunner() = default;
  // One control step. What an environment's episode is like does not depend on the other environments.
  void step(Determinism determinism, std::uint32_t seed, std::int64_t control_step) {
    act(determinism, seed, control_step);
    environment_.step();
    forget_ended();
  }
  // Answers the observations: with the mean action where a policy has one, or an action drawn with the
  // evaluation stream, as evaluation.deterministic says.
  virtual void act(Determinism determinism, std::uint32_t seed, std::int64_t control_step) = 0;
  // After the environments' step: begins again what is remembered of episodes that ended in it.
  virtual void forget_ended() = 0;

 protected:
  Environment& environment_;
};

class ActingPolicy {
 public:
  virtual ~ActingPolicy() = default;
  // Whether its actions depend on earlier steps of an episode.
  virtual bool remembers() const = 0;
  // From fresh episodes on. The policy and the environment outlive the runner.
  virtual std::unique_ptr<PolicyRunner> act_in(Environment& environment) = 0;
  // Everything that acting needs.
  virtual void describe(Archive& archive) = 0;
  // After the entries of describe() were loaded.
  virtual void restored() = 0;
};

}  // namespace maniple
