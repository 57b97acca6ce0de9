// Expressions against closed formulas in double precision, over random states and both lane types; and the
// messages for texts that are no expression.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include "tests/unit/tasks/task_rig.hpp"

namespace maniple::of_expression {
namespace {

using maniple::testing::empty_task;
using maniple::testing::expression_term;
using maniple::testing::TaskRig;
using maniple::testing::zoo;
using ::testing::HasSubstr;

// Reads the numbers of one environment by field and element.
using Reader = std::function<double(const char*, int)>;
using Formula = std::function<std::vector<double>(const Reader&)>;

struct Case {
  const char* text;
  Formula formula;
};

// Elements of the zoo: qpos = root (7), hip, knee, neck (4), left-rail; qvel = root (6), hip, knee, neck (3),
// rail.
constexpr int kHip = 7, kKnee = 8, kNeck = 9, kRail = 13, kHipDof = 6, kKneeDof = 7, kRailDof = 11;
// Bodies: world, torso, thigh, shin, head, cart.
constexpr int kTorso = 1, kShin = 3;

double wrapped(double x) {
  return x - 2 * std::numbers::pi * std::floor((x + std::numbers::pi) / (2 * std::numbers::pi));
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"2", [](const Reader&) { return std::vector{2.0}; }},
      {"2 + 3 * 4 - 6 / 4", [](const Reader&) { return std::vector{12.5}; }},
      {"-2 ^ 2", [](const Reader&) { return std::vector{-4.0}; }},
      {"2 ^ 3 ^ 2 / 64", [](const Reader&) { return std::vector{8.0}; }},
      {"2 ^ -1", [](const Reader&) { return std::vector{0.5}; }},
      {"10 - 4 - 3", [](const Reader&) { return std::vector{3.0}; }},
      {"24 / 4 / 2", [](const Reader&) { return std::vector{3.0}; }},
      {"1 + 1 < 3 && 2 * 2 == 4 || 0", [](const Reader&) { return std::vector{1.0}; }},
      {"!1 || 0 && 1", [](const Reader&) { return std::vector{0.0}; }},
      {"1 || 0 && 0", [](const Reader&) { return std::vector{1.0}; }},
      {"0 ? 1 : 0 ? 2 : 3", [](const Reader&) { return std::vector{3.0}; }},
      {"pi", [](const Reader&) { return std::vector{std::numbers::pi}; }},
      {"dt * 1000", [](const Reader&) { return std::vector{20.0}; }},
      {"qpos[hip]", [](const Reader& r) { return std::vector{r("qpos", kHip)}; }},
      {"qpos[7]", [](const Reader& r) { return std::vector{r("qpos", 7)}; }},
      {"qpos[left-rail]", [](const Reader& r) { return std::vector{r("qpos", kRail)}; }},
      {"qpos['left-rail', hip]",
       [](const Reader& r) {
         return std::vector{r("qpos", kRail), r("qpos", kHip)};
       }},
      {"joint_pos['left-.*', '.*e|h.p']",  // the elements of a pattern in the order of the model
       [](const Reader& r) {
         return std::vector{r("qpos", kRail), r("qpos", kHip), r("qpos", kKnee)};
       }},
      {"qpos[neck]",
       [](const Reader& r) {
         return std::vector{r("qpos", kNeck), r("qpos", kNeck + 1), r("qpos", kNeck + 2),
                            r("qpos", kNeck + 3)};
       }},
      {"qpos[neck].w - qpos[neck].z",
       [](const Reader& r) { return std::vector{r("qpos", kNeck) - r("qpos", kNeck + 3)}; }},
      {"qvel[knee] * qvel[left-rail]",
       [](const Reader& r) { return std::vector{r("qvel", kKneeDof) * r("qvel", kRailDof)}; }},
      {"joint_pos",
       [](const Reader& r) {
         return std::vector{r("qpos", kHip), r("qpos", kKnee), r("qpos", kRail)};
       }},
      {"joint_vel[1:3]",
       [](const Reader& r) {
         return std::vector{r("qvel", kKneeDof), r("qvel", kRailDof)};
       }},
      {"joint_pos - default_joint_pos",
       [](const Reader& r) {
         return std::vector{r("qpos", kHip) - 0.25, r("qpos", kKnee), r("qpos", kRail)};
       }},
      {"xpos[torso]",
       [](const Reader& r) {
         return std::vector{r("xpos", 3 * kTorso), r("xpos", 3 * kTorso + 1), r("xpos", 3 * kTorso + 2)};
       }},
      {"xpos[torso][2]", [](const Reader& r) { return std::vector{r("xpos", 3 * kTorso + 2)}; }},
      {"xpos[torso].z", [](const Reader& r) { return std::vector{r("xpos", 3 * kTorso + 2)}; }},
      {"xpos[3].x", [](const Reader& r) { return std::vector{r("xpos", 3 * kShin)}; }},
      {"site_xpos[foot].y", [](const Reader& r) { return std::vector{r("site_xpos", 4)}; }},
      {"xquat[shin]",
       [](const Reader& r) {
         return std::vector{r("xquat", 12), r("xquat", 13), r("xquat", 14), r("xquat", 15)};
       }},
      {"sensordata[hip_rate]", [](const Reader& r) { return std::vector{r("sensordata", 1)}; }},
      {"sensordata[neck_quat].z", [](const Reader& r) { return std::vector{r("sensordata", 5)}; }},
      {"sensordata[5]", [](const Reader& r) { return std::vector{r("sensordata", 5)}; }},
      {"qfrc_actuator[hip] + qacc[knee] + qM[2]",
       [](const Reader& r) {
         return std::vector{r("qfrc_actuator", kHipDof) + r("qacc", kKneeDof) + r("qM", 2)};
       }},
      {"actuator_force[knee_servo] - ctrl[rail_servo]",
       [](const Reader& r) { return std::vector{r("actuator_force", 1) - r("ctrl", 2)}; }},
      {"cdof[left-rail][3]", [](const Reader& r) { return std::vector{r("cdof", 6 * kRailDof + 3)}; }},
      {"com_x + 2 * com_y + 4 * com_z",
       [](const Reader& r) {
         return std::vector{r("subtree_com", 0) + 2 * r("subtree_com", 1) + 4 * r("subtree_com", 2)};
       }},
      {"body_lin_vel[shin]",
       [](const Reader& r) {  // v = v_com + omega x (x - com of the tree)
         double w[3], v[3], arm[3];
         for (int k = 0; k < 3; ++k) {
           w[k] = r("cvel", 6 * kShin + k);
           v[k] = r("cvel", 6 * kShin + 3 + k);
           arm[k] = r("xpos", 3 * kShin + k) - r("subtree_com", 3 * kTorso + k);
         }
         return std::vector{v[0] + w[1] * arm[2] - w[2] * arm[1], v[1] + w[2] * arm[0] - w[0] * arm[2],
                            v[2] + w[0] * arm[1] - w[1] * arm[0]};
       }},
      {"body_ang_vel_b[shin]",
       [](const Reader& r) {
         std::vector<double> result(3);
         for (int i = 0; i < 3; ++i)
           for (int k = 0; k < 3; ++k)
             result[static_cast<std::size_t>(i)] +=
                 r("xmat", 9 * kShin + 3 * k + i) * r("cvel", 6 * kShin + k);
         return result;
       }},
      {"projected_gravity[shin]",
       [](const Reader& r) {
         const double g[3] = {0.6 / std::sqrt(64.36), 0, -8 / std::sqrt(64.36)};
         std::vector<double> result(3);
         for (int i = 0; i < 3; ++i)
           for (int k = 0; k < 3; ++k)
             result[static_cast<std::size_t>(i)] += r("xmat", 9 * kShin + 3 * k + i) * g[k];
         return result;
       }},
      {"sum(qvel)",
       [](const Reader& r) {
         double sum = 0;
         for (int i = 0; i < 12; ++i) sum += r("qvel", i);
         return std::vector{sum};
       }},
      {"mean(ctrl) + norm(xpos[shin])",
       [](const Reader& r) {
         double square = 0;
         for (int k = 0; k < 3; ++k) square += r("xpos", 3 * kShin + k) * r("xpos", 3 * kShin + k);
         return std::vector{(r("ctrl", 0) + r("ctrl", 1) + r("ctrl", 2)) / 3 + std::sqrt(square)};
       }},
      {"max(ctrl) - min(ctrl)",
       [](const Reader& r) {
         return std::vector{std::max({r("ctrl", 0), r("ctrl", 1), r("ctrl", 2)}) -
                            std::min({r("ctrl", 0), r("ctrl", 1), r("ctrl", 2)})};
       }},
      {"max(ctrl, 0.5, -ctrl)",
       [](const Reader& r) {
         std::vector<double> result;
         for (int i = 0; i < 3; ++i) result.push_back(std::max(std::abs(r("ctrl", i)), 0.5));
         return result;
       }},
      {"2 * ctrl + [1, qpos[hip], 3]",
       [](const Reader& r) {
         return std::vector{2 * r("ctrl", 0) + 1, 2 * r("ctrl", 1) + r("qpos", kHip), 2 * r("ctrl", 2) + 3};
       }},
      {"dot(xpos[shin], xpos[torso])",
       [](const Reader& r) {
         double sum = 0;
         for (int k = 0; k < 3; ++k) sum += r("xpos", 3 * kShin + k) * r("xpos", 3 * kTorso + k);
         return std::vector{sum};
       }},
      {"cross([1, 2, 3], [4, 5, 7])",
       [](const Reader&) {
         return std::vector{-1.0, 5.0, -3.0};
       }},
      {"quat_mul(quat_from_euler(0, 0, pi / 2), [0, 1, 0, 0])",
       [](const Reader&) {
         return std::vector{0.0, std::sqrt(0.5), std::sqrt(0.5), 0.0};
       }},
      {"quat_from_euler(0.3, -0.4, 0.5)",
       [](const Reader&) {  // qz qy qx
         const double cr = std::cos(0.15), sr = std::sin(0.15), cp = std::cos(-0.2), sp = std::sin(-0.2),
                      cy = std::cos(0.25), sy = std::sin(0.25);
         return std::vector{cr * cp * cy + sr * sp * sy, sr * cp * cy - cr * sp * sy,
                            cr * sp * cy + sr * cp * sy, cr * cp * sy - sr * sp * cy};
       }},
      {"any(ctrl > 1) + 2 * all(ctrl > -1)",
       [](const Reader& r) {
         const double c[3] = {r("ctrl", 0), r("ctrl", 1), r("ctrl", 2)};
         return std::vector{1.0 * (c[0] > 1 || c[1] > 1 || c[2] > 1) +
                            2.0 * (c[0] > -1 && c[1] > -1 && c[2] > -1)};
       }},
      {"any(qvel[left-rail])", [](const Reader& r) { return std::vector{1.0 * (r("qvel", kRailDof) != 0)}; }},
      {"abs(qpos[hip]) + sqrt(abs(qpos[knee])) + square(qpos[hip])",
       [](const Reader& r) {
         return std::vector{std::abs(r("qpos", kHip)) + std::sqrt(std::abs(r("qpos", kKnee))) +
                            r("qpos", kHip) * r("qpos", kHip)};
       }},
      {"exp(qpos[hip]) * sin(qpos[knee]) + cos(qvel[hip]) * tan(0.5 * qvel[knee])",
       [](const Reader& r) {
         return std::vector{std::exp(r("qpos", kHip)) * std::sin(r("qpos", kKnee)) +
                            std::cos(r("qvel", kHipDof)) * std::tan(0.5 * r("qvel", kKneeDof))};
       }},
      {"tanh(qpos[hip]) + log(3 + qpos[hip]) + atan2(qpos[hip], qpos[knee])",
       [](const Reader& r) {
         return std::vector{std::tanh(r("qpos", kHip)) + std::log(3 + r("qpos", kHip)) +
                            std::atan2(r("qpos", kHip), r("qpos", kKnee))};
       }},
      {"asin(qpos[hip] / 4) - acos(qpos[knee] / 4)",
       [](const Reader& r) {
         return std::vector{std::asin(r("qpos", kHip) / 4) - std::acos(r("qpos", kKnee) / 4)};
       }},
      {"floor(3 * qpos[hip]) + sign(qpos[knee]) * 10",
       [](const Reader& r) {
         return std::vector{std::floor(3 * r("qpos", kHip)) + (r("qpos", kKnee) > 0 ? 10 : -10)};
       }},
      {"clamp(qpos[hip], -0.5, 0.75)",
       [](const Reader& r) { return std::vector{std::clamp(r("qpos", kHip), -0.5, 0.75)}; }},
      {"wrap_to_pi(5 * qpos[hip])",
       [](const Reader& r) { return std::vector{wrapped(5 * r("qpos", kHip))}; }},
      {"qpos[hip] ^ 3 + (2 + qpos[knee]) ^ -2 + (3 + qpos[hip]) ^ 0.5",
       [](const Reader& r) {
         return std::vector{std::pow(r("qpos", kHip), 3) + std::pow(2.001 + r("qpos", kKnee) - 0.001, -2) +
                            std::sqrt(3 + r("qpos", kHip))};
       }},
      {"(3 + qpos[hip]) ^ qpos[knee]",
       [](const Reader& r) { return std::vector{std::pow(3 + r("qpos", kHip), r("qpos", kKnee))}; }},
      {"qpos[hip] > 0.5 ? qpos[knee] : -qvel[hip]",
       [](const Reader& r) {
         return std::vector{r("qpos", kHip) > 0.5 ? r("qpos", kKnee) : -r("qvel", kHipDof)};
       }},
      {"[qpos[hip] > 0 ? 1 : 2, qpos[hip] > 0 ? 1 : 3]",
       [](const Reader& r) {
         return r("qpos", kHip) > 0 ? std::vector{1.0, 1.0} : std::vector{2.0, 3.0};
       }},
      {"select(qpos[hip] >= 0, ctrl, 2)",
       [](const Reader& r) {
         return r("qpos", kHip) >= 0 ? std::vector{r("ctrl", 0), r("ctrl", 1), r("ctrl", 2)}
                                     : std::vector{2.0, 2.0, 2.0};
       }},
      {"(qpos[hip] < qpos[knee]) + 2 * (qpos[hip] <= qpos[knee]) + 4 * (qpos[hip] > qpos[knee]) + "
       "8 * (qpos[hip] >= qpos[knee]) + 16 * (qpos[hip] == qpos[hip]) + 32 * (qpos[hip] != qpos[knee])",
       [](const Reader& r) { return std::vector{r("qpos", kHip) < r("qpos", kKnee) ? 51.0 : 60.0}; }},
      {"!(qpos[hip] > 0) && qpos[knee] > 0 || qvel[hip] > 1",
       [](const Reader& r) {
         return std::vector{1.0 *
                            ((!(r("qpos", kHip) > 0) && r("qpos", kKnee) > 0) || r("qvel", kHipDof) > 1)};
       }},
      {"half * twice", [](const Reader& r) { return std::vector{r("qpos", kHip) * r("qpos", kHip)}; }},
      {"parts[0:2]",
       [](const Reader& r) {
         return std::vector{r("ctrl", 0), r("ctrl", 1)};
       }},
      {"qpos[11:]",
       [](const Reader& r) {
         return std::vector{r("qpos", 11), r("qpos", 12), r("qpos", 13)};
       }},
      {"qpos[1::5]",
       [](const Reader& r) {
         return std::vector{r("qpos", 1), r("qpos", 6), r("qpos", 11)};
       }},
      {"[qpos[:2], qpos[:9:4], parts[::2], parts[2:]]",
       [](const Reader& r) {
         return std::vector{r("qpos", 0), r("qpos", 1), r("qpos", 0), r("qpos", 4),
                            r("qpos", 8), r("ctrl", 0), r("ctrl", 2), r("ctrl", 2)};
       }},
      {"sensordata[2:5]",
       [](const Reader& r) {
         return std::vector{r("sensordata", 2), r("sensordata", 3), r("sensordata", 4)};
       }},
      {"xpos[5:].y", [](const Reader& r) { return std::vector{r("xpos", 3 * 5 + 1)}; }},
      {"geom_xpos[tip]",
       [](const Reader& r) {
         return std::vector{r("geom_xpos", 6), r("geom_xpos", 7), r("geom_xpos", 8)};
       }},
      {"rotate(xmat[shin], xpos[torso])",
       [](const Reader& r) {
         std::vector<double> result(3);
         for (int i = 0; i < 3; ++i)
           for (int k = 0; k < 3; ++k)
             result[static_cast<std::size_t>(i)] +=
                 r("xmat", 9 * kShin + 3 * i + k) * r("xpos", 3 * kTorso + k);
         return result;
       }},
      {"rotate_inverse(xmat[shin], xpos[1:3])[3:]",
       [](const Reader& r) {
         std::vector<double> result(3);
         for (int i = 0; i < 3; ++i)
           for (int k = 0; k < 3; ++k)
             result[static_cast<std::size_t>(i)] += r("xmat", 9 * kShin + 3 * k + i) * r("xpos", 3 * 2 + k);
         return result;
       }},
      {"rotate(quat_from_euler(0, 0, pi / 2), [1, 2, 3])",
       [](const Reader&) {
         return std::vector{-2.0, 1.0, 3.0};
       }},
      {"rotate(quat_from_euler(pi / 2, 0, 0), [1, 2, 3])",
       [](const Reader&) {
         return std::vector{1.0, -3.0, 2.0};
       }},
      {"rotate(quat_from_euler(0, pi / 2, 0), [1, 2, 3])",
       [](const Reader&) {
         return std::vector{3.0, 2.0, -1.0};
       }},
      {"rotate_inverse(quat_from_euler(0, pi / 2, 0), [1, 2, 3])",
       [](const Reader&) {
         return std::vector{-3.0, 2.0, 1.0};
       }},
      {"to_frame([1, 1, 0], quat_from_euler(0, 0, pi / 2), [1, 2, 5, 0, 1, 0])",
       [](const Reader&) { return std::vector{1.0, 0.0, 5.0, 0.0, 1.0, 0.0}; }},
      {"euler_from_quat(quat_from_euler(0.3, -0.4, 0.5))",
       [](const Reader&) {
         return std::vector{0.3, -0.4, 0.5};
       }},
      {"euler_from_quat(quat_conjugate(quat_from_euler(0, 0, 0.5))).z",
       [](const Reader&) { return std::vector{-0.5}; }},
      {"normalize([3, 0, 4]) + product([2, 3, 4]) + size(qpos)",
       [](const Reader&) {
         return std::vector{38.6, 38.0, 38.8};
       }},
      {"[repeat([1, qpos[hip]], 2), repeat(0, n = 2)]",
       [](const Reader& r) { return std::vector{1.0, r("qpos", kHip), 1.0, r("qpos", kHip), 0.0, 0.0}; }},
      {"ceil(3 * qpos[hip]) + 100 * mod(qpos[knee], 0.75)",
       [](const Reader& r) {
         const double knee = r("qpos", kKnee);
         return std::vector{std::ceil(3 * r("qpos", kHip)) + 100 * (knee - 0.75 * std::floor(knee / 0.75))};
       }},
      {"is_finite([qpos[hip], 1 / (qpos[hip] - qpos[hip]), log(-1 - qpos[hip]^2)])",
       [](const Reader&) {
         return std::vector{1.0, 0.0, 0.0};
       }},
      {"[qpos[hip] < inf, clamp(high = 0.75, x = qpos[hip], low = -0.5)]",
       [](const Reader& r) {
         return std::vector{1.0, std::clamp(r("qpos", kHip), -0.5, 0.75)};
       }},
  };
  return all;
}

