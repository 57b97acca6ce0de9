// Orders of convergence: one for Euler and implicitfast, four for RK4 on hinges, and two for RK4 where
// rotations are combined in the tangent space (ball and free joints), as in MuJoCo.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/physics/simulated_model.hpp"

namespace maniple {
namespace {

struct Case {
  std::string model;
  std::vector<double> qpos, qvel;
};
const Case kHinges{"double_pendulum", {1.2, -0.7}, {0.5, 1}};
const Case kBalls{"ball_chain", {0.8, 0.6, 0, 0, 0.96, 0, 0.28, 0}, {1, -2, 3, -2, 0.5, 1}};

// qpos and qvel after 0.32 s.
std::vector<double> end_state(const Case& c, const std::string& integrator, int steps) {
  const std::string path = std::string(MANIPLE_SOURCE_DIR) + "/inputs/verify/" + c.model + ".xml";
  SimulatedModel<double> s(model_of_file(path, integrator, 0.32 / steps));
  s.set(s.state.qpos, c.qpos);
  s.set(s.state.qvel, c.qvel);
  for (int step = 0; step < steps; ++step) s.step();
  std::vector<double> end;
  for (int i = 0; i < s.model().nq; ++i) end.push_back(s.state.qpos[i]);
  for (int i = 0; i < s.model().nv; ++i) end.push_back(s.state.qvel[i]);
  return end;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// log2 of the ratio of the errors with h and h/2, against a reference with a much smaller step.
double order(const Case& c, const std::string& integrator, int steps, int reference_steps) {
  const std::vector<double> reference = end_state(c, "RK4", reference_steps);
  const double coarse = distance(end_state(c, integrator, steps), reference);
  const double fine = distance(end_state(c, integrator, 2 * steps), reference);
  EXPECT_GT(fine, 1e-11) << "nothing left to converge";
  return std::log2(coarse / fine);
}

TEST(Convergence, EulerIsOfOrderOne) {
  EXPECT_NEAR(order(kHinges, "Euler", 320, 2000), 1, 0.05);
}
TEST(Convergence, ImplicitfastIsOfOrderOne) {
  EXPECT_NEAR(order(kHinges, "implicitfast", 320, 2000), 1, 0.05);
}
TEST(Convergence, Rk4IsOfOrderFourOnHinges) {
  EXPECT_NEAR(order(kHinges, "RK4", 32, 4000), 4, 0.15);
}
TEST(Convergence, Rk4IsOfOrderTwoOnBallJoints) {
  EXPECT_NEAR(order(kBalls, "RK4", 64, 20000), 2, 0.1);
}

}  // namespace
}  // namespace maniple
