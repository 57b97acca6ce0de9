// Trainings by PPO on the toy environment, for the tests of its parts: their decks, and what of a run is
// compared with another one's.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "src/learning/ppo.hpp"
#include "tests/unit/learning/toy_environment.hpp"

namespace maniple::testing_learning {

// Networks beyond plain layers, in what they keep and what they sum.
inline std::vector<Config> configs_of_networks(std::int64_t envs) {
  std::vector<Config> configs(2, toy_config(envs));
  Config& brax = configs[0];
  brax.policy.activation = ActivationChoice::silu;
  brax.policy.layer_norm = brax.policy.state_dependent_std = brax.policy.squash_actions = true;
  brax.policy.std_transform = StdTransform::softplus;
  brax.policy.critic_hidden = {7};
  brax.policy.normalize_observations = true;
  brax.learning.entropy_coef = 0.01;
  brax.learning.kl_reference = KlReference::previous_epoch;
  brax.learning.normalize_advantage_per_minibatch = true;
  Config& recurrent = configs[1];
  recurrent.policy.recurrent = Recurrence::gru;
  recurrent.policy.recurrent_units = 6;
  recurrent.policy.hidden = {8};
  recurrent.learning.minibatches = 2;
  recurrent.learning.normalize_advantage_per_minibatch = true;
  return configs;
}

// A training with everything that the presets ask for, in rewards of a large unit.
inline Config scaled_config(std::int64_t envs) {
  Config config = toy_config(envs);
  config.policy.normalize_observations = true;
  config.learning.normalize_reward = config.learning.normalize_value = true;
  config.learning.reward_scale = 1e5;
  config.learning.clip_reward = 10;
  config.learning.minibatches = 13;  // more than steps
  config.learning.schedule = RateSchedule::linear;
  config.learning.iterations = 10;
  config.learning.target_kl = 0.01;
  config.learning.kl_coef = 0.1;
  return config;
}

inline double reported(const IterationReport& report, const std::string& name) {
  for (const auto& value : report.values)
    if (value.name == name) return value.value;
  return std::nan("");
}

inline void append(std::vector<double>& values, const IterationReport& report) {
  // (NaN, before the first episode has ended, is equal to itself here)
  for (const auto& value : report.values) values.push_back(std::isnan(value.value) ? -1e300 : value.value);
}

// Everything replicated that a checkpoint would hold, as bytes, and the reported numbers.
struct Outcome {
  std::vector<std::vector<char>> entries;
  std::vector<double> reported;
};

using Setting = std::function<void(ToyEnvironment&)>;

inline Outcome train(const Config& config, int ranks, int iterations, const Setting& setting = {}) {
  Outcome outcome;
  on_ranks(ranks, [&](int rank, Collectives& collectives) {
    ToyEnvironment environment(config, rank, ranks);
    if (setting) setting(environment);
    Ppo ppo(environment, config, collectives);
    ppo.start();
    std::vector<double> reported;
    for (int i = 0; i < iterations; ++i) append(reported, ppo.iterate());
    if (rank != ranks - 1) return;  // the last rank holds the padding
    Archive archive;
    ppo.describe(archive);
    for (const ArchiveEntry& entry : archive.entries()) {
      if (entry.per_env) continue;  // of the toy
      const std::size_t bytes =
          entry.elements * (entry.type == ElementType::float64 || entry.type == ElementType::int64 ? 8 : 4);
      const char* data = static_cast<const char*>(entry.data);
      outcome.entries.emplace_back(data, data + bytes);
    }
    outcome.reported = reported;
  });
  return outcome;
}

inline void expect_equal_bits(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.entries.size(), b.entries.size());
  for (std::size_t i = 0; i < a.entries.size(); ++i) EXPECT_EQ(a.entries[i], b.entries[i]) << "entry " << i;
  ASSERT_EQ(a.reported.size(), b.reported.size());
  for (std::size_t i = 0; i < a.reported.size(); ++i)
    EXPECT_EQ(a.reported[i], b.reported[i]) << "value " << i;
}

}  // namespace maniple::testing_learning
