// Random models over everything that the kernels simulate. Tame ones are compared with libmujoco; wild ones,
// with masses from 1e-6 to 1e6 and states that are not even numbers, must neither crash nor hang, must be
// reset by MuJoCo's rule, and must leave the neighbouring lanes alone. MANIPLE_FUZZ_MODELS=n tries n models
// instead of 200, MANIPLE_FUZZ_FIRST=seed starts elsewhere, and MANIPLE_FUZZ_KEEP=folder keeps the models
// that disagree.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "src/base/error.hpp"
#include "src/model_import/mujoco_guard.hpp"
#include "tests/reference/constraint_rows.hpp"
#include "tests/reference/model_in_file.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/reference/step_check.hpp"

namespace maniple {
namespace {

int number_of(const char* variable, int default_value) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? default_value : std::atoi(text);
}

class Fuzz : public ModelInFile {
 protected:
  void SetUp() override {
    mju_user_warning = [](const char*) {};  // bad states are part of the tests
  }
  void TearDown() override { mju_user_warning = nullptr; }
  // Calls check(seed) for each model of this kind that the import accepts; counts those that it refuses.
  template <class Check>
  void for_each_model(bool wild, const Check& check) {
    const int first = number_of("MANIPLE_FUZZ_FIRST", 1), count = number_of("MANIPLE_FUZZ_MODELS", 200) / 2;
    int refused = 0;
    for (int seed = first; seed < first + count; ++seed) {
      if (!load(static_cast<std::uint64_t>(seed), wild)) {
        ++refused;
        continue;
      }
      SCOPED_TRACE("seed " + std::to_string(seed) + (wild ? ", wild" : ", tame"));
      const int before = failures();
      check(seed);
      if (failures() > before) keep(seed, wild);
    }
    EXPECT_LT(refused, count / 2);
    RecordProperty("refused", refused);
  }
  static int failures() {
    return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  }
  void keep(int seed, bool wild) {
    if (const char* const folder = std::getenv("MANIPLE_FUZZ_KEEP"))
      std::ofstream(std::string(folder) + "/" + (wild ? "wild" : "tame") + std::to_string(seed) + ".xml")
          << text_;
  }
  // Several dofs that move everything alike: M has no inverse.
  bool is_singular() const {
    const mjModel& m = *mujoco_.model;
    return m.nv == 0 || *std::max_element(m.dof_invweight0, m.dof_invweight0 + m.nv) > 1e6;
  }
  // False if the import refuses the model, which takes a reason.
  bool load(std::uint64_t seed, bool wild) {
    text_ = RandomModel(seed, wild, convex_, cones_).text();
    std::ofstream(path_) << text_;
    try {
      imported_ = import_model(model_config(), simulation_);
    } catch (const InputError& error) {
      EXPECT_GT(std::string(error.what()).size(), path_.string().size() + 20) << error.what();
      return false;
    }
    mujoco_ = load_mujoco_model(model_config(), simulation_);
    return true;
  }

  SimulationConfig simulation_;
  bool convex_ = true, cones_ = true;
  std::string text_;
};

bool any_bad(const Numbers& values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return !(std::abs(value) <= 1e10); });
}

// Near the default pose, in motion; all numbers fit into a float.
RandomState near_default(const mjModel& m, Dice& dice, double speed) {
  RandomState state;
  const auto number = [&](double size) {
    return static_cast<double>(static_cast<float>(dice.uniform(-size, size)));
  };
  for (int i = 0; i < m.nq; ++i)
    state.qpos.push_back(static_cast<double>(static_cast<float>(m.qpos0[i] + number(0.2))));
  for (int i = 0; i < m.nv; ++i) state.qvel.push_back(number(speed));
  for (int i = 0; i < m.na; ++i) state.act.push_back(number(0.5));
  for (int i = 0; i < m.nu; ++i) state.ctrl.push_back(number(2));
  state.qacc_warmstart.assign(static_cast<std::size_t>(m.nv), 0.0);
  return state;
}

