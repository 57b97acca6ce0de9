// The environments of this rank: model, state tiles, task, and the calls that advance them. One
// implementation per precision stands behind this interface (src/simulation/batch_simulation.hpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/io/results.hpp"
#include "src/model_import/import.hpp"
#include "src/simulation/environment.hpp"
#include "src/tasks/compile/prepared.hpp"

namespace maniple {

// Where and when something happened: a global environment and its control step.
struct EnvironmentStep {
  std::int64_t env = 0, control_step = 0;
};

class Simulation : public Environment {
 public:
  virtual const Prepared& prepared() const = 0;
  const ImportedModel& model() const { return prepared().model; }
  virtual bool has_task() const = 0;
  // Components of each term of task.observations.
  virtual const std::vector<int>& observation_widths() const = 0;
  // Digests of the compiled model and task: what a checkpoint must agree with.
  virtual std::string model_digest() const = 0;
  virtual std::string task_digest() const = 0;

  // ---- state ----
  // The state that initial_state.* asks for, in every environment.
  virtual void initialize(const InitialStateConfig& config) = 0;
  // Derived fields (xpos, sensordata, ...) of the current state, without stepping. With `inverse` qacc and
  // qfrc_inverse are those of the accelerations in qacc_warmstart.
  virtual void forward(bool inverse = false) = 0;

  // What events drew at start-up though nothing follows from it in any of the first environments of this
  // rank: keys of the events with the fields.
  virtual std::vector<std::pair<std::string, std::string>> idle_draws() const = 0;

  // ---- without a policy: actions of a task, in the run's precision, and the control step with them ----
  virtual void zero_action() = 0;
  // Such that the controls are uniform in their range, `clip` applied (unlimited: actions in [-1, 1]); a
  // function of seed, environment, step.
  virtual void random_action(std::int64_t control_step) = 0;
  // One row of num_actions() values per environment of this rank, or one row for all.
  virtual void set_action(const std::vector<double>& rows) = 0;
  // step() with the action of these calls, which stays for further ones.
  virtual void step_task() = 0;

  // ---- physics alone: control, then one control step of `decimation` physics steps ----
  virtual void zero_control() = 0;
  // Uniform in the control range (unlimited controls: in [-1, 1]); a function of seed, environment, step.
  virtual void random_control(std::int64_t control_step) = 0;
  // One row of nu values per environment of this rank, or one row for all.
  virtual void set_control(const std::vector<double>& rows) = 0;
  virtual void step_physics() = 0;
  // From now on steps note the seconds of each stage of physics, a worker's mean; empty on a device
  // (kernels/physics/stage_times.hpp).
  virtual void time_physics_stages() = 0;
  virtual std::vector<std::pair<std::string, double>> physics_stage_seconds() const = 0;

  // ---- output ----
  // Name, unit, description and size of a field that was asked for in output.trajectory.fields, or of
  // kDatasetFields.
  virtual TrajectoryField trajectory_field(const std::string& name) const = 0;
  // Rows [environment of this rank][size], packed, in the run's precision (float or double).
  virtual void read_field(const std::string& name, std::vector<std::byte>& rows) const = 0;

  // Test hook: the position of one global environment becomes NaN.
  virtual void inject_nan(std::int64_t global_env) = 0;
  // Up to `limit` environments of this rank whose bad state was reset, with the control step at which that
  // happened last, if it is `since` or later.
  virtual std::vector<EnvironmentStep> bad_environments(std::size_t limit, std::int64_t since = 0) const = 0;
  // Contacts that were dropped because an environment had more than its capacity, and where, as above.
  virtual std::int64_t dropped_contacts() const = 0;
  virtual std::vector<EnvironmentStep> overflowing_environments(std::size_t limit) const = 0;
  // One of the task's counters (kernels/tasks/task_fields.hpp) for each environment of this rank.
  virtual std::vector<std::int64_t> task_counts(const std::string& counter) const = 0;
  // The value of the counter first_bad_value in words: "reward alive", "observation joint_pos[0]".
  virtual std::string bad_value_text(std::int64_t first_bad_value) const = 0;
};

// Builds the simulation of this rank's environments. Fields of output.trajectory.fields, which are known to
// exist (check_trajectory_fields), are recorded only when the run samples trajectories.
std::unique_ptr<Simulation> make_simulation(const Config& config, Prepared prepared, int rank, int ranks);

}  // namespace maniple
