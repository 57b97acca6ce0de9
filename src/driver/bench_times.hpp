// Timings of `maniple bench`: repeats with their spread, on the slowest rank.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/config/config.hpp"
#include "src/parallel/session.hpp"

namespace maniple {

class Learner;

struct Spread {
  double median = 0, min = 0, max = 0;
};
Spread spread(std::vector<double> values);

std::string json(const Spread& s);
std::string json(const std::vector<std::pair<std::string, double>>& values);

// Collective. Seconds of `body` on the slowest rank.
double time_on_all_ranks(Session& session, const std::function<void()>& body);

// Iterations of learning.
struct LearningTimes {
  Spread rate;       // of work per second
  std::string unit;  // of the work
  // Of this rank, a mean iteration.
  std::vector<std::pair<std::string, double>> stage_seconds;
  double seconds = 0;  // a mean iteration on the slowest rank
  // Seconds of one rank in the update, by sample that it goes through once.
  double update_seconds_per_sample = 0;
};
// Collective. This many of them, after one that warms caches.
LearningTimes time_learning(Learner& learner, int iterations, int epochs, Session& session);

// bench.scaling: the same learning on 1, 2, 4, ... ranks of this job; a table, and <directory>/bench.json.
ExitCode bench_scaling(const Config& config, Session& session);

}  // namespace maniple
