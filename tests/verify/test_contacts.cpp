// Contacts against closed formulas of MuJoCo's soft constraints (mujoco.readthedocs.io, "Computation",
// section "Parameters"), against mechanics, and against the conditions that the solution of the solver must
// meet. Models and decks lie in inputs/verify, for users to run.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/reference/constraint_rows.hpp"
#include "tests/unit/physics/simulated_model.hpp"

namespace maniple {
namespace {

// A model of inputs/verify at its first keyframe, or in its default pose if it has none.
class Scene {
 public:
  explicit Scene(const std::string& name, const std::string& integrator = "", double timestep = 0)
      : imported(model_of_file(verify_model(name), integrator, timestep)), s(imported) {
    if (imported.nkey == 0) return;
    s.set(s.state.qpos, {imported.key_qpos.begin(), imported.key_qpos.begin() + s.model().nq});
    s.set(s.state.qvel, {imported.key_qvel.begin(), imported.key_qvel.begin() + s.model().nv});
  }
  void steps(int count) {
    for (int step = 0; step < count; ++step) s.step();
  }
  // Of free body i, counted from 0.
  Vec3<double> position(int i) const { return load3<double>(s.state.qpos, 7 * i); }
  Vec3<double> velocity(int i) const { return load3<double>(s.state.qvel, 6 * i); }
  Vec3<double> spin(int i) const {  // in the world's frame
    return matrix(load4<double>(s.state.qpos, 7 * i + 3)) * load3<double>(s.state.qvel, 6 * i + 3);
  }

