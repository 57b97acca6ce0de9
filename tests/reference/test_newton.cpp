// Hard cases of Newton's method: stiff rows that cancel each other, friction of almost zero, both precisions.
// The oracle is libmujoco, in double precision, from the same states.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/reference/batch_under_test.hpp"
#include "tests/reference/constraint_rows.hpp"
#include "tests/reference/model_in_file.hpp"
#include "tests/reference/step_check.hpp"

namespace maniple {
namespace {

double rounded(double value) {
  return static_cast<double>(static_cast<float>(value));
}
Numbers rounded(const mjtNum* values, std::int64_t count) {
  Numbers result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(rounded(values[i]));
  return result;
}

// ---- an airborne ant with three joints at their limits ----

// From states around this one the warm start of the second step is all but the solution: the Newton step is
// what rounding leaves of the difference of two large ones.
RandomState ant_state(std::mt19937_64& generator) {
  std::uniform_real_distribution<double> noise(-2e-3, 2e-3);
  RandomState state;
  for (const double q : {0.15, -0.18, 0.562, 0.997, 0.038, 0.042, -0.049, 0.497, 0.784, -0.199, -0.508, -0.53,
                         -0.922, 0.423, 0.552})
    state.qpos.push_back(rounded(q + noise(generator)));
  for (const double v : {0.999, -0.58, -0.747, 0.235, 0.558, -0.066, 0.143, -7.618, -3.39, -0.419, 0.173,
                         2.876, 1.252, -3.404})
    state.qvel.push_back(rounded(v + 10 * noise(generator)));
  for (const double u : {0.018, -0.299, 0.318, 0.002, -0.38, -0.042, -0.017, -0.291})
    state.ctrl.push_back(rounded(u));
  state.qacc_warmstart.assign(state.qvel.size(), 0.0);
  return state;
}

template <class V>
void check_ant() {
  SCOPED_TRACE(sizeof(ScalarOf<V>) == 8 ? "double" : "single");
  const ModelConfig config = oracle::config_of({"ant", "gymnasium", "envs/mujoco/assets/ant.xml"});
  ASSERT_FALSE(config.path.empty()) << "package gymnasium is not installed";
  const MujocoModel mujoco = load_mujoco_model(config, {});
  const ImportedModel imported = import_model(config, {});
  const mjModel& m = *mujoco.model;
  const oracle::DataPointer d = oracle::make_data(m);
  Batch<V> batch(imported);
  std::mt19937_64 generator(5);
  double worst = 0;
  for (int tile = 0; tile < 60; ++tile) {
    std::vector<RandomState> states;
    for (int env = 0; env < kEnvs; ++env) states.push_back(ant_state(generator));
    batch.set(states);
    for (int step = 0; step < 3; ++step) batch.run_step();
    for (int env = 0; env < kEnvs; ++env) {
      oracle::set_state(m, d.get(), states[static_cast<std::size_t>(env)]);
      for (int step = 0; step < 3; ++step) mj_step(&m, d.get());
      worst = std::max(worst, difference(batch.state("qvel", env), {d->qvel, d->qvel + m.nv}, 1));
    }
  }
  EXPECT_LE(worst, sizeof(ScalarOf<V>) == 8 ? 1e-6 : 1e-2);
}

TEST(Newton, AntAtItsLimitsInTheAir) {
  check_ant<Lanes<double>>();
  check_ant<Lanes<float>>();
}

// ---- bodies at rest with any friction ----

class NewtonFriction : public ModelInFile {
 protected:
  void SetUp() override {
    mju_user_warning = [](const char*) {};
  }
  void TearDown() override { mju_user_warning = nullptr; }
  void load(double friction) {
    char number[32];
    std::snprintf(number, sizeof(number), "%.9g", friction);
    const std::string with = std::string(" friction=\"") + number + " 0 0\"";
    std::ofstream(path_) << "<mujoco><option timestep=\"0.004\"/><worldbody><geom type=\"plane\" "
                            "contype=\"2\" conaffinity=\"0\" size=\"9 9 .1\""
                         << with << "/>\n"
                         << "<body pos=\"0 0 .1\"><freejoint/><geom type=\"box\" contype=\"0\" "
                            "conaffinity=\"2\" size=\".1 .1 .1\""
                         << with << "/></body>\n"
                         << "<body pos=\"1 0 .1\"><freejoint/><geom type=\"sphere\" contype=\"0\" "
                            "conaffinity=\"2\" size=\".1\""
                         << with << "/></body>\n"
                         << "<body pos=\"0 1 .1\"><freejoint/><geom type=\"capsule\" contype=\"0\" "
                            "conaffinity=\"2\" size=\".1 .2\" zaxis=\"1 0 0\""
                         << with << "/></body>\n"
                         << "</worldbody></mujoco>\n";
    load_file();
  }
  // Spheres and capsules, one above the other.
  void load_pile(int bodies, double friction, std::mt19937_64& generator) {
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::ofstream file(path_);
    file << "<mujoco><option timestep=\"0.004\"/><default><geom friction=\"" << friction
         << " 0 0\"/></default><worldbody><geom type=\"plane\" size=\"4 4 .1\"/>\n";
    for (int i = 0; i < bodies; ++i) {
      file << "<body pos=\"" << 0.15 * uniform(generator) << " " << 0.15 * uniform(generator) << " "
           << 0.12 + 0.15 * i << "\"><freejoint/><geom ";
      if (uniform(generator) < 0)
        file << "size=\".12\"";
      else
        file << "type=\"capsule\" size=\".07 .12\" euler=\"" << 90 * uniform(generator) << " "
             << 90 * uniform(generator) << " 0\"";
      file << "/></body>\n";
    }
    file << "</worldbody></mujoco>\n";
    file.close();
    load_file();
  }
  // On the way from small velocities to rest.
  std::vector<RandomState> states(int seed) const {
    const mjModel& m = *mujoco_.model;
    const oracle::DataPointer d = oracle::make_data(m);
    std::mt19937_64 generator(static_cast<std::uint64_t>(seed));
    std::uniform_real_distribution<double> uniform(-0.2, 0.2);
    std::vector<RandomState> result;
    for (int env = 0; env < kEnvs; ++env) {
      mj_resetData(&m, d.get());
      const double speed = env % 4 == 0 ? 0 : std::pow(10, -(env % 4));
      for (int i = 0; i < m.nv; ++i) d->qvel[i] = speed * uniform(generator);
      for (int step = 0; step < 4 * env; ++step) mj_step(&m, d.get());
      result.push_back(
          {rounded(d->qpos, m.nq), rounded(d->qvel, m.nv), {}, {}, rounded(d->qacc_warmstart, m.nv), 0});
    }
    return result;
  }
  template <class V>
  void check(double friction, int seed);
  template <class V>
  void check_pile(int steps);
  // One evaluation.
  template <class V>
  void check_forward(Batch<V>& batch, const std::vector<RandomState>& starts);
};

// By how much the cost of MuJoCo's solution rises, by the rows of the state as it is, where the state that it
// comes from is rounded to single precision.
double rounding_of(const mjModel& m, const RandomState& state, const Numbers& qacc) {
  const oracle::DataPointer d = oracle::make_data(m), moved = oracle::make_data(m);
  oracle::set_state(m, d.get(), state);
  mj_forward(&m, d.get());
  const double cost = cost_of(m, d.get(), qacc);
  std::mt19937_64 generator(3);
  std::uniform_real_distribution<double> relative(-6e-8, 6e-8);
  double result = 0;
  for (int i = 0; i < 8; ++i) {
    RandomState near = state;
    for (double& q : near.qpos) q += std::max(std::abs(q), 0.1) * relative(generator);
    for (double& v : near.qvel) v *= 1 + relative(generator);
    oracle::set_state(m, moved.get(), near);
    mj_forward(&m, moved.get());
    const Numbers other(moved->qacc, moved->qacc + m.nv);
    result = std::max(result, cost_of(m, d.get(), other) - cost);
  }
  return result;
}

template <class V>
void NewtonFriction::check_forward(Batch<V>& batch, const std::vector<RandomState>& starts) {
  constexpr bool kDouble = sizeof(ScalarOf<V>) == 8;
  SCOPED_TRACE(kDouble ? "double" : "single");
  const mjModel& m = *mujoco_.model;
  const oracle::DataPointer d = oracle::make_data(m);
  batch.set(starts);
  batch.run_forward();
  for (int env = 0; env < kEnvs; ++env) {
    SCOPED_TRACE("environment " + std::to_string(env));
    const RandomState& start = starts[static_cast<std::size_t>(env)];
    oracle::set_state(m, d.get(), start);
    mj_forward(&m, d.get());
    const Numbers qacc = batch.data(env).at("qacc"), theirs(d->qacc, d->qacc + m.nv);
    const double best = cost_of(m, d.get(), theirs);
    double cost = m.opt.tolerance * m.stat.meaninertia * static_cast<double>(m.nv) + 1e-12 * std::abs(best);
    if (!kDouble) cost += 10 * rounding_of(m, start, theirs) + 1e-6 * std::abs(best);
    EXPECT_LE(cost_of(m, d.get(), qacc) - best, cost) << best << numbers_text(qacc, theirs);
  }
}

template <class V>
void NewtonFriction::check(double friction, int seed) {
  SCOPED_TRACE("friction " + std::to_string(friction));
  const mjModel& m = *mujoco_.model;
  const oracle::DataPointer d = oracle::make_data(m);
  const std::vector<RandomState> starts = states(seed);
  Batch<V> batch(imported_);
  check_forward(batch, starts);
  // for two seconds
  batch.set(starts);
  constexpr int kSteps = 500;
  int bad = 0;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<bool> flags = batch.run_step();
    bad += static_cast<int>(std::count(flags.begin(), flags.end(), true));
  }
  EXPECT_EQ(bad, 0);
  for (int env = 0; env < kEnvs; env += 4) {
    SCOPED_TRACE("environment " + std::to_string(env));
    oracle::set_state(m, d.get(), starts[static_cast<std::size_t>(env)]);
    for (int step = 0; step < kSteps; ++step) mj_step(&m, d.get());
    const Numbers qpos = batch.state("qpos", env), qvel = batch.state("qvel", env);
    for (const std::size_t k : {2, 9, 16}) EXPECT_NEAR(qpos[k], d->qpos[k], 1e-3) << "height " << k;
    EXPECT_LE(largest(qvel), largest({d->qvel, d->qvel + m.nv}) + 1e-2);
  }
}

TEST_F(NewtonFriction, AnyOfItAtRest) {
  const char* const wanted = std::getenv("MANIPLE_FUZZ_FRICTIONS");
  const int count = wanted == nullptr ? 8 : std::atoi(wanted);
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<double> exponent(-6, 1);
  for (int i = 0; i < count; ++i) {
    const double friction = i == 0 ? 0 : std::pow(10, exponent(generator));
    load(friction);
    check<Lanes<double>>(friction, i);
    check<Lanes<float>>(friction, i);
  }
}

// ---- runs of piles, each step from the acceleration of the one before ----

// By how much the cost of a step's acceleration may exceed that of MuJoCo's from the same state: what its
// tolerance leaves, and rounding.
double allowed_excess(const mjModel& m, double best) {
  return m.opt.tolerance * m.stat.meaninertia * static_cast<double>(m.nv) + 1e-9 * std::abs(best);
}

template <class V>
void NewtonFriction::check_pile(int steps) {
  constexpr bool kDouble = sizeof(ScalarOf<V>) == 8;
  SCOPED_TRACE(kDouble ? "double" : "single");
  const mjModel& m = *mujoco_.model;
  const oracle::DataPointer d = oracle::make_data(m);
  StepCheck steps_of_mujoco(m);
  std::mt19937_64 generator(1);
  std::normal_distribution<double> normal;
  std::vector<RandomState> start;
  for (int env = 0; env < kEnvs; ++env) {
    mj_resetData(&m, d.get());
    Numbers noise;
    for (int i = 0; i < m.nv; ++i) noise.push_back(0.02 * normal(generator));
    mj_integratePos(&m, d->qpos, noise.data(), 1);
    for (int i = 0; i < m.nv; ++i) d->qvel[i] = 0.1 * normal(generator);
    start.push_back({rounded(d->qpos, m.nq), rounded(d->qvel, m.nv), {}, {}, Numbers(noise.size()), 0});
  }
  Batch<V> batch(imported_);
  batch.set(start);
  for (int step = 0; step < steps; ++step) {
    std::vector<RandomState> from;
    for (int env = 0; env < kEnvs; ++env)
      from.push_back({batch.state("qpos", env),
                      batch.state("qvel", env),
                      {},
                      {},
                      batch.state("qacc_warmstart", env),
                      0});
    batch.run_step();
    for (int env = 0; env < kEnvs; ++env) {
      const RandomState& state = from[static_cast<std::size_t>(env)];
      if (!kDouble) {
        ASSERT_LE(steps_of_mujoco.error(state, batch.state("qvel", env), 0.02), kLeap)
            << "environment " << env << ", step " << step << state_text(state);
        continue;
      }
      oracle::set_state(m, d.get(), state);
      mj_forward(&m, d.get());
      if (d->nefc == 0) continue;
      const Numbers theirs(d->qacc, d->qacc + m.nv), qacc = batch.state("qacc_warmstart", env);
      const double best = cost_of(m, d.get(), theirs);
      ASSERT_LE(cost_of(m, d.get(), qacc) - best, allowed_excess(m, best))
          << "environment " << env << ", step " << step << ", cost " << best << numbers_text(qacc, theirs);
    }
  }
}

// In single precision the velocities after each step are compared, where friction is more than next to
// nothing: else rounding of the rows alone costs more than all forces do.
TEST_F(NewtonFriction, PilesAreNotAboveMujocosCost) {
  const char* const wanted = std::getenv("MANIPLE_FUZZ_PILES");
  const int count = wanted == nullptr ? 6 : std::atoi(wanted);
  std::mt19937_64 generator(3);
  std::uniform_real_distribution<double> exponent(-6, 0);
  for (int i = 0; i < count; ++i) {
    const double friction = i % 2 == 0 ? 0 : std::pow(10, exponent(generator));
    load_pile(3 + i % 3, friction, generator);
    SCOPED_TRACE("pile " + std::to_string(i) + ", friction " + std::to_string(friction));
    check_pile<Lanes<double>>(100);
    if (friction >= 1e-3) check_pile<Lanes<float>>(100);
    if (HasFailure()) return;
  }
}

// Every environment has a contact that is too stiff for single precision, some have more contacts, or a ball
// joint at its limit: rows that lanes do not share.
TEST_F(NewtonFriction, RowsThatOnlySomeEnvironmentsHave) {
  const std::string sphere =
      "<freejoint/><geom type=\"sphere\" contype=\"0\" conaffinity=\"2\" size=\".1\" friction=\"1e-4 0 0\"/>";
  std::ofstream(path_)
      << "<mujoco><option timestep=\"0.004\"/><worldbody>\n<geom type=\"plane\" contype=\"2\" "
         "conaffinity=\"0\" size=\"9 9 .1\" friction=\"1e-4 0 0\"/>\n"
      << "<body>" << sphere << "</body>\n<body pos=\"1 0 0\">" << sphere << "</body>\n<body pos=\"2 0 0\">"
      << sphere << "</body>\n"
      << "<body pos=\"0 0 2\"><joint type=\"ball\" range=\"0 30\"/><geom type=\"capsule\" "
         "contype=\"0\" conaffinity=\"0\" size=\".1 .2\" pos=\".3 .1 -.2\"/></body>\n"
      << "</worldbody></mujoco>\n";
  load_file();
  ASSERT_GT(imported_.sizes.nwide, 0);
  std::vector<RandomState> starts;
  for (int env = 0; env < kEnvs; ++env) {
    RandomState state;
    int x = 0;
    for (const bool touches : {true, env % 2 == 1, env % 3 == 0})
      for (const double q : {1.0 * x++, 0.0, touches ? 0.0999 : 0.2, 1.0, 0.0, 0.0, 0.0})
        state.qpos.push_back(rounded(q));
    const double half = 0.1 + 0.02 * env;  // of the angle, whose limit is 0.52
    for (const double q : {std::cos(half), 0.6 * std::sin(half), 0.8 * std::sin(half), 0.0})
      state.qpos.push_back(rounded(q));
    for (int i = 0; i < imported_.sizes.nv; ++i) state.qvel.push_back(rounded(0.1 * std::sin(env + 3 * i)));
    state.qacc_warmstart.assign(state.qvel.size(), 0.0);
    starts.push_back(state);
  }
  Batch<Lanes<double>> in_double(imported_);
  check_forward(in_double, starts);
  Batch<Lanes<float>> in_single(imported_);
  check_forward(in_single, starts);
}

// ---- many steps of walking machines in single precision ----

// Gaits of random frequencies, thrashing from end to end of the control range, and white noise, by
// environment.
double control_of_gait(const mjModel& m, int env, int actuator, int step, std::mt19937_64& generator) {
  const double phase = 1.7 * actuator + 0.9 * env, turn = 0.02 + 0.01 * (env % 7);
  switch (env % 3) {
    case 0:
      return oracle::control_at(m, actuator, 0.5 + 0.5 * std::sin(phase + turn * step));
    case 1:
      return oracle::control_at(m, actuator, std::sin(phase + turn * step) > 0 ? 1 : 0);
    default:
      return oracle::control_at(m, actuator, std::uniform_real_distribution<double>(0, 1)(generator));
  }
}

class NewtonSteps : public ::testing::TestWithParam<ModelCase> {};

// After every step the environment whose velocities have changed most is compared with MuJoCo's step from the
// same state; a state that goes bad must do so in MuJoCo. MANIPLE_FUZZ_CONTROL_STEPS=n: n steps of a model.
TEST_P(NewtonSteps, LeapNowhereThatMujocoDoesNot) {
  using V = Lanes<float>;
  mju_user_warning = [](const char*) {};
  const ModelConfig config = oracle::config_of(GetParam());
  ASSERT_FALSE(config.path.empty()) << "package " << GetParam().package << " is not installed";
  const MujocoModel mujoco = load_mujoco_model(config, {});
  const ImportedModel imported = import_model(config, {});
  const mjModel& m = *mujoco.model;
  StepCheck check(m);
  const char* const wanted = std::getenv("MANIPLE_FUZZ_CONTROL_STEPS");
  const std::int64_t steps = wanted == nullptr ? 20000 : std::atoll(wanted);
  const std::vector<RandomState> starts = oracle::visited_states(m, 8 * kEnvs);
  std::mt19937_64 generator(17);
  Batch<V> batch(imported);
  // a tile is [element][environment]
  std::map<std::string, FieldInfo> fields;
  for (const FieldInfo& field : state_fields(imported.sizes)) fields[field.name] = field;
  const auto values = [&](const std::vector<float>& tile, const std::string& name, int env) {
    const FieldInfo& field = fields.at(name);
    Numbers result;
    for (int i = 0; i < field.size; ++i)
      result.push_back(static_cast<double>(tile[static_cast<std::size_t>((field.first + i) * kEnvs + env)]));
    return result;
  };
  double worst = 0;
  for (std::int64_t step = 0; step * kEnvs < steps; ++step) {
    if (step % 500 == 0) {
      std::vector<RandomState> begin;
      for (int env = 0; env < kEnvs; ++env) begin.push_back(starts[generator() % starts.size()]);
      batch.set(begin);
    }
    if (step % 4 == 0) {
      std::vector<Numbers> controls(kEnvs);
      for (int env = 0; env < kEnvs; ++env)
        for (int i = 0; i < m.nu; ++i)
          controls[static_cast<std::size_t>(env)].push_back(
              rounded(control_of_gait(m, env, i, static_cast<int>(step), generator)));
      batch.set_field("ctrl", controls);
    }
    const std::vector<float> before = batch.state_bits();
    const std::vector<bool> bad = batch.run_step();
    const std::vector<float> after = batch.state_bits();
    int chosen = 0;
    double most = -1;
    for (int env = 0; env < kEnvs; ++env) {
      const double change = bad[static_cast<std::size_t>(env)]
                                ? 1e30
                                : difference(values(after, "qvel", env), values(before, "qvel", env), 1);
      if (change > most) {
        most = change;
        chosen = env;
      }
    }
    const RandomState state = {values(before, "qpos", chosen),
                               values(before, "qvel", chosen),
                               values(before, "act", chosen),
                               values(before, "ctrl", chosen),
                               values(before, "qacc_warmstart", chosen),
                               0};
    const Numbers found = values(after, "qvel", chosen);
    const bool expected = !check.step(state);
    const Numbers theirs = check.qvel();
    ASSERT_EQ(bad[static_cast<std::size_t>(chosen)], expected)
        << "environment " << chosen << ", step " << step << state_text(state);
    const double error = check.error(state, found, 0.1);
    worst = std::max(worst, error);
    ASSERT_LE(error, kLeap) << "environment " << chosen << ", step " << step << numbers_text(found, theirs)
                            << state_text(state);
  }
  RecordProperty("worst", std::to_string(worst));
  mju_user_warning = nullptr;
}
INSTANTIATE_TEST_SUITE_P(
    Models, NewtonSteps,
    ::testing::Values(ModelCase{"ant", "gymnasium", "envs/mujoco/assets/ant.xml"},
                      ModelCase{"half_cheetah", "gymnasium", "envs/mujoco/assets/half_cheetah.xml"},
                      ModelCase{"walker2d", "gymnasium", "envs/mujoco/assets/walker2d_v5.xml"},
                      ModelCase{"hopper", "gymnasium", "envs/mujoco/assets/hopper.xml"},
                      ModelCase{"swimmer", "gymnasium", "envs/mujoco/assets/swimmer.xml"},
                      ModelCase{"dm_cheetah", "dm_control", "suite/cheetah.xml"},
                      ModelCase{"dm_hopper", "dm_control", "suite/hopper.xml"},
                      ModelCase{"dm_walker", "dm_control", "suite/walker.xml"},
                      ModelCase{"dm_humanoid", "dm_control", "suite/humanoid.xml"},
                      ModelCase{"humanoid", "gymnasium", "envs/mujoco/assets/humanoid.xml"}),
    [](const auto& model) { return model.param.name; });

}  // namespace
}  // namespace maniple
