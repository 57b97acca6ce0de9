#include "src/simulation/batch_simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/physics/regroup.hpp"
#include "src/base/log.hpp"
#include "src/base/to_device.hpp"
#include "src/model_import/control_names.hpp"
#include "src/model_import/vary.hpp"
#include "src/simulation/environment_blocks.hpp"
#include "src/simulation/initial_state.hpp"
#include "src/simulation/recorded_fields.hpp"
#include "src/tasks/terms/model_events.hpp"
#include "src/tasks/terms/motion.hpp"

namespace maniple {
namespace {

// Mean of `count` values, which are those of all ranks: the same bits for any number of ranks, because terms
// are multiples of a quantum that the largest one decides, and added as integers. NaN where a value is not
// finite. Collective.
double exact_mean(const std::vector<double>& values, std::int64_t count, Collectives& collectives) {
  constexpr std::int64_t not_finite = 1 << 20;
  std::int64_t exponent = -not_finite;  // of the largest; so far all are zero
  for (const double value : values) {
    int own = 0;
    std::frexp(value, &own);
    if (!std::isfinite(value)) own = not_finite;
    if (value != 0) exponent = std::max<std::int64_t>(exponent, own);
  }
  collectives.max(&exponent, 1);
  if (exponent == not_finite) return std::numeric_limits<double>::quiet_NaN();
  if (exponent == -not_finite) return 0;
  // the sum stays below 2^62
  const int shift =
      62 - static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count))) - static_cast<int>(exponent);
  std::int64_t sum = 0;
  for (const double value : values) sum += std::llround(std::ldexp(value, shift));
  collectives.sum(&sum, 1);
  return std::ldexp(static_cast<double>(sum), -shift) / static_cast<double>(count);
}

}  // namespace

template <class T>
BatchSimulation<T>::BatchSimulation(const Config& config, Prepared prepared, int rank, int ranks)
    : config_(config),
      prepared_(std::move(prepared)),
      partition_(environments_of(config, config.batch.num_envs, rank, ranks)),
      state_fields_(state_fields(model_.sizes)),
      device_model_(model_),
      device_task_(task_) {
  const ModelSizes& sizes = model_.sizes;
  physics_.model = device_model_.model();
  physics_.envs = partition_.envs();
  physics_.state = TiledView<T>("maniple::simulation::state", partition_.tiles, state_elements(sizes));
  const int workers = Scratch<Lanes<T>>::workers_for(data_elements(sizes), partition_.tiles * kTileWidth);
  physics_.scratch = Scratch<Lanes<T>>("maniple::simulation::scratch", data_elements(sizes), workers);
  physics_.bad_states = TiledView<std::int32_t>("maniple::simulation::bad_states", partition_.tiles, 2);
  physics_.dropped_contacts =
      TiledView<std::int32_t>("maniple::simulation::dropped_contacts", partition_.tiles, 2);
  if (regroups(sizes)) {
    physics_.regroup_scratch =
        Scratch<Lanes<T>>("maniple::simulation::regroup_scratch", regroup_elements<Lanes<T>>(sizes), workers);
  }
  if (has_task()) allocate_task();
  record_fields(config.output);
  set_state_rows("qpos", model_.qpos0);
  set_state_rows("model_values", model_.model_values);
}

