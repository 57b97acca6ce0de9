#include "src/learning/learners.hpp"

#include "src/base/error.hpp"
#include "src/learning/behaviour_cloning.hpp"
#include "src/learning/ppo.hpp"

namespace maniple {

const std::vector<LearnerKind>& learners() {
  static const std::vector<LearnerKind> table{
      {.name = "ppo",
       .memory = Ppo::memory,
       .make = [](const LearnerInput& input) -> std::unique_ptr<Learner> {
         return std::make_unique<Ppo>(*input.environment, input.config, input.collectives);
       }},
      {.name = "bc",
       .memory = BehaviourCloning::memory,
       .make = [](const LearnerInput& input) -> std::unique_ptr<Learner> {
         return std::make_unique<BehaviourCloning>(*input.demonstrations, input.config, input.collectives);
       }},
  };
  return table;
}

const LearnerKind& learner_of(const Config& config) {
  for (const LearnerKind& kind : learners())
    if (kind.name == config.learning.algorithm) return kind;
  throw Error("learning.algorithm: no learner of this name: " + config.learning.algorithm);
}

}  // namespace maniple
