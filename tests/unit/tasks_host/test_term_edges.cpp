// Edge cases of terms, which random numbers do not reach: draws of resets, number by number, conditions just
// before and beyond their thresholds, and the last element of each term.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "kernels/base/philox.hpp"
#include "tests/unit/tasks/task_rig.hpp"

namespace maniple::of_term_edges {
namespace {

using maniple::testing::empty_task;
using maniple::testing::expression_term;
using maniple::testing::import_text;
using maniple::testing::library_term;
using maniple::testing::TaskRig;

using Rig = TaskRig<Lanes<double>>;
using Parameters = std::map<std::string, std::vector<double>>;
const std::vector<bool> kAll(kTileWidth, true);
constexpr double kPi = 3.14159265358979323846, kClose = 1e-6;
// Elements of qpos and qvel; the only other body is that of the ball joint.
constexpr int kLeft = 7, kRight = 8, kRail = 9, kNeck = 10, kLeftDof = 6, kRightDof = 7, kRailDof = 8;
constexpr int kTorso = 1;

const ImportedModel& robot() {
  static const ImportedModel model = import_text(R"(
    <mujoco>
      <compiler angle="radian" autolimits="true"/>
      <default><geom contype="0" conaffinity="0" type="sphere" size="0.1" mass="1"/></default>
      <worldbody>
        <body name="torso" pos="0.1 0.2 1.3" quat="0.6 0 0.8 0"><freejoint name="root"/><geom/>
          <body name="left_leg"><joint name="left" axis="0 1 0" range="-1 3" ref="0.4"/><geom/></body>
          <body name="right_leg"><joint name="right" axis="0 1 0"/><geom/></body>
          <body name="cart"><joint name="rail" type="slide" axis="1 0 0" range="0.5 2.5" ref="1"/><geom/></body>
          <body name="head"><joint name="neck" type="ball"/><geom/></body>
        </body>
      </worldbody>
      <actuator><motor name="motor" joint="left"/></actuator>
    </mujoco>)");
  return model;
}

// Draw k of the first program of this purpose that an environment runs.
double drawn(RandomPurpose purpose, int env, int k) {
  const PhiloxBlock block =
      random_block(42, purpose, static_cast<std::uint64_t>(env), 0, static_cast<std::uint32_t>(k / 4));
  return uniform01<double>(block.word[k % 4]);
}

std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b) {
  return {a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
          a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
          a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
          a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0]};
}

// Fresh states under one reset term, from random ones.
void check_reset(const TermConfig& term, const std::function<void(const Rig&, int env)>& check) {
  TaskConfig config = empty_task(robot());
  config.resets = {term};
  Rig rig(config, robot());
  rig.reset(kAll);
  for (int env = 0; env < kTileWidth; ++env) check(rig, env);
}

double between(const std::vector<double>& range, double u) {
  return range[0] + (range[1] - range[0]) * u;
}

TEST(TermEdges, JointsAreResetToWhatIsDrawn) {
  for (const bool scale : {false, true}) {
    const std::vector<double> positions{-3, 4}, velocities{-1, 2};
    check_reset(
        library_term(scale ? "reset_joints_by_scale" : "reset_joints_by_offset", {"left", "right", "rail"},
                     "joints", {{"position_range", positions}, {"velocity_range", velocities}}),
        [&](const Rig& rig, int env) {
          const auto u = [&](int k) { return drawn(RandomPurpose::reset, env, k); };
          const auto moved = [&](double base, int k) {
            return scale ? base * between(positions, u(k)) : base + between(positions, u(k));
          };
          EXPECT_NEAR(rig.get("qpos", kRight, env), moved(0, 1), 1e-12);
          EXPECT_NEAR(rig.get("qpos", kLeft, env), std::clamp(moved(0.4, 0), -1.0, 3.0), 1e-12);
          EXPECT_NEAR(rig.get("qpos", kRail, env), std::clamp(moved(1, 2), 0.5, 2.5), 1e-12);
          const int dofs[]{kLeftDof, kRightDof, kRailDof};
          for (int k = 0; k < 3; ++k)
            EXPECT_NEAR(rig.get("qvel", dofs[k], env), scale ? 0 : between(velocities, u(3 + k)), 1e-12);
        });
  }
}

