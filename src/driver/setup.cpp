#include "src/driver/setup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "kernels/base/pack.hpp"
#include "kernels/tasks/program.hpp"
#include "src/base/counted.hpp"
#include "src/base/log.hpp"
#include "src/base/memory.hpp"
#include "src/base/version.hpp"
#include "src/config/dump.hpp"
#include "src/config/schema.hpp"
#include "src/driver/episode_recorder.hpp"
#include "src/driver/refusals.hpp"
#include "src/io/checkpoint_reader.hpp"
#include "src/io/dataset.hpp"
#include "src/learning/evaluation.hpp"
#include "src/learning/learners.hpp"
#include "src/learning/policy_network.hpp"
#include "src/parallel/cuda/devices.hpp"
#include "src/parallel/failure.hpp"
#include "src/simulation/environment_blocks.hpp"
#include "src/simulation/memory_estimate.hpp"
#include "src/simulation/recorded_fields.hpp"
#include "src/tasks/compile/contract.hpp"
#include "src/tasks/compile/prepared.hpp"
#include "src/tasks/compile/task.hpp"
#include "src/tasks/compile/task_table.hpp"

namespace maniple {
namespace {

std::string megabytes(std::size_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

constexpr std::size_t kNamedPlaces = 8;

// How often a host holds the state of a run in its copy of the last finished iteration: it reads what is on a
// device into memory of its own first.
constexpr std::size_t kCopies = kLaunchesTeams ? 2 : 1;

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
  all.places = gather_lines(mine.places, session);
  if (all.places.size() > kNamedPlaces) {
    all.places.resize(kNamedPlaces);
    all.places.push_back("and others");
  }
  return all;
}

// A limit that some ranks of a host share, or that one has for itself.
struct SharedLimit {
  std::string host, name;
  std::size_t needed = 0, available = 0;
  int ranks = 0;
};

// Those that ranks exceed. Collective; the same on all ranks.
std::vector<SharedLimit> exceeded(const RankMemory& memory, Session& session) {
  std::map<std::pair<std::string, std::string>, SharedLimit> shared;  // (host, limit)
  const bool has_device = session.place().device_index >= 0;
  const std::size_t of_host = has_device ? memory.beside_device() : memory.total();
  std::string mine;
  for (const MemoryLimit& limit : memory_limits())
    mine += limit.of_process ? fmt::format("{} {} own {} of rank {}\n", of_host, limit.available, limit.name,
                                           session.rank())
                             : fmt::format("{} {} shared {}\n", of_host, limit.available, limit.name);
#ifdef KOKKOS_ENABLE_CUDA
  if (has_device)
    mine +=
        fmt::format("{} {} own device of rank {}\n", memory.on_device(), free_cuda_memory(), session.rank());
#endif
  const std::vector<std::string> all = session.collectives().gather_text(mine);
  for (int rank = 0; rank < session.size(); ++rank) {
    std::istringstream lines(all[static_cast<std::size_t>(rank)]);
    std::size_t needed = 0, available = 0;
    const std::string& host = session.places()[static_cast<std::size_t>(rank)].host;
    for (std::string kind, name;
         lines >> needed >> available >> kind && lines.get() && std::getline(lines, name);) {
      if (kind == "shared")
        available = static_cast<std::size_t>(static_cast<double>(available) * session.share_of_memory(host));
      SharedLimit& limit = shared[{host, name}];
      if (limit.ranks == 0) limit = {host, name, 0, available, 0};
      limit.needed += needed;
      limit.available = std::min(limit.available, available);
      ++limit.ranks;
    }
  }
  std::vector<SharedLimit> found;
  for (const auto& [place, limit] : shared)
    if (limit.needed >= limit.available) found.push_back(limit);
  return found;
}

}  // namespace

std::vector<std::string> gather_lines(const std::vector<std::string>& mine, Session& session) {
  std::vector<std::string> all;
  for (const std::string& text :
       session.collectives().gather_text(fmt::format("{}", fmt::join(mine, "\n")))) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) all.push_back(line);
  }
  return all;
}