TaskConfig task_with_definitions() {
  TaskConfig task = empty_task(zoo());
  task.definitions = {{"half", "0.5 * qpos[hip]"}, {"twice", "4 * half"}, {"parts", "ctrl"}};
  return task;
}

template <class V>
class Expression : public ::testing::Test {};
using LaneTypes = ::testing::Types<Lanes<float>, Lanes<double>, float>;
TYPED_TEST_SUITE(Expression, LaneTypes);

TYPED_TEST(Expression, AgreesWithClosedFormulas) {
  for (const Case& expected : cases()) {
    TaskConfig config = task_with_definitions();
    config.observations = {expression_term(expected.text)};
    TaskRig<TypeParam> rig(config, zoo());
    for (unsigned seed = 1; seed <= 3; ++seed) {
      rig.fill_randomly(seed);
      rig.observe();
      for (int env = 0; env < kTileWidth; ++env) {
        const Reader reader = [&](const char* field, int i) {
          return static_cast<double>(rig.get(field, i, env));
        };
        const std::vector<double> values = expected.formula(reader);
        ASSERT_EQ(rig.compiled.num_observations, static_cast<int>(values.size())) << expected.text;
        for (std::size_t k = 0; k < values.size(); ++k) {
          // Divisions by small numbers and steep functions amplify the rounding of their arguments.
          const double tolerance = 4e-6 * (1 + std::abs(values[k]) * (1 + std::abs(values[k])));
          ASSERT_NEAR(rig.at(rig.observation, static_cast<int>(k), env), values[k], tolerance)
              << expected.text;
        }
      }
    }
  }
}