// States of all environments near the default one, with warm starts far from the solution.
std::vector<RandomState> warm_started(const mjModel& m, int seed) {
  Dice dice(static_cast<std::uint64_t>(seed));
  std::vector<RandomState> states;
  for (int env = 0; env < kEnvs; ++env) {
    states.push_back(near_default(m, dice, 1));
    for (double& a : states.back().qacc_warmstart) a = dice.uniform(-1, 1) * dice.logarithmic(0.1, 100);
  }
  return states;
}

// Anything: numbers of every size, infinite ones, none at all.
RandomState anything(const mjModel& m, Dice& dice) {
  RandomState state = near_default(m, dice, dice.logarithmic(1, 1e9));
  const auto spoil = [&](Numbers& values, double probability) {
    for (double& value : values)
      if (dice.chance(probability))
        value = dice.one_of({0.0, 1e3, -1e6, 9e9, -2e10, 1e30, 1e-30, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()});
  };
  const double probability = dice.one_of({0.0, 0.05, 0.5});
  for (Numbers* values : {&state.qpos, &state.qvel, &state.act, &state.ctrl, &state.qacc_warmstart})
    spoil(*values, probability);
  return state;
}

// ---- one evaluation of tame models against libmujoco ----

TEST_F(Fuzz, OneEvaluationIsMujocos) {
  using V = Lanes<double>;
  simulation_.solver_path = SolverPath::converged;
  convex_ = false;  // GJK and EPA make a tolerance of a rounding; test_geom_pairs.cpp has them
  int compared = 0, rows_compared = 0, sensors_compared = 0, overfull = 0, explosive = 0;
  for_each_model(false, [&](int seed) {
    if (is_singular()) return;
    mjModel& m = *mujoco_.model;
    // both solvers run to convergence
    m.opt.tolerance = imported_.tolerance = 1e-15;
    if (imported_.sizes.ncone > 0) m.opt.tolerance = 0;  // as in test_contacts.cpp
    m.opt.ls_tolerance = imported_.ls_tolerance = 1e-10;
    m.opt.iterations = imported_.iterations = 200;
    m.opt.solver = mjSOL_NEWTON;
    Dice dice(static_cast<std::uint64_t>(seed));
    const oracle::DataPointer data = oracle::make_data(m);
    mjData* const d = data.get();
    std::vector<RandomState> states;
    for (int env = 0; env < kEnvs; ++env) {
      states.push_back(near_default(m, dice, 1));
      // some of them later on the way, where things rest on each other
      oracle::set_state(m, d, states.back());
      for (int step = 0, steps = env % 4 == 3 ? 30 : 0; step < steps; ++step) mj_step(&m, d);
      const auto copy = [](Numbers& to, const mjtNum* from) {
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<double>(static_cast<float>(from[i]));
      };
      copy(states.back().qpos, d->qpos);
      copy(states.back().qvel, d->qvel);
      copy(states.back().act, d->act);
    }
    const int before = failures();
    const Model<double> model = host_model(imported_);
    Batch<V> batch(imported_);
    batch.set(states);
    batch.run_forward();
    batch.for_each_data([&](const Data<V>& ours_data, int pack) {
      for (int lane = 0; lane < lane_width<V> && failures() == before; ++lane) {
        const int env = pack * lane_width<V> + lane;
        SCOPED_TRACE("environment " + std::to_string(env));
        const RandomState& state = states[static_cast<std::size_t>(env)];
        oracle::set_state(m, d, state);
        mj_forward(&m, d);
        if (get_lane(V(ours_data.contact_dropped[0]), lane) > 0) {
          ++overfull;
          continue;
        }
        const Rows ours = rows_of<V>(model, imported_, ours_data, state.qvel, lane), theirs = rows_of(m, d);
        if (!(largest(state.qpos) < 1e3 && largest(state.qvel) < 1e3 &&
              largest({d->qacc, d->qacc + m.nv}) < 1e7) ||
            any_bad(state.qpos) || any_bad({d->qacc, d->qacc + m.nv}) ||
            largest({d->efc_aref, d->efc_aref + d->nefc}) > 1e8) {
          ++explosive;
          continue;
        }
        ASSERT_EQ(ours.geom1, theirs.geom1);
        ASSERT_EQ(ours.geom2, theirs.geom2);
        ASSERT_LE(difference(ours.dist, theirs.dist, 1 + largest(theirs.dist)), 1e-11)
            << numbers_text(ours.dist, theirs.dist);
        ASSERT_LE(difference(ours.pos, theirs.pos, 1 + largest(theirs.pos)), 1e-11);
        ASSERT_LE(difference(ours.frame, theirs.frame, 1), 1e-8);
        ASSERT_EQ(ours.D.size(), theirs.D.size());
        ASSERT_LE(difference(ours.J, theirs.J, 1 + largest(theirs.J)), 1e-8);
        for (std::size_t i = 0; i < ours.D.size(); ++i)
          ASSERT_NEAR(ours.D[i], theirs.D[i], 1e-8 * theirs.D[i]) << "D of row " << i;
        ASSERT_LE(difference(ours.aref, theirs.aref, 1 + largest(theirs.aref)), 1e-8);
        Numbers qacc;
        for (int i = 0; i < model.nv; ++i) qacc.push_back(get_lane(V(ours_data.qacc[i]), lane));
        const Numbers expected(d->qacc, d->qacc + m.nv);
        const double scale = 1 + oracle::conditioning(m, d).acceleration;
        const double inertia = std::max(1.0, largest({d->crb, d->crb + 10 * m.nbody}));
        if (d->nefc == 0) {
          ASSERT_LE(difference(qacc, expected, scale), 1e-11) << numbers_text(qacc, expected);
        } else {
          const double best = cost_of(m, d, expected),
                       smooth = cost_of(m, d, {d->qacc_smooth, d->qacc_smooth + m.nv});
          if (m.opt.noslip_iterations == 0) {
            ASSERT_LE(cost_of(m, d, qacc) - best, 1e-10 * (std::abs(best) + std::abs(smooth) + 1e-3))
                << best << numbers_text(qacc, expected);
          }
          ASSERT_LE(difference(qacc, expected, scale), 1e-8) << numbers_text(qacc, expected);
        }
        for (int i = 0; i < m.nsensor; ++i) {
          Numbers reading, theirs_of_sensor;
          for (int k = m.sensor_adr[i]; k < m.sensor_adr[i] + m.sensor_dim[i]; ++k) {
            reading.push_back(get_lane(V(ours_data.sensordata[k]), lane));
            theirs_of_sensor.push_back(d->sensordata[k]);
          }
          const bool of_forces = m.sensor_needstage[i] == mjSTAGE_ACC;
          const double size = 1 + largest(theirs_of_sensor) + (of_forces ? scale * inertia : 0);
          ASSERT_LE(difference(reading, theirs_of_sensor, size), 1e-8)
              << "sensor " << i << " of type " << m.sensor_type[i] << numbers_text(reading, theirs_of_sensor);
          ++sensors_compared;
        }
        ++compared;
        rows_compared += static_cast<int>(d->nefc);
      }
    });
  });
  EXPECT_GT(compared, 10 * number_of("MANIPLE_FUZZ_MODELS", 200) / 2);
  EXPECT_GT(rows_compared, 5 * compared);
  EXPECT_GT(sensors_compared, 5 * compared);
  EXPECT_LT(overfull + explosive, compared / 5);
  RecordProperty("compared", compared);
}

