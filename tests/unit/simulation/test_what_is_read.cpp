// Recorded fields and fields that a task reads change no bit of the states: runs that differ in nothing else
// are compared, field by field, for models with every kind of row, joint and sensor, both precisions, and
// each way to the constrained acceleration.
#include <gtest/gtest.h>

#include <cstddef>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/io/archive.hpp"
#include "src/model_import/import.hpp"
#include "src/simulation/simulation.hpp"
#include "tests/unit/tasks/task_rig.hpp"

namespace maniple {
namespace {

using testing::expression_term;

constexpr int kEnvs = 40;  // a whole tile, and a part of one
constexpr int kSteps = 5;  // control steps, of three physics steps

// The ways to the constrained acceleration.
enum class Road { row_space, dof_space, dual, as_mujoco };

struct WhatIsReadCase {
  std::string model;  // of tests/reference/models
  Road road;
  Precision precision;
  IntegratorChoice integrator = IntegratorChoice::of_model;
};

// For GoogleTest's messages.
void PrintTo(const WhatIsReadCase& c, std::ostream* stream) {
  *stream << c.model;
}

class WhatIsRead : public ::testing::TestWithParam<WhatIsReadCase> {
 protected:
  void SetUp() override {
    config_.model.file = config_.model.path =
        std::string(MANIPLE_SOURCE_DIR) + "/tests/reference/models/" + GetParam().model + ".xml";
    config_.batch.num_envs = kEnvs;
    config_.simulation.precision = GetParam().precision;
    config_.simulation.decimation = 3;
    config_.simulation.solver = GetParam().road == Road::dual        ? SolverChoice::PGS
                                : GetParam().road == Road::as_mujoco ? SolverChoice::CG
                                                                     : SolverChoice::Newton;
    config_.simulation.integrator = GetParam().integrator;
    config_.output.trajectory_every = 1;
    model_ = import_model(config_.model, config_.simulation);
    if (GetParam().road == Road::dof_space) {
      model_.sizes.nrowcontact = -1;
      model_.sizes.nrowblock = model_.sizes.nspaceblock = 0;
    }
  }
  // Every field of State after each control step, of a run that also records `fields`.
  std::vector<std::vector<std::byte>> states(const std::vector<std::string>& fields) const {
    Config config = config_;
    std::vector<std::string>& recorded = config.output.trajectory_fields;
    recorded.clear();
    for (const FieldInfo& field : state_fields(model_.sizes)) recorded.emplace_back(field.name);
    recorded.insert(recorded.end(), fields.begin(), fields.end());
    Prepared prepared{.model = model_, .task = {}};
    if (config.task.present) prepared.task = compile_task(config, model_);
    const auto simulation = make_simulation(config, prepared, 0, 1);
    simulation->initialize(config.initial_state);
    push(*simulation);
    std::vector<std::vector<std::byte>> result;
    for (int step = 0; step < kSteps; ++step) {
      if (config.task.present) {
        simulation->random_action(step);
        simulation->step_task();
      } else {
        simulation->random_control(step);
        simulation->step_physics();
      }
      for (const FieldInfo& field : state_fields(model_.sizes))
        simulation->read_field(field.name, result.emplace_back());
    }
    return result;
  }
  // Velocities by chance, other ones in each environment.
  void push(Simulation& simulation) const {
    Archive archive;
    simulation.describe(archive);
    for (const ArchiveEntry& entry : archive.entries()) {
      if (entry.name != "state/qvel") continue;
      std::mt19937_64 generator(7);
      std::normal_distribution<double> number(0, 0.5);
      for (std::size_t env = 0; env < kEnvs; ++env)
        for (std::size_t i = 0; i < entry.elements; ++i) {
          const std::size_t tile = env / kTileWidth, lane = env % kTileWidth,
                            at = (tile * entry.tile_elements + entry.first + i) * kTileWidth + lane;
          if (entry.type == ElementType::float32)
            static_cast<float*>(entry.data)[at] = static_cast<float>(number(generator));
          else
            static_cast<double*>(entry.data)[at] = number(generator);
        }
    }
    simulation.restored();
  }
  // The fields of Data that the model has.
  std::vector<std::string> fields() const {
    std::vector<std::string> names;
    for (const FieldInfo& field : data_fields(model_.sizes))
      if (field.size > 0) names.emplace_back(field.name);
    return names;
  }