bool fits(const RankMemory& memory, Session& session) {
  return exceeded(memory, session).empty();
}

void check_memory(const RankMemory& memory, Session& session, const Config& config) {
  const std::vector<SharedLimit> limits = exceeded(memory, session);
  if (limits.empty()) return;
  const SharedLimit& limit = limits.front();
  const auto largest = std::max_element(memory.parts.begin(), memory.parts.end(),
                                        [](const auto& a, const auto& b) { return a.sum() < b.sum(); });
  // rank 0 has the largest share of everything that is shared
  const std::string key = broadcast_text(session.collectives(), largest->key);
  const std::string most = broadcast_text(
      session.collectives(), fmt::format("{} for {}, {} in all on a rank", megabytes(largest->sum()),
                                         largest->what, megabytes(memory.total())));
  throw InputError(config.where_of(key), key,
                   fmt::format("{}, {} for the {} of host {}", most, megabytes(limit.needed),
                               counted(limit.ranks, "rank"), limit.host),
                   fmt::format("{} are available{}", megabytes(limit.available),
                               limit.name == "host" ? "" : " (limit of " + limit.name + ")"));
}

std::size_t RankMemory::total() const {
  std::size_t sum = 0;
  for (const Part& part : parts) sum += part.sum();
  return sum;
}

