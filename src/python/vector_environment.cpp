#include "src/python/vector_environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <type_traits>

#include "src/python/batch_parts.hpp"
#include "src/python/kokkos.hpp"
#include "src/python/rows.hpp"
#include "src/python/saved_environments.hpp"
#include "src/simulation/environment_blocks.hpp"
#include "src/simulation/recorded_fields.hpp"
#include "src/tasks/compile/prepared.hpp"
#include "src/tasks/compile/task.hpp"
#include "src/tasks/language/names.hpp"
#include "src/tasks/terms/curriculum.hpp"

namespace maniple {
// The environments that one thread steps.
struct VectorEnvironment::Part {
  std::unique_ptr<Simulation> simulation;
  std::int64_t first = 0, envs = 0;  // of this process's environments
  bool any_ended = false;            // in the last step

  // Copies a flag's tiles into the array of all parts.
  static void read_flags(const Part& part, const TiledView<float>& tiles, bool* to) {
    const HostTiles<float> flags(tiles);
    for (std::int64_t env = 0; env < part.envs; ++env) to[part.first + env] = *flags.env(env) != 0;
  }
};

namespace {

// Fields of the model that say where something is, how large, or of which color.
bool is_seen(const std::string& field) {
  static const std::set<std::string> fields{"qpos0",     "body_pos",  "body_quat", "body_ipos", "geom_pos",
                                            "geom_quat", "geom_size", "geom_rgba", "site_pos"};
  return fields.contains(field);
}

}  // namespace

VectorEnvironment::VectorEnvironment(const Config& config, Autoreset autoreset, int rank, int ranks,
                                     int threads, bool for_pictures)
    : config_(config), autoreset_(autoreset), rank_(rank), ranks_(ranks) {
  if (!config.task.present)
    throw InputError(config.where_of("task"), "task", "found a deck without a task",
                     "allowed: decks with actions, observations and rewards, as those of inputs/tasks");
  const Partition partition = environments_of(config, config.batch.num_envs, rank, ranks);
  if (partition.num_blocks < ranks)
    throw InputError(config.where_of("batch.num_envs"), "batch.num_envs",
                     fmt::format("{} environments on {} ranks", config.batch.num_envs, ranks),
                     fmt::format("at least {} for each rank but the last", partition.block));
  start_kokkos_once();
  envs_ = partition.envs();
  first_env_ = partition.first_env();
  // files that nobody asks for are not recorded; the numbers of double precision are read as files would be
  config_.output.dataset = DatasetLayout::none;
  config_.output.trajectory_every = 0;
  if (is_double()) {
    config_.output.trajectory_every = 1;
    config_.output.trajectory_fields = {"observation", "final_observation", "reward", "episode_return"};
  }
  config_.initial_state.source = StartState::task;
  prepared_ = prepare(config_);
  if (for_pictures) {
    const ModelSizes& sizes = prepared_.model.sizes;
    picture_fields_ = {{"qpos", sizes.nq}, {"mocap_pos", 3 * sizes.nmocap}, {"mocap_quat", 4 * sizes.nmocap}};
    for (const EnvironmentField& field : environment_fields(prepared_.model))
      if (is_seen(field.name)) picture_fields_.emplace_back(field.name, field.size);
    std::erase_if(picture_fields_, [](const auto& field) { return field.second == 0; });
    config_.output.trajectory_every = 1;
    if (!is_double()) config_.output.trajectory_fields.clear();
    for (const auto& [name, size] : picture_fields_) config_.output.trajectory_fields.push_back(name);
  } else {
    prepared_.model.mjb.reset();
  }

  const CompiledTask& task = prepared_.task;
  num_observations_ = task.num_observations;
  num_critic_observations_ = task.num_critic_observations;
  if (is_double() && num_critic_observations_ > 0)
    for (const char* const field : {"critic_observation", "final_critic_observation"})
      config_.output.trajectory_fields.emplace_back(field);
  if (is_double()) {
    if (!reward_terms().empty()) config_.output.trajectory_fields.emplace_back("episode_reward_term");
    if (!metrics().empty()) config_.output.trajectory_fields.emplace_back("episode_metric");
  }
  has_success_ = task.num_success > 0;
  for (const CompiledCurriculum& curriculum : task.curricula) curricula_.push_back(curriculum.initial);
  step_dt_ = task.step_dt;
  max_episode_steps_ = task.max_episode_steps;
  observation_names_ = task.observation_names;
  for (const CompiledAction& action : task.actions) {
    action_names_.push_back(action.name);
    action_low_.push_back(std::min(action.random_low, action.random_high));
    action_high_.push_back(std::max(action.random_low, action.random_high));
  }

  refuse_what_does_not_fit(config, config_, prepared_, partition);
  const int parts = parts_of(partition, threads);
  for (int index = 0; index < parts; ++index) parts_.push_back(std::make_shared<Part>());
  workers_ = std::make_unique<Workers>(parts);
  ended_ = std::make_unique<bool[]>(static_cast<std::size_t>(envs_));
  build();
}

std::int64_t VectorEnvironment::dropped_contacts() const {
  std::int64_t count = 0;
  for (const auto& part : parts_) count += part->simulation->dropped_contacts();
  return count;
}

void VectorEnvironment::build() {
  const int parts = threads();
  workers_->run([&](int index) {
    Part& part = *parts_[static_cast<std::size_t>(index)];
    part.simulation = make_simulation(config_, prepared_, rank_ * parts + index, ranks_ * parts);
    part.simulation->keep_final_observation();
    part.first = part.simulation->partition().first_env() - first_env_;
    part.envs = part.simulation->partition().envs();
    show_curricula(part);
  });
  begun_ = false;
}

std::vector<VectorEnvironment::Curriculum> VectorEnvironment::curricula() const {
  std::vector<Curriculum> result;
  for (std::size_t i = 0; i < curricula_.size(); ++i)
    for (const TermConfig& term : config_.task.curricula)
      if (term.name == prepared_.task.curricula[i].name && term.term.empty())
        result.push_back(
            {.name = term.name, .value = curricula_[i], .place = i, .is_updated = !term.update.empty()});
  return result;
}

void VectorEnvironment::set_curriculum(const std::string& name, double value) {
  const std::lock_guard lock(in_use_);
  const std::vector<Curriculum> known = curricula();
  std::vector<std::string> names;
  for (const Curriculum& curriculum : known) names.push_back(curriculum.name);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw InputError("curriculum: found '" + name + "'" + did_you_mean(name, names) + "; allowed: " +
                     (names.empty() ? "none: task.curricula has no expressions" : list(names)));
  if (!std::isfinite(value))
    throw InputError(fmt::format("curriculum {}: found {}; allowed: a finite number", name, value));
  std::vector<double> next = curricula_;
  next[known[static_cast<std::size_t>(found - names.begin())].place] = value;
  check_numbers(config_.task, prepared_.task.curricula, next, prepared_.task.numbers,
                fmt::format("has become, by {} = {},", name, value));
  curricula_ = next;
  workers_->run([&](int index) { show_curricula(*parts_[static_cast<std::size_t>(index)]); });
}

void VectorEnvironment::show_curricula(const Part& part) const {
  std::vector<std::pair<std::string, double>> values = part.simulation->curricula();
  for (std::size_t i = 0; i < values.size(); ++i) values[i].second = curricula_[i];
  part.simulation->set_curricula(values);
}

void VectorEnvironment::reseed(std::uint32_t seed) {
  const std::lock_guard lock(in_use_);
  const bool is_fresh = !begun_ && seed == config_.batch.seed;
  config_.batch.seed = seed;
  if (!is_fresh) build();
}

template <class T>
void VectorEnvironment::reset(const bool* mask, const StepRows<T>& rows) {
  const std::lock_guard lock(in_use_);
  if (mask != nullptr && !begun_)
    throw Error("the first reset resets all environments: options without a reset_mask");
  workers_->run([&](int index) {
    const Part& part = *parts_[static_cast<std::size_t>(index)];
    Simulation& simulation = *part.simulation;
    bool* const ended = ended_.get() + part.first;
    if (!begun_) {
      simulation.initialize(config_.initial_state);
      std::fill_n(ended, part.envs, false);
    } else {
      // those that have ended stand at the beginning of their next episode already
      const bool* const chosen = mask == nullptr ? nullptr : mask + part.first;
      std::vector<std::int64_t> others;
      for (std::int64_t env = 0; env < part.envs; ++env)
        if (ended[env] || (chosen != nullptr && !chosen[env])) others.push_back(env);
      if (static_cast<std::int64_t>(others.size()) < part.envs) {
        SavedEnvironments saved(simulation, std::move(others));
        simulation.reset();
        saved.restore();
      }
      for (std::int64_t env = 0; env < part.envs; ++env)
        if (chosen == nullptr || chosen[env]) ended[env] = false;
    }
    read_observations(part, rows);
  });
  begun_ = true;
}

template <class T>
bool VectorEnvironment::step(const T* actions, const StepRows<T>& rows) {
  const std::lock_guard lock(in_use_);
  if (!begun_) throw Error("reset() comes before the first step()");
  if (autoreset_ == Autoreset::disabled)
    if (const auto* const found = std::find(ended_.get(), ended_.get() + envs_, true);
        found != ended_.get() + envs_)
      throw Error(
          fmt::format("the episode of environment {} has ended: with AutoresetMode.DISABLED "
                      "reset(options={{\"reset_mask\": ...}}) begins the next one",
                      first_env_ + (found - ended_.get())));
  workers_->run([&](int index) {
    Part& part = *parts_[static_cast<std::size_t>(index)];
    Simulation& simulation = *part.simulation;
    bool* const ended = ended_.get() + part.first;
    const T* const own = actions + part.first * num_actions();
    // those that have ended show the beginning of their next episode in this step, which they stand at
    // already
    std::vector<std::int64_t> waiting;
    if (autoreset_ == Autoreset::next_step)
      for (std::int64_t env = 0; env < part.envs; ++env)
        if (ended[env]) waiting.push_back(env);
    SavedEnvironments saved(simulation, waiting);
    if constexpr (std::is_same_v<T, float>) {
      const HostTiles<float> tiles(simulation.action());
      tiles_from_rows(own, num_actions(), part.envs, tiles.data());
      tiles.to_device();
      simulation.step();
    } else {
      simulation.set_action(std::vector<double>(own, own + part.envs * num_actions()));
      simulation.step_task();
    }
    saved.restore();
    Part::read_flags(part, simulation.terminated(), rows.terminated);
    Part::read_flags(part, simulation.truncated(), rows.truncated);
    read_numbers(part, "reward", simulation.reward(), rows.reward);
    for (const std::int64_t env : waiting) {
      const std::int64_t row = part.first + env;
      rows.reward[row] = 0;
      rows.terminated[row] = rows.truncated[row] = false;
    }
    for (std::int64_t row = part.first; row < part.first + part.envs; ++row)
      ended_[row] = rows.terminated[row] || rows.truncated[row];
    part.any_ended = std::find(ended, ended + part.envs, true) != ended + part.envs;
    if (autoreset_ == Autoreset::same_step) std::fill_n(ended, part.envs, false);
    read_observations(part, rows);
  });
  return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->any_ended; });
}