  Config config_;
  ImportedModel model_;
};

TEST_P(WhatIsRead, FieldsOfTrajectoriesLeaveTheStates) {
  const auto expected = states({});
  for (const std::string& field : fields()) EXPECT_TRUE(states({field}) == expected) << field;
  EXPECT_TRUE(states(fields()) == expected);
}

// The task acts at random, resets its environments, and lets nothing that it reads act on them.
class WhatATaskReads : public WhatIsRead {};

TEST_P(WhatATaskReads, FieldsThatATaskReadsLeaveTheStates) {
  TaskConfig& task = config_.task;
  task.present = true;
  task.name = "test";
  task.where = {"task.yaml", 1, 0};
  task.observations = {expression_term("0")};
  task.actions = {testing::library_term("actuator_control", {".*"}, "actuators")};
  task.resets = {expression_term("uniform(-0.3, 0.3, " + std::to_string(model_.sizes.nv) + ")")};
  task.resets[0].target = "qvel";
  task.terminations = {expression_term("episode_step >= 3", "late")};
  const auto expected = states({});
  for (const std::string& field : fields()) {
    task.observations = {expression_term("0"), expression_term(field)};
    task.rewards = {expression_term("sum(" + field + ")", "nothing")};
    task.rewards[0].weight = 0;
    for (const DerivedChoice derived : {DerivedChoice::fresh, DerivedChoice::as_stepped}) {
      config_.simulation.derived = derived;
      EXPECT_TRUE(states({}) == expected) << field << ", " << text_of(derived);
    }
  }
  for (const DerivedChoice derived : {DerivedChoice::stepped_forces, DerivedChoice::stepped_rewards}) {
    config_.simulation.derived = derived;
    EXPECT_TRUE(states({}) == expected) << text_of(derived);
  }
}

std::vector<WhatIsReadCase> cases() {
  std::vector<WhatIsReadCase> all;
  for (const Precision precision : {Precision::fp32, Precision::fp64}) {
    for (const Road road : {Road::row_space, Road::dof_space, Road::dual})
      for (const char* model : {"contacts", "hand", "sensors"}) all.push_back({model, road, precision});
    all.push_back({"hand", Road::as_mujoco, precision});
    for (const IntegratorChoice integrator :
         {IntegratorChoice::RK4, IntegratorChoice::implicit, IntegratorChoice::implicitfast})
      for (const char* model : {"contacts", "fluid", "tendons"})
        all.push_back({model, Road::row_space, precision, integrator});
    for (const char* model : {"tendon_limits", "limits", "slippery", "patches", "free_bodies", "tree"})
      all.push_back({model, Road::row_space, precision});
  }
  return all;
}
// A task needs an actuator.
std::vector<WhatIsReadCase> cases_of_tasks() {
  std::vector<WhatIsReadCase> all = cases();
  std::erase_if(all, [](const WhatIsReadCase& c) { return c.model == "contacts"; });
  return all;
}
std::string name_of(const ::testing::TestParamInfo<WhatIsReadCase>& info) {
  const WhatIsReadCase& c = info.param;
  const char* const roads[] = {"rows", "dofs", "dual", "as_mujoco"};
  const bool given = c.integrator != IntegratorChoice::of_model;
  return c.model + "_" + roads[static_cast<int>(c.road)] + "_" + text_of(c.precision) +
         (given ? "_" + text_of(c.integrator) : "");
}
INSTANTIATE_TEST_SUITE_P(Models, WhatIsRead, ::testing::ValuesIn(cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Models, WhatATaskReads, ::testing::ValuesIn(cases_of_tasks()), name_of);

}  // namespace
}  // namespace maniple
