// Gathers the whole episodes of a rollout or an evaluation and writes those that output.dataset_* let pass as
// demonstrations.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/io/demonstration_writer.hpp"
#include "src/parallel/session.hpp"
#include "src/simulation/simulation.hpp"

namespace maniple {

class EpisodeRecorder {
 public:
  // Whether an episode counts: the how many-th one of its environment, both from 0.
  using Counts = std::function<bool(std::int64_t env, std::int64_t number)>;

  // InputError where a data set is there and may not be replaced. All outlive this.
  EpisodeRecorder(const Config& config, const Simulation& simulation, Counts counts = {});

  // Once with the first observations there, then after each control step.
  void watch();
  // Collective. All steps that were watched are written or named. Throws Error where no episode passes.
  void write(Session& session);

 private:
  // The running episode of one environment, and those that have passed.
  struct Course {
    Episode running;
    std::int64_t number = 0;
    bool invalid = false;
    std::vector<Episode> passed;
  };

  const std::byte* row(const std::string& field, std::int64_t env, std::size_t bytes);
  double number(const std::string& field, std::int64_t env);
  // Why episodes do not come into the data set.
  enum LeftOut { bad_states, no_success, low_return, beyond, uncounted, unfinished, kReasons };
  struct Count {
    std::int64_t episodes = 0, steps = 0;
    void add(std::int64_t of_steps) {
      ++episodes;
      steps += of_steps;
    }
  };
  // An episode that has come to its end, or to that of the rollout.
  void end_episode(Course& course, double episode_return);
  void end_unfinished();
  std::string unfinished_remedy() const;
  // Leaves only what output.dataset_episodes takes, the first over all ranks. Collective.
  std::vector<Episode> chosen(Session& session);

  const Config& config_;
  const Simulation& simulation_;
  const Counts counts_;
  EpisodesFormat format_;
  std::size_t real_bytes_, observation_bytes_, action_bytes_;
  std::vector<std::pair<std::string, std::vector<std::byte>>> fields_;  // [env][size] of this step
  std::vector<Course> courses_;
  bool begun_ = false;
  std::array<Count, kReasons> left_out_;
};

// Largest memory for the episodes of this run on one rank, in B.
std::size_t recorder_bytes(const Config& config, int observations, int actions, std::int64_t envs);

}  // namespace maniple
