// <run>/results.h5: the settings and circumstances of the run (/run), series (/metrics/<name>), trajectories;
// and evaluation.h5. The file appears under its name only when complete, and is replaced atomically.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "src/io/deflated.hpp"
#include "src/parallel/collectives.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

inline constexpr const char* kResultsFile = "results.h5";        // of train and rollout
inline constexpr const char* kEvaluationFile = "evaluation.h5";  // of evaluate, beside the training's results

struct RunRecord {
  std::string verb, deck_text, resolved_text, model_xml, version, build;
  int ranks = 1;
  std::string task_text = {};  // what the task consists of, as a table; "" without one
  std::string contract = {};   // of its policies with the robot, as JSON
  // MuJoCo's binary of the model, meshes included; it can be large. Only rank 0 needs it.
  std::shared_future<Deflated> model_mjb = {};
};

// Step-indexed series, all equally long, in order of registration; part of the checkpoint of a run.
struct Metrics {
  struct Series {
    std::string name, unit, description;
    bool reproducible = true;  // false: wall clock and the like, left out of digests
    std::vector<double> values;
  };
  std::vector<Series> series;
};

// A sampled trajectory of every environment, [env, sample, size] in the file.
struct TrajectoryField {
  std::string name, unit, description;
  int size = 0;
  std::vector<std::string> names = {};  // of its elements, where they have any
};

class ResultsWriter {
 public:
  // Collective. Creates <directory>/<name> under a temporary name.
  ResultsWriter(const std::string& directory, const RunRecord& record, Collectives& collectives,
                const std::string& name = kResultsFile);
  ~ResultsWriter();
  ResultsWriter(const ResultsWriter&) = delete;
  ResultsWriter& operator=(const ResultsWriter&) = delete;

  void write_metrics(const Metrics& metrics);
  // Datasets /trajectory/<field> for `samples` samples, element type float or double by precision.
  void create_trajectory(const std::vector<TrajectoryField>& fields, std::int64_t samples,
                         bool double_precision, const Partition& partition);
  // The next sample of one field: rows [env of this rank][size], packed. Collective. A block of samples goes
  // out when all fields have it.
  void write_sample(const std::string& field, std::int64_t sample, const void* rows);
  // Collective. Writes what the first block has so far, only to learn how long a block takes.
  void rehearse();
  // What commit() will take of a trajectory, by the slowest block of this rank so far, in s.
  double commit_seconds() const;
  void write_steps(const std::vector<std::int64_t>& steps);
  // /evaluation/<name> [episode]; the same on all ranks.
  // `reproducible` false: wall clock and the like.
  void write_series(const std::string& path, const std::vector<double>& values, const std::string& unit,
                    const std::string& description, bool reproducible = true);
  void write_text(const std::string& path, const std::string& text, const std::string& description);
  // Collective. Writes what waits, checks, seals, renames. Returns the final path.
  std::string commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace maniple