template <class T>
void BatchSimulation<T>::allocate_task() {
  for (const CompiledCurriculum& curriculum : task_.curricula) curricula_.push_back(curriculum.initial);
  if (task_.motion && task_.motion->is_adaptive()) sampling_ = MotionSampling(*task_.motion);
  task_batch_.task = device_task_.task();
  task_batch_.task.terrain.num_envs = partition_.num_envs;
  task_batch_.seed = config_.batch.seed;
  task_batch_.first_env = partition_.first_env();
  task_batch_.evaluate_needs = task_.evaluate_needs;
  task_batch_.observe_needs = task_.observe_needs;
  task_batch_.stepped_needs = task_.stepped_needs;
  if (task_.released_at_reset && (physics_.model.flags & model_actuation)) {
    Model<T> released = physics_.model;
    released.flags &= ~model_actuation;
    released.disableflags |= disable_actuation;
    task_batch_.released_model =
        to_device<MemorySpace>("maniple::simulation::released_model", std::vector<Model<T>>{released});
  }
  if (task_.contact_steps > 0) {
    const int answers = task_batch_.task.contact_queries.answers();
    physics_.contact_queries = task_batch_.task.contact_queries;
    physics_.contact_steps = task_.contact_steps;
    physics_.contact_answers =
        TiledView<T>("maniple::simulation::contact_answers", partition_.tiles, task_.contact_steps * answers);
    physics_.contact_answer_scratch =
        Scratch<Lanes<T>>("maniple::simulation::contact_answer_scratch", answers, physics_.scratch.workers());
  }
  task_batch_.accept_needs = task_.accept_needs;
  task_batch_.fields = TiledView<T>("maniple::simulation::task", partition_.tiles, task_elements(task_));
  task_batch_.counters =
      TiledView<std::int32_t>("maniple::simulation::task_counters", partition_.tiles, kTaskCounters);
  task_batch_.scratch = Scratch<Lanes<T>>("maniple::simulation::task_scratch",
                                          task_batch_.task.scratch_elements(), physics_.scratch.workers());
  if (task_.settle_steps > 0)
    task_batch_.settle_scratch = Scratch<Lanes<T>>("maniple::simulation::settle_scratch",
                                                   settle_elements<Lanes<T>>(physics_.state.elements),
                                                   settle_workers(physics_.scratch.workers()));
  for (const auto& field : transition_fields<TiledView<T>>(task_))
    if (keeps(config_.output, field))
      task_batch_.transition.*field.member =
          TiledView<T>(std::string("maniple::simulation::") + field.name, partition_.tiles, field.size);
  if constexpr (std::is_same_v<T, float>) {
    learned_ = task_batch_.transition;
  } else {
    for (const auto& field : transition_fields<TiledView<float>>(task_))
      if (keeps(config_.output, field))
        learned_.*field.member = TiledView<float>(std::string("maniple::simulation::learned_") + field.name,
                                                  partition_.tiles, field.size);
  }
}

template <class T>
void BatchSimulation<T>::show_to_learning() const {
  if constexpr (!std::is_same_v<T, float>) {
    for_each_transition_field<TiledView<T>, TiledView<float>>([&](auto from, auto to) {
      if ((learned_.*to).elements > 0) convert_tiles_batch(task_batch_.transition.*from, learned_.*to);
    });
  }
}

template <class T>
void BatchSimulation<T>::record_fields(const OutputConfig& output) {
  // rows of the elements of these tiles; `view` by reference, because exported tiles are allocated last
  const auto record = [&](const auto& info, const auto& view, int first) {
    recorded_fields_.push_back({{info.name, info.unit, info.description, info.size},
                                [this, &view, first, size = info.size](std::vector<std::byte>& rows) {
                                  tiles_to_rows<T>(view, first, size, partition_.envs(), rows);
                                }});
  };
  const int kept = field_named(task_fields(task_), "kept").first;
  std::vector<ExportRange> ranges;
  int exported = 0;
  for (const std::string& name : recorded_names(output)) {
    for (const FieldInfo& field : state_fields_)
      if (field.name == name) record(field, physics_.state, field.first);
    for (const EnvironmentField& field : environment_fields(model_))
      if (field.name == name)
        record(field, physics_.state, field_named(state_fields_, "model_values").first + field.first);
    for (const FieldInfo& field : data_fields(model_.sizes)) {
      if (field.name != name) continue;
      record(field, physics_.exported, exported);
      ranges.push_back({field.first, field.size, exported});
      exported += field.size;
    }
    for (const auto& field : transition_fields<TiledView<T>>(task_))
      if (field.name == name) record(field, task_batch_.transition.*field.member, 0);
    for (const FieldInfo& field : place_fields(task_))
      if (field.name == name) record(field, task_batch_.fields, field.first);
    for (const CompiledVariable& variable : task_.variables)
      if (variable.field() == name)
        record(TrajectoryField{name, "task",
                               variable.is_command ? "command of the task" : "variable of the task",
                               variable.size},
               task_batch_.fields, kept + variable.element);
  }
  task_batch_.first_stepped_export = ranges.size();
  task_batch_.first_stepped = exported;
  for (const int element : task_.stepped) ranges.push_back({element, 1, exported++});
  physics_.exported = TiledView<T>("maniple::simulation::exported", partition_.tiles, exported);
  physics_.exports = Kokkos::View<ExportRange*, MemorySpace>("maniple::simulation::exports", ranges.size());
  const auto host = Kokkos::create_mirror_view(physics_.exports);
  std::copy(ranges.begin(), ranges.end(), host.data());
  Kokkos::deep_copy(physics_.exports, host);
}