// Sweeps of the dual solver, on models of one tree and of several: in each of their islands they are
// MuJoCo's, however few. Rounding decides now and then whether momentum begins again.
TEST_F(Fuzz, SweepsOfTheDualSolverAreMujocos) {
  using V = Lanes<double>;
  convex_ = cones_ = false;
  simulation_.solver = SolverChoice::PGS;
  simulation_.iterations = 12;
  int compared = 0, different = 0, several = 0;
  for_each_model(false, [&](int seed) {
    if (is_singular()) return;
    const mjModel& m = *mujoco_.model;
    const oracle::DataPointer d = oracle::make_data(m);
    const std::vector<RandomState> states = warm_started(m, seed);
    const Model<double> model = host_model(imported_);
    Batch<V> batch(imported_);
    batch.set(states);
    batch.run_forward();
    batch.for_each_data([&](const Data<V>& data, int pack) {
      for (int lane = 0; lane < lane_width<V>; ++lane) {
        const RandomState& state = states[static_cast<std::size_t>(pack * lane_width<V> + lane)];
        oracle::set_state(m, d.get(), state);
        mj_forward(&m, d.get());
        if (d->nefc == 0 || get_lane(V(data.contact_dropped[0]), lane) > 0) continue;
        const Rows ours = rows_of<V>(model, imported_, data, state.qvel, lane), theirs = rows_of(m, d.get());
        ++compared;
        several += d->nisland > 1;
        different += !(difference(ours.force, theirs.force, 1e-3 + largest(theirs.force)) < 1e-7);
      }
    });
  });
  EXPECT_GT(compared, 10 * number_of("MANIPLE_FUZZ_MODELS", 200) / 2);
  EXPECT_GT(several, compared / 10);
  EXPECT_LE(different, compared / 100);
  RecordProperty("compared", compared);
  RecordProperty("different", different);
  RecordProperty("several islands", several);
}

