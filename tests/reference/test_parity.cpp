// Every smooth stage against libmujoco: forward() field by field and step() state by state, from random
// states that differ between the lanes, with every result poisoned with NaN beforehand.
#include <gtest/gtest.h>
#include <mujoco/mjxmacro.h>

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/reference/batch_under_test.hpp"

namespace maniple {
namespace {

using oracle::ModelCase;
using oracle::Numbers;
using oracle::RandomState;

// Relative to the field's scale (its largest number over all environments, at least `kSmallest`).
template <class S>
constexpr double kTolerance = sizeof(S) == 8 ? 1e-12 : 1e-5;
// Rounding of positions enters constrained accelerations and the forces between bodies through stiff rows.
template <class S>
double constrained_tolerance(const ImportedModel& model) {
  if (model.sizes.nrowdof == 0) return kTolerance<S>;
  return sizeof(S) == 8 ? 1e-12 : 2e-4;
}
constexpr double kSmallest = 1e-3;

const std::vector<ModelCase>& model_cases() {
  static const std::vector<ModelCase> cases = {
      {"pendulum", "", "pendulum.xml"},
      {"cartpole", "", "cartpole.xml"},
      {"double_pendulum", "", "double_pendulum.xml"},
      {"arm6", "", "arm6.xml"},
      {"tree", "", "tree.xml"},
      {"free_bodies", "", "free_bodies.xml"},
      {"actuators", "", "actuators.xml"},
      {"flags", "", "flags.xml"},
      {"more_flags", "", "more_flags.xml"},
      {"limits", "", "limits.xml"},
      {"tendons", "", "tendons.xml"},
      {"spatial_tendons", "", "spatial_tendons.xml"},
      {"muscles", "", "muscles.xml"},
      {"pid", "", "pid.xml"},
      {"dcmotors", "", "dcmotors.xml"},
      {"site_actuators", "", "site_actuators.xml"},
      {"equality", "", "equality.xml"},
      {"gripper", "", "gripper.xml"},
      {"fluid", "", "fluid.xml"},
      {"ellipsoids", "", "ellipsoids.xml"},
      {"sensors", "", "sensors.xml"},
      {"rangefinders", "", "rangefinders.xml"},
      {"measures", "", "measures.xml"},
      {"half_cheetah", "gymnasium", "envs/mujoco/assets/half_cheetah.xml", ModelCase::constraints},
      {"ant", "gymnasium", "envs/mujoco/assets/ant.xml", ModelCase::constraints},
      {"hopper", "gymnasium", "envs/mujoco/assets/hopper.xml", ModelCase::contacts},
      {"walker2d", "gymnasium", "envs/mujoco/assets/walker2d.xml", ModelCase::contacts},
      {"half_cheetah_limited", "gymnasium", "envs/mujoco/assets/half_cheetah.xml", ModelCase::contacts},
      {"ant_limited", "gymnasium", "envs/mujoco/assets/ant.xml", ModelCase::contacts},
      {"inverted_pendulum", "gymnasium", "envs/mujoco/assets/inverted_pendulum.xml", ModelCase::contacts},
      {"inverted_double_pendulum", "gymnasium", "envs/mujoco/assets/inverted_double_pendulum.xml",
       ModelCase::contacts},
      {"reacher", "gymnasium", "envs/mujoco/assets/reacher.xml", ModelCase::contacts},
      {"point", "gymnasium", "envs/mujoco/assets/point.xml", ModelCase::contacts},
      {"dm_acrobot", "dm_control", "suite/acrobot.xml", ModelCase::contacts},
      {"dm_pendulum", "dm_control", "suite/pendulum.xml", ModelCase::contacts},
      {"dm_cheetah", "dm_control", "suite/cheetah.xml", ModelCase::contacts},
      {"dm_hopper", "dm_control", "suite/hopper.xml", ModelCase::contacts},
      {"dm_humanoid", "dm_control", "suite/humanoid.xml", ModelCase::contacts_and_limits},
      {"dm_cartpole", "dm_control", "suite/cartpole.xml", ModelCase::contacts},
      {"swimmer", "gymnasium", "envs/mujoco/assets/swimmer.xml", ModelCase::contacts},
      {"dm_swimmer", "dm_control", "suite/swimmer.xml", ModelCase::nothing, ModelCase::as_it_is, 0.3},
      {"dm_point_mass", "dm_control", "suite/point_mass.xml"},
      {"dm_walker", "dm_control", "suite/walker.xml", ModelCase::contacts},
      {"humanoid", "gymnasium", "envs/mujoco/assets/humanoid.xml", ModelCase::contacts_and_limits},
      {"humanoidstandup", "gymnasium", "envs/mujoco/assets/humanoidstandup.xml",
       ModelCase::contacts_and_limits},
      {"g1", "mjlab", "asset_zoo/robots/unitree_g1/xmls/g1.xml", ModelCase::constraints},
  };
  return cases;
}

class Parity : public ::testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override {
    mju_user_warning = [](const char*) {};  // bad states are part of the tests
    config_ = oracle::config_of(GetParam());
    if (config_.path.empty()) GTEST_SKIP() << "package " << GetParam().package << " is not installed";
  }
  void TearDown() override {
    mju_user_warning = nullptr;
    oracle::remove_copy(GetParam(), config_);
  }

