// The memory that a deck with PPO takes, as the estimate has it before anything is allocated, and as Kokkos
// hands it out.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "src/learning/learners.hpp"
#include "tests/unit/learning/ppo_runs.hpp"

namespace maniple {
namespace {

using testing_learning::configs_of_networks;
using testing_learning::on_ranks;
using testing_learning::toy_config;
using testing_learning::ToyEnvironment;

// Bytes of the memory of kernels that Kokkos has handed out and not taken back, and the most at any time.
std::int64_t held_bytes = 0, most_bytes = 0;
bool is_of_kernels(const Kokkos_Profiling_SpaceHandle& space) {
  return std::string_view(space.name) == MemorySpace::name();
}

// Of a learner's state, without its environments.
std::size_t state_bytes(ToyEnvironment& environment, const Config& config, Collectives& collectives) {
  Ppo ppo(environment, config, collectives);
  Archive all, of_environment;
  ppo.describe(all);
  environment.describe(of_environment);
  const auto bytes = [&](const Archive& archive) {
    std::size_t sum = 0;
    for (const ArchiveEntry& entry : archive.entries()) {
      const std::size_t size = entry.type == ElementType::float64 || entry.type == ElementType::int64 ? 8 : 4;
      const auto envs = static_cast<std::size_t>(environment.partition().tiles * kTileWidth);
      sum += size * (entry.per_env ? envs * entry.tile_elements : entry.elements);
    }
    return sum;
  };
  return bytes(all) - bytes(of_environment);
}

TEST(Ppo, MemoryIsWhatAllocationsTake) {
  std::vector<Config> configs = configs_of_networks(1000);
  for (const std::vector<int>& hidden : {std::vector<int>{16, 8}, {300, 200}})
    for (const Reduction reduction : {Reduction::exact, Reduction::fast}) {
      configs.push_back(toy_config(1000));
      configs.back().policy.hidden = hidden;
      configs.back().learning.reduction = reduction;
      configs.back().learning.normalize_reward = true;
    }
  for (const Config& config : configs) {
    on_ranks(1, [&](int, Collectives& collectives) {
      ToyEnvironment environment(config);
      namespace Tools = Kokkos::Tools::Experimental;
      const Tools::EventSet before = Tools::get_callbacks();
      held_bytes = most_bytes = 0;
      Tools::set_allocate_data_callback(
          [](Kokkos_Profiling_SpaceHandle space, const char*, const void*, std::uint64_t size) {
            if (!is_of_kernels(space)) return;
            held_bytes += static_cast<std::int64_t>(size);
            most_bytes = std::max(most_bytes, held_bytes);
          });
      Tools::set_deallocate_data_callback(
          [](Kokkos_Profiling_SpaceHandle space, const char*, const void*, std::uint64_t size) {
            if (is_of_kernels(space)) held_bytes -= static_cast<std::int64_t>(size);
          });
      {
        Ppo ppo(environment, config, collectives);
        ppo.start();
        ppo.iterate();
      }
      Tools::set_callbacks(before);
      const std::size_t kept = state_bytes(environment, config, collectives);
      const LearnerMemory memory = learner_of(config).memory(
          config, {.observations = environment.num_observations(),
                   .actions = environment.num_actions(),
                   .reward_terms = static_cast<int>(environment.reward_terms().size()),
                   .metrics = static_cast<int>(environment.metrics().size()),
                   .tiles = environment.partition().tiles});
      const auto estimate = static_cast<double>(memory.network_bytes + memory.batch_bytes);
      EXPECT_NEAR(static_cast<double>(most_bytes), estimate, 0.02 * estimate)
          << config.policy.hidden[0] << " units, " << text_of(config.learning.reduction);
      // (means and counters, whose number does not grow, are left out)
      EXPECT_NEAR(static_cast<double>(kept), static_cast<double>(memory.snapshot_bytes), 2048);
    });
  }
}

}  // namespace
}  // namespace maniple