// Iterations of Newton's method and of CG, as few as a model may grant. Rounding decides now and then whether
// there is another one, or which point ends a line search.
TEST_F(Fuzz, IterationsOfThePrimalSolversAreMujocos) {
  using V = Lanes<double>;
  convex_ = false;
  simulation_.solver_path = SolverPath::mujoco;
  int compared = 0, different = 0, several = 0, unfinished = 0;
  for (const int iterations : {1, 2, 5}) {
    simulation_.solver = iterations == 2 ? SolverChoice::CG : SolverChoice::Newton;
    simulation_.iterations = iterations;
    simulation_.ls_iterations = 2 + 2 * iterations;
    for_each_model(false, [&](int seed) {
      const mjModel& m = *mujoco_.model;
      if (is_singular() || m.opt.noslip_iterations > 0) return;
      const oracle::DataPointer d = oracle::make_data(m);
      const std::vector<RandomState> states = warm_started(m, seed);
      Batch<V> batch(imported_);
      batch.set(states);
      batch.run_forward();
      batch.for_each_data([&](const Data<V>& ours, int pack) {
        for (int lane = 0; lane < lane_width<V>; ++lane) {
          oracle::set_state(m, d.get(), states[static_cast<std::size_t>(pack * lane_width<V> + lane)]);
          mj_forward(&m, d.get());
          if (d->nefc == 0 || get_lane(V(ours.contact_dropped[0]), lane) > 0) continue;
          const Numbers expected(d->qacc, d->qacc + m.nv);
          Numbers qacc;
          for (int i = 0; i < m.nv; ++i) qacc.push_back(get_lane(V(ours.qacc[i]), lane));
          ++compared;
          several += d->nisland > 1;
          unfinished += d->solver_niter[0] == iterations;
          different += !(difference(qacc, expected, 1 + largest(expected)) < 1e-9);
        }
      });
    });
  }
  EXPECT_GT(compared, 3 * 10 * number_of("MANIPLE_FUZZ_MODELS", 200) / 2);
  EXPECT_GT(several, compared / 10);
  EXPECT_GT(unfinished, compared / 4);
  EXPECT_LE(different, compared / 100);
  RecordProperty("compared", compared);
  RecordProperty("different", different);
  RecordProperty("several islands", several);
}

