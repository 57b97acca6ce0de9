// Contacts and constraint rows against libmujoco, at states that random controls lead to: contact points and
// rows one to one in MuJoCo's order, the solution of the solver, and its cost at the model's own tolerance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/reference/batch_under_test.hpp"
#include "tests/reference/constraint_rows.hpp"

namespace maniple {
namespace {

constexpr int kStates = 7 * kEnvs;
constexpr const char* kG1 = "asset_zoo/robots/unitree_g1/xmls/g1.xml";

// Models that ask for Newton's method, and for the dual solver.
const std::vector<ModelCase> kNewtonCases = {
    {"contacts", "", "contacts.xml"},
    {"patches", "", "patches.xml"},
    {"boxes", "", "boxes.xml"},
    {"cones", "", "cones.xml"},
    {"pyramids", "", "pyramids.xml"},
    {"limits", "", "limits.xml"},
    {"tendon_limits", "", "tendon_limits.xml"},
    {"spatial_tendons", "", "spatial_tendons.xml"},
    {"hand", "", "hand.xml"},
    {"hopper", "gymnasium", "envs/mujoco/assets/hopper.xml"},
    {"walker2d", "gymnasium", "envs/mujoco/assets/walker2d.xml"},
    {"walker2d_v5", "gymnasium", "envs/mujoco/assets/walker2d_v5.xml"},
    {"half_cheetah", "gymnasium", "envs/mujoco/assets/half_cheetah.xml"},
    {"ant", "gymnasium", "envs/mujoco/assets/ant.xml"},
    {"point", "gymnasium", "envs/mujoco/assets/point.xml"},
    {"reacher", "gymnasium", "envs/mujoco/assets/reacher.xml"},
    {"inverted_pendulum", "gymnasium", "envs/mujoco/assets/inverted_pendulum.xml"},
    {"inverted_double_pendulum", "gymnasium", "envs/mujoco/assets/inverted_double_pendulum.xml"},
    {"swimmer", "gymnasium", "envs/mujoco/assets/swimmer.xml"},
    {"dm_acrobot", "dm_control", "suite/acrobot.xml"},
    {"dm_point_mass", "dm_control", "suite/point_mass.xml"},
    {"dm_cartpole", "dm_control", "suite/cartpole.xml"},
    {"dm_pendulum", "dm_control", "suite/pendulum.xml"},
    {"dm_cheetah", "dm_control", "suite/cheetah.xml"},
    {"dm_hopper", "dm_control", "suite/hopper.xml"},
    {"dm_walker", "dm_control", "suite/walker.xml"},
    {"dm_humanoid", "dm_control", "suite/humanoid.xml"},
    {"g1", "mjlab", kG1, ModelCase::nothing, ModelCase::under_all},
    {"g1_feet", "mjlab", kG1, ModelCase::nothing, ModelCase::under_feet},
};
// Those whose friction is found again after Newton's method.
const std::vector<ModelCase> kNoslipCases = {
    {"noslip", "", "noslip.xml"},
    {"noslip_pyramids", "", "noslip_pyramids.xml"},
};
const std::vector<ModelCase> kDualCases = {
    {"humanoid", "gymnasium", "envs/mujoco/assets/humanoid.xml"},
    {"humanoidstandup", "gymnasium", "envs/mujoco/assets/humanoidstandup.xml"},
    {"walker2d_pgs", "gymnasium", "envs/mujoco/assets/walker2d.xml", ModelCase::nothing, ModelCase::as_it_is,
     1.5, true},
    {"contacts_pgs", "", "contacts.xml", ModelCase::nothing, ModelCase::as_it_is, 1.5, true},
    {"limits_pgs", "", "limits.xml", ModelCase::nothing, ModelCase::as_it_is, 1.5, true},
    {"tendon_limits_pgs", "", "tendon_limits.xml", ModelCase::nothing, ModelCase::as_it_is, 1.5, true},
    {"spatial_tendons_pgs", "", "spatial_tendons.xml", ModelCase::nothing, ModelCase::as_it_is, 1.5, true},
    {"hand_pgs", "", "hand.xml", ModelCase::nothing, ModelCase::as_it_is, 1.5, true},
};

// Models that touch nothing, or hardly ever: only their limits are compared.
const std::vector<std::string> kUntouched = {
    "limits",
    "limits_pgs",
    "tendon_limits",
    "tendon_limits_pgs",
    "spatial_tendons",
    "spatial_tendons_pgs",
    "reacher",
    "swimmer",
    "inverted_pendulum",
    "dm_acrobot",
    "dm_point_mass",
    "dm_cartpole",
    "inverted_double_pendulum",
    "dm_pendulum",
};

class Contacts : public ::testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override {
    config_ = oracle::config_of(GetParam());
    if (config_.path.empty()) GTEST_SKIP() << "package " << GetParam().package << " is not installed";
    load({});
    static std::map<std::string, std::vector<RandomState>> visited;
    std::vector<RandomState>& states = visited[GetParam().name];
    if (states.empty()) states = oracle::visited_states(*mujoco_.model, kStates);
    states_ = states;
  }
  void TearDown() override { oracle::remove_copy(GetParam(), config_); }
  void load(const SimulationConfig& simulation) {
    mujoco_ = load_mujoco_model(config_, simulation);
    imported_ = import_model(config_, simulation);
    if (GetParam().name == "point") {
      // its sphere touches the floor at a distance of zero give or take a rounding, which decides about
      // friction
      for (double* const pos : {mujoco_.model->geom_pos, imported_.geom_pos.data()}) pos[5] -= 1e-3;
    }
  }
  // Both solvers run to convergence, not to where their stopping rules happen to differ.
  void converge() {
    mujoco_.model->opt.tolerance = imported_.tolerance = 1e-15;
    // (MuJoCo judges by its cost, where rounding is all that is left long before a curved cone has converged)
    if (imported_.sizes.ncone > 0) mujoco_.model->opt.tolerance = 0;
    mujoco_.model->opt.ls_tolerance = imported_.ls_tolerance = 1e-10;
    if (imported_.solver == solver_pgs) {
      mujoco_.model->opt.tolerance = imported_.tolerance = 0;
      mujoco_.model->opt.iterations = imported_.iterations = 4000;
    }
  }
  // Runs forward() on all states and calls check(data of libmujoco, pack's data, lane, state).
  template <class V, class Check>
  void for_each_state(const Check& check, bool inverse = false) {
    const mjModel& m = *mujoco_.model;
    const oracle::DataPointer d = oracle::make_data(m);
    Batch<V> batch(imported_);
    for (int first = 0; first < kStates; first += kEnvs) {
      batch.set({states_.begin() + first, states_.begin() + first + kEnvs});
      batch.run_forward(inverse);
      batch.for_each_data([&](const Data<V>& data, int pack) {
        for (int lane = 0; lane < lane_width<V> && !HasFatalFailure(); ++lane) {
          const int i = first + pack * lane_width<V> + lane;
          SCOPED_TRACE("state " + std::to_string(i));
          oracle::set_state(m, d.get(), states_[static_cast<std::size_t>(i)]);
          mj_forward(&m, d.get());
          check(d.get(), data, lane, states_[static_cast<std::size_t>(i)]);
        }
      });
    }
  }

