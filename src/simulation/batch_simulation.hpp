// The simulation in one precision: owns the device model and task, the state tiles and everything that
// belongs to an environment, and launches the kernels that advance them.
#pragma once

#include <functional>
#include <optional>
#include <set>

#include "kernels/model/field_info.hpp"
#include "kernels/physics/batch.hpp"
#include "kernels/tasks/batch.hpp"
#include "src/base/timing.hpp"
#include "src/simulation/simulation.hpp"
#include "src/simulation/tile_rows.hpp"
#include "src/tasks/compile/device_model.hpp"
#include "src/tasks/compile/device_task.hpp"
#include "src/tasks/compile/task.hpp"
#include "src/tasks/compile/task_digest.hpp"
#include "src/tasks/terms/motion_sampling.hpp"

namespace maniple {

template <class T>
class BatchSimulation final : public Simulation {
 public:
  BatchSimulation(const Config& config, Prepared prepared, int rank, int ranks);

  const Partition& partition() const override { return partition_; }
  int num_observations() const override { return task_.num_observations; }
  int num_actions() const override { return task_.num_actions; }
  std::int64_t max_episode_steps() const override { return task_.max_episode_steps; }
  const std::vector<std::string>& reward_terms() const override { return task_.reward_names; }
  const std::vector<std::string>& metrics() const override { return task_.metric_names; }
  const std::vector<int>& observation_widths() const override { return task_.observation_widths; }

  void reset() override;
  void randomize_episode_steps() override;
  void step() override;

  const Transition<TiledView<float>>& transition() const override { return learned_; }
  void keep_final_observation() override;
  void hold_terrain_levels() override { task_batch_.task.terrain.holds = true; }
  void advance_curricula(const std::map<std::string, double>& metrics, Collectives& collectives) override;
  std::map<std::string, double> learning_numbers(const std::map<std::string, double>& metrics) const override;
  std::vector<std::pair<std::string, double>> curricula() const override;
  void set_curricula(const std::vector<std::pair<std::string, double>>& values) override;
  std::optional<double> motion_sampling_entropy() const override;
  void describe_curricula(Archive& archive) override;

  std::int64_t bad_states() const override { return count_incidents(physics_.bad_states); }
  void describe(Archive& archive) override;
  void restored() override;
  std::vector<std::pair<std::string, double>> stage_seconds() const override { return clock_.seconds(); }

  const Prepared& prepared() const override { return prepared_; }
  bool has_task() const override { return config_.task.present; }
  std::string model_digest() const override { return model_.digest; }
  std::string task_digest() const override { return maniple::task_digest(task_); }

  void initialize(const InitialStateConfig& config) override;
  void forward(bool inverse) override;
  std::vector<std::pair<std::string, std::string>> idle_draws() const override;
  void zero_action() override { Kokkos::deep_copy(task_batch_.transition.action.data, T(0)); }
  void random_action(std::int64_t control_step) override { random_actions_batch(task_batch_, control_step); }
  void set_action(const std::vector<double>& rows) override {
    rows_to_tiles(task_batch_.transition.action, 0, num_actions(), rows);
  }
  void step_task() override;
  void zero_control() override;
  void random_control(std::int64_t control_step) override;
  void set_control(const std::vector<double>& rows) override;
  void step_physics() override;
  void time_physics_stages() override;
  std::vector<std::pair<std::string, double>> physics_stage_seconds() const override;

  TrajectoryField trajectory_field(const std::string& name) const override;
  void read_field(const std::string& name, std::vector<std::byte>& rows) const override;
  void inject_nan(std::int64_t global_env) override;
  std::vector<EnvironmentStep> bad_environments(std::size_t limit, std::int64_t since = 0) const override {
    return places_of_incidents(physics_.bad_states, limit, since);
  }
  std::int64_t dropped_contacts() const override { return count_incidents(physics_.dropped_contacts); }
  std::vector<EnvironmentStep> overflowing_environments(std::size_t limit) const override {
    return places_of_incidents(physics_.dropped_contacts, limit, 0);
  }
  std::vector<std::int64_t> task_counts(const std::string& counter) const override;
  std::string bad_value_text(std::int64_t first_bad_value) const override;

 private:
  // A field that files ask for, and how its rows are read.
  struct RecordedField {
    TrajectoryField field;
    std::function<void(std::vector<std::byte>& rows)> read;
  };

  std::int64_t count_incidents(const TiledView<std::int32_t>& view) const;
  std::vector<EnvironmentStep> places_of_incidents(const TiledView<std::int32_t>& view, std::size_t limit,
                                                   std::int64_t since) const;

  // Host copies of tiles that describe() hands out, and the way back.
  struct HostCopies {
    std::vector<std::function<void()>> to_device;
    template <class U>
    U* add(const TiledView<U>& tiles);
  };

  void allocate_task();
  // Brings what the task wrote to learning's copies.
  void show_to_learning() const;
  void record_fields(const OutputConfig& output);
  const RecordedField& recorded(const std::string& name) const;
  // One field of every environment from rows of doubles: one row for all, or one per environment.
  void set_state_rows(const std::string& field, const std::vector<double>& rows);

  Config config_;
  const Prepared prepared_;
  const ImportedModel& model_ = prepared_.model;
  const CompiledTask& task_ = prepared_.task;
  Partition partition_;
  std::int64_t control_step_ = 0;
  // Gives the device the values of curricula and the sampling of the motion.
  void show_curricula();

  std::vector<double> curricula_;  // values of the task's
  std::optional<MotionSampling> sampling_;
  std::set<std::size_t> stuck_;  // curricula that were said to have no next value
  std::vector<FieldInfo> state_fields_;
  std::vector<RecordedField> recorded_fields_;
  DeviceModel<T> device_model_;
  DeviceTask<T> device_task_;
  PhysicsBatch<T> physics_;
  TaskBatch<T> task_batch_;
  Transition<TiledView<float>> learned_;  // in single precision the task's own tiles, otherwise copies
  StageClock clock_;
  HostCopies host_copies_;
};

}  // namespace maniple
