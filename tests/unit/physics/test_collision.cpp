// What the list of shape pairs promises of the collision functions: each has a place in it, and none finds
// more contacts than it says, whatever the poses and sizes.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <utility>

#include "kernels/base/unroll.hpp"
#include "kernels/math/quaternion.hpp"
#include "kernels/physics/collision/collision.hpp"

namespace maniple {
namespace {

static_assert(shape_pair(geom_capsule, geom_capsule) >= 0 && shape_pair(geom_sphere, geom_box) == -1 &&
              shape_pair(geom_capsule, geom_box) == -1 && shape_pair(geom_box, geom_box) == -1);
static_assert(kMostShapeContacts == 4);

class ShapePairs : public ::testing::Test {
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
    return {{number(-1, 1), number(-1, 1), one_in(2) ? 0 : number(-1, 1)}, mat, size};
  }
  std::mt19937_64 generator_{1};
};

TEST_F(ShapePairs, AreListedOnceAndInOrder) {
  std::set<std::pair<int, int>> seen;
  for (const ShapePair& pair : kShapePairs) {
    EXPECT_LE(pair.type1, pair.type2);
    EXPECT_TRUE(seen.emplace(pair.type1, pair.type2).second);
    EXPECT_EQ(kShapePairs[shape_pair(pair.type1, pair.type2)].contacts, pair.contacts);
  }
}

TEST_F(ShapePairs, FindNoMoreContactsThanListed) {
  unroll<0, kNumShapePairs>([&](auto i) {
    constexpr ShapePair pair = kShapePairs[i];
    int most = 0;
    for (int round = 0; round < 20000; ++round) {
      double size1[3], size2[3];
      for (int k = 0; k < 3; ++k) {
        size1[k] = one_in(4) ? 1e-6 : number(0, 1);
        size2[k] = one_in(4) ? 1e-6 : number(0, 1);
      }
      const GeomPose<double> pose1 = pose(size1), pose2 = pose(size2);
      int count = 0;
      narrowphase(Shapes<pair.type1, pair.type2>(), pose1, pose2, one_in(2) ? 0 : number(0, 5),
                  [&](bool hit, const ContactPoint<double>&) { count += hit; });
      most = std::max(most, count);
    }
    EXPECT_EQ(most, pair.contacts) << pair.type1 << " " << pair.type2;
  });
}

TEST_F(ShapePairs, KeepNoMoreThanTheyHaveRoomFor) {
  FoundContacts<double> found;
  for (int i = 0; i < 3 * kMostShapeContacts; ++i) found.add({static_cast<double>(i), {}, {}, {}});
  EXPECT_EQ(found.count, kMostShapeContacts);
  EXPECT_EQ(found.point[kMostShapeContacts - 1].dist, kMostShapeContacts - 1);
}

}  // namespace
}  // namespace maniple
