// The step as a whole: lanes are independent of each other, bad states are reset in place, and a pack
// computes the same as a scalar.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/physics/simulated_model.hpp"

namespace maniple {
namespace {

// Every joint type, springs, dampers, gravity compensation, actuators of all kinds and sensors.
constexpr const char* kZoo = R"(<mujoco><option timestep="0.004"/><worldbody>
  <body name="a" pos="0 0 1" gravcomp="0.5"><joint name="free" type="free" damping="0.1"/>
    <inertial pos="0.02 0 0.01" mass="2" diaginertia="0.05 0.04 0.03"/>
    <body name="b" pos="0.2 0 0"><joint name="ball" type="ball" stiffness="2" damping="0.1"/>
      <inertial pos="0.2 0 0.05" mass="0.8" diaginertia="0.002 0.01 0.01"/>
      <body name="c" pos="0.4 0 0" quat="0.8 0.6 0 0">
        <joint name="hinge" axis="0 0.6 0.8" springref="20" stiffness="3" armature="0.01"/>
        <joint name="slide" type="slide" axis="0 0 1" damping="0.5"/>
        <inertial pos="0.1 0.03 0" mass="0.3" diaginertia="0.001 0.002 0.002"/></body></body></body>
  <body name="d" pos="1 0 0"><joint name="z" axis="0 0 1"/>
    <inertial pos="0.1 0 0" mass="0.3" diaginertia="0.001 0.002 0.002"/></body>
  </worldbody><actuator>
    <motor joint="hinge" ctrlrange="-1 1" ctrllimited="true"/><position joint="slide" kp="5" kv="0.5"/>
    <velocity joint="z" kv="0.2"/><general joint="ball" gear="1 0.2 0" dyntype="filter" dynprm="0.1"/>
    <general jointinparent="free" gear="0 0 1 0.2 0 0"/></actuator>
  <sensor><jointpos joint="hinge"/><ballquat joint="ball"/><jointactuatorfrc joint="z"/></sensor></mujoco>)";
// A valid random state of one environment, in table order.
template <class T>
std::vector<T> random_state(const ModelSizes& sizes, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<T> values;
  for (int i = 0; i < state_elements(sizes); ++i) values.push_back(static_cast<T>(uniform(generator)));
  return values;
}

template <class T>
std::vector<T> result(SimulatedModel<Lanes<T>>& s, int lane) {
  for (int step = 0; step < 20; ++step) s.step();
  std::vector<T> values = s.lane(lane);
  s.forward();
  for (int i = 0; i < s.model().nsensordata; ++i) values.push_back(get_lane(s.data.sensordata[i], lane));
  return values;
}

template <class T>
class PhysicsStep : public ::testing::Test {};
using Precisions = ::testing::Types<float, double>;
TYPED_TEST_SUITE(PhysicsStep, Precisions);

// Lanes with other active limits, and other iterations of the solver, are neighbours too.
const std::string kLimits = std::string(MANIPLE_SOURCE_DIR) + "/tests/reference/models/limits.xml";

TYPED_TEST(PhysicsStep, BitsDependNeitherOnLaneNorOnNeighbours) {
  using T = TypeParam;
  constexpr int width = lane_width<Lanes<T>>;
  for (const char* integrator : {"Euler", "RK4", "implicit", "implicitfast", "limits"}) {
    const ImportedModel imported =
        std::string(integrator) == "limits" ? model_of_file(kLimits) : model_of_text(kZoo, integrator);
    const std::vector<T> state = random_state<T>(imported.sizes, 5);
    std::vector<T> first;
    for (int lane = 0; lane < width; ++lane) {
      for (int neighbours = 0; neighbours < 3; ++neighbours) {
        SimulatedModel<Lanes<T>> s(imported);
        for (int other = 0; other < width; ++other) {
          std::vector<T> values = random_state<T>(imported.sizes, 100 * neighbours + other);
          if (neighbours == 1) values[0] = std::numeric_limits<T>::quiet_NaN();
          if (neighbours == 2) values[imported.sizes.nq] = T(1e9);  // becomes bad within the step
          s.set_lane_state(other, values);
        }
        s.set_lane_state(lane, state);
        const std::vector<T> values = result<T>(s, lane);
        if (first.empty()) first = values;
        ASSERT_EQ(std::memcmp(values.data(), first.data(), values.size() * sizeof(T)), 0)
            << integrator << " lane " << lane << " neighbours " << neighbours;
      }
    }
  }
}

TYPED_TEST(PhysicsStep, PackComputesWhatAScalarDoes) {
  using T = TypeParam;
  for (const char* integrator : {"Euler", "RK4", "implicit", "implicitfast"}) {
    const ImportedModel imported = model_of_text(kZoo, integrator);
    SimulatedModel<Lanes<T>> pack(imported);
    SimulatedModel<T> scalar(imported);
    const std::vector<T> state = random_state<T>(imported.sizes, 5);
    pack.set_lane_state(1, state);
    scalar.set_lane_state(0, state);
    for (int step = 0; step < 5; ++step) {
      pack.step();
      scalar.step();
    }
    const std::vector<T> a = pack.lane(1), b = scalar.lane(0);
    const double tolerance = sizeof(T) == 4 ? 2e-4 : 1e-11;
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(double(b[i])))) << integrator << " " << i;
  }
}