std::size_t RankMemory::on_device() const {
  std::size_t sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

std::size_t RankMemory::beside_device() const {
  return total() - on_device();
}

std::size_t RankMemory::of(const std::string& key) const {
  std::size_t sum = 0;
  for (const Part& part : parts) sum += part.key == key ? part.sum() : 0;
  return sum;
}

std::string memory_text(const RankMemory& memory) {
  return fmt::format("{} B per environment, {} per rank", memory.bytes_per_env, megabytes(memory.total()));
}

void add_network(RankMemory& memory, const Config& config, const LearnerMemory& learner) {
  const PolicyConfig& policy = config.policy;
  const bool remembers = policy.recurrent != Recurrence::none &&
                         (policy.hidden.empty() || policy.recurrent_units > policy.hidden.front());
  memory.add({.key = config.learning.diffuses() ? "diffusion.down_dims"
                     : remembers                ? "policy.recurrent_units"
                                                : "policy.hidden",
              .what = "the policy",
              .bytes = learner.network_bytes,
              .copies = kCopies * learner.snapshot_bytes});
  if (learner.encoder_bytes > 0)
    memory.add({.key = "image.base_width", .what = "the image encoders", .bytes = learner.encoder_bytes});
}

namespace {

// The environments of evaluations while a policy is trained.
void add_periodic_evaluation(RankMemory& memory, const Config& config, const Prepared& prepared,
                             const Session& session) {
  if (config.evaluation.every == 0) return;
  const Partition partition =
      environments_of(config, periodic_evaluation_environments(config), session.rank(), session.size());
  memory.add({.key = "evaluation.episodes",
              .what = counted(partition.num_envs, "environment") + " of evaluations",
              .bytes = estimate_memory(config, prepared, partition.tiles * kTileWidth).rank_bytes});
}

}  // namespace

RankMemory rank_memory(const Config& config, const Prepared& prepared, const Session& session, Holds holds) {
  const Partition partition = environments_of(config, config.batch.num_envs, session.rank(), session.size());
  RankMemory memory;
  if (holds == Holds::periodic_evaluation) {
    memory.bytes_per_env = estimate_memory(config, prepared, kTileWidth).bytes_per_env;
    memory.add({.key = "model.file",
                .what = "a sample environment of the task",
                .bytes = estimate_memory(config, prepared, kTileWidth).rank_bytes});
    add_periodic_evaluation(memory, config, prepared, session);
    return memory;
  }
  const MemoryEstimate simulation = estimate_memory(config, prepared, partition.tiles * kTileWidth);
  const EnvironmentSizes sizes{simulation.num_observations, simulation.num_critic_observations,
                               simulation.num_actions,      simulation.num_reward_terms,
                               simulation.num_metrics,      partition.tiles};
  memory.bytes_per_env = simulation.bytes_per_env;
  std::size_t batch = simulation.rank_bytes;
  // (an evaluation has as many steps as its episodes take: those are not known)
  std::size_t copies =
      recorder_bytes(config, simulation.num_observations, simulation.num_actions, partition.envs());
  if (holds == Holds::learner) {
    const LearnerMemory learner = learner_of(config).memory(config, sizes);
    const auto envs = static_cast<std::size_t>(partition.tiles * kTileWidth);
    // and its environments' states in the copy of the last finished iteration
    batch += learner.batch_bytes;
    copies += kCopies * simulation.bytes_per_env * envs;
    memory.bytes_per_env += learner.batch_bytes / std::max<std::size_t>(1, envs);
    add_network(memory, config, learner);
    add_periodic_evaluation(memory, config, prepared, session);
  } else if (holds == Holds::policy || holds == Holds::evaluation) {
    LearnerMemory policy;
    policy.network_bytes = learner_of(config).policy_memory(config, sizes);
    add_network(memory, config, policy);
    const std::int64_t episodes = wanted_episodes(config, config.batch.num_envs);
    if (holds == Holds::evaluation)  // return, length and success of each, on every rank
      memory.add({.key = "evaluation.episodes",
                  .what = counted(episodes, "episode"),
                  .bytes = 3 * sizeof(double) * static_cast<std::size_t>(episodes)});
  }
  memory.add({.key = "batch.num_envs",
              .what = counted(config.batch.num_envs, "environment"),
              .bytes = batch,
              .copies = copies});
  return memory;
}

std::string build_description() {
#ifdef __clang__
  constexpr const char* compiler = "";  // __VERSION__ says it
#else
  constexpr const char* compiler = "g++ ";
#endif
  return fmt::format("{}{}, {} lanes single, {} lanes double", compiler, __VERSION__,
                     lane_width<Lanes<float>>, lane_width<Lanes<double>>);
}

std::string idle_ranks_text(const Partition& batch, int ranks, const std::string& of_what) {
  if (ranks <= batch.num_blocks) return "";
  return fmt::format("{} of {} ranks have no {}: ranks share the batch in blocks of {}",
                     ranks - batch.num_blocks, ranks, of_what, batch.block);
}

std::unique_ptr<Simulation> set_up_simulation(const Config& config, Session& session, const std::string& verb,
                                              Holds holds) {
  require_environments_for_ranks(config, session);
  // (a file may be missing on one host alone)
  Prepared prepared;
  const ImportedModel& model = prepared.model;
  run_together(session.collectives(), [&] {
    prepared = prepare(config);
    check_trajectory_fields(config, model);
  });
  if (session.rank() != 0) prepared.model.mjb.reset();
  const RankMemory memory = rank_memory(config, prepared, session, holds);
  Config own = config;
  std::string environments = counted(config.batch.num_envs, "environment");
  if (holds == Holds::periodic_evaluation) {
    own.batch.num_envs = session.size();
    environments = config.evaluation.every > 0
                       ? "evaluations in " + counted(periodic_evaluation_environments(config), "environment")
                       : "no evaluations";
  }
  const Partition partition = environments_of(own, own.batch.num_envs, session.rank(), session.size());
  info(fmt::format("maniple {} {}: {} ({}, {}), {}, {} precision", kVersion, verb, config.model.file,
                   counted(model.sizes.nv, "dof"), counted(model.sizes.nactuator, "actuator"), environments,
                   text_of(config.simulation.precision)));
  info(fmt::format("{}, {} back end, {}", counted(session.size(), "rank"), ExecutionSpace::name(),
                   build_description()));
  if (holds != Holds::periodic_evaluation) info("memory: " + memory_text(memory));
  for (const std::string& warning : model.warnings) warn(warning);
  const bool acts = holds != Holds::environments;
  if (const std::string echoed = acts ? echoed_actions_text(config) : ""; !echoed.empty()) warn(echoed);
  if (const std::string idle = idle_ranks_text(partition, session.size(), "environments");
      !idle.empty() && holds != Holds::periodic_evaluation)
    warn(idle);
  check_memory(memory, session, config);
  check_input_files(config, session);
  std::unique_ptr<Simulation> simulation;
  run_together(session.collectives(), [&] {
    simulation = make_simulation(own, std::move(prepared), session.rank(), session.size());
  });
  return simulation;
}

void check_input_files(const Config& config, Session& session) {
  if (config.initial_state.source == StartState::file)
    check_input(config.initial_state.file, config.initial_state.where, "initial_state.file",
                session.collectives());
  if (config.control.source == ControlInput::file)
    check_input(config.control.file, config.control.where, "control.file", session.collectives());
}

std::string policy_lines(Config config, const PolicySizes& sizes, const std::vector<Camera>& cameras) {
  const PolicyConfig defaults;
  PolicyConfig& policy = config.policy;
  if (policy.recurrent == Recurrence::none) {
    policy.recurrent_units = defaults.recurrent_units;
    policy.recurrent_layers = defaults.recurrent_layers;
    policy.recurrent_horizon = defaults.recurrent_horizon;
  }
  const bool mixes = config.learning.mixes();
  if (!mixes) policy.modes = 0;
  if (!mixes && !policy.state_dependent_std) {
    policy.std_transform = defaults.std_transform;
    policy.min_std = defaults.min_std;
    policy.max_std = defaults.max_std;
  }
  if (policy.critic_hidden == policy.hidden) policy.critic_hidden.clear();
  if (!policy.normalize_observations) policy.clip_normalized = defaults.clip_normalized;
  std::string lines;
  if (!cameras.empty()) {
    lines = fmt::format("{}={}\n", kCamerasLine, text_of(cameras));
    for (const Key& key : schema())
      if (key.path.starts_with("image.")) lines += key.path + "=" + yaml_text(key.target(config)) + "\n";
  }
  lines +=
      fmt::format("task.observations={}\ntask.critic_observations={}\ntask.actions={}\n", sizes.observations,
                  config.learning.imitates() ? 0 : sizes.critic_observations, sizes.actions);
  const std::string section = config.learning.diffuses() ? "diffusion." : "policy.";
  for (const Key& key : schema())
    if (key.path.starts_with(section) && !key.is(kOfFirstPolicy) && !key.is(kOfUse))
      lines += key.path + "=" + yaml_text(key.target(config)) + "\n";
  return lines;
}

std::set<std::string> unset_beginnings(const Config& config) {
  std::set<std::string> unset;
  for (const Key& key : schema())
    if (key.is(kOfFirstPolicy) && !config.where.contains(key.path)) unset.insert(key.path);
  return unset;
}

std::vector<std::string> settings_lines(Config config) {
  std::vector<std::string_view> sections{"learning.", "policy."};
  if (config.learning.imitates()) sections.push_back("data.");
  if (config.learning.diffuses()) sections.push_back("diffusion.");
  std::vector<std::string> lines;
  for (const Key& key : schema()) {
    const auto within = [&](std::string_view section) { return key.path.starts_with(section); };
    if (std::any_of(sections.begin(), sections.end(), within) && !key.is(kOfRun))
      lines.push_back(key.path + ": " + yaml_text(key.target(config)));
  }
  for (const auto& [name, expression] : config.learning.curricula)
    lines.push_back("learning.curricula." + name + ": " + yaml_quoted(expression));
  return lines;
}

CheckpointIdentity checkpoint_identity(const Config& config, const Simulation& simulation) {
  CheckpointIdentity identity;
  const ModelSizes& sizes = simulation.model().sizes;
  identity.model = fmt::format("{} (nq {}, nv {}, nu {}, na {}, {} bodies)",
                               std::filesystem::path(config.model.path).filename().string(), sizes.nq,
                               sizes.nv, sizes.nu, sizes.na, sizes.nbody);
  identity.task = fmt::format(
      "{}({} actions, {} observations, rewards {})", config.task.name.empty() ? "" : config.task.name + " ",
      simulation.num_actions(), simulation.num_observations(), fmt::join(simulation.reward_terms(), " "));
  identity.task_lines = task_lines(config);
  identity.model_digest = simulation.model_digest();
  identity.task_digest = simulation.task_digest();
  identity.precision = text_of(config.simulation.precision);
  identity.policy = policy_lines(config, policy_sizes(simulation));
  identity.settings = settings_lines(config);
  identity.unset = unset_beginnings(config);
  identity.num_envs = config.batch.num_envs;
  identity.seed = config.batch.seed;
  return identity;
}

EnvironmentSizes environment_sizes(const Simulation& simulation) {
  const PolicySizes sizes = policy_sizes(simulation);
  return {sizes.observations,
          sizes.critic_observations,
          sizes.actions,
          static_cast<int>(simulation.reward_terms().size()),
          static_cast<int>(simulation.metrics().size()),
          simulation.partition().tiles};
}

LoadedPolicy load_policy(const Config& config, Simulation& simulation, Session& session) {
  LoadedPolicy loaded;
  loaded.policy = learner_of(config).make_policy(config, environment_sizes(simulation));
  Archive archive;
  loaded.policy->describe(archive);
  const bool has_curricula = !config.learning.imitates();  // data have none
  if (has_curricula) simulation.describe_curricula(archive);
  loaded.iteration = read_replicated(config.control.checkpoint, checkpoint_identity(config, simulation),
                                     archive, session.collectives());
  loaded.policy->restored();
  if (has_curricula) simulation.restored();
  const std::vector<CompiledCurriculum>& compiled = simulation.prepared().task.curricula;
  const std::vector<std::pair<std::string, double>> values = simulation.curricula();
  for (std::size_t i = 0; i < compiled.size() && has_curricula; ++i)
    if (!compiled[i].update.text.empty())
      loaded.curricula +=
          fmt::format("{}{} {:.4g}", loaded.curricula.empty() ? "" : ", ", values[i].first, values[i].second);
  return loaded;
}

RunRecord run_record(const Config& config, const Session& session, const std::string& verb) {
  RunRecord record;
  record.verb = verb;
  record.deck_text = config.deck_text;
  record.resolved_text = config.resolved_text;
  record.version = kVersion;
  record.build = build_description();
  record.ranks = session.size();
  return record;
}

RunRecord run_record(const Config& config, const Session& session, const Simulation& simulation,
                     const std::string& verb) {
  RunRecord record = run_record(config, session, verb);
  const ImportedModel& model = simulation.model();
  record.model_xml = model.xml;
  if (config.task.present) {
    const CompiledTask& task = simulation.prepared().task;
    record.task_text = task_table(config.task, task);
    record.contract = policy_contract(config, task, model);
  }
  if (model.mjb) record.model_mjb = deflate_aside(model.mjb);
  return record;
}

PeriodicEvaluation::PeriodicEvaluation(const Config& config, const Simulation& simulation, Session& session)
    : config_(config), simulation_(simulation), session_(session) {
  config_.batch.num_envs = periodic_evaluation_environments(config);
}

EvaluationMeans PeriodicEvaluation::evaluate(ActingPolicy& policy) const {
  const auto environment = make_simulation(config_, simulation_.prepared(), session_.rank(), session_.size());
  environment->set_curricula(simulation_.curricula());
  return means_of(maniple::evaluate(*environment, policy, config_, session_.collectives()));
}

void check_training(const Config& config) {
  if (!config.control.checkpoint.empty())
    throw InputError(config.where_of("control.checkpoint"), "control.checkpoint",
                     "found a checkpoint, which trainings do not read here",
                     "allowed: with rollout and evaluate; learning.warm_start starts a training from one");
  if (config.evaluation.every > 0 && config.task.episode_length == 0 && config.task.episode_steps == 0)
    throw InputError(config.where_of("evaluation.every"), "evaluation.every",
                     "evaluations of a task without an end",
                     "a task.episode_length or task.episode_steps, or 0");
  if (config.evaluation.every > 0 && config.task.rewards.empty())
    throw InputError(config.where_of("evaluation.every"), "evaluation.every",
                     "evaluations of a task without rewards",
                     "a task with rewards, by which the best policy is chosen, or 0");
}

namespace {

// The sum of a task's counter, with the first environments that contribute.
Incidents count_incidents(const Simulation& simulation, Session& session, const std::string& counter) {
  Incidents mine;
  const std::vector<std::int64_t> counts = simulation.task_counts(counter);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    mine.count += counts[i];
    if (counts[i] > 0 && mine.places.size() <= kNamedPlaces)
      mine.places.push_back(fmt::format("{} in environment {}", counts[i],
                                        simulation.partition().first_env() + static_cast<std::int64_t>(i)));
  }
  return add_ranks(mine, session);
}

// The rewards and observations that became 0 before any other in an environment: where to look.
std::string first_bad_values(const Simulation& simulation, Session& session) {
  std::set<std::string> mine;
  for (const std::int64_t first : simulation.task_counts("first_bad_value"))
    if (first > 0) mine.insert(simulation.bad_value_text(first));
  const std::vector<std::string> lines = gather_lines({mine.begin(), mine.end()}, session);
  return fmt::format("{}", fmt::join(std::set<std::string>(lines.begin(), lines.end()), ", "));
}

}  // namespace