  ModelConfig config_;
  MujocoModel mujoco_;
  ImportedModel imported_;
  std::vector<RandomState> states_;
};

TEST_P(Contacts, AreMujocosInOrder) {
  using V = Lanes<double>;
  converge();
  const Model<double> model = host_model(imported_);
  int contacts = 0;
  for_each_state<V>([&](mjData* d, const Data<V>& data, int lane, const RandomState& state) {
    const Rows ours = rows_of<V>(model, imported_, data, state.qvel, lane),
               theirs = rows_of(*mujoco_.model, d);
    ASSERT_EQ(ours.geom1, theirs.geom1);
    ASSERT_EQ(ours.geom2, theirs.geom2);
    for (std::size_t i = 0; i < ours.dist.size(); ++i)
      ASSERT_NEAR(ours.dist[i], theirs.dist[i], 1e-11)
          << "contact " << i << " of geoms " << ours.geom1[i] << " and " << ours.geom2[i];
    ASSERT_LE(difference(ours.pos, theirs.pos, 1 + largest(theirs.pos)), 1e-11);
    ASSERT_LE(difference(ours.frame, theirs.frame, 1), 1e-11);
    ASSERT_EQ(ours.D.size(), theirs.D.size());
    EXPECT_EQ(get_lane(V(data.nefc[0]), lane), d->nefc);
    EXPECT_EQ(get_lane(V(data.ncon[0]), lane), d->ncon);
    ASSERT_LE(difference(ours.J, theirs.J, 1 + largest(theirs.J)), 1e-11);
    for (std::size_t i = 0; i < ours.D.size(); ++i)
      ASSERT_NEAR(ours.D[i], theirs.D[i], 1e-9 * theirs.D[i]) << "D of row " << i;
    ASSERT_LE(difference(ours.aref, theirs.aref, 1 + largest(theirs.aref)), 1e-10);
    ASSERT_LE(difference(ours.force, theirs.force, 1 + largest(theirs.force)), 1e-8);
    contacts += d->ncon;
  });
  if (std::find(kUntouched.begin(), kUntouched.end(), GetParam().name) == kUntouched.end()) {
    EXPECT_GT(contacts, kStates / 4) << "hardly any contacts in these states";
  }
}

TEST_P(Contacts, SolutionOfTheSolver) {
  using V = Lanes<double>;
  converge();
  for_each_state<V>([&](mjData* d, const Data<V>& data, int lane, const RandomState&) {
    const double scale = 1 + std::max(oracle::conditioning(*mujoco_.model, d).acceleration, 1.0);
    for (int i = 0; i < mujoco_.model->nv; ++i) {
      ASSERT_NEAR(get_lane(V(data.qacc[i]), lane), d->qacc[i], 1e-9 * scale) << "qacc " << i;
      ASSERT_NEAR(get_lane(V(data.qfrc_constraint[i]), lane), d->qfrc_constraint[i],
                  1e-9 * (1 + largest({d->qfrc_constraint, d->qfrc_constraint + mujoco_.model->nv})))
          << "qfrc_constraint " << i;
    }
  });
}

// Of accelerations that no solver has found, with each of the laws of constraints in all of its parts.
TEST_P(Contacts, InverseDynamics) {
  using V = Lanes<double>;
  const int nv = static_cast<int>(mujoco_.model->nv);
  std::mt19937_64 generator(3);
  std::normal_distribution<double> normal;
  for (RandomState& state : states_) {
    const double size = std::pow(10.0, normal(generator));
    state.qacc_warmstart.resize(static_cast<std::size_t>(nv), 0.0);
    for (double& acceleration : state.qacc_warmstart) acceleration += size * normal(generator);
  }
  const auto check = [&](mjData* d, const Data<V>& data, int lane, const RandomState& state) {
    std::copy_n(state.qacc_warmstart.begin(), nv, d->qacc);
    mj_inverse(mujoco_.model.get(), d);
    const double scale = 1 + largest({d->qfrc_inverse, d->qfrc_inverse + nv}) +
                         largest({d->qfrc_constraint, d->qfrc_constraint + nv});
    for (int i = 0; i < nv; ++i)
      ASSERT_NEAR(get_lane(V(data.qfrc_inverse[i]), lane), d->qfrc_inverse[i], 1e-10 * scale) << i;
  };
  for_each_state<V>(check, true);
}

// What the forces do to bodies and sensors.
TEST_P(Contacts, ForcesOnBodiesAndSensors) {
  using V = Lanes<double>;
  converge();
  const mjModel& m = *mujoco_.model;
  for_each_state<V>([&](mjData* d, const Data<V>& data, int lane, const RandomState&) {
    mj_rnePostConstraint(&m, d);
    const auto check = [&](const char* name, const DataField<V>& ours, const mjtNum* theirs,
                           std::int64_t count) {
      const double scale = 1 + largest({theirs, theirs + count}) + oracle::conditioning(m, d).acceleration;
      for (int i = 0; i < count; ++i)
        ASSERT_NEAR(get_lane(V(ours[i]), lane), theirs[i], 1e-9 * scale) << name << " " << i;
    };
    check("cfrc_ext", data.cfrc_ext, d->cfrc_ext, 6 * m.nbody);
    check("cfrc_int", data.cfrc_int, d->cfrc_int, 6 * m.nbody);
    check("sensordata", data.sensordata, d->sensordata, m.nsensordata);
  });
}

// At the model's own tolerance, where MuJoCo may end before it has converged: the cost is not above MuJoCo's,
// and the difference is what MuJoCo's remaining gradient explains.
using NewtonContacts = Contacts;
TEST_P(NewtonContacts, DifferByMujocosRemainingGradient) {
  ASSERT_EQ(imported_.solver, solver_newton);
  using V = Lanes<double>;
  const mjModel& m = *mujoco_.model;
  double most = 0;
  for_each_state<V>([&](mjData* d, const Data<V>& data, int lane, const RandomState&) {
    if (d->nefc == 0) return;
    const Numbers theirs(d->qacc, d->qacc + m.nv), smooth(d->qacc_smooth, d->qacc_smooth + m.nv);
    Numbers ours, change;
    for (int i = 0; i < m.nv; ++i) {
      ours.push_back(get_lane(V(data.qacc[i]), lane));
      change.push_back(ours.back() - d->qacc[i]);
    }
    const double best = cost_of(m, d, theirs), size = std::abs(best) + std::abs(cost_of(m, d, smooth));
    const double rounding = 1e-11 * (length_of(m, d, theirs) + length_of(m, d, smooth));
    ASSERT_LE(cost_of(m, d, ours) - best, 1e-12 * size + rounding * rounding);
    const double own = gradient_of(m, d, ours).length;
    ASSERT_LE(length_of(m, d, change), gradient_of(m, d, theirs).length + own + rounding)
        << "ours: " << own << numbers_text(ours, theirs);
    most = std::max(most, difference(ours, theirs, 1));
  });
  RecordProperty("most", std::to_string(1e6 * most) + "e-6");
}

// Few iterations of Newton's method: MuJoCo's own iterates, in all stages of a time step.
TEST_P(NewtonContacts, FewIterationsAreMujocos) {
  if (mujoco_.model->ntree > 1) return;  // MuJoCo's islands have line searches of their own
  using V = Lanes<double>;
  for (const char* integrator : {"Euler", "RK4"})
    for (const int iterations : {1, 2, 4}) {
      SCOPED_TRACE(std::string(integrator) + ", " + std::to_string(iterations) + " iterations");
      SimulationConfig simulation;
      simulation.integrator = choice_of<IntegratorChoice>(integrator).value();
      simulation.iterations = iterations;
      load(simulation);
      const mjModel& m = *mujoco_.model;
      mujoco_.model->opt.tolerance = imported_.tolerance = 1e-15;  // no iteration less
      Batch<V> batch(imported_);
      const oracle::DataPointer d = oracle::make_data(m);
      for (int first = 0; first < kStates; first += 3 * kEnvs) {
        const std::vector<RandomState> states(states_.begin() + first, states_.begin() + first + kEnvs);
        batch.set(states);
        batch.run_step();
        for (int env = 0; env < kEnvs; ++env) {
          oracle::set_state(m, d.get(), states[static_cast<std::size_t>(env)]);
          mj_step(&m, d.get());
          const Numbers qvel(d->qvel, d->qvel + m.nv);
          const double scale = 1 + largest(qvel) + m.opt.timestep * largest({d->qacc, d->qacc + m.nv});
          ASSERT_LE(difference(batch.state("qvel", env), qvel, scale), 1e-7)
              << "environment " << env << numbers_text(batch.state("qvel", env), qvel);
        }
      }
    }
}

// MuJoCo's dual solver mostly ends before it has converged, so that its results are those of every one of its
// steps: row by row, sweep by sweep, at the model's own settings in the end.
using DualContacts = Contacts;
TEST_P(DualContacts, IteratesOfTheDualSolver) {
  ASSERT_EQ(imported_.solver, solver_pgs);
  using V = Lanes<double>;
  const mjModel& m = *mujoco_.model;
  const Model<double> model = host_model(imported_);
  const int own = m.opt.iterations, listed = imported_.sizes.ndualorder;
  const double tolerance = m.opt.tolerance;
  int sweeps = 0;
  // at last: beyond the orders that the model lists, and without them
  for (const int iterations : {0, 1, 2, 7, own, imported_.sizes.ndualsweep + 8, 9}) {
    SCOPED_TRACE(std::to_string(iterations) + " sweeps");
    const bool beyond = iterations > own;
    imported_.sizes.ndualorder = iterations == 9 ? 0 : listed;
    mujoco_.model->opt.iterations = imported_.iterations = iterations;
    mujoco_.model->opt.tolerance = imported_.tolerance = beyond ? 0 : tolerance;
    for_each_state<V>([&](mjData* d, const Data<V>& data, int lane, const RandomState& state) {
      const Rows ours = rows_of<V>(model, imported_, data, state.qvel, lane), theirs = rows_of(m, d);
      ASSERT_LE(difference(ours.force, theirs.force, 1 + largest(theirs.force)), 1e-10);
      Numbers qacc;
      for (int i = 0; i < m.nv; ++i) qacc.push_back(get_lane(V(data.qacc[i]), lane));
      const Numbers expected(d->qacc, d->qacc + m.nv);
      ASSERT_LE(difference(qacc, expected, 1e-3 + largest(expected)), 1e-10);
      for (int i = 0; i < std::max(1, std::min<int>(d->nisland, mjNISLAND)); ++i)
        sweeps = std::max(sweeps, static_cast<int>(d->solver_niter[i]));
    });
  }
  EXPECT_GT(sweeps, 10);
}

// What is in the other lanes of a pack, and in which of them an environment is, changes no bit of it.
template <class V>
void check_neighbours(const ImportedModel& imported, std::vector<RandomState> states) {
  Batch<V> batch(imported), turned(imported);
  batch.set(states);
  batch.run_forward();
  std::reverse(states.begin(), states.end());
  turned.set(states);
  turned.run_forward();
  for (int env = 0; env < kEnvs; ++env) {
    const auto ours = batch.data(env), other = turned.data(kEnvs - 1 - env);
    for (const char* name : {"qacc", "qfrc_constraint", "nefc"})
      EXPECT_EQ(difference(ours.at(name), other.at(name), 1), 0) << name << " of environment " << env;
  }
}
TEST_P(Contacts, NeighboursChangeNothing) {
  for (int first = 0; first < kStates; first += 3 * kEnvs) {
    const std::vector<RandomState> states(states_.begin() + first, states_.begin() + first + kEnvs);
    check_neighbours<Lanes<double>>(imported_, states);
    check_neighbours<Lanes<float>>(imported_, states);
  }
}

// One evaluation in single precision: the same rows act, and qacc is within 1e-4 in 99 of 100 states.
// Newton's method runs to convergence, the dual solver at the model's own settings.
TEST_P(Contacts, SinglePrecision) {
  using V = Lanes<float>;
  if (imported_.solver != solver_pgs) converge();
  std::vector<double> errors;
  int other_rows = 0;
  for_each_state<V>([&](mjData* d, const Data<V>& data, int lane, const RandomState&) {
    double scale = 1e-3 + largest({d->qacc, d->qacc + mujoco_.model->nv});
    // what lies at rest on its limits or contacts: what cancels is all there is
    if (GetParam().name == "inverted_pendulum" || imported_.sizes.ncone > 0)
      scale += largest({d->qacc_smooth, d->qacc_smooth + mujoco_.model->nv});
    double error = 0;
    for (int i = 0; i < mujoco_.model->nv; ++i)
      error = std::max(error,
                       std::abs(static_cast<double>(get_lane(V(data.qacc[i]), lane)) - d->qacc[i]) / scale);
    errors.push_back(std::isfinite(error) ? error : 1e30);
    other_rows += static_cast<int>(get_lane(V(data.nefc[0]), lane)) != d->nefc;
  });
  std::sort(errors.begin(), errors.end());
  // a heap that the dual solver, or a few sweeps against slip, leave far from converged keeps more of the
  // roundings on its way
  const bool far = (GetParam().dual && mujoco_.model->ntree > 1) || imported_.sizes.nnosliprow > 0;
  EXPECT_LT(errors[errors.size() * 99 / 100], far ? 6e-4 : 1e-4);
  EXPECT_LE(other_rows, kStates / 100);
  RecordProperty("median", std::to_string(errors[errors.size() / 2]));
}

// A million steps in all over the models and both precisions, from visited states and under controls that
// change with every step: no state goes bad more often than MuJoCo's do, and all stay numbers.
constexpr int kRandomSteps = 700;

// Calls step(controls) with those of all environments.
template <class Step>
void for_random_controls(const mjModel& m, const Step& step) {
  std::mt19937_64 generator(13);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < kRandomSteps; ++i) {
    std::vector<Numbers> controls(kEnvs);
    for (Numbers& control : controls)
      for (int k = 0; k < m.nu; ++k) control.push_back(oracle::control_at(m, k, uniform(generator)));
    step(controls);
  }
}