TEST(TermEdges, RootsAreResetToWhatIsDrawn) {
  const std::vector<std::string> names{"x",  "y",  "z",  "roll", "pitch", "yaw",
                                       "vx", "vy", "vz", "wx",   "wy",    "wz"};
  Parameters ranges;
  for (std::size_t k = 0; k < names.size(); ++k)
    ranges[names[k]] = {-0.5 - 0.1 * static_cast<double>(k), 1.1 + 0.1 * static_cast<double>(k)};
  check_reset(library_term("reset_root_state_uniform", {}, "", ranges), [&](const Rig& rig, int env) {
    const auto draw = [&](int k) {
      return between(ranges.at(names[static_cast<std::size_t>(k)]), drawn(RandomPurpose::reset, env, k));
    };
    const double base[3]{0.1, 0.2, 1.3};
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(rig.get("qpos", k, env), base[k] + draw(k), 1e-12);
    const auto turn = [&](int k, int axis) {
      std::vector<double> q{std::cos(draw(k) / 2), 0, 0, 0};
      q[static_cast<std::size_t>(1 + axis)] = std::sin(draw(k) / 2);
      return q;
    };
    const std::vector<double> q =
        product({0.6, 0, 0.8, 0}, product(turn(5, 2), product(turn(4, 1), turn(3, 0))));
    for (int k = 0; k < 4; ++k)
      EXPECT_NEAR(rig.get("qpos", 3 + k, env), q[static_cast<std::size_t>(k)], 1e-12);
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(rig.get("qvel", k, env), draw(6 + k), 1e-12);
    // drawn in world axes, kept in those of the body: w' = conj(q) w q
    const std::vector<double> spin =
        product({q[0], -q[1], -q[2], -q[3]}, product({0, draw(9), draw(10), draw(11)}, q));
    for (int k = 0; k < 3; ++k)
      EXPECT_NEAR(rig.get("qvel", 3 + k, env), spin[static_cast<std::size_t>(1 + k)], 1e-12);
  });
}

TEST(TermEdges, JointsAreRandomizedInTheirRanges) {
  check_reset(library_term("randomize_limited_and_rotational_joints"), [&](const Rig& rig, int env) {
    const auto u = [&](int k) { return drawn(RandomPurpose::reset, env, k); };
    const double length = std::sqrt(u(0) * u(0) + u(1) * u(1) + u(2) * u(2) + u(3) * u(3));
    for (int k = 0; k < 4; ++k) EXPECT_NEAR(rig.get("qpos", 3 + k, env), u(k) / length, 1e-12);
    EXPECT_NEAR(rig.get("qpos", kLeft, env), -1 + 4 * u(4), 1e-12);
    EXPECT_NEAR(rig.get("qpos", kRight, env), -kPi + 2 * kPi * u(5), 1e-12);
    EXPECT_NEAR(rig.get("qpos", kRail, env), 0.5 + 2 * u(6), 1e-12);
    double squares = 0;
    for (int k = 0; k < 4; ++k) squares += rig.get("qpos", kNeck + k, env) * rig.get("qpos", kNeck + k, env);
    EXPECT_NEAR(squares, 1, 1e-12);
    EXPECT_NE(rig.get("qpos", kNeck, env), 1);
  });
}

TEST(TermEdges, NormalDrawsAreThoseOfBoxAndMuller) {
  TermConfig term = expression_term("normal(0.3, 2)");
  term.target = "qpos[right]";
  check_reset(term, [&](const Rig& rig, int env) {
    const auto u = [&](int k) { return drawn(RandomPurpose::reset, env, k); };
    const double radius = std::sqrt(-2 * std::log(u(0) + std::ldexp(1, -24)));
    EXPECT_NEAR(rig.get("qpos", kRight, env), 0.3 + 2 * radius * std::cos(2 * kPi * u(1)), 1e-12);
  });
}