void report_invalid_samples(const Simulation& simulation, Session& session, std::int64_t iteration,
                            std::int64_t samples, std::int64_t horizon) {
  Incidents mine;
  for (const auto& [env, step] : simulation.bad_environments(kNamedPlaces + 1, (iteration - 1) * horizon)) {
    ++mine.count;
    mine.places.push_back(fmt::format("environment {} at control step {}", env, step));
  }
  const Incidents bad = add_ranks(mine, session);
  const bool none_left = samples == simulation.partition().num_envs * horizon;
  const std::string text = fmt::format(
      "iteration {}: {}{} left out of learning ({})", iteration, none_left ? "all " : "",
      counted(samples, "control step"),
      bad.count > 0 ? fmt::format("bad state in {}", fmt::join(bad.places, ", "))
                    : fmt::format("not finite or beyond 1e10: {}", first_bad_values(simulation, session)));
  if (none_left) throw Error(text + ": nothing is left to learn from");
  warn(text);
}

void report_bad_values(const Simulation& simulation, Session& session) {
  if (const Incidents values = count_incidents(simulation, session, "bad_values"); values.count > 0)
    warn(fmt::format("{} rewards or observations were not finite or beyond 1e10 and became 0: {}; first {}",
                     values.count, fmt::join(values.places, ", "), first_bad_values(simulation, session)));
}