template <class T>
void VectorEnvironment::read_numbers(const Part& part, const char* field, const TiledView<float>& tiles,
                                     T* rows) const {
  const int size = tiles.elements;
  if (rows == nullptr || size == 0) return;
  if constexpr (std::is_same_v<T, float>) {
    rows_from_tiles(HostTiles<float>(tiles).data(), size, part.envs, rows + part.first * size);
  } else {
    std::vector<std::byte> packed;
    part.simulation->read_field(field, packed);
    std::memcpy(rows + part.first * size, packed.data(), packed.size());
  }
}

template <class T>
void VectorEnvironment::read_observations(const Part& part, const StepRows<T>& rows) const {
  const Simulation& simulation = *part.simulation;
  read_numbers(part, "observation", simulation.observation(), rows.observation);
  read_numbers(part, "critic_observation", simulation.critic_observation(), rows.critic_observation);
  // what an environment shows until its next episode begins is the end of the last one
  const bool* const ended = ended_.get() + part.first;
  if (std::find(ended, ended + part.envs, true) == ended + part.envs) return;
  const auto show_final = [&](const char* field, const TiledView<float>& tiles, T* to) {
    if (to == nullptr || tiles.elements == 0) return;
    const std::int64_t size = tiles.elements;
    std::vector<T> finals(static_cast<std::size_t>(envs_ * size));
    read_numbers(part, field, tiles, finals.data());
    for (std::int64_t row = part.first; row < part.first + part.envs; ++row)
      if (ended_[row]) std::copy_n(finals.data() + row * size, size, to + row * size);
  };
  show_final("final_observation", simulation.final_observation(), rows.observation);
  show_final("final_critic_observation", simulation.final_critic_observation(), rows.critic_observation);
}