// ---- many steps of all models ----

// The flags of each step and the bits of the last state of a rollout with random controls. `spoiled`: this
// environment has other controls.
template <class S>
struct Outcome {
  std::vector<std::vector<bool>> flags;
  std::vector<S> bits;
};

// Numbers that are none have a sign that means nothing.
template <class S>
bool same_bits(S a, S b) {
  return std::memcmp(&a, &b, sizeof(S)) == 0 || (std::isnan(a) && std::isnan(b));
}

class FuzzSteps : public Fuzz {
 protected:
  // Calls visit(step, states before, flags, batch) after each step.
  template <class V, class Visit>
  Outcome<ScalarOf<V>> roll(const std::vector<RandomState>& states, int seed, int steps, int spoiled,
                            const Visit& visit) {
    const mjModel& m = *mujoco_.model;
    Batch<V> batch(imported_);
    batch.set(states);
    Dice dice(static_cast<std::uint64_t>(seed) + 1000000);
    Outcome<ScalarOf<V>> outcome;
    for (int step = 0; step < steps; ++step) {
      if (step % 5 == 0 && m.nu > 0) {
        std::vector<Numbers> controls;
        for (int env = 0; env < kEnvs; ++env) {
          controls.emplace_back();
          for (int i = 0; i < m.nu; ++i) {
            const double control = dice.uniform(-2, 2);
            const double wild = dice.one_of({1e20, -1e9, std::numeric_limits<double>::quiet_NaN()});
            controls.back().push_back(env == spoiled ? wild
                                                     : static_cast<double>(static_cast<float>(control)));
          }
        }
        batch.set_field("ctrl", controls);
      }
      outcome.flags.push_back(visit(step, batch));
    }
    outcome.bits = batch.state_bits();
    return outcome;
  }

  template <class V>
  void check(int seed, bool wild);
  void check_rule(const Batch<Lanes<double>>& batch, const RandomState& before, int env, bool flagged,
                  bool wild);

  int resets_ = 0, flags_compared_ = 0;
};

template <class V>
RandomState state_of(const Batch<V>& batch, int env) {
  return {batch.state("qpos", env), batch.state("qvel", env),           batch.state("act", env),
          batch.state("ctrl", env), batch.state("qacc_warmstart", env), batch.state("time", env)[0]};
}

// Whether libmujoco resets this state, too.
void FuzzSteps::check_rule(const Batch<Lanes<double>>& batch, const RandomState& before, int env,
                           bool flagged, bool wild) {
  const mjModel& m = *mujoco_.model;
  const oracle::DataPointer d = oracle::make_data(m);
  oracle::set_state(m, d.get(), before);
  bool expected = any_bad(before.qpos) || any_bad(before.qvel);
  if (!expected) {
    std::vector<std::string> warnings;
    mjData* const pointer = d.get();
    guarded([&m, pointer] { mj_forward(&m, pointer); }, warnings);
    const Numbers qacc(d->qacc, d->qacc + m.nv);
    // where rounding or the last iteration decides, no comparison
    const double smooth = largest({d->qacc_smooth, d->qacc_smooth + m.nv});
    if (any_bad(qacc) ? wild || largest(qacc) < 1e12 : largest(qacc) > 1e8 || !(smooth < 1e8)) return;
    expected = any_bad(qacc);
  }
  ++flags_compared_;
  EXPECT_EQ(flagged, expected) << "environment " << env;
  if (!expected || wild || (m.opt.disableflags & mjDSBL_AUTORESET)) return;
  if (m.opt.iterations < 100 || m.opt.solver != mjSOL_NEWTON) return;  // they stop elsewhere than the kernels
  oracle::set_state(m, d.get(), before);
  mj_step(&m, d.get());
  const Numbers qpos(d->qpos, d->qpos + m.nq), qvel(d->qvel, d->qvel + m.nv);
  const double scale = 1 + oracle::conditioning(m, d.get()).acceleration;
  EXPECT_LE(difference(batch.state("qpos", env), qpos, scale), 1e-4) << "after a reset";
  EXPECT_LE(difference(batch.state("qvel", env), qvel, scale), 1e-4) << "after a reset";
}

