// A small environment and in-process ranks for tests of learning: no physics, no MPI. Each rank is a
// thread with a part of the global batch; collectives meet at a barrier and add in rank order.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/base/philox.hpp"
#include "src/config/config.hpp"
#include "src/parallel/collectives.hpp"
#include "src/simulation/environment.hpp"
#include "src/simulation/environment_blocks.hpp"
#include "src/tasks/compile/task.hpp"
#include "tests/unit/device_memory.hpp"

namespace maniple::testing_learning {

// A point on a line, x' = x + 0.2 a. Observed: x and a constant. Reward: 1 - x^2, in two terms. An
// episode fails beyond |x| = 3 and times out after 20 steps. On request the critic sees x alone.
class ToyEnvironment : public Environment {
 public:
  explicit ToyEnvironment(const Config& config, int rank = 0, int ranks = 1, bool critic = false)
      : partition_(environments_of(config, config.batch.num_envs, rank, ranks)), tiles_(partition_.tiles) {
    const auto make = [this](int elements) { return testing::shared_tiles<float>("toy", tiles_, elements); };
    x_ = make(1);
    steps_ = make(1);
    const TaskSizes sizes{.num_actions = 1,
                          .num_observations = 2,
                          .num_critic_observations = critic ? 1 : 0,
                          .num_reward_terms = 2,
                          .num_metrics = 1};
    for (const auto& field : transition_fields(sizes))
      out_.*field.member = make(field.use == TransitionUse::on_request ? 0 : field.size);
    running_ = make(2);
  }

  const Partition& partition() const override { return partition_; }
  int num_observations() const override { return 2; }
  int num_actions() const override { return 1; }
  std::int64_t max_episode_steps() const override { return 20; }
  const std::vector<std::string>& reward_terms() const override { return terms_; }
  const std::vector<std::string>& metrics() const override { return metrics_; }

  void reset() override {
    for_all([&](std::int64_t env) { begin(env); });
  }
  void randomize_episode_steps() override {
    for_all([&](std::int64_t env) {
      steps_.at(env, 0) = static_cast<float>(
          random_block(seed_, RandomPurpose::episode_offset, global(env), 0, 0).word[0] % 20);
    });
  }
  void step() override {
    ++control_step_;
    for_all([&](std::int64_t env) {
      float& x = x_.at(env, 0);
      x += 0.2f * out_.action.at(env, 0);
      steps_.at(env, 0) += 1.0f;
      out_.terminated.at(env, 0) = std::abs(x) > 3.0f ? 1.0f : 0.0f;
      out_.truncated.at(env, 0) = steps_.at(env, 0) >= 20.0f ? 1.0f : 0.0f;
      out_.reward_term.at(env, 0) = 1.0f;
      out_.reward_term.at(env, 1) = -x * x;
      out_.reward.at(env, 0) = 1.0f - x * x;
      for (int k = 0; k < 2; ++k) {
        running_.at(env, k) += out_.reward_term.at(env, k);
        out_.episode_reward_term.at(env, k) = running_.at(env, k);
      }
      out_.episode_return.at(env, 0) = running_.at(env, 0) + running_.at(env, 1);
      const bool broken = breaks && breaks(global(env), control_step_);
      out_.invalid.at(env, 0) = broken ? 1.0f : 0.0f;
      if (broken) {
        out_.terminated.at(env, 0) = 1.0f;
        out_.reward.at(env, 0) = out_.episode_return.at(env, 0) = out_.episode_reward_term.at(env, 0) =
            garbage;
      }
      out_.episode_length.at(env, 0) = out_.episode_metric.at(env, 0) = steps_.at(env, 0);
      if (out_.final_observation.elements > 0) {
        out_.final_observation.at(env, 0) = x;
        out_.final_observation.at(env, 1) = 0.5f;
        if (out_.final_critic_observation.elements > 0) out_.final_critic_observation.at(env, 0) = x;
      }
      if (out_.terminated.at(env, 0) + out_.truncated.at(env, 0) > 0) {
        ended_ += env < partition_.envs() ? 1.0 : 0.0;
        begin(env);
      } else {
        observe(env);
      }
    });
  }

  const Transition<TiledView<float>>& transition() const override { return out_; }
  void keep_final_observation() override {
    out_.final_observation = testing::shared_tiles<float>("toy", tiles_, num_observations());
    out_.final_critic_observation =
        testing::shared_tiles<float>("toy", tiles_, out_.critic_observation.elements);
  }
  std::int64_t bad_states() const override { return 0; }
  void describe(Archive& archive) override {
    archive.per_env("toy/x", x_.data.data(), 1, 0, 1, "m", "position");
    archive.per_env("toy/steps", steps_.data.data(), 1, 0, 1, "1", "steps");
    archive.per_env("toy/running", running_.data.data(), 2, 0, 2, "1", "rewards so far");
    archive.per_env("toy/observation", out_.observation.data.data(), 2, 0, 2, "1", "observation");
    const auto seen = static_cast<std::size_t>(out_.critic_observation.elements);
    archive.per_env("toy/critic", out_.critic_observation.data.data(), seen, 0, seen, "1", "of the critic");
    archive.replicated("toy/control_step", &control_step_, 1, "1", "control steps");
  }
  std::vector<std::pair<std::string, double>> stage_seconds() const override { return {}; }

