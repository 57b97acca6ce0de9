#include "src/driver/read_demonstrations.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "src/base/counted.hpp"
#include "src/base/log.hpp"
#include "src/io/measure.hpp"
#include "src/io/rank_check.hpp"
#include "src/learning/imitation_learner.hpp"
#include "src/learning/learners.hpp"
#include "src/learning/mixed_precision.hpp"
#include "src/learning/samples.hpp"
#include "src/parallel/failure.hpp"

namespace maniple {
namespace {

namespace fs = std::filesystem;

// The memory that a rank needs, with the data counted this many times.
RankMemory memory_of(const Config& config, const DemonstrationContents& contents, const Session& session,
                     const RankMemory& beside, std::size_t copies) {
  const RankTiles tiles(config, session.size());
  const LearnerMemory learner =
      learner_of(config).memory(config, {.observations = contents.observation_width * config.data.frame_stack,
                                         .actions = contents.action_width,
                                         .tiles = tiles.of_batch,
                                         .cameras = cameras_of(config, contents),
                                         .acting_tiles = tiles.acting});
  RankMemory memory = beside;
  memory.add({.key = "data.file",
              .what = counted(contents.frames, "frame") + " of data",
              .copies = copies * contents.bytes()});
  memory.add({.key = "learning.batch_size",
              .what = "batches of " + counted(config.learning.batch_size, "sample"),
              .bytes = learner.batch_bytes});
  add_network(memory, config, learner);
  return memory;
}

// TMPDIR, or the run's directory, or what of its path is there; the first that is no memory, if there is one.
std::string directory_on_disk(const Config& config) {
  std::vector<std::string> directories;
  if (const char* const given = std::getenv("TMPDIR"); given && *given != '\0') directories.push_back(given);
  fs::path own = fs::absolute(config.output.directory);
  std::error_code ignored;
  while (!fs::is_directory(own, ignored) && own.has_relative_path()) own = own.parent_path();
  directories.push_back(own.string());
  for (const std::string& directory : directories)
    if (!is_memory(directory)) return directory;
  return directories.front();
}

}  // namespace

DemonstrationContents look_together(const Config& config, Session& session) {
  DemonstrationContents contents;
  run_together(session.collectives(), [&] {
    check_mixed_precision(config, lacks_bfloat16());
    contents = inspect_demonstrations(config);
  });
  return contents;
}

DemonstrationPlan plan_demonstrations(const Config& config, DemonstrationContents contents, Session& session,
                                      const RankMemory& beside) {
  // (that there are too few samples for a batch is no question of memory)
  const Windows windows(config, contents, window_shape(config));
  check_batch(config, make_sampler(config, windows), session.size());
  const auto memory_with = [&](std::size_t copies) {
    return memory_of(config, contents, session, beside, copies);
  };
  DemonstrationPlan plan;
  if (config.data.cache == DataCache::file ||
      (config.data.cache == DataCache::automatic && !fits(memory_with(2), session)))
    plan.directory = directory_on_disk(config);
  const bool on_disk = !plan.directory.empty() && !is_memory(plan.directory);
  if (!plan.directory.empty() && !on_disk)
    warn(
        fmt::format("data.cache: a file in {} takes memory, since that is tmpfs; TMPDIR can name a directory "
                    "on a disk",
                    plan.directory));
  const RankMemory memory = memory_with(on_disk ? 0 : 1);
  check_memory(memory, session, config);
  const auto megabytes = [](std::size_t bytes) { return static_cast<double>(bytes) / 1e6; };
  const std::size_t data = memory.of("data.file") + memory.of("learning.batch_size"), others = beside.total();
  plan.memory = fmt::format("memory: {:.1f} MB of data, {:.1f} MB of the policy", megabytes(data),
                            megabytes(memory.total() - data - others));
  if (others > 0) plan.memory += fmt::format(", {:.1f} MB of environments", megabytes(others));
  plan.memory += " per rank";
  if (!plan.directory.empty())
    plan.memory +=
        fmt::format("; {:.1f} MB for each rank in a file in {}", megabytes(contents.bytes()), plan.directory);
  plan.contents = std::move(contents);
  return plan;
}

std::unique_ptr<Demonstrations> read_demonstrations(const Config& config, DemonstrationPlan plan,
                                                    Session& session) {
  std::unique_ptr<Demonstrations> demonstrations;
  run_together(session.collectives(), [&] {
    demonstrations = std::make_unique<Demonstrations>(config, std::move(plan.contents), plan.directory);
  });
  check_ranks(
      session.collectives(),
      [&] {
        return std::vector<RankValue>{
            {"the demonstrations", static_cast<std::uint64_t>(demonstrations->checksum())}};
      },
      "at the start");
  return demonstrations;
}

}  // namespace maniple
