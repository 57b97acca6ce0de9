// Spatial tendons and muscles against geometry and their definitions: lengths and lever arms around a
// cylinder and inside a sphere, pulleys, and the peak of a muscle's curves.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/physics/simulated_model.hpp"

namespace maniple {
namespace {

// An arm that turns by a hinge about the axis of a cylinder, with a site at the distance 0.3 from it; the
// tendon ends there and begins at the same distance, 0.2 lower along the axis.
std::string drum(const std::string& side) {
  return R"(<mujoco><worldbody>
    <site name="start" pos="0.3 0 -0.2"/><site name="over" pos="0 0.5 0"/><site name="under" pos="0 -0.5 0"/>
    <geom name="drum" type="cylinder" size="0.1 0.1" contype="0" conaffinity="0"/>
    <body><joint axis="0 0 1"/><site name="end" pos="0.3 0 0"/>
      <inertial pos="0.1 0 0" mass="1" diaginertia="0.1 0.1 0.1"/></body>
  </worldbody>
  <tendon><spatial><site site="start"/><geom geom="drum" )" +
         side + R"(/><site site="end"/></spatial></tendon></mujoco>)";
}

// Unrolled, the way around the cylinder is straight: two tangents and the arc between them.
TEST(Tendons, TakeTheShortestWayAroundACylinder) {
  const double radius = 0.1, distance = 0.3, height = 0.2;
  const double tangent = std::sqrt(distance * distance - radius * radius);
  const double covered = 2 * std::acos(radius / distance);
  for (const bool under : {false, true})
    for (const double angle : {2.7, 3.0}) {
      SimulatedModel<double> s(model_of_text(drum(under ? "sidesite=\"under\"" : "")));
      s.state.qpos[0] = angle;
      s.state.qvel[0] = 2;
      s.forward();
      const double turned = under ? 2 * M_PI - angle : angle;
      const double flat = 2 * tangent + radius * (turned - covered);
      EXPECT_NEAR(s.data.ten_length[0], std::hypot(flat, height), 1e-14) << angle;
      // the lever arm is the radius, and the slope of the way
      const double speed = (under ? -2 : 2) * radius * flat / std::hypot(flat, height);
      EXPECT_NEAR(s.data.ten_velocity[0], speed, 1e-13) << angle;
    }
}

TEST(Tendons, AreStraightWhereNothingIsInTheirWay) {
  SimulatedModel<double> s(model_of_text(drum("")));
  s.state.qpos[0] = 0.4;
  s.state.qvel[0] = 1;
  s.forward();
  EXPECT_NEAR(s.data.ten_length[0], std::hypot(0.6 * std::sin(0.2), 0.2), 1e-14);
  EXPECT_NEAR(s.data.ten_velocity[0], 0.09 * std::sin(0.4) / s.data.ten_length[0], 1e-13);
}

// With the side site inside, the tendon touches the sphere in one point, as light is reflected: the way is
// the shortest among all by way of the surface.
TEST(Tendons, TouchTheInsideWhereTheWayIsShortest) {
  SimulatedModel<double> s(model_of_text(R"(<mujoco><worldbody>
    <site name="start" pos="0.3 0.05 0"/><site name="in" pos="0.01 0.02 0"/>
    <geom name="ring" type="sphere" size="0.1" contype="0" conaffinity="0"/>
    <body><joint axis="0 0 1"/><site name="end" pos="0.25 0 0"/>
      <inertial pos="0.1 0 0" mass="1" diaginertia="0.1 0.1 0.1"/></body>
  </worldbody>
  <tendon><spatial><site site="start"/><geom geom="ring" sidesite="in"/><site site="end"/></spatial></tendon>
  </mujoco>)"));
  s.state.qpos[0] = 1.9;
  s.state.qvel[0] = 0;
  s.forward();
  double shortest = 1;
  for (int i = 0; i <= 20000; ++i) {
    const double at = 1.9 * i / 20000, x = 0.1 * std::cos(at), y = 0.1 * std::sin(at);
    shortest = std::min(shortest, std::hypot(0.3 - x, 0.05 - y) +
                                      std::hypot(0.25 * std::cos(1.9) - x, 0.25 * std::sin(1.9) - y));
  }
  EXPECT_NEAR(s.data.ten_length[0], shortest, 1e-8);
  EXPECT_GT(shortest, std::hypot(0.3 - 0.25 * std::cos(1.9), 0.05 - 0.25 * std::sin(1.9)));
}

// Behind a pulley of divisor 2, a way counts half, and the force is halved.
TEST(Tendons, ArePulledLessBehindAPulley) {
  SimulatedModel<double> s(model_of_text(R"(<mujoco><option gravity="0 0 0"/><worldbody>
    <site name="ceiling" pos="0 0 1"/><site name="other" pos="1 0 1"/>
    <body><joint type="slide" axis="0 0 1"/><site name="a"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>
    <body pos="1 0 0"><joint type="slide" axis="0 0 1"/><site name="b"/>
      <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>
  </worldbody>
  <tendon><spatial stiffness="10" springlength="0.5"><site site="ceiling"/><site site="a"/><pulley divisor="2"/>
    <site site="other"/><site site="b"/></spatial></tendon></mujoco>)"));
  s.forward();
  EXPECT_DOUBLE_EQ(s.data.ten_length[0], 1.5);
  EXPECT_DOUBLE_EQ(s.data.qfrc_passive[0], 10);
  EXPECT_DOUBLE_EQ(s.data.qfrc_passive[1], 5);
}

// Of a muscle whose joint spans its length range: the optimum length is one unit, at 1 - range[0] units from
// the shortest.
TEST(Muscles, PullMostAtTheirOptimumLengthAndAtRest) {
  SimulatedModel<double> s(
      model_of_text(R"(<mujoco><worldbody><body><joint name="j" type="slide" axis="1 0 0"/>
    <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></worldbody>
    <actuator><muscle joint="j" force="50" lengthrange="0 0.3" range="0.75 1.05"/></actuator></mujoco>)"));
  const auto force_at = [&](double length, double velocity, double activation) {
    s.state.qpos[0] = length;
    s.state.qvel[0] = velocity;
    s.state.act[0] = activation;
    s.forward();
    return s.data.actuator_force[0];
  };
  EXPECT_NEAR(force_at(0.25, 0, 1), -50, 1e-12);
  EXPECT_NEAR(force_at(0.25, 0, 0.4), -20, 1e-12);
  EXPECT_GT(force_at(0.2, 0, 1), -50);
  EXPECT_NEAR(force_at(0.25, -1.5, 1), 0, 1e-12);        // shortens at vmax
  EXPECT_NEAR(force_at(0.25, 10, 1), -50 * 1.2, 1e-12);  // is stretched fast: fvmax
  // no active force at lmax, 1.6, and the passive one is fpmax times half of the parabola and the straight
  // part
  EXPECT_NEAR(force_at(0.85, 0, 1), -50 * 1.3 * 1.5, 1e-12);
  EXPECT_NEAR(force_at(0.55, 0, 0), -50 * 1.3 * 0.5, 1e-12);
}

// The activation follows the control with the time constants of activation and deactivation.
TEST(Muscles, AreActivatedFasterThanDeactivated) {
  SimulatedModel<double> s(model_of_text(R"(<mujoco><worldbody><body><joint name="j"/>
    <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></worldbody>
    <actuator><muscle joint="j" force="1" lengthrange="0 1" timeconst="0.01 0.04"/></actuator></mujoco>)"));
  const auto rate = [&](double control, double activation) {
    s.state.ctrl[0] = control;
    s.state.act[0] = activation;
    s.forward();
    return s.data.act_dot[0];
  };
  EXPECT_NEAR(rate(1, 0.5), 0.5 / (0.01 * 1.25), 1e-12);
  EXPECT_NEAR(rate(0, 0.5), -0.5 / (0.04 / 1.25), 1e-12);
  EXPECT_NEAR(rate(3, 0), 1 / (0.01 * 0.5), 1e-12);  // controls are cut off at 1
}

}  // namespace
}  // namespace maniple
