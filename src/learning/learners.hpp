// The learners that learning.algorithm chooses from, in one table.
#pragma once

#include <memory>
#include <vector>

#include "src/config/config.hpp"
#include "src/io/demonstrations.hpp"
#include "src/learning/acting_policy.hpp"
#include "src/learning/learner.hpp"
#include "src/parallel/collectives.hpp"
#include "src/simulation/environment.hpp"

namespace maniple {

// The arguments of a learner; all of them outlive it.
struct LearnerInput {
  const Config& config;
  Collectives& collectives;
  Environment* environment = nullptr;              // of the deck's task; null: there is none
  const Demonstrations* demonstrations = nullptr;  // of learners that imitate
};

struct LearnerKind {
  const char* name;  // learning.algorithm
  LearnerMemory (*memory)(const Config& config, const EnvironmentSizes& sizes);
  std::unique_ptr<Learner> (*make)(const LearnerInput& input);
  // What it learns, to act in environments, and the bytes that this takes on a rank.
  std::unique_ptr<ActingPolicy> (*make_policy)(const Config& config, const EnvironmentSizes& sizes);
  std::size_t (*policy_memory)(const Config& config, const EnvironmentSizes& sizes);
};

const std::vector<LearnerKind>& learners();
// The one that the deck asks for.
const LearnerKind& learner_of(const Config& config);

}  // namespace maniple