// All of them in one program: shared subexpressions and reused registers must not mix them up.
TYPED_TEST(Expression, ManyShareOneProgram) {
  TaskConfig config = task_with_definitions();
  config.observations.clear();
  for (const Case& expected : cases()) config.observations.push_back(expression_term(expected.text));
  TaskRig<TypeParam> together(config, zoo());
  together.fill_randomly(5);
  together.observe();
  int element = 0;
  for (const Case& expected : cases()) {
    config.observations = {expression_term(expected.text)};
    TaskRig<TypeParam> alone(config, zoo());
    alone.fill_randomly(5);
    alone.observe();
    for (int k = 0; k < alone.compiled.num_observations; ++k, ++element)
      for (int env = 0; env < kTileWidth; ++env) {
        const float a = alone.at(alone.observation, k, env),
                    b = together.at(together.observation, element, env);
        // A shared product is not fused into a multiply-add.
        ASSERT_NEAR(a, b, 2e-6 * (1 + std::abs(a))) << expected.text;
      }
  }
}

TEST(ExpressionCompiler, SharesFoldsAndReusesRegisters) {
  TaskConfig config = empty_task(zoo());
  config.observations = {expression_term("2 * 3 + sqrt(16)")};
  EXPECT_EQ(compile_task(config, zoo(), 0.02).observe.instructions.size(), 1u);  // one copy of the number 10
  config.observations = {expression_term("[sin(qpos[hip]), sin(qpos[hip]) + 1, 1 + sin(qpos[hip])]")};
  // sine, sum, and a copy of the sum
  EXPECT_EQ(compile_task(config, zoo(), 0.02).observe.instructions.size(), 3u);
  std::string sum = "0";
  for (int i = 0; i < 200; ++i) sum += " + sin(" + std::to_string(i + 1) + " * qpos[hip])";
  config.observations = {expression_term(sum)};
  EXPECT_LE(compile_task(config, zoo(), 0.02).observe.num_registers, kReservedRegisters + 3);
}