template <class T>
void BatchSimulation<T>::set_state_rows(const std::string& field, const std::vector<double>& rows) {
  const FieldInfo& info = field_named(state_fields_, field);
  if (!rows.empty()) rows_to_tiles(physics_.state, info.first, info.size, rows);
  if (field == "time") set_state_rows("time_residual", {0.0});
}

template <class T>
void BatchSimulation<T>::initialize(const InitialStateConfig& initial) {
  control_step_ = 0;
  if (has_task()) reset();
  if (initial.source == StartState::task) {
    if (!has_task())
      throw InputError(initial.where, "initial_state.source", "task without a task",
                       "default, keyframe or file");
  } else {
    default_state_batch(physics_);
  }
  const bool own_keyframe = initial.source == StartState::keyframe;
  if (own_keyframe || (initial.source != StartState::task && !config_.task.keyframe.empty())) {
    const std::size_t key =
        own_keyframe
            ? keyframe_of(model_, initial.keyframe, initial.where, "initial_state.keyframe")
            : keyframe_of(model_, config_.task.keyframe, config_.task.where_keyframe, "task.keyframe");
    const auto row = [key](const std::vector<double>& values, int size) {
      return std::vector<double>(values.begin() + static_cast<std::ptrdiff_t>(key) * size,
                                 values.begin() + static_cast<std::ptrdiff_t>(key + 1) * size);
    };
    set_state_rows("time", {model_.key_time[key]});
    set_state_rows("qpos", row(model_.key_qpos, model_.sizes.nq));
    set_state_rows("qvel", row(model_.key_qvel, model_.sizes.nv));
    set_state_rows("act", row(model_.key_act, model_.sizes.na));
    set_state_rows("ctrl", row(model_.key_ctrl, model_.sizes.nu));
    set_state_rows("mocap_pos", row(model_.key_mpos, 3 * model_.sizes.nmocap));
    set_state_rows("mocap_quat", row(model_.key_mquat, 4 * model_.sizes.nmocap));
  }
  if (initial.source == StartState::file)
    for (const auto& [field, rows] : read_initial_state(initial, model_, partition_))
      set_state_rows(field, rows);
  if (!has_task()) return;
  if (initial.source != StartState::task) observe_batch(task_batch_, physics_);
  const Transition<TiledView<T>>& transition = task_batch_.transition;
  if (transition.final_observation.elements > 0)
    Kokkos::deep_copy(transition.final_observation.data, transition.observation.data);
  show_to_learning();
}

