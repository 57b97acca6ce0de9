// The law of a contact's cone against differences of its cost, in every zone and number of directions.
#include <gtest/gtest.h>

#include <random>

#include "kernels/physics/constraint/cone.hpp"
#include "kernels/physics/solver/line_search.hpp"

namespace maniple {
namespace {

struct Case {
  bool elliptic;
  int dim;
};
class Cone : public ::testing::TestWithParam<Case> {
 protected:
  ConeRow<double> random_row(double normal) {
    ConeRow<double> row{};
    row.x[0] = normal + uniform_(random_);
    for (int i = 1; i < GetParam().dim; ++i) row.x[i] = 2 * uniform_(random_);
    return row;
  }
  std::mt19937 random_{7};
  std::uniform_real_distribution<double> uniform_{-1, 1};
  const ConeLaw<double> law_{3.0, 0.7, static_cast<double>(GetParam().dim), GetParam().elliptic, 6};
};

TEST_P(Cone, ForceAndCurvatureAreDerivativesOfTheCost) {
  constexpr double h = 1e-6;
  int pushing = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const ConeRow<double> jar = random_row(trial % 3 - 1.0), force = law_.force(jar);
    const ConeWeights<double> W = law_.curvature(jar);
    pushing += force.x[0] > 0;
    for (int i = 0; i < 6; ++i) {
      ConeRow<double> up = jar, down = jar;
      up.x[i] += h;
      down.x[i] -= h;
      EXPECT_NEAR((law_.twice_cost(up) - law_.twice_cost(down)) / (4 * h), -force.x[i], 1e-5);
      if (i >= GetParam().dim) continue;
      const ConeRow<double> above = law_.force(up), below = law_.force(down);
      bool smooth = true;  // no zone ends between the two
      const ConeWeights<double> W_above = law_.curvature(up), W_below = law_.curvature(down);
      for (int j = 0; j < 6; ++j)
        for (int k = 0; k < 6; ++k) smooth = smooth && std::abs(W_above.at[j][k] - W_below.at[j][k]) < 1e-3;
      for (int j = 0; j < 6 && smooth; ++j)
        EXPECT_NEAR((below.x[j] - above.x[j]) / (2 * h), W.at[i][j], 1e-5) << i << " " << j;
    }
  }
  EXPECT_GT(pushing, 60);
  EXPECT_LT(pushing, 300);
}

TEST_P(Cone, LineFollowsTheCost) {
  constexpr double h = 1e-6;
  for (int trial = 0; trial < 300; ++trial) {
    const ConeRow<double> jar = random_row(trial % 3 - 1.0), change = random_row(0);
    for (const double alpha : {0.0, 0.3, 1.0, 1.7}) {
      LinePoint<double> point;
      law_.add_to_line(point, jar, change, alpha);
      // what line_point() adds: that the derivative at zero is that of the cost
      const auto slope_at = [&](double at) {
        return (law_.twice_cost(moved(jar, change, at + h)) - law_.twice_cost(moved(jar, change, at - h))) /
               (4 * h);
      };
      point.error = point.start + slope_at(0);
      EXPECT_NEAR(point.derivative(alpha), slope_at(alpha), 1e-4) << alpha;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Cone,
                         ::testing::Values(Case{true, 1}, Case{true, 3}, Case{true, 4}, Case{true, 6},
                                           Case{false, 1}, Case{false, 3}, Case{false, 4}, Case{false, 6}),
                         [](const auto& of) {
                           return std::string(of.param.elliptic ? "elliptic" : "pyramid") +
                                  std::to_string(of.param.dim);
                         });

}  // namespace
}  // namespace maniple
