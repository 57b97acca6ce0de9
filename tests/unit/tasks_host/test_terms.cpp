// Every term of the library against its formula, and the refusals of terms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <set>

#include "src/tasks/terms/terms.hpp"
#include "tests/unit/tasks/task_rig.hpp"

namespace maniple::of_terms {
namespace {

using maniple::testing::empty_task;
using maniple::testing::expression_term;
using maniple::testing::import_text;
using maniple::testing::library_term;
using maniple::testing::TaskRig;
using maniple::testing::zoo;
using ::testing::HasSubstr;

using Rig = TaskRig<Lanes<double>>;
using Formula = std::function<std::vector<double>(const Rig&, int env)>;

// Tested in test_locomotion_terms.cpp, which has a robot with contacts and commands; height_scan against
// libmujoco and mjlab in tests/regress/tasks/test_task_functions.py, terrain_out_of_bounds in test_terrain.py
// there.
// Those of motions: against mjlab's own functions in tests/regress/tasks/test_motion_tracking.py.
const std::set<std::string> kTestedElsewhere{"motion_anchor_pos_b",
                                             "motion_anchor_ori_b",
                                             "robot_body_pos_b",
                                             "robot_body_ori_b",
                                             "motion_global_anchor_position_error_exp",
                                             "motion_global_anchor_orientation_error_exp",
                                             "motion_relative_body_position_error_exp",
                                             "motion_relative_body_orientation_error_exp",
                                             "motion_global_body_linear_velocity_error_exp",
                                             "motion_global_body_angular_velocity_error_exp",
                                             "bad_anchor_pos",
                                             "bad_anchor_pos_z_only",
                                             "bad_anchor_ori",
                                             "bad_motion_body_pos",
                                             "bad_motion_body_pos_z_only",
                                             "generated_commands",
                                             "joint_pos_limit_normalized",
                                             "feet_contact",
                                             "feet_air_time",
                                             "feet_contact_forces",
                                             "height_scan",
                                             "track_lin_vel_xy_exp",
                                             "track_ang_vel_z_exp",
                                             "feet_air_time_positive_biped",
                                             "feet_slide",
                                             "undesired_contacts",
                                             "stand_still_joint_deviation_l1",
                                             "illegal_contact",
                                             "terrain_out_of_bounds",
                                             "track_lin_vel_xy_yaw_frame_exp",
                                             "track_ang_vel_z_world_exp"};

// Elements of the zoo (task_rig.hpp).
constexpr int kHip = 7, kKnee = 8, kRail = 13, kHipDof = 6, kKneeDof = 7, kRailDof = 11;
constexpr int kTorso = 1, kShin = 3;

double wrapped(double x) {
  return std::atan2(std::sin(x), std::cos(x));
}

// World velocity of a body's origin, out of cvel at the center of mass of its tree.
std::vector<double> velocity(const Rig& r, int env, int body, int root) {
  double w[3], arm[3];
  for (int k = 0; k < 3; ++k) {
    w[k] = r.get("cvel", 6 * body + k, env);
    arm[k] = r.get("xpos", 3 * body + k, env) - r.get("subtree_com", 3 * root + k, env);
  }
  std::vector<double> v(3);
  for (int k = 0; k < 3; ++k)
    v[static_cast<std::size_t>(k)] = r.get("cvel", 6 * body + 3 + k, env) +
                                     w[(k + 1) % 3] * arm[(k + 2) % 3] - w[(k + 2) % 3] * arm[(k + 1) % 3];
  return v;
}

// R^T v
std::vector<double> in_body(const Rig& r, int env, int body, const std::vector<double>& v) {
  std::vector<double> result(3);
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 3; ++k)
      result[static_cast<std::size_t>(i)] +=
          r.get("xmat", 9 * body + 3 * k + i, env) * v[static_cast<std::size_t>(k)];
  return result;
}

std::vector<double> angular(const Rig& r, int env, int body) {
  return {r.get("cvel", 6 * body, env), r.get("cvel", 6 * body + 1, env), r.get("cvel", 6 * body + 2, env)};
}

std::vector<double> elements(const Rig& r, int env, const char* field, const std::vector<int>& which) {
  std::vector<double> values;
  for (const int i : which) values.push_back(r.get(field, i, env));
  return values;
}

std::vector<double> gravity(const Rig& r, int env, int body) {
  const double size = std::sqrt(0.36 + 64);
  return in_body(r, env, body, {0.6 / size, 0, -8 / size});
}

TermConfig bodies(const char* term, const char* body,
                  const std::map<std::string, std::vector<double>>& p = {}) {
  return library_term(term, {body}, "bodies", p);
}

const std::vector<int> kPositions{kHip, kKnee, kRail}, kVelocities{kHipDof, kKneeDof, kRailDof};

double sum_of(const std::vector<double>& values, double (*function)(double)) {
  double sum = 0;
  for (const double x : values) sum += function(x);
  return sum;
}
double square(double x) {
  return x * x;
}
double magnitude(double x) {
  return std::abs(x);
}

TEST(Terms, ObservationsFollowTheirFormulas) {
  const std::vector<std::pair<TermConfig, Formula>> cases{
      {library_term("joint_pos"), [](const Rig& r, int e) { return elements(r, e, "qpos", kPositions); }},
      {library_term("joint_pos", {"knee", "hip"}),
       [](const Rig& r, int e) {
         return elements(r, e, "qpos", {kKnee, kHip});
       }},
      {library_term("joint_pos", {".*[pl]"}),
       [](const Rig& r, int e) {
         return elements(r, e, "qpos", {kHip, kRail});
       }},
      {library_term("joint_pos_rel"),
       [](const Rig& r, int e) {
         auto q = elements(r, e, "qpos", kPositions);
         q[0] -= 0.25;
         return q;
       }},
      {library_term("joint_vel"), [](const Rig& r, int e) { return elements(r, e, "qvel", kVelocities); }},
      {library_term("joint_vel_rel", {"left-rail"}),
       [](const Rig& r, int e) { return elements(r, e, "qvel", {kRailDof}); }},
      {library_term("joint_effort"),
       [](const Rig& r, int e) { return elements(r, e, "qfrc_actuator", kVelocities); }},
      {library_term("sensor", {"hip_rate", "hip_angle"}, "sensors"),
       [](const Rig& r, int e) {
         return elements(r, e, "sensordata", {1, 0});
       }},
      {library_term("base_pos_z"),
       [](const Rig& r, int e) { return elements(r, e, "xpos", {3 * kTorso + 2}); }},
      {library_term("root_pos_w"),
       [](const Rig& r, int e) {
         return elements(r, e, "xpos", {3, 4, 5});
       }},
      {library_term("root_quat_w"),
       [](const Rig& r, int e) {
         return elements(r, e, "xquat", {4, 5, 6, 7});
       }},
      {library_term("root_lin_vel_w"), [](const Rig& r, int e) { return velocity(r, e, kTorso, kTorso); }},
      {bodies("root_ang_vel_w", "shin"), [](const Rig& r, int e) { return angular(r, e, kShin); }},
      {bodies("base_lin_vel", "shin"),
       [](const Rig& r, int e) { return in_body(r, e, kShin, velocity(r, e, kShin, kTorso)); }},
      {bodies("base_ang_vel", "shin"),
       [](const Rig& r, int e) { return in_body(r, e, kShin, angular(r, e, kShin)); }},
      {library_term("projected_gravity"), [](const Rig& r, int e) { return gravity(r, e, kTorso); }},
      {library_term("body_pos_w", {"shin", "torso"}, "bodies"),
       [](const Rig& r, int e) {
         return elements(r, e, "xpos", {9, 10, 11, 3, 4, 5});
       }},
      {library_term("last_action"),
       [](const Rig& r, int e) { return std::vector<double>{r.at(r.action, 0, e)}; }},
  };
  std::set<std::string> tested;
  for (const auto& [term, formula] : cases) {
    tested.insert(term.term);
    TaskConfig config = empty_task(zoo());
    config.observations = {term};
    Rig rig(config, zoo());
    rig.fill_randomly(3);
    rig.apply_actions();
    rig.observe();
    for (int env = 0; env < kTileWidth; ++env) {
      const std::vector<double> values = formula(rig, env);
      ASSERT_EQ(rig.compiled.num_observations, static_cast<int>(values.size())) << term.term;
      for (std::size_t k = 0; k < values.size(); ++k)
        ASSERT_NEAR(rig.at(rig.observation, static_cast<int>(k), env), values[k], 2e-6) << term.term;
    }
  }
  for (const LibraryTerm& term : term_library()) {
    if (term.kind == TermKind::observation) {
      EXPECT_TRUE(tested.contains(term.name) || kTestedElsewhere.contains(term.name))
          << "no test for " << term.name;
    }
  }
}

TEST(Terms, RewardsFollowTheirFormulas) {
  const auto number = [](double (*function)(const Rig&, int)) {
    return [function](const Rig& r, int e) { return std::vector<double>{function(r, e)}; };
  };
  const std::vector<std::pair<TermConfig, Formula>> cases{
      {library_term("is_alive"),
       number([](const Rig& r, int e) { return r.get("qpos", kHip, e) > 1 ? 0.0 : 1.0; })},
      {library_term("is_terminated"),
       number([](const Rig& r, int e) { return r.get("qpos", kHip, e) > 1 ? 1.0 : 0.0; })},
      {bodies("lin_vel_z_l2", "shin"), number([](const Rig& r, int e) {
         return square(in_body(r, e, kShin, velocity(r, e, kShin, kTorso))[2]);
       })},
      {library_term("ang_vel_xy_l2"), number([](const Rig& r, int e) {
         const auto w = in_body(r, e, kTorso, angular(r, e, kTorso));
         return w[0] * w[0] + w[1] * w[1];
       })},
      {library_term("flat_orientation_l2"), number([](const Rig& r, int e) {
         const auto g = gravity(r, e, kTorso);
         return g[0] * g[0] + g[1] * g[1];
       })},
      {bodies("base_height_l2", "shin", {{"target_height", {0.6}}}),
       number([](const Rig& r, int e) { return square(r.get("xpos", 3 * kShin + 2, e) - 0.6); })},
      {library_term("joint_torques_l2"), number([](const Rig& r, int e) {
         return sum_of(elements(r, e, "qfrc_actuator", kVelocities), square);
       })},
      {library_term("joint_vel_l1", {"hip", "knee"}), number([](const Rig& r, int e) {
         return sum_of(elements(r, e, "qvel", {kHipDof, kKneeDof}), magnitude);
       })},
      {library_term("joint_vel_l2"),
       number([](const Rig& r, int e) { return sum_of(elements(r, e, "qvel", kVelocities), square); })},
      {library_term("joint_acc_l2", {"knee"}),
       number([](const Rig& r, int e) { return square(r.get("qacc", kKneeDof, e)); })},
      {library_term("joint_deviation_l1"), number([](const Rig& r, int e) {
         auto q = elements(r, e, "qpos", kPositions);
         q[0] -= 0.25;
         return sum_of(q, magnitude);
       })},
      {library_term("joint_pos_target_l2", {"hip", "knee"}, "joints", {{"target", {-0.3}}}),
       number([](const Rig& r, int e) {
         return square(wrapped(r.get("qpos", kHip, e)) + 0.3) +
                square(wrapped(r.get("qpos", kKnee, e)) + 0.3);
       })},
      {library_term("action_l2"), number([](const Rig& r, int e) { return square(r.at(r.action, 0, e)); })},
      {library_term("action_rate_l2"),
       number([](const Rig& r, int e) { return square(r.at(r.action, 0, e) - 0.125); })},
      {library_term("joint_pos_limits"),
       number([](const Rig&, int) { return 0.0; })},  // see LimitsOfTheModel
  };
  std::set<std::string> tested;
  for (const auto& [term, formula] : cases) {
    tested.insert(term.term);
    TaskConfig config = empty_task(zoo());
    config.rewards = {term};
    config.rewards[0].name = "reward";
    config.rewards[0].weight = -3;
    config.terminations = {expression_term("qpos[hip] > 1", "high")};
    Rig rig(config, zoo(), 0.02);
    rig.fill_randomly(4);
    for (int env = 0; env < kTileWidth; ++env) rig.set("qpos", kKnee, env, 4 * rig.get("qpos", kKnee, env));
    const auto action = rig.action;
    std::fill(rig.action.begin(), rig.action.end(), 0.125f);
    rig.apply_actions();
    rig.action = action;
    rig.apply_actions();
    rig.evaluate();
    for (int env = 0; env < kTileWidth; ++env) {
      const double value = -3 * 0.02 * formula(rig, env)[0];
      ASSERT_NEAR(rig.at(rig.reward, 0, env), value, 1e-6 * (1 + std::abs(value))) << term.term;
      ASSERT_EQ(rig.at(rig.reward_term, 0, env), rig.at(rig.reward, 0, env));
    }
  }
  for (const LibraryTerm& term : term_library()) {
    if (term.kind == TermKind::reward) {
      EXPECT_TRUE(tested.contains(term.name) || kTestedElsewhere.contains(term.name))
          << "no test for " << term.name;
    }
  }
}

TEST(Terms, TerminationsFollowTheirFormulas) {
  using Condition = bool (*)(const Rig&, int);
  const std::vector<std::pair<TermConfig, Condition>> cases{
      {library_term("joint_pos_out_of_manual_limit", {"hip", "knee"}, "joints", {{"bounds", {-1.5, 1}}}),
       [](const Rig& r, int e) {
         const double a = r.get("qpos", kHip, e), b = r.get("qpos", kKnee, e);
         return a < -1.5 || a > 1 || b < -1.5 || b > 1;
       }},
      {library_term("joint_vel_out_of_manual_limit", {"hip"}, "joints", {{"max_velocity", {1.25}}}),
       [](const Rig& r, int e) { return std::abs(r.get("qvel", kHipDof, e)) > 1.25; }},
      {bodies("bad_orientation", "shin", {{"limit_angle", {1.2}}}),
       [](const Rig& r, int e) { return std::acos(std::clamp(-gravity(r, e, kShin)[2], -1.0, 1.0)) > 1.2; }},
      {library_term("root_height_below_minimum", {}, "", {{"minimum_height", {0.3}}}),
       [](const Rig& r, int e) { return r.get("xpos", 5, e) < 0.3; }},
      {library_term("joint_pos_out_of_limit"),
       [](const Rig&, int) { return false; }},  // see LimitsOfTheModel
  };
  std::set<std::string> tested{"time_out"};  // see TaskStep.EpisodesEndInTime
  for (const auto& [term, condition] : cases) {
    tested.insert(term.term);
    TaskConfig config = empty_task(zoo());
    config.terminations = {term};
    Rig rig(config, zoo());
    rig.fill_randomly(6);
    const std::vector<bool> done = rig.evaluate();
    int count = 0;
    for (int env = 0; env < kTileWidth; ++env) {
      const bool expected = condition(rig, env);
      ASSERT_EQ(rig.at(rig.terminated, 0, env), expected ? 1.0f : 0.0f) << term.term;
      ASSERT_EQ(rig.at(rig.truncated, 0, env), 0.0f);
      ASSERT_EQ(done[static_cast<std::size_t>(env)], expected);
      count += expected;
    }
    if (term.term != "joint_pos_out_of_limit") {
      EXPECT_TRUE(count > 0 && count < kTileWidth) << term.term;
    }
  }
  for (const LibraryTerm& term : term_library()) {
    if (term.kind == TermKind::termination) {
      EXPECT_TRUE(tested.contains(term.name) || kTestedElsewhere.contains(term.name))
          << "no test for " << term.name;
    }
  }
}

// Ranges of joints matter to terms although the physics may have them switched off.
TEST(Terms, LimitsOfTheModel) {
  TaskModel model = task_model(zoo());
  model.joints[1].limited = true;
  model.joints[1].low = -0.5;
  model.joints[1].high = 0.75;
  TermConfig config = library_term("joint_pos_limits", {"hip", "knee"});
  const LibraryTerm& reward = find_term(config, TermKind::reward, "key");
  EXPECT_EQ(reward.expand(resolve_term(reward, config, model, "key", TermKind::reward))[0].text,
            "max((-0.5) - joint_pos['hip'], 0) + max(joint_pos['hip'] - 0.75, 0)");
  config.term = "joint_pos_out_of_limit";
  const LibraryTerm& termination = find_term(config, TermKind::termination, "key");
  EXPECT_EQ(
      termination.expand(resolve_term(termination, config, model, "key", TermKind::termination))[0].text,
      "(max((-0.5) - joint_pos['hip'], 0) + max(joint_pos['hip'] - 0.75, 0)) > 0");
  config = library_term("reset_joints_by_offset", {"hip"}, "joints",
                        {{"position_range", {-1, 1}}, {"velocity_range", {0, 0}}});
  const LibraryTerm& reset = find_term(config, TermKind::reset, "key");
  EXPECT_EQ(reset.expand(resolve_term(reset, config, model, "key", TermKind::reset))[0].text,
            "clamp(default_joint_pos['hip'] + uniform((-1), 1), (-0.5), 0.75)");
}

TEST(Terms, ActionsBecomeControls) {
  TaskConfig config = empty_task(zoo());
  TermConfig effort = library_term("joint_effort", {"hip"});
  effort.scale = 8;
  effort.offset = 2;
  effort.clip = {{-6, 6}};  // Nm
  TermConfig position = library_term("joint_position", {"knee"});
  position.offset = 0.5;
  TermConfig velocity = library_term("joint_velocity", {"left-rail"});
  velocity.scale = 3;
  config.actions = {effort, position, velocity};
  Rig rig(config, zoo());
  rig.fill_randomly(8);
  rig.apply_actions();
  for (int env = 0; env < kTileWidth; ++env) {
    const double torque = std::clamp(8.0 * rig.at(rig.action, 0, env) + 2, -6.0, 6.0);
    EXPECT_NEAR(rig.get("ctrl", 0, env), torque / 4, 1e-6);  // the motor's gear
    EXPECT_NEAR(rig.get("ctrl", 1, env), rig.at(rig.action, 1, env) + 0.5, 1e-6);
    EXPECT_NEAR(rig.get("ctrl", 2, env), 3 * rig.at(rig.action, 2, env), 1e-6);
    EXPECT_EQ(rig.counter(counter_clipped_actions, env),
              std::abs(8.0 * rig.at(rig.action, 0, env) + 2) > 6 ? 1 : 0);
  }
  EXPECT_EQ(rig.compiled.num_actions, 3);
  EXPECT_EQ(rig.compiled.actions[0].name, "joint_effort/hip");
}

// The default position joins the offset of position targets unless that is switched off.
TEST(Terms, PositionActionsAreRelativeToTheDefault) {
  const ImportedModel model = import_text(R"(
    <mujoco><compiler angle="radian"/><worldbody>
      <body><joint name="a" ref="0.4"/><geom size="1" contype="0" conaffinity="0"/></body></worldbody>
      <actuator><position name="servo" joint="a" kp="3"/></actuator></mujoco>)");
  for (const double use : {1.0, 0.0}) {
    TaskConfig config = empty_task(model);
    config.actions = {library_term("joint_position", {"a"}, "joints", {{"use_default_offset", {use}}})};
    EXPECT_DOUBLE_EQ(compile_task(config, model, 0.02).actions[0].offset, 0.4 * use);
  }
  TaskConfig config = empty_task(model);
  config.actions = {library_term("joint_position", {"a"})};
  EXPECT_DOUBLE_EQ(compile_task(config, model, 0.02).actions[0].offset, 0.4);
}

std::string refusal(const TaskConfig& config) {
  try {
    compile_task(config, zoo(), 0.02);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string refused_action(const TermConfig& term) {
  TaskConfig config = empty_task(zoo());
  config.actions = {term};
  return refusal(config);
}
std::string refused_reward(const TermConfig& term) {
  TaskConfig config = empty_task(zoo());
  config.rewards = {term};
  config.rewards[0].name = "speed";
  return refusal(config);
}

TEST(Terms, RefuseWhatDoesNotFit) {
  EXPECT_THAT(
      refused_action(library_term("joint_effort", {"hop"})),
      HasSubstr("task.yaml:9: task.actions[0].joints: the model has no joint 'hop', did you mean 'hip'?"));
  EXPECT_THAT(refused_action(library_term("joint_effort", {"knee"})),
              HasSubstr("'knee_servo' of joint 'knee' is not a motor"));
  EXPECT_THAT(refused_action(library_term("joint_position", {"hip"})), HasSubstr("is not a position servo"));
  EXPECT_THAT(refused_action(library_term("joint_velocity", {"knee"})), HasSubstr("is not a velocity servo"));
  EXPECT_THAT(refused_action(library_term("joint_effort", {"neck"})),
              HasSubstr("'neck' is a ball or free joint"));
  EXPECT_THAT(refused_action(library_term("joint_efort", {"hip"})),
              HasSubstr("unknown term 'joint_efort', did you mean 'joint_effort'?"));
  EXPECT_THAT(refused_action(library_term("is_alive")), HasSubstr("'is_alive' is a term of rewards"));
  EXPECT_THAT(refused_action(library_term("joint_effort")), HasSubstr("'joint_effort' without joints"));
  EXPECT_THAT(refused_action(expression_term("1")), HasSubstr("an action with an expression"));
  EXPECT_THAT(refused_action(library_term("joint_effort", {"(hip"})), HasSubstr("not a regular expression"));
  EXPECT_THAT(refused_reward(library_term("joint_vel_l1", {"torso"}, "bodies")),
              HasSubstr("'joint_vel_l1' takes no bodies; it takes joints"));
  EXPECT_THAT(refused_reward(library_term("joint_vel_l1", {}, "", {{"targt", {1}}})),
              HasSubstr("task.yaml:11: task.rewards.speed.targt: 'joint_vel_l1' takes no 'targt'"));
  EXPECT_THAT(refused_reward(library_term("joint_pos_target_l2", {"hip"})),
              HasSubstr("without 'target'; target: number"));
  EXPECT_THAT(refused_reward(library_term("joint_pos_target_l2", {"hip"}, "joints", {{"target", {1, 2}}})),
              HasSubstr("2 numbers; a number"));
  EXPECT_THAT(refused_reward(expression_term("ctrl")), HasSubstr("must be a number, found a vector of 3"));

  TaskConfig twice = empty_task(zoo());
  twice.actions.push_back(twice.actions[0]);
  EXPECT_THAT(refusal(twice), HasSubstr("actuator 'hip_motor' gets a second action"));
  TaskConfig none = empty_task(zoo());
  none.actions.clear();
  EXPECT_THAT(refusal(none), HasSubstr("no actions"));
}

// A joint without an actuator, and one with two.
TEST(Terms, RefuseJointsWithoutTheirActuator) {
  const ImportedModel model = import_text(R"(
    <mujoco><worldbody><body><joint name="free_one"/><joint name="double_one" axis="1 0 0"/>
      <joint name="good_one" axis="0 1 0"/><geom size="1" contype="0" conaffinity="0"/></body></worldbody>
      <actuator><motor name="a" joint="double_one"/><motor name="b" joint="double_one"/>
        <motor name="c" joint="good_one"/></actuator></mujoco>)");
  const auto message = [&](const char* joint) -> std::string {
    TaskConfig config = empty_task(model);
    config.actions = {library_term("joint_effort", {joint})};
    try {
      compile_task(config, model, 0.02);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message("free_one"),
              HasSubstr("joint 'free_one' has 0 actuators; joints with an actuator: good_one"));
  EXPECT_THAT(message("double_one"), HasSubstr("joint 'double_one' has 2 actuators (a, b)"));
  EXPECT_EQ(message("good_one"), "no error");
}

}  // namespace
}  // namespace maniple::of_terms
