// `maniple bench scaling`: the speed of learning on 1, 2, 4, ... ranks. One job measures all: that many of
// its ranks learn, each time from the beginning, while the others sleep.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "src/base/json.hpp"
#include "src/base/log.hpp"
#include "src/driver/bench_times.hpp"
#include "src/driver/doctor.hpp"
#include "src/driver/progress.hpp"
#include "src/driver/read_demonstrations.hpp"
#include "src/driver/refusals.hpp"
#include "src/driver/setup.hpp"
#include "src/driver/verbs.hpp"
#include "src/io/commit.hpp"
#include "src/learning/effective_batch.hpp"
#include "src/learning/learners.hpp"
#include "src/learning/mixed_precision.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/measure.hpp"
#include "src/tasks/compile/prepared.hpp"

namespace maniple {
namespace {

constexpr int kIterations = 5;  // where bench.iterations says nothing

// The sources of a learner: a model with environments, or data.
struct Sources {
  Prepared prepared;                               // of environments
  std::unique_ptr<Demonstrations> demonstrations;  // or data
};

// The deck for this many ranks.
Config config_of(const Config& config, int ranks) {
  Config result = config;
  result.bench.iterations = config.bench.iterations > 0 ? config.bench.iterations : kIterations;
  if (config.bench.scaling == Scaling::weak) {
    result.batch.num_envs *= ranks;
    if (!config.learning.batch_per_rank) result.learning.batch_size *= ranks;
  }
  result.learning.steps = (result.bench.iterations + 1) * result.learning.report_every;
  return for_ranks(result, ranks);
}

// `config`: of the largest number of ranks.
Sources read_sources(const Config& config, Session& session) {
  Sources sources;
  if (config.learning.imitates()) {
    DemonstrationPlan plan = plan_demonstrations(config, look_together(config, session), session);
    info(plan.memory);
    sources.demonstrations = read_demonstrations(config, std::move(plan), session);
  } else {  // (a file or an instruction may be missing on one host alone)
    run_together(session.collectives(), [&] {
      check_mixed_precision(config, lacks_bfloat16());
      sources.prepared = prepare(config);
    });
  }
  return sources;
}

struct Point {
  int ranks = 0;
  LearningTimes times;
  double communication = 0;  // part of the time, without waiting for each other
};

Point measure(const Config& given, const Sources& sources, Session& part) {
  const Config config = config_of(given, part.size());
  std::unique_ptr<Simulation> simulation;
  if (!sources.demonstrations) {
    check_memory(rank_memory(config, sources.prepared, part, Holds::learner), part, config);
    simulation = make_simulation(config, sources.prepared, part.rank(), part.size());
  }
  const std::unique_ptr<Learner> learner =
      learner_of(config).make({.config = config,
                               .collectives = part.collectives(),
                               .environment = simulation.get(),
                               .demonstrations = sources.demonstrations.get()});
  Point point{part.size(), time_learning(*learner, config.bench.iterations, config.learning.epochs, part)};
  for (const auto& [stage, seconds] : point.times.stage_seconds) {
    if (stage != "communication") continue;
    auto nanoseconds = static_cast<std::int64_t>(1e9 * seconds);
    part.collectives().min(&nanoseconds, 1);
    point.communication = 1e-9 * static_cast<double>(nanoseconds) / point.times.seconds;
  }
  return point;
}

void check_keys(const Config& config, const Session& session) {
  if (config.learning.imitates()) require_demonstrations(config);
  if (!config.learning.imitates() && (!config.task.present || config.model.file.empty()))
    throw InputError(
        config.where_of("bench.scaling"), "bench.scaling", "scaling of learning without a task",
        "a deck with a task and its model (inputs/train), or of demonstrations (inputs/imitate)");
  if (config.bench.scaling == Scaling::strong && config.learning.batch_per_rank)
    throw InputError(config.where_of("learning.batch_per_rank"), "learning.batch_per_rank",
                     "found true with bench.scaling: strong", "false; a batch of each rank scales weakly");
  if (!config.learning.imitates() && config.bench.scaling == Scaling::strong)
    require_environments_for_ranks(config, session);
}

}  // namespace

ExitCode bench_scaling(const Config& config, Session& session) {
  check_keys(config, session);
  const bool weak = config.bench.scaling == Scaling::weak;
  const std::int64_t batch = config.learning.imitates()
                                 ? config.learning.batch_size * config.learning.accumulate
                                 : config.batch.num_envs;
  info(fmt::format("{} scaling of learning: {} {} {}", text_of(config.bench.scaling), batch,
                   config.learning.imitates() ? "samples of an update" : "environments",
                   weak ? "for each rank" : "for all ranks together"));
  const Sources sources = read_sources(config_of(config, session.size()), session);
  std::vector<Point> points;
  for (int ranks = 1, last = 0; !last; ranks = std::min(2 * ranks, session.size())) {
    last = ranks == session.size();
    {
      Session part(session, session.rank() < ranks ? 0 : 1);
      if (session.rank() < ranks) points.push_back(measure(config, sources, part));
      wait_asleep(session.collectives());
    }
  }
  for (const std::string& warning : placement_warnings(session.places())) warn(warning);
  run_on_root(session.collectives(), [&] {
    std::vector<std::string> rows;
    info(fmt::format("{:>5}  {:>20}  {:>8}  {:>10}  {:>13}", "ranks", points[0].times.unit + "/s", "speed-up",
                     "efficiency", "communication"));
    for (const Point& point : points) {
      const double speed_up = point.times.rate.median / points[0].times.rate.median;
      info(fmt::format("{:>5}  {:>20}  {:>7.2f}x  {:>9.0f}%  {:>12.1f}%", point.ranks,
                       human_rate(point.times.rate.median), speed_up, 100 * speed_up / point.ranks,
                       100 * point.communication));
      rows.push_back(json_object({json_entry("ranks", std::to_string(point.ranks)),
                                  json_entry("rate", json(point.times.rate)),
                                  json_entry("speed_up", json_number(speed_up)),
                                  json_entry("efficiency", json_number(speed_up / point.ranks)),
                                  json_entry("communication", json_number(point.communication))}));
    }
    const std::string path = config.output.directory + "/" + kBenchFile;
    write_text_file(path, json_rows({json_entry("scaling", json_text(text_of(config.bench.scaling))),
                                     json_entry("backend", json_text(ExecutionSpace::name())),
                                     json_entry("unit", json_text(points[0].times.unit + "/s")),
                                     json_entry("ranks", json_rows(rows, '[', ']', 1))},
                                    '{', '}', 0) +
                              "\n");
    info("written: " + path);
  });
  return ExitCode::done;
}

}  // namespace maniple
