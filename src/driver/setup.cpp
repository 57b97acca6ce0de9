#include "src/driver/setup.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "kernels/base/pack.hpp"
#include "src/base/log.hpp"
#include "src/base/version.hpp"
#include "src/model_import/import.hpp"

namespace maniple {
namespace {

std::string megabytes(std::size_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

constexpr std::size_t kNamedPlaces = 8;

// How often something happened, and where it did, in words.
struct Incidents {
  std::int64_t count = 0;
  std::vector<std::string> places;
};

// Over all ranks; of the places the first ones.
Incidents add_ranks(Incidents mine, Session& session) {
  session.collectives().sum(&mine.count, 1);
  Incidents all{mine.count, {}};
  if (all.count == 0) return all;
  for (const std::string& text :
       session.collectives().gather_text(fmt::format("{}", fmt::join(mine.places, "\n")))) {
    std::istringstream lines(text);
    for (std::string place; std::getline(lines, place);) all.places.push_back(place);
  }
  if (all.places.size() > kNamedPlaces) {
    all.places.resize(kNamedPlaces);
    all.places.push_back("and others");
  }
  return all;
}

// Of this host: what programs can have, which is more than what lies idle (the page cache gives way).
std::size_t available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name, unit;
  for (std::size_t kilobytes = 0; meminfo >> name >> kilobytes; std::getline(meminfo, unit))
    if (name == "MemAvailable:") return kilobytes * 1024;
  return static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Host memory only; a device back end reports its own failure at allocation.
void check_memory(const MemoryEstimate& memory, Session& session, const Config& config) {
  // the ranks of a host share its memory, and their shares differ by a tile at most
  const int sharing = session.place().local_ranks;
  const std::size_t needed = memory.rank_bytes * static_cast<std::size_t>(sharing);
  std::int64_t fits = kScalarLanes || needed < available_memory();
  session.collectives().min(&fits, 1);
  if (fits == 0)
    throw InputError(config.where_of("batch.num_envs"), "batch.num_envs",
                     fmt::format("{} environments need {} for the {} rank{} of this host",
                                 config.batch.num_envs, megabytes(needed), sharing, sharing == 1 ? "" : "s"),
                     fmt::format("{} are available", megabytes(available_memory())));
}

}  // namespace

std::string build_description() {
#ifdef __clang__
  constexpr const char* compiler = "";  // __VERSION__ says it
#else
  constexpr const char* compiler = "g++ ";
#endif
  return fmt::format("{}{}, {} lanes single, {} lanes double", compiler, __VERSION__,
                     lane_width<Lanes<float>>, lane_width<Lanes<double>>);
}

std::unique_ptr<Simulation> set_up_simulation(const Config& config, Session& session,
                                              const std::string& verb) {
  if (session.size() > config.batch.num_envs)
    throw InputError(config.where_of("batch.num_envs"), "batch.num_envs",
                     fmt::format("{} environments on {} ranks", config.batch.num_envs, session.size()),
                     "at least one environment per rank");
  ImportedModel model = import_model(config.model, config.simulation);
  const Partition partition(config.batch.num_envs, session.rank(), session.size());
  const MemoryEstimate memory = estimate_memory(config, model, partition.tiles * kTileWidth, verb == "train");
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

void report_incidents(const Simulation& simulation, Session& session) {
  const auto all_ranks = [&](std::int64_t count, const auto& environments) {
    Incidents mine{count, {}};
    for (const auto& [env, step] : environments)
      mine.places.push_back(fmt::format("environment {} at control step {}", env, step));
    return add_ranks(mine, session);
  };
  const Incidents bad = all_ranks(simulation.bad_states(), simulation.bad_environments(kNamedPlaces + 1));
  if (bad.count > 0)
    warn(fmt::format("{} bad state{} (NaN or too large) reset: {}", bad.count, bad.count == 1 ? "" : "s",
                     fmt::join(bad.places, ", ")));
  const Incidents dropped =
      all_ranks(simulation.dropped_contacts(), simulation.overflowing_environments(kNamedPlaces + 1));
  if (dropped.count > 0)
    warn(fmt::format("{} contact{} beyond the capacity of {} left out (simulation.max_contacts): {}",
                     dropped.count, dropped.count == 1 ? "" : "s", simulation.model().sizes.ncontact,
                     fmt::join(dropped.places, ", ")));
  if (!simulation.has_task()) return;
  const auto counted = [&](const std::string& counter) {
    Incidents mine;
    const std::vector<std::int64_t> counts = simulation.task_counts(counter);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      mine.count += counts[i];
      if (counts[i] > 0 && mine.places.size() <= kNamedPlaces)
        mine.places.push_back(fmt::format("{} in environment {}", counts[i],
                                          simulation.partition().first_env() + static_cast<std::int64_t>(i)));
    }
    return add_ranks(mine, session);
  };
  if (const Incidents values = counted("bad_values"); values.count > 0)
    warn(fmt::format("{} rewards or observations were not finite and became 0: {}", values.count,
                     fmt::join(values.places, ", ")));
  if (const Incidents clipped = counted("clipped_actions"); clipped.count > 0)
    info(fmt::format("{} components of actions clipped (task.actions[].clip): {}", clipped.count,
                     fmt::join(clipped.places, ", ")));
}

}  // namespace maniple