template <class T>
void VectorEnvironment::episodes(const EpisodeRows<T>& rows) {
  const std::lock_guard lock(in_use_);
  for (const auto& each : parts_) {
    const Part& part = *each;
    const Simulation& simulation = *part.simulation;
    read_numbers(part, "final_observation", simulation.final_observation(), rows.final_observation);
    read_numbers(part, "final_critic_observation", simulation.final_critic_observation(),
                 rows.final_critic_observation);
    read_numbers(part, "episode_return", simulation.episode_return(), rows.episode_return);
    rows_from_tiles(HostTiles<float>(simulation.episode_length()).data(), 1, part.envs,
                    rows.episode_length + part.first);
    if (rows.success != nullptr && has_success_) Part::read_flags(part, simulation.success(), rows.success);
    Part::read_flags(part, simulation.invalid(), rows.invalid);
    read_numbers(part, "episode_reward_term", simulation.episode_reward_term(), rows.reward_term);
    read_numbers(part, "episode_metric", simulation.episode_metric(), rows.metric);
  }
}

template <class T>
void VectorEnvironment::read_state(const std::string& field, T* rows) {
  const std::lock_guard lock(in_use_);
  if (!begun_) throw Error("reset() comes before the first picture");
  const auto known = std::find_if(picture_fields_.begin(), picture_fields_.end(),
                                  [&](const auto& entry) { return entry.first == field; });
  std::vector<std::byte> packed;
  for (const auto& part : parts_) {
    part->simulation->read_field(known->first, packed);
    std::memcpy(rows + part->first * known->second, packed.data(), packed.size());
  }
}

template void VectorEnvironment::read_state(const std::string&, float*);
template void VectorEnvironment::read_state(const std::string&, double*);
template void VectorEnvironment::episodes(const EpisodeRows<float>&);
template void VectorEnvironment::episodes(const EpisodeRows<double>&);
template void VectorEnvironment::reset(const bool*, const StepRows<float>&);
template void VectorEnvironment::reset(const bool*, const StepRows<double>&);
template bool VectorEnvironment::step(const float*, const StepRows<float>&);
template bool VectorEnvironment::step(const double*, const StepRows<double>&);

}  // namespace maniple