// mj_checkPos, mj_checkVel: the environment restarts from qpos0 with zero velocity, activation, control
// and time, and takes the step from there; the mask names it.
TYPED_TEST(PhysicsStep, BadStatesRestartAndAreNamed) {
  using T = TypeParam;
  constexpr int width = lane_width<Lanes<T>>;
  constexpr int bad_lane = width > 1 ? 1 : 0;
  const ImportedModel imported = model_of_text(kZoo);
  SimulatedModel<Lanes<T>> fresh(imported);
  EXPECT_FALSE(any_lane(fresh.step()));
  const std::vector<T> expected = fresh.lane(0);
  const T bad_values[] = {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(), T(-2e10)};
  for (const T bad : bad_values)
    for (const int element : {0, imported.sizes.nq + 2}) {
      SimulatedModel<Lanes<T>> s(imported);
      for (int lane = 0; lane < width; ++lane) s.set_lane_state(lane, random_state<T>(imported.sizes, lane));
      std::vector<T> state = random_state<T>(imported.sizes, 7);
      state[element] = bad;
      s.set_lane_state(bad_lane, state);
      const auto mask = s.step();
      for (int lane = 0; lane < width; ++lane) EXPECT_EQ(get_lane(mask, lane), lane == bad_lane);
      EXPECT_EQ(s.lane(bad_lane), expected) << bad << " in element " << element;
    }
}

// mj_checkAcc: an acceleration beyond 1e10 restarts the environment before it is integrated.
TYPED_TEST(PhysicsStep, BadAccelerationsRestart) {
  using T = TypeParam;
  const ImportedModel imported = model_of_text(kZoo);
  SimulatedModel<Lanes<T>> fresh(imported), s(imported);
  fresh.step();
  std::vector<T> state = random_state<T>(imported.sizes, 7);
  state[imported.sizes.nq + 9] = T(9e9);  // of the hinge: its centrifugal forces are enormous
  s.set_lane_state(0, state);
  EXPECT_TRUE(get_lane(s.step(), 0));
  EXPECT_EQ(s.lane(0), fresh.lane(0));
}

// An invalid control is not a bad state: all controls of that environment count as zero.
TYPED_TEST(PhysicsStep, InvalidControlsCountAsZero) {
  using T = TypeParam;
  const ImportedModel imported = model_of_text(kZoo);
  SimulatedModel<Lanes<T>> s(imported);
  const int ctrl = imported.sizes.nq + imported.sizes.nv + imported.sizes.na;
  std::vector<T> state = random_state<T>(imported.sizes, 7);
  s.set_lane_state(0, state);
  for (int i = 0; i < imported.sizes.nu; ++i) state[ctrl + i] = 0;
  s.set_lane_state(1, state);
  set_lane(s.state.ctrl[2], 0, std::numeric_limits<T>::quiet_NaN());
  EXPECT_FALSE(any_lane(s.step()));
  for (int i = 0; i < imported.sizes.nv; ++i)
    EXPECT_EQ(get_lane(s.state.qvel[i], 0), get_lane(s.state.qvel[i], 1)) << i;
}

TEST(Physics, KinematicsAloneAgreesWithTheFullForwardPass) {
  const ImportedModel imported = model_of_text(kZoo);
  SimulatedModel<double> full(imported), part(imported);
  const std::vector<double> state = random_state<double>(imported.sizes, 9);
  full.set_lane_state(0, state);
  part.set_lane_state(0, state);
  full.forward();
  forward_kinematics<double>(part.model(), part.state, part.data);
  const Model<double>& m = full.model();
  for (int i = 0; i < 3 * m.nbody; ++i) EXPECT_EQ(full.data.subtree_com[i], part.data.subtree_com[i]);
  for (int i = 0; i < 6 * m.nbody; ++i) EXPECT_EQ(full.data.cvel[i], part.data.cvel[i]);
  for (int i = 0; i < m.nactuator; ++i)
    EXPECT_EQ(full.data.actuator_velocity[i], part.data.actuator_velocity[i]);
}

// step() and forward() come to the same accelerations along different paths.
TEST(Physics, StepAndForwardAgree) {
  const ImportedModel imported = model_of_text(kZoo);
  SimulatedModel<double> full(imported), part(imported), whole(imported);
  const std::vector<double> state = random_state<double>(imported.sizes, 13);
  full.set_lane_state(0, state);
  part.set_lane_state(0, state);
  whole.set_lane_state(0, state);
  full.forward();
  part.step();
  whole.step(true);
  const Model<double>& m = full.model();
  for (int i = 0; i < m.nM; ++i) EXPECT_NEAR(part.data.qM[i], full.data.qM[i], 1e-13) << i;
  for (int i = 0; i < m.nv; ++i) {
    EXPECT_NEAR(part.data.qfrc_bias[i], full.data.qfrc_bias[i], 1e-12) << i;
    EXPECT_NEAR(part.data.qacc[i], full.data.qacc[i], 1e-10 * std::max(1.0, std::abs(full.data.qacc[i])))
        << i;
  }
  ASSERT_GT(m.nsensordata, 0);
  for (int i = 0; i < m.nsensordata; ++i) {
    const double expected = full.data.sensordata[i];
    EXPECT_NEAR(whole.data.sensordata[i], expected, 1e-10 * std::max(1.0, std::abs(expected))) << i;
  }
  // what is asked of a step beside the state changes no bit of it
  EXPECT_EQ(whole.lane(0), part.lane(0));
}