  void load(const std::string& integrator) {
    SimulationConfig simulation;
    simulation.integrator = choice_of<IntegratorChoice>(integrator).value();
    mujoco_ = load_mujoco_model(config_, simulation);
    imported_ = import_model(config_, simulation);
    // both solvers run to convergence, not to where their stopping rules happen to differ
    mujoco_.model->opt.tolerance = imported_.tolerance = 1e-15;
    mujoco_.model->opt.ls_tolerance = imported_.ls_tolerance = 1e-10;
    states_.clear();
    for (unsigned env = 0; env < kEnvs; ++env)
      states_.push_back(oracle::random_state(*mujoco_.model, 1000 + env, GetParam().speed));
  }

  template <class V>
  void check_forward();
  template <class V>
  void check_step(const std::string& integrator);

  ModelConfig config_;
  MujocoModel mujoco_;
  ImportedModel imported_;
  std::vector<RandomState> states_;
};

// Sensors differ in their units, and are compared one by one; those of accelerations and forces inherit the
// conditioning of qacc.
struct SensorSlice {
  int adr, dim;
  bool of_acceleration;
};
std::vector<SensorSlice> sensor_slices(const mjModel& m) {
  std::vector<SensorSlice> slices;
  for (int i = 0; i < m.nsensor; ++i)
    slices.push_back({m.sensor_adr[i], m.sensor_dim[i], m.sensor_needstage[i] == mjSTAGE_ACC});
  return slices;
}
Numbers slice_of(const Numbers& values, const SensorSlice& slice) {
  return {values.begin() + slice.adr, values.begin() + slice.adr + slice.dim};
}

template <class V>
void Parity::check_forward() {
  using S = ScalarOf<V>;
  SCOPED_TRACE(std::string(sizeof(S) == 8 ? "double" : "single") + ", " + std::to_string(lane_width<V>) +
               " lanes");
  const mjModel& m = *mujoco_.model;
  Batch<V> batch(imported_);
  batch.set(states_);
  batch.run_forward();

  std::vector<std::map<std::string, Numbers>> theirs;
  std::map<std::string, double> scale;
  const oracle::DataPointer d = oracle::make_data(m);
  for (int env = 0; env < kEnvs; ++env) {
    oracle::set_state(m, d.get(), states_[static_cast<std::size_t>(env)]);
    mj_forward(&m, d.get());
    theirs.push_back(oracle::fields_of(m, *d));
    const oracle::Conditioning condition = oracle::conditioning(m, d.get());
    scale["qacc"] = std::max(scale["qacc"], condition.acceleration);
    scale["qLDiagInv"] = std::max(scale["qLDiagInv"], condition.pivot);
    scale["qM_factor"] = std::max(scale["qM_factor"], condition.factor);
  }
  for (const auto& fields : theirs)
    for (const auto& [name, values] : fields)
      scale[name] = std::max({scale[name], largest(values), kSmallest});
  scale["qacc_smooth"] = scale["qacc"];

  // accelerations of bodies, and the forces that they need, inherit the conditioning of qacc
  const double acceleration = std::max(scale["qacc"], kSmallest);
  scale["cacc"] += acceleration;
  scale["cfrc_int"] += acceleration * scale["crb"];

  for (const SensorSlice& slice : sensor_slices(m)) {
    double size = kSmallest;
    for (const auto& fields : theirs)
      size = std::max(size, largest(slice_of(fields.at("sensordata"), slice)));
    if (slice.of_acceleration) size += acceleration * std::max(1.0, scale["crb"]);
    for (int env = 0; env < kEnvs; ++env) {
      const Numbers ours = slice_of(batch.data(env).at("sensordata"), slice);
      const Numbers expected = slice_of(theirs[static_cast<std::size_t>(env)].at("sensordata"), slice);
      const double error = difference(ours, expected, size);
      EXPECT_LE(error, kTolerance<S>)
          << "sensor at " << slice.adr << " of environment " << env << numbers_text(ours, expected);
      if (error > kTolerance<S>) return;
    }
  }

  for (int env = 0; env < kEnvs; ++env) {
    const std::map<std::string, Numbers> ours = batch.data(env);
    const auto& expected = theirs[static_cast<std::size_t>(env)];
    ASSERT_EQ(ours.size(), expected.size());
    for (const auto& [name, values] : ours) {
      if (name == "sensordata") continue;    // above
      if (name == "qfrc_inverse") continue;  // InverseDynamics
      const double error = difference(values, expected.at(name), scale[name]);
      const bool constrained =
          name == "qacc" || name == "qfrc_constraint" || name == "cfrc_ext" || name == "cfrc_int";
      const double tolerance = constrained ? constrained_tolerance<S>(imported_) : kTolerance<S>;
      EXPECT_LE(error, tolerance) << name << " of environment " << env
                                  << numbers_text(values, expected.at(name));
      if (error > tolerance) return;
    }
  }
}

// What step() promises to leave in Data: forces, accelerations and actuators as after mj_step.
void check_left_by_step(const std::map<std::string, Numbers>& ours,
                        const std::map<std::string, Numbers>& theirs, double acceleration) {
  for (const char* name : {"ten_length", "ten_velocity", "qfrc_spring", "qfrc_damper", "qfrc_gravcomp",
                           "qfrc_passive", "qfrc_bias", "qfrc_actuator", "qfrc_smooth", "qfrc_constraint",
                           "actuator_length", "actuator_velocity", "actuator_force", "act_dot"}) {
    const Numbers& expected = theirs.at(name);
    EXPECT_LE(difference(ours.at(name), expected, 1 + 10 * largest(expected)), 1e-12)
        << name << numbers_text(ours.at(name), expected);
  }
  for (const char* name : {"qacc", "qacc_smooth"})
    EXPECT_LE(difference(ours.at(name), theirs.at(name), acceleration), 1e-12) << name;
}

template <class V>
void Parity::check_step(const std::string& integrator) {
  using S = ScalarOf<V>;
  SCOPED_TRACE(integrator + ", " + (sizeof(S) == 8 ? "double" : "single") + ", " +
               std::to_string(lane_width<V>) + " lanes");
  const mjModel& m = *mujoco_.model;
  const double tolerance = constrained_tolerance<S>(imported_);
  Batch<V> batch(imported_);
  batch.set(states_);
  for (const bool bad : batch.run_step()) EXPECT_FALSE(bad);
  Batch<V> whole(imported_);  // sensors come with all fields
  whole.set(states_);
  for (const bool bad : whole.run_step(true)) EXPECT_FALSE(bad);

  const oracle::DataPointer d = oracle::make_data(m);
  for (int env = 0; env < kEnvs; ++env) {
    oracle::set_state(m, d.get(), states_[static_cast<std::size_t>(env)]);
    mj_forward(&m, d.get());
    // RK4 evaluates accelerations four times, each from the rounded results of the one before.
    const double evaluations = m.opt.integrator == mjINT_RK4 ? 4 : 1;
    const double acceleration = std::max(evaluations * oracle::conditioning(m, d.get()).acceleration, 1.0);
    const Numbers sensors(d->sensordata, d->sensordata + m.nsensordata);
    mj_step(&m, d.get());
    auto check = [&](const char* name, const mjtNum* values, std::int64_t count, double scale) {
      const Numbers expected(values, values + count), ours = batch.state(name, env);
      const double error = difference(ours, expected, scale);
      EXPECT_LE(error, tolerance) << name << " of environment " << env << numbers_text(ours, expected);
      return error <= tolerance;
    };
    const double h = m.opt.timestep;
    const double velocity = largest({d->qvel, d->qvel + m.nv}) + h * acceleration;
    bool good = check("qpos", d->qpos, m.nq, 1 + h * velocity);
    good &= check("qvel", d->qvel, m.nv, velocity);
    good &= check("act", d->act, m.na, 1 + largest({d->act, d->act + m.na}));
    good &= check("time", &d->time, 1, 1);
    good &= check("ctrl", d->ctrl, m.nu, 1);
    good &= check("qacc_warmstart", d->qacc_warmstart, m.nv, acceleration);
    const Numbers readings(d->sensordata, d->sensordata + m.nsensordata);
    const Numbers crb(d->crb, d->crb + 10 * m.nbody);
    const Numbers ours_of_sensors = whole.data(env).at("sensordata");
    for (const SensorSlice& slice : sensor_slices(m)) {
      double size = std::max(1.0, largest(slice_of(sensors, slice)));
      if (slice.of_acceleration) size += acceleration * std::max(1.0, largest(crb));
      const Numbers expected = slice_of(readings, slice);
      const Numbers ours = slice_of(ours_of_sensors, slice);
      EXPECT_LE(difference(ours, expected, size), kTolerance<S>)
          << "sensor at " << slice.adr << " of environment " << env << numbers_text(ours, expected);
    }
    if (sizeof(S) == 8) check_left_by_step(batch.data(env), oracle::fields_of(m, *d), acceleration);
    if (!good) return;
  }
}

TEST_P(Parity, Forward) {
  load("");
  check_forward<double>();
  check_forward<Lanes<double>>();
  check_forward<Lanes<float>>();
}

// As large as the terms are whose sum is qfrc_inverse, at the acceleration of `d` after mj_inverse.
double size_of_inverse_terms(const mjModel& m, const mjData& d) {
  const auto nv = static_cast<std::size_t>(m.nv);
  Numbers acceleration(nv), sum(nv), inertia(nv);
  for (std::size_t i = 0; i < nv; ++i) acceleration[i] = std::abs(d.qacc[i]);
  mj_mulM(&m, &d, inertia.data(), acceleration.data());
  for (std::size_t i = 0; i < nv; ++i)
    sum[i] = std::abs(inertia[i]) + std::abs(d.qfrc_bias[i]) + std::abs(d.qfrc_passive[i]);
  const bool sparse = mj_isSparse(&m) != 0;
  for (int r = 0; r < d.nefc; ++r) {
    const int first = sparse ? d.efc_J_rowadr[r] : r * static_cast<int>(m.nv),
              count = sparse ? d.efc_J_rownnz[r] : static_cast<int>(m.nv);
    const auto dof = [&](int k) { return static_cast<std::size_t>(sparse ? d.efc_J_colind[first + k] : k); };
    double size = std::abs(d.efc_aref[r]);
    for (int k = 0; k < count; ++k) size += std::abs(d.efc_J[first + k]) * acceleration[dof(k)];
    for (int k = 0; k < count; ++k) sum[dof(k)] += std::abs(d.efc_J[first + k]) * d.efc_D[r] * size;
  }
  return 1 + largest(sum);
}

// Of accelerations that no solver has found, for every kind of row.
TEST_P(Parity, InverseDynamics) {
  load("");
  const mjModel& m = *mujoco_.model;
  std::mt19937_64 generator(9);
  std::normal_distribution<double> normal;
  for (RandomState& state : states_) {
    state.qacc_warmstart.resize(static_cast<std::size_t>(m.nv));
    for (double& acceleration : state.qacc_warmstart) acceleration = 10 * normal(generator);
  }
  const auto check = [&]<class V>(V) {
    Batch<V> batch(imported_);
    batch.set(states_);
    batch.run_forward(true);
    const oracle::DataPointer d = oracle::make_data(m);
    for (int env = 0; env < kEnvs && !HasFailure(); ++env) {
      const RandomState& state = states_[static_cast<std::size_t>(env)];
      oracle::set_state(m, d.get(), state);
      std::copy(state.qacc_warmstart.begin(), state.qacc_warmstart.end(), d->qacc);
      mj_inverse(&m, d.get());
      const Numbers expected(d->qfrc_inverse, d->qfrc_inverse + m.nv),
          ours = batch.data(env).at("qfrc_inverse");
      EXPECT_LE(difference(ours, expected, size_of_inverse_terms(m, *d)),
                sizeof(ScalarOf<V>) == 8 ? 1e-12 : 2e-5)
          << "environment " << env << numbers_text(ours, expected);
    }
  };
  check(double());
  check(Lanes<double>());
  check(Lanes<float>());
}

// The part of forward() that tasks ask for gives the same bits, and leaves no part of a field unwritten.
TEST_P(Parity, ForwardKinematics) {
  load("");
  using V = Lanes<double>;
  Batch<V> whole(imported_), part(imported_);
  whole.set(states_);
  whole.run_forward();
  part.set(states_);
  part.run_kinematics();
  for (int env = 0; env < kEnvs; ++env) {
    const auto expected = whole.data(env), ours = part.data(env);
    for (const char* name : {"xpos", "xquat", "xmat", "xipos", "ximat", "xanchor", "xaxis", "site_xpos",
                             "site_xmat", "subtree_com", "cvel", "cdof", "ten_length", "ten_velocity",
                             "actuator_length", "actuator_velocity"})
      EXPECT_EQ(difference(ours.at(name), expected.at(name), 1), 0) << name << " " << env;
    for (const auto& [name, values] : ours) {
      if (values.empty() || std::isnan(values.back()) || name == "sensordata") continue;  // of forces
      EXPECT_EQ(difference(values, expected.at(name), 1), 0) << name << " " << env;
    }
  }
}

// A field that has the name of an array of mjData has its layout; the tests above compare its numbers.
TEST_P(Parity, FieldsWithNamesOfMujocosHaveItsSizes) {
  load("");
  const mjModel& m = *mujoco_.model;
  std::map<std::string, std::int64_t> sizes;
#define X(type, name, rows, columns) sizes[#name] = std::int64_t{m.rows} * (columns);
#define XNV X
  MJDATA_POINTERS
#undef X
#undef XNV
  int shared = 0;
  for (const FieldInfo& field : data_fields(host_model(imported_)))
    if (const auto found = sizes.find(field.name); found != sizes.end()) {
      EXPECT_EQ(field.size, found->second) << field.name;
      ++shared;
    }
  EXPECT_GT(shared, 30);
}

TEST_P(Parity, Step) {
  for (const char* integrator : {"Euler", "RK4", "implicit", "implicitfast"}) {
    load(integrator);
    check_step<double>(integrator);
    check_step<Lanes<double>>(integrator);
    check_step<Lanes<float>>(integrator);
  }
}

// With all fields asked for, step() leaves Data as mj_step leaves mjData and moves the state to the same
// place.
TEST_P(Parity, StepWithAllFields) {
  for (const char* integrator : {"Euler", "RK4", "implicit", "implicitfast"}) {
    SCOPED_TRACE(integrator);
    load(integrator);
    const mjModel& m = *mujoco_.model;
    Batch<Lanes<double>> batch(imported_);
    batch.set(states_);
    batch.run_step(true);
    const oracle::DataPointer d = oracle::make_data(m);
    for (int env = 0; env < kEnvs; ++env) {
      oracle::set_state(m, d.get(), states_[static_cast<std::size_t>(env)]);
      mj_step(&m, d.get());
      const oracle::Conditioning condition = oracle::conditioning(m, d.get());
      const Numbers qpos(d->qpos, d->qpos + m.nq), qvel(d->qvel, d->qvel + m.nv);
      // the recursions read a velocity that mj_step has already replaced: after Euler it is known
      const bool euler = m.opt.integrator == mjINT_EULER;
      const RandomState& state = states_[static_cast<std::size_t>(env)];
      if (euler) std::copy(state.qvel.begin(), state.qvel.end(), d->qvel);
      std::map<std::string, Numbers> expected = oracle::fields_of(m, *d);
      for (const char* name : {"cacc_bias", "cfrc_body", "cacc", "cfrc_int"})
        if (!euler) expected.erase(name);
      // (and so does the inertia of spatial tendons)
      if (!euler && (imported_.flags & model_tendon_armature)) expected.erase("cfrc_ext");
      expected.erase("qfrc_inverse");  // (here of the state after the step)
      const std::map<std::string, Numbers> ours = batch.data(env);
      for (const auto& [name, values] : expected) {
        double scale = 1 + 10 * largest(values);
        if (name == "qacc" || name == "qacc_smooth" || name == "cacc") scale += 4 * condition.acceleration;
        if (name == "cfrc_int" || name == "sensordata")
          scale += 4 * condition.acceleration * std::max(1.0, largest(expected.at("crb")));
        if (name == "qM_factor") scale += condition.factor;
        if (name == "qLDiagInv") scale += condition.pivot;
        EXPECT_LE(difference(ours.at(name), values, scale), 1e-12)
            << name << numbers_text(ours.at(name), values);
      }
      EXPECT_LE(difference(batch.state("qpos", env), qpos, 1 + largest(qpos)), 1e-11);
      EXPECT_LE(difference(batch.state("qvel", env), qvel, 1 + largest(qvel) + condition.acceleration),
                1e-11);
      if (HasFailure()) return;
    }
  }
}

// 100 steps with controls that change each step: errors of the order of rounding grow, but stay small.
TEST_P(Parity, Trajectory) {
  for (const char* integrator : {"Euler", "RK4", "implicit", "implicitfast"}) {
    SCOPED_TRACE(integrator);
    load(integrator);
    const mjModel& m = *mujoco_.model;
    using V = Lanes<double>;
    Batch<V> batch(imported_);
    batch.set(states_);
    std::vector<oracle::DataPointer> data;
    for (const RandomState& state : states_) {
      data.push_back(oracle::make_data(m));
      oracle::set_state(m, data.back().get(), state);
    }
    const double tolerance = imported_.sizes.nrowdof > 0 ? 1e-8 : 1e-9;
    std::mt19937_64 generator(5);
    std::uniform_real_distribution<double> uniform(-0.3, 0.3);
    for (int step = 0; step < 100; ++step) {
      if (step % 10 == 0)
        for (int env = 0; env < kEnvs; ++env)
          for (int i = 0; i < m.nu; ++i) {
            const double control = uniform(generator);
            data[static_cast<std::size_t>(env)]->ctrl[i] = control;
            batch.set_state_value("ctrl", i, env, control);
          }
      batch.poison();
      batch.run_step();
      for (const oracle::DataPointer& d : data) mj_step(&m, d.get());
    }
    for (int env = 0; env < kEnvs; ++env) {
      const mjData& d = *data[static_cast<std::size_t>(env)];
      EXPECT_EQ(d.warning[mjWARN_BADQACC].number + d.warning[mjWARN_BADQVEL].number, 0);
      const Numbers qpos(d.qpos, d.qpos + m.nq), qvel(d.qvel, d.qvel + m.nv), act(d.act, d.act + m.na);
      EXPECT_LE(difference(batch.state("qpos", env), qpos, 1 + largest(qpos)), tolerance)
          << "environment " << env;
      EXPECT_LE(difference(batch.state("qvel", env), qvel, 1 + largest(qvel)), 10 * tolerance)
          << "environment " << env;
      EXPECT_LE(difference(batch.state("act", env), act, 1), 1e-9) << "environment " << env;
    }
  }
}

// MuJoCo's rule for a state that is not a number or too large: reset, then go on with the step; where a
// control is not a number, all controls are zero. The other lanes keep their bits.
TEST_P(Parity, BadState) {
  load("");
  const mjModel& m = *mujoco_.model;
  using V = Lanes<double>;
  Batch<V> good(imported_), bad(imported_);
  good.set(states_);
  bad.set(states_);
  const int position = 5, velocity = 14, huge = 21, control = 26;
  bad.set_state_value("qpos", 0, position, std::nan(""));
  bad.set_state_value("qvel", static_cast<int>(m.nv) - 1, velocity, std::nan(""));
  bad.set_state_value("qpos", static_cast<int>(m.nq) - 1, huge, -2e10);
  if (m.nu > 0) bad.set_state_value("ctrl", 0, control, std::nan(""));
  good.run_step();
  const std::vector<bool> reported = bad.run_step();
  const oracle::DataPointer d = oracle::make_data(m);
  for (int env = 0; env < kEnvs; ++env) {
    const bool is_bad = env == position || env == velocity || env == huge;
    EXPECT_EQ(reported[static_cast<std::size_t>(env)], is_bad) << env;
    if (is_bad || env == control) {
      oracle::set_state(m, d.get(), states_[static_cast<std::size_t>(env)]);
      if (env == position) d->qpos[0] = std::nan("");
      if (env == velocity) d->qvel[m.nv - 1] = std::nan("");
      if (env == huge) d->qpos[m.nq - 1] = -2e10;
      if (env == control && m.nu > 0) d->ctrl[0] = std::nan("");
      mj_step(&m, d.get());
      const double acceleration = std::max(oracle::conditioning(m, d.get()).acceleration, 1.0);
      EXPECT_LE(difference(bad.state("qpos", env), {d->qpos, d->qpos + m.nq}, 1), 1e-12) << env;
      EXPECT_LE(difference(bad.state("qvel", env), {d->qvel, d->qvel + m.nv}, acceleration), 1e-12) << env;
      EXPECT_LE(difference(bad.state("act", env), {d->act, d->act + m.na}, 1), 1e-12) << env;
      EXPECT_LE(difference(bad.state("time", env), {d->time}, 1), 1e-12) << env;
    } else {
      for (const char* name : {"qpos", "qvel", "act", "time", "qacc_warmstart"})
        EXPECT_EQ(difference(bad.state(name, env), good.state(name, env), 1), 0) << name << " " << env;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Parity, ::testing::ValuesIn(model_cases()),
                         [](const auto& model) { return model.param.name; });

}  // namespace
}  // namespace maniple