template <class V>
void FuzzSteps::check(int seed, bool wild) {
  using S = ScalarOf<V>;
  SCOPED_TRACE(sizeof(S) == 8 ? "double" : "single");
  const mjModel& m = *mujoco_.model;
  const int steps = number_of("MANIPLE_FUZZ_STEPS", 20);
  Dice dice(static_cast<std::uint64_t>(seed) + 2000000);
  std::vector<RandomState> states;
  for (int env = 0; env < kEnvs; ++env)
    states.push_back(env % (wild ? 3 : 8) == 5 % (wild ? 3 : 8)
                         ? anything(m, dice)
                         : near_default(m, dice, dice.logarithmic(0.1, wild ? 1e4 : 10)));

  const auto first = roll<V>(states, seed, steps, -1, [&](int step, Batch<V>& batch) {
    const int watched = step % kEnvs;
    const RandomState before = state_of(batch, watched);
    batch.poison();
    const std::vector<bool> flags = batch.run_step();
    if (any_bad(before.qpos) || any_bad(before.qvel)) {
      EXPECT_TRUE(flags[static_cast<std::size_t>(watched)])
          << "environment " << watched << " of step " << step;
    }
    // a reset starts the clock again, and is always told
    const bool restarted =
        flags[static_cast<std::size_t>(watched)] && !(m.opt.disableflags & mjDSBL_AUTORESET);
    const double time = (restarted ? 0 : before.time) + m.opt.timestep;
    EXPECT_NEAR(batch.state("time", watched)[0], time, 1e-5 * time) << "environment " << watched;
    if constexpr (sizeof(S) == 8)
      check_rule(batch, before, watched, flags[static_cast<std::size_t>(watched)], wild);
    resets_ += static_cast<int>(std::count(flags.begin(), flags.end(), true));
    return flags;
  });

  // another neighbour: whatever it does, the others do the same as before
  const int spoiled = dice.below(kEnvs);
  states[static_cast<std::size_t>(spoiled)] = anything(m, dice);
  const auto second = roll<V>(states, seed, steps, spoiled, [&](int, Batch<V>& batch) {
    batch.poison();
    return batch.run_step();
  });
  // without resets, how far what is not a number spreads within its own environment depends on which of its
  // zeros are skipped, so on the neighbours
  std::vector<bool> lost(kEnvs);
  for (std::size_t i = 0; i < first.bits.size(); ++i)
    if ((m.opt.disableflags & mjDSBL_AUTORESET) && !std::isfinite(first.bits[i])) lost[i % kEnvs] = true;
  for (std::size_t i = 0; i < first.bits.size(); ++i)
    if (static_cast<int>(i % kEnvs) != spoiled && !lost[i % kEnvs] &&
        !same_bits(first.bits[i], second.bits[i])) {
      ADD_FAILURE() << "environment " << i % kEnvs << " depends on its neighbour " << spoiled
                    << ": state element " << i / kEnvs << ", " << first.bits[i] << " and " << second.bits[i];
      return;
    }
  for (int step = 0; step < steps; ++step)
    for (std::size_t env = 0; env < kEnvs; ++env) {
      if (static_cast<int>(env) == spoiled) continue;
      ASSERT_EQ(first.flags[static_cast<std::size_t>(step)][env],
                second.flags[static_cast<std::size_t>(step)][env]);
    }
}