// The message for a wrong observation expression.
std::string refusal(const std::string& text, const TaskConfig& config = empty_task(zoo())) {
  TaskConfig task = config;
  task.observations = {expression_term(text)};
  try {
    compile_task(task, zoo(), 0.02);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

// The caret of the message stands under this part of the text.
void expect_caret(const std::string& text, const std::string& part,
                  const std::vector<std::string>& fragments) {
  const std::string message = refusal(text);
  const std::string caret = "\n    " + text + "\n    " + std::string(text.find(part), ' ') + "^";
  EXPECT_THAT(message, HasSubstr(caret));
  EXPECT_THAT(message, HasSubstr("task.yaml:7: task.observations[0]: "));
  for (const std::string& fragment : fragments) EXPECT_THAT(message, HasSubstr(fragment));
}

TEST(ExpressionErrors, PointAtTheColumn) {
  expect_caret("1 + qpso[hip]", "qpso", {"unknown name 'qpso'", "did you mean 'qpos'?", "qvel"});
  expect_caret("qpos[hpi] + 1", "hpi", {"'qpos' has no joint 'hpi'", "did you mean 'hip'?", "knee"});
  expect_caret("qpos['h.*p.']", "'h.*p.'", {"'qpos' has no joint 'h.*p.'"});
  expect_caret("qpos['(hip']", "'(hip'", {"'(hip' is not a regular expression"});
  expect_caret("xpos[tosro].z", "tosro", {"no body 'tosro'", "did you mean 'torso'?"});
  expect_caret("sensordata[hip_rat]", "hip_rat", {"no sensor", "did you mean 'hip_rate'?"});
  expect_caret("2 * coz(1)", "coz", {"unknown function 'coz'", "did you mean 'cos'?"});
  expect_caret("qpos[99]", "99", {"which has 14", "0 to 13"});
  expect_caret("qM[hip]", "hip", {"no named elements"});
  expect_caret("ctrl + [1, 2]", "+", {"vectors of 3 and 2", "equal size"});
  expect_caret("xpos[torso].a", "a", {".x, .y or .z"});
  expect_caret("1 + * 2", "*", {"unexpected '*'"});
  expect_caret("1 < 2 < 3", "< 3", {"do not chain"});
  expect_caret("2 ** 3", "**", {"powers are written a ^ b"});
  expect_caret("a = 3", "=", {"equality is =="});
  expect_caret("1 2", "2", {"expected an operator"});
  expect_caret("2x", "x", {"multiplication is written a * b"});
  expect_caret("sin", "sin", {"write sin(...)"});
  expect_caret("atan2(1)", "atan2", {"with 1 arguments", "atan2(y, x)"});
  expect_caret("3 * terminated", "terminated", {"it is known in rewards"});
  expect_caret("ctrl[2:2]", "2]", {"empty range"});
  expect_caret("ctrl[1:9]", "1:9", {"element 8 of 'ctrl', which has 3", "0 to 2"});
  expect_caret("ctrl[3:]", "3:]", {"element 3 of 'ctrl', which has 3"});
  expect_caret("ctrl[0:2:0]", "0]", {"a range with step 0"});
  expect_caret("(2 * ctrl)[3:]", "3:]", {"element 3 of a computed vector, which has 3"});
  expect_caret("clamp(ctrl, lo = 0, high = 1)", "0,", {"'clamp' has no 'lo'", "did you mean 'low'?"});
  expect_caret("clamp(ctrl, 0, x = 1)", "1)", {"'x' a second time"});
  expect_caret("clamp(x = ctrl, 0, 1)", "0,", {"by its place after one by its name"});
  expect_caret("max(x = ctrl)", "max", {"'max' has no 'x'"});
  expect_caret("clamp(ctrl, low = 0)", "clamp", {"with 2 arguments", "clamp(x, low, high)"});
  expect_caret("rotate([1, 2], xpos[torso])", "rotate", {"a vector of 2", "xquat[body]"});
  expect_caret("rotate(xquat[torso], [1, 2])", "rotate", {"a vector of 2", "a vector of 3"});
  expect_caret("repeat(1, qpos[hip])", "[hip]", {"not a fixed number"});
  expect_caret("repeat(1, 0.5)", "0.5", {"not a number of repetitions"});
  expect_caret("1 + 'hip'", "'hip'", {"'hip' in quotes is not a value"});
  expect_caret("tolerance(ctrl, 0, 1, 1, gausian)", "gausian",
               {"unknown sigmoid", "did you mean 'gaussian'?", "tanh_squared"});
  expect_caret("tolerance(ctrl, 1, 0)", "1,", {"a lower bound above the upper one"});
  expect_caret("tolerance(ctrl, 0, 1, -1)", "-1", {"a margin below 0"});
  expect_caret("tolerance(ctrl, margin = 1, value_at_margin = 0)", "0)", {"range of 'gaussian'", "0 < "});
  expect_caret("tolerance(ctrl, margin = 1, sigmoid = linear, value_at_margin = 1)", "1)",
               {"range of 'linear'", "0 <= value_at_margin < 1"});
  expect_caret("ray_distance(tosro, [0, 0, 0])", "tosro", {"no body 'tosro'", "did you mean 'torso'?"});
  expect_caret("ray_distance('site:chst', [0, 0, 0])", "'site", {"no site 'chst'", "did you mean 'chest'?"});
  expect_caret("ray_distance(torso, [0, 0])", "[0", {"2 numbers", "points of 3"});
  expect_caret("ray_distance(torso, qpos[0:3])", "[0:3]", {"not fixed numbers"});
  expect_caret("ray_distance(torso, [0, 0, 0], [0, 0, 0])", "[0, 0, 0])", {"a direction of no length"});
  expect_caret("ray_distance(torso, repeat(0, 9), [0, 0, 1, 0, 0, 1])", "[0", {"6 numbers", "one per point"});
  expect_caret("ray_distance(torso, [0, 0, 0], alignment = yav)", "yav", {"base, yaw, world"});
  expect_caret("ray_distance(torso, [0, 0, 0], max_distance = 0)", "0)", {"not above 0"});
  expect_caret("ray_distance(torso, [0, 0, 0])", "ray_distance", {"geoms that stand still", "geoms = ["});
  expect_caret("ray_distance(torso, [0, 0, 0], geoms = tpi)", "tpi", {"'tpi'", "did you mean 'tip'?"});
  expect_caret("grid_pattern(1, 0.5, 0.3)", "1,",
               {"1 m at a resolution of 0.3 m", "a multiple of the resolution"});
  expect_caret("grid_pattern(1, 0.5, 0)", "0)", {"a resolution of 0 m", "above 0"});
  expect_caret("grid_pattern(-1, 1, 0.5)", "-1", {"-1 m at a resolution of 0.5 m"});
  expect_caret("grid_pattern(1, 1, 0.00001)", "1,", {"100001 points in a row", "at most 10000"});
  expect_caret("grid_pattern(1, 1, 0.005)", "grid_pattern", {"201 x 201 points", "at most 10000"});
  expect_caret("uniform(0.5, -0.5, 3)", "uniform", {"the range from 0.5 to -0.5", "lower end first"});
  expect_caret("normal(0, [1, -0.5])", "normal", {"the standard deviation -0.5", "at least 0"});
  expect_caret("act + 1", "act", {"no elements of 'act'"});
  EXPECT_THAT(refusal("(1 + 2"),
              HasSubstr("unexpected end of the expression; expected ')'\n    (1 + 2\n          ^"));
  EXPECT_THAT(refusal(" "), HasSubstr("empty expression"));
}

TEST(ExpressionErrors, SayHowOtherSpellingsAreWritten) {
  expect_caret("ctrl > 1 and ctrl < 2", "and", {"'and' is written a && b"});
  expect_caret("ctrl > 1 or ctrl < 2", "or", {"'or' is written a || b"});
  expect_caret("not ctrl", "not", {"'not' is written !a"});
  expect_caret("1 + not(ctrl)", "not", {"'not' is written !a"});
  expect_caret("1 if ctrl else 2", "if", {"'x if c else y' is written c ? x : y"});
  expect_caret("7 // 2", "//", {"floor(a / b)"});
  expect_caret("7 % 2", "%", {"mod(a, b)"});
  expect_caret("True", "True", {"true is 1"});
  expect_caret("1 + ctrl.norm(2)", "norm", {"functions stand alone"});
}

TEST(ExpressionErrors, ShowTheLineOfALongExpression) {
  EXPECT_THAT(refusal("1 +\n  2 * nothing\n + 3"), HasSubstr("\n      2 * nothing\n          ^"));
}

TEST(ExpressionErrors, PointIntoDefinitions) {
  TaskConfig task = empty_task(zoo());
  task.definitions = {{"speed", "norm(qvle)"}};
  task.where_definitions = {{"speed", {"task.yaml", 3, 0}}};
  const std::string message = refusal("1 + speed", task);
  EXPECT_THAT(message, HasSubstr("task.yaml:3: task.definitions.speed: unknown name 'qvle'"));
  EXPECT_THAT(message, HasSubstr("\n    norm(qvle)\n         ^"));
  EXPECT_THAT(refusal("1", task), HasSubstr("unknown name 'qvle'"));  // though nothing uses it

  task.definitions = {{"a", "b + 1"}, {"b", "a"}};
  EXPECT_THAT(refusal("a", task), HasSubstr("uses itself"));
  task.definitions = {{"qpos", "1"}};
  EXPECT_THAT(refusal("1", task), HasSubstr("already the name of a quantity"));
  task.definitions = {{"sin", "1"}};
  EXPECT_THAT(refusal("1", task), HasSubstr("already the name"));
}

}  // namespace
}  // namespace maniple::of_expression
