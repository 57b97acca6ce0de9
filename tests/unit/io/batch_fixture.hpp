// A batch of environments with made-up numbers for checkpoint tests: the numbers of an environment depend on
// its global index alone, so any rank of any partition knows what it must read back.
#pragma once

#include <cstdint>
#include <vector>

#include "src/io/archive.hpp"
#include "src/io/checkpoint_identity.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

struct TestBatch {
  static constexpr int kElements = 7;  // qpos 3, qvel 2, others 2, in one tile layout
  Partition partition;
  std::vector<float> state;
  std::vector<double> time;
  std::vector<std::int64_t> steps;
  std::vector<std::uint8_t> flags;
  std::vector<float> parameters;
  std::vector<double> history;

  TestBatch(std::int64_t envs, int rank, int ranks) : partition(envs, rank, ranks) {
    const auto lanes = static_cast<std::size_t>(partition.tiles * kTileWidth);
    state.assign(lanes * kElements, -1);
    time.assign(lanes, -1);
    steps.assign(lanes, -1);
    flags.assign(lanes, 9);
    parameters.assign(1000, 0);
  }
  static double value(std::int64_t env, int element) {
    return 0.25 * static_cast<double>(env) + 1000 * element;
  }

  void fill() {
    for (std::int64_t i = 0; i < partition.tiles * kTileWidth; ++i) {
      const std::int64_t env = partition.first_env() + i;
      for (int e = 0; e < kElements; ++e)
        state[static_cast<std::size_t>((i / kTileWidth * kElements + e) * kTileWidth + i % kTileWidth)] =
            static_cast<float>(value(env, e));
      time[static_cast<std::size_t>(i)] = 1e-3 * static_cast<double>(env);
      steps[static_cast<std::size_t>(i)] = env * env;
      flags[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(env % 251);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] = static_cast<float>(i) / 7;
    history = {1.5, 2.5, -3.5};
  }
  // Whether every environment of this rank holds what fill() would give.
  bool is_filled() const {
    TestBatch other(partition.num_envs, 0, 1);
    other.partition = partition;
    other = *this;
    other.fill();
    bool same = parameters == other.parameters && history == other.history;
    for (std::int64_t i = 0; i < partition.envs(); ++i) {  // the padding of the last tile is nobody's
      const auto at = static_cast<std::size_t>(i);
      same &= time[at] == other.time[at] && steps[at] == other.steps[at] && flags[at] == other.flags[at];
      for (int e = 0; e < 5; ++e) {  // elements 5 and 6 are not saved
        const auto s =
            static_cast<std::size_t>((i / kTileWidth * kElements + e) * kTileWidth + i % kTileWidth);
        same &= state[s] == other.state[s];
      }
    }
    return same;
  }
  Archive archive() {
    Archive a;
    a.per_env("state/qpos", state.data(), kElements, 0, 3, "m", "position");
    a.per_env("state/qvel", state.data(), kElements, 3, 2, "m/s", "velocity");
    a.per_env("state/time", time.data(), 1, 0, 1, "s", "time");
    a.per_env("episode/steps", steps.data(), 1, 0, 1, "1", "steps of the episode");
    a.per_env("episode/flags", flags.data(), 1, 0, 1, "1", "flags");
    a.replicated("learning/parameters", parameters.data(), parameters.size(), "1", "of the policy");
    a.growing("metrics/episode_return", history, "1", "history");
    return a;
  }
  CheckpointIdentity identity() const {
    CheckpointIdentity id;
    id.model_digest = "model 1";
    id.task_digest = "task 1";
    id.task_lines = {"task.observations: {term: base_lin_vel}", "task.observations: {term: last_action}",
                     "task.rewards.alive: {term: is_alive}"};
    id.precision = "single";
    id.num_envs = partition.num_envs;
    id.seed = 42;
    return id;
  }
};

}  // namespace maniple