// In single precision no model leaps, nor goes bad, where MuJoCo does not. After each step the environment
// whose velocities have changed most is compared.
TEST_F(FuzzSteps, SinglePrecisionLeapsNowhereThatMujocoDoesNot) {
  using V = Lanes<float>;
  const int steps = 2 * number_of("MANIPLE_FUZZ_STEPS", 20);
  simulation_.solver_path = SolverPath::converged;
  int compared = 0, rough = 0;
  double worst = 0;
  for_each_model(false, [&](int seed) {
    if (is_singular()) return;
    mjModel& m = *mujoco_.model;
    // both solvers run to convergence
    m.opt.iterations = imported_.iterations = 100;
    m.opt.ls_iterations = imported_.ls_iterations = 50;
    m.opt.solver = mjSOL_NEWTON;
    imported_.solver = solver_newton;
    m.opt.disableflags &= ~mjDSBL_AUTORESET;
    imported_.disableflags &= ~disable_autoreset;
    const oracle::DataPointer d = oracle::make_data(m);
    StepCheck step_check(m);
    Dice dice(static_cast<std::uint64_t>(seed) + 3000000);
    std::vector<RandomState> states;
    for (int env = 0; env < kEnvs; ++env) states.push_back(near_default(m, dice, 1));
    const int failed = failures();
    roll<V>(states, seed, steps, -1, [&](int step, Batch<V>& batch) {
      std::vector<RandomState> before;
      for (int env = 0; env < kEnvs; ++env) before.push_back(state_of(batch, env));
      const std::vector<bool> bad = batch.run_step();
      std::size_t chosen = 0;
      double most = -1;
      batch.for_each_data([&](const Data<V>& data, int pack) {
        for (int lane = 0; lane < lane_width<V>; ++lane) {
          const int env = pack * lane_width<V> + lane;
          const auto i = static_cast<std::size_t>(env);
          const double change = bad[i] ? 1e30 : difference(batch.state("qvel", env), before[i].qvel, 1);
          if (change <= most || get_lane(V(data.contact_dropped[0]), lane) > 0) continue;
          most = change;
          chosen = i;
        }
      });
      const RandomState& state = before[chosen];
      oracle::set_state(m, d.get(), state);
      mj_forward(&m, d.get());
      const double acceleration = oracle::conditioning(m, d.get()).acceleration;
      if (most < 0 || failures() > failed || largest(state.qvel) > 1e3 || acceleration > 1e8) return bad;
      ++compared;
      const Numbers found = batch.state("qvel", static_cast<int>(chosen));
      const bool stays_good = step_check.step(state);
      const Numbers theirs = step_check.qvel();
      EXPECT_EQ(bad[chosen], !stays_good)
          << "environment " << chosen << ", step " << step << state_text(state);
      const double error = step_check.error(state, found, 0.1 + 1e-4 * m.opt.timestep * acceleration);
      worst = std::max(worst, error);
      rough += error > 1e-3;
      EXPECT_LE(error, kLeap) << "environment " << chosen << ", step " << step << numbers_text(found, theirs)
                              << state_text(state);
      return bad;
    });
  });
  EXPECT_GT(compared, 10 * number_of("MANIPLE_FUZZ_MODELS", 200) / 2);
  RecordProperty("compared", compared);
  RecordProperty("rough", rough);
  RecordProperty("worst", std::to_string(worst));
}

TEST_F(FuzzSteps, TameModels) {
  for_each_model(false, [&](int seed) {
    check<Lanes<double>>(seed, is_singular());
    check<Lanes<float>>(seed, is_singular());
  });
  RecordProperty("resets", resets_);
  RecordProperty("flags", flags_compared_);
}

TEST_F(FuzzSteps, WildModels) {
  for_each_model(true, [&](int seed) {
    check<Lanes<double>>(seed, true);
    check<Lanes<float>>(seed, true);
  });
  EXPECT_GT(resets_, 5 * number_of("MANIPLE_FUZZ_MODELS", 200));
  RecordProperty("resets", resets_);
  RecordProperty("flags", flags_compared_);
}

}  // namespace
}  // namespace maniple
