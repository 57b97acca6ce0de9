// Heaps of shapes that fall on each other and on a plane, step by step against mj_step: a thousand steps,
// each from MuJoCo's state, and the same without coming back to it as long as MuJoCo's own trajectories stay
// together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/reference/batch_under_test.hpp"

namespace maniple {
namespace {

// A model, and how far half of the steps and 999 in 1000 may be from MuJoCo's. Where cylinders
// or plates of regular polygons stand, a rounding chooses four of the corners of their ends.
struct Heap {
  std::string name;
  double median, tolerance;
};
void PrintTo(const Heap& heap, std::ostream* stream) {
  *stream << heap.name;
}

class Heaps : public ::testing::TestWithParam<Heap> {
 protected:
  static constexpr int kSteps = 1000;

  void SetUp() override {
    const ModelConfig config = oracle::config_of({GetParam().name, "", GetParam().name + ".xml"});
    mujoco_ = load_mujoco_model(config, {});
    imported_ = import_model(config, {});
    // both solvers run to convergence
    mujoco_.model->opt.tolerance = imported_.tolerance = 1e-15;
    mujoco_.model->opt.ls_tolerance = imported_.ls_tolerance = 1e-10;
    for (int env = 0; env < kEnvs; ++env) data_.push_back(start(env, 0));
  }
  // The model's pose with velocities of this environment's own; `change` moves it by that much of itself.
  oracle::DataPointer start(int env, double change) const {
    const mjModel& m = *mujoco_.model;
    oracle::DataPointer d = oracle::make_data(m);
    std::mt19937_64 generator(static_cast<std::uint64_t>(env));
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (int i = 0; i < m.nv; ++i) d->qvel[i] = 0.5 * uniform(generator);
    for (int i = 0; i < m.nq; ++i) d->qpos[i] *= 1 + change * uniform(generator);
    return d;
  }
  static RandomState state_of(const mjModel& m, const mjData& d) {
    return {{d.qpos, d.qpos + m.nq},
            {d.qvel, d.qvel + m.nv},
            {d.act, d.act + m.na},
            {d.ctrl, d.ctrl + m.nu},
            {d.qacc_warmstart, d.qacc_warmstart + m.nv},
            d.time};
  }
  std::vector<RandomState> states() const {
    std::vector<RandomState> all;
    for (const oracle::DataPointer& d : data_) all.push_back(state_of(*mujoco_.model, *d));
    return all;
  }

  MujocoModel mujoco_;
  ImportedModel imported_;
  std::vector<oracle::DataPointer> data_;
};

TEST_P(Heaps, EveryStepIsMujocos) {
  using V = Lanes<double>;
  const mjModel& m = *mujoco_.model;
  Batch<V> batch(imported_);
  Numbers errors;
  int contacts = 0;
  for (int step = 0; step < kSteps; ++step) {
    batch.set(states());
    batch.run_step();
    for (int env = 0; env < kEnvs; ++env) {
      mjData* const d = data_[static_cast<std::size_t>(env)].get();
      mj_step(&m, d);
      const Numbers qvel(d->qvel, d->qvel + m.nv);
      const double scale = 1 + largest(qvel) + m.opt.timestep * largest({d->qacc, d->qacc + m.nv});
      errors.push_back(difference(batch.state("qvel", env), qvel, scale));
      contacts += d->ncon;
    }
  }
  EXPECT_GT(contacts, 5 * kSteps * kEnvs);
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], GetParam().median);
  EXPECT_LT(errors[errors.size() * 999 / 1000], GetParam().tolerance);
  RecordProperty("999 of 1000", std::to_string(1e12 * errors[errors.size() * 999 / 1000]) + "e-12");
  RecordProperty("99 of 100", std::to_string(1e12 * errors[errors.size() * 99 / 100]) + "e-12");
  RecordProperty("median", std::to_string(1e12 * errors[errors.size() / 2]) + "e-12");
  RecordProperty("largest", std::to_string(1e12 * errors.back()) + "e-12");
}

TEST_P(Heaps, TrajectoriesPartAsMujocosDo) {
  if (GetParam().tolerance > 1e-6) return;  // MuJoCo's own part at once
  using V = Lanes<double>;
  const mjModel& m = *mujoco_.model;
  Batch<V> batch(imported_);
  batch.set(states());
  std::vector<oracle::DataPointer> others[2];
  for (auto& all : others)
    for (int env = 0; env < kEnvs; ++env) all.push_back(start(env, &all == others ? 1e-15 : -1e-15));
  std::vector<bool> together(kEnvs, true);
  int compared = 0;
  for (int step = 0; step < kSteps; ++step) {
    batch.run_step();
    for (std::size_t env = 0; env < kEnvs; ++env) {
      if (!together[env]) continue;
      mjData* const d = data_[env].get();
      mj_step(&m, d);
      const Numbers qpos(d->qpos, d->qpos + m.nq);
      double spread = 1e-12;
      for (auto& all : others) {
        mj_step(&m, all[env].get());
        spread = std::max(spread, difference({all[env]->qpos, all[env]->qpos + m.nq}, qpos, 1));
      }
      together[env] = spread < 1e-7;
      if (!together[env]) continue;
      ++compared;
      ASSERT_LE(difference(batch.state("qpos", static_cast<int>(env)), qpos, 1), 1000 * spread)
          << "environment " << env << ", step " << step;
    }
  }
  EXPECT_GT(compared, 50 * kEnvs);
  RecordProperty("steps", compared / kEnvs);
}

INSTANTIATE_TEST_SUITE_P(Models, Heaps,
                         ::testing::Values(Heap{"boxes", 1e-12, 1e-9}, Heap{"solids", 1e-3, 0.1},
                                           Heap{"meshes", 1e-12, 0.1}, Heap{"terrain", 1e-12, 0.1}),
                         [](const auto& model) { return model.param.name; });

}  // namespace
}  // namespace maniple
