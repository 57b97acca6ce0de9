// simulation.solver_path: mujoco against libmujoco: each of 100 steps from its states and warm starts, by as
// few iterations and evaluations of a line search as models grant that do not let their solver converge, with
// Newton's method and CG, both cones, and several islands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/reference/batch_under_test.hpp"

namespace maniple {
namespace {

constexpr int kSolverSteps = 100;
// A state beyond it comes from a solver that hardly solves, and is put back to the start.
constexpr double kFast = 1e3, kAccelerated = 1e6;

const std::vector<ModelCase>& mujoco_solver_cases() {
  static const std::vector<ModelCase> cases = {
      {"limits", "", "limits.xml"},
      {"equality", "", "equality.xml"},
      {"cones", "", "cones.xml"},
      {"boxes", "", "boxes.xml"},
      {"hand", "", "hand.xml"},
      {"ant", "gymnasium", "envs/mujoco/assets/ant.xml"},
      {"humanoid", "gymnasium", "envs/mujoco/assets/humanoid.xml"},
      {"g1", "mjlab", "asset_zoo/robots/unitree_g1/xmls/g1.xml", ModelCase::nothing, ModelCase::under_feet},
  };
  return cases;
}

class MujocoSolver : public ::testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override {
    mju_user_warning = [](const char*) {};
    config_ = oracle::config_of(GetParam());
    if (config_.path.empty()) GTEST_SKIP() << "package " << GetParam().package << " is not installed";
  }
  void TearDown() override {
    mju_user_warning = nullptr;
    oracle::remove_copy(GetParam(), config_);
  }
  // Calls check(iterations) for the ways to solve the model, which is loaded then.
  template <class Check>
  void for_each_way(const Check& check) {
    for (const SolverChoice solver : {SolverChoice::Newton, SolverChoice::CG}) {
      // so few iterations of CG do not hold its bodies together
      if (solver == SolverChoice::CG && GetParam().name == "equality") continue;
      for (const ConeChoice cone : {ConeChoice::pyramidal, ConeChoice::elliptic})
        for (const int iterations : {1, 2, 5}) {
          SimulationConfig simulation;
          simulation.solver = solver;
          simulation.cone = cone;
          simulation.iterations = iterations;
          simulation.ls_iterations = iterations == 2 ? 8 : 4;
          SCOPED_TRACE(text_of(solver) + ", " + text_of(cone) + ", " + std::to_string(iterations) +
                       " iterations");
          mujoco_ = load_mujoco_model(config_, simulation);
          imported_ = import_model(config_, simulation);
          ASSERT_TRUE(imported_.sizes.as_mujoco);
          check(iterations);
        }
    }
  }
  // The errors of the velocities after each step of each environment that has rows, as parts of their change
  // and 1e-3, ascending.
  template <class V>
  std::vector<double> errors(int iterations);

  ModelConfig config_;
  MujocoModel mujoco_;
  ImportedModel imported_;
  int unfinished_ = 0;  // steps that take all of several iterations
};

template <class S>
RandomState state_of(const mjModel& m, const mjData& d) {
  const auto copy = [](const mjtNum* values, std::int64_t count) {
    Numbers result;
    for (std::int64_t i = 0; i < count; ++i) result.push_back(static_cast<double>(static_cast<S>(values[i])));
    return result;
  };
  return {copy(d.qpos, m.nq),
          copy(d.qvel, m.nv),
          copy(d.act, m.na),
          copy(d.ctrl, m.nu),
          copy(d.qacc_warmstart, m.nv),
          static_cast<double>(static_cast<S>(d.time)),
          Numbers(d.eq_active, d.eq_active + m.neq),
          copy(d.mocap_pos, 3 * m.nmocap),
          copy(d.mocap_quat, 4 * m.nmocap)};
}

template <class V>
std::vector<double> MujocoSolver::errors(int iterations) {
  const mjModel& m = *mujoco_.model;
  Batch<V> batch(imported_);
  std::vector<oracle::DataPointer> data;
  std::mt19937_64 generator(3);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const auto start = [&](mjData& d) {
    mj_resetData(&m, &d);
    for (int i = 0; i < m.nv; ++i) d.qvel[i] = 0.5 * uniform(generator);
  };
  for (int env = 0; env < kEnvs; ++env) {
    data.push_back(oracle::make_data(m));
    start(*data.back());
  }
  std::vector<double> result;
  for (int step = 0; step < kSolverSteps; ++step) {
    std::vector<RandomState> states;
    for (const oracle::DataPointer& d : data) {
      for (int i = 0; i < m.nu; ++i) d->ctrl[i] = oracle::control_at(m, i, 0.5 * (1 + uniform(generator)));
      states.push_back(state_of<ScalarOf<V>>(m, *d));
      oracle::set_state(m, d.get(), states.back());
    }
    batch.set(states);
    batch.run_step();
    for (int env = 0; env < kEnvs; ++env) {
      mjData& d = *data[static_cast<std::size_t>(env)];
      mj_step(&m, &d);
      const Numbers qvel(d.qvel, d.qvel + m.nv);
      if (!(largest(qvel) < kFast && largest({d.qacc, d.qacc + m.nv}) < kAccelerated)) {
        start(d);
        continue;
      }
      if (d.nefc == 0) continue;
      unfinished_ += iterations > 1 && d.solver_niter[0] == iterations;
      const double change = difference(qvel, states[static_cast<std::size_t>(env)].qvel, 1);
      result.push_back(difference(batch.state("qvel", env), qvel, 1e-3 + change));
    }
  }
  EXPECT_GT(result.size(), kSolverSteps * kEnvs / 20);
  std::sort(result.begin(), result.end());
  return result;
}

// In rare states rounding is magnified, or decides which point ends a line search.
TEST_P(MujocoSolver, StepsAsMujoco) {
  for_each_way([&](int iterations) {
    const std::vector<double> found = errors<Lanes<double>>(iterations);
    EXPECT_LE(found[found.size() * 999 / 1000], 1e-9);
    EXPECT_LE(found.back(), 1e-6);
  });
  EXPECT_GT(unfinished_, 0);
}

// Rounding decides more often, also whether there is a contact.
TEST_P(MujocoSolver, StepsAsMujocoInSinglePrecision) {
  for_each_way([&](int iterations) {
    const bool newton = mujoco_.model->opt.solver == mjSOL_NEWTON;
    const std::vector<double> found = errors<Lanes<float>>(iterations);
    EXPECT_LE(found[found.size() / 2], newton ? 2e-5 : 5e-4);
    EXPECT_LE(found[found.size() * 9 / 10], newton ? 5e-4 : 2e-3);
  });
}

INSTANTIATE_TEST_SUITE_P(Models, MujocoSolver, ::testing::ValuesIn(mujoco_solver_cases()),
                         [](const auto& model) { return model.param.name; });

}  // namespace
}  // namespace maniple