// A quarter turn about an anchor away from the body frame, and a slide along a turned axis.
TEST(Physics, JointsMoveBodiesWhereTheyShould) {
  SimulatedModel<double> s(model_of_text(R"(<mujoco><worldbody><body pos="1 2 3">
    <joint type="hinge" axis="0 0 1" pos="0.5 0 0"/><joint type="slide" axis="1 0 0"/>
    <inertial pos="0 0 0.25" mass="1" diaginertia="1 1 1"/>
    <site pos="0 1 0"/></body></worldbody></mujoco>)"));
  s.forward();
  const double at_rest[3] = {1, 2, 3};
  for (int k = 0; k < 3; ++k) EXPECT_DOUBLE_EQ(s.data.xpos[3 + k], at_rest[k]);
  s.set(s.state.qpos, {M_PI / 2, 0.25});
  s.forward();
  // anchor (1.5, 2, 3); the body lies at -0.5 x' = (0, -0.5, 0) from it, and 0.25 y further by the slide
  const double moved[3] = {1.5, 1.75, 3}, site[3] = {0.5, 1.75, 3}, center[3] = {1.5, 1.75, 3.25};
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(s.data.xpos[3 + k], moved[k], 1e-15);
    EXPECT_NEAR(s.data.site_xpos[k], site[k], 1e-15);
    EXPECT_NEAR(s.data.xipos[3 + k], center[k], 1e-15);
  }
}

// Hooke's law on each joint type, and what a gear makes of velocities and forces of a ball joint.
TEST(Physics, SpringsPullBackAndGearsProject) {
  SimulatedModel<double> s(model_of_text(R"(<mujoco><option gravity="0 0 0"/><worldbody>
    <body><joint type="slide" stiffness="3 2 1" springref="0.1"/>
      <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
      <body><joint name="ball" type="ball" stiffness="5"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>
    </body></worldbody>
    <actuator><motor joint="ball" gear="1 2 3"/></actuator></mujoco>)"));
  s.set(s.state.qpos, {0.6, std::cos(0.2), 0, std::sin(0.2), 0});  // turned by 0.4 rad about y
  s.set(s.state.qvel, {0, 0.5, -0.25, 0.125});
  s.set(s.state.ctrl, {2});
  s.forward();
  EXPECT_NEAR(s.data.qfrc_spring[0], -0.5 * (3 + 2 * 0.5 + 1 * 0.25), 1e-15);
  const double torque[3] = {0, -5 * 0.4, 0};
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(s.data.qfrc_spring[1 + k], torque[k], 1e-15);
    EXPECT_NEAR(s.data.qfrc_actuator[1 + k], 2 * (k + 1), 1e-15);
  }
  EXPECT_NEAR(s.data.actuator_length[0], 2 * 0.4, 1e-15);
  EXPECT_NEAR(s.data.actuator_velocity[0], 0.5 - 0.5 + 0.375, 1e-15);
}

// The inertia matrix times the acceleration gives the force back, and M is what the bodies' energies say.
TEST(Physics, FactorSolvesWithTheInertiaMatrix) {
  const ImportedModel imported = model_of_text(kZoo);
  SimulatedModel<double> s(imported);
  s.set_lane_state(0, random_state<double>(imported.sizes, 11));
  s.forward();
  const Model<double>& m = s.model();
  const std::vector<double> inertia = dense_inertia(m, s.data.qM);
  for (int i = 0; i < m.nv; ++i) {
    double force = 0;
    for (int j = 0; j < m.nv; ++j) force += inertia[i * m.nv + j] * s.data.qacc_smooth[j];
    EXPECT_NEAR(force, s.data.qfrc_smooth[i], 1e-11) << i;
  }
  double from_bodies = 0, from_matrix = 0;
  for (int i = 1; i < m.nbody; ++i) {
    const Inertia<double> inertia_of_body = load10<double>(s.data.cinert, 10 * i);
    const Spatial<double> velocity = load6<double>(s.data.cvel, 6 * i);
    from_bodies += 0.5 * dot(velocity, inertia_of_body * velocity);
  }
  for (int i = 0; i < m.nv; ++i)
    for (int j = 0; j < m.nv; ++j)
      from_matrix += 0.5 * s.state.qvel[i] * inertia[i * m.nv + j] * s.state.qvel[j];
  const double armature = 0.5 * 0.01 * s.state.qvel[9] * s.state.qvel[9];
  EXPECT_NEAR(from_matrix, from_bodies + armature, 1e-12);
}

}  // namespace
}  // namespace maniple
