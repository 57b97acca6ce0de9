// A batch of MuJoCo's physics as Python steps it: states and controls in and out by the names of their
// fields, without a task.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/model_import/import.hpp"
#include "src/python/workers.hpp"
#include "src/simulation/simulation.hpp"

namespace maniple {

class ModelSimulation {
 public:
  // A field by its name in MuJoCo's mjData, of `size` numbers in each environment.
  struct Field {
    std::string name, unit{}, description{};
    int size = 0;
    bool is_state = false;  // may be set; others follow from states, and are there where they were asked for
  };
  // A field of the model that each environment has for itself.
  struct ModelField {
    std::string name, unit{}, description{};
    int size = 0, first = 0;  // its place in the state's model_values
    bool may_be_set = false;  // nothing else follows from it
  };

  // `fields`: that follow from states and are kept; `model_fields`: that environments have for themselves.
  // Throws InputError.
  ModelSimulation(const Config& config, const std::vector<std::string>& fields,
                  const std::vector<std::string>& model_fields, int threads);

  std::int64_t envs() const { return config_.batch.num_envs; }
  bool is_double() const { return config_.simulation.precision == Precision::fp64; }
  double step_dt() const { return model().timestep * config_.simulation.decimation; }  // s
  const Config& config() const { return config_; }
  const ImportedModel& model() const { return prepared_.model; }
  const std::vector<Field>& fields() const { return fields_; }
  const std::vector<ModelField>& model_fields() const { return model_fields_; }
  // Contacts that an environment has room for, and those left out so far because it had more.
  int max_contacts() const { return model().sizes.ncontact; }
  std::int64_t dropped_contacts() const;
  // Environments put back so far because their state was not finite or too large.
  std::int64_t bad_states() const;

  // The initial state of the deck, in all environments or in those of `mask` [envs].
  void reset(const bool* mask);
  // Rows [envs][size] of T, which is the precision's.
  template <class T>
  void get(const Field& field, T* rows);
  template <class T>
  void set(const Field& field, const T* rows, const bool* mask);
  // Derived fields of the present state; see Simulation::forward.
  void forward(bool inverse = false);
  // Control steps, with the controls that are in the state.
  void step(std::int64_t steps);
  // Steps of double precision from the present state: control [envs][steps][nu] or null, for none; what each
  // step leads to, [envs][steps], as rows of time, qpos, qvel and act, and of sensordata where it was asked
  // for.
  void rollout(const double* control, std::int64_t steps, double* state, double* sensordata);

 private:
  struct Part {
    std::unique_ptr<Simulation> simulation;
    std::int64_t first = 0, envs = 0;
  };

  Config config_;
  Prepared prepared_;
  std::vector<Field> fields_;
  std::vector<ModelField> model_fields_;
  std::mutex in_use_;
  std::vector<Part> parts_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace maniple
