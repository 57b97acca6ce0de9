// Promises of the table of geom pairs about the collision functions: none finds more contacts than it says,
// whatever the poses and sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/math/quaternion.hpp"
#include "kernels/physics/collision/collision.hpp"

namespace maniple {
namespace {

class GeomPairs : public ::testing::Test {
 protected:
  double number(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(generator_);
  }
  bool one_in(int count) { return generator_() % static_cast<unsigned>(count) == 0; }
  // Often axis-parallel or flat, where many points are as near.
  GeomPose<double> pose(const double* size) {
    double q[4], square = 0;
    for (double& component : q) {
      component = one_in(2) ? 0 : number(-1, 1);
      square += component * component;
    }
    if (square == 0) q[0] = square = 1;
    for (double& component : q) component /= std::sqrt(square);
    const Mat3<double> mat = matrix(Quat<double>{q[0], q[1], q[2], q[3]});
    return {{number(-1, 1), number(-1, 1), one_in(2) ? 0 : number(-1, 1)}, mat, {size[0], size[1], size[2]}};
  }
  std::mt19937_64 generator_{1};
};

TEST_F(GeomPairs, FindNoMoreContactsThanListed) {
  Model<double> model;
  model.ccd_tolerance = 1e-6;
  model.ccd_iterations = 35;
  for (int row = 0; row < kNumGeomPairTypes; ++row) {
    if (kGeomPairTypes[row].type2 == geom_mesh || kGeomPairTypes[row].type1 == geom_hfield)
      continue;  // (tests/reference/test_geom_pairs.cpp)
    int most = 0;
    for (int round = 0; round < 20000; ++round) {
      double size1[3], size2[3];
      for (int k = 0; k < 3; ++k) {
        size1[k] = one_in(4) ? 1e-6 : number(0, 1);
        size2[k] = one_in(4) ? 1e-6 : number(0, 1);
      }
      const GeomPose<double> pose1 = pose(size1), pose2 = pose(size2);
      int count = 0;
      narrowphase(model, row, pose1, pose2, one_in(2) ? 0 : number(0, 5),
                  [&](bool hit, const ContactPoint<double>&) { count += hit; });
      most = std::max(most, count);
    }
    const GeomPairTypes& types = kGeomPairTypes[row];
    EXPECT_EQ(most, types.most_contacts) << types.type1 << " " << types.type2;
  }
}

TEST_F(GeomPairs, KeepNoMoreThanTheyHaveRoomFor) {
  FoundContacts<double> found;
  for (int i = 0; i < 3 * kMostConvexContacts; ++i) found.add({static_cast<double>(i), {}, {}, {}});
  EXPECT_EQ(found.count, kMostConvexContacts);
  EXPECT_EQ(found.point[kMostConvexContacts - 1].dist, kMostConvexContacts - 1);
}

}  // namespace
}  // namespace maniple
