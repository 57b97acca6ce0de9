// Vectors, quaternions and spatial algebra against the definitions, component by component.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/math/quaternion.hpp"
#include "kernels/math/spatial.hpp"

namespace maniple {
namespace {

std::mt19937 generator(3);
double draw() {
  return std::uniform_real_distribution<double>(-1, 1)(generator);
}
Vec3<double> vector() {
  return {draw(), draw(), draw()};
}
Quat<double> quaternion() {
  return normalize(Quat<double>{draw(), draw(), draw(), draw()});
}

void expect_equal(const Vec3<double>& a, const Vec3<double>& b, double tolerance = 1e-14) {
  EXPECT_NEAR(a.x, b.x, tolerance);
  EXPECT_NEAR(a.y, b.y, tolerance);
  EXPECT_NEAR(a.z, b.z, tolerance);
}

TEST(SpatialMath, QuarterTurnsGoWhereTheyShould) {
  const double r = std::sqrt(0.5);
  expect_equal(rotate(Quat<double>{r, 0, 0, r}, Vec3<double>{1, 0, 0}), {0, 1, 0});
  expect_equal(matrix(Quat<double>{r, r, 0, 0}) * Vec3<double>{0, 1, 0}, {0, 0, 1});
  expect_equal(rotation_vector(Quat<double>{r, 0, r, 0}), {0, M_PI / 2, 0});
  expect_equal(cross(Vec3<double>{1, 0, 0}, Vec3<double>{0, 1, 0}), {0, 0, 1});
}

TEST(SpatialMath, MatrixRotateAndProductAgree) {
  for (int i = 0; i < 100; ++i) {
    const Quat<double> a = quaternion(), b = quaternion();
    const Vec3<double> v = vector();
    expect_equal(matrix(a) * v, rotate(a, v));
    expect_equal(matrix(a * b) * v, matrix(a) * (matrix(b) * v));
    expect_equal(rotate(conjugate(a), rotate(a, v)), v);
    expect_equal(transpose(matrix(a)) * (matrix(a) * v), v);
    const Vec3<double> u = vector();
    expect_equal(cross_matrix(v) * u, cross(v, u));
  }
}

TEST(SpatialMath, IntegrationAndDifferenceAreInverse) {
  for (int i = 0; i < 100; ++i) {
    const Quat<double> q = quaternion();
    const Vec3<double> v = vector();
    expect_equal(difference(integrate(q, v, 0.7), q), 0.7 * v, 1e-13);
  }
  const Quat<double> q = integrate(Quat<double>{2, 0, 0, 0}, Vec3<double>{0, 0, 0}, 1.0);
  EXPECT_EQ(q.w, 1);
  const Quat<double> zero = normalize(Quat<double>{0, 0, 0, 0});
  EXPECT_EQ(zero.w, 1);
}

TEST(SpatialMath, RenormalizationRemovesRounding) {
  const Quat<double> q = quaternion();
  const Quat<double> r = renormalize((1 + 1e-8) * q);
  EXPECT_NEAR(r.w * r.w + r.x * r.x + r.y * r.y + r.z * r.z, 1, 1e-15);
}

// Particles make the inertia: m (p - c) and its moments, summed one by one.
TEST(SpatialMath, InertiaActsAsItsParticlesDo) {
  for (int i = 0; i < 20; ++i) {
    const Quat<double> q = quaternion();
    const Vec3<double> com = vector();
    const double a = 0.3, b = 0.2, c = 0.5, mass = 6;
    // six particles of mass 1 on the principal axes, at distances a, b, c
    const Vec3<double> local[6] = {{a, 0, 0}, {-a, 0, 0}, {0, b, 0}, {0, -b, 0}, {0, 0, c}, {0, 0, -c}};
    const Vec3<double> diagonal{2 * (b * b + c * c), 2 * (a * a + c * c), 2 * (a * a + b * b)};
    const Inertia<double> inertia = inertia_about(diagonal, matrix(q), com, mass);
    const Spatial<double> velocity{vector(), vector()};
    Spatial<double> momentum = zero6<double>();
    for (const Vec3<double>& p : local) {
      const Vec3<double> at = com + rotate(q, p);
      const Vec3<double> v = velocity.lin + cross(velocity.rot, at);
      momentum = momentum + Spatial<double>{cross(at, v), v};
    }
    const Spatial<double> product = inertia * velocity;
    expect_equal(product.rot, momentum.rot, 1e-13);
    expect_equal(product.lin, momentum.lin, 1e-13);
  }
}

// The power of a force on a motion does not change when both are carried along.
TEST(SpatialMath, CrossProductsOfMotionAndForceAreDual) {
  for (int i = 0; i < 20; ++i) {
    const Spatial<double> velocity{vector(), vector()}, motion{vector(), vector()}, force{vector(), vector()};
    EXPECT_NEAR(dot(cross_motion(velocity, motion), force), -dot(motion, cross_force(velocity, force)),
                1e-14);
  }
}

}  // namespace
}  // namespace maniple
