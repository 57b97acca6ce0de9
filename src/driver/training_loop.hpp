// The loop that every learner runs in: it continues from the newest good checkpoint or starts, iterates,
// keeps the state of the last finished iteration at hand, writes metrics, results and checkpoints, shows
// progress, and ends early where signals, trigger files or the wall time ask for it. It names no learner.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "src/base/error.hpp"
#include "src/config/config.hpp"
#include "src/io/checkpoint_identity.hpp"
#include "src/io/results.hpp"
#include "src/learning/evaluation.hpp"
#include "src/learning/learner.hpp"
#include "src/parallel/collectives.hpp"
#include "src/parallel/session.hpp"

namespace maniple {

struct TrainingRun {
  // output, run; of learning: how often checkpoints come, how many stay, whether to resume
  const Config& config;
  Collectives& collectives;
  RunRecord record;                               // the /run group of results.h5
  CheckpointIdentity identity;                    // what a checkpoint to continue from must agree with
  std::int64_t iterations = 0;                    // that the run ends with
  std::string length;                             // which key says so, with its value
  std::chrono::steady_clock::time_point started;  // of the program: run.wall_time counts from here
  // Warnings that the learner does not know of; collective. May be empty.
  std::function<void(const IterationReport& report, std::int64_t iteration)> after_iteration = {};
  std::function<void()> at_end = {};
  // Of the learner's policy; collective, the same on every rank.
  std::function<EvaluationMeans()> evaluate = {};
  std::int64_t evaluate_every = 0;         // 0: never; counted as checkpoints are
  std::int64_t updates_per_iteration = 1;  // what intervals count; 1: iterations
  std::int64_t updates = 0;  // of the whole run, where the last iteration has fewer; 0: it has not
  bool has_success = false;  // the task, for the success rate of evaluations
  RankPlace place = {};      // of this rank, for the report at the end
};

// Collective. ExitCode::stopped_early after a stop with a good checkpoint.
ExitCode run_training(Learner& learner, const TrainingRun& run);

}  // namespace maniple
