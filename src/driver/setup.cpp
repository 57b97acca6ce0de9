#include "src/driver/setup.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "kernels/base/pack.hpp"
#include "src/base/log.hpp"
#include "src/base/version.hpp"
#include "src/model_import/import.hpp"

namespace maniple {
namespace {

std::string megabytes(std::size_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::size_t free_memory() {
  return static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Host memory only; a device back end reports its own failure at allocation.
void check_memory(const MemoryEstimate& memory, Session& session, const Config& config) {
  std::int64_t fits = kScalarLanes || memory.rank_bytes < free_memory();
  session.collectives().min(&fits, 1);
  if (fits == 0)
    throw InputError(config.where_of("batch.num_envs"), "batch.num_envs",
                     fmt::format("{} environments need {} on this rank", config.batch.num_envs,
                                 megabytes(memory.rank_bytes)),
                     fmt::format("{} are free", megabytes(free_memory())));
}

}  // namespace

std::string build_description() {
  return fmt::format("{}, {} lanes single, {} lanes double", __VERSION__, lane_width<Lanes<float>>,
                     lane_width<Lanes<double>>);
}

std::unique_ptr<Simulation> set_up_simulation(const Config& config, Session& session,
                                              const std::string& verb) {
  if (session.size() > config.batch.num_envs)
    throw InputError(config.where_of("batch.num_envs"), "batch.num_envs",
                     fmt::format("{} environments on {} ranks", config.batch.num_envs, session.size()),
                     "at least one environment per rank");
  ImportedModel model = import_model(config.model, config.simulation);
  const Partition partition(config.batch.num_envs, session.rank(), session.size());
  const MemoryEstimate memory = estimate_memory(config, model, partition.tiles * kTileWidth);
  info(fmt::format("maniple {} {}: {} ({} dofs, {} actuators), {} environments, {} precision", kVersion, verb,
                   config.model.file, model.sizes.nv, model.sizes.nu, config.batch.num_envs,
                   config.simulation.precision));
  info(fmt::format("{} rank{}, {} back end, {}", session.size(), session.size() == 1 ? "" : "s",
                   ExecutionSpace::name(), build_description()));
  info(fmt::format("memory: {} B per environment, {} per rank", memory.bytes_per_env,
                   megabytes(memory.rank_bytes)));
  if (session.size() > partition.num_tiles)
    warn(fmt::format("{} of {} ranks have no environments: ranks share the batch in blocks of {}",
                     session.size() - partition.num_tiles, session.size(), kTileWidth));
  check_memory(memory, session, config);
  return make_simulation(config, std::move(model), session.rank(), session.size());
}

CheckpointIdentity checkpoint_identity(const Config& config, const Simulation& simulation) {
  CheckpointIdentity identity;
  identity.model_digest = simulation.model_digest();
  identity.task_digest = simulation.task_digest();
  identity.precision = config.simulation.precision;
  identity.num_envs = config.batch.num_envs;
  identity.seed = config.batch.seed;
  return identity;
}

RunRecord run_record(const Config& config, const Session& session, const Simulation& simulation,
                     const std::string& verb) {
  RunRecord record;
  record.verb = verb;
  record.deck_text = config.deck_text;
  record.resolved_text = config.resolved_text;
  record.model_xml = simulation.model().xml;
  record.version = kVersion;
  record.build = build_description();
  record.ranks = session.size();
  return record;
}

void report_bad_states(const Simulation& simulation, Session& session) {
  std::int64_t count = simulation.bad_states();
  session.collectives().sum(&count, 1);
  if (count == 0) return;
  std::string names;
  for (const auto& [env, step] : simulation.bad_environments(8))
    names += fmt::format("{}environment {} at control step {}", names.empty() ? "" : ", ", env, step);
  std::string all;
  for (const std::string& text : session.collectives().gather_text(names))
    if (!text.empty()) all += (all.empty() ? "" : ", ") + text;
  warn(fmt::format("{} bad state{} (NaN or too large) reset: {}", count, count == 1 ? "" : "s", all));
}

}  // namespace maniple