  ImportedModel imported;
  SimulatedModel<double> s;
};

// Squared friction times what MuJoCo makes of it in the regularization of a pyramid's edge: each of the four
// edges has R = 2 mu^2 (1 - d)/d (1 + mu^2)/m, so all together 4/R.
double pyramid(double mu) {
  return mu * mu * (1 + mu * mu) / 2;
}

// At rest the edges carry the weight: depth = g (1 - d) / (d^2 K) without friction, times pyramid(mu) over
// the number of contacts with it.
TEST(ContactRest, DepthIsThatOfTheClosedFormula) {
  const double g = 9.81, d = 0.9, mu = 0.6;
  Scene scene("contact_rest");
  scene.steps(3000);
  for (const bool direct : {false, true}) {
    const double K = direct ? 2000 / (d * d) : 1 / std::pow(d * 0.03 * 1.2, 2);
    const double smooth = g * (1 - d) / (d * d * K);
    const double expected[3] = {smooth, smooth * pyramid(mu), smooth * pyramid(mu) / 4};
    for (int i = 0; i < 3; ++i) {
      const double depth = 0.1 - scene.position(i + (direct ? 3 : 0)).z;
      EXPECT_NEAR(depth, expected[i], 1e-8 * expected[i] + 1e-13) << "body " << i << " direct " << direct;
    }
  }
  EXPECT_EQ(scene.s.data.ncon[0], 12);
  for (int i = 0; i < scene.s.model().nv; ++i) EXPECT_NEAR(scene.s.state.qvel[i], 0, 1e-9);
}

// The speed down the slope at which the damping of a box's contacts holds it, along an axis of the pyramids.
// While all edges push, those up and down the slope differ by 2 D B mu v. From half the largest friction on,
// the edge that points down the slope pushes no more.
double creep(double pull, double weight, double mu) {
  const double d = 0.9, B = 2 / (d * 0.02), contacts = 4;
  const double R = 4 * pyramid(mu) * (1 - d) / d;  // of an edge, per mass
  if (pull < mu * weight / 2) return pull * R / (contacts * 2 * B * mu * mu);
  return (3 * pull / mu - weight) / 2 * R / (contacts * B * mu);
}

TEST(ContactFriction, ABoxSticksBelowTheFrictionAngleAndSlidesAboveIt) {
  const double friction[3] = {0.8, 0.4, 0.2};
  for (const bool diagonal : {false, true}) {
    Scene scene(diagonal ? "incline_diagonal" : "incline");
    const double* const gravity = scene.s.model().gravity;
    const double pull = std::hypot(gravity[0], gravity[1]), weight = -gravity[2];
    const auto speed = [&](int i) {
      return (scene.velocity(i).x * gravity[0] + scene.velocity(i).y * gravity[1]) / pull;
    };
    scene.steps(500);
    const double before[3] = {speed(0), speed(1), speed(2)};
    scene.steps(2500);
    for (int i = 0; i < 3; ++i) {
      SCOPED_TRACE("friction " + std::to_string(friction[i]) + (diagonal ? ", diagonal" : ""));
      // half way between its axes a pyramid is narrower
      const double held = friction[i] / (diagonal ? std::sqrt(2.0) : 1);
      if (pull < held * weight) {
        // the edges act along the axes one by one: below half the friction, direction makes no difference
        EXPECT_NEAR(speed(i), creep(pull, weight, friction[i]), 1e-5 * speed(i));
        EXPECT_NEAR(speed(i), before[i], 1e-6 * speed(i));
      } else {
        // sliding contacts hop a little, which makes the force uneven, but keeps its mean
        const double acceleration = pull - held * weight;
        EXPECT_NEAR((speed(i) - before[i]) / 2.5, acceleration, 0.02 * held * weight);
        EXPECT_GT(speed(i), 0.3);
      }
    }
    EXPECT_EQ(speed(1) > 0.1, diagonal) << "friction 0.4 holds along the axes alone";
  }
}

TEST(ContactFriction, AnEllipticConeSlowsDownAlikeInAllDirections) {
  const double g = 9.81, inertia = 0.4 * 2 * 0.1 * 0.1;  // of the ball that spins
  Scene scene("cone");
  const auto qvel = [&](int i) { return scene.s.state.qvel[i]; };
  scene.steps(1000);
  const double along = qvel(0), across = std::hypot(qvel(3), qvel(4)), spin = qvel(6);
  scene.steps(2500);
  const double time = 2500 * 0.0005, torsion = 0.02 * 2 * g / inertia;
  // sliding contacts hop a little, all at the same time
  EXPECT_NEAR((along - qvel(0)) / time, 0.4 * g, 0.02 * 0.4 * g);
  EXPECT_NEAR(across - std::hypot(qvel(3), qvel(4)), along - qvel(0), 1e-9);
  EXPECT_NEAR(qvel(4) / qvel(3), 0.75, 1e-9);
  EXPECT_NEAR((spin - qvel(6)) / time, torsion, 0.02 * torsion);
  scene.steps(4500);  // longer than any of them moves
  for (const int i : {0, 3, 4, 6}) EXPECT_NEAR(qvel(i), 0, 1e-6) << i;
}

// Speed with which an oscillator x'' = -b x' - k x returns that enters x < 0 with the speed `in`: it is let
// go when the force is zero, b v + k x = 0, before it is back.
double returned_speed(double k, double b, double in) {
  const double decay = b / 2, frequency = std::sqrt(k - decay * decay);
  double x = 0, v = -in;
  for (double t = 1e-6; b * v + k * x < 0; t += 1e-6) {
    const double wave = in * std::exp(-decay * t);
    x = -wave / frequency * std::sin(frequency * t);
    v = -wave * (std::cos(frequency * t) - decay / frequency * std::sin(frequency * t));
  }
  return v;
}

TEST(ContactBounce, ABallReturnsLikeADampedOscillator) {
  const double k = 4000, b = 12, d = 0.95;
  Scene scene("bounce");
  scene.steps(2000);
  // without friction qacc = d aref: the impedance cancels
  EXPECT_NEAR(scene.velocity(0).z, returned_speed(k, b, 2), 1e-3);
  // the four edges of a pyramid have the impedance `all`
  const double stiffness = d / (1 - d) / pyramid(0.7), all = stiffness / (1 + stiffness);
  EXPECT_NEAR(scene.velocity(1).z, returned_speed(k * all / d, b * all / d, 2), 1e-3);
  EXPECT_GT(scene.velocity(0).z - scene.velocity(1).z, 5e-3)
      << "the two must differ for this to mean anything";
  EXPECT_LT(scene.velocity(0).z, 1.6);
}

// Friction acts on the track of the ball, about which the angular momentum m v r + 2/5 m r^2 w stays m v0 r.
TEST(ContactRolling, ASlidingBallEndsWithFiveSeventhsOfItsSpeed) {
  Scene scene("rolling");
  scene.steps(10);
  EXPECT_GT(std::abs(scene.velocity(0).x - 0.1 * scene.spin(0).y), 0.5) << "slides at first";
  scene.steps(1000);
  const double first[2][2] = {{1, 0}, {0.6, 0.8}};
  for (int i = 0; i < 2; ++i) {
    const Vec3<double> v = scene.velocity(i), spin = scene.spin(i);
    // the contact is nearer to the center than the radius by half the depth
    EXPECT_NEAR(v.x, first[i][0] * 5 / 7, 2e-4) << i;
    EXPECT_NEAR(v.y, first[i][1] * 5 / 7, 2e-4) << i;
    EXPECT_NEAR(v.x, 0.1 * spin.y, 1e-4) << i;
    EXPECT_NEAR(v.y, -0.1 * spin.x, 1e-4) << i;
    EXPECT_NEAR(v.z, 0, 1e-9);
  }
}

TEST(ContactRolling, ACapsuleRollsDownASlope) {
  Scene scene("rolling_capsule");
  const double radius = 0.05, half = 0.2;
  // of a cylinder and two half spheres, of masses as 2 half to 4/3 radius
  const double cylinder = 2 * half, sphere = 4.0 / 3 * radius;
  const double inertia = (cylinder / 2 + sphere * 2 / 5) / (cylinder + sphere) * radius * radius;
  scene.steps(500);
  const double start = scene.velocity(0).x;
  scene.steps(500);
  const double arm = (radius + scene.position(0).z) / 2;  // from the contact to the axis
  EXPECT_NEAR((scene.velocity(0).x - start) / 0.5, scene.s.model().gravity[0] / (1 + inertia / (arm * arm)),
              1e-6);
  EXPECT_EQ(scene.s.data.ncon[0], 2);
  EXPECT_NEAR(scene.velocity(0).y, 0, 1e-3);
  EXPECT_NEAR(scene.spin(0).z, 0, 1e-6);
}

struct Motion {
  Vec3<double> momentum{0, 0, 0}, angular{0, 0, 0};
  double energy = 0;
};
Motion motion_of(const Scene& scene) {
  Motion sum;
  for (int i = 0; i < 2; ++i) {
    const double mass = scene.s.model().body_mass[i + 1], inertia = scene.s.model().body_inertia[3 * (i + 1)];
    const Vec3<double> v = scene.velocity(i), w = scene.spin(i);
    sum.momentum = sum.momentum + mass * v;
    sum.angular = sum.angular + mass * cross(scene.position(i), v) + inertia * w;
    sum.energy += 0.5 * mass * dot(v, v) + 0.5 * inertia * dot(w, w);
  }
  return sum;
}

TEST(ContactCollision, KeepsLinearAndAngularMomentum) {
  Scene scene("collision");
  const Motion before = motion_of(scene);
  const double spin = scene.spin(0).z;
  int touching = 0;
  for (int step = 0; step < 1000; ++step) {
    scene.steps(1);
    touching += scene.s.data.ncon[0] > 0;
  }
  const Motion after = motion_of(scene),
               change{after.momentum - before.momentum, after.angular - before.angular};
  EXPECT_GT(touching, 10);
  EXPECT_GT(std::abs(scene.spin(0).z - spin), 0.1) << "friction must act for this to mean anything";
  for (const double p : {change.momentum.x, change.momentum.y, change.momentum.z}) EXPECT_NEAR(p, 0, 1e-13);
  for (const double l : {change.angular.x, change.angular.y, change.angular.z}) EXPECT_NEAR(l, 0, 1e-13);
  EXPECT_LT(after.energy, 0.95 * before.energy);
}

TEST(ContactCollision, LosesNothingWithoutDamperAndFriction) {
  Scene scene("collision_elastic");
  const Vec3<double> spin = scene.spin(0);
  scene.steps(2000);
  EXPECT_NEAR(scene.velocity(0).x, -2.5, 1e-3);  // ((m1 - m2) v1 + 2 m2 v2) / (m1 + m2)
  EXPECT_NEAR(scene.velocity(1).x, 0.5, 1e-3);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(scene.velocity(i).y, 0, 1e-12);
    EXPECT_NEAR(scene.velocity(i).z, 0, 1e-12);
  }
  const Vec3<double> change = scene.spin(0) - spin;
  EXPECT_NEAR(dot(change, change), 0, 1e-20);
}

// qpos and qvel of the arm after 0.6 s.
std::array<double, 4> end_of_arm(const std::string& integrator, int steps) {
  Scene scene("contact_arm", integrator, 0.6 / steps);
  for (int step = 0; step < steps; ++step) {
    scene.steps(1);
    EXPECT_EQ(scene.s.data.nefc[0], 4);
    for (const double edge : edges_of(load_base<double>(scene.s.data.contact_jar, 0)).value)
      EXPECT_LT(edge, 0) << "an edge that lets go would spoil the order";
  }
  return {scene.s.state.qpos[0], scene.s.state.qpos[1], scene.s.state.qvel[0], scene.s.state.qvel[1]};
}

// log2 of the ratio of the errors with h and h/2; libmujoco has 1.01, 1.01 and 3.98 at these steps.
TEST(ContactConvergence, ALongSoftContactKeepsTheIntegratorsOrder) {
  const std::array<double, 4> reference = end_of_arm("RK4", 5000);
  const auto error = [&](const std::string& integrator, int steps) {
    const std::array<double, 4> end = end_of_arm(integrator, steps);
    double largest = 0;
    for (std::size_t i = 0; i < end.size(); ++i) largest = std::max(largest, std::abs(end[i] - reference[i]));
    EXPECT_GT(largest, 1e-10) << "nothing left to converge";
    return largest;
  };
  for (const char* integrator : {"Euler", "implicitfast"})
    EXPECT_NEAR(std::log2(error(integrator, 300) / error(integrator, 600)), 1, 0.03) << integrator;
  EXPECT_NEAR(std::log2(error("RK4", 150) / error("RK4", 300)), 4, 0.05);
}

// ---- what the solution of the solver must satisfy ----

// In place: the lower Cholesky factor of a dense symmetric matrix.
void factor_dense(Numbers& a, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? std::sqrt(sum) : sum / a[j * n + j];
    }
}

