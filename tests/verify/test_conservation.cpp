// Physics that has exact answers: the period of a pendulum, conserved energy and momentum, decaying
// velocities and filters. Models and decks of the first ones lie in inputs/verify, for users to run.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/unit/physics/simulated_model.hpp"

namespace maniple {
namespace {

// 2 pi sqrt(I/(m g l)) (1 + a^2/16 + 11 a^4/3072 + 173 a^6/737280 + ...), a the amplitude in rad.
TEST(Conservation, PendulumSwingsWithTheKnownPeriod) {
  for (const double amplitude : {0.1, 0.5, 0.9}) {
    SimulatedModel<double> s(model_of_file(verify_model("pendulum")));
    s.state.qpos[0] = amplitude;
    std::vector<double> crossings;
    while (crossings.size() < 5) {
      const double before = s.state.qpos[0];
      s.step();
      // falls through zero: the acceleration is zero there, so that one Newton step is third order
      if (before > 0 && s.state.qpos[0] <= 0)
        crossings.push_back(s.state.time[0] - s.state.qpos[0] / s.state.qvel[0]);
    }
    const double a2 = amplitude * amplitude;
    const double series = 1 + a2 / 16 + 11 * a2 * a2 / 3072 + 173 * a2 * a2 * a2 / 737280 +
                          22931 * std::pow(a2, 4) / 1321205760 + 1319183 * std::pow(a2, 5) / 951268147200;
    const double period = 2 * M_PI * std::sqrt(0.27 / (1 * 9.81 * 0.5)) * series;
    EXPECT_NEAR((crossings[4] - crossings[0]) / 4, period, 2e-7 * period) << amplitude;
  }
}

TEST(Conservation, EnergyOfADoublePendulumIsConstantWithRk4) {
  SimulatedModel<double> s(model_of_file(verify_model("double_pendulum")));
  s.set(s.state.qpos, {1.2, -0.7});
  s.set(s.state.qvel, {0.5, 1});
  s.forward();
  const double start = mechanical_energy(s);
  double largest = 0;
  for (int step = 0; step < 2000; ++step) {
    s.step();
    s.forward();
    largest = std::max(largest, std::abs(mechanical_energy(s) - start));
  }
  EXPECT_LT(largest, 1e-7);  // of 10 J
  EXPECT_GT(std::abs(s.state.qvel[1]), 0.01);
}

TEST(Conservation, EnergyDriftsMoreWithEuler) {
  double drift[2];
  for (int i = 0; i < 2; ++i) {
    SimulatedModel<double> s(model_of_file(verify_model("double_pendulum"), i == 0 ? "Euler" : "RK4", 0.002));
    s.set(s.state.qpos, {1.2, -0.7});
    s.forward();
    const double start = mechanical_energy(s);
    for (int step = 0; step < 200; ++step) s.step();
    s.forward();
    drift[i] = std::abs(mechanical_energy(s) - start);
  }
  EXPECT_LT(1e4 * drift[1], drift[0]);
  EXPECT_LT(drift[0], 0.1);
}

// Sum over bodies of cinert * cvel: momentum about the common center of mass, rotation first.
std::vector<double> momentum(const SimulatedModel<double>& s) {
  const Model<double>& m = s.model();
  std::vector<double> sum(6, 0.0);
  for (int i = 1; i < m.nbody; ++i) {
    const double* inertia = &s.data.cinert[10 * i];
    const double* v = &s.data.cvel[6 * i];
    const double tensor[3][3] = {{inertia[0], inertia[3], inertia[4]},
                                 {inertia[3], inertia[1], inertia[5]},
                                 {inertia[4], inertia[5], inertia[2]}};
    const double* mc = inertia + 6;
    for (int a = 0; a < 3; ++a) {
      const int b = (a + 1) % 3, c = (a + 2) % 3;
      for (int k = 0; k < 3; ++k) sum[a] += tensor[a][k] * v[k];
      sum[a] += mc[b] * v[3 + c] - mc[c] * v[3 + b];
      sum[3 + a] += inertia[9] * v[3 + a] + v[b] * mc[c] - v[c] * mc[b];
    }
  }
  return sum;
}

TEST(Conservation, MotorsInsideAFloatingChainMakeNoMomentum) {
  for (const char* integrator : {"RK4", "Euler", "implicitfast"}) {
    SimulatedModel<double> s(model_of_file(verify_model("free_chain"), integrator, 0.0005));
    s.forward();
    const double com[3] = {s.data.subtree_com[3], s.data.subtree_com[4], s.data.subtree_com[5]};
    std::mt19937 generator(1);
    std::uniform_real_distribution<double> uniform(-1, 1);
    double speed = 0;
    for (int step = 0; step < 1000; ++step) {
      if (step % 20 == 0) s.set(s.state.ctrl, {uniform(generator), uniform(generator), uniform(generator)});
      s.step();
    }
    s.forward();
    for (int i = 0; i < s.model().nv; ++i) speed = std::max(speed, std::abs(s.state.qvel[i]));
    EXPECT_GT(speed, 0.5) << "the chain must move for this to mean anything";
    const double tolerance = integrator == std::string("RK4") ? 1e-6 : 2e-3;
    for (const double p : momentum(s)) EXPECT_NEAR(p, 0, tolerance) << integrator;
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(s.data.subtree_com[3 + k], com[k], tolerance) << integrator;
  }
}

// A box turning about its middle axis: unstable, so that it tumbles.
TEST(Conservation, ATumblingBoxKeepsEnergyAndAngularMomentum) {
  const std::string text = R"(<mujoco><option timestep="0.0005" integrator="RK4" gravity="0 0 0"/><worldbody>
    <body><freejoint/><inertial pos="0.1 0.05 0" mass="2" diaginertia="0.05 0.04 0.02"/></body>
    </worldbody></mujoco>)";
  SimulatedModel<double> s(model_of_text(text));
  s.set(s.state.qvel, {0.3, -0.2, 0.1, 0.3, 4, 0.3});
  s.forward();
  const double energy = mechanical_energy(s);
  const std::vector<double> before = momentum(s);
  bool tumbled = false;
  for (int step = 0; step < 8000; ++step) {
    s.step();
    tumbled = tumbled || s.state.qvel[4] < 0;
  }
  s.forward();
  EXPECT_TRUE(tumbled);
  EXPECT_NEAR(mechanical_energy(s), energy, 1e-5 * energy);
  const std::vector<double> after = momentum(s);
  for (int k = 0; k < 6; ++k) EXPECT_NEAR(after[k], before[k], 1e-5) << k;
}

// The Coriolis derivative of a free body keeps a fast spin steady in implicitfast, whatever the axis.
TEST(Conservation, ImplicitfastDoesNotSpinUpAFreeBody) {
  const std::string text = R"(<mujoco><option timestep="0.005" gravity="0 0 0"/><worldbody>
    <body><freejoint/><inertial pos="0.1 0.05 0" mass="2" diaginertia="0.05 0.04 0.02"/></body>
    </worldbody></mujoco>)";
  double energy[2];
  for (int i = 0; i < 2; ++i) {
    SimulatedModel<double> s(model_of_text(text, i == 0 ? "Euler" : "implicitfast"));
    s.set(s.state.qvel, {0, 0, 0, 3, 4, 20});
    s.forward();
    const double start = mechanical_energy(s);
    for (int step = 0; step < 200; ++step) s.step();
    s.forward();
    energy[i] = mechanical_energy(s) / start;
  }
  EXPECT_GT(energy[0], 1.02);
  EXPECT_LT(energy[1], 1.0001);
  EXPECT_GT(energy[1], 0.5);
}

