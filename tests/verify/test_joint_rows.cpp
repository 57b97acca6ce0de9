// Joint limits and dry friction against closed formulas of MuJoCo's soft constraints
// (mujoco.readthedocs.io, "Computation", section "Parameters").
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/physics/simulated_model.hpp"

namespace maniple {
namespace {

// At rest the force of the row carries the weight: depth = g (1 - d) / (d^2 K), with a constant impedance d.
TEST(JointRows, AWeightRestsAtTheKnownDepth) {
  const double d = 0.9, time_constant = 0.03, damping_ratio = 1.2;
  SimulatedModel<double> s(model_of_file(verify_model("joint_limit")));
  for (int step = 0; step < 3000; ++step) s.step();
  const double stiffness = 1 / std::pow(d * time_constant * damping_ratio, 2);
  EXPECT_NEAR(s.state.qpos[0], -9.81 * (1 - d) / (d * d * stiffness), 1e-9);
  EXPECT_NEAR(s.state.qvel[0], 0, 1e-9);
  EXPECT_NEAR(s.data.qfrc_constraint[0], 3 * 9.81, 1e-6);
}

// The direct format gives the spring and damper of the limit: a bounce off it is half a damped oscillation.
TEST(JointRows, ABounceLosesWhatTheDamperTakes) {
  const double k = 4000, b = 12;
  SimulatedModel<double> s(model_of_text(R"(<mujoco>
    <compiler autolimits="true"/>
    <option gravity="0 0 0"/>
    <worldbody><body>
      <joint type="slide" range="0 1" solreflimit="-4000 -12" solimplimit="0.95 0.95 0.001 0.5 2"/>
      <inertial pos="0 0 0" mass="3" diaginertia="1 1 1"/>
    </body></worldbody></mujoco>)",
                                         "RK4", 1e-4));
  s.state.qpos[0] = 1e-3;
  s.state.qvel[0] = -2;
  while (s.state.qvel[0] < 0 || s.state.qpos[0] < 0) s.step();
  // m qacc = D (aref - qacc) with D = m d / (1 - d): qacc = d aref, aref = -(b v + k d x / d) / d
  const double decay = b / 2, frequency = std::sqrt(k - decay * decay);
  // the row lets go when its force is zero, b v + k x = 0, which is before the mass is back
  double x = 0, v = -2, t = 0;
  const double h = 1e-6;
  while (b * v + k * x < 0) {
    t += h;
    const double wave = std::exp(-decay * t);
    x = -2 / frequency * wave * std::sin(frequency * t);
    v = -2 * wave * (std::cos(frequency * t) - decay / frequency * std::sin(frequency * t));
  }
  EXPECT_NEAR(s.state.qvel[0], v, 2e-3 * v);
  EXPECT_LT(v, 1.9);
}

// Below the largest friction force the joint only creeps, with the speed at which the row's damper holds the
// rest; above it the rest accelerates.
TEST(JointRows, DryFrictionHoldsUpToItsForce) {
  SimulatedModel<double> s(model_of_file(verify_model("dry_friction")));
  for (int step = 0; step < 500; ++step) s.step();
  EXPECT_LT(std::abs(s.state.qvel[0]), 0.02);
  EXPECT_NEAR(s.data.qfrc_constraint[0], 3 * 9.81, 1e-6);
  EXPECT_NEAR(s.data.qfrc_constraint[1], 20, 1e-9);
  EXPECT_NEAR(s.data.qacc[1], -9.81 + 20.0 / 3, 1e-9);
}

}  // namespace
}  // namespace maniple