template <class T>
std::vector<std::pair<std::string, std::string>> BatchSimulation<T>::idle_draws() const {
  constexpr std::int64_t most_envs = 256;
  const std::map<std::string, std::string> drawn = initially_drawn_fields(config_.task, model_);
  if (drawn.empty()) return {};
  const HostTiles<T> state(physics_.state);
  const int first = field_named(state_fields_, "model_values").first;
  std::vector<double> rows;
  for (std::int64_t env = 0; env < std::min(most_envs, partition_.envs()); ++env)
    for (int i = 0; i < model_.sizes.nmodelvalue; ++i)
      rows.push_back(static_cast<double>(state.env(env)[(first + i) * kTileWidth]));
  std::vector<std::string> fields;
  for (const auto& [field, key] : drawn) fields.push_back(field);
  std::vector<std::pair<std::string, std::string>> idle;
  for (const std::string& field : fields_without_effect(model_, fields, rows))
    idle.emplace_back(drawn.at(field), field);
  return idle;
}

template <class T>
void BatchSimulation<T>::forward(bool inverse) {
  forward_batch(physics_, inverse);
}

template <class T>
void BatchSimulation<T>::zero_control() {
  set_state_rows("ctrl", std::vector<double>(static_cast<std::size_t>(model_.sizes.nu), 0.0));
}

template <class T>
void BatchSimulation<T>::random_control(std::int64_t control_step) {
  random_control_batch(physics_, config_.batch.seed, partition_.first_env(), control_step);
}

template <class T>
void BatchSimulation<T>::set_control(const std::vector<double>& rows) {
  set_state_rows("ctrl", rows);
}

template <class T>
void BatchSimulation<T>::step_physics() {
  const StageClock::Region region(clock_, "physics");
  step_batch(physics_, config_.simulation.decimation, static_cast<std::int32_t>(control_step_));
  ++control_step_;
}

template <class T>
void BatchSimulation<T>::time_physics_stages() {
  if (kScalarLanes) return;
  physics_.stage_times =
      Kokkos::View<StageTimes*, MemorySpace>("maniple::simulation::stage_times", physics_.scratch.workers());
}

template <class T>
std::vector<std::pair<std::string, double>> BatchSimulation<T>::physics_stage_seconds() const {
  std::vector<std::pair<std::string, double>> seconds;
  const auto workers = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), physics_.stage_times);
  for (int stage = 0; stage < kPhysicsStages && workers.extent(0) > 0; ++stage) {
    std::int64_t nanoseconds = 0;
    for (std::size_t worker = 0; worker < workers.extent(0); ++worker)
      nanoseconds += workers(worker).nanoseconds[stage];
    seconds.emplace_back(kPhysicsStageNames[stage],
                         static_cast<double>(nanoseconds) * 1e-9 / static_cast<double>(workers.extent(0)));
  }
  return seconds;
}

template <class T>
void BatchSimulation<T>::reset() {
  reset_batch(task_batch_, physics_);
  if (task_.settle_steps > 0) settle_batch(task_batch_, physics_, static_cast<std::int32_t>(control_step_));
  show_to_learning();
}

template <class T>
void BatchSimulation<T>::randomize_episode_steps() {
  randomize_episode_steps_batch(task_batch_, physics_, max_episode_steps());
}

template <class T>
void BatchSimulation<T>::step() {
  if constexpr (!std::is_same_v<T, float>)
    convert_tiles_batch(learned_.action, task_batch_.transition.action);
  step_task();
}

template <class T>
void BatchSimulation<T>::step_task() {
  {
    const StageClock::Region region(clock_, "task");
    apply_actions_batch(task_batch_, physics_);
  }
  step_physics();
  const StageClock::Region region(clock_, "task");
  const auto control_step = static_cast<std::int32_t>(control_step_ - 1);
  finish_step_batch(task_batch_, physics_, control_step);
  if (task_.settle_steps > 0) settle_batch(task_batch_, physics_, control_step);
  show_to_learning();
}