constexpr const char* kSlider = R"(<mujoco><option timestep="0.01" gravity="0 0 0">%s</option><worldbody>
    <body><joint name="x" type="slide" axis="1 0 0" damping="3"/><inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/>
    </body></worldbody></mujoco>)";
std::string slider(const std::string& option) {
  std::string text = kSlider;
  return text.replace(text.find("%s"), 2, option);
}

TEST(Conservation, DampedSliderDecaysAsItsIntegratorSays) {
  const double h = 0.01, rate = 3.0 / 2;
  const struct {
    const char *integrator, *option;
    double factor;
  } cases[] = {
      {"Euler", "", 1 / (1 + h * rate)},
      {"implicitfast", "", 1 / (1 + h * rate)},
      {"Euler", "<flag eulerdamp=\"disable\"/>", 1 - h * rate},
      {"RK4", "",
       1 - h * rate + std::pow(h * rate, 2) / 2 - std::pow(h * rate, 3) / 6 + std::pow(h * rate, 4) / 24},
  };
  for (const auto& c : cases) {
    SimulatedModel<double> s(model_of_text(slider(c.option), c.integrator));
    s.state.qvel[0] = 1;
    for (int step = 0; step < 100; ++step) s.step();
    EXPECT_NEAR(s.state.qvel[0], std::pow(c.factor, 100), 1e-13) << c.integrator << c.option;
  }
}

TEST(Conservation, ExactFilterFollowsTheExponential) {
  const std::string text = R"(<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
    <body><joint name="x" type="slide"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></worldbody>
    <actuator><general joint="x" dyntype="filterexact" dynprm="0.03"/><general joint="x" dyntype="filter"
    dynprm="0.03"/></actuator></mujoco>)";
  SimulatedModel<double> s(model_of_text(text));
  s.set(s.state.ctrl, {2, 2});
  for (int step = 1; step <= 20; ++step) {
    s.step();
    EXPECT_NEAR(s.state.act[0], 2 * (1 - std::exp(-0.01 * step / 0.03)), 1e-13);
    EXPECT_NEAR(s.state.act[1], 2 * (1 - std::pow(1 - 0.01 / 0.03, step)), 1e-13);
  }
}

}  // namespace
}  // namespace maniple