TEST(TermEdges, FunctionsOfOneNumber) {
  const std::vector<std::pair<std::string, std::function<double(double)>>> cases{
      {"pow(abs(%), 1.5)", [](double x) { return std::pow(std::abs(x), 1.5); }},
      {"product([%, 3, % + 1])", [](double x) { return 3 * x * (x + 1); }},
      {"% * size([%, 1, 2])", [](double x) { return 3 * x; }},
      {"tolerance(%, lower = 3, upper = inf, margin = 4, sigmoid = linear, value_at_margin = 0)",
       [](double x) { return std::max(0.0, 1 - (3 - x) / 4); }},
      {"tolerance(%, -0.5, 0.5, 1)",
       [](double x) { return std::pow(0.1, std::pow(std::max(std::abs(x) - 0.5, 0.0), 2)); }}};
  TaskConfig config = empty_task(robot());
  config.observations.clear();
  for (const auto& [text, formula] : cases) {
    std::string expression = text;
    for (std::size_t at = expression.find('%'); at != std::string::npos; at = expression.find('%'))
      expression.replace(at, 1, "qvel[rail]");
    config.observations.push_back(expression_term(expression));
  }
  Rig rig(config, robot());
  rig.fill_randomly(4);
  rig.observe();
  for (int env = 0; env < kTileWidth; ++env)
    for (std::size_t i = 0; i < cases.size(); ++i)
      EXPECT_NEAR(rig.at(rig.observation, static_cast<int>(i), env),
                  cases[i].second(rig.get("qvel", kRailDof, env)), 1e-9)
          << cases[i].first;
}

// A number and an expression of curricula that is the same number.
TEST(TermEdges, CurriculaStandForNumbers) {
  for (const TermConfig& numbers : {library_term("reset_joints_by_offset", {"left"}, "joints",
                                                 {{"position_range", {-1, 2}}, {"velocity_range", {0, 3}}}),
                                    library_term("reset_root_state_uniform", {}, "",
                                                 {{"x", {-2, 1}}, {"yaw", {0, 3}}, {"wz", {1, 1}}})}) {
    TermConfig expressions = numbers;
    for (auto& [name, range] : expressions.parameters)
      for (TermNumber& end : range) end = TermNumber("level * " + std::to_string(end.value / 2));
    std::vector<std::vector<double>> states;
    for (const TermConfig& term : {numbers, expressions}) {
      TaskConfig config = empty_task(robot());
      config.resets = {term};
      TermConfig level;
      level.name = "level";
      level.reset = "2";
      config.curricula = {level};
      Rig rig(config, robot());
      rig.reset(kAll);
      states.emplace_back();
      for (int env = 0; env < kTileWidth; ++env) {
        for (int i = 0; i < robot().sizes.nq; ++i) states.back().push_back(rig.get("qpos", i, env));
        for (int i = 0; i < robot().sizes.nv; ++i) states.back().push_back(rig.get("qvel", i, env));
      }
    }
    for (std::size_t i = 0; i < states[0].size(); ++i) EXPECT_NEAR(states[1][i], states[0][i], 1e-14);
  }
}

struct Edge {
  TermConfig term;
  std::string field;
  int element = 0;
  double threshold = 0;
  bool beyond_is_above = true;
};

TEST(TermEdges, EpisodesEndBeyondTheThreshold) {
  const TermConfig manual =
      library_term("joint_pos_out_of_manual_limit", {"left", "right"}, "joints", {{"bounds", {-0.5, 0.75}}});
  const TermConfig limits = library_term("joint_pos_out_of_limit", {"left", "rail"});
  const std::vector<Edge> edges{
      {manual, "qpos", kRight, 0.75},
      {manual, "qpos", kLeft, -0.5, false},
      {library_term("joint_vel_out_of_manual_limit", {"left", "right"}, "joints", {{"max_velocity", {1.25}}}),
       "qvel", kRightDof, 1.25},
      {library_term("bad_orientation", {}, "", {{"limit_angle", {1.2}}}), "xmat", 9 * kTorso + 8,
       std::cos(1.2), false},
      {library_term("root_height_below_minimum", {}, "", {{"minimum_height", {0.3}}}), "xpos", 3 * kTorso + 2,
       0.3, false},
      {limits, "qpos", kRail, 2.5},
      {limits, "qpos", kLeft, -1, false}};
  for (const Edge& edge : edges)
    for (const bool above : {false, true}) {
      TaskConfig config = empty_task(robot());
      config.terminations = {edge.term};
      Rig rig(config, robot());
      for (int env = 0; env < kTileWidth; ++env)
        rig.set(edge.field, edge.element, env, edge.threshold + (above ? kClose : -kClose));
      EXPECT_EQ(rig.evaluate()[0], above == edge.beyond_is_above) << edge.term.term << " " << edge.element;
    }
}