class ContactSolution : public ::testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override {
    config_ = oracle::config_of(GetParam());
    if (config_.path.empty()) GTEST_SKIP() << "package " << GetParam().package << " is not installed";
    states_ = oracle::visited_states(*load_mujoco_model(config_, {}).model, 4 * kEnvs);
  }
  void check(double tolerance);

  ModelConfig config_;
  std::vector<RandomState> states_;
};

// From the rows, qM, qfrc_smooth and qacc alone. The rows' accelerations beyond the reference are J qacc -
// aref; a row that only pushes has force f >= 0, and f = 0 where that is positive; friction stays within its
// bounds. What remains is that M qacc = qfrc_smooth + J' f, up to the solver's tolerance: with the gradient g
// of the cost and its Hessian H, the cost is 1/2 g' H^-1 g above its minimum.
void ContactSolution::check(double tolerance) {
  using V = Lanes<double>;
  ImportedModel imported = import_model(config_, {});
  if (tolerance > 0) imported.tolerance = tolerance;
  if (tolerance > 0) imported.ls_tolerance = 1e-10;
  const Model<double> m = host_model(imported);
  const auto nv = static_cast<std::size_t>(m.nv);
  Batch<V> batch(imported);
  int acting = 0, idle = 0;
  double worst_gap = 0, worst_gradient = 0;
  for (std::size_t first = 0; first < states_.size(); first += kEnvs) {
    batch.set({states_.begin() + static_cast<std::ptrdiff_t>(first),
               states_.begin() + static_cast<std::ptrdiff_t>(first) + kEnvs});
    batch.run_forward();
    batch.for_each_data([&](const Data<V>& d, int pack) {
      for (int lane = 0; lane < lane_width<V>; ++lane) {
        const std::size_t state = first + static_cast<std::size_t>(pack * lane_width<V> + lane);
        const Rows rows = rows_of<V>(m, imported, d, states_[state].qvel, lane);
        if (rows.D.empty()) continue;
        const auto at = [lane](const V& value) { return get_lane(value, lane); };
        Numbers gradient(nv, 0.0), H(nv * nv, 0.0), size(nv, 0.0), forces(nv, 0.0);
        for (std::size_t i = 0; i < nv; ++i) {
          gradient[i] = -at(d.qfrc_smooth[static_cast<int>(i)]);
          size[i] = std::abs(gradient[i]);
          int address = m.dof_Madr[i];
          for (int j = static_cast<int>(i); j >= 0; j = m.dof_parentid[j], ++address)
            H[i * nv + static_cast<std::size_t>(j)] = H[static_cast<std::size_t>(j) * nv + i] =
                at(d.qM[address]);
        }
        for (std::size_t i = 0; i < nv; ++i)
          for (std::size_t j = 0; j < nv; ++j) {
            gradient[i] += H[i * nv + j] * at(d.qacc[static_cast<int>(j)]);
            size[i] += std::abs(H[i * nv + j] * at(d.qacc[static_cast<int>(j)]));
          }
        for (std::size_t r = 0; r < rows.D.size(); ++r) {
          const double* const J = rows.J.data() + r * nv;
          double jar = -rows.aref[r], terms = std::abs(jar);
          for (std::size_t i = 0; i < nv; ++i) {
            jar += J[i] * at(d.qacc[static_cast<int>(i)]);
            terms += std::abs(J[i] * at(d.qacc[static_cast<int>(i)]));
          }
          const bool friction = r < static_cast<std::size_t>(m.nfriction);
          const double loss = friction ? imported.friction_loss[r] : 0;
          const double force =
              friction ? std::clamp(-rows.D[r] * jar, -loss, loss) : std::max(0.0, -rows.D[r] * jar);
          ASSERT_NEAR(rows.force[r], force, 1e-11 * rows.D[r] * (1 + terms))
              << "row " << r << " of state " << state;
          const bool quadratic = friction ? std::abs(force) < loss : force > 0;
          ++(quadratic ? acting : idle);
          for (std::size_t i = 0; i < nv; ++i) {
            gradient[i] -= J[i] * force;
            forces[i] += J[i] * force;
            size[i] += std::abs(J[i] * force);
            for (std::size_t j = 0; quadratic && j < nv; ++j) H[i * nv + j] += rows.D[r] * J[i] * J[j];
          }
        }
        for (std::size_t i = 0; i < nv; ++i)
          ASSERT_NEAR(at(d.qfrc_constraint[static_cast<int>(i)]), forces[i], 1e-9 * size[i] + 1e-12)
              << "qfrc_constraint " << i << " of state " << state;
        factor_dense(H, nv);
        double gap = 0, norm = 0;
        for (std::size_t i = 0; i < nv; ++i) {
          norm = std::max(norm, std::abs(gradient[i]) / (1e-3 + largest(size)));
          for (std::size_t k = 0; k < i; ++k) gradient[i] -= H[i * nv + k] * gradient[k];
          gradient[i] /= H[i * nv + i];
          gap += 0.5 * gradient[i] * gradient[i];
        }
        gap /= m.meaninertia * static_cast<double>(m.nv);
        worst_gap = std::max(worst_gap, gap);
        worst_gradient = std::max(worst_gradient, norm);
      }
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(acting, 100);
  EXPECT_GT(idle, 20) << "rows that let go must occur";
  EXPECT_LE(worst_gap, imported.tolerance);
  if (tolerance > 0) {
    EXPECT_LE(worst_gradient, 1e-9);
  }
  RecordProperty("gap", std::to_string(worst_gap));
}

TEST_P(ContactSolution, IsOptimalWithinTheModelsTolerance) {
  check(0);
}
TEST_P(ContactSolution, IsOptimalToRoundingWhenAskedTo) {
  check(1e-15);
}

INSTANTIATE_TEST_SUITE_P(
    Models, ContactSolution,
    ::testing::Values(ModelCase{"contacts", "", "contacts.xml"}, ModelCase{"limits", "", "limits.xml"},
                      ModelCase{"half_cheetah", "gymnasium", "envs/mujoco/assets/half_cheetah.xml"},
                      ModelCase{"ant", "gymnasium", "envs/mujoco/assets/ant.xml"},
                      ModelCase{"walker2d", "gymnasium", "envs/mujoco/assets/walker2d.xml"},
                      ModelCase{"dm_humanoid", "dm_control", "suite/humanoid.xml"}),
    [](const auto& model) { return model.param.name; });

}  // namespace
}  // namespace maniple