  TiledView<float>& position() { return x_; }
  // Episodes that ended since the last call, of real environments.
  double ended() { return std::exchange(ended_, 0.0); }
  // The states that fail like those of a simulation that blew up, by global environment and control step, and
  // the rewards that come of it.
  std::function<bool(std::uint64_t, std::int64_t)> breaks;
  float garbage = 0;

 private:
  std::uint64_t global(std::int64_t env) const {
    return static_cast<std::uint64_t>(partition_.first_env() + env);
  }
  void for_all(const std::function<void(std::int64_t)>& body) {
    Kokkos::fence();  // kernels may still read what is written here
    for (std::int64_t env = 0; env < tiles_ * kTileWidth; ++env) body(env);
  }
  void begin(std::int64_t env) {
    const PhiloxBlock random =
        random_block(seed_, RandomPurpose::reset, global(env), static_cast<std::uint32_t>(control_step_), 0);
    x_.at(env, 0) = 4.0f * uniform01<float>(random.word[0]) - 2.0f;
    steps_.at(env, 0) = 0.0f;
    running_.at(env, 0) = running_.at(env, 1) = 0.0f;
    observe(env);
  }
  void observe(std::int64_t env) {
    out_.observation.at(env, 0) = x_.at(env, 0);
    out_.observation.at(env, 1) = 0.5f;
    if (out_.critic_observation.elements > 0) out_.critic_observation.at(env, 0) = x_.at(env, 0);
  }

  Partition partition_;
  const std::uint32_t seed_ = 1;
  std::int64_t tiles_;
  std::int64_t control_step_ = 0;
  double ended_ = 0;
  std::vector<std::string> terms_{"alive", "position"};
  std::vector<std::string> metrics_{"metric_steps"};
  TiledView<float> x_, steps_, running_;
  Transition<TiledView<float>> out_;
};

// What the threads of one run share.
struct Meeting {
  explicit Meeting(int count) : ranks(count), barrier(count), pointers(static_cast<std::size_t>(count)) {}
  int ranks;
  std::barrier<> barrier;
  std::vector<const void*> pointers;
};

class ThreadCollectives : public Collectives {
 public:
  ThreadCollectives(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return meeting_.ranks; }
  std::string backend() const override { return "threads"; }
  void device_sum(double* data, std::size_t count) override { sum_on_device(data, count); }
  void device_sum(float* data, std::size_t count) override { sum_on_device(data, count); }
  void sum(double* data, std::size_t count) override { combine(data, count, std::plus<double>()); }
  void sum(std::int64_t* data, std::size_t count) override {
    combine(data, count, std::plus<std::int64_t>());
  }
  void max(std::int64_t* data, std::size_t count) override {
    combine(data, count, [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
  }
  void min(std::int64_t* data, std::size_t count) override {
    combine(data, count, [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    meeting_.pointers[static_cast<std::size_t>(rank_)] = data;
    meeting_.barrier.arrive_and_wait();
    if (rank_ != root) std::memcpy(data, meeting_.pointers[static_cast<std::size_t>(root)], bytes);
    meeting_.barrier.arrive_and_wait();
  }
  void barrier() override { meeting_.barrier.arrive_and_wait(); }
  std::vector<std::string> gather_text(const std::string& text) override {
    meeting_.pointers[static_cast<std::size_t>(rank_)] = &text;
    meeting_.barrier.arrive_and_wait();
    std::vector<std::string> all;
    for (const void* other : meeting_.pointers) all.push_back(*static_cast<const std::string*>(other));
    meeting_.barrier.arrive_and_wait();
    return all;
  }

 private:
  template <class T>
  void sum_on_device(T* data, std::size_t count) {
    const Kokkos::View<T*, MemorySpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>> device(data, count);
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
    combine(host.data(), count, std::plus<T>());
    Kokkos::deep_copy(device, host);
  }
  template <class T, class Operation>
  void combine(T* data, std::size_t count, Operation operation) {
    meeting_.pointers[static_cast<std::size_t>(rank_)] = data;
    meeting_.barrier.arrive_and_wait();
    std::vector<T> result(data, data + count);
    for (int rank = 0; rank < meeting_.ranks; ++rank) {
      const T* other = static_cast<const T*>(meeting_.pointers[static_cast<std::size_t>(rank)]);
      for (std::size_t i = 0; i < count; ++i)
        result[i] = rank == 0 ? other[i] : static_cast<T>(operation(result[i], other[i]));
    }
    meeting_.barrier.arrive_and_wait();
    std::copy(result.begin(), result.end(), data);
    meeting_.barrier.arrive_and_wait();
  }

  Meeting& meeting_;
  int rank_;
};

// Runs body(rank, collectives) on this many ranks.
inline void on_ranks(int ranks, const std::function<void(int, Collectives&)>& body) {
  Meeting meeting(ranks);
  std::vector<std::thread> threads;
  for (int rank = 1; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ThreadCollectives collectives(meeting, rank);
      body(rank, collectives);
    });
  ThreadCollectives collectives(meeting, 0);
  body(0, collectives);
  for (std::thread& thread : threads) thread.join();
}

// A small training on it.
inline Config toy_config(std::int64_t envs) {
  Config config;
  config.batch.num_envs = envs;
  config.batch.seed = 5;
  config.policy.hidden = {16, 8};
  config.learning.random_initial_episode_length = false;
  config.policy.normalize_observations = false;
  config.learning.horizon = 10;
  config.learning.minibatches = 4;
  config.learning.epochs = 3;
  config.learning.learning_rate = 1e-3;
  return config;
}

}  // namespace maniple::testing_learning