template <class V>
int resets_of_random_steps(const ImportedModel& imported, const mjModel& m,
                           const std::vector<RandomState>& starts) {
  Batch<V> batch(imported);
  batch.set(starts);
  int resets = 0;
  for_random_controls(m, [&](const std::vector<Numbers>& controls) {
    batch.set_field("ctrl", controls);
    const std::vector<bool> bad = batch.run_step();
    resets += static_cast<int>(std::count(bad.begin(), bad.end(), true));
  });
  for (const ScalarOf<V> value : batch.state_bits()) EXPECT_LT(std::abs(value), 1e10);
  return resets;
}

// Of libmujoco, which starts the clock again.
int resets_of_libmujoco(const mjModel& m, const std::vector<RandomState>& starts) {
  std::vector<oracle::DataPointer> data;
  for (const RandomState& start : starts) {
    data.push_back(oracle::make_data(m));
    oracle::set_state(m, data.back().get(), start);
  }
  int resets = 0;
  for_random_controls(m, [&](const std::vector<Numbers>& controls) {
    for (std::size_t env = 0; env < data.size(); ++env) {
      mjData* const d = data[env].get();
      std::copy(controls[env].begin(), controls[env].end(), d->ctrl);
      const double time = d->time;
      mj_step(&m, d);
      resets += d->time <= time;
    }
  });
  return resets;
}