TEST(TermEdges, RewardsCountTheLastElement) {
  TaskConfig config = empty_task(robot());
  config.reward_times_dt = false;
  config.rewards = {
      library_term("joint_acc_l2", {"left", "rail"}), library_term("joint_pos_limits", {"left", "rail"}),
      library_term("joint_pos_limits", {"left", "rail"}, "joints", {{"soft_joint_pos_limit_factor", {0.5}}})};
  Rig rig(config, robot());
  for (int env = 0; env < kTileWidth; ++env) {
    rig.set("qacc", kLeftDof, env, 2);
    rig.set("qacc", kRailDof, env, 3);
    rig.set("qpos", kLeft, env, -1.25);
    rig.set("qpos", kRail, env, 2.625);
  }
  rig.evaluate();
  EXPECT_NEAR(rig.at(rig.reward_term, 0, 3), 13, 1e-12);
  EXPECT_NEAR(rig.at(rig.reward_term, 1, 3), 0.25 + 0.125, 1e-12);
  EXPECT_NEAR(rig.at(rig.reward_term, 2, 3), 1.25 + 0.625, 1e-12);  // within [0, 2] and [1, 2]
}

TEST(TermEdges, RobotsStandBelowTheThresholdOfTheCommand) {
  for (const bool above : {false, true}) {
    TaskConfig config = empty_task(robot());
    config.reward_times_dt = false;
    config.commands = {expression_term(above ? "[0.0600001, 0, 0]" : "[0.0599999, 0, 0]", "velocity")};
    config.commands[0].every = {10};
    config.rewards = {
        library_term("stand_still_joint_deviation_l1", {"right"}, "joints", {{"command_threshold", {0.06}}})};
    Rig rig(config, robot());
    rig.reset(kAll);
    rig.observe(kAll);
    for (int env = 0; env < kTileWidth; ++env) rig.set("qpos", kRight, env, -0.5);
    rig.evaluate();
    EXPECT_NEAR(rig.at(rig.reward_term, 0, 0), above ? 0 : 0.5, 1e-12);
  }
}

// Fractions that lie just below what single environments draw; those that go ahead, too.
TEST(TermEdges, CommandsAreThoseOfTheirFractions) {
  const auto u = [](int env, int k) { return drawn(RandomPurpose::task_observation, env, k); };
  const double heading = u(3, 4) - 1e-9, standing = u(5, 5) - 1e-9, forward = u(8, 6) - 1e-9;
  TermConfig term = library_term("uniform_velocity_command", {}, "",
                                 {{"lin_vel_x", {-1, 1}},
                                  {"lin_vel_y", {-0.5, 0.7}},
                                  {"ang_vel_z", {-0.4, 0.3}},
                                  {"heading_control_stiffness", {0.5}},
                                  {"rel_heading_envs", {heading}},
                                  {"rel_standing_envs", {standing}},
                                  {"rel_forward_envs", {forward}}});
  term.name = "velocity";
  term.every = {10};
  TaskConfig config = empty_task(robot());
  config.commands = {term};
  config.observations = {library_term("generated_commands")};
  Rig rig(config, robot());
  rig.fill_randomly(3);
  rig.reset(kAll);
  rig.observe(kAll);
  int ahead = 0, slow = 0;
  for (int env = 0; env < kTileWidth; ++env) {
    const bool goes_ahead = u(env, 6) < forward;
    const double x = -1 + 2 * u(env, 0);
    const double now = std::atan2(rig.get("xmat", 9 * kTorso + 3, env), rig.get("xmat", 9 * kTorso, env));
    const double error = 0.5 * std::remainder(-kPi + 2 * kPi * u(env, 3) - now, 2 * kPi);
    std::array<double, 3> expected{goes_ahead ? std::max(std::abs(x), 0.3) : x,
                                   goes_ahead ? 0 : -0.5 + 1.2 * u(env, 1),
                                   u(env, 4) < heading ? std::clamp(error, -0.4, 0.3)
                                   : goes_ahead        ? 0
                                                       : -0.4 + 0.7 * u(env, 2)};
    if (u(env, 5) < standing) expected = {0, 0, 0};
    for (int k = 0; k < 3; ++k)
      EXPECT_NEAR(rig.at(rig.observation, k, env), expected[static_cast<std::size_t>(k)], 1e-9)
          << env << " " << k;
    ahead += goes_ahead;
    slow += goes_ahead && std::abs(x) < 0.3;
  }
  EXPECT_TRUE(ahead > 0 && ahead < kTileWidth) << ahead << " " << slow;
}

}  // namespace
}  // namespace maniple::of_term_edges