template <class T>
void BatchSimulation<T>::keep_final_observation() {
  const auto keep = [&](TiledView<T>& view, TiledView<float>& learned, const std::string& name, int size) {
    if (view.elements > 0) return;
    view = TiledView<T>("maniple::simulation::" + name, partition_.tiles, size);
    if constexpr (std::is_same_v<T, float>)
      learned = view;
    else
      learned = TiledView<float>("maniple::simulation::learned_" + name, partition_.tiles, size);
  };
  Transition<TiledView<T>>& transition = task_batch_.transition;
  keep(transition.final_observation, learned_.final_observation, "final_observation", task_.num_observations);
  keep(transition.final_critic_observation, learned_.final_critic_observation, "final_critic_observation",
       task_.num_critic_observations);
}

template <class T>
void BatchSimulation<T>::advance_curricula(const std::map<std::string, double>& metrics,
                                           Collectives& collectives) {
  if (curricula_.empty() && !sampling_) return;
  std::map<std::string, double> names = metrics;
  if (!task_.variable_means.empty() || sampling_) {
    const HostTiles<T> fields(task_batch_.fields);
    const int kept = field_named(task_fields(task_), "kept").first;
    std::vector<double> values(static_cast<std::size_t>(partition_.envs()));
    const auto mean_of = [&](int element) {
      for (std::int64_t env = 0; env < partition_.envs(); ++env)
        values[static_cast<std::size_t>(env)] =
            static_cast<double>(fields.env(env)[(kept + element) * kTileWidth]);
      return exact_mean(values, partition_.num_envs, collectives);
    };
    for (const VariableMean& mean : task_.variable_means) names[mean.name] = mean_of(mean.element);
    if (sampling_) {
      std::vector<double> failures(static_cast<std::size_t>(task_.motion->bins));
      for (std::size_t bin = 0; bin < failures.size(); ++bin)
        failures[bin] = std::round(mean_of(task_.first_motion_failure + static_cast<int>(bin)) *
                                   static_cast<double>(partition_.num_envs));
      sampling_->advance(failures, metrics.at("control_steps"));
    }
  }
  const AdvancedCurricula next = advance(task_.curricula, curricula_, names, task_.numbers);
  curricula_ = next.values;
  for (const std::size_t i : next.stuck)
    if (collectives.rank() == 0 && stuck_.insert(i).second)
      warn(fmt::format("{}: no finite number in iteration {}: the curriculum stays {}",
                       task_.curricula[i].update.key, metrics.at("iteration"), curricula_[i]));
  check_numbers(config_.task, task_.curricula, curricula_, task_.numbers,
                fmt::format("has become, by curricula in iteration {},", metrics.at("iteration")));
  show_curricula();
}

template <class T>
void BatchSimulation<T>::show_curricula() {
  std::vector<double> values = curricula_;
  if (sampling_)
    for (const double sum : sampling_->cumulative()) values.push_back(sum);
  device_task_.set_changing(values);
}

template <class T>
std::map<std::string, double> BatchSimulation<T>::learning_numbers(
    const std::map<std::string, double>& metrics) const {
  std::map<std::string, double> names = metrics;
  for (const auto& [name, value] : curricula()) names[name] = value;
  return followed_numbers(config_, names, task_.numbers);
}

template <class T>
std::vector<std::pair<std::string, double>> BatchSimulation<T>::curricula() const {
  std::vector<std::pair<std::string, double>> result;
  for (std::size_t i = 0; i < curricula_.size(); ++i)
    result.emplace_back(task_.curricula[i].name, curricula_[i]);
  return result;
}

template <class T>
void BatchSimulation<T>::set_curricula(const std::vector<std::pair<std::string, double>>& values) {
  for (std::size_t i = 0; i < curricula_.size(); ++i) curricula_[i] = values[i].second;
  show_curricula();
}

template <class T>
std::optional<double> BatchSimulation<T>::motion_sampling_entropy() const {
  return sampling_ ? std::optional(sampling_->entropy()) : std::nullopt;
}