TEST_P(Contacts, RandomSteps) {
  mju_user_warning = [](const char*) {};
  const mjModel& m = *mujoco_.model;
  const std::vector<RandomState> starts(states_.begin() + kEnvs, states_.begin() + 2 * kEnvs);
  const int resets = resets_of_random_steps<Lanes<double>>(imported_, m, starts) +
                     resets_of_random_steps<Lanes<float>>(imported_, m, starts);
  if (resets > 0) {
    EXPECT_LE(resets, 3 * resets_of_libmujoco(m, starts));
  }
  RecordProperty("resets", resets);
  mju_user_warning = nullptr;
}

// Whole trajectories of models that are stepped with the dual solver, with controls that change every few
// steps. Contacts make them chaotic: MuJoCo itself says how far apart two of them may be, by starts that
// differ in the last bit.
class DualTrajectory : public Contacts {};
TEST_P(DualTrajectory, StaysWithMujocos) {
  const mjModel& m = *mujoco_.model;
  using V = Lanes<double>;
  const std::vector<RandomState> starts(states_.begin(), states_.begin() + kEnvs);
  Batch<V> batch(imported_);
  batch.set(starts);
  std::vector<oracle::DataPointer> data, moved[3];
  std::mt19937_64 generator(11);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (const RandomState& start : starts) {
    data.push_back(oracle::make_data(m));
    oracle::set_state(m, data.back().get(), start);
    for (auto& others : moved) {
      others.push_back(oracle::make_data(m));
      oracle::set_state(m, others.back().get(), start);
      for (int i = 0; i < m.nq; ++i) others.back()->qpos[i] *= 1 + 1e-15 * uniform(generator);
      for (int i = 0; i < m.nv; ++i) others.back()->qvel[i] *= 1 + 1e-15 * uniform(generator);
    }
  }
  for (int step = 0; step < 100; ++step) {
    for (std::size_t env = 0; env < starts.size() && step % 5 == 0; ++env)
      for (int i = 0; i < m.nu; ++i) {
        const double control = oracle::control_at(m, i, 0.5 * (1 + uniform(generator)));
        data[env]->ctrl[i] = control;
        for (auto& others : moved) others[env]->ctrl[i] = control;
        batch.set_state_value("ctrl", i, static_cast<int>(env), control);
      }
    batch.poison();
    batch.run_step();
    for (std::size_t env = 0; env < starts.size(); ++env) {
      mj_step(&m, data[env].get());
      for (auto& others : moved) mj_step(&m, others[env].get());
    }
  }
  Numbers errors, spreads;
  for (std::size_t env = 0; env < starts.size(); ++env) {
    const Numbers qpos(data[env]->qpos, data[env]->qpos + m.nq);
    errors.push_back(difference(batch.state("qpos", static_cast<int>(env)), qpos, 1));
    double spread = 1e-13;
    for (auto& others : moved)
      spread = std::max(spread, difference({others[env]->qpos, others[env]->qpos + m.nq}, qpos, 1));
    spreads.push_back(spread);
    EXPECT_LE(errors.back(), 10 * spread) << "environment " << env;
  }
}
const auto name_of_case = [](const auto& model) { return model.param.name; };
INSTANTIATE_TEST_SUITE_P(
    Models, DualTrajectory,
    ::testing::Values(ModelCase{"humanoid", "gymnasium", "envs/mujoco/assets/humanoid.xml"},
                      ModelCase{"humanoidstandup", "gymnasium", "envs/mujoco/assets/humanoidstandup.xml"}),
    name_of_case);
INSTANTIATE_TEST_SUITE_P(Newton, Contacts, ::testing::ValuesIn(kNewtonCases), name_of_case);
INSTANTIATE_TEST_SUITE_P(Noslip, Contacts, ::testing::ValuesIn(kNoslipCases), name_of_case);
INSTANTIATE_TEST_SUITE_P(Dual, Contacts, ::testing::ValuesIn(kDualCases), name_of_case);
INSTANTIATE_TEST_SUITE_P(Models, NewtonContacts, ::testing::ValuesIn(kNewtonCases), name_of_case);
INSTANTIATE_TEST_SUITE_P(Models, DualContacts, ::testing::ValuesIn(kDualCases), name_of_case);

}  // namespace
}  // namespace maniple