void report_idle_draws(const Simulation& simulation, const Session& session) {
  if (session.rank() != 0 || !simulation.has_task()) return;
  for (const auto& [key, field] : simulation.idle_draws())
    warn(fmt::format(
        "{}: randomizing {} has no effect: in the environments checked the simulation "
        "does not depend on it{}",
        key, field,
        field == "geom_friction" ? ": the friction of each contact is that of its other geom, the larger one"
                                 : ""));
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
    warn(fmt::format("{} (NaN or too large) reset: {}", counted(bad.count, "bad state"),
                     fmt::join(bad.places, ", ")));
  const Incidents dropped =
      all_ranks(simulation.dropped_contacts(), simulation.overflowing_environments(kNamedPlaces + 1));
  if (dropped.count > 0)
    warn(fmt::format("{} beyond the capacity of {} left out (simulation.max_contacts): {}",
                     counted(dropped.count, "contact"), simulation.model().sizes.ncontact,
                     fmt::join(dropped.places, ", ")));
  if (!simulation.has_task()) return;
  report_bad_values(simulation, session);
  if (const Incidents refused = count_incidents(simulation, session, "refused_resets"); refused.count > 0)
    warn(fmt::format(
        "{} episodes began with a state that task.reset_until refuses, after {} refused draws: {}",
        refused.count, kMostDraws, fmt::join(refused.places, ", ")));
  if (const Incidents clipped = count_incidents(simulation, session, "clipped_actions"); clipped.count > 0)
    info(fmt::format("{} components of actions clipped (task.actions[].clip): {}", clipped.count,
                     fmt::join(clipped.places, ", ")));
}

}  // namespace maniple