template <class T>
void BatchSimulation<T>::describe_curricula(Archive& archive) {
  for (std::size_t i = 0; i < curricula_.size(); ++i)
    archive.replicated("curricula/" + task_.curricula[i].name, &curricula_[i], 1, "task",
                       "value of the curriculum");
}

template <class T>
std::int64_t BatchSimulation<T>::count_incidents(const TiledView<std::int32_t>& view) const {
  const HostTiles<std::int32_t> records(view);
  std::int64_t count = 0;
  for (std::int64_t env = 0; env < partition_.envs(); ++env) count += records.env(env)[0];
  return count;
}

template <class T>
std::vector<EnvironmentStep> BatchSimulation<T>::places_of_incidents(const TiledView<std::int32_t>& view,
                                                                     std::size_t limit,
                                                                     std::int64_t since) const {
  const HostTiles<std::int32_t> records(view);
  std::vector<EnvironmentStep> found;
  for (std::int64_t env = 0; env < partition_.envs() && found.size() < limit; ++env) {
    const std::int32_t* const record = records.env(env);
    if (record[0] > 0 && record[kTileWidth] >= since)
      found.push_back({.env = partition_.first_env() + env, .control_step = record[kTileWidth]});
  }
  return found;
}

template <class T>
std::vector<std::int64_t> BatchSimulation<T>::task_counts(const std::string& counter) const {
  std::vector<std::int64_t> counts;
  if (!has_task()) return counts;
  const int element = field_named(task_counters(), counter).first;
  const HostTiles<std::int32_t> counters(task_batch_.counters);
  for (std::int64_t env = 0; env < partition_.envs(); ++env)
    counts.push_back(counters.env(env)[element * kTileWidth]);
  return counts;
}

template <class T>
std::string BatchSimulation<T>::bad_value_text(std::int64_t first_bad_value) const {
  auto place = static_cast<std::size_t>(first_bad_value - 1);
  for (const auto& [kind, names] :
       {std::pair("reward", &task_.reward_names), std::pair("observation", &task_.observation_names),
        std::pair("critic's observation", &task_.critic_observation_names),
        std::pair("metric", &task_.metric_names)}) {
    if (place < names->size()) return fmt::format("{} {}", kind, (*names)[place]);
    place -= names->size();
  }
  throw Error(fmt::format("no value {} of the task", first_bad_value));
}

template <class T>
const typename BatchSimulation<T>::RecordedField& BatchSimulation<T>::recorded(
    const std::string& name) const {
  return *std::find_if(recorded_fields_.begin(), recorded_fields_.end(),
                       [&](const RecordedField& recorded) { return recorded.field.name == name; });
}

template <class T>
TrajectoryField BatchSimulation<T>::trajectory_field(const std::string& name) const {
  TrajectoryField field = recorded(name).field;
  if (name == "reward_term" || name == "episode_reward_term") field.names = task_.reward_names;
  if (name == "episode_metric") field.names = task_.metric_names;
  if (name == "action")
    for (const CompiledAction& action : task_.actions) field.names.push_back(action.name);
  if (name == "observation" || name == "final_observation") field.names = task_.observation_names;
  if (name == "critic_observation") field.names = task_.critic_observation_names;
  if (name == "ctrl") field.names = control_names(model_);
  return field;
}

template <class T>
void BatchSimulation<T>::read_field(const std::string& name, std::vector<std::byte>& rows) const {
  recorded(name).read(rows);
}

template <class T>
void BatchSimulation<T>::inject_nan(std::int64_t global_env) {
  const std::int64_t env = global_env - partition_.first_env();
  if (env < 0 || env >= partition_.envs()) return;
  const HostTiles<T> state(physics_.state);
  state.env(env)[field_named(state_fields_, "qpos").first * kTileWidth] = std::numeric_limits<T>::quiet_NaN();
  state.to_device();
}

