#include "src/learning/learners.hpp"

#include "src/base/error.hpp"
#include "src/learning/behaviour_cloning.hpp"
#include "src/learning/diffusion.hpp"
#include "src/learning/policy.hpp"
#include "src/learning/policy_network.hpp"
#include "src/learning/ppo.hpp"

namespace maniple {

namespace {

PolicySizes policy_sizes(const EnvironmentSizes& sizes) {
  return {sizes.observations, sizes.critic_observations, sizes.actions};
}

std::unique_ptr<ActingPolicy> make_network_policy(const Config& config, const EnvironmentSizes& sizes) {
  return std::make_unique<Policy>(config, policy_sizes(sizes));
}

std::size_t network_policy_memory(const Config& config, const EnvironmentSizes& sizes) {
  const Network network = make_network(config, policy_sizes(sizes));
  return policy_bytes(config, network, tile_workers(sizes.tiles));
}

template <class Model>
std::unique_ptr<Learner> imitate_with(const LearnerInput& input) {
  return std::make_unique<ImitationLearner>(*input.demonstrations, input.config, input.collectives,
                                            [](const Demonstrations& demonstrations, const Config& config,
                                               const RankTiles& tiles) -> std::unique_ptr<ImitationModel> {
                                              return std::make_unique<Model>(demonstrations, config, tiles);
                                            });
}

}  // namespace

const std::vector<LearnerKind>& learners() {
  static const std::vector<LearnerKind> table{
      {.name = "ppo",
       .memory = Ppo::memory,
       .make = [](const LearnerInput& input) -> std::unique_ptr<Learner> {
         return std::make_unique<Ppo>(*input.environment, input.config, input.collectives);
       },
       .make_policy = make_network_policy,
       .policy_memory = network_policy_memory},
      {.name = "bc",
       .memory = BehaviourCloning::memory,
       .make = imitate_with<BehaviourCloning>,
       .make_policy = make_network_policy,
       .policy_memory = network_policy_memory},
      {.name = "diffusion",
       .memory = Diffusion::memory,
       .make = imitate_with<Diffusion>,
       .make_policy = [](const Config& config,
                         const EnvironmentSizes& sizes) -> std::unique_ptr<ActingPolicy> {
         return std::make_unique<DiffusionPolicy>(config, sizes.observations, sizes.actions, sizes.tiles);
       },
       .policy_memory =
           [](const Config& config, const EnvironmentSizes& sizes) {
             return DiffusionPolicy::bytes(config, sizes.observations, sizes.actions, sizes.tiles);
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