template <class T>
template <class U>
U* BatchSimulation<T>::HostCopies::add(const TiledView<U>& tiles) {
  const HostTiles<U> host(tiles);
  to_device.push_back([host] { host.to_device(); });
  return host.data();
}

template <class T>
void BatchSimulation<T>::describe(Archive& archive) {
  host_copies_.to_device.clear();
  archive.replicated("simulation/control_step", &control_step_, 1, "1", "control steps so far");
  T* const state = host_copies_.add(physics_.state);
  for (const FieldInfo& field : state_fields_)
    archive.per_env(std::string("state/") + field.name, state,
                    static_cast<std::size_t>(physics_.state.elements), static_cast<std::size_t>(field.first),
                    static_cast<std::size_t>(field.size), field.unit, field.description);
  std::int32_t* const bad = host_copies_.add(physics_.bad_states);
  archive.per_env("simulation/bad_states", bad, 2, 0, 1, "1",
                  "resets of a state that was not finite or was too large");
  archive.per_env("simulation/bad_state_step", bad, 2, 1, 1, "1", "control step of the last such reset");
  std::int32_t* const dropped = host_copies_.add(physics_.dropped_contacts);
  archive.per_env("simulation/dropped_contacts", dropped, 2, 0, 1, "1",
                  "contacts beyond simulation.max_contacts");
  archive.per_env("simulation/dropped_contact_step", dropped, 2, 1, 1, "1",
                  "control step of the last of them");
  if (!has_task()) return;
  describe_curricula(archive);
  if (sampling_) {
    const std::size_t bins = sampling_->failed().size();
    archive.replicated("motion/failed", sampling_->failed().data(), bins, "1",
                       "running mean of the episodes that failed in a control step, by part of the motion");
    archive.replicated("motion/counted", sampling_->counted().data(), bins, "1",
                       "episodes that failed so far, by part of the motion");
    archive.replicated("motion/control_step", &sampling_->control_step(), 1, "1",
                       "control steps of each environment so far");
  }
  T* const fields = host_copies_.add(task_batch_.fields);
  for (const FieldInfo& field : task_fields(task_))
    archive.per_env(std::string("task/") + field.name, fields,
                    static_cast<std::size_t>(task_batch_.fields.elements),
                    static_cast<std::size_t>(field.first), static_cast<std::size_t>(field.size), field.unit,
                    field.description);
  std::int32_t* const counters = host_copies_.add(task_batch_.counters);
  for (const FieldInfo& counter : task_counters())
    archive.per_env(std::string("task/") + counter.name, counters, kTaskCounters,
                    static_cast<std::size_t>(counter.first), 1, counter.unit, counter.description);
  for (const auto& field : transition_fields<TiledView<T>>(task_)) {
    if (field.use != TransitionUse::saved) continue;
    const auto size = static_cast<std::size_t>(field.size);
    archive.per_env(std::string("task/") + field.name, host_copies_.add(task_batch_.transition.*field.member),
                    size, 0, size, field.unit, field.description);
  }
}

template <class T>
void BatchSimulation<T>::restored() {
  for (const auto& copy : host_copies_.to_device) copy();
  // one that nothing updates is the deck's own, whatever a training has made of it
  for (std::size_t i = 0; i < curricula_.size(); ++i)
    if (task_.curricula[i].update.text.empty()) curricula_[i] = task_.curricula[i].initial;
  show_curricula();
  if (has_task()) show_to_learning();
}

template class BatchSimulation<float>;
template class BatchSimulation<double>;

std::unique_ptr<Simulation> make_simulation(const Config& config, Prepared prepared, int rank, int ranks) {
  if (config.simulation.precision == Precision::fp32)
    return std::make_unique<BatchSimulation<float>>(config, std::move(prepared), rank, ranks);
  return std::make_unique<BatchSimulation<double>>(config, std::move(prepared), rank, ranks);
}

}  // namespace maniple
